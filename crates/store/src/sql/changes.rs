//! Applies what the bot sends, one change at a time.

use domain::Change;

use super::coverage::Coverage;
use super::{ChangedTopics, Database, Lock, Result, feedback, guilds, subscriptions, team, totals};
use crate::totals_change::TotalsChange;

pub(crate) async fn apply<D: Database>(db: &D, topics: &mut ChangedTopics, changes: &[Change]) -> Result<(), D> {
    db.lock(Lock::Feed).await?;
    let guilds: Vec<_> = changes.iter().filter_map(Change::guild).collect();
    let (mut coverage, mut change_of_totals) = (Coverage::for_changes(db, &guilds).await?, TotalsChange::default());
    for change in changes {
        apply_one(db, topics, &mut coverage, &mut change_of_totals, change).await?;
    }
    totals::write(db, &change_of_totals).await
}

/// Applies a change; its effect on the totals is recorded but not written yet.
pub(super) async fn apply_one<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    coverage: &mut Coverage,
    totals: &mut TotalsChange,
    change: &Change,
) -> Result<(), D> {
    match change {
        Change::Guild(guild) => guilds::put(db, topics, coverage, totals, guild).await?,
        Change::GuildGone(guild) => guilds::remove(db, topics, coverage, totals, *guild).await?,
        Change::Member { guild, user, roles } => {
            guilds::put_member(db, topics, coverage, *guild, *user, roles).await?;
        }
        Change::MemberGone { guild, user } => guilds::remove_member(db, topics, coverage, *guild, *user).await?,
        Change::Subscription(subscription) => subscriptions::put(db, topics, subscription).await?,
        Change::SubscriptionGone(user) => subscriptions::remove(db, topics, *user).await?,
        Change::Feedback(entry) => feedback::put(db, topics, totals, entry).await?,
        Change::FeedbackGone(id) => feedback::remove(db, topics, totals, id).await?,
        Change::Team(roster) => team::replace(db, topics, roster).await?,
        Change::User(user) => {
            team::refresh_user(db, topics, user).await?;
            feedback::refresh_user(db, topics, user).await?;
        }
    }
    match change.copied_again() {
        Some((guild, parts)) => guilds::copy_again(db, coverage, guild, parts).await,
        None => Ok(()),
    }
}
