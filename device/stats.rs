// SPDX-License-Identifier: GPL-2.0

//! A device's figures. They live as long as the device, so readers never race with reset.
//!
//! Everything touched for each page is a per-CPU counter: writers never share a cache line, readers
//! add up. Sums are clamped at zero, since a sum may catch a decrement before its increment.

use super::{
    drain::{Cause, CAUSES},
    live::PRIORITIES,
    slot_word::{Kind, Stored}, //
};
use crate::{
    kapi::{
        atomic::AtomicU64,
        num::PAGE_SIZE,
        percpu::Counters, //
    },
    zcomp,
    zsmalloc::PoolStats, //
};
use core::fmt;
use kernel::{prelude::*, sync::Arc};

/// What is counted. Discriminants are places in the counter array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counter {
    /// Slots that hold anything, pages.
    Stored = 0,
    /// Bytes of all objects in memory, headers not included.
    CompressedBytes = 1,
    /// Slots that hold a fill pattern, pages.
    FillPages = 2,
    /// Slots stored raw in memory, pages.
    RawPages = 3,
    /// Raw stores since `disksize`, pages; never falls.
    RawStores = 4,
    /// Reads that ended with an error, bios.
    FailedReads = 5,
    /// Writes that ended with an error, bios.
    FailedWrites = 6,
    /// Discarded slots, whether or not they held anything, and slot-free calls but for those that are
    /// or will be counted below.
    NotifyFree = 7,
    /// Slots with content that notify marked and that somebody has taken to free, pages.
    NotifiedPages = 8,
    /// Objects allocated on the slow path, after reclaim was allowed.
    SlowAllocations = 9,
    /// Blocks of the backing device that are taken.
    Blocks = 10,
    /// Blocks that somebody began to read.
    BlockReads = 11,
    /// Blocks that were written, also those that were not wanted any more then.
    BlockWrites = 12,
}

/// Number of [`Counter`]s.
const COUNTERS: usize = 13;

/// The counters of one device.
pub(crate) struct DeviceStats {
    counters: Counters<COUNTERS>,
    /// The pool's figures, which outlive each pool.
    pub(crate) pool: Arc<PoolStats>,
    /// Contention on each codec's streams, by priority.
    pub(crate) codecs: [Arc<zcomp::Stats>; PRIORITIES],
    /// The drains' figures.
    pub(crate) drains: Arc<DrainStats>,
}

/// Drains by cause, and how long a free may have been pending.
pub(crate) struct DrainStats {
    runs: [AtomicU64; CAUSES],
    longest_ns: AtomicU64,
}

impl DrainStats {
    fn new() -> Self {
        Self {
            runs: [const { AtomicU64::new(0) }; CAUSES],
            longest_ns: AtomicU64::new(0),
        }
    }

    /// Counts a drain.
    pub(super) fn count(&self, cause: Cause) {
        // CAST: a discriminant below `CAUSES`.
        if let Some(runs) = self.runs.get(cause as usize) {
            runs.fetch_add_relaxed(1);
        }
    }

    /// Notes that something was pending for `ns` at most.
    pub(super) fn waited(&self, ns: u64) {
        self.longest_ns.fetch_max_relaxed(ns);
    }

    /// Prints all figures as `key value` lines.
    pub(crate) fn show(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for ((_, name), runs) in Cause::ALL.iter().zip(&self.runs) {
            writeln!(out, "drains_{name} {}", runs.load_relaxed())?;
        }
        writeln!(out, "longest_pending_ns {}", self.longest_ns.load_relaxed())
    }

    fn reset(&self) {
        for figure in Iterator::chain(self.runs.iter(), core::iter::once(&self.longest_ns)) {
            figure.store_relaxed(0);
        }
    }
}

impl DeviceStats {
    /// Returns a set of counters, all zero.
    ///
    /// # Context
    ///
    /// May sleep; allocates per-CPU memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let codec = || Ok::<_, Error>(Arc::new(zcomp::Stats::new()?, GFP_KERNEL)?);
        Ok(Self {
            counters: Counters::new()?,
            pool: Arc::new(PoolStats::new(), GFP_KERNEL)?,
            codecs: [codec()?, codec()?, codec()?, codec()?],
            drains: Arc::new(DrainStats::new(), GFP_KERNEL)?,
        })
    }

    /// Adds `delta` to this CPU's part of a counter.
    ///
    /// # Context
    ///
    /// Any, interrupts off included.
    pub(crate) fn add(&self, counter: Counter, delta: i64) {
        // CAST: an enum discriminant below `COUNTERS`.
        self.counters.add(counter as usize, delta);
    }

    /// Returns the sum over all CPUs, never below zero.
    ///
    /// # Context
    ///
    /// Any. Costs one read a possible CPU.
    pub(crate) fn sum(&self, counter: Counter) -> u64 {
        // CAST: as in `add`.
        self.counters.sum(counter as usize)
    }

    /// Returns the number of slot-free calls and discarded slots, but for calls whose slot is pending.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn slot_frees(&self) -> u64 {
        self.sum(Counter::NotifyFree)
            .saturating_add(self.sum(Counter::NotifiedPages))
    }

    /// Sets everything to zero.
    ///
    /// # Context
    ///
    /// Called while the device has no I/O.
    pub(crate) fn reset(&self) {
        self.counters.reset();
        self.pool.reset();
        for codec in &self.codecs {
            codec.reset();
        }
        self.drains.reset();
    }

    /// Accounts content that appears in a slot.
    pub(crate) fn stored(&self, stored: &Stored) {
        self.account(stored, 1);
    }

    /// Accounts content that has been freed.
    pub(crate) fn freed(&self, stored: &Stored) {
        self.account(stored, -1);
    }

    fn account(&self, stored: &Stored, sign: i64) {
        let page = i64::try_from(PAGE_SIZE).unwrap_or(i64::MAX);
        let (kind_counter, bytes) = match stored.word.kind() {
            Ok(Kind::Empty) | Err(_) => return,
            Ok(Kind::Fill) => (Some(Counter::FillPages), 0),
            Ok(Kind::Object) => (None, i64::from(stored.word.size_bytes())),
            Ok(Kind::Raw) => (Some(Counter::RawPages), page),
            Ok(Kind::Block) => (None, 0),
        };
        self.add(Counter::Stored, sign);
        if bytes != 0 {
            self.add(Counter::CompressedBytes, sign.wrapping_mul(bytes));
        }
        if let Some(counter) = kind_counter {
            self.add(counter, sign);
        }
    }
}
