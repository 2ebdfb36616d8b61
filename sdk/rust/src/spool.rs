//! Feedback on disk: it survives the process until the service has accepted or refused it.
//!
//! The file is a journal of lines: `+ NUMBER LINE` adds an entry, `- NUMBER` removes it. It is emptied when nothing is
//! left in it, and rewritten when most of its lines are obsolete.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// A journal with more obsolete lines than this, and more than it has entries, is rewritten.
const PAST_LINES: usize = 1_000;

/// The file.
pub(crate) struct Spool {
    path: PathBuf,
    journal: File,
    /// Locked for as long as this process uses the spool.
    _lock: File,
    entries: BTreeMap<u64, String>,
    next: u64,
    past: usize,
}

impl Spool {
    /// Opens or creates the file, and reads what is in it. Fails if another process is using it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let lock = private_file(&with_suffix(path, "lock"))?;
        lock.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => io::Error::other("another process is using it"),
            std::fs::TryLockError::Error(error) => error,
        })?;
        let journal = private_file(path)?;
        let mut spool =
            Self { path: path.to_owned(), journal, _lock: lock, entries: BTreeMap::new(), next: 1, past: 0 };
        spool.read()?;
        spool.rewrite()?;
        Ok(spool)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &str)> {
        self.entries.iter().map(|(number, line)| (*number, line.as_str()))
    }

    /// Writes an entry. Returns its number.
    pub(crate) fn add(&mut self, line: &str) -> io::Result<u64> {
        let number = self.next;
        self.journal.write_all(format!("+ {number} {line}\n").as_bytes())?;
        self.next += 1;
        self.entries.insert(number, line.to_owned());
        Ok(number)
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, number: u64) -> io::Result<()> {
        if self.entries.remove(&number).is_none() {
            return Ok(());
        }
        self.past += 2;
        if self.entries.is_empty() || self.past > PAST_LINES.max(self.entries.len()) {
            return self.rewrite();
        }
        self.journal.write_all(format!("- {number}\n").as_bytes())
    }

    fn read(&mut self) -> io::Result<()> {
        for line in BufReader::new(&self.journal).split(b'\n') {
            // Skips a line that was cut off when the machine went down.
            let Ok(line) = String::from_utf8(line?) else { continue };
            let mut parts = line.splitn(3, ' ');
            let (sign, number) = (parts.next(), parts.next().and_then(|number| number.parse::<u64>().ok()));
            match (sign, number, parts.next()) {
                (Some("+"), Some(number), Some(line)) if serde_json::from_str::<serde_json::Value>(line).is_ok() => {
                    self.entries.insert(number, line.to_owned());
                    self.next = self.next.max(number + 1);
                }
                (Some("-"), Some(number), None) => drop(self.entries.remove(&number)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes what is left to a new file, which then replaces the old one.
    fn rewrite(&mut self) -> io::Result<()> {
        let path = with_suffix(&self.path, "new");
        let mut journal = private_file(&path)?;
        journal.set_len(0)?;
        let mut text = Vec::new();
        for (number, line) in &self.entries {
            writeln!(text, "+ {number} {line}")?;
        }
        journal.write_all(&text)?;
        std::fs::rename(&path, &self.path)?;
        self.journal = journal;
        self.past = 0;
        Ok(())
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// A file that only its owner can read.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in a folder that is removed with the test.
    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("bot-companion-feed-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn path(&self) -> PathBuf {
            self.0.join("spool")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn entries(spool: &Spool) -> Vec<(u64, String)> {
        spool.entries().map(|(number, line)| (number, line.to_owned())).collect()
    }

    #[test]
    fn what_was_not_removed_is_there_after_a_restart() {
        let place = Place::new("restart");
        let path = place.path();
        let mut spool = Spool::open(&path).unwrap();
        for line in [r#"{"id":"a"}"#, r#"{"id":"b c"}"#, r#"{"id":"c"}"#] {
            spool.add(line).unwrap();
        }
        spool.remove(1).unwrap();
        drop(spool);
        // The machine went down in the middle of a line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"+ 4 {\"id\":").unwrap();
        let mut spool = Spool::open(&path).unwrap();
        assert_eq!(entries(&spool), [(2, r#"{"id":"b c"}"#.to_owned()), (3, r#"{"id":"c"}"#.to_owned())]);
        assert_eq!(spool.add("{}").unwrap(), 4);
        for number in 2..=4 {
            spool.remove(number).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn the_file_does_not_grow_with_what_has_been_removed() {
        let place = Place::new("growth");
        let path = place.path();
        let mut spool = Spool::open(&path).unwrap();
        let first = spool.add("{}").unwrap();
        for _ in 0..10_000 {
            let number = spool.add("{}").unwrap();
            spool.remove(number).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 20_000);
        drop(spool);
        assert_eq!(entries(&Spool::open(&path).unwrap()), [(first, "{}".to_owned())]);
    }

    #[test]
    fn only_one_process_may_use_it() {
        let place = Place::new("lock");
        let path = place.path();
        let spool = Spool::open(&path).unwrap();
        assert!(Spool::open(&path).is_err());
        drop(spool);
        assert!(Spool::open(&path).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = Place::new("mode");
        let path = place.path();
        let mut spool = Spool::open(&path).unwrap();
        spool.add("{}").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
