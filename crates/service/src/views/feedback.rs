//! `GET /feedback`: five random entries. The cache holds the rendered entries up to a limit, by slot, so a draw is a few lookups.
//! A draw with an entry beyond the limit, or right after a change, comes from the store.

use api::feedback;
use bytes::Bytes;
use domain::feedback::draw;
use domain::saturating;
use runtime::random::Random;
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::CacheRead;
use super::public::{PublicKind, PublicView};
use crate::sources::Sources;

/// How many entries are cached, and how many bytes of them.
const CACHED_ENTRIES: u64 = 4_096;
const CACHED_BYTES: usize = 16 << 20;

pub struct FeedbackView;

/// The first entries, rendered.
pub struct FeedbackEntries {
    /// How many entries there are, cached or not.
    count: u64,
    /// By slot; `None` for one that could not be read.
    rendered: Vec<Option<Bytes>>,
    /// Whether these are all entries.
    is_whole: bool,
}

impl PublicView<FeedbackView> {
    /// The draw for this seed, if all entries are cached and fresh. With some of them, those in the cache would be drawn more often
    /// than others, because [`Self::draw`] draws again.
    pub fn cached(&self, seed: u64) -> Option<Bytes> {
        self.cache.with_fresh(|entries| if entries.is_whole { entries.draw(seed) } else { None })
    }

    /// The draw for this seed, from the store if needed; a draw from the cached entries if the store cannot be reached.
    pub async fn draw(&self, seed: u64) -> Result<Bytes> {
        if let Some(body) = self.cache.with_fresh(|entries| entries.draw(seed)) {
            return Ok(body);
        }
        self.cache.count_miss();
        match self.sources.store.sample_feedback(seed).await {
            Ok(sample) => {
                let entries = sample.entries.into_iter().map(|(_, stored)| stored.entry);
                let rendered: Vec<Bytes> =
                    entries.map(|entry| feedback::entry(entry, &self.sources.pictures)).collect();
                Ok(feedback::list(rendered.iter()))
            }
            Err(error) => self.cache.or_stale(error, |stale| stale.draw_from_cached(seed)),
        }
    }
}

impl PublicKind for FeedbackView {
    type Value = FeedbackEntries;
    const NAME: CacheName = CacheName::Feedback;

    async fn read(sources: &Sources, read: &mut CacheRead<'_>) -> Result<FeedbackEntries> {
        let first = read.depend_on([Topic::Feedback]).feedback_before(CACHED_ENTRIES).await?;
        let entries = first.entries.into_iter();
        let entries = entries.map(|(slot, stored)| (slot, feedback::entry(stored.entry, &sources.pictures)));
        Ok(FeedbackEntries::new(first.count, entries))
    }

    fn entries(cached: &FeedbackEntries) -> usize {
        cached.rendered.len()
    }
}

impl FeedbackEntries {
    /// The first of these entries, in the order of their slots, as far as there is room.
    fn new(count: u64, entries: impl Iterator<Item = (u64, Bytes)>) -> Self {
        let (mut rendered, mut bytes) = (Vec::new(), 0);
        for (slot, json) in entries {
            bytes += json.len();
            if bytes > CACHED_BYTES {
                break;
            }
            rendered.resize(saturating::to_usize(slot), None);
            rendered.push(Some(json));
        }
        let is_whole = rendered.iter().flatten().count() as u64 == count;
        Self { count, rendered, is_whole }
    }

    fn get(&self, slot: u64) -> Option<&Bytes> {
        self.rendered.get(saturating::to_usize(slot))?.as_ref()
    }

    /// The body of the draw for this seed, if all of its entries are cached.
    fn draw(&self, seed: u64) -> Option<Bytes> {
        let random = Random::seeded(seed);
        let slots = draw(self.count, || random.number());
        let is_cached = slots.iter().all(|slot| self.get(*slot).is_some());
        is_cached.then(|| feedback::list(slots.iter().filter_map(|slot| self.get(*slot))))
    }

    /// A draw from the cached entries alone, each of them equally likely. `None` if there are entries but none is cached.
    fn draw_from_cached(&self, seed: u64) -> Option<Bytes> {
        let random = Random::seeded(seed);
        let cached: Vec<&Bytes> = self.rendered.iter().flatten().collect();
        let drawn = draw(cached.len() as u64, || random.number());
        let drawn = drawn.iter().filter_map(|index| cached.get(saturating::to_usize(*index)).copied());
        (self.count == 0 || !cached.is_empty()).then(|| feedback::list(drawn))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::feedback::SHOWN;

    use super::*;

    /// This many entries; those in these slots are cached. Each is rendered as its slot.
    fn entries(count: u64, cached: impl IntoIterator<Item = u64>) -> FeedbackEntries {
        FeedbackEntries::new(count, cached.into_iter().map(|slot| (slot, slot.to_string().into())))
    }

    fn shown(body: &Bytes) -> Vec<u64> {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        serde_json::from_value(body["data"].clone()).unwrap()
    }

    #[test]
    fn a_draw_needs_all_of_its_entries() {
        let (all, gap, first) = (entries(8, 0..8), entries(8, (0..8).filter(|slot| *slot != 3)), entries(8, 0..6));
        for seed in 0..40 {
            let random = Random::seeded(seed);
            let slots = draw(8, || random.number());
            assert_eq!(shown(&all.draw(seed).unwrap()), *slots, "in the order of the draw");
            assert_eq!(gap.draw(seed).is_some(), !slots.contains(&3));
            assert_eq!(first.draw(seed).is_some(), slots.iter().all(|slot| *slot < 6));
        }
    }

    #[test]
    fn a_draw_from_the_cache_is_as_long_as_it_can_be_and_each_entry_is_as_likely_as_any_other() {
        assert_eq!(entries(0, 0..0).draw_from_cached(1).map(|body| shown(&body)), Some(vec![]));
        assert_eq!(entries(3, 0..0).draw_from_cached(1), None);
        for (count, cached) in [(3, 2), (3, 3), (100, 4), (1 << 40, 10)] {
            let entries = entries(count, 0..cached);
            let mut times: BTreeMap<u64, u32> = BTreeMap::new();
            for seed in 0..4_000 {
                let drawn = shown(&entries.draw_from_cached(seed).unwrap());
                assert_eq!(drawn.len() as u64, cached.min(SHOWN as u64));
                for slot in drawn {
                    *times.entry(slot).or_default() += 1;
                }
            }
            assert_eq!(times.len() as u64, cached);
            let expected = if cached > SHOWN as u64 { 1_850..2_150 } else { 4_000..4_001 };
            assert!(times.values().all(|times| expected.contains(times)), "{times:?}");
        }
    }

    #[test]
    fn the_cache_has_a_bound_in_bytes() {
        let large = Bytes::from(vec![b' '; CACHED_BYTES / 10]);
        let entries = FeedbackEntries::new(100, (0..100).map(|slot| (slot, large.clone())));
        assert_eq!(entries.rendered.len(), 10);
    }
}
