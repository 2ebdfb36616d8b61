//! `log.filter`. The library takes an unknown word for the name of a module, so a typo in a level would silently turn the log
//! off. Such filters are refused here.

use tracing_subscriber::EnvFilter;

use super::value::{Advice, line};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Our crates that log, by their names in the log.
const OURS: [&str; 6] = [
    "bot_companion",
    "bot_companion_service",
    "bot_companion_store",
    "bot_companion_provider",
    "bot_companion_sandbox",
    "bot_companion_telemetry",
];

pub(super) fn log_filter(text: &str) -> Result<String, Advice> {
    let general = || "write a level like \"info\", or directives like \"info,bot_companion=debug\"".to_owned();
    let text = line(text).ok().filter(|text| !text.trim().is_empty()).ok_or_else(general)?;
    let directives = directives(&text);
    for directive in &directives {
        check(directive).map_err(|why| if why.is_empty() { general() } else { format!("{why}; {}", general()) })?;
    }
    // The library does not accept spaces.
    let filter = directives.join(",");
    EnvFilter::builder().parse(&filter).map_err(|_| general())?;
    Ok(filter)
}

/// The parts between commas; commas in brackets and braces belong to a span's fields.
fn directives(filter: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_usize, 0, Vec::new());
    for (at, letter) in filter.char_indices() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(filter[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(filter[begin..].trim());
    found
}

/// What is wrong with a directive; empty if only the general advice helps.
fn check(directive: &str) -> Result<(), String> {
    // `target[span{field=value}]=level`: only the part outside the brackets is checked here.
    let (target, level) = match directive.rsplit_once(']') {
        Some((before, rest)) => (before.split('[').next().unwrap_or_default(), rest.strip_prefix('=')),
        None => match directive.split_once('=') {
            Some((target, level)) => (target, Some(level)),
            None if is_level(directive) => return Ok(()),
            None => return Err(no_level(directive)),
        },
    };
    if let Some(level) = level
        && !is_level(level.trim())
    {
        return Err(no_level(level.trim()));
    }
    let target = target.trim();
    let krate = target.split("::").next().unwrap_or_default();
    // A crate's name has no hyphen in the log.
    let meant = krate.replace('-', "_");
    let near = OURS.into_iter().find(|ours| strsim::osa_distance(&meant, ours) <= 2);
    if !OURS.contains(&krate) && (krate.contains('-') || near.is_some()) {
        let meant = near.unwrap_or(&meant);
        return Err(format!("no module is called \"{}\"; did you mean \"{meant}\"?", shown(krate)));
    }
    Ok(())
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) || ["0", "1", "2", "3", "4", "5"].contains(&word)
}

fn no_level(word: &str) -> String {
    if word.is_empty() || word.contains('=') {
        return String::new();
    }
    let lower = word.to_lowercase();
    let near = LEVELS.iter().filter_map(|level| {
        let begun = lower.len() > 2 && (lower.starts_with(level) || level.starts_with(&lower));
        let letters = strsim::osa_distance(&lower, level);
        (begun || letters == 1 || (letters == 2 && lower.len() > 3)).then_some((letters, *level))
    });
    let meant = match near.min() {
        Some((_, level)) => format!("; did you mean \"{level}\"?"),
        // The library takes it for a module, and logs everything from it.
        None if word.starts_with(OURS[0]) => format!("; for everything from that module write \"{word}=trace\""),
        None => String::new(),
    };
    format!("\"{}\" is not a level{meant}", shown(word))
}

/// A mistake may be long; its beginning is enough.
fn shown(word: &str) -> String {
    word.chars().take(40).flat_map(char::escape_debug).collect()
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
            "bot_companion=debug",
            "tokio_postgres=warn,info",
            "info,[request{id=7}]=debug",
            "bot_companion[request]=trace",
        ] {
            assert_eq!(log_filter(text), Ok(text.replace(", ", ",")));
        }
    }

    #[test]
    fn filters_that_mean_nothing_are_refused_with_what_was_meant() {
        for (text, said) in [
            ("", "write a level"),
            (" ", "write a level"),
            (",", "write a level"),
            ("info,", "write a level"),
            ("a=b=c", "write a level"),
            ("inof", "\"inof\" is not a level; did you mean \"info\"?; write a level like \"info\""),
            ("INOF", "did you mean \"info\"?"),
            ("info,bot_companion=debgu", "\"debgu\" is not a level; did you mean \"debug\"?"),
            ("warning", "did you mean \"warn\"?"),
            ("err", "did you mean \"error\"?"),
            ("6", "\"6\" is not a level; write"),
            ("verbose", "\"verbose\" is not a level; write"),
            ("bot_companion=", "write a level"),
            ("bot_companion", "for everything from that module write \"bot_companion=trace\""),
            ("hyper", "\"hyper\" is not a level; write"),
            ("info,bot-companion=debug", "no module is called \"bot-companion\"; did you mean \"bot_companion\"?"),
            ("info,bot_companon::http=debug", "did you mean \"bot_companion\"?"),
            ("info,bot_companion_stor=debug", "did you mean \"bot_companion_store\"?"),
            ("tokio-postgres=debug", "did you mean \"tokio_postgres\"?"),
            ("[request]=debgu", "did you mean \"debug\"?"),
            ("info\nwarn", "write a level"),
        ] {
            let advice = log_filter(text).unwrap_err();
            assert!(advice.contains(said), "{text:?}: {advice}");
            assert!(advice.contains("\"info,bot_companion=debug\""), "{advice}");
        }
    }
}
