//! The key file that is created next to the database if no key is configured.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use runtime::file_access::{self, ALL_BUT_OWNER};
use runtime::random::secret_bytes;
use secrecy::{ExposeSecret as _, SecretString};

use super::{Config, SecretKey};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("the key file {} {problem}", path.display())]
pub struct KeyFileError {
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub problem: String,
    /// It cannot be read, or does not contain a key. Otherwise it is missing and cannot be created.
    pub is_unusable: bool,
}

/// The key file next to a database.
#[derive(Debug)]
pub struct KeyFile {
    pub key: SecretKey,
    pub path: PathBuf,
    /// Whether it was just created.
    pub is_new: bool,
}

/// Where the key file of this database is, or would be.
pub fn beside(database: &Path) -> PathBuf {
    with_suffix(database, ".key")
}

impl Config {
    /// The key file next to the database, which is used if no key is configured.
    pub fn key_file(&self) -> Option<PathBuf> {
        let database = store::local_file(&self.store.url).filter(|_| self.secrets.is_empty())?;
        Some(beside(&database))
    }
}

/// The key file of a database that is gone: the service creates the database first, then the key.
pub fn without_database(database: &Path) -> Option<PathBuf> {
    let is_there = fs::metadata(database).is_ok_and(|file| file.len() > 0);
    Some(beside(database)).filter(|key| !is_there && key.exists())
}

/// The key in `<database>.key`, which is created on the first start. Processes that start at the same time all get the same
/// one.
pub fn load_or_create(database: &Path) -> Result<KeyFile, KeyFileError> {
    let path = beside(database);
    if let Some(key) = load(&path)? {
        return Ok(KeyFile { key, path, is_new: false });
    }
    let not_made = |problem: String| KeyFileError { path: path.clone(), problem, is_unusable: false };
    create(&path).map_err(|error| {
        not_made(format!("cannot be created: {error}; let the service's user write to its folder, or set secrets.keys"))
    })?;
    match load(&path)? {
        Some(key) => {
            tracing::info!(
                path = %path.display(),
                "created a key for the provider's tokens; keep a copy of it apart from the database and its backups"
            );
            Ok(KeyFile { key, path, is_new: true })
        }
        None => Err(not_made("is gone again".to_owned())),
    }
}

/// A warning if others can read the key.
pub fn caution(path: &Path) -> Option<String> {
    let advice = || format!("others can read the key file; run `chmod 600 {}`", path.display());
    file_access::is_open_to(path, ALL_BUT_OWNER).then(advice)
}

/// The key in this file; `None` if the file does not exist.
pub fn load(path: &Path) -> Result<Option<SecretKey>, KeyFileError> {
    let unusable = |problem: String| KeyFileError { path: path.to_owned(), problem, is_unusable: true };
    let text = match fs::read_to_string(path) {
        Ok(text) => SecretString::from(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let owner = file_access::owner_and_mode(path);
            let owner = if owner.is_empty() { owner } else { format!(": {owner}") };
            return Err(unusable(format!("cannot be read: {error}{owner}; run {}", file_access::remedy(path))));
        }
    };
    match text.expose_secret().trim_end().parse() {
        Ok(key) => Ok(Some(key)),
        Err(error) => {
            let remedy = "restore it from a backup, or delete it and users will have to sign in again";
            Err(unusable(format!("contains no key: {error}; {remedy}")))
        }
    }
}

/// Writes a new key to another file and links it into place. A link appears complete or not at all and, unlike a rename, never
/// replaces the key that another process just created and may already have used.
fn create(path: &Path) -> io::Result<()> {
    // If the file is lost, the new key gets another name, so that data encrypted with the lost one is recognised.
    let mut id = [0; 4];
    secret_bytes(&mut id);
    let mut bytes = [0; SecretKey::LENGTH];
    secret_bytes(&mut bytes);
    let key = SecretKey::new(format!("{:08x}", u32::from_be_bytes(id)), bytes);
    let aside = with_suffix(path, &format!(".{}.new", key.id));

    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    let written = file
        .write_all(key.to_text().expose_secret().as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .and_then(|()| match fs::hard_link(&aside, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
    let removed = fs::remove_file(&aside);
    written.and(removed)?;

    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::thread;

    use test_support::TestFolder;

    use super::*;

    #[test]
    fn is_made_once_and_read_again() {
        let folder = TestFolder::new();
        let database = folder.path("data.db");
        let first = load_or_create(&database).unwrap();
        let second = load_or_create(&database).unwrap();
        assert_eq!((first.is_new, second.is_new), (true, false));
        assert_eq!((&first.key.id, first.key.bytes()), (&second.key.id, second.key.bytes()));
        assert_ne!(first.key.bytes(), &[0; 32]);
        assert_eq!(fs::metadata(folder.path("data.db.key")).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn all_starters_get_one_key() {
        let folder = TestFolder::new();
        let database = folder.path("data.db");
        let keys: Vec<_> = thread::scope(|scope| {
            let starters: Vec<_> = (0..16).map(|_| scope.spawn(|| load_or_create(&database).unwrap().key)).collect();
            starters.into_iter().map(|starter| starter.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| key.bytes() == keys[0].bytes() && key.id == keys[0].id));
        assert_eq!(fs::read_dir(folder.path(".")).unwrap().count(), 1, "nothing is left aside");
    }

    #[test]
    fn a_broken_file_is_refused_without_showing_it() {
        let folder = TestFolder::new();
        fs::write(folder.path("data.db.key"), "hush").unwrap();
        let error = load_or_create(&folder.path("data.db")).unwrap_err().to_string();
        assert!(error.contains("data.db.key contains no key: write an ID, a colon"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = TestFolder::new();
        let error = load_or_create(&folder.path("absent/data.db")).unwrap_err().to_string();
        assert!(error.contains("absent/data.db.key cannot be created: No such file"), "{error}");
    }
}
