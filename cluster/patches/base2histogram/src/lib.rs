//! Stands in for the crate of this name, which openraft counts its batches with.
//!
//! The original makes lookup tables for sixteen resolutions when the first histogram is made, of which openraft uses one:
//! 25 MB that stay in memory in every process, more than all of an idle node besides. This one has what openraft calls, with the
//! same names, and takes memory for what was counted only. To be dropped when the original makes its tables on demand.

use std::fmt;
use std::marker::PhantomData;

/// Buckets per power of two, as a power of two: an answer is at most an eighth off.
const FINE: u32 = 3;

/// Counts of values, in buckets that grow with the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    /// By bucket; as many as the largest value needed.
    counts: Vec<u64>,
    slot: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Histogram<T> {
    /// With nothing counted, in no memory.
    pub fn new() -> Self {
        Self {
            counts: Vec::new(),
            slot: PhantomData,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `count` times.
    pub fn record_n(&mut self, value: u64, count: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += count;
    }

    /// How many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The least value that its bucket stands for, such that `p` (0 to 1) of all values are in it or below; 0 without any.
    pub fn percentile(&self, p: f64) -> u64 {
        let wanted = ((self.total() as f64 * p).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        reached.map_or(0, least)
    }

    /// The usual percentiles.
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total(),
            p0_1: self.percentile(0.001),
            p1: self.percentile(0.01),
            p5: self.percentile(0.05),
            p10: self.percentile(0.1),
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p99_9: self.percentile(0.999),
        }
    }
}

fn bucket(value: u64) -> usize {
    match value.checked_ilog2() {
        Some(power) if power >= FINE => {
            let doublings = power - FINE;
            // Its leading one is the first bucket of this power.
            ((doublings << FINE) as u64 + (value >> doublings)) as usize
        }
        _ => value as usize,
    }
}

fn least(bucket: usize) -> u64 {
    let fine = 1 << FINE;
    match (bucket as u64 / fine).checked_sub(1) {
        Some(doublings) => (fine + bucket as u64 % fine) << doublings,
        None => bucket as u64,
    }
}

/// Percentiles of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileStats {
    /// How many values were counted.
    pub samples: u64,
    /// All but a thousandth are at least this.
    pub p0_1: u64,
    /// The 1st percentile.
    pub p1: u64,
    /// The 5th percentile.
    pub p5: u64,
    /// The 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// All but a thousandth are at most about this.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            samples,
            p50,
            p90,
            p99,
            p99_9,
            ..
        } = self;
        write!(
            f,
            "[samples: {samples}, P50: {p50}, P90: {p90}, P99: {p99}, P99.9: {p99_9}]"
        )
    }
}

/// Several histograms, shown a line each.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart<T = ()>(Vec<(String, Histogram<T>)>);

impl<T> AsciiChart<T> {
    /// Of none.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// With one more.
    pub fn add(mut self, name: &str, histogram: Histogram<T>) -> Self {
        self.0.push((name.to_owned(), histogram));
        self
    }

    /// How it is shown.
    pub fn compact(&self) -> &Self {
        self
    }

    /// How it is shown.
    pub fn detailed(&self) -> &Self {
        self
    }
}

impl<T> fmt::Display for AsciiChart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(name, histogram)| writeln!(f, "{name}: {}", histogram.percentile_stats()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_where_the_one_before_ends() {
        let buckets = bucket(u64::MAX);
        for n in 0..buckets {
            assert_eq!(bucket(least(n)), n);
            assert_eq!(bucket(least(n + 1) - 1), n);
        }
    }

    #[test]
    fn percentiles_are_at_most_an_eighth_off() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile(0.5), 0);
        (1..=10_000).for_each(|value| histogram.record(value));
        assert_eq!(histogram.total(), 10_000);
        for (p, exact) in [(0.001, 10.0), (0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let told = histogram.percentile(p) as f64;
            assert!(told <= exact && told >= exact * 0.875, "{p}: {told}");
        }
    }

    #[test]
    fn memory_is_taken_for_what_was_counted() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.counts.capacity(), 0);
        histogram.record_n(0, 2);
        histogram.record(u64::MAX);
        assert_eq!((histogram.total(), histogram.counts.len()), (3, bucket(u64::MAX) + 1));
    }
}
