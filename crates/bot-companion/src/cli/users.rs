//! `bot-companion users …`: whom the operator keeps out. A running service notices within a second.

use std::time::Duration;

use anyhow::ensure;
use clap::Subcommand;

use super::{ConfigFile, logging, print, runtime};
use crate::app::App;
use crate::clock::Clock;
use crate::config::Log;
use crate::domain::Snowflake;
use crate::outside::Outside;
use crate::random::Random;
use crate::store;

/// How long to wait for the provider to hear of a revoked grant.
const REVOCATION: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// Block a user: ends all their sessions, and they cannot sign in.
    Block {
        /// The user's id at the identity provider.
        id: Snowflake,
        /// Why; shown by `users blocked`.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Let a blocked user sign in again.
    Unblock {
        /// The user's id at the identity provider.
        id: Snowflake,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// List the blocked users, the latest first.
    Blocked {
        #[command(flatten)]
        config: ConfigFile,
    },
}

impl Users {
    fn config(&self) -> &ConfigFile {
        match self {
            Self::Block { config, .. } | Self::Unblock { config, .. } | Self::Blocked { config } => config,
        }
    }
}

pub(super) fn run(users: Users) -> anyhow::Result<()> {
    let config = users.config().load()?;
    logging::start(&Log { filter: "warn".to_owned(), ..config.log.clone() })?;
    if let Some(database) = store::local_file(&config.store.url) {
        let there = database.exists();
        ensure!(
            there,
            "there is no database at {}; give the service's own --config, or set store.url",
            database.display()
        );
    }
    runtime()?.block_on(async {
        let app = App::build(config, Clock::system(), Random::from_system()).await?;
        let said = match users {
            Users::Block { id, reason, .. } => {
                let ended = app.accounts.block(id, reason).await?;
                format!("User {id} is blocked; {ended} session(s) ended.\n")
            }
            Users::Unblock { id, .. } if app.store.unblock(id).await? => format!("User {id} may sign in again.\n"),
            Users::Unblock { id, .. } => format!("User {id} was not blocked.\n"),
            Users::Blocked { .. } => {
                let blocked = app.store.blocked().await?;
                let lines = blocked.iter().map(|entry| {
                    format!("{}  since {} (epoch)  {}\n", entry.user, entry.since.seconds(), Outside(&entry.reason))
                });
                if blocked.is_empty() { "Nobody is blocked.\n".to_owned() } else { lines.collect() }
            }
        };
        app.close(REVOCATION).await;
        print(&said)
    })
}
