//! A folder of dated backups (`backup --to FOLDER --keep COUNT`): their names, and which of them are deleted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use domain::Time;

const PREFIX: &str = "companion-";
const SUFFIX: &str = ".backup";
/// What a date looks like in a name; `0` stands for any digit. In this form, the order of names is the order of time.
const DATE: &str = "0000-00-00T000000Z";

/// The file in this folder for a backup of this time.
pub(super) fn file(folder: &Path, now: Time) -> anyhow::Result<PathBuf> {
    // A folder that is missing may be a volume that is not mounted, so none is made.
    ensure!(folder.is_dir(), "there is no folder {}: make it, or mount what it is on", folder.display());
    Ok(folder.join(format!("{PREFIX}{}{SUFFIX}", now.iso8601().replace(':', ""))))
}

/// Whether a file has the name of a dated backup.
fn is_dated(name: &str) -> bool {
    let date = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    date.is_some_and(|date| {
        let fits =
            |(letter, pattern): (u8, u8)| if pattern == b'0' { letter.is_ascii_digit() } else { letter == pattern };
        date.len() == DATE.len() && date.bytes().zip(DATE.bytes()).all(fits)
    })
}

/// Deletes the oldest dated backups of the folder beyond `keep`, and gives their names. `written` stays, whatever the dates say, and so
/// does everything that has another name.
pub(super) fn delete_old(written: &Path, keep: usize) -> anyhow::Result<Vec<String>> {
    let folder = written.parent().unwrap_or(Path::new("."));
    let unread = || format!("the backup is good, but the old ones in {} cannot be listed", folder.display());
    let mut others = Vec::new();
    for entry in fs::read_dir(folder).with_context(unread)? {
        let entry = entry.with_context(unread)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if let Ok(name) = entry.file_name().into_string()
            && is_file
            && is_dated(&name)
            && entry.path().file_name() != written.file_name()
        {
            others.push(name);
        }
    }
    others.sort_unstable();
    others.truncate((others.len() + 1).saturating_sub(keep));
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
        Ok(0) => Err("keep at least 1: with 0, the backup that was just taken would be deleted".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("write how many backups to keep, such as 7".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use test_folder::TestFolder;

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
        let names = |wanted: std::ops::RangeInclusive<u32>| wanted.map(dated).collect::<Vec<_>>();
        assert_eq!(delete_old(&folder.path(dated(9)), 7).unwrap(), names(1..=2));
        assert!(delete_old(&folder.path(dated(9)), 7).unwrap().is_empty());
        // The clock went back: what was written just now stays.
        assert_eq!(delete_old(&folder.path(dated(3)), 2).unwrap(), names(4..=8));
        assert_eq!(delete_old(&folder.path(dated(3)), 1).unwrap(), [dated(9)]);
        assert_eq!(fs::read_dir(folder.root()).unwrap().count(), others.len() + 2);
        assert!(folder.path(dated(3)).exists());
    }

    #[test]
    fn nothing_is_not_kept() {
        assert_eq!(count("7"), Ok(7));
        assert!(count("0").unwrap_err().contains("at least 1"));
        assert!(count("-1").is_err() && count("many").is_err());
    }
}
