//! A real bot's guilds have no demo users in them. So that a dashboard has something to show, the sandbox's people
//! join them: one is their owner, two are of their staff if there is any, and the others are members. Only the sandbox knows.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use domain::{GuildFacts, Permission, Snowflake};
use sandbox::people::{self, Standing};
use sandbox::{Person, Sandbox};
use store::Store;

use super::demo_bot::DemoBot;
use crate::app::App;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// As many as the provider lists.
const MOST_GUILDS: u32 = 200;
/// How many of a guild's staff are looked at.
const MOST_STAFF: u32 = 50;

/// Joins a real bot's guilds as they come. Never ends.
pub(super) async fn join(app: Arc<App>, bot: Arc<DemoBot>, sandbox: Arc<Sandbox>) {
    let mut pace = tokio::time::interval(LOOK_EVERY);
    let mut before = Vec::new();
    loop {
        pace.tick().await;
        if !bot.is_gone().await {
            continue;
        }
        // Without the store, everybody stays where they are.
        let Ok(now) = standings(&app.sources.store).await else { continue };
        if now != before {
            for (person, id, guilds) in &now {
                sandbox.edit(person, |person| {
                    person.id = *id;
                    person.guilds.clone_from(guilds);
                });
            }
            before = now;
        }
    }
}

/// Who each person is, and the guilds they are in.
async fn standings(store: &Store) -> store::Result<Vec<(String, Snowflake, Vec<sandbox::PersonGuild>)>> {
    let ids = store.some_guilds(MOST_GUILDS).await?;
    let mut guilds = store.person(people::id(people::MEMBER), ids).await?.guilds;
    let mut staff = Vec::new();
    // The one with staff first: its owner and staff are the ones that people sign in as.
    for index in 0..guilds.len().min(20) {
        staff = store.some_staff(guilds[index].id, MOST_STAFF).await?;
        if !staff.is_empty() {
            guilds.swap(0, index);
            break;
        }
    }
    let Some(first) = guilds.first() else { return Ok(Vec::new()) };
    let (mut administrator, mut moderator) = (None, None);
    for user in staff.into_iter().filter(|user| *user != first.owner) {
        let facts = store.person(user, vec![first.id]).await?.guilds;
        let may = |key| facts.first().is_some_and(|facts| facts.granted.has(key));
        if may(Permission::Admin) {
            administrator = administrator.or(Some(user));
        } else if may(Permission::Mod) {
            moderator = moderator.or(Some(user));
        }
    }
    let id_of = |person: &Person| match person.name.as_str() {
        "owner" => Some(first.owner),
        "administrator" => administrator,
        "moderator" => moderator,
        _ => None,
    };
    // The others are as they were: one has just arrived, the other has 200 guilds already.
    let stays = |person: &Person| ["newcomer", "collector"].contains(&person.name.as_str());
    let all = people::with_pictures(people::demo()).into_iter().filter(|person| !stays(person));
    Ok(all
        .map(|person| {
            let id = id_of(&person).unwrap_or(person.id);
            (person.name.clone(), id, joined(&person, id, &guilds))
        })
        .collect())
}

/// The bot's guilds, and those of the demo that don't have it now.
fn joined(person: &Person, id: Snowflake, guilds: &[GuildFacts]) -> Vec<sandbox::PersonGuild> {
    let standing = |guild: &GuildFacts| match person.name.as_str() {
        _ if guild.owner == id => Standing::Owner,
        "manager" => Standing::Manager,
        _ => Standing::Member,
    };
    let known: HashSet<_> = guilds.iter().map(|guild| guild.id).collect();
    let rest = person.guilds.iter().filter(|guild| !known.contains(&guild.id)).cloned();
    let own = guilds.iter().map(|guild| people::guild(guild.id, &guild.name, guild.icon.clone(), standing(guild)));
    own.chain(rest).take(MOST_GUILDS as usize).collect()
}
