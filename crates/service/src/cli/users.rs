//! `bot-companion users …`: blocks users, shows what is stored about them, and forgets them. A running service notices within a
//! second.

use clap::Subcommand;
use domain::Snowflake;
use domain::audit::AuditKind;
use serde_json::json;
use store::BlockedUser;
use telemetry::untrusted::Untrusted;

use super::database::{self, Missing};
use super::output::counted;
use super::{CommandOptions, person, print};

#[derive(Debug, Subcommand)]
pub(super) enum Users {
    /// Block a user: end all their sessions and refuse their sign-ins.
    Block {
        /// The user's ID at the identity provider.
        id: Snowflake,
        /// The reason, shown by `users blocked`.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Allow a blocked user to sign in again.
    Unblock {
        /// The user's ID at the identity provider.
        id: Snowflake,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Show what is stored about a user.
    Show {
        /// The user's ID at the identity provider.
        id: Snowflake,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Forget a user: end their sessions, revoke their grant, and remove their name and ID.
    ///
    /// Their feedback stays, without an author. Anything the bot sends about them later is stored without their name, until
    /// they sign in again. A block stays in place.
    Forget {
        /// The user's ID at the identity provider.
        id: Snowflake,
        /// Don't ask for confirmation.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// List the blocked users, most recent first.
    Blocked(CommandOptions),
}

pub(super) fn run(users: &Users) -> anyhow::Result<()> {
    let said = match users {
        Users::Block { id, reason, options } => database::with(&options.config, Missing::Refuse, async |app| {
            let since = app.sources.clock.now();
            let ended = app.accounts.block(*id, reason.clone()).await?;
            app.sources.audit.command(AuditKind::Blocked, "users block", Some(id.to_string()), None);
            let value = json!({ "user": id, "since": since.iso8601(), "reason": reason, "sessions_ended": ended });
            let sessions = counted(ended as u64, "session");
            Ok(options.form.one(&value, || format!("User {id} is blocked; {sessions} ended.\n")))
        }),
        Users::Unblock { id, options } => database::with(&options.config, Missing::Refuse, async |app| {
            let unblocked = app.sources.store.unblock(*id).await?;
            if unblocked {
                app.sources.audit.command(AuditKind::Unblocked, "users unblock", Some(id.to_string()), None);
            }
            let text = if unblocked { "may sign in again" } else { "was not blocked" };
            Ok(options.form.one(&json!({ "user": id, "unblocked": unblocked }), || format!("User {id} {text}.\n")))
        }),
        Users::Show { id, options } => {
            database::reading(&options.config, async |reading| person::show(reading, *id, options.form).await)
        }
        Users::Forget { id, yes, options } => database::with(&options.config, Missing::Refuse, async |app| {
            person::forget(app, *id, *yes, options.form).await
        }),
        Users::Blocked(CommandOptions { form, config }) => {
            let blocked = database::reading(config, async |reading| Ok(reading.store.blocked().await?))?;
            let value = |entry: &BlockedUser| json!({ "user": entry.user.to_string(), "since": entry.since.iso8601(), "reason": entry.reason });
            let cells = |entry: &BlockedUser| {
                let since = format!("since {}", entry.since.iso8601());
                vec![entry.user.to_string(), since, Untrusted(&entry.reason).to_string()]
            };
            Ok(form.list(&blocked, "Nobody is blocked.", value, cells))
        }
    }?;
    print(&said)
}
