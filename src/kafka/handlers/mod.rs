//! One file per family of requests. A handler is given the call and the decoded request and returns the response; it has
//! no state, does no IO of its own, and answers every error in the response's own terms.

pub(super) mod acls;
pub(super) mod admin_topics;
pub(super) mod api_versions;
pub(super) mod cluster_info;
pub(super) mod configs;
pub(super) mod fetch;
pub(super) mod groups;
pub(super) mod list_offsets;
pub(super) mod metadata;
pub(super) mod produce;
pub(super) mod producer_ids;
pub(super) mod sasl;
