//! The files that secrets were read from, to check who else can read them.

use std::path::PathBuf;

use super::effective::without_password;
use super::{Layers, RawValue, SECRETS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// The option, like `idp.client_secret`.
    pub option: &'static str,
    pub path: PathBuf,
}

impl Layers {
    /// The files that secrets were read from, including those that a later layer overrides.
    pub(in crate::config) fn secret_files(&self) -> Vec<SecretFile> {
        let of_option = |option: &'static str| {
            let given = self.given.get(option).into_iter().flatten();
            let secrets = given.filter(move |given| holds_secret(option, &given.value));
            secrets.filter_map(move |given| Some(SecretFile { option, path: given.location.file.clone()? }))
        };
        SECRETS.into_iter().flat_map(of_option).collect()
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
