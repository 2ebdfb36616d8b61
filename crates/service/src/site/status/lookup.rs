//! "Which shard is my server on?": computed from the ID alone, so it doesn't reveal which servers have the bot.

use domain::Snowflake;
use domain::feed::ShardKey;
use maud::{Markup, html};

use super::StatusPage;
use super::shards::{ShardNow, TileState};
use crate::site::home::shape_of;
use crate::site::words::Words;

/// How many characters of the input are shown again.
const LONGEST: usize = 40;

/// The answer to a lookup.
#[derive(Debug, PartialEq)]
enum Found<'a> {
    Shard(Snowflake, &'a ShardNow),
    /// The number of shards is unknown.
    NoShards,
    NotAnId,
}

/// The shard of the server with this ID.
fn find<'a>(server: &str, shards: &'a [ShardNow]) -> Found<'a> {
    let Ok(server) = server.trim().parse::<Snowflake>() else { return Found::NotAnId };
    let Some(count) = u32::try_from(shards.len()).ok().filter(|count| *count > 0) else { return Found::NoShards };
    let id = ShardKey::of(server, count).id;
    let shard = usize::try_from(id).ok().and_then(|id| shards.get(id));
    shard.map_or(Found::NoShards, |shard| Found::Shard(server, shard))
}

fn answer(words: &Words, server: &str, shards: &[ShardNow]) -> Markup {
    let words = &words.status;
    let found = find(server, shards);
    let (shape, text) = match &found {
        Found::Shard(_, shard) => match shard.state {
            TileState::Up => ("up", words.shard_is_up),
            TileState::Down => ("down", words.shard_is_down),
            TileState::Unknown => ("unknown", words.shard_is_unknown),
        },
        Found::NoShards => ("unknown", words.count_unknown),
        Found::NotAnId => ("unknown", words.not_an_id),
    };
    html! {
        div class="lookup-answer" role="status" {
            (shape_of(shape))
            div {
                @if let Found::Shard(server, shard) = found {
                    p { strong { ((words.found)(&server.to_string(), shard.id)) } }
                }
                p { (text) }
            }
        }
    }
}

impl StatusPage<'_> {
    /// The form, and the answer if a visitor has entered a server ID.
    pub(super) fn lookup(&self, server: Option<&str>) -> Markup {
        let words = &self.words().status;
        let typed = server.map(|server| server.chars().take(LONGEST).collect::<String>());
        html! {
            section class="card lookup" aria-labelledby="server" {
                h2 id="server" { (words.lookup) }
                p class="quiet" { (words.lookup_text) }
                form action={ (self.frame.site.path("/site/status")) "#server" } method="get" {
                    label for="server-id" { (words.server_id) }
                    div class="row" {
                        input type="text" id="server-id" name="server" value=[typed] inputmode="numeric" maxlength="20"
                            autocomplete="off" spellcheck="false" required aria-describedby="server-help";
                        button class="button primary" { (words.look_up) }
                    }
                }
                @if let Some(server) = server { (answer(self.words(), server, &self.shards)) }
                p class="quiet" id="server-help" { (words.how_to_copy) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(count: u32) -> Vec<ShardNow> {
        let shard = |id| ShardNow { id, state: TileState::Up, latency: None, age: None };
        (0..count).map(shard).collect()
    }

    #[test]
    fn the_id_decides_and_nothing_else() {
        let shards = shards(8);
        for (typed, expected) in [
            ("80351110224678912", Some(1)),
            (" 80351110224678912\t", Some(1)),
            ("4194304", Some(1)),
            ("1", Some(0)),
            ("9223372036854775807", Some(7)),
            ("9223372036854775808", None),
            ("", None),
            ("0", None),
            ("-1", None),
            ("my server", None),
            ("<script>", None),
        ] {
            match (find(typed, &shards), expected) {
                (Found::Shard(_, shard), Some(id)) => assert_eq!(shard.id, id, "{typed}"),
                (Found::NotAnId, None) => {}
                (found, _) => panic!("{typed}: {found:?}"),
            }
        }
        assert_eq!(find("4194304", &[]), Found::NoShards);
    }
}
