//! Replaces the provider's page for adding the bot to a server.

use domain::Snowflake;
use http::StatusCode;
use maud::html;

use super::page::document;
use super::reply::{self, Reply};
use super::{SandboxState, pairs, value};

/// Says what the provider would ask; nothing is added.
pub(super) fn page(state: &SandboxState, encoded: &str) -> Reply {
    let asked = pairs(encoded.as_bytes());
    let guild = value(&asked, "guild_id").and_then(|id| id.parse::<u64>().ok()).and_then(Snowflake::new);
    let name = guild.and_then(|guild| name_of(state, guild));
    let body = html! {
        h1 { "Here the bot would be added" }
        p {
            "Here the provider would ask "
            @if let Some(name) = &name { "whether to add the bot to " strong { bdi { (name) } } }
            @else { "to which server to add the bot" }
            ", and what it may do there. In the sandbox nothing is added: the demo bot stays in the servers that it has."
        }
        p class="soft" {
            "To see a server come and go on the dashboard, be the bot: the command that " code { "dev" }
            " prints at its start shows how."
        }
        p { "Close this page, or go back." }
    };
    reply::page(StatusCode::OK, document("Add the bot", &body))
}

/// The name of a guild that someone here is in.
fn name_of(state: &SandboxState, id: Snowflake) -> Option<String> {
    let people = state.people.lock();
    let mut guilds = people.iter().flat_map(|person| &person.guilds);
    guilds.find(|guild| guild.id == id).map(|guild| guild.name.clone())
}
