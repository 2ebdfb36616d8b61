//! Environment variables, the layer that overrides all others.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::super::suggest::suggest;
use super::{GivenValue, Layers, RawValue, SourceLocation, variable};

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
        for (index, (name, value)) in ours.into_iter().enumerate() {
            let location = SourceLocation { order: (order, index), text: name.escape_debug().to_string(), file: None };
            let Some(key) = keys.get(&name) else {
                self.unknown_variable(&name, &keys, location);
                continue;
            };
            match value.into_string() {
                Ok(text) => {
                    let given = GivenValue { value: RawValue::Plain(text), location };
                    self.given.entry(key.clone()).or_default().push(given);
                }
                Err(_) => self.problem(None, location, "the value is not UTF-8 text".to_owned()),
            }
        }
    }

    fn unknown_variable(&mut self, name: &str, keys: &BTreeMap<String, String>, location: SourceLocation) {
        let documented = keys.iter().filter(|(_, key)| self.is_documented(key)).map(|(variable, _)| variable.as_str());
        let similar = suggest(name, name.trim_start_matches("COMPANION"), documented);
        let similar = similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default();
        self.problem(None, location, format!("there is no such option{similar}"));
    }
}
