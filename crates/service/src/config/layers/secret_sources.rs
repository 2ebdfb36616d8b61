//! The files that secrets were read from, to check who else can read them.

use std::path::{Path, PathBuf};

use super::effective::without_password;
use super::{Layers, RawValue, SECRETS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// The option, like `idp.client_secret`.
    pub option: &'static str,
    pub path: PathBuf,
}

impl Layers {
    /// Remembers the file this option came from, if there is one and the value is a secret.
    pub(super) fn note_secret(&mut self, key: &str, value: &RawValue, file: Option<&Path>) {
        if let Some(path) = file
            && let Some(option) = SECRETS.into_iter().find(|secret| *secret == key && holds_secret(key, value))
        {
            self.secret_files.push(SecretFile { option, path: path.to_owned() });
        }
    }

    /// The files that secrets were read from, including those that a later layer overrides.
    pub(in crate::config) fn secret_files(&self) -> Vec<SecretFile> {
        self.secret_files.clone()
    }
}

/// Whether there is anything to hide: an empty value isn't a secret, and a store's URL is one only if it has a password.
fn holds_secret(key: &str, value: &RawValue) -> bool {
    match value {
        RawValue::Text(text) | RawValue::Plain(text) if key == "store.url" => without_password(text) != *text,
        RawValue::Text(text) | RawValue::Plain(text) => !text.is_empty(),
        RawValue::List(items) => !items.is_empty(),
        RawValue::Number(..) | RawValue::Other(_) => true,
    }
}
