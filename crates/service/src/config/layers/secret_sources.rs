//! The files that secrets were read from, so that somebody can look who else may read them.

use std::path::{Path, PathBuf};

use super::effective::without_password;
use super::{RawValue, SECRETS, Settings};

/// A file that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// The setting, such as `idp.client_secret`.
    pub setting: &'static str,
    /// The file.
    pub path: PathBuf,
}

impl Settings {
    /// Notes the file that gave this setting, if there is one and what it gave is a secret.
    pub(super) fn note_secret(&mut self, key: &str, value: &RawValue, file: Option<&Path>) {
        if let Some(path) = file
            && let Some(setting) = SECRETS.into_iter().find(|secret| *secret == key && holds_secret(key, value))
        {
            self.secret_files.push(SecretFile { setting, path: path.to_owned() });
        }
    }

    /// The files that a secret was read from, also those of settings that a later layer has replaced.
    pub(in crate::config) fn secret_files(&self) -> Vec<SecretFile> {
        self.secret_files.clone()
    }
}

/// Whether there is anything to hide: an empty value is no secret, and a store's URL is one only with a password.
fn holds_secret(key: &str, value: &RawValue) -> bool {
    match value {
        RawValue::Text(text) | RawValue::Plain(text) if key == "store.url" => without_password(text) != *text,
        RawValue::Text(text) | RawValue::Plain(text) => !text.is_empty(),
        RawValue::List(items) => !items.is_empty(),
        RawValue::Number(..) | RawValue::Other(_) => true,
    }
}
