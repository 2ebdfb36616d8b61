//! The page for adding the bot to a server, in place of the provider's.

use domain::Snowflake;
use http::StatusCode;
use maud::html;

use super::page::document;
use super::reply::{self, Reply};
use super::{SandboxState, pairs, value};

/// Says what the provider would ask. Nothing is added.
pub(super) fn page(state: &SandboxState, encoded: &str) -> Reply {
    let asked = pairs(encoded.as_bytes());
    let guild = value(&asked, "guild_id").and_then(|id| id.parse::<u64>().ok()).and_then(Snowflake::new);
    let name = guild.and_then(|guild| name_of(state, guild));
    let body = html! {
        h1 { "This is where you'd add the bot" }
        p {
            "The provider would ask you "
            @if let Some(name) = &name { "to confirm adding the bot to " strong { bdi { (name) } } }
            @else { "which server to add the bot to" }
            ". It would also ask what the bot is allowed to do there. The sandbox doesn't add anything: the demo bot stays in the \
             servers it's already in."
        }
        p class="soft" {
            "To see a server appear on the dashboard and disappear again, send an event as the bot: the command that " code { "dev" }
            " prints when it starts shows you how."
        }
        p { "Close this page or go back." }
    };
    reply::page(StatusCode::OK, document("Add the bot", &body))
}

/// The name of a guild that someone here is in.
fn name_of(state: &SandboxState, id: Snowflake) -> Option<String> {
    let people = state.people.lock();
    let mut guilds = people.iter().flat_map(|person| &person.guilds);
    guilds.find(|guild| guild.id == id).map(|guild| guild.name.clone())
}
