// SPDX-License-Identifier: GPL-2.0

//! Deferred frees: objects that are freed a little later, many at a time, by somebody else.
//!
//! # Protocol
//!
//! ```text
//!  free_later -> open batch of this CPU -- full --> list of full batches --> worker of this CPU
//!                      |                              ^                        |
//!                      `------ after 10 ms -----------'   <--- spare batches --'
//! ```
//!
//! 1. An object goes into the open batch of the CPU, which is one of its preallocated ones. The
//!    first object of a batch has the flush run in [`FLUSH_MS`].
//! 2. A full batch goes through a lock-free list to the CPU's work item on rzram's own workqueue.
//! 3. Whoever drains takes batches out, frees them class by class, and returns them to the CPU they
//!    came from. With all batches of a CPU under way an object is freed at once.
//!
//! Nothing is lost on the way: an object is in an open batch, on a list, or in the hands of a
//! drain, and the flush finds the first two. Timers and unbound work move by themselves when a CPU
//! goes offline, and every drain may take any CPU's batches; the flush is only brought forward then,
//! since nobody will fill that CPU's open batch.
//!
//! # Who may run with whom
//!
//! | | `free_later` | `drain_some` | worker | `drain_all` |
//! |---|---|---|---|---|
//! | `free_later` | batch lock | batch lock | batch lock | batch lock |
//! | `drain_some` | batch lock | - | - | gives up |
//! | worker | batch lock | - | - | waits |
//! | `drain_all` | batch lock | waits | waits | waits |
//!
//! "-" is no lock: a list is taken as a whole. The batch lock protects a CPU's open batch and its
//! spare ones and nothing else; it is held for a few steps, nothing sleeps or allocates under it,
//! and it is the last lock of all. It is taken in task and work context only, interrupts on or off,
//! so a plain spin lock is right.
//!
//! The gate is held shared by every drain from before it takes a batch until the batch is freed,
//! and exclusively by `drain_all`, which so knows that nothing is left in anybody's hands. It
//! sleeps and comes before all locks of the pool.

#![deny(unsafe_code)]

use super::{
    batch::{
        Entry,
        FreeBatch, //
    },
    class::{
        Class,
        Put, //
    },
    mem::{
        OwnedZspage,
        Zs, //
    },
    object::ObjectId,
    pool::Pool, //
};
use crate::kapi::{
    atomic::AtomicBool,
    clock::Instant,
    llist,
    percpu::{
        self,
        Cpu,
        PerCpu, //
    },
    rwsem::RwSem,
    work::{
        Job,
        Worker, //
    }, //
};
use core::iter;
use kernel::{
    new_spinlock,
    prelude::*,
    static_lock_class,
    sync::SpinLock, //
};

/// Longest time an object waits in a batch that does not fill up, in milliseconds: the promise that
/// memory is back soon after the last free.
const FLUSH_MS: u32 = 10;

/// Batches a CPU has.
///
/// What is under way cannot be used again, so this bounds the backlog too: 32 batches of 64 objects
/// are 8 MiB of pages a CPU, a few milliseconds of a worker's time.
const BATCHES: usize = 32;

/// Objects freed under one hold of a class lock: about a microsecond.
const HOLD: usize = 16;

/// Objects that an allocation frees at most before it takes pages.
pub(super) const ALLOC_OBJECTS: usize = 64;

/// Time between two looks at classes that hold pages they do not need yet, in milliseconds. A class
/// that takes none of them from one look to the next rests, and gives them back.
const REST_MS: u32 = 100;

/// Work items: this one for classes at rest, then two a CPU, one that runs at once and one that
/// waits [`FLUSH_MS`].
const REST_ITEM: usize = 0;

/// Why objects were drained. Discriminants are places in the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DrainCause {
    /// A batch was full.
    Full = 0,
    /// [`FLUSH_MS`] were over.
    Timer = 1,
    /// An allocation was about to take pages.
    Allocation = 2,
    /// The kernel asked for memory.
    Shrinker = 3,
    /// The kernel was about to kill.
    Oom = 4,
    /// The user's memory limit was reached.
    Limit = 5,
    /// Too much was pending.
    Bound = 6,
    /// A CPU went offline.
    Offline = 7,
    /// Exact figures were asked for.
    Statistics = 8,
    /// Objects were to be moved.
    Compact = 9,
    /// Everything must go.
    Reset = 10,
}

impl DrainCause {
    /// Number of causes.
    pub(crate) const COUNT: usize = 11;

    /// Each cause with the name users see.
    pub(crate) const ALL: [(Self, &'static str); Self::COUNT] = [
        (Self::Full, "batch_full"),
        (Self::Timer, "timer"),
        (Self::Allocation, "pressure"),
        (Self::Shrinker, "shrinker"),
        (Self::Oom, "oom"),
        (Self::Limit, "limit"),
        (Self::Bound, "bound"),
        (Self::Offline, "offline"),
        (Self::Statistics, "statistics"),
        (Self::Compact, "compact"),
        (Self::Reset, "reset"),
    ];
}

/// What a drain did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Drained {
    /// Objects freed.
    pub(crate) objects: usize,
    /// Pages given back to the kernel by that.
    pub(crate) pages: u64,
}

impl Drained {
    fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.pages = self.pages.saturating_add(other.pages);
    }
}

/// A batch on its way.
struct Pending {
    batch: FreeBatch,
    /// When its first object came.
    since: Instant,
    /// The CPU it belongs to.
    home: Cpu,
}

type Node = KBox<llist::Entry<Pending>>;

/// What the batch lock protects.
///
/// # Invariants
///
/// `open` holds an object, if it is there. Spare batches are empty.
struct Open {
    open: Option<Node>,
    spares: [Option<Node>; BATCHES],
}

/// The batches of one CPU.
#[pin_data]
struct CpuBatches {
    #[pin]
    open: SpinLock<Open>,
    full: llist::List<Node>,
    /// The flush was brought forward since the CPU went offline.
    is_gone: AtomicBool,
}

/// What became of an object that is to be freed later.
enum Added {
    /// It is in the open batch.
    Kept,
    /// It is the first one there.
    Opened,
    /// It was the last one that fitted.
    Filled(Node),
    /// All batches are under way.
    NoBatch,
}

impl Open {
    fn new(cpu: Cpu) -> Result<Self> {
        let mut spares = [const { None }; BATCHES];
        for spare in &mut spares {
            let pending = Pending {
                batch: FreeBatch::new(),
                since: Instant::now(),
                home: cpu,
            };
            *spare = Some(KBox::new(llist::Entry::new(pending), GFP_KERNEL)?);
        }
        Ok(Self { open: None, spares })
    }
}

impl CpuBatches {
    fn new(cpu: Cpu) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            open <- new_spinlock!(Open::new(cpu)?, "rzram_batch"),
            full: llist::List::new(),
            is_gone: AtomicBool::new(false),
        }? Error)
    }

    fn add(&self, id: ObjectId) -> Added {
        let mut state = self.open.lock();
        let (mut node, is_new) = match state.open.take() {
            Some(node) => (node, false),
            None => match state.spares.iter_mut().find_map(Option::take) {
                Some(node) => (node, true),
                None => return Added::NoBatch,
            },
        };
        if is_new {
            node.value.since = Instant::now();
        }
        // INVARIANT: the open batch was not full, and a spare one is empty.
        if node.value.batch.push(id).is_err() || node.value.batch.is_full() {
            return Added::Filled(node);
        }
        state.open = Some(node);
        match is_new {
            true => Added::Opened,
            false => Added::Kept,
        }
    }

    fn take_open(&self) -> Option<Node> {
        self.open.lock().open.take()
    }

    /// Returns an empty batch to its CPU.
    fn give_spare(&self, node: Node) {
        let mut state = self.open.lock();
        if let Some(room) = state.spares.iter_mut().find(|spare| spare.is_none()) {
            *room = Some(node);
        }
    }
}

/// The deferred frees of a pool.
pub(super) struct Deferred {
    cpus: PerCpu<CpuBatches>,
    gate: Pin<KBox<RwSem<()>>>,
}

impl Deferred {
    /// Makes the batches of every CPU.
    ///
    /// # Context
    ///
    /// May sleep; allocates with [`Policy::Sleep`](crate::kapi::gfp::Policy::Sleep).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            cpus: PerCpu::new(CpuBatches::new)?,
            gate: KBox::pin_init(
                RwSem::new((), c"rzram_batch_gate", static_lock_class!()),
                GFP_KERNEL,
            )?,
        })
    }
}

/// Returns the work item of a CPU.
fn item(cpu: Cpu, is_flush: bool) -> usize {
    let pair = cpu.as_usize().wrapping_mul(2).wrapping_add(1);
    pair.wrapping_add(usize::from(is_flush))
}

/// Returns how many work items a pool needs.
pub(super) fn items() -> usize {
    percpu::possible()
        .map(|cpu| item(cpu, true))
        .max()
        .unwrap_or(REST_ITEM)
        .wrapping_add(1)
}

impl Job for Pool {
    fn run(this: &Worker<Self>, item: usize) {
        let Some(pair) = item.checked_sub(1) else {
            return this.rest();
        };
        let Some(cpu) = u32::try_from(pair / 2).ok().and_then(Cpu::from_u32) else {
            return;
        };
        match pair % 2 {
            0 => this.drain_cpu(cpu, DrainCause::Full),
            _ => this.drain_cpu(cpu, this.flush_cause(cpu)),
        };
    }
}

impl Worker<Pool> {
    /// Has what is pending on a CPU that is gone freed now.
    ///
    /// # Context
    ///
    /// As [`Pool::free`]; also under the CPU-hotplug lock.
    pub(crate) fn cpu_dead(&self, cpu: Cpu) {
        if let Some(deferred) = self.deferred() {
            deferred.cpus.of(cpu).is_gone.store_release(true);
            self.requeue_after(item(cpu, true), 0);
        }
    }

    /// Frees an object that no slot holds any more, now or within [`FLUSH_MS`] milliseconds.
    ///
    /// At once, as [`Pool::free`], if the pool has no batches or all of this CPU's are under way.
    ///
    /// # Context
    ///
    /// Any but a hard or soft interrupt, interrupts on or off. Takes the batch lock or a class
    /// lock. Never waits for memory or sleeps.
    pub(crate) fn free_later(&self, id: ObjectId) {
        let Some(deferred) = self.deferred() else {
            return self.free(id);
        };
        let cpu = Cpu::current();
        let batches = deferred.cpus.of(cpu);
        match batches.add(id) {
            Added::Kept => {}
            Added::Opened => {
                self.queue_after(item(cpu, true), FLUSH_MS);
            }
            Added::Filled(node) => {
                self.stats.add_pending(node.value.batch.len());
                batches.full.push(node);
                self.queue(item(cpu, false));
            }
            Added::NoBatch => {
                self.stats.add_synchronous();
                self.free(id);
            }
        }
    }

    /// Frees up to about `most` pending objects, a whole batch at a time, this CPU's first.
    ///
    /// Does nothing while [`Pool::drain_all`] is at work.
    ///
    /// # Context
    ///
    /// As [`Pool::free`]; also in reclaim. The gate is only tried.
    pub(crate) fn drain_some(&self, most: usize, cause: DrainCause) -> Drained {
        let mut done = Drained::default();
        let Some(deferred) = self.deferred() else {
            return done;
        };
        let Some(_inside) = deferred.gate.try_read() else {
            return done;
        };
        // `Iterator` by name: the kernel's initializers have a `chain` too.
        for cpu in Iterator::chain(iter::once(Cpu::current()), percpu::possible()) {
            let left = most.saturating_sub(done.objects);
            if left == 0 {
                break;
            }
            let (drained, is_rest) = self.drain_batches(deferred, cpu, left, cause);
            done.add(drained);
            if is_rest {
                // The worker that was queued for it may have come while the list was empty.
                self.queue(item(cpu, false));
            }
        }
        done
    }

    /// Has the pages that the youngest zspages do not need taken back when their classes rest.
    pub(super) fn rest_soon(&self) {
        if self.start_rest() {
            self.queue_after(REST_ITEM, REST_MS);
        }
    }

    fn rest(&self) {
        self.end_rest();
        if self.trim_resting() {
            self.rest_soon();
        }
    }
}

impl Pool {
    /// Returns why a CPU's flush runs.
    fn flush_cause(&self, cpu: Cpu) -> DrainCause {
        let gone = |deferred: &Deferred| deferred.cpus.of(cpu).is_gone.swap_full(false);
        match self.deferred().is_some_and(gone) {
            true => DrainCause::Offline,
            false => DrainCause::Timer,
        }
    }

    /// Frees the objects of a batch, and returns how many pages that gave back. The batch is empty
    /// then.
    ///
    /// For whoever has many objects at once. Those of one class are freed together.
    ///
    /// # Context
    ///
    /// As [`Pool::free`]; holds a class lock for [`HOLD`] objects at most.
    pub(crate) fn free_batch(&self, batch: &mut FreeBatch) -> Drained {
        let mut done = Drained {
            objects: batch.len(),
            pages: 0,
        };
        let class_of = |id| Zs::of(id).map_or(0, Zs::class);
        for run in batch.take_grouped(class_of).runs(HOLD) {
            let class = run
                .first()
                .and_then(|entry| self.class(entry.class().into()));
            let pages = match class {
                Some(class) => self.free_run(class, run),
                None => run.iter().map(|entry| self.free_one(entry.id())).sum(),
            };
            done.pages = done.pages.saturating_add(pages);
        }
        done
    }

    /// Frees up to [`HOLD`] objects of one class.
    fn free_run(&self, class: &Class, run: &[Entry]) -> u64 {
        let mut emptied: [Option<OwnedZspage>; HOLD] = [const { None }; HOLD];
        let mut missing = 0u32;
        let mut inner = class.inner.lock();
        for (entry, emptied) in run.iter().zip(emptied.iter_mut()) {
            let Some(zs) = Zs::of(entry.id()) else {
                continue;
            };
            match inner.put(zs, entry.id().index()) {
                Put::Kept => {}
                Put::Emptied(zspage) => *emptied = Some(zspage),
                Put::Missing => missing = missing.wrapping_add(1),
            }
        }
        drop(inner);
        if missing > 0 {
            pr_err!("{missing} objects were freed twice\n");
        }
        let emptied = emptied.into_iter().flatten();
        emptied.map(|zspage| self.give_back(zspage)).sum()
    }

    /// Frees what is pending, unless [`Pool::drain_all`] is about to.
    ///
    /// # Context
    ///
    /// As [`Pool::free`]; also in reclaim. The gate is only tried.
    pub(super) fn drain_now(&self, cause: DrainCause) -> Drained {
        let mut done = Drained::default();
        let Some(deferred) = self.deferred() else {
            return done;
        };
        if let Some(_inside) = deferred.gate.try_read() {
            for cpu in percpu::possible() {
                done.add(self.drain_batches(deferred, cpu, usize::MAX, cause).0);
            }
        }
        done
    }

    /// Frees everything that was pending when the call began, and takes unneeded pages back.
    ///
    /// # Context
    ///
    /// May sleep: waits for drains that run. Takes the gate, batch and class locks.
    pub(crate) fn drain_all(&self, cause: DrainCause) -> Drained {
        let mut done = Drained::default();
        if let Some(deferred) = self.deferred() {
            let _alone = deferred.gate.write();
            for cpu in percpu::possible() {
                done.add(self.drain_batches(deferred, cpu, usize::MAX, cause).0);
            }
        }
        done.pages = done.pages.saturating_add(self.trim());
        done
    }

    /// Frees what is pending on one CPU.
    ///
    /// # Context
    ///
    /// May sleep: waits for [`Pool::drain_all`].
    pub(crate) fn drain_cpu(&self, cpu: Cpu, cause: DrainCause) -> Drained {
        self.deferred().map_or(Drained::default(), |deferred| {
            let _inside = deferred.gate.read();
            self.drain_batches(deferred, cpu, usize::MAX, cause).0
        })
    }

    /// Frees batches of one CPU until `most` objects are done; the caller holds the gate.
    ///
    /// Returns also whether full batches went back to the list: the CPU's worker must come again.
    fn drain_batches(
        &self,
        deferred: &Deferred,
        cpu: Cpu,
        most: usize,
        cause: DrainCause,
    ) -> (Drained, bool) {
        let batches = deferred.cpus.of(cpu);
        let mut done = Drained::default();
        let mut is_rest = false;
        for node in batches.full.take_all() {
            if done.objects >= most {
                batches.full.push(node);
                is_rest = true;
                continue;
            }
            self.stats.sub_pending(node.value.batch.len());
            done.add(self.free_node(deferred, node));
        }
        // The worker of full batches leaves the open one, which has a timer of its own.
        if done.objects < most && cause != DrainCause::Full {
            if let Some(node) = batches.take_open() {
                done.add(self.free_node(deferred, node));
            }
        }
        if done.objects > 0 {
            self.stats.add_drained(cause, done.objects);
        }
        (done, is_rest)
    }

    fn free_node(&self, deferred: &Deferred, mut node: Node) -> Drained {
        let done = self.free_batch(&mut node.value.batch);
        self.stats.saw_pending_ns(node.value.since.elapsed_ns());
        deferred.cpus.of(node.value.home).give_spare(node);
        done
    }
}
