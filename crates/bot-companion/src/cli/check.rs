//! `bot-companion check`: is the configuration fine?

use super::{ConfigFile, print};
use crate::server;

pub(super) fn run(file: &ConfigFile) -> anyhow::Result<()> {
    let config = file.load()?;
    config.require_idp()?;
    if let Some(tls) = &config.tls {
        server::acceptor(tls)?;
    }
    print("The configuration is fine.\n")
}
