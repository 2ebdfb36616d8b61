//! A folder for one test, gone when the test ends.

use std::path::{Path, PathBuf};

use crate::random::secret_bytes;

pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        let mut name = [0; 8];
        secret_bytes(&mut name);
        let path = std::env::temp_dir().join(format!("bot-companion-test-{:016x}", u64::from_be_bytes(name)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
