//! Where log lines go, and how they look.

use std::io::IsTerminal as _;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{Log, LogFormat};

/// Starts logging to standard error.
pub(super) fn start(log: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&log.filter).with_context(|| {
        format!(
            "log.filter = {:?}: write a level such as \"info\", or directives such as \"info,bot_companion=debug\"",
            log.filter
        )
    })?;
    // Colours are for a terminal; in a file they are noise.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
