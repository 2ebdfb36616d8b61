//! Secrets that are in files of their own, and all files that secrets were read from, to check who else can read them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use runtime::file_access;

use super::effective::without_password;
use super::{GivenValue, Layers, RawValue, SECRET_FILES, SECRETS, SourceLocation};
use crate::config::value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// The option, like `idp.client_secret`.
    pub option: &'static str,
    pub path: PathBuf,
}

impl Layers {
    /// Reads the secrets that are in files of their own. If two layers set the secret and its file, the later layer wins.
    pub(in crate::config) fn read_secret_files(&mut self) {
        for (secret, file) in SECRETS.into_iter().zip(SECRET_FILES) {
            let Some(Some(path)) = self.text(file, value::optional(value::path)) else { continue };
            let layer = |given: &GivenValue| given.location.order.0;
            let direct = self.given.get(secret).and_then(|given| given.last()).filter(|given| !given.value.is_empty());
            let direct = direct.map_or(0, layer);
            let Some(named) = self.given.get(file).and_then(|given| given.last()) else { continue };
            let location = SourceLocation { file: Some(path.clone()), ..named.location.clone() };
            if direct > layer(named) {
                continue;
            }
            let read = if direct == layer(named) {
                Err(format!("{secret} is set too; set only one of the two"))
            } else {
                contents(secret, &path)
            };
            match read {
                Ok(contents) => {
                    // What is wrong with the secret is wrong in its file.
                    let text = if path.is_absolute() { path.display().to_string() } else { location.text.clone() };
                    let location = SourceLocation { text, ..location };
                    let given = GivenValue { value: RawValue::Plain(contents), location };
                    self.given.entry(secret.to_owned()).or_default().push(given);
                }
                Err(problem) => self.problem(Some(secret), location, format!("{file}: {problem}")),
            }
        }
    }

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
        value => !value.is_empty(),
    }
}

/// The contents of a secret's file, without what pasting and editors add around it.
fn contents(option: &str, path: &Path) -> Result<String, String> {
    const LONGEST: usize = 64 * 1024;
    // A path without a slash may be the secret itself.
    let shown =
        if path.is_absolute() { format!("the file {}", path.display()) } else { "the file that it names".to_owned() };
    let mut text = String::new();
    let read = fs::metadata(path).and_then(|found| {
        // Nobody may ever write to a pipe.
        if !found.is_file() {
            return Err(io::Error::other("it isn't a regular file"));
        }
        File::open(path)?.take(LONGEST as u64 + 1).read_to_string(&mut text)
    });
    read.map_err(|error| format!("{shown} {}", file_access::cannot_be_read(path, &error)))?;
    if text.len() > LONGEST {
        return Err(format!("{shown} is larger than 64 KB"));
    }
    match text.trim_start_matches('\u{feff}').trim() {
        "" => Err(format!("{shown} is empty: write {option} into it")),
        secret => Ok(secret.to_owned()),
    }
}
