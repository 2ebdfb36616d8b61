//! `bot-companion users show` and `users forget`: what is stored about one person, and how to remove it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;

use anyhow::{bail, ensure};
use domain::audit::AuditKind;
use domain::forgotten::UserHash;
use domain::{Session, Snowflake, Subscription, Time};
use serde_json::{Map, Value, json};
use store::{Account, Erased, PersonTraces, Store};
use telemetry::untrusted::Untrusted;

use super::database::Reading;
use super::output::{OutputForm, columns};
use super::vacuum;
use crate::app::App;
use crate::vault::{Vault, sealed_with};

struct StoredPerson {
    id: Snowflake,
    account: Option<Account>,
    sessions: Vec<Session>,
    subscription: Option<Subscription>,
    traces: PersonTraces,
}

async fn read(store: &Store, id: Snowflake) -> anyhow::Result<StoredPerson> {
    Ok(StoredPerson {
        id,
        account: store.account(id).await?,
        sessions: store.sessions_of(id).await?,
        subscription: store.person(id, Vec::new()).await?.subscription,
        traces: store.traces(id).await?,
    })
}

impl StoredPerson {
    fn is_known(&self) -> bool {
        self.account.is_some() || self.traces != PersonTraces::default()
    }

    fn value(&self, vault: &Vault) -> Value {
        let Self { id, account, sessions, subscription, traces } = self;
        let time = |at: Option<Time>| at.map(Time::iso8601);
        let sessions: Value = sessions
            .iter()
            .map(|session| {
                json!({
                    "id": session.id.as_str(),
                    "created": session.created.iso8601(),
                    "last_seen": session.last_seen.iso8601(),
                    "agent": session.agent,
                })
            })
            .collect();
        let grant =
            account.as_ref().and_then(|account| account.grant.as_ref()).map(|sealed| match vault.open(*id, sealed) {
                Ok(grant) => {
                    json!({ "key": sealed_with(sealed), "scopes": grant.scopes, "expires": grant.expires.iso8601() })
                }
                Err(error) => json!({ "key": sealed_with(sealed), "unreadable": error.to_string() }),
            });
        let list = account.as_ref().and_then(|account| account.list.as_ref());
        json!({
            "id": id,
            "username": account.as_ref().map(|account| &account.user.username),
            "name": account.as_ref().map(|account| &account.user.name),
            "avatar": account.as_ref().map(|account| account.user.avatar.stored()),
            "sessions": sessions,
            "grant": grant,
            "grant_to_revoke": traces.has_grant_to_revoke,
            "guild_list": list.map(|list| json!({ "fetched": list.fetched.iso8601(), "guilds": list.guilds.len() })),
            "roster_entries": traces.roster,
            "feedback_entries": traces.feedback,
            "subscription": subscription.as_ref().map(|it| json!({
                "slots": it.slots, "guilds": it.guilds, "active_until": time(it.active_until),
            })),
            "owner_of_guilds": traces.owned_guilds,
            "staff_in_guilds": traces.staff_guilds,
            "blocked": traces.is_blocked,
            "audit_rows": traces.audit,
            "forgotten": time(traces.forgotten),
            "rows": traces.tables.iter().map(|(table, count)| ((*table).to_owned(), json!(count))).collect::<Map<_, _>>(),
        })
    }

    fn text(&self, vault: &Vault) -> String {
        let value = self.value(vault);
        let mut rows = Vec::new();
        for (name, value) in value.as_object().into_iter().flatten() {
            let text = match value {
                Value::Null => "none".to_owned(),
                Value::String(text) => Untrusted(text).to_string(),
                Value::Array(sessions) if name == "sessions" => {
                    rows.push(vec!["sessions".to_owned(), sessions.len().to_string()]);
                    rows.extend(
                        sessions.iter().map(|session| vec![String::new(), Untrusted(&session.to_string()).to_string()]),
                    );
                    continue;
                }
                other => Untrusted(&other.to_string()).to_string(),
            };
            rows.push(vec![name.replace('_', " "), text]);
        }
        columns(&rows).join("\n") + "\n"
    }
}

pub(super) async fn show(reading: &Reading, id: Snowflake, form: OutputForm) -> anyhow::Result<String> {
    let person = read(&reading.store, id).await?;
    let vault = reading.vault()?;
    Ok(form.one(&person.value(&vault), || {
        if person.is_known() { person.text(&vault) } else { format!("Nothing is stored about user {id}.\n") }
    }))
}

/// Forgets a user, after confirmation.
pub(super) async fn forget(app: &Arc<App>, id: Snowflake, is_meant: bool, form: OutputForm) -> anyhow::Result<String> {
    let person = read(&app.sources.store, id).await?;
    if !is_meant {
        confirm(&person)?;
    }
    let erased = app.sources.store.forget(id, app.sources.clock.now()).await?;
    app.sources.audit.command(AuditKind::Command, "users forget", Some(UserHash::of(id).in_audit()), None);
    let left = vacuum::after_forgetting(&app.config.store.url).await;
    let revokes =
        person.traces.has_grant_to_revoke || person.account.as_ref().is_some_and(|account| account.grant.is_some());
    let value = json!({
        "user": id,
        "sessions_ended": erased.sessions,
        "roster_entries": erased.roster,
        "subscriptions": erased.subscriptions,
        "feedback_entries": erased.feedback,
        "audit_rows": erased.audit,
        "owner_of_guilds": erased.owned_guilds,
        "staff_in_guilds": erased.staff_guilds,
        "grant_to_revoke": revokes,
        "blocked": person.traces.is_blocked,
        "left_in_file": left,
    });
    Ok(form.one(&value, || forgotten_text(&person, erased, revokes, left)))
}

fn forgotten_text(person: &StoredPerson, erased: Erased, revokes: bool, left: Option<String>) -> String {
    let id = person.id;
    let mut lines = vec![format!(
        "User {id} is forgotten. Sessions ended: {}; roster entries removed: {}; subscriptions removed: {}; feedback made \
         anonymous: {}; audit rows made anonymous: {}; guilds they no longer own: {}, or are staff in: {}.",
        erased.sessions,
        erased.roster,
        erased.subscriptions,
        erased.feedback,
        erased.audit,
        erased.owned_guilds,
        erased.staff_guilds,
    )];
    if revokes {
        lines.push(
            "The service will revoke their grant at the provider within a minute, then delete it too.".to_owned(),
        );
    }
    if person.traces.is_blocked {
        lines.push(format!(
            "They stay blocked, so their ID is still stored: `bot-companion users unblock {id}` removes it."
        ));
    }
    lines.extend(left);
    lines.push(
        "The bot may send their ID again (as owner, staff or subscriber); their name is not stored. Make the bot forget \
         them, too.\n"
            .to_owned(),
    );
    lines.join("\n")
}

fn confirm(person: &StoredPerson) -> anyhow::Result<()> {
    let StoredPerson { id, sessions, traces, subscription, account } = person;
    ensure!(std::io::stdin().is_terminal(), "can't ask without a terminal: add --yes to forget user {id}");
    let name = account.as_ref().map_or_else(String::new, |it| format!(" ({})", Untrusted(&it.user.username)));
    let covers = subscription.as_ref().map_or(0, |it| it.guilds.len());
    let mut out = std::io::stderr().lock();
    write!(
        out,
        "Forget user {id}{name}? Sessions: {}, roster entries: {}, feedback entries: {}, subscriptions: {} (guilds: {covers}). \
         This cannot be undone. [y/N] ",
        sessions.len(),
        traces.roster,
        traces.feedback,
        traces.subscriptions,
    )?;
    out.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        bail!("nothing was changed");
    }
    Ok(())
}
