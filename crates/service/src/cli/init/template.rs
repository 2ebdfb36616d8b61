//! The text of a new configuration: all options, with some of them set.

use toml::Value;

use crate::config::DEFAULTS;

const HEAD: &str = "\
# The configuration of bot-companion, created by `bot-companion init`. Options that are commented out have their defaults:
# remove the `#` to change one. `bot-companion check` validates this file, and `bot-companion config --effective` shows the
# values in use.
#
";

/// The default of an option like `http.listen`.
pub(super) fn default_of(option: &str) -> String {
    let of = |(section, key): (&str, &str)| {
        let defaults: toml::Table = toml::from_str(DEFAULTS).ok()?;
        Some(defaults.get(section)?.get(key)?.as_str()?.to_owned())
    };
    option.split_once('.').and_then(of).unwrap_or_default()
}

/// The default configuration with these options set and all others commented out, so that new defaults of later releases
/// apply.
pub(super) fn render(options: &[(&str, Value)]) -> String {
    // The first paragraph is about the default configuration itself.
    let (_, reference) = DEFAULTS.split_once("\n#\n").unwrap_or(("", DEFAULTS));
    let (mut section, mut text) = (String::new(), HEAD.to_owned());
    for line in reference.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
        }
        let key = line.split_once(" = ").map(|(key, _)| key).filter(|key| !key.starts_with('#'));
        let set = key.and_then(|key| {
            let name = format!("{section}.{key}");
            options.iter().find(|(option, _)| *option == name).map(|(_, value)| format!("{key} = {value}"))
        });
        match (key, set) {
            (Some(_), Some(set)) => text.push_str(&set),
            (Some(_), None) => text.extend(["#", line]),
            (None, _) => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Layer};

    const NOTHING: [(&str, &str); 0] = [];

    #[test]
    fn what_is_set_counts_and_everything_else_has_its_default() {
        let text = render(&[
            ("http.listen", "0.0.0.0:81".into()),
            ("site.name", "A \"b\" \\ \u{1f389}".into()),
            ("http.allowed_origins", vec!["https://a.example"].into()),
        ]);
        let layer = Layer::new("companion.toml", text.clone());
        let config = Config::load_over(&[layer], None, NOTHING).unwrap();
        assert_eq!(config.http.listen.to_string(), "0.0.0.0:81");
        assert_eq!((config.site.name.as_str(), config.http.allowed_origins.len()), ("A \"b\" \\ \u{1f389}", 1));
        let set: Vec<_> = text.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')).collect();
        assert_eq!(set.len(), 3, "{set:?}");
        assert!(text.contains("\n#start_wait = \"30s\"\n"), "{text}");
        assert!(text.contains("# The address and port to listen on."), "the comments are there");
        assert!(!text.contains("Copy what you want to change"), "the reference's own head is not");
    }

    #[test]
    fn every_option_of_the_reference_is_there_once() {
        let text = render(&[]);
        let keys = |text: &str, mark: &str| {
            let keys = text.lines().filter_map(|line| line.strip_prefix(mark)?.split_once(" = "));
            keys.filter(|(key, _)| !key.contains([' ', '#'])).map(|(key, _)| key.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(keys(&text, "#"), keys(DEFAULTS, ""));
        assert_eq!(default_of("http.listen"), "127.0.0.1:8080");
    }
}
