//! How the bot does now.

use crate::domain::health::SILENCE;
use crate::domain::history::BotState;
use crate::domain::{Health, Time};

/// How the bot does; `None` if it has never reported.
pub(super) fn bot_state(health: &Health, now: Time) -> Option<BotState> {
    let age = health.report_age(now)?;
    let is_silent = |reported: Time| now.since(reported) >= SILENCE;
    Some(if age >= SILENCE {
        BotState::Down
    } else if health.shards.values().any(|shard| is_silent(shard.reported)) {
        BotState::Partial
    } else {
        BotState::Up
    })
}
