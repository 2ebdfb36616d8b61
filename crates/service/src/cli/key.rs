//! `bot-companion key …`: the keys that bots use to send their data.

use anyhow::ensure;
use clap::Subcommand;
use domain::Time;
use domain::audit::AuditKind;
use domain::token::{self, TokenKind, random_text};
use runtime::random::secret_bytes;
use secrecy::ExposeSecret;
use serde_json::json;
use store::BotKey;
use telemetry::untrusted::Untrusted;

use super::database::{self, Missing};
use super::exit::UsageError;
use super::{CommandOptions, print};

const ID: usize = 8;
const LABEL: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Key {
    /// Create a key and print it. It is only shown once.
    #[command(after_help = "\
Example:
  bot-companion key create --label \"My bot\"")]
    Create {
        /// A label for the key, for example the bot's name.
        #[arg(long)]
        label: String,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// List the keys, oldest first.
    List(CommandOptions),
    /// Revoke a key. The bot that uses it can no longer send data.
    Revoke {
        /// The key's ID, from `key list`.
        id: String,
        #[command(flatten)]
        options: CommandOptions,
    },
}

pub(super) fn run(key: Key) -> anyhow::Result<()> {
    let said = match key {
        Key::Create { label, options } => create(label, &options)?,
        Key::List(options) => list(&options)?,
        Key::Revoke { id, options } => {
            let at = database::with(&options.config, Missing::Refuse, async |app| {
                let now = app.sources.clock.now();
                let revoked = app.sources.store.revoke_key(id.clone(), now).await?;
                ensure!(revoked, "there is no active key `{}`; see `bot-companion key list`", Untrusted(&id));
                app.sources.audit.command(AuditKind::Command, "key revoke", None, Some(&id));
                Ok(now)
            })?;
            let value = json!({ "id": id, "revoked": at.iso8601() });
            options.form.one(&value, || format!("Key {} is revoked.\n", Untrusted(&id)))
        }
    };
    print(&said)
}

fn create(label: String, options: &CommandOptions) -> anyhow::Result<String> {
    let fits = (1..=LABEL).contains(&label.chars().count());
    if !fits {
        return Err(UsageError(format!("--label: use 1 to {LABEL} characters")).into());
    }
    let secret = token::generate(TokenKind::BotKey, secret_bytes);
    let id = random_text(ID, secret_bytes);
    let key = database::with(&options.config, Missing::Make, async |app| {
        let key = BotKey { id: id.clone(), label, created: app.sources.clock.now(), revoked: None };
        app.sources.store.add_key(key.clone(), token::hash_of(&secret)).await?;
        app.sources.audit.command(AuditKind::Command, "key create", None, Some(&id));
        Ok(key)
    })?;
    let secret = secret.expose_secret();
    let value = json!({ "id": id, "label": key.label, "created": key.created.iso8601(), "key": secret });
    Ok(options.form.one(&value, || {
        format!("Created key {id}. Give it to the bot as COMPANION_BOT_KEY; it is only shown once:\n\n{secret}\n\n")
    }))
}

fn list(options: &CommandOptions) -> anyhow::Result<String> {
    let keys = database::reading(&options.config, async |reading| Ok(reading.store.keys().await?))?;
    let value = |key: &BotKey| {
        json!({
            "id": key.id,
            "label": key.label,
            "created": key.created.iso8601(),
            "revoked": key.revoked.map(Time::iso8601),
        })
    };
    let cells = |key: &BotKey| {
        let state = key.revoked.map_or_else(String::new, |at| format!("revoked {}", at.iso8601()));
        vec![
            Untrusted(&key.id).to_string(),
            format!("created {}", key.created.iso8601()),
            state,
            Untrusted(&key.label).to_string(),
        ]
    };
    Ok(options.form.list(&keys, "There are no keys.", value, cells))
}
