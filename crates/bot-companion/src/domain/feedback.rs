//! What users say of the bot, and how five of the good words are drawn.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::User;

/// How many entries one call shows.
pub const SHOWN: usize = 5;

/// A feedback entry as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The bot's name for it, 1 to 64 characters.
    pub id: String,
    /// What is shown of it.
    pub entry: FeedbackEntry,
}

/// A feedback entry as `GET /feedback` shows it (2.7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeedbackEntry {
    /// The message.
    pub feedback: String,
    /// Stars; only 4 and 5 are ever shown.
    #[schema(minimum = 4, maximum = 5)]
    pub rating: u8,
    /// When it was submitted, epoch seconds.
    pub timestamp: u64,
    /// The author's last known profile.
    pub submitter: User,
}

impl FeedbackEntry {
    /// Whether it may be shown.
    pub fn is_positive(&self) -> bool {
        self.rating >= 4
    }
}

/// Up to five different numbers of `0..count`, every set equally likely, in random order (Floyd's algorithm): the cost does not
/// depend on `count`.
pub fn draw(count: u64, mut random: impl FnMut() -> u64) -> Vec<u64> {
    let wanted = count.min(SHOWN as u64);
    let mut drawn: Vec<u64> = Vec::with_capacity(SHOWN);
    for upper in (count - wanted)..count {
        let pick = below(upper + 1, &mut random);
        let chosen = if drawn.contains(&pick) { upper } else { pick };
        // Floyd's set is uniform, its order is not: put each at a random place.
        let place = usize::try_from(below(drawn.len() as u64 + 1, &mut random)).unwrap_or(0);
        drawn.insert(place, chosen);
    }
    drawn
}

/// A number of `0..bound`, by the high half of a product: the bias is below 2^-40 for every bound that a table can reach.
fn below(bound: u64, random: &mut impl FnMut() -> u64) -> u64 {
    let product = u128::from(random()) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(0)
}
