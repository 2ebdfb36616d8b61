//! Folders for tests: in memory where there is room, because a slow disk makes the tests take many times as long. The tests of the
//! whole service use this file, too; `scripts/test-folder` decides the same for the scripts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A folder to take instead, such as one on a real disk.
const VARIABLE: &str = "BOT_COMPANION_TEST_FOLDER";
const MEMORY: &str = "/dev/shm";
/// In kilobytes. A container often has only 64 MB there.
const ROOM: u64 = 1 << 20;
const PREFIX: &str = "bot-companion-test-";
/// What a process that is gone left behind is removed after this time.
const LEFT_BEHIND: Duration = Duration::from_hours(1);

/// A new folder of this process.
pub(crate) fn folder() -> PathBuf {
    static BASE: LazyLock<PathBuf> = LazyLock::new(|| {
        let base = base();
        remove_left_behind(&base);
        base
    });
    folder_in(&BASE)
}

/// A new folder of this process, at this place.
pub(crate) fn folder_in(base: &Path) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = base.join(format!("{PREFIX}{}-{number}", std::process::id()));
    // One of a process with the same number, long ago.
    drop(std::fs::remove_dir_all(&path));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn base() -> PathBuf {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return folder.into();
    }
    let probe = Path::new(MEMORY).join(format!("{PREFIX}{}-probe", std::process::id()));
    let is_writable = std::fs::create_dir(&probe).is_ok() && std::fs::remove_dir(&probe).is_ok();
    if is_writable && room(MEMORY) >= ROOM { MEMORY.into() } else { std::env::temp_dir() }
}

/// How many kilobytes are free there; 0 if that cannot be told.
fn room(folder: &str) -> u64 {
    let Ok(said) = Command::new("df").args(["-Pk", folder]).output() else { return 0 };
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let free = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(3));
    free.and_then(|free| free.parse().ok()).unwrap_or(0)
}

/// A test that was killed cleans up nothing, and here that costs memory.
fn remove_left_behind(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        let changed = entry.metadata().and_then(|data| data.modified()).ok();
        let is_old = changed.is_some_and(|changed| changed.elapsed().is_ok_and(|age| age > LEFT_BEHIND));
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) && is_old {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}
