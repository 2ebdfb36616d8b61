//! `GET /feedback`: five random entries. Rendered entries are cached by their slot up to a bound, so a draw is a few look-ups
//! however many entries there are. A draw that meets an entry which is not cached reads all five from the store in one step.

use std::sync::Arc;

use api::feedback;
use bytes::Bytes;
use domain::feedback::{SHOWN, draw};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use runtime::random::Random;
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheRead, CacheSlot, Cached};
use super::warm::Warm;
use crate::sources::Sources;

/// How many bytes of rendered entries are cached.
const CACHED_BYTES: u64 = 16 << 20;
const ESTIMATED_ENTRIES: usize = 16_384;
/// How many draws look for entries by chance before all cached entries are gone through.
const RANDOM_DRAWS: usize = 32;
/// How many draws warm the cache.
const WARMING_DRAWS: u64 = 8;

pub struct FeedbackView {
    sources: Sources,
    cache: CacheSlot<FeedbackEntries>,
}

/// The entries of one state of the feedback, as far as they were read.
pub(super) struct FeedbackEntries {
    count: u64,
    by_slot: Cache<u64, RenderedEntry, ByBytes>,
}

#[derive(Clone)]
struct RenderedEntry {
    id: Arc<str>,
    json: Bytes,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<u64, RenderedEntry> for ByBytes {
    fn weight(&self, _: &u64, entry: &RenderedEntry) -> u64 {
        (entry.json.len() + entry.id.len() + 64) as u64
    }
}

impl FeedbackView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(CacheName::Feedback, sources) }
    }

    /// How many entries are cached; none before the first read.
    pub(super) fn entries(&self) -> usize {
        self.cache.with_any(|entries| entries.by_slot.len()).unwrap_or(0)
    }

    /// The draw of this seed, if all of its entries are cached and fresh. If not, [`FeedbackView::get`] must be called with the same
    /// seed: another draw in its place would show entries that are not cached more rarely than others.
    pub fn cached(&self, seed: u64) -> Option<Bytes> {
        self.cache.with_fresh(|entries| entries.draw(seed)).map(|drawn| body(&drawn))
    }

    /// The draw of this seed, from the store if need be; a draw from the cached entries if the store cannot be asked.
    pub async fn get(&self, seed: u64) -> Result<Bytes> {
        if let Some(body) = self.cached(seed) {
            return Ok(body);
        }
        self.cache.count_miss();
        match self.read(seed).await {
            Ok((_, drawn)) => Ok(body(&drawn)),
            Err(error) => self.cache.or_stale(error, |stale| stale.draw_from_cached(seed)).map(|drawn| body(&drawn)),
        }
    }

    /// The draw of this seed from the store, and the cached state that it belongs to.
    async fn read(&self, seed: u64) -> Result<(Arc<Cached<FeedbackEntries>>, Vec<RenderedEntry>)> {
        let mut read = CacheRead::begin(&self.sources);
        let sample = read.depend_on([Topic::Feedback]).sample_feedback(seed).await?;
        let cached = self.cache.get_or_insert(read, || FeedbackEntries::new(sample.count));
        let mut drawn = Vec::with_capacity(SHOWN);
        for (slot, entry) in sample.entries {
            let json = feedback::entry(entry.entry, &self.sources.pictures);
            let rendered = RenderedEntry { id: entry.id.into(), json };
            cached.by_slot.insert(slot, rendered.clone());
            drawn.push(rendered);
        }
        Ok((cached, drawn))
    }
}

impl Warm for FeedbackView {
    type Value = FeedbackEntries;

    fn cache(&self) -> &CacheSlot<FeedbackEntries> {
        &self.cache
    }

    /// Reads some draws, so that an outage does not show the same five entries to everybody.
    async fn refresh(&self) -> Result<()> {
        let seed = self.sources.clock.now().millis();
        for draw in 0..WARMING_DRAWS {
            let (cached, _) = self.read(seed.wrapping_add(draw)).await?;
            // While the cache is suspended, more draws would be wasted reads.
            if cached.by_slot.len() as u64 >= cached.count || self.sources.freshness.is_suspended() {
                break;
            }
        }
        Ok(())
    }
}

impl FeedbackEntries {
    fn new(count: u64) -> Self {
        Self { count, by_slot: Cache::with_weighter(ESTIMATED_ENTRIES, CACHED_BYTES, ByBytes) }
    }

    /// The draw of this seed, if all of its entries are cached.
    fn draw(&self, seed: u64) -> Option<Vec<RenderedEntry>> {
        let random = Random::seeded(seed);
        let slots = draw(self.count, || random.number());
        let entries: Vec<RenderedEntry> = slots.iter().map_while(|slot| self.by_slot.get(slot)).collect();
        // Entries that were read around a change may be one entry under two slots; then the store is asked.
        let has_twins = entries.iter().enumerate().any(|(index, a)| entries[..index].iter().any(|b| a.id == b.id));
        (entries.len() == slots.len() && !has_twins).then_some(entries)
    }

    /// A draw from the cached entries alone, each of them equally likely. `None` if there are entries, but none is cached.
    fn draw_from_cached(&self, seed: u64) -> Option<Vec<RenderedEntry>> {
        let random = Random::seeded(seed);
        let wanted = usize::try_from(self.count).unwrap_or(SHOWN).min(SHOWN);
        let mut found = Vec::with_capacity(wanted);
        for _ in 0..RANDOM_DRAWS {
            for slot in draw(self.count, || random.number()) {
                if found.len() < wanted
                    && let Some(entry) = self.by_slot.get(&slot)
                {
                    add_unless_known(&mut found, entry);
                }
            }
            if found.len() == wanted {
                return Some(found);
            }
        }
        // Few of many are cached: going through those is cheaper than meeting them by chance.
        let cached: Vec<RenderedEntry> = self.by_slot.iter().map(|(_, entry)| entry).collect();
        found.clear();
        for index in draw(cached.len() as u64, || random.number()) {
            if let Some(entry) = usize::try_from(index).ok().and_then(|index| cached.get(index)) {
                add_unless_known(&mut found, entry.clone());
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

/// Entries that were read around a change may be one entry under two slots.
fn add_unless_known(found: &mut Vec<RenderedEntry>, entry: RenderedEntry) {
    if found.iter().all(|known| known.id != entry.id) {
        found.push(entry);
    }
}

fn body(drawn: &[RenderedEntry]) -> Bytes {
    feedback::list(drawn.iter().map(|entry| &entry.json))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Of this many entries those in these slots are cached.
    fn entries(count: u64, cached: impl IntoIterator<Item = u64>) -> FeedbackEntries {
        let entries = FeedbackEntries::new(count);
        for slot in cached {
            entries.by_slot.insert(slot, RenderedEntry { id: slot.to_string().into(), json: Bytes::new() });
        }
        entries
    }

    #[test]
    fn a_draw_from_the_cache_is_as_long_as_it_can_be_and_has_nothing_twice() {
        let table =
            [(0, 0, Some(0)), (3, 0, None), (3, 2, Some(2)), (3, 3, Some(3)), (100, 4, Some(4)), (1 << 40, 9, Some(5))];
        for (count, cached, expected) in table {
            for seed in 0..20 {
                let drawn = entries(count, 0..cached).draw_from_cached(seed);
                let ids = drawn.as_ref().map(|drawn| drawn.iter().map(|entry| &entry.id).collect::<Vec<_>>());
                assert_eq!(ids.as_ref().map(Vec::len), expected, "{cached} of {count}");
                let different = ids.as_ref().map(|ids| ids.iter().collect::<std::collections::BTreeSet<_>>().len());
                assert_eq!(different, expected, "{ids:?}");
            }
        }
    }

    #[test]
    fn every_cached_entry_is_as_likely_to_be_drawn_as_any_other() {
        // Met by chance, and gone through.
        for count in [30, 1 << 40] {
            let entries = entries(count, 10..20);
            let mut shown: BTreeMap<Arc<str>, u32> = BTreeMap::new();
            for seed in 0..4_000 {
                for entry in entries.draw_from_cached(seed).unwrap() {
                    *shown.entry(entry.id).or_default() += 1;
                }
            }
            assert_eq!(shown.len(), 10);
            assert!(shown.values().all(|times| (1_850..2_150).contains(times)), "{shown:?}");
        }
    }
}
