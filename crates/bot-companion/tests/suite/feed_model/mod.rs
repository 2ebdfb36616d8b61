//! Random histories of the feed over real sockets, compared with a simple model after each step. A history has repeats, old
//! numbers, gaps, cut bodies, snapshots that are overtaken while they are staged, processes of the bot that take over from each
//! other, fall silent or have a clock that runs ahead, resharding, restarts of the service, stores that were emptied, and time
//! that passes.
//!
//! There is one model of the feed: `crate::kill_feed` uses it too.

pub mod checks;
mod driver;
pub mod generator;
pub mod model;
mod ownership;
mod shown;
mod staging;

use std::collections::BTreeSet;

use bot_companion::sandbox::Sandbox;
use bot_companion::sandbox::people::{MEMBER, MODERATOR, OWNER};
use serde_json::Value;

use crate::harness::listed;

/// A process of the bot counts as gone after this many milliseconds without a sign of life.
pub const SILENCE: u64 = 90_000;
/// The people who look at the guilds.
pub const PEOPLE: [(&str, u64); 3] = [("owner", OWNER), ("moderator", MODERATOR), ("member", MEMBER)];

const HISTORIES: u64 = 16;
const STEPS: usize = 64;

/// The id of the guild with this number; guilds are split into shards by their numbers.
pub fn guild_id(number: u64) -> u64 {
    (number << 22) | 5
}

/// The number of the guild with this id.
pub fn number_of(id: &Value) -> u64 {
    id.as_str().unwrap().parse::<u64>().unwrap() >> 22
}

/// The permission bits that the provider reports of a person in a guild.
pub fn bits(user: u64, guild: u64) -> u64 {
    if user == MODERATOR && guild.is_multiple_of(5) { 0x20 } else { 0 }
}

/// Makes these the guilds that the provider lists for a person.
pub fn tell_provider(sandbox: &Sandbox, name: &str, user: u64, guilds: &BTreeSet<u64>) {
    let list = guilds.iter().map(|number| listed(guild_id(*number), bits(user, *number))).collect();
    sandbox.edit(name, |person| person.guilds = list);
}

#[tokio::test]
async fn histories_with_even_seeds_are_as_the_model_says() {
    driver::run((0..HISTORIES).filter(|seed| seed.is_multiple_of(2)), STEPS).await;
}

#[tokio::test]
async fn histories_with_odd_seeds_are_as_the_model_says() {
    driver::run((0..HISTORIES).filter(|seed| !seed.is_multiple_of(2)), STEPS).await;
}
