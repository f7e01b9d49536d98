//! Bugs that are put in on purpose, so that it can be seen that the invariants of simulations notice them (feature
//! `testing`). In the product there is none: [`has`] is `false` when it is compiled.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The write-ahead log says that something is durable before it is.
    AckBeforeSync,
    /// A vote is not written down.
    ForgottenVote,
    /// A candidate says that it leads before it is elected.
    LeadsUnelected,
    /// Repeats of a producer are stored again.
    RepeatsStored,
    /// A replica passes over some appends.
    SkippedAppend,
    /// What a batch is stamped with depends on the node.
    UnevenStamp,
    /// A node that does not lead a partition reads from its copy.
    ReadWithoutLead,
    /// A checkpoint leaves out the readers' positions.
    UnsavedPositions,
    /// A node's catalog passes over some declarations.
    SkippedDeclaration,
    /// Who comes to lead after others did is never ready to answer.
    NeverReady,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::AckBeforeSync,
        Self::ForgottenVote,
        Self::LeadsUnelected,
        Self::RepeatsStored,
        Self::SkippedAppend,
        Self::UnevenStamp,
        Self::ReadWithoutLead,
        Self::UnsavedPositions,
        Self::SkippedDeclaration,
        Self::NeverReady,
    ];
}

/// Whether this process has the bug.
#[cfg(not(feature = "testing"))]
#[inline(always)]
pub const fn has(_bug: Bug) -> bool {
    false
}

/// 0: none, else the bug's number and one.
#[cfg(feature = "testing")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Puts a bug into this process, for good.
#[cfg(feature = "testing")]
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8 + 1, std::sync::atomic::Ordering::Relaxed);
}

/// Whether this process has the bug.
#[cfg(feature = "testing")]
pub fn has(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8 + 1
}
