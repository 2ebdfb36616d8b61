//! Where log lines go, and how they look.

use anyhow::Context;
use telemetry::untrusted::Untrusted;
use tracing::error;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use super::log_lines::LineFormat;
use crate::config::{LogConfig, LogFormat};

/// Starts logging to standard error. The handle changes the filter while the process runs.
pub(super) fn start(log: &LogConfig) -> anyhow::Result<reload::Handle<EnvFilter, Registry>> {
    let filter = filter(&log.filter)?;
    // If the log's reader goes away, a failed write is reported on standard error by default, which panics. A service that
    // cannot log must not stop because of that.
    let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let lines = lines.event_format(LineFormat::new(log.format));
    // Library spans only show up at the trace level.
    let lines = match log.format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).boxed(),
    };
    let (filter, handle) = reload::Layer::new(filter);
    tracing_subscriber::registry().with(filter).with(lines).init();
    std::panic::set_hook(Box::new(|panicked| {
        let place = panicked.location().map(ToString::to_string).unwrap_or_default();
        let payload = panicked.payload_as_str().unwrap_or("-");
        error!(%place, message_of_panic = %Untrusted(payload), "panicked: this is a bug");
    }));
    Ok(handle)
}

/// Warnings of libraries that clients can cause as often as they like. If you need them, set `h2=warn`.
const CAUSED_BY_CLIENTS: &str = "h2=error";

/// A filter from the text of `log.filter`.
pub(super) fn filter(text: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(format!("{CAUSED_BY_CLIENTS},{text}")).with_context(|| {
        format!("log.filter = {text:?}: write a level like \"info\", or directives like \"info,bot_companion=debug\"")
    })
}

#[cfg(test)]
mod tests {
    use test_support::TestFolder;

    use super::*;

    #[test]
    fn what_strangers_make_a_library_warn_of_is_logged_only_if_asked_for() {
        for (text, expected) in
            [("info", 1), ("info,bot_companion=debug", 1), ("info,h2=warn", 2), ("h2=debug,warn", 2)]
        {
            let folder = TestFolder::new();
            let lines = std::sync::Mutex::new(std::fs::File::create(folder.path("log")).unwrap());
            let subscriber =
                tracing_subscriber::registry().with(filter(text).unwrap()).with(fmt::layer().with_writer(lines));
            tracing::subscriber::with_default(subscriber, || {
                // A client can send as many of these as it likes.
                tracing::warn!(target: "h2::proto::ping_pong", "recv PING ack that we never sent");
                tracing::warn!(target: "other", "something else");
            });
            let written = std::fs::read_to_string(folder.path("log")).unwrap();
            assert_eq!(written.lines().count(), expected, "{text}: {written}");
        }
    }
}
