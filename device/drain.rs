// SPDX-License-Identifier: GPL-2.0

//! Freeing what notify left behind: the drain, and what triggers it.
//!
//! ```text
//! notify -> range of this CPU -> closed -> worker of this CPU, now
//!                             -> open   -> the same worker, after at most 10 ms
//!           mark of a chunk   -> any worker
//! ```
//!
//! A drain looks at each slot that a range or a mark names and frees it if it is pending. It only
//! tries slots: a holder honors the pending bit itself when it leaves.
//!
//! # Who may run with whom
//!
//! Any number of drains with each other, with notify, and with readers and writers of the same
//! slots: taking a range is one exchange, and the slot's lock decides who frees. [`Live::drain_all`]
//! also waits for drains that took ranges before it came, by the gate: each drain holds the gate
//! shared from before it takes a range until it has freed the last slot of it.

use super::{
    live::{Live, Running},
    range::{Range, RangeBuffer},
    slot::SlotGuard,
    slot_word::SlotCell,
    table::CHUNK_SLOTS, //
};
use crate::kapi::{
    atomic::{AtomicBool, AtomicU64},
    percpu::{self, Cpu, PerCpu},
    rwsem::RwSem,
    sched,
    work::{Job, Worker}, //
};
use kernel::{
    prelude::*,
    static_lock_class, //
};

/// Longest time that a range which does not fill up waits, in milliseconds: the promise that
/// memory is back soon after the last notify.
const FLUSH_MS: u32 = 10;

/// Work items a CPU: one that runs at once and one that waits [`FLUSH_MS`].
const ITEMS_PER_CPU: usize = 2;

/// Why a drain ran. Discriminants are places in the counter array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A range was closed.
    RangeClosed = 0,
    /// A range did not fit into the ring.
    RingFull = 1,
    /// [`FLUSH_MS`] have passed.
    Timer = 2,
    /// Somebody wants exact figures, or everything gone.
    Statistics = 3,
}

/// Number of [`Cause`]s.
const CAUSES: usize = 4;

/// What notify knows of one CPU.
pub(crate) struct CpuDrain {
    /// Which slots to look at.
    pub(super) ranges: RangeBuffer,
    /// Set while the flush is due, so that arming it costs notify one read.
    flush_due: AtomicBool,
}

/// The drain's state of one device.
pub(crate) struct Drains {
    cpus: PerCpu<CpuDrain>,
    gate: Pin<KBox<RwSem<()>>>,
    /// Set while some chunk is marked, so that drains need not look at every directory.
    is_marked: AtomicBool,
    runs: [AtomicU64; CAUSES],
}

impl Drains {
    /// Returns a state in which nothing is pending.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            cpus: PerCpu::new(|_| {
                Ok::<_, Error>(CpuDrain {
                    ranges: RangeBuffer::new(),
                    flush_due: AtomicBool::new(false),
                })
            })?,
            gate: KBox::pin_init(
                RwSem::new((), c"rzram drain gate", static_lock_class!()),
                GFP_KERNEL,
            )?,
            is_marked: AtomicBool::new(false),
            runs: [const { AtomicU64::new(0) }; CAUSES],
        })
    }

    /// Returns the state of the CPU at the time of the call.
    pub(super) fn this(&self) -> &CpuDrain {
        self.cpus.this()
    }

    /// Returns how often a cause made a drain run.
    pub(crate) fn runs(&self, cause: Cause) -> u64 {
        // CAST: a discriminant below `CAUSES`.
        self.runs
            .get(cause as usize)
            .map_or(0, AtomicU64::load_relaxed)
    }

    fn count(&self, cause: Cause) {
        // CAST: as in `runs`.
        if let Some(runs) = self.runs.get(cause as usize) {
            runs.fetch_add_relaxed(1);
        }
    }

    /// Notes that some chunk is marked.
    ///
    /// # Context
    ///
    /// Any; the mark was set before.
    pub(super) fn note_mark(&self) {
        // ORDERING: release pairs with the swap of `Live::drain_marks`: who sees the flag sees the
        // mark.
        self.is_marked.store_release(true);
    }
}

/// Returns the work item of a CPU.
fn item(cpu: Cpu, is_flush: bool) -> usize {
    cpu.as_usize()
        .wrapping_mul(ITEMS_PER_CPU)
        .wrapping_add(usize::from(is_flush))
}

/// Returns how many work items a device needs.
pub(super) fn items() -> usize {
    let last = percpu::possible().map(Cpu::as_usize).max().unwrap_or(0);
    last.saturating_add(1).saturating_mul(ITEMS_PER_CPU)
}

/// Starts this CPU's worker.
///
/// # Context
///
/// Any but NMI, interrupts off included.
pub(super) fn start(live: &Running, cause: Cause) {
    live.drains.count(cause);
    live.queue(item(Cpu::current(), false));
}

/// Has this CPU's worker run in at most [`FLUSH_MS`].
///
/// # Context
///
/// As [`start`].
pub(super) fn flush_soon(live: &Running, cpu: &CpuDrain) {
    // ORDERING: relaxed: the drain clears the flag before it takes ranges, so whoever finds it set
    // has noted its slot before a take that is still to come.
    if !cpu.flush_due.load_relaxed() && !cpu.flush_due.swap_full(true) {
        live.queue_after(item(Cpu::current(), true), FLUSH_MS);
    }
}

impl Job for Live {
    fn run(this: &Worker<Self>, item: usize) {
        let cpu = u32::try_from(item / ITEMS_PER_CPU)
            .ok()
            .and_then(Cpu::from_u32);
        if item % ITEMS_PER_CPU != 0 {
            this.drains.count(Cause::Timer);
        }
        if let Some(cpu) = cpu {
            this.drain_cpu(this.drains.cpus.of(cpu));
        }
        this.drain_marks();
    }
}

impl Live {
    /// Frees everything that was pending when the call began, and pages held in advance.
    ///
    /// # Context
    ///
    /// May sleep; waits for running drains; takes slots and class locks.
    pub(crate) fn drain_all(&self) {
        self.drains.count(Cause::Statistics);
        for (_, cpu) in self.drains.cpus.iter() {
            self.drain_cpu(cpu);
        }
        self.drain_marks();
        // Whoever took ranges before we did has left the gate once we are in.
        drop(self.drains.gate.write());
        self.pool.trim();
    }

    /// Works one CPU's ranges off.
    fn drain_cpu(&self, cpu: &CpuDrain) {
        let _inside = self.drains.gate.read();
        // ORDERING: full, and before the ranges are taken; see `flush_soon`.
        cpu.flush_due.swap_full(false);
        cpu.ranges.take(&mut |range| {
            self.drain_range(range);
            sched::cond_resched();
        });
    }

    /// Works the marked chunks off.
    fn drain_marks(&self) {
        if !self.drains.is_marked.load_relaxed() {
            return;
        }
        let _inside = self.drains.gate.read();
        // ORDERING: full; pairs with `Drains::note_mark`.
        self.drains.is_marked.swap_full(false);
        self.table.take_marks(&mut |first| {
            self.drain_range(Range {
                first,
                slots: CHUNK_SLOTS,
            });
            sched::cond_resched();
        });
    }

    fn drain_range(&self, range: Range) {
        self.table
            .for_each(range.first, range.slots, &mut |_, cell| {
                self.drain_slot(cell);
            });
    }

    fn drain_slot(&self, cell: &SlotCell) {
        if cell.peek().is_pending() {
            // Dropping the guard honors the pending bit; a holder does it himself.
            drop(SlotGuard::try_lock(self, cell));
        }
    }
}
