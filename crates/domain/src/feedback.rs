//! Feedback: what users say about the bot, and how five good entries are drawn at random.

use super::{Picture, Snowflake, User, saturating};

/// How many entries one call shows.
pub const SHOWN: usize = 5;

/// A stored feedback entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The bot's ID for it, 1 to 64 characters.
    pub id: String,
    pub entry: FeedbackEntry,
}

/// The public part of a feedback entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackEntry {
    pub feedback: String,
    /// Stars, 1 to 5; only 4 and 5 are ever shown.
    pub rating: u8,
    /// When it was submitted, epoch seconds.
    pub timestamp: u64,
    /// The author's last known profile.
    pub submitter: User,
}

impl FeedbackEntry {
    /// The author shown for an entry whose author was forgotten.
    pub fn no_submitter() -> User {
        User { id: Snowflake::NOBODY, username: String::new(), name: String::new(), avatar: Picture::default() }
    }

    /// Whether it may be shown.
    pub fn is_positive(&self) -> bool {
        self.rating >= 4
    }
}

/// Up to five different numbers from `0..count`, every set equally likely, in random order (Floyd's algorithm). The cost does
/// not depend on `count`.
pub fn draw(count: u64, mut random: impl FnMut() -> u64) -> Draw {
    let wanted = count.min(SHOWN as u64);
    let mut drawn = Draw { numbers: [0; SHOWN], length: 0 };
    for upper in (count - wanted)..count {
        let pick = below(upper + 1, &mut random);
        let chosen = if drawn.contains(&pick) { upper } else { pick };
        // Floyd's set is uniform but its order is not, so each number is inserted at a random index.
        let index = saturating::to_usize(below(drawn.length as u64 + 1, &mut random));
        drawn.numbers.copy_within(index..drawn.length, index + 1);
        drawn.numbers[index] = chosen;
        drawn.length += 1;
    }
    drawn
}

/// The numbers of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    numbers: [u64; SHOWN],
    length: usize,
}

impl std::ops::Deref for Draw {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.numbers[..self.length]
    }
}

/// A number from `0..bound`, using the high half of a product: the bias is below 2^-40 for every bound that a table can reach.
fn below(bound: u64, random: &mut impl FnMut() -> u64) -> u64 {
    let product = u128::from(random()) * u128::from(bound);
    (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::tests::seeded;

    #[test]
    fn a_draw_is_distinct_and_in_range_and_as_long_as_it_can_be() {
        let mut random = seeded(1);
        for count in (0..10).chain([1000, u64::MAX]) {
            for _ in 0..200 {
                let drawn = draw(count, &mut random);
                assert_eq!(drawn.len() as u64, count.min(5));
                assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len(), "{drawn:?} of {count}");
                assert!(drawn.iter().all(|slot| *slot < count), "{drawn:?} of {count}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_generator_are_in_range_too() {
        for end in [0, u64::MAX] {
            for count in 0..10 {
                assert!(draw(count, || end).iter().all(|slot| *slot < count));
            }
        }
    }

    #[test]
    fn every_set_and_every_position_is_equally_likely() {
        const DRAWS: u32 = 56_000;
        let mut random = seeded(2);
        let (mut sets, mut positions) = (BTreeMap::<Vec<u64>, u32>::new(), [[0_u32; 8]; SHOWN]);
        for _ in 0..DRAWS {
            let mut drawn = draw(8, &mut random).to_vec();
            for (position, slot) in drawn.iter().enumerate() {
                positions[position][usize::try_from(*slot).unwrap()] += 1;
            }
            drawn.sort_unstable();
            *sets.entry(drawn).or_default() += 1;
        }
        let squares = |counts: &[u32]| {
            let expected = f64::from(DRAWS) / f64::from(u32::try_from(counts.len()).unwrap());
            counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum::<f64>()
        };
        // Five of eight: 56 sets. The bounds are the chi-square values that chance exceeds once in ten thousand times.
        let sets: Vec<u32> = sets.into_values().collect();
        assert_eq!(sets.len(), 56);
        assert!(squares(&sets) < 101.0, "{sets:?}");
        for position in positions {
            assert!(squares(&position) < 29.9, "{position:?}");
        }
    }
}
