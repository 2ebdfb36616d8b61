//! A folder for one test, gone with it. It is in memory where there is room, because a slow disk makes the tests take many times as
//! long. `scripts/test-folder` decides the same for the scripts.
#![allow(clippy::unwrap_used, clippy::new_without_default, reason = "only tests use it")]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use tempfile::{Builder, TempDir};

/// Overrides the folder that all of them are created in, for example one on a real disk.
const VARIABLE: &str = "BOT_COMPANION_TEST_FOLDER";
const MEMORY: &str = "/dev/shm";
/// In bytes. A container often has only 64 MB there.
const ROOM: u64 = 1 << 30;
const PREFIX: &str = "bot-companion-test-";
/// No test takes this long: an older folder was left by one that was killed.
const OLD: Duration = Duration::from_hours(3);

pub struct TestFolder(TempDir);

impl TestFolder {
    pub fn new() -> Self {
        static BASE: LazyLock<PathBuf> = LazyLock::new(|| {
            let base = base();
            std::fs::create_dir_all(&base).unwrap();
            remove_old(&base);
            base
        });
        Self(Builder::new().prefix(PREFIX).tempdir_in(&*BASE).unwrap())
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Something in it, by its name.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }
}

fn base() -> PathBuf {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return folder.into();
    }
    let is_writable = Builder::new().prefix(PREFIX).tempdir_in(MEMORY).is_ok();
    if is_writable && room(MEMORY) >= ROOM { MEMORY.into() } else { std::env::temp_dir() }
}

/// How many bytes are free there; 0 if that cannot be told.
fn room(folder: &str) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Removes what killed tests left, so that it does not fill the memory.
fn remove_old(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|data| data.modified()).ok();
        let is_old = changed.is_some_and(|changed| changed.elapsed().is_ok_and(|age| age > OLD));
        if is_old && entry.file_name().to_string_lossy().starts_with(PREFIX) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}
