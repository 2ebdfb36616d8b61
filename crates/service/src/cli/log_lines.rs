//! The format of log lines: text for people, JSON for machines, or text for journald, which adds the time itself and takes the
//! level from a prefix. Lines that belong to a request carry its ID. A fatal error is such a line, too.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use telemetry::request_id;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

pub(super) enum LineFormat {
    Text(Format),
    Journal(Format<Full, ()>),
    Json(Format<Json>),
}

impl LineFormat {
    /// As configured, except that text for journald has its own format.
    pub(super) fn new(format: LogFormat) -> Self {
        // Colours are for terminals; in a file they are noise.
        let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        match format {
            LogFormat::Json => Self::Json(Format::default().json().flatten_event(true)),
            LogFormat::Text if goes_to_journal() => Self::Journal(Format::default().without_time().with_ansi(false)),
            LogFormat::Text => Self::Text(Format::default().with_ansi(ansi)),
        }
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::with_capacity(256);
        let own = Writer::new(&mut line);
        match self {
            Self::Text(format) => format.format_event(context, own, event),
            Self::Journal(format) => format.format_event(context, own, event),
            Self::Json(format) => format.format_event(context, own, event),
        }?;
        // Many lines name it themselves.
        if event.metadata().fields().field("id").is_none()
            && let Some(id) = request_id::current()
            && let Ok(id) = id.to_str()
        {
            // An ID consists of letters, digits, `_` and `-`.
            let (end, addition) = match self {
                Self::Json(_) => ("}\n", format!(",\"id\":\"{id}\"}}\n")),
                Self::Text(_) | Self::Journal(_) => ("\n", format!(" id=\"{id}\"\n")),
            };
            line.truncate(line.trim_end_matches('\n').len() + 1 - end.len());
            line.push_str(&addition);
        }
        if matches!(self, Self::Journal(_)) {
            line = for_journal(*event.metadata().level(), &line);
        }
        writer.write_str(&line)
    }
}

/// Prefixes each line with its level, as in sd-daemon(3).
fn for_journal(level: Level, text: &str) -> String {
    let priority = match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    };
    text.lines().flat_map(|line| ["<", priority, ">", line.trim_start(), "\n"]).collect()
}

/// Whether standard error goes to journald; systemd says which file that is.
fn goes_to_journal() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let found = std::io::stderr().as_fd().try_clone_to_owned().and_then(|file| File::from(file).metadata());
    found.is_ok_and(|found| stream.to_str() == Some(&format!("{}:{}", found.dev(), found.ino())))
}

/// Whether a fatal error is written as JSON.
static FATAL_AS_JSON: AtomicBool = AtomicBool::new(false);

/// Writes fatal errors in the environment's format: the rest of the configuration may be what is wrong.
pub(super) fn note_environment() {
    let json = std::env::var("COMPANION_LOG_FORMAT").is_ok_and(|format| format == "json");
    FATAL_AS_JSON.store(json, Ordering::Relaxed);
}

/// Writes fatal errors in this format, once the configuration is known.
pub(super) fn note_format(format: LogFormat) {
    FATAL_AS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// The log line for a command that failed, in the format of `log.format`.
pub fn fatal_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if FATAL_AS_JSON.load(Ordering::Relaxed) {
        let mut timestamp = String::new();
        // It cannot fail, and a line without a time is better than none.
        let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
        let (level, target) = ("ERROR", "bot_companion");
        let line = serde_json::json!({"timestamp": timestamp, "level": level, "message": text, "target": target});
        return format!("{line}\n");
    }
    let mut line = String::new();
    let _ = writeln!(line, "bot-companion: {text}");
    if goes_to_journal() { for_journal(Level::ERROR, &line) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_level_for_journald() {
        assert_eq!(for_journal(Level::ERROR, "a\nb\n"), "<3>a\n<3>b\n");
        assert_eq!(for_journal(Level::WARN, " WARN x\n"), "<4>WARN x\n");
        assert_eq!(for_journal(Level::INFO, "x\n"), "<6>x\n");
        assert_eq!(
            (for_journal(Level::DEBUG, "x\n"), for_journal(Level::TRACE, "x\n")),
            ("<7>x\n".into(), "<7>x\n".into())
        );
    }
}
