//! Applies what the bot says, one change at a time.

use rusqlite::Connection;

use crate::domain::Change;

use super::coverage::Coverage;
use super::writer::Touched;
use super::{feedback, guilds, subscriptions, team};

pub(super) fn apply(connection: &Connection, touched: &mut Touched, changes: &[Change]) -> rusqlite::Result<()> {
    let coverage = Coverage::for_changes(connection)?;
    changes.iter().try_for_each(|change| apply_one(connection, touched, &coverage, change))
}

pub(super) fn apply_one(
    connection: &Connection,
    touched: &mut Touched,
    coverage: &Coverage,
    change: &Change,
) -> rusqlite::Result<()> {
    match change {
        Change::Guild(guild) => guilds::put(connection, touched, coverage, guild)?,
        Change::GuildGone(guild) => guilds::remove(connection, touched, coverage, *guild)?,
        Change::Member { guild, user, roles } => {
            guilds::put_member(connection, touched, coverage, *guild, *user, roles)?;
        }
        Change::MemberGone { guild, user } => guilds::remove_member(connection, touched, coverage, *guild, *user)?,
        Change::Subscription(subscription) => subscriptions::put(connection, touched, subscription)?,
        Change::SubscriptionGone(user) => subscriptions::remove(connection, touched, *user)?,
        Change::Feedback(entry) => feedback::put(connection, touched, entry)?,
        Change::FeedbackGone(id) => feedback::remove(connection, touched, id)?,
        Change::Team(roster) => team::replace(connection, touched, roster)?,
        Change::User(user) => {
            team::refresh_user(connection, touched, user)?;
            feedback::refresh_user(connection, touched, user)?;
        }
    }
    match change.copied_again() {
        Some((guild, parts)) => guilds::copy_again(connection, coverage, guild, parts),
        None => Ok(()),
    }
}
