//! `bot-companion users …`: blocks users, shows what is stored of one, and forgets them. A running service notices within a second.

use clap::Subcommand;
use serde_json::json;

use super::database::{self, Missing};
use super::output::OutputForm;
use super::{ConfigFile, person, print};
use crate::domain::Snowflake;
use crate::domain::audit::AuditKind;
use crate::store::BlockedUser;
use crate::untrusted::Untrusted;

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
    /// Say what is stored of a user.
    Show {
        /// The user's id at the identity provider.
        id: Snowflake,
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Forget a user: ends their sessions, revokes their grant, removes their name and id.
    ///
    /// Their feedback stays without its author. What the bot sends of them later is stored without their name, until they sign in
    /// again. A block stays.
    Forget {
        /// The user's id at the identity provider.
        id: Snowflake,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// List the blocked users, the latest first.
    Blocked {
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
}

impl Users {
    fn config(&self) -> &ConfigFile {
        match self {
            Self::Block { config, .. }
            | Self::Unblock { config, .. }
            | Self::Show { config, .. }
            | Self::Forget { config, .. }
            | Self::Blocked { config, .. } => config,
        }
    }
}

pub(super) fn run(users: &Users) -> anyhow::Result<()> {
    let said = database::with(users.config(), Missing::Refuse, async |app| {
        Ok(match users {
            Users::Block { id, reason, .. } => {
                let ended = app.accounts.block(*id, reason.clone()).await?;
                app.audit.command(AuditKind::Blocked, "users block", Some(id.to_string()), None);
                format!("User {id} is blocked; {ended} session(s) ended.\n")
            }
            Users::Unblock { id, .. } if app.store.unblock(*id).await? => {
                app.audit.command(AuditKind::Unblocked, "users unblock", Some(id.to_string()), None);
                format!("User {id} may sign in again.\n")
            }
            Users::Unblock { id, .. } => format!("User {id} was not blocked.\n"),
            Users::Show { id, form, .. } => person::show(app, *id, *form).await?,
            Users::Forget { id, yes, .. } => person::forget(app, *id, *yes).await?,
            Users::Blocked { form, .. } => {
                let blocked = app.store.blocked().await?;
                let value = |entry: &BlockedUser| json!({ "user": entry.user.to_string(), "since": entry.since.iso8601(), "reason": entry.reason });
                let cells = |entry: &BlockedUser| {
                    let since = format!("since {}", entry.since.iso8601());
                    vec![entry.user.to_string(), since, Untrusted(&entry.reason).to_string()]
                };
                form.list(&blocked, "Nobody is blocked.", value, cells)
            }
        })
    })?;
    print(&said)
}
