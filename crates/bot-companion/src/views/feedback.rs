//! Five random good words. Rendered entries are kept by their slot up to a bound, so a draw is a few look-ups however many
//! entries there are; a draw that meets one not at hand reads all five from the store in one step.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::Sources;
use super::fill::Fill;
use crate::api;
use crate::domain::feedback::{SHOWN, draw};
use crate::random::Random;
use crate::store::freshness::{Dependencies, LastValid, Mark};
use crate::store::{Result, Topic};

/// How many bytes of rendered entries are kept.
const KEPT_BYTES: u64 = 16 << 20;
const ESTIMATED_ENTRIES: usize = 16_384;
/// How often a draw from memory alone is tried before memory is looked through.
const DRAWS: usize = 32;
/// How many draws fill the view before anybody asks.
const FILLING: u64 = 8;

/// The view.
pub struct Feedback {
    sources: Sources,
    dependencies: Dependencies,
    held: ArcSwapOption<Held>,
}

/// What is kept of one state of the feedback.
struct Held {
    mark: Mark,
    right: LastValid,
    count: u64,
    entries: Cache<u64, Rendered, ByBytes>,
}

#[derive(Clone)]
struct Rendered {
    id: Arc<str>,
    json: Bytes,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<u64, Rendered> for ByBytes {
    fn weight(&self, _: &u64, entry: &Rendered) -> u64 {
        (entry.json.len() + entry.id.len() + 64) as u64
    }
}

impl Feedback {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            sources: sources.clone(),
            dependencies: [Topic::Feedback].into_iter().collect(),
            held: ArcSwapOption::empty(),
        }
    }

    /// The draw of this seed, if everything that it takes is at hand. What is not must be asked for with the same seed: another
    /// draw in its place would show entries that are not at hand more rarely than others.
    pub fn ready(&self, seed: u64) -> Option<Bytes> {
        let held = self.held.load();
        let held = held.as_ref()?;
        if !self.sources.freshness.is_fresh(&self.dependencies, held.mark) {
            return None;
        }
        let random = Random::seeded(seed);
        let drawn = draw(held.count, || random.number());
        let entries: Vec<Rendered> = drawn.iter().map_while(|slot| held.entries.get(slot)).collect();
        // Entries that were read around a change may be one entry under two slots; the store sorts that out.
        let twins = entries.iter().enumerate().any(|(index, a)| entries[..index].iter().any(|b| a.id == b.id));
        (entries.len() == drawn.len() && !twins).then(|| body(&entries))
    }

    /// The draw of this seed, from the store if it must be; if that is away, a draw from what is kept for a while.
    pub async fn answer(&self, seed: u64) -> Result<Bytes> {
        if let Some(ready) = self.ready(seed) {
            return Ok(ready);
        }
        match self.read(seed).await {
            Ok((_, drawn)) => Ok(body(&drawn)),
            Err(error) => self.sources.in_place_of(error, || self.standing_in(seed)),
        }
    }

    /// The draw of this seed from the store, and where it is kept.
    async fn read(&self, seed: u64) -> Result<(Arc<Held>, Vec<Rendered>)> {
        let (mark, right) = (self.sources.freshness.mark(&self.dependencies), self.sources.freshness.valid_now());
        let sample = self.sources.store.sample_feedback(seed).await?;
        let held = match self.held.load_full() {
            Some(held) if held.mark == mark => held,
            _ => {
                let entries = Cache::with_weighter(ESTIMATED_ENTRIES, KEPT_BYTES, ByBytes);
                let held = Arc::new(Held { mark, right, count: sample.count, entries });
                self.held.store(Some(Arc::clone(&held)));
                held
            }
        };
        let mut drawn = Vec::with_capacity(SHOWN);
        for (slot, feedback) in sample.entries {
            let json = api::feedback::entry(feedback.entry);
            let rendered = Rendered { id: feedback.id.into(), json };
            held.entries.insert(slot, rendered.clone());
            drawn.push(rendered);
        }
        Ok((held, drawn))
    }

    fn standing_in(&self, seed: u64) -> Option<Bytes> {
        let held = self.held.load_full()?;
        let freshness = &self.sources.freshness;
        let may = freshness.may_serve_stale(&self.dependencies, held.mark) || freshness.was_valid_recently(&held.right);
        if may { held.drawn_from_memory(seed).map(|entries| body(&entries)) } else { None }
    }
}

impl Fill for Feedback {
    fn is_right(&self) -> bool {
        let (freshness, held) = (&self.sources.freshness, self.held.load());
        held.as_ref().is_some_and(|held| freshness.renew_if_fresh(&self.dependencies, held.mark, &held.right))
    }

    fn was_valid_recently(&self) -> bool {
        self.held.load().as_ref().is_some_and(|held| self.sources.freshness.was_valid_recently(&held.right))
    }

    /// Some draws, so that an outage does not show the same five entries to everybody.
    async fn fill(&self) -> Result<()> {
        let seed = self.sources.clock.now().millis();
        for draw in 0..FILLING {
            let (held, _) = self.read(seed.wrapping_add(draw)).await?;
            // While memory does not hold anyway, every draw would be one more for nothing.
            if held.entries.len() as u64 >= held.count || self.sources.freshness.is_suspended() {
                break;
            }
        }
        Ok(())
    }
}

impl Held {
    /// The draw of this seed; what of it is not at hand is drawn again, so that any of the entries at hand are equally likely.
    /// `None` if there are entries, but none at hand.
    fn drawn_from_memory(&self, seed: u64) -> Option<Vec<Rendered>> {
        let random = Random::seeded(seed);
        let wanted = usize::try_from(self.count).unwrap_or(SHOWN).min(SHOWN);
        let mut found = Vec::with_capacity(wanted);
        for _ in 0..DRAWS {
            for slot in draw(self.count, || random.number()) {
                if found.len() < wanted
                    && let Some(entry) = self.entries.get(&slot)
                {
                    add_unless_known(&mut found, entry);
                }
            }
            if found.len() == wanted {
                return Some(found);
            }
        }
        // Few of many are at hand: looking through all of those is cheaper than meeting them by chance.
        let at_hand: Vec<Rendered> = self.entries.iter().map(|(_, entry)| entry).collect();
        found.clear();
        for index in draw(at_hand.len() as u64, || random.number()) {
            if let Some(entry) = usize::try_from(index).ok().and_then(|index| at_hand.get(index)) {
                add_unless_known(&mut found, entry.clone());
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

/// Entries that were read around a change may be one entry under two slots.
fn add_unless_known(found: &mut Vec<Rendered>, entry: Rendered) {
    if found.iter().all(|known| known.id != entry.id) {
        found.push(entry);
    }
}

fn body(entries: &[Rendered]) -> Bytes {
    api::feedback::list(entries.iter().map(|entry| &entry.json))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::clock::Clock;
    use crate::domain::Time;
    use crate::store::Freshness;

    /// Of this many entries those in these slots are at hand.
    fn held(count: u64, slots: impl IntoIterator<Item = u64>) -> Held {
        let entries = Cache::with_weighter(ESTIMATED_ENTRIES, KEPT_BYTES, ByBytes);
        for slot in slots {
            entries.insert(slot, Rendered { id: slot.to_string().into(), json: Bytes::new() });
        }
        let freshness = Freshness::new(Clock::manual(Time::from_seconds(1)));
        Held { mark: freshness.mark(&Dependencies::default()), right: freshness.valid_now(), count, entries }
    }

    #[test]
    fn a_draw_from_memory_is_as_long_as_it_can_be_and_has_nothing_twice() {
        let table =
            [(0, 0, Some(0)), (3, 0, None), (3, 2, Some(2)), (3, 3, Some(3)), (100, 4, Some(4)), (1 << 40, 9, Some(5))];
        for (count, at_hand, expected) in table {
            for seed in 0..20 {
                let drawn = held(count, 0..at_hand).drawn_from_memory(seed);
                let ids = drawn.as_ref().map(|drawn| drawn.iter().map(|entry| &entry.id).collect::<Vec<_>>());
                assert_eq!(ids.as_ref().map(Vec::len), expected, "{at_hand} of {count}");
                let different = ids.as_ref().map(|ids| ids.iter().collect::<std::collections::BTreeSet<_>>().len());
                assert_eq!(different, expected, "{ids:?}");
            }
        }
    }

    #[test]
    fn every_entry_at_hand_is_as_likely_to_be_drawn_as_any_other() {
        // Met by chance, and looked through.
        for count in [30, 1 << 40] {
            let held = held(count, 10..20);
            let mut shown: BTreeMap<Arc<str>, u32> = BTreeMap::new();
            for seed in 0..4_000 {
                for entry in held.drawn_from_memory(seed).unwrap() {
                    *shown.entry(entry.id).or_default() += 1;
                }
            }
            assert_eq!(shown.len(), 10);
            assert!(shown.values().all(|times| (1_850..2_150).contains(times)), "{shown:?}");
        }
    }
}
