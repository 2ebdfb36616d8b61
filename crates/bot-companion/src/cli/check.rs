//! `bot-companion check`: is the configuration fine?

use super::{ConfigFile, print, serve};
use crate::server;

pub(super) fn run(file: &ConfigFile) -> anyhow::Result<()> {
    let config = file.load()?;
    config.require_idp()?;
    if let Some(tls) = &config.tls {
        server::acceptor(tls)?;
    }
    let warnings = serve::cautions(&config).into_iter().map(|caution| format!("Warning: {caution}"));
    let lines: Vec<String> = warnings.chain(["The configuration is fine.\n".to_owned()]).collect();
    print(&lines.join("\n"))
}
