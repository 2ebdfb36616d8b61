//! A folder of dated backups (`backup --to FOLDER --keep COUNT`): their names, and which ones to delete.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use domain::Time;
use tracing::warn;

const PREFIX: &str = "companion-";
const SUFFIX: &str = ".backup";
/// The format of dates in names, with `0` for any digit. Sorting the names sorts them by time.
const DATE: &str = "0000-00-00T000000Z";
/// An unfinished backup that is older than this will not be finished.
const LONGEST_BACKUP: Duration = Duration::from_hours(24);

/// The file in this folder for a backup at this time.
pub(super) fn file(folder: &Path, now: Time) -> anyhow::Result<PathBuf> {
    // A missing folder may be a volume that is not mounted, so it is not created.
    ensure!(folder.is_dir(), "there is no folder {}: create it, or mount its volume", folder.display());
    Ok(folder.join(name_at(now)))
}

fn name_at(now: Time) -> String {
    format!("{PREFIX}{}{SUFFIX}", now.iso8601().replace(':', ""))
}

fn is_dated(name: &str) -> bool {
    let date = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    date.is_some_and(|date| {
        let fits =
            |(letter, pattern): (u8, u8)| if pattern == b'0' { letter.is_ascii_digit() } else { letter == pattern };
        date.len() == DATE.len() && date.bytes().zip(DATE.bytes()).all(fits)
    })
}

/// Whether an interrupted backup left this file behind long ago.
fn is_left_over(name: &str, file: &fs::Metadata, now: Time) -> bool {
    let name = name.strip_suffix(".part").and_then(|rest| rest.rsplit_once('.'));
    let is_part = name.is_some_and(|(name, process)| is_dated(name) && process.parse::<u32>().is_ok());
    let modified = file.modified().ok().and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    is_part && modified.is_some_and(|modified| modified + LONGEST_BACKUP < Duration::from_millis(now.millis()))
}

/// Deletes the oldest dated backups in the folder beyond `keep`, and the remains of interrupted ones, and returns their names.
/// Keeps `written` and everything with another name. A backup from the future, made while the clock was wrong, is kept and not
/// counted, because it would never be the oldest.
pub(super) fn delete_old(written: &Path, keep: usize, now: Time) -> anyhow::Result<Vec<String>> {
    let folder = written.parent().unwrap_or(Path::new("."));
    let unread = || format!("the backup is good, but the old ones in {} cannot be listed", folder.display());
    let mut others = Vec::new();
    let mut left_over = Vec::new();
    let mut future = Vec::new();
    let newest = name_at(now);
    for entry in fs::read_dir(folder).with_context(unread)? {
        let entry = entry.with_context(unread)?;
        // For a link, its own metadata.
        let (Ok(name), Ok(file)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
        if !file.is_file() || Some(entry.file_name().as_os_str()) == written.file_name() {
            continue;
        }
        if is_dated(&name) {
            if name > newest { future.push(name) } else { others.push(name) }
        } else if is_left_over(&name, &file, now) {
            left_over.push(name);
        }
    }
    if !future.is_empty() {
        future.sort_unstable();
        warn!(
            "these backups have a date in the future, so they are kept and not counted by --keep: {}. Was the clock wrong? \
             Delete or rename them",
            future.join(", ")
        );
    }
    others.sort_unstable();
    others.truncate((others.len() + 1).saturating_sub(keep));
    others.append(&mut left_over);
    for name in &others {
        let path = folder.join(name);
        fs::remove_file(&path)
            .with_context(|| format!("the backup is good, but an old one cannot be deleted: {}", path.display()))?;
    }
    Ok(others)
}

/// Reads `--keep`.
pub(super) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("keep at least 1: 0 would delete the backup that was just taken".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("write how many backups to keep, like 7".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use test_support::TestFolder;

    use super::*;

    #[test]
    fn only_what_it_has_named_is_dated() {
        let folder = TestFolder::new();
        let made = file(folder.root(), Time::from_seconds(1_794_784_620)).unwrap();
        let name = made.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "companion-2026-11-15T231700Z.backup");
        assert!(is_dated(name));
        for other in [
            "companion-2026-11-15.backup",
            "companion-2026-11-15T221700Z.backup.7.part",
            "companion-2026-11-15T221700Z.backup.gz",
            "companion-2026-11-15T22170xZ.backup",
            "companion-2026-11-15T221700Z",
            "my-companion-2026-11-15T221700Z.backup",
            "companion.db",
        ] {
            assert!(!is_dated(other), "{other}");
        }
        assert!(file(&folder.path("missing"), Time::from_seconds(1)).is_err());
    }

    #[test]
    fn the_oldest_go_and_nothing_else_does() {
        let folder = TestFolder::new();
        let dated = |day: u32| format!("companion-2026-11-{day:02}T000000Z.backup");
        let others = ["companion.db", "companion-2026-11-01.backup", "companion-2020-01-01T000000Z.backup.1.part"];
        for name in (1..=9).map(dated).chain(others.map(str::to_owned)) {
            fs::write(folder.path(name), "").unwrap();
        }
        fs::create_dir(folder.path("companion-2019-01-01T000000Z.backup")).unwrap();
        let left_over = "companion-2020-01-02T000000Z.backup.17.part";
        // Midnight on the ninth day.
        let now = Duration::from_hours(498_384);
        for (name, hours) in [(left_over, 25), ("companion-2020-01-02T000000Z.backup.18.part", 23)] {
            let modified = UNIX_EPOCH + now - Duration::from_hours(hours);
            fs::File::create(folder.path(name)).unwrap().set_modified(modified).unwrap();
        }
        let delete_old = |written: &Path, keep| delete_old(written, keep, Time::from_seconds(now.as_secs())).unwrap();
        let names = |wanted: std::ops::RangeInclusive<u32>| wanted.map(dated).collect::<Vec<_>>();
        assert_eq!(delete_old(&folder.path(dated(9)), 7), [dated(1), dated(2), left_over.to_owned()]);
        assert!(delete_old(&folder.path(dated(9)), 7).is_empty());
        // The clock went back: the backup just written stays.
        assert_eq!(delete_old(&folder.path(dated(3)), 2), names(4..=8));
        assert_eq!(delete_old(&folder.path(dated(3)), 1), [dated(9)]);
        assert_eq!(fs::read_dir(folder.root()).unwrap().count(), others.len() + 3, "one of the unfinished is new");
        assert!(folder.path(dated(3)).exists());
    }

    #[test]
    fn a_backup_from_the_future_takes_no_place() {
        let folder = TestFolder::new();
        let dated = |date: &str| format!("companion-{date}T000000Z.backup");
        let future = ["9999-01-01", "2026-11-04"].map(dated);
        for name in ["2026-11-01", "2026-11-02", "2026-11-03"].map(dated).iter().chain(&future) {
            fs::write(folder.path(name), "").unwrap();
        }
        // Midnight on the third day.
        let now = Time::from_seconds(1_793_664_000);
        assert_eq!(delete_old(&folder.path(dated("2026-11-03")), 2, now).unwrap(), [dated("2026-11-01")]);
        assert!(future.iter().all(|name| folder.path(name).exists()));
    }

    #[test]
    fn nothing_is_not_kept() {
        assert_eq!(count("7"), Ok(7));
        assert!(count("0").unwrap_err().contains("at least 1"));
        assert!(count("-1").is_err() && count("many").is_err());
    }
}
