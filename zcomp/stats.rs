// SPDX-License-Identifier: GPL-2.0

//! What pages met on their way through the streams of one codec of one device.
//!
//! The counters live in the device, not in the codec object: who reads them never touches what reset
//! frees. Each is one per-CPU addition; waiting is only measured by those who wait.
//!
//! # Context
//!
//! Counting: any context, no lock, no sleep. Making them allocates. Sums are not a snapshot of one
//! moment; [`Stats::reset`] may miss an addition that runs meanwhile.

use crate::kapi::{
    atomic::AtomicU64,
    percpu::Counters, //
};
use core::fmt;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What is counted. The order is that of the listing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Reads that held no stream: object in one piece, codec without state.
    SharedReads,
    /// Reads that held no stream and put a spanning object together in the bio's bounce buffer.
    BouncedReads,
    /// Reads of a spanning object that found no bounce buffer and used a stream's local copy.
    BounceFallbacks,
    /// Reads that held the stream of their own CPU.
    ExclusiveReads,
    /// Reads that held another CPU's stream, or the reserve.
    BorrowedReads,
    /// Reads that waited for a stream.
    ContendedReads,
    /// Time those waited, in ns.
    ReadWaitNs,
    /// Stored bytes that did not make a page.
    DamagedReads,
    /// Writes that held the stream of their own CPU.
    ExclusiveWrites,
    /// Writes that held another CPU's stream, or the reserve.
    BorrowedWrites,
    /// Writes that waited for a stream.
    ContendedWrites,
    /// Time those waited, in ns.
    WriteWaitNs,
    /// Writes whose compressed bytes were kept while memory was found for them.
    KeptWrites,
    /// Writes that had to be compressed again, as no spare buffer was left to keep them in.
    RepeatedWrites,
    /// Pages that the codec's library refused for a reason of its own; stored raw.
    FailedWrites,
}

/// How many counters there are.
const COUNTERS: usize = 15;

/// Their names, by number.
const NAMES: [(Counter, &str); COUNTERS] = [
    (Counter::SharedReads, "shared_reads"),
    (Counter::BouncedReads, "bounced_reads"),
    (Counter::BounceFallbacks, "bounce_fallbacks"),
    (Counter::ExclusiveReads, "exclusive_reads"),
    (Counter::BorrowedReads, "borrowed_reads"),
    (Counter::ContendedReads, "contended_reads"),
    (Counter::ReadWaitNs, "read_wait_ns"),
    (Counter::DamagedReads, "damaged_reads"),
    (Counter::ExclusiveWrites, "exclusive_writes"),
    (Counter::BorrowedWrites, "borrowed_writes"),
    (Counter::ContendedWrites, "contended_writes"),
    (Counter::WriteWaitNs, "write_wait_ns"),
    (Counter::KeptWrites, "kept_writes"),
    (Counter::RepeatedWrites, "repeated_writes"),
    (Counter::FailedWrites, "failed_writes"),
];

impl Counter {
    const fn index(self) -> usize {
        // CAST: the number of a variant, below COUNTERS.
        self as usize
    }
}

/// Which way a page goes; each has its own streams and counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// How a stream was come by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The own CPU's.
    Own,
    /// Another one's.
    Borrowed,
}

/// The counters of one codec of one device.
pub(crate) struct Stats {
    counters: Counters<COUNTERS>,
    longest_read_ns: AtomicU64,
    longest_write_ns: AtomicU64,
}

impl Stats {
    /// Makes counters at zero.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            counters: Counters::new()?,
            longest_read_ns: AtomicU64::new(0),
            longest_write_ns: AtomicU64::new(0),
        })
    }

    /// Counts one.
    #[inline]
    pub(super) fn count(&self, counter: Counter) {
        self.counters.add(counter.index(), 1);
    }

    /// Counts a stream that was held.
    #[inline]
    pub(super) fn held(&self, direction: Direction, found: Found) {
        self.count(match (direction, found) {
            (Direction::Read, Found::Own) => Counter::ExclusiveReads,
            (Direction::Read, Found::Borrowed) => Counter::BorrowedReads,
            (Direction::Write, Found::Own) => Counter::ExclusiveWrites,
            (Direction::Write, Found::Borrowed) => Counter::BorrowedWrites,
        });
    }

    /// Counts a wait for a stream.
    #[cold]
    pub(super) fn waited(&self, direction: Direction, ns: u64) {
        let (contended, total, longest) = match direction {
            Direction::Read => (
                Counter::ContendedReads,
                Counter::ReadWaitNs,
                &self.longest_read_ns,
            ),
            Direction::Write => (
                Counter::ContendedWrites,
                Counter::WriteWaitNs,
                &self.longest_write_ns,
            ),
        };
        self.count(contended);
        self.counters
            .add(total.index(), i64::try_from(ns).unwrap_or(i64::MAX));
        longest.fetch_max_relaxed(ns);
    }

    /// Returns the sum of one counter.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.counters.sum(counter.index())
    }

    /// Sets all to zero.
    pub(crate) fn reset(&self) {
        self.counters.reset();
        self.longest_read_ns.store_relaxed(0);
        self.longest_write_ns.store_relaxed(0);
    }

    /// As [`Stats::show`], for what several codecs have counted together.
    ///
    /// # Context
    ///
    /// As [`Stats::show`].
    pub(crate) fn show_sum(all: &[Arc<Self>], out: &mut dyn fmt::Write) -> fmt::Result {
        for (counter, name) in NAMES {
            let sum: u64 = all.iter().map(|stats| stats.get(counter)).sum();
            writeln!(out, "{} {}", name, sum)?;
        }
        let longest = |of: fn(&Self) -> &AtomicU64| {
            let each = all.iter().map(|stats| of(stats).load_relaxed());
            each.max().unwrap_or(0)
        };
        writeln!(
            out,
            "longest_read_wait_ns {}",
            longest(|s| &s.longest_read_ns)
        )?;
        writeln!(
            out,
            "longest_write_wait_ns {}",
            longest(|s| &s.longest_write_ns)
        )
    }

    /// Writes one line a counter: name, space, value. Times are in ns.
    ///
    /// # Context
    ///
    /// May sleep if the formatter does; takes no lock.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (counter, name) in NAMES {
            writeln!(f, "{} {}", name, self.get(counter))?;
        }
        let (read, write) = (
            self.longest_read_ns.load_relaxed(),
            self.longest_write_ns.load_relaxed(),
        );
        writeln!(f, "longest_read_wait_ns {}", read)?;
        writeln!(f, "longest_write_wait_ns {}", write)
    }
}
