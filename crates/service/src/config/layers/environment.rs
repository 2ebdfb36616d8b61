//! Environment variables, the layer that overrides all others.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::super::secret_file::secret_file;
use super::super::suggest::suggest;
use super::{GivenValue, Layers, RawValue, SECRETS, SourceLocation, variable};

/// Variables with our prefix that aren't options: they are for the build, the SDKs and the command line.
const NOT_OPTIONS: [&str; 3] = ["COMPANION_URL", "COMPANION_BOT_KEY", "COMPANION_CONFIG"];
const FOREIGN_PREFIX: &str = "COMPANION_BUILD_";

impl Layers {
    /// Adds the environment, which overrides all other layers.
    pub(in crate::config) fn environment(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) {
        let keys: BTreeMap<String, String> = self.given.keys().map(|key| (variable(key), key.clone())).collect();
        let mut ours: Vec<_> = variables
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| name.starts_with("COMPANION_") && !name.starts_with(FOREIGN_PREFIX))
            .filter(|(name, _)| !NOT_OPTIONS.contains(&name.as_str()))
            .collect();
        ours.sort();
        let order = self.count;
        self.count += 1;
        for (index, (name, value)) in ours.iter().enumerate() {
            let direct = name.strip_suffix("_FILE").filter(|name| is_secret_variable(name));
            let file = direct.map(|_| PathBuf::from(value));
            let location = SourceLocation { order: (order, index), text: name.escape_debug().to_string(), file };
            let Some(key) = keys.get(direct.unwrap_or(name)) else {
                self.unknown_variable(name, &keys, location);
                continue;
            };
            if let Some(direct) = direct
                && ours.iter().any(|(other, _)| other == direct)
            {
                self.problem(None, location, format!("{direct} is set too; set only one of the two"));
                continue;
            }
            let read = match (direct, value.to_str()) {
                (_, None) => Err("the value is not UTF-8 text".to_owned()),
                (None, Some(value)) => Ok(value.to_owned()),
                (Some(_), Some(path)) => secret_file(path),
            };
            match read {
                Ok(text) => {
                    let given = GivenValue { value: RawValue::Plain(text), location };
                    self.given.entry(key.clone()).or_default().push(given);
                }
                Err(reason) => self.problem(None, location, reason),
            }
        }
    }

    fn unknown_variable(&mut self, name: &str, keys: &BTreeMap<String, String>, location: SourceLocation) {
        let files: Vec<String> = SECRETS.iter().map(|key| format!("{}_FILE", variable(key))).collect();
        let documented = keys.iter().filter(|(_, key)| self.is_documented(key)).map(|(variable, _)| variable);
        let candidates = documented.chain(&files).map(String::as_str);
        let similar = suggest(name, name.trim_start_matches("COMPANION"), candidates);
        let similar = similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default();
        self.problem(None, location, format!("there is no such option{similar}"));
    }
}

fn is_secret_variable(name: &str) -> bool {
    SECRETS.iter().any(|key| variable(key) == name)
}
