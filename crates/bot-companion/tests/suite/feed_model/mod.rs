//! Random histories of the feed over real sockets, compared with a simple model after each step. A history has repeats, old
//! numbers, gaps, truncated bodies, snapshots that are overtaken while they are staged, bot processes that take over from each
//! other, fall silent or have a clock that runs ahead, resharding, restarts of the service, stores that were emptied, and time
//! that passes.
//!
//! Some histories are the same in every run, the others are new with each commit, so that everyone who tests a commit sees the
//! same. `FEED_MODEL_HISTORIES` sets how many; then they are new in each run. `FEED_MODEL_SEED` repeats the one that a failure
//! names.

pub mod checks;
mod driver;
pub mod generator;
pub mod model;
mod ownership;
mod shown;
mod staging;

use std::collections::BTreeSet;

use runtime::random::Random;
use sandbox::Sandbox;
use sandbox::people::{MEMBER, MODERATOR, OWNER};
use serde_json::Value;

use crate::harness::{listed, on_postgres};

/// A bot process counts as gone after this many milliseconds without activity.
pub const SILENCE: u64 = 90_000;
/// The people who look at the guilds.
pub const PEOPLE: [(&str, u64); 3] = [("owner", OWNER), ("moderator", MODERATOR), ("member", MEMBER)];

/// How many histories are the same in every run.
const HISTORIES: u64 = 16;
/// How many of them PostgreSQL has. The rules are the same code on both stores.
const HISTORIES_ON_POSTGRES: u64 = 8;
/// The variable with the seed of the only new history; a failure prints it.
const SEED: &str = "FEED_MODEL_SEED";
const STEPS: usize = 64;
/// Seeds of new histories that found a bug: a process later reported a different start time.
const ONCE_WRONG: [u64; 1] = [13_441_914_750_751_821_346];

/// The id of the guild with this number; guilds are split into shards by their numbers.
pub fn guild_id(number: u64) -> u64 {
    (number << 22) | 5
}

/// The number of the guild with this id.
pub fn number_of(id: &Value) -> u64 {
    id.as_str().unwrap().parse::<u64>().unwrap() >> 22
}

/// The permission bits that the provider reports for a person in a guild.
pub fn bits(user: u64, guild: u64) -> u64 {
    if user == MODERATOR && guild.is_multiple_of(5) { 0x20 } else { 0 }
}

/// Makes these the guilds that the provider lists for a person.
pub fn tell_provider(sandbox: &Sandbox, name: &str, user: u64, guilds: &BTreeSet<u64>) {
    let list = guilds.iter().map(|number| listed(guild_id(*number), bits(user, *number))).collect();
    sandbox.edit(name, |person| person.guilds = list);
}

/// The number that this environment variable sets.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number: {text}")))
}

#[tokio::test]
async fn new_histories_are_as_the_model_says() {
    // As many as a run of all tests can afford.
    let (random, count) = match variable("FEED_MODEL_HISTORIES") {
        Some(count) => (Random::from_system(), count),
        None => (Random::seeded(seed_of_commit()), if on_postgres() { 4 } else { 10 }),
    };
    let new = || (0..count).map(|_| random.number()).collect();
    let seeds: Vec<u64> = variable(SEED).map_or_else(new, |seed| vec![seed]);
    driver::run(seeds.into_iter(), STEPS).await;
}

/// A number that is different for each commit.
fn seed_of_commit() -> u64 {
    let sha = env!("COMPANION_BUILD_SHA");
    sha.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

#[tokio::test]
async fn histories_that_went_wrong_once_are_as_the_model_says() {
    driver::run(ONCE_WRONG.into_iter(), STEPS).await;
}

/// The seeds of the histories that are the same in every run.
fn seeds() -> std::ops::Range<u64> {
    0..if on_postgres() { HISTORIES_ON_POSTGRES } else { HISTORIES }
}

#[tokio::test]
async fn histories_with_even_seeds_are_as_the_model_says() {
    driver::run(seeds().filter(|seed| seed.is_multiple_of(2)), STEPS).await;
}

#[tokio::test]
async fn histories_with_odd_seeds_are_as_the_model_says() {
    driver::run(seeds().filter(|seed| !seed.is_multiple_of(2)), STEPS).await;
}
