//! The running build, as reported by the binary.

#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub name: &'static str,
    pub branch: &'static str,
    pub commit: Commit,
}

#[derive(Clone, Copy, Debug)]
pub struct Commit {
    pub sha: &'static str,
    /// The first line of its message.
    pub message: &'static str,
    pub author: &'static str,
    /// Epoch seconds.
    pub timestamp: u64,
}

impl Version {
    pub const NAME: &'static str = env!("CARGO_PKG_VERSION");
    /// For builds whose version does not matter.
    pub const UNKNOWN: Self = Self {
        name: Self::NAME,
        branch: "unknown",
        commit: Commit { sha: "unknown", message: "unknown", author: "unknown", timestamp: 0 },
    };
}
