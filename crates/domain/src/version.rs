//! The running build; the binary says which it is.

/// The running version.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// The release.
    pub name: &'static str,
    /// The branch it was built from.
    pub branch: &'static str,
    /// The commit it was built from.
    pub commit: Commit,
}

/// A commit.
#[derive(Clone, Copy, Debug)]
pub struct Commit {
    /// Its hash.
    pub sha: &'static str,
    /// The first line of its message.
    pub message: &'static str,
    /// Who wrote it.
    pub author: &'static str,
    /// Epoch seconds.
    pub timestamp: u64,
}

impl Version {
    /// The release's name.
    pub const NAME: &'static str = env!("CARGO_PKG_VERSION");
    /// A build that nobody asks about.
    pub const UNKNOWN: Self = Self {
        name: Self::NAME,
        branch: "unknown",
        commit: Commit { sha: "unknown", message: "unknown", author: "unknown", timestamp: 0 },
    };
}
