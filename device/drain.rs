// SPDX-License-Identifier: GPL-2.0

//! Freeing what notify left behind: the drain, and what triggers it.
//!
//! ```text
//! notify -> range of this CPU -> closed -> worker of this CPU, now, until none is left
//!                             -> open   -> the flush of this CPU, after at most 10 ms
//!           mark of a chunk   -> any worker
//! ```
//!
//! The worker leaves the open range alone: notify changes it all the time, and taking it away would
//! have the next notify arm a timer.
//!
//! A drain looks at each slot that a range or a mark names and frees it if it is pending. It only
//! tries slots: a holder honors the pending bit itself when it leaves.
//!
//! # Who drains, and how much
//!
//! | who                                   | how much                      | waits for other drains |
//! |---------------------------------------|-------------------------------|------------------------|
//! | worker                                | its CPU's ranges, all marks   | no                     |
//! | writer, discard, while a backlog is   | [`HELP_SLOTS`] slots          | no                     |
//! | memory limit, allocation that failed  | everything                    | no                     |
//! | shrinker, OOM notifier                | everything                    | no                     |
//! | statistics, compaction, reset         | everything                    | yes: exact figures     |
//!
//! # Who may run with whom
//!
//! Any number of drains with each other, with notify, and with readers and writers of the same
//! slots: taking a range is one exchange, and the slot's lock decides who frees. [`Live::drain_all`]
//! also waits for drains that took ranges before it came, by the gate: each drain holds the gate
//! shared from before it takes a range until it has freed the last slot of it.

use super::{
    auto,
    live::{Live, Running},
    range::{Called, Range, RangeBuffer},
    slot::SlotGuard,
    slot_word::SlotCell,
    stats::DrainStats,
    table::CHUNK_SLOTS, //
};
use crate::kapi::{
    atomic::{AtomicBool, AtomicU64},
    clock,
    cpuhp::HotplugClient,
    percpu::{self, Cpu, PerCpu},
    rwsem::RwSem,
    sched,
    work::{Job, Worker}, //
};
use crate::zsmalloc::{DrainCause, FreeBatch, ObjectId};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::Arc, //
};

/// Longest time that a range which does not fill up waits, in milliseconds: the promise that
/// memory is back soon after the last notify.
const FLUSH_MS: u32 = 10;

/// Most slots that a writer or a discard frees for others, so that helping stays a few
/// microseconds.
const HELP_SLOTS: u32 = 64;

/// Work items a CPU: one that runs at once and one that waits [`FLUSH_MS`].
const ITEMS_PER_CPU: usize = 2;

/// Why a drain ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A range was closed.
    RangeClosed,
    /// A range did not fit into the ring.
    RingFull,
    /// [`FLUSH_MS`] have passed.
    Timer,
    /// A writer or a discard met a backlog.
    Backlog,
    /// An allocation found no memory.
    Pressure,
    /// The pool is at the user's limit.
    Limit,
    /// The kernel's reclaim asked.
    Shrinker,
    /// The kernel is about to kill somebody.
    Oom,
    /// Somebody wants exact figures, or everything gone.
    Exact,
    /// The CPU went offline.
    Offline,
}

/// Number of [`Cause`]s.
pub(crate) const CAUSES: usize = 10;

impl Cause {
    /// All causes with the names that users read, in the order of their discriminants.
    pub(crate) const ALL: [(Self, &'static str); CAUSES] = [
        (Self::RangeClosed, "range_closed"),
        (Self::RingFull, "ring_full"),
        (Self::Timer, "timer"),
        (Self::Backlog, "backlog"),
        (Self::Pressure, "pressure"),
        (Self::Limit, "limit"),
        (Self::Shrinker, "shrinker"),
        (Self::Oom, "oom"),
        (Self::Exact, "exact"),
        (Self::Offline, "offline"),
    ];

    /// Returns what the pool calls it.
    fn in_pool(self) -> DrainCause {
        match self {
            Self::RangeClosed | Self::RingFull | Self::Backlog => DrainCause::Bound,
            Self::Timer => DrainCause::Timer,
            Self::Pressure => DrainCause::Allocation,
            Self::Limit => DrainCause::Limit,
            Self::Shrinker => DrainCause::Shrinker,
            Self::Oom => DrainCause::Oom,
            Self::Exact => DrainCause::Statistics,
            Self::Offline => DrainCause::Offline,
        }
    }
}

/// What notify knows of one CPU.
pub(crate) struct CpuDrain {
    /// Which slots to look at.
    pub(super) ranges: RangeBuffer,
    /// Whose it is.
    cpu: Cpu,
    /// Whether the worker is at work or about to be.
    called: Called,
    /// Set while the flush is due, so that arming it costs notify one read.
    flush_due: AtomicBool,
    /// When the flush was armed, in ns; for the longest time pending.
    armed_ns: AtomicU64,
    /// The flush was brought forward since the CPU went offline.
    is_gone: AtomicBool,
}

/// The drain's state of one device.
pub(crate) struct Drains {
    cpus: PerCpu<CpuDrain>,
    gate: Pin<KBox<RwSem<()>>>,
    /// Set while some chunk is marked, so that drains need not look at every directory.
    is_marked: AtomicBool,
    stats: Arc<DrainStats>,
}

impl Drains {
    /// Returns a state in which nothing is pending, counting in `stats`.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(stats: Arc<DrainStats>) -> Result<Self> {
        Ok(Self {
            cpus: PerCpu::new(|cpu| {
                Ok::<_, Error>(CpuDrain {
                    ranges: RangeBuffer::new(),
                    cpu,
                    called: Called::new(),
                    flush_due: AtomicBool::new(false),
                    armed_ns: AtomicU64::new(0),
                    is_gone: AtomicBool::new(false),
                })
            })?,
            gate: KBox::pin_init(
                RwSem::new((), c"rzram drain gate", static_lock_class!()),
                GFP_KERNEL,
            )?,
            is_marked: AtomicBool::new(false),
            stats,
        })
    }

    /// Returns the state of the CPU at the time of the call.
    pub(super) fn this(&self) -> &CpuDrain {
        self.cpus.this()
    }

    /// Returns whether some chunk is marked.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked.load_relaxed()
    }

    /// Notes that some chunk is marked.
    ///
    /// # Context
    ///
    /// Any; the mark was set before.
    pub(super) fn note_mark(&self) {
        // ORDERING: full. Pairs with the swap of `Live::drain_marks`: who sees the flag sees the
        // mark; and it comes before the look of `Called::call`.
        self.is_marked.swap_full(true);
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

/// Starts the worker of `cpu`, unless it is at work or about to be.
///
/// # Context
///
/// Any but NMI, interrupts off included. Whatever there is to do was put in the ring or marked.
pub(super) fn start(live: &Running, cpu: &CpuDrain, cause: Cause) {
    if cpu.called.call() {
        live.drains.stats.count(cause);
        live.queue(item(cpu.cpu, false));
    }
}

/// Has what `cpu` noted flushed in at most [`FLUSH_MS`].
///
/// # Context
///
/// As [`start`].
pub(super) fn flush_soon(live: &Running, cpu: &CpuDrain) {
    // ORDERING: relaxed: the drain clears the flag before it takes ranges, so whoever finds it set
    // has noted its slot before a take that is still to come.
    if !cpu.flush_due.load_relaxed() && !cpu.flush_due.swap_full(true) {
        cpu.armed_ns.store_relaxed(clock::now_ns());
        live.queue_after(item(cpu.cpu, true), FLUSH_MS);
    }
}

impl Job for Live {
    fn run(this: &Worker<Self>, item: usize) {
        if item == this.auto_item {
            return auto::run(this);
        }
        let cpu = u32::try_from(item / ITEMS_PER_CPU)
            .ok()
            .and_then(Cpu::from_u32);
        let Some(cpu) = cpu.map(|cpu| this.drains.cpus.of(cpu)) else {
            return;
        };
        if item % ITEMS_PER_CPU == 0 {
            this.work_off(cpu);
        } else {
            // ORDERING: full; nothing hangs on it but the name of the cause.
            let cause = match cpu.is_gone.swap_full(false) {
                true => Cause::Offline,
                false => Cause::Timer,
            };
            this.drains.stats.count(cause);
            let _inside = this.drains.gate.read();
            this.drain_cpu(cpu);
            this.drain_marks();
        }
    }
}

impl HotplugClient for Worker<Live> {
    fn cpu_up(&self, _cpu: Cpu) {}

    /// Has the flush of a CPU that is gone run now: nobody will come to fill what is open there.
    fn cpu_dead(&self, cpu: Cpu) {
        let gone = self.drains.cpus.of(cpu);
        gone.is_gone.store_release(true);
        self.requeue_after(item(gone.cpu, true), 0);
        self.pool.cpu_dead(cpu);
    }
}

impl Live {
    /// Frees everything that was pending when the call began, and pages held in advance.
    ///
    /// # Context
    ///
    /// May sleep; waits for running drains; takes slots and class locks.
    pub(crate) fn drain_all(&self) {
        self.drains.stats.count(Cause::Exact);
        let inside = self.drains.gate.read();
        self.drain_everything();
        drop(inside);
        // Whoever took ranges before we did has left the gate once we are in.
        drop(self.drains.gate.write());
        self.pool.drain_all(DrainCause::Statistics);
    }

    /// Frees what is pending, without waiting for other drains.
    ///
    /// # Context
    ///
    /// Task context, reclaim included: never waits for memory or for another drain. Holds no
    /// stream and no slot when called; takes slots by try, and class locks.
    pub(crate) fn drain_now(&self, cause: Cause) {
        self.drains.stats.count(cause);
        let Some(_inside) = self.drains.gate.try_read() else {
            return;
        };
        self.drain_everything();
        self.pool.drain_some(usize::MAX, cause.in_pool());
        self.pool.trim();
    }

    /// Frees a few slots of this CPU's backlog, if there is one.
    ///
    /// A backlog is a range that was closed and that the worker has not come to. So a task that
    /// writes faster than the worker frees pays for some of it, which bounds the backlog.
    ///
    /// # Context
    ///
    /// As [`Live::drain_now`]; a few microseconds.
    pub(crate) fn help(&self) {
        let cpu = self.drains.this();
        if !cpu.called.is_set() {
            return;
        }
        let Some(_inside) = self.drains.gate.try_read() else {
            return;
        };
        let Some(range) = cpu.ranges.take_one() else {
            return;
        };
        self.drains.stats.count(Cause::Backlog);
        let (mine, rest) = range.split(HELP_SLOTS);
        // First, so that it is never out of sight for long.
        if let Some(lost) = rest.and_then(|rest| cpu.ranges.put_back(rest)) {
            self.mark(lost.first);
        }
        self.drain_range(mine);
    }

    /// Works closed ranges and marks off until there are none.
    fn work_off(&self, cpu: &CpuDrain) {
        loop {
            // Per round, so that who wants to be alone waits for one round only.
            let inside = self.drains.gate.read();
            self.drain_closed(cpu);
            self.drain_marks();
            drop(inside);
            let has_more = || cpu.ranges.has_closed() || self.drains.is_marked();
            if cpu.called.end(has_more) {
                return;
            }
        }
    }

    /// Returns how many slots may wait to be freed: those that ranges name.
    ///
    /// # Context
    ///
    /// Any, interrupts off included.
    pub(super) fn pending_slots(&self) -> u64 {
        let named = |(_, cpu): (_, &CpuDrain)| cpu.ranges.slots();
        let named: u64 = self.drains.cpus.iter().map(named).sum();
        // At least one chunk, if there is a mark.
        let marked = u64::from(self.drains.is_marked()).saturating_mul(CHUNK_SLOTS.into());
        named.saturating_add(marked)
    }

    fn drain_everything(&self) {
        for (_, cpu) in self.drains.cpus.iter() {
            self.drain_cpu(cpu);
        }
        self.drain_marks();
    }

    /// Works one CPU's ranges off. The caller is inside the gate.
    fn drain_cpu(&self, cpu: &CpuDrain) {
        // ORDERING: full, and before the ranges are taken; see `flush_soon`.
        let was_due = cpu.flush_due.swap_full(false);
        let armed_ns = cpu.armed_ns.load_relaxed();
        self.drain_closed(cpu);
        if let Some(range) = cpu.ranges.take_open() {
            self.drain_range(range);
        }
        if was_due {
            let waited_ns = clock::now_ns().saturating_sub(armed_ns);
            self.drains.stats.waited(waited_ns);
        }
    }

    /// Works one CPU's closed ranges off. The caller is inside the gate.
    fn drain_closed(&self, cpu: &CpuDrain) {
        cpu.ranges.take_closed(&mut |range| {
            self.drain_range(range);
            sched::cond_resched();
        });
    }

    /// Works the marked chunks off. The caller is inside the gate.
    fn drain_marks(&self) {
        // ORDERING: the swap is full and pairs with `Drains::note_mark`.
        if !self.drains.is_marked() || !self.drains.is_marked.swap_full(false) {
            return;
        }
        self.table.take_marks(&mut |first| {
            self.drain_range(Range {
                first,
                slots: CHUNK_SLOTS,
            });
            sched::cond_resched();
        });
    }

    /// Frees the pending slots of a range, their objects a batch at a time.
    fn drain_range(&self, range: Range) {
        let mut batch = FreeBatch::new();
        self.table
            .for_each(range.first, range.slots, &mut |_, cell| {
                self.drain_slot(cell, &mut batch);
                if batch.is_full() {
                    self.pool.free_batch(&mut batch);
                }
            });
        if !batch.is_empty() {
            self.pool.free_batch(&mut batch);
        }
    }

    fn drain_slot(&self, cell: &SlotCell, batch: &mut FreeBatch) {
        if !cell.peek().is_pending() {
            return;
        }
        // A holder honors the pending bit himself.
        let Some(dead) = SlotGuard::try_lock(self, cell).and_then(SlotGuard::into_dead) else {
            return;
        };
        if dead.word.has_object() {
            let pushed = batch.push(ObjectId::from_bits(dead.value));
            if let Err(id) = pushed {
                self.pool.free(id);
            }
        }
        self.release_block(&dead);
        self.stats.freed(&dead);
    }
}
