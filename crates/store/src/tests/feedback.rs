//! Feedback: which entries are drawn, and from what.

use std::collections::{BTreeMap, BTreeSet};

use domain::Change;
use domain::feedback::{Feedback, FeedbackEntry, SHOWN};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::Topic;

on_each_store! {
    feedback_is_drawn_among_the_positive,
}

pub(super) fn entry(name: &str, rating: u8, user: u64) -> Feedback {
    let entry = FeedbackEntry { feedback: format!("about {name}"), rating, timestamp: 5, submitter: person(user) };
    Feedback { id: name.to_owned(), entry }
}

async fn feedback_is_drawn_among_the_positive(fixture: Fixture) {
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap(), crate::Sample::default());
    let topics = [Topic::Feedback];
    let put = |name: &str, rating| vec![Change::Feedback(entry(name, rating, 1))];
    assert!(fixture.apply(&topics, put("bad", 3)).await.is_empty());
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        assert_eq!(fixture.apply(&topics, put(name, 4)).await, topics);
    }
    let first = fixture.store.sample_feedback(1).await.unwrap();
    assert_eq!(first, fixture.store.sample_feedback(1).await.unwrap(), "a seed says it all");
    assert_eq!((first.count, first.entries.len()), (7, SHOWN));
    for (_, drawn) in &first.entries {
        assert_eq!(*drawn, entry(&drawn.id, 4, 1));
    }
    assert_ne!(first, fixture.store.sample_feedback(2).await.unwrap());
    for (slot, expected) in [(0, ""), (3, "abc"), (7, "abcdefg"), (u64::MAX, "abcdefg")] {
        let before = fixture.store.feedback_before(slot).await.unwrap();
        assert_eq!(before.entries.iter().map(|(_, stored)| stored.id.as_str()).collect::<String>(), expected);
        assert!(before.count == 7 && before.entries.iter().map(|(slot, _)| *slot).eq(0..expected.len() as u64));
    }
    assert_eq!(fixture.apply(&topics, vec![Change::FeedbackGone("a".to_owned())]).await, topics);
    assert!(fixture.apply(&topics, vec![Change::FeedbackGone("a".to_owned())]).await.is_empty());
    assert_eq!(fixture.store.sample_feedback(1).await.unwrap().count, 6);
}

/// Runs random steps, each a name and a rating, where a rating of 0 is a removal. After each step, the slots of the positive
/// entries have no gap, and as many of them are drawn as are shown.
fn check_slots(cases: u32, open: impl Future<Output = Option<Fixture>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Some(fixture) = runtime.block_on(open) else { return };
    let steps = prop::collection::vec((0_u8..12, 0_u8..=5), 1..60);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    let outcome = TestRunner::new(config).run(&(steps, any::<u64>()), |(steps, seed)| {
        runtime.block_on(async {
            let all = (0..12_u8).map(|name| Change::FeedbackGone(name.to_string()));
            fixture.store.apply(all.collect()).await.unwrap();
            let mut ratings: BTreeMap<String, u8> = BTreeMap::new();
            for (name, rating) in steps {
                let name = name.to_string();
                if rating == 0 {
                    ratings.remove(&name);
                    fixture.store.apply(vec![Change::FeedbackGone(name)]).await.unwrap();
                } else {
                    fixture.store.apply(vec![Change::Feedback(entry(&name, rating, 1))]).await.unwrap();
                    ratings.insert(name, rating);
                }
                let positive: BTreeSet<_> =
                    ratings.iter().filter(|(_, rating)| **rating >= 4).map(|(name, _)| name.clone()).collect();
                let slots = fixture.select("SELECT slot, id FROM feedback WHERE slot IS NOT NULL ORDER BY slot").await;
                let length = i64::try_from(positive.len()).unwrap();
                prop_assert!(slots.iter().map(|(slot, _)| *slot).eq(0..length), "{slots:?}");
                prop_assert_eq!(slots.into_iter().map(|(_, id)| id).collect::<BTreeSet<_>>(), positive.clone());
                let sample = fixture.store.sample_feedback(seed).await.unwrap();
                let drawn: BTreeSet<_> = sample.entries.iter().map(|(_, entry)| entry.id.clone()).collect();
                prop_assert_eq!(drawn.len(), positive.len().min(SHOWN));
                prop_assert!(drawn.is_subset(&positive));
            }
            Ok(())
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

mod the_slots_of_positive_entries_have_no_gap {
    use super::{Fixture, check_slots};

    #[test]
    fn on_sqlite() {
        check_slots(64, async { Some(Fixture::on_sqlite().await) });
    }

    #[test]
    fn on_postgres() {
        check_slots(16, Fixture::on_postgres());
    }
}
