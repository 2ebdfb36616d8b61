//! The running build, fixed when it was built (see `build.rs`).

use serde::Serialize;
use utoipa::ToSchema;

/// The running version (2.9).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Version {
    /// The release.
    name: &'static str,
    /// The branch it was built from.
    branch: &'static str,
    /// The commit it was built from.
    commit: Commit,
}

/// A commit.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Commit {
    sha: &'static str,
    message: &'static str,
    author: &'static str,
    /// Epoch seconds.
    timestamp: u64,
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
