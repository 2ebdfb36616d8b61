//! Where log lines go, and how they look.

use std::io::IsTerminal as _;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogConfig, LogFormat};

/// Starts logging to standard error.
pub(super) fn start(log: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.filter).with_context(|| {
        format!(
            "log.filter = {:?}: write a level such as \"info\", or directives such as \"info,bot_companion=debug\"",
            log.filter
        )
    })?;
    // If the reader of the log goes away, a failed write is by default reported on standard error, which panics. A service
    // that cannot log must not stop because of that.
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    // Colours are for a terminal; in a file they are noise.
    let lines = lines.with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match log.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
