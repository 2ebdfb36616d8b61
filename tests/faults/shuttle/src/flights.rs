//! The single flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::future::{block_on, yield_now};
use shuttle::thread;

use crate::background::Background;
use crate::single_flight::SingleFlight;

const KEY: u8 = 1;
const CALLERS: usize = 3;
const ASKS: usize = 2;

/// Counts the calls. Plain atomics, so that shuttle doesn't schedule around them.
#[derive(Default)]
struct Calls {
    begun: AtomicU64,
    under_way: AtomicU64,
    /// The latest call whose result has been returned to a caller.
    delivered: AtomicU64,
}

/// Counts a call while it is in progress, even if it is dropped.
struct UnderWay(Arc<Calls>);

impl UnderWay {
    fn begin(calls: &Arc<Calls>) -> Self {
        assert_eq!(calls.under_way.fetch_add(1, Ordering::SeqCst), 0, "two calls of one key at a time");
        Self(Arc::clone(calls))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A call that returns its number.
async fn call(calls: Arc<Calls>) -> u64 {
    let number = calls.begun.fetch_add(1, Ordering::SeqCst) + 1;
    let under_way = UnderWay::begin(&calls);
    yield_now().await;
    drop(under_way);
    number
}

/// Several threads ask for the same key over and over, and check what they get.
fn ask(loses_work: bool) -> Arc<Calls> {
    let (flights, calls) = (Arc::new(SingleFlight::new(Background { loses_work })), Arc::new(Calls::default()));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (flights, calls) = (Arc::clone(&flights), Arc::clone(&calls));
            thread::spawn(move || {
                for _ in 0..ASKS {
                    let delivered = calls.delivered.load(Ordering::SeqCst);
                    let begun = Arc::clone(&calls);
                    let outcome = block_on(flights.join(KEY, move || call(begun)).outcome());
                    assert!(loses_work || outcome.is_some(), "a call that ran to its end has no outcome");
                    if let Some(number) = outcome {
                        assert!(number > delivered, "an outcome that somebody had before this one asked");
                        calls.delivered.fetch_max(number, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
    // The earlier calls must leave nothing behind: the key is free.
    let begun = calls.begun.load(Ordering::SeqCst);
    let last = Arc::clone(&calls);
    let outcome = block_on(flights.join(KEY, move || call(last)).outcome());
    assert!(outcome.is_none_or(|number| number == begun + 1), "the key was still taken");
    calls
}

pub(crate) fn shared_calls() {
    let calls = ask(false);
    let begun = calls.begun.load(Ordering::SeqCst);
    assert!(
        begun > ASKS as u64,
        "each caller asks again only after an outcome, so each ask but the first needs a call"
    );
}

pub(crate) fn lost_calls() {
    ask(true);
}
