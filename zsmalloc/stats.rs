// SPDX-License-Identifier: GPL-2.0

//! Counters of a pool, and the table of its classes as text.
//!
//! [`PoolStats`] belongs to the device, which outlives its pools: whoever reads statistics touches
//! nothing that a reset frees. All of it changes once a run of pages or less often, so one cell
//! each is enough; readers and writers run with one another, and each figure is right by itself.

#![deny(unsafe_code)]

use super::{
    class::{
        Class,
        Counts, //
    },
    drain::DrainCause,
    fullness::{
        Group,
        GROUPS, //
    },
    pool::Pool, //
};
use crate::kapi::{
    atomic::AtomicU64,
    num::usize_to_u64, //
};
use core::fmt;

/// Counters of a pool.
pub(crate) struct PoolStats {
    pages: AtomicU64,
    max_pages: AtomicU64,
    pages_compacted: AtomicU64,
    linear_made: AtomicU64,
    linear_failed: AtomicU64,
    pages_trimmed: AtomicU64,
    pending: AtomicU64,
    synchronous: AtomicU64,
    longest_pending_ns: AtomicU64,
    drained: [AtomicU64; DrainCause::COUNT],
}

impl PoolStats {
    /// Returns counters at zero.
    pub(crate) const fn new() -> Self {
        Self {
            pages: AtomicU64::new(0),
            max_pages: AtomicU64::new(0),
            pages_compacted: AtomicU64::new(0),
            linear_made: AtomicU64::new(0),
            linear_failed: AtomicU64::new(0),
            pages_trimmed: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            synchronous: AtomicU64::new(0),
            longest_pending_ns: AtomicU64::new(0),
            drained: [const { AtomicU64::new(0) }; DrainCause::COUNT],
        }
    }

    /// Returns how many pages the pool holds.
    pub(crate) fn total_pages(&self) -> u64 {
        self.pages.load_relaxed()
    }

    /// Returns the most pages the pool ever held when an object was kept. Pages that came for one that
    /// was not, as the user's limit forbade it, do not count.
    pub(crate) fn peak_pages(&self) -> u64 {
        self.max_pages.load_relaxed()
    }

    /// Forgets the peak: it is the present number of pages from now on.
    pub(crate) fn restart_peak(&self) {
        self.max_pages.store_relaxed(self.total_pages());
    }

    /// Returns how many pages compaction has given back.
    pub(crate) fn compacted_pages(&self) -> u64 {
        self.pages_compacted.load_relaxed()
    }

    /// Returns how many blocks of pages were got in a row, and how many asked for in vain.
    pub(crate) fn linear(&self) -> (u64, u64) {
        (
            self.linear_made.load_relaxed(),
            self.linear_failed.load_relaxed(),
        )
    }

    /// Returns how many objects wait in full batches to be freed. Draining nothing, it is cheap;
    /// the open batches are not counted, which is fewer than one batch a CPU for some milliseconds.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load_relaxed()
    }

    /// Writes the figures that debugfs shows, one a line: unused pages taken back from zspages,
    /// what is pending, objects freed at once because all batches were under way, the longest time
    /// from a batch's first object to its end, and objects drained by cause.
    ///
    /// # Errors
    ///
    /// As `out`.
    pub(crate) fn show(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let longest_us = self.longest_pending_ns.load_relaxed() / 1000;
        writeln!(out, "trimmed_pages {}", self.pages_trimmed.load_relaxed())?;
        writeln!(out, "pending_objects {}", self.pending())?;
        writeln!(
            out,
            "synchronous_objects {}",
            self.synchronous.load_relaxed()
        )?;
        writeln!(out, "longest_pending_us {longest_us}")?;
        for ((_, name), objects) in DrainCause::ALL.iter().zip(&self.drained) {
            writeln!(out, "drained_{name} {}", objects.load_relaxed())?;
        }
        Ok(())
    }

    /// Sets everything but what is so at present to zero, for a device that is reset.
    pub(crate) fn reset(&self) {
        self.pages_compacted.store_relaxed(0);
        self.linear_made.store_relaxed(0);
        self.linear_failed.store_relaxed(0);
        self.pages_trimmed.store_relaxed(0);
        self.synchronous.store_relaxed(0);
        self.longest_pending_ns.store_relaxed(0);
        self.drained.iter().for_each(|cell| cell.store_relaxed(0));
        self.restart_peak();
    }

    pub(super) fn add_pages(&self, pages: usize) {
        self.pages.fetch_add_relaxed(usize_to_u64(pages));
    }

    /// Notes the pages held now, as an object is kept. Seldom more than two reads.
    pub(super) fn note_peak(&self) {
        let now = self.total_pages();
        if now > self.peak_pages() {
            self.max_pages.fetch_max_relaxed(now);
        }
    }

    pub(super) fn sub_pages(&self, pages: usize) {
        self.pages.fetch_sub_relaxed(usize_to_u64(pages));
    }

    pub(super) fn add_compacted(&self, pages: u64) {
        self.pages_compacted.fetch_add_relaxed(pages);
    }

    pub(super) fn add_trimmed(&self, pages: usize) {
        self.pages_trimmed.fetch_add_relaxed(usize_to_u64(pages));
    }

    pub(super) fn add_pending(&self, objects: usize) {
        self.pending.fetch_add_relaxed(usize_to_u64(objects));
    }

    pub(super) fn sub_pending(&self, objects: usize) {
        self.pending.fetch_sub_relaxed(usize_to_u64(objects));
    }

    pub(super) fn add_synchronous(&self) {
        self.synchronous.fetch_add_relaxed(1);
    }

    pub(super) fn saw_pending_ns(&self, ns: u64) {
        self.longest_pending_ns.fetch_max_relaxed(ns);
    }

    pub(super) fn add_drained(&self, cause: DrainCause, objects: usize) {
        // CAST: a discriminant below `COUNT`.
        if let Some(cell) = self.drained.get(cause as usize) {
            cell.fetch_add_relaxed(usize_to_u64(objects));
        }
    }

    pub(super) fn add_linear(&self, got: bool) {
        let cell = if got {
            &self.linear_made
        } else {
            &self.linear_failed
        };
        cell.fetch_add_relaxed(1);
    }
}

impl Pool {
    /// Writes one line a class that has pages, and a total.
    ///
    /// Columns: number, place size in bytes, pages and places of a complete zspage; zspages by
    /// fullness, from the emptiest group to full; places in the pages held, objects stored, pages
    /// held; zspages whose pages follow each other, and others; whole zspages that the free places
    /// amount to. Each line is of one moment, the table is not.
    ///
    /// # Context
    ///
    /// Takes each class lock in turn, never while it writes. May sleep if `out` does.
    ///
    /// # Errors
    ///
    /// As `out`.
    pub(crate) fn write_classes(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(
            out,
            "{:>5} {:>5} {:>5} {:>6}",
            "class", "size", "chain", "places"
        )?;
        for group in Group::partial() {
            write!(out, " {:>6}", 10 * group.index())?;
        }
        writeln!(
            out,
            " {:>6} {:>9} {:>9} {:>8} {:>8} {:>9} {:>8}",
            "full", "usable", "used", "pages", "linear", "scattered", "freeable"
        )?;
        let mut total = Counts::default();
        for class in self.classes() {
            let (counts, groups) = snapshot(class);
            if counts.pages > 0 {
                write_class(out, class, &counts, &groups)?;
                total.add(&counts);
            }
        }
        writeln!(
            out,
            "total: usable {} used {} pages {} linear {} scattered {} raw {}",
            total.usable,
            total.used,
            total.pages,
            total.linear,
            total.scattered,
            self.raw_pages()
        )
    }
}

/// Returns what the lines of [`Pool::write_classes`] show, taken in one hold of the lock.
fn snapshot(class: &Class) -> (Counts, [u32; GROUPS]) {
    let mut groups = [0; GROUPS];
    let inner = class.inner.lock();
    for (group, zspages) in Group::all().zip(groups.iter_mut()) {
        *zspages = inner.zspages_in(group);
    }
    (inner.counts(), groups)
}

fn write_class(
    out: &mut dyn fmt::Write,
    class: &Class,
    counts: &Counts,
    groups: &[u32; GROUPS],
) -> fmt::Result {
    let shape = class.shape;
    write!(
        out,
        "{:>5} {:>5} {:>5} {:>6}",
        class.number, shape.size, shape.pages, shape.objects
    )?;
    // The first group is of empty zspages, of which there are none between two operations.
    for zspages in groups.iter().skip(1) {
        write!(out, " {zspages:>6}")?;
    }
    let freeable = counts.surplus(shape).wrapping_mul(shape.pages.into());
    writeln!(
        out,
        " {:>9} {:>9} {:>8} {:>8} {:>9} {:>8}",
        counts.usable, counts.used, counts.pages, counts.linear, counts.scattered, freeable
    )
}
