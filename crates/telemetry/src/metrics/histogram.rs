//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::saturating;

/// The upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
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
        let bucket = BOUNDS.iter().position(|most| nanos <= most * 1_000).unwrap_or(BOUNDS.len());
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

    /// For each upper bound in seconds, how many took at most that long; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (String, u64)> {
        let bounds = BOUNDS.iter().map(|micros| Duration::from_micros(*micros).as_secs_f64().to_string());
        bounds.chain(["+Inf".to_owned()]).zip(self.buckets.iter().scan(0, |sum, bucket| {
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
        let counts = [2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 6];
        let bounds = [
            "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10",
            "+Inf",
        ];
        assert_eq!(cumulative, bounds.map(ToOwned::to_owned).into_iter().zip(counts).collect::<Vec<_>>());
        assert_eq!(both.count(), 6);
        assert_eq!(both.sum(), Duration::from_nanos(70_001_501_001));
    }
}
