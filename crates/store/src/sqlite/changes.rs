//! Applies what the bot sends, one change at a time.

use domain::Change;
use rusqlite::Connection;

use super::coverage::Coverage;
use super::database::run;
use super::guilds;
use super::writer::ChangedTopics;
use crate::sql::{feedback, subscriptions, team, totals};
use crate::totals_change::TotalsChange;

pub(super) fn apply(connection: &Connection, topics: &mut ChangedTopics, changes: &[Change]) -> rusqlite::Result<()> {
    let coverage = Coverage::for_changes(connection)?;
    let mut change_of_totals = TotalsChange::default();
    for change in changes {
        apply_one(connection, topics, &coverage, &mut change_of_totals, change)?;
    }
    run(totals::write(connection, &change_of_totals))
}

/// Applies a change; its effect on the totals is recorded but not written yet.
pub(super) fn apply_one(
    connection: &Connection,
    topics: &mut ChangedTopics,
    coverage: &Coverage,
    totals: &mut TotalsChange,
    change: &Change,
) -> rusqlite::Result<()> {
    match change {
        Change::Guild(guild) => guilds::put(connection, topics, coverage, totals, guild)?,
        Change::GuildGone(guild) => guilds::remove(connection, topics, coverage, totals, *guild)?,
        Change::Member { guild, user, roles } => {
            guilds::put_member(connection, topics, coverage, *guild, *user, roles)?;
        }
        Change::MemberGone { guild, user } => guilds::remove_member(connection, topics, coverage, *guild, *user)?,
        Change::Subscription(subscription) => run(subscriptions::put(connection, topics, subscription))?,
        Change::SubscriptionGone(user) => run(subscriptions::remove(connection, topics, *user))?,
        Change::Feedback(entry) => run(feedback::put(connection, topics, totals, entry))?,
        Change::FeedbackGone(id) => run(feedback::remove(connection, topics, totals, id))?,
        Change::Team(roster) => run(team::replace(connection, topics, roster))?,
        Change::User(user) => {
            run(team::refresh_user(connection, topics, user))?;
            run(feedback::refresh_user(connection, topics, user))?;
        }
    }
    match change.copied_again() {
        Some((guild, parts)) => guilds::copy_again(connection, coverage, guild, parts),
        None => Ok(()),
    }
}
