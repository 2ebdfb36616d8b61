//! The running build, fixed when it was built (see `build.rs`).

/// The running version.
#[derive(Clone, Debug)]
pub struct Version {
    /// The release.
    pub name: &'static str,
    /// The branch it was built from.
    pub branch: &'static str,
    /// The commit it was built from.
    pub commit: Commit,
}

/// A commit.
#[derive(Clone, Debug)]
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

    /// This build's.
    pub fn running() -> Self {
        Self {
            name: Self::NAME,
            branch: env!("COMPANION_BUILD_BRANCH"),
            commit: Commit {
                sha: env!("COMPANION_BUILD_SHA"),
                message: env!("COMPANION_BUILD_MESSAGE"),
                author: env!("COMPANION_BUILD_AUTHOR"),
                timestamp: env!("COMPANION_BUILD_TIMESTAMP").parse().unwrap_or(0),
            },
        }
    }
}
