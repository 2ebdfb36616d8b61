//! `GET /stats`.

use bytes::Bytes;
use domain::Stats;
use serde::Serialize;
use utoipa::ToSchema;

use super::envelope;

/// Totals over everything the bot has reported.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub struct StatsData {
    /// The number of guilds with the bot.
    guilds: u64,
    /// The sum of their member counts.
    members: u64,
    /// The number of the bot's shards, as in `GET /`.
    shards: u64,
    /// Totals over all feedback.
    feedback: FeedbackStatsData,
}

/// Totals over all feedback.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = FeedbackStats)]
pub struct FeedbackStatsData {
    /// The number of entries with any rating.
    count: u64,
    /// The average rating, from 1 to 5, with at most two decimals; `null` if there are no ratings.
    #[schema(required = true, minimum = 1, maximum = 5, example = 4.67)]
    average: Option<f64>,
}

pub fn totals(stats: Stats) -> Bytes {
    let Stats { guilds, members, shards, ratings } = stats;
    let feedback = FeedbackStatsData { count: ratings.count, average: ratings.average() };
    envelope::success(&StatsData { guilds, members, shards, feedback })
}

#[cfg(test)]
mod tests {
    use domain::stats::Ratings;

    use super::*;

    #[test]
    fn the_bytes_are_as_the_contract_writes_them() {
        let stats = |count, sum| Stats { guilds: 3, members: 4812, shards: 2, ratings: Ratings { count, sum } };
        for (count, sum, feedback) in [
            (0, 0, r#"{"count":0,"average":null}"#),
            (3, 14, r#"{"count":3,"average":4.67}"#),
            (2, 10, r#"{"count":2,"average":5.0}"#),
        ] {
            let data = format!(r#"{{"guilds":3,"members":4812,"shards":2,"feedback":{feedback}}}"#);
            assert_eq!(totals(stats(count, sum)), format!(r#"{{"code":200,"message":"OK","data":{data}}}"#));
        }
    }
}
