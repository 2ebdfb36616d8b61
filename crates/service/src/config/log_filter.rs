//! `log.filter`. The library takes an unknown word for the name of a module, so a typo in a level would silently turn the log
//! off. A word in the place of a level is refused here unless it is one.

use tracing_subscriber::EnvFilter;

use super::value::{Advice, line};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) fn log_filter(text: &str) -> Result<String, Advice> {
    let general = || "write a level like \"info\", or directives like \"info,bot_companion=debug\"".to_owned();
    // The library does not accept spaces.
    let filter = line(text).map_err(|_| general())?.split(',').map(str::trim).collect::<Vec<_>>().join(",");
    // The commas and signs of a span's fields are left to the library.
    let directives = filter.split(',').filter(|_| !filter.contains('{'));
    // Without a level, `target[span]` means all of it.
    let mut words = directives.filter(|one| !one.ends_with(']')).map(|one| one.rsplit('=').next().unwrap_or(one));
    if let Some(word) = words.find(|word| !is_level(word)) {
        let shown: String = word.chars().take(40).flat_map(char::escape_debug).collect();
        return Err(if shown.is_empty() { general() } else { format!("\"{shown}\" is not a level; {}", general()) });
    }
    EnvFilter::builder().parse(&filter).map_err(|_| general())?;
    Ok(filter)
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) || ["0", "1", "2", "3", "4", "5"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_mean_something_are_taken() {
        for text in [
            "info",
            "INFO",
            "off",
            "3",
            "info,bot_companion=debug",
            "warn, bot_companion::http=trace, hyper=off",
            "tokio_postgres=warn,info",
            "info,[request{id=7}]=debug",
            "bot_companion[request]=trace",
            "bot_companion[request]",
        ] {
            assert_eq!(log_filter(text), Ok(text.replace(", ", ",")));
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for (text, said) in [
            ("", "write a level"),
            (" ", "write a level"),
            ("info,", "write a level"),
            ("bot_companion=", "write a level"),
            ("info\nwarn", "write a level"),
            ("debgu", "\"debgu\" is not a level; write a level like \"info\""),
            ("info,bot_companion=debgu", "\"debgu\" is not a level"),
            ("bot_companion", "\"bot_companion\" is not a level"),
            ("6", "\"6\" is not a level"),
            ("[request]=debgu", "\"debgu\" is not a level"),
            ("a=b=c", "\"c\" is not a level"),
        ] {
            assert!(log_filter(text).is_err_and(|advice| advice.starts_with(said)), "{text:?}");
        }
    }
}
