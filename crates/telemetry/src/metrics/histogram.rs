//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::saturating;

/// The upper bounds of the buckets, in microseconds and as written, in seconds.
const BOUNDS: [(u64, &str); 14] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

#[derive(Debug, Default)]
pub struct Histogram {
    /// One per bound, and one for anything longer. Each counts what is not in an earlier bucket.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// Nanoseconds. They last for 584 years of work before they wrap around.
    sum: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, took: Duration) {
        let nanos = saturating::nanos(took);
        let bucket = BOUNDS.iter().position(|(most, _)| nanos <= most * 1_000).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The counts of a histogram, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    buckets: [u64; BOUNDS.len() + 1],
    sum: u64,
}

impl HistogramSnapshot {
    /// All of these together.
    pub fn of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Self {
        let mut all = Self::default();
        for histogram in histograms {
            for (sum, bucket) in all.buckets.iter_mut().zip(&histogram.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            all.sum = all.sum.wrapping_add(histogram.sum.load(Ordering::Relaxed));
        }
        all
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// For each upper bound, as written, how many took at most that long; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let bounds = BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
        bounds.zip(self.buckets.iter().scan(0, |sum, bucket| {
            *sum += bucket;
            Some(*sum)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_all_that_took_at_most_its_bound() {
        let (first, second) = (Histogram::default(), Histogram::default());
        for micros in [0, 500, 501, 10_000_000] {
            first.observe(Duration::from_micros(micros));
        }
        second.observe(Duration::from_nanos(500_001));
        second.observe(Duration::from_mins(1));
        let both = HistogramSnapshot::of([&first, &second]);
        let cumulative: Vec<_> = both.cumulative().collect();
        assert_eq!(&cumulative[..2], [("0.0005", 2), ("0.001", 4)]);
        assert_eq!(&cumulative[13..], [("10", 5), ("+Inf", 6)]);
        assert_eq!(both.count(), 6);
        assert_eq!(both.sum(), Duration::from_nanos(70_001_501_001));
    }

    #[test]
    fn bounds_are_written_as_they_are_and_grow() {
        for (micros, text) in BOUNDS {
            let seconds: f64 = text.parse().unwrap();
            assert_eq!(Duration::from_secs_f64(seconds), Duration::from_micros(micros));
        }
        assert!(BOUNDS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
