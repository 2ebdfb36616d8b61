//! `GET /feedback`: five random entries. Rendered entries are cached in a table by slot, up to a limit, so a draw is a few
//! lookups. A draw that hits an uncached entry reads all five from the store in one step.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use api::feedback;
use bytes::Bytes;
use domain::feedback::{SHOWN, draw};
use domain::saturating;
use runtime::random::Random;
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheRead, CacheSlot, Cached};
use super::warm::Warm;
use crate::sources::Sources;

/// How many bytes of rendered entries are cached.
const CACHED_BYTES: usize = 16 << 20;
/// Up to this many entries, each has its own place. With more, hardly any draw would find all of its entries in a table of any
/// size; a small one is enough for when the store cannot be reached.
const OWN_PLACES: u64 = 1 << 16;
const SHARED_PLACES: u64 = 1 << 10;
const PAGE: usize = 64;
/// How many draws look for entries at random before going through all cached ones.
const RANDOM_DRAWS: usize = 32;
/// How many draws warm the cache.
const WARMING_DRAWS: u64 = 8;

pub struct FeedbackView {
    sources: Sources,
    cache: CacheSlot<FeedbackEntries>,
}

/// The entries that were read for one state of the feedback.
pub(super) struct FeedbackEntries {
    count: u64,
    table: EntryTable,
}

/// Entries by slot, in pages that are created for their first entry. Existing entries stay; if several share a place, the first
/// one counts.
struct EntryTable {
    pages: Box<[OnceLock<Box<Page>>]>,
    places: u64,
    filled: AtomicUsize,
    bytes: AtomicUsize,
}

type Page = [OnceLock<RenderedEntry>; PAGE];

#[derive(Clone)]
struct RenderedEntry {
    slot: u64,
    /// Two entries with the same fingerprint are treated as one.
    fingerprint: u64,
    json: Bytes,
}

impl EntryTable {
    fn new(count: u64) -> Self {
        let places = if count > OWN_PLACES { SHARED_PLACES } else { count.max(1) };
        let pages = (0..places.div_ceil(PAGE as u64)).map(|_| OnceLock::new()).collect();
        Self { pages, places, filled: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// The page of a slot, and the place in it.
    fn place(&self, slot: u64) -> (usize, usize) {
        let place = saturating::to_usize(slot % self.places);
        (place / PAGE, place % PAGE)
    }

    fn get(&self, slot: u64) -> Option<&RenderedEntry> {
        let (page, place) = self.place(slot);
        self.pages.get(page)?.get()?[place].get().filter(|entry| entry.slot == slot)
    }

    fn insert(&self, entry: RenderedEntry) {
        let size = entry.json.len() + size_of::<RenderedEntry>();
        if self.bytes.load(Ordering::Relaxed) + size > CACHED_BYTES {
            return;
        }
        let (page, place) = self.place(entry.slot);
        let Some(page) = self.pages.get(page) else { return };
        if page.get_or_init(|| Box::new([const { OnceLock::new() }; PAGE]))[place].set(entry).is_ok() {
            self.filled.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(size, Ordering::Relaxed);
        }
    }

    fn len(&self) -> usize {
        self.filled.load(Ordering::Relaxed)
    }

    fn iter(&self) -> impl Iterator<Item = &RenderedEntry> {
        self.pages.iter().filter_map(OnceLock::get).flat_map(|page| page.iter()).filter_map(OnceLock::get)
    }
}

impl RenderedEntry {
    fn new(slot: u64, id: &str, json: Bytes) -> Self {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Self { slot, fingerprint: hasher.finish(), json }
    }
}

impl FeedbackView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(CacheName::Feedback, sources) }
    }

    /// How many entries are cached; none before the first read.
    pub(super) fn entries(&self) -> usize {
        self.cache.with_any(|entries| entries.table.len()).unwrap_or(0)
    }

    /// The draw for this seed, if all of its entries are cached and fresh. If not, call [`FeedbackView::get`] with the same
    /// seed: a different draw would show uncached entries less often than others.
    pub fn cached(&self, seed: u64) -> Option<Bytes> {
        self.cache.with_fresh(|entries| entries.draw(seed))
    }

    /// The draw for this seed, from the store if needed; a draw from the cached entries if the store cannot be reached.
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

    /// The draw for this seed from the store, and the cached state it belongs to.
    async fn read(&self, seed: u64) -> Result<(Arc<Cached<FeedbackEntries>>, Vec<RenderedEntry>)> {
        let mut read = CacheRead::begin(&self.sources);
        let sample = read.depend_on([Topic::Feedback]).sample_feedback(seed).await?;
        let cached = self.cache.get_or_insert(read, || FeedbackEntries::new(sample.count));
        let mut drawn = Vec::with_capacity(SHOWN);
        for (slot, entry) in sample.entries {
            let json = feedback::entry(entry.entry, &self.sources.pictures);
            let rendered = RenderedEntry::new(slot, &entry.id, json);
            cached.table.insert(rendered.clone());
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

    /// Reads some draws, so that an outage does not show the same five entries to everyone.
    async fn refresh(&self) -> Result<()> {
        let seed = self.sources.clock.now().millis();
        for draw in 0..WARMING_DRAWS {
            let (cached, _) = self.read(seed.wrapping_add(draw)).await?;
            // While the cache is suspended, more draws would be wasted reads.
            if cached.table.len() as u64 >= cached.count || self.sources.freshness.is_suspended() {
                break;
            }
        }
        Ok(())
    }
}

impl FeedbackEntries {
    fn new(count: u64) -> Self {
        Self { count, table: EntryTable::new(count) }
    }

    /// The body of the draw for this seed, if all of its entries are cached.
    fn draw(&self, seed: u64) -> Option<Bytes> {
        let random = Random::seeded(seed);
        let slots = draw(self.count, || random.number());
        let mut found = [None; SHOWN];
        for (place, slot) in found.iter_mut().zip(slots.iter()) {
            *place = Some(self.table.get(*slot)?);
        }
        let entries = found.iter().flatten();
        // After a change, the same entry may be cached under two slots. Then the store is asked.
        let has_twins = entries
            .clone()
            .enumerate()
            .any(|(index, a)| entries.clone().take(index).any(|b| a.fingerprint == b.fingerprint));
        (!has_twins).then(|| feedback::list(entries.map(|entry| &entry.json)))
    }

    /// A draw from the cached entries alone, each of them equally likely. `None` if there are entries but none is cached.
    fn draw_from_cached(&self, seed: u64) -> Option<Vec<RenderedEntry>> {
        let random = Random::seeded(seed);
        let wanted = usize::try_from(self.count).unwrap_or(SHOWN).min(SHOWN);
        let mut found = Vec::with_capacity(wanted);
        for _ in 0..RANDOM_DRAWS {
            for slot in draw(self.count, || random.number()).iter() {
                if found.len() < wanted
                    && let Some(entry) = self.table.get(*slot)
                {
                    add_unless_known(&mut found, entry);
                }
            }
            if found.len() == wanted {
                return Some(found);
            }
        }
        // Few of many are cached, so going through those is cheaper than hitting them at random.
        let cached: Vec<&RenderedEntry> = self.table.iter().collect();
        found.clear();
        for index in draw(cached.len() as u64, || random.number()).iter() {
            if let Some(entry) = cached.get(saturating::to_usize(*index)) {
                add_unless_known(&mut found, entry);
            }
        }
        (!found.is_empty()).then_some(found)
    }
}

/// Entries read around a change may be one entry under two slots.
fn add_unless_known(found: &mut Vec<RenderedEntry>, entry: &RenderedEntry) {
    if found.iter().all(|known| known.fingerprint != entry.fingerprint) {
        found.push(entry.clone());
    }
}

fn body(drawn: &[RenderedEntry]) -> Bytes {
    feedback::list(drawn.iter().map(|entry| &entry.json))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// This many entries; those in these slots are cached.
    fn entries(count: u64, cached: impl IntoIterator<Item = u64>) -> FeedbackEntries {
        let entries = FeedbackEntries::new(count);
        for slot in cached {
            entries.table.insert(RenderedEntry::new(slot, &slot.to_string(), slot.to_string().into()));
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
                let ids = drawn.as_ref().map(|drawn| drawn.iter().map(|entry| &entry.json).collect::<Vec<_>>());
                assert_eq!(ids.as_ref().map(Vec::len), expected, "{cached} of {count}");
                let different = ids.as_ref().map(|ids| ids.iter().collect::<std::collections::BTreeSet<_>>().len());
                assert_eq!(different, expected, "{ids:?}");
            }
        }
    }

    #[test]
    fn every_cached_entry_is_as_likely_to_be_drawn_as_any_other() {
        // Hit at random, and gone through.
        for count in [30, 1 << 40] {
            let entries = entries(count, 10..20);
            let mut shown: BTreeMap<Bytes, u32> = BTreeMap::new();
            for seed in 0..4_000 {
                for entry in entries.draw_from_cached(seed).unwrap() {
                    *shown.entry(entry.json).or_default() += 1;
                }
            }
            assert_eq!(shown.len(), 10);
            assert!(shown.values().all(|times| (1_850..2_150).contains(times)), "{shown:?}");
        }
    }

    #[test]
    fn a_draw_needs_all_of_its_entries_each_under_its_own_slot() {
        let all = entries(8, 0..8);
        for seed in 0..20 {
            let body: serde_json::Value = serde_json::from_slice(&all.draw(seed).unwrap()).unwrap();
            let slots = draw(8, {
                let random = Random::seeded(seed);
                move || random.number()
            });
            assert_eq!(body["data"], serde_json::json!(slots.to_vec()), "in the order of the draw");
        }
        assert!((0..20).any(|seed| entries(8, 0..7).draw(seed).is_none()), "one is missing");
        let twins = entries(2, 0..1);
        twins.table.insert(RenderedEntry::new(1, "0", "1".into()));
        assert!(twins.draw(0).is_none(), "one entry under two slots");
        // These share a place.
        let many = OWN_PLACES + 1;
        let shared = entries(many, [3, 3 + SHARED_PLACES]);
        assert_eq!((shared.table.get(3).is_some(), shared.table.get(3 + SHARED_PLACES).is_none()), (true, true));
        assert_eq!(shared.table.len(), 1);
    }

    #[test]
    fn the_table_has_a_bound_in_bytes() {
        let entries = entries(100, 0..0);
        for slot in 0..100 {
            entries.table.insert(RenderedEntry::new(slot, &slot.to_string(), vec![b' '; CACHED_BYTES / 10].into()));
        }
        assert_eq!(entries.table.len(), 9);
    }
}
