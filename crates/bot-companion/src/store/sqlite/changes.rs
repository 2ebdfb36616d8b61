//! Applies what the bot says, one change at a time.

use rusqlite::Connection;

use crate::domain::Change;

use super::coverage::Coverage;
use super::writer::ChangedTopics;
use super::{feedback, guilds, subscriptions, team};

pub(super) fn apply(connection: &Connection, topics: &mut ChangedTopics, changes: &[Change]) -> rusqlite::Result<()> {
    let coverage = Coverage::for_changes(connection)?;
    changes.iter().try_for_each(|change| apply_one(connection, topics, &coverage, change))
}

pub(super) fn apply_one(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    change: &Change,
) -> rusqlite::Result<()> {
    match change {
        Change::Guild(guild) => guilds::put(connection, topics, coverage, guild)?,
        Change::GuildGone(guild) => guilds::remove(connection, topics, coverage, *guild)?,
        Change::Member { guild, user, roles } => {
            guilds::put_member(connection, topics, coverage, *guild, *user, roles)?;
        }
        Change::MemberGone { guild, user } => guilds::remove_member(connection, topics, coverage, *guild, *user)?,
        Change::Subscription(subscription) => subscriptions::put(connection, topics, subscription)?,
        Change::SubscriptionGone(user) => subscriptions::remove(connection, topics, *user)?,
        Change::Feedback(entry) => feedback::put(connection, topics, entry)?,
        Change::FeedbackGone(id) => feedback::remove(connection, topics, id)?,
        Change::Team(roster) => team::replace(connection, topics, roster)?,
        Change::User(user) => {
            team::refresh_user(connection, topics, user)?;
            feedback::refresh_user(connection, topics, user)?;
        }
    }
    match change.copied_again() {
        Some((guild, parts)) => guilds::copy_again(connection, coverage, guild, parts),
        None => Ok(()),
    }
}
