//! One file per family of requests. A handler is given the call and the decoded request and returns the response; it has
//! no state, does no IO of its own, and answers every error in the response's own terms.

pub(super) mod groups;
