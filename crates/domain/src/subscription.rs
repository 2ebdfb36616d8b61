//! Premium: who pays, for which guilds, until when.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::{Snowflake, Time};

/// A premium subscription of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Who pays; one subscription per user.
    pub userid: Snowflake,
    /// How many guilds it may cover; informational.
    pub slots: u32,
    pub guilds: Vec<Snowflake>,
    /// When it ends; `None` for never.
    pub active_until: Option<Time>,
}

impl Subscription {
    /// Whether it has not ended yet.
    pub fn is_active(&self, now: Time) -> bool {
        self.active_until.is_none_or(|end| now < end)
    }

    /// The guilds it covers, without duplicates: one that is listed twice counts where it is listed first.
    pub fn distinct_guilds(&self) -> Vec<Snowflake> {
        let mut seen = HashSet::with_capacity(self.guilds.len());
        self.guilds.iter().copied().filter(|guild| seen.insert(*guild)).collect()
    }
}

/// The premium status of a guild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plus {
    /// The subscription that covers the guild, if there is one.
    pub subscription: Option<Subscription>,
    pub active: bool,
}

impl Plus {
    /// The status of a guild that these subscriptions name: active first, then the latest end, then the lowest user ID.
    pub fn of(subscriptions: &[Subscription], now: Time) -> Self {
        let chosen = subscriptions.iter().max_by_key(|subscription| {
            let end = subscription.active_until.map_or(u64::MAX, Time::millis);
            (subscription.is_active(now), end, Reverse(subscription.userid))
        });
        Self { active: chosen.is_some_and(|chosen| chosen.is_active(now)), subscription: chosen.cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(userid: u64, active_until: Option<u64>) -> Subscription {
        Subscription {
            userid: Snowflake::new(userid).unwrap(),
            slots: 3,
            guilds: vec![Snowflake::new(7).unwrap()],
            active_until: active_until.map(Time::from_seconds),
        }
    }

    #[test]
    fn the_best_subscription_is_shown() {
        type Given = [(u64, Option<u64>)];
        let now = Time::from_seconds(100);
        let table: &[(&Given, &str, bool)] = &[
            (&[], "", false),
            (&[(1, Some(100))], "1", false),
            (&[(1, Some(101))], "1", true),
            (&[(1, None)], "1", true),
            (&[(1, Some(50)), (2, Some(60))], "2", false),
            (&[(1, Some(99)), (2, Some(101))], "2", true),
            (&[(1, Some(500)), (2, None)], "2", true),
            (&[(2, None), (1, None)], "1", true),
            (&[(1, Some(200)), (2, Some(200))], "1", true),
        ];
        for (given, userid, active) in table {
            let given: Vec<_> = given.iter().map(|(user, end)| subscription(*user, *end)).collect();
            let plus = Plus::of(&given, now);
            let shown = plus.subscription.map_or_else(String::new, |chosen| chosen.userid.to_string());
            assert_eq!((shown.as_str(), plus.active), (*userid, *active), "{given:?}");
        }
    }

    #[test]
    fn a_guild_that_is_named_twice_counts_where_it_is_named_first() {
        let table: &[(&[u64], &[u64])] =
            &[(&[], &[]), (&[3, 1, 2], &[3, 1, 2]), (&[3, 3], &[3]), (&[3, 1, 3, 2, 1], &[3, 1, 2])];
        let ids = |numbers: &[u64]| numbers.iter().map(|number| Snowflake::new(*number).unwrap()).collect::<Vec<_>>();
        for (named, distinct) in table {
            let given = Subscription { guilds: ids(named), ..subscription(1, None) };
            assert_eq!(given.distinct_guilds(), ids(distinct), "{named:?}");
        }
    }
}
