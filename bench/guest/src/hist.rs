// SPDX-License-Identifier: GPL-2.0

//! A latency histogram: 32 buckets for each doubling, so a bucket's width is at most 3 %.

use crate::json::Json;

const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
/// Up to 2^40 ns, 18 minutes.
const BUCKETS: usize = (41 - STEP_BITS as usize) * STEPS;
const HEAD: usize = 5;

/// Latencies in nanoseconds.
#[derive(Clone)]
pub struct Hist {
    count: u64,
    max: u64,
    slow: u64,
    sum: f64,
    squares: f64,
    /// A latency above this counts as slow.
    limit_ns: u64,
    buckets: Vec<u64>,
}

fn bucket_of(ns: u64) -> usize {
    let steps = STEPS as u64;
    if ns < steps {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - STEP_BITS;
    let index = (shift as usize + 1) * STEPS + ((ns >> shift) - steps) as usize;
    index.min(BUCKETS - 1)
}

/// Returns the least latency above the bucket.
fn bucket_end(index: usize) -> u64 {
    if index < STEPS {
        return index as u64 + 1;
    }
    let shift = index / STEPS - 1;
    ((index % STEPS + STEPS + 1) as u64) << shift
}

impl Hist {
    /// Returns an empty histogram that counts latencies above `limit_ns` as slow.
    pub fn new(limit_ns: u64) -> Self {
        Self {
            count: 0,
            max: 0,
            slow: 0,
            sum: 0.0,
            squares: 0.0,
            limit_ns,
            buckets: vec![0; BUCKETS],
        }
    }

    /// Adds one latency.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.max = self.max.max(ns);
        self.slow += u64::from(ns > self.limit_ns);
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket += 1;
        }
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds all latencies of another one.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.max = self.max.max(other.max);
        self.slow += other.slow;
        self.sum += other.sum;
        self.squares += other.squares;
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// Returns the histogram as words, for a pipe.
    pub fn to_words(&self) -> Vec<u64> {
        let head = [
            self.count,
            self.max,
            self.slow,
            self.sum.to_bits(),
            self.squares.to_bits(),
        ];
        head.into_iter()
            .chain(self.buckets.iter().copied())
            .collect()
    }

    /// Returns what [`Hist::to_words`] made, or `None` if it is something else.
    pub fn from_words(words: &[u64], limit_ns: u64) -> Option<Self> {
        let (head, buckets) = words.split_at_checked(HEAD)?;
        let [count, max, slow, sum, squares] = *head else {
            return None;
        };
        (buckets.len() == BUCKETS).then(|| Self {
            count,
            max,
            slow,
            sum: f64::from_bits(sum),
            squares: f64::from_bits(squares),
            limit_ns,
            buckets: buckets.to_vec(),
        })
    }

    /// Returns the latency in nanoseconds that the share `part` of all does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let wanted = (self.count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= wanted {
                return (bucket_end(index) as f64).min(self.max as f64);
            }
        }
        self.max as f64
    }

    /// Adds count, mean, deviation, quantiles and the longest to `values`, in milliseconds.
    pub fn describe(&self, values: &mut Json) {
        let count = (self.count as f64).max(1.0);
        let mean = self.sum / count;
        let deviation = (self.squares / count - mean * mean).max(0.0).sqrt();
        values.put("count", self.count);
        values.put("mean_ms", mean / 1e6);
        values.put("deviation_ms", deviation / 1e6);
        for (name, part) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
            values.put(name, self.quantile(part) / 1e6);
        }
        values.put("longest_ms", self.max as f64 / 1e6);
        values.put("slow", self.slow);
    }

    /// Returns the buckets that hold anything, as pairs of upper end in nanoseconds and count.
    pub fn series(&self) -> Json {
        let filled = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        let pairs = filled.map(|(index, count)| Json::from(vec![bucket_end(index), *count]));
        Json::List(pairs.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_below_its_buckets_end_by_at_most_a_step() {
        for ns in (0..5000).chain([1 << 20, (1 << 20) + 1, (1 << 30) - 1, 1 << 39]) {
            let index = bucket_of(ns);
            assert!(ns < bucket_end(index), "{ns}");
            assert!(index == 0 || ns >= bucket_end(index - 1), "{ns}");
        }
    }

    #[test]
    fn quantiles_and_the_way_through_a_pipe() {
        let mut hist = Hist::new(900);
        (1..=1000).for_each(|ns| hist.add(ns));
        let copy = Hist::from_words(&hist.to_words(), 900).unwrap();
        assert_eq!((copy.count, copy.max, copy.slow), (1000, 1000, 100));
        assert!((copy.quantile(0.5) / 500.0 - 1.0).abs() < 0.04);
        assert_eq!(copy.quantile(1.0), 1000.0);
    }
}
