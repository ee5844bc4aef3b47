// SPDX-License-Identifier: GPL-2.0

//! What exists from `disksize` to reset: table, pool and codecs.
//!
//! The I/O path reaches it without a lock: a bio or a notify proves that the disk is open, and
//! reset first claims the disk, which excludes both. Control files reach it under the device lock.

use super::{
    auto::{self, Policy},
    backing::Backing,
    budget::Settings,
    drain::{self, Cause, Drains},
    notify::Deferral,
    post::PostProcessing,
    slot::{SlotContent, SlotGuard},
    slot_word::{Kind, SlotCell, SlotWord, Stored},
    stats::{Counter, DeviceStats},
    table::{Table, CHUNK_SLOTS},
    word::LOCK_BIT,
    Device,
    Shared, //
};
use crate::{
    kapi::{
        atomic::{AtomicBool, AtomicU64},
        bitlock,
        cpuhp::HotplugInstance,
        num::u64_to_usize,
        oom::{OomClient, OomNotifier},
        params::UintParam,
        sched,
        shrinker::{Shrink, Shrinker},
        work::Worker, //
    },
    zcomp::Zcomp,
    zsmalloc::{ObjectId, Owner, Pool, PoolBox, PoolConfig, Relocated}, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

pub(crate) use super::word::PRIORITIES;

/// Priority of the codec that writes use.
pub(crate) const PRIMARY: u8 = 0;

/// Codecs by priority; the first is always there.
pub(crate) type Codecs = [Option<Zcomp>; PRIORITIES];

/// A configured device's inner parts.
///
/// Dropping it empties the table into the pool first, see below; then the fields go in this order.
pub(crate) struct Live {
    codecs: Arc<Codecs>,
    /// All slots.
    pub(crate) table: Table,
    /// Where the objects are.
    pub(crate) pool: PoolBox,
    /// Where slots can be written back to.
    pub(super) backing: Option<Backing>,
    /// The device's counters.
    pub(crate) stats: Arc<DeviceStats>,
    /// Most pool pages the user allows; 0 means no limit. Shared with the device.
    pub(crate) limit_pages: Arc<AtomicU64>,
    /// When notified slots are freed.
    pub(crate) deferral: Deferral,
    /// What is pending, and where.
    pub(super) drains: Drains,
    /// For tests: the slot, plus one, to store damaged.
    pub(super) spoil_slot: &'static UintParam,
    /// Whose turn it is to post-process. Shared with the device, as are the next two.
    pub(super) post: Arc<PostProcessing>,
    /// The budget of writing back.
    pub(super) settings: Arc<Settings>,
    /// What happens by itself.
    pub(super) policy: Arc<Policy>,
    /// The work item for that: the one after the drains'.
    pub(super) auto_item: usize,
    /// The OOM notifier's last call gave pages back.
    oom_reported: AtomicBool,
}

/// A device's parts together with who drains them: workers, the shrinker, the OOM notifier, and
/// who tells of CPUs that go.
///
/// Fields drop in this order: once reclaim and CPU hotplug cannot come any more, the last reference stops the
/// workers, and only then anything of the parts goes.
pub(crate) struct Running {
    _shrinker: Shrinker<Worker<Live>>,
    _oom: OomNotifier,
    _hotplug: HotplugInstance,
    worker: Arc<Worker<Live>>,
}

impl Running {
    /// Makes the workers of `live` and registers with the kernel's reclaim.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(shared: &Shared, name: &CStr, live: Live) -> Result<KBox<Self>> {
        let queue = shared.workqueue.clone();
        let worker = Arc::pin_init(
            Worker::new(queue, live.auto_item.saturating_add(1), live),
            GFP_KERNEL,
        )?;
        let running = Self {
            _shrinker: Shrinker::register(name, worker.clone())?,
            _oom: OomNotifier::register(worker.clone())?,
            _hotplug: HotplugInstance::register(&shared.hotplug, worker.clone())?,
            worker,
        };
        Ok(KBox::new(running, GFP_KERNEL)?)
    }

    /// Returns the parts with a reference of their own.
    ///
    /// Whoever retires them waits for it to go first: it must not be the last one.
    pub(super) fn share(&self) -> Arc<Worker<Live>> {
        self.worker.clone()
    }
}

impl Deref for Running {
    type Target = Worker<Live>;

    fn deref(&self) -> &Worker<Live> {
        &self.worker
    }
}

impl Live {
    /// Starts a device of `table.slots()` pages, all of them empty.
    ///
    /// # Context
    ///
    /// May sleep; allocates the pool's classes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn start(
        device: &Device,
        table: Table,
        codecs: Arc<Codecs>,
        backing: Option<Backing>,
    ) -> Result<KBox<Running>> {
        let config = PoolConfig {
            linear: device.shared.linear,
            batches: device.shared.deferral == Deferral::Batches,
            queue: device.shared.workqueue.clone(),
        };
        let pool = Pool::new(device.stats.pool.clone(), config)?;
        let live = Self {
            codecs,
            table,
            pool,
            backing,
            stats: device.stats.clone(),
            limit_pages: device.limit_pages.clone(),
            deferral: device.shared.deferral,
            drains: Drains::new(device.stats.drains.clone())?,
            spoil_slot: device.shared.spoil_slot,
            post: device.post.clone(),
            settings: device.settings.clone(),
            policy: device.policy.clone(),
            auto_item: drain::items(),
            oom_reported: AtomicBool::new(false),
        };
        let name = CString::try_from_fmt(fmt!("rzram-pool:{}{}", device.prefix, device.number))?;
        let running = Running::new(&device.shared, &name, live)?;
        auto::schedule(&running);
        Ok(running)
    }

    /// Returns the codec of a priority, if one is configured.
    pub(crate) fn codec(&self, priority: u8) -> Option<&Zcomp> {
        self.codecs.get(usize::from(priority))?.as_ref()
    }

    /// Returns the highest priority that has a codec.
    pub(crate) fn highest_priority(&self) -> u8 {
        let used = (0..)
            .zip(self.codecs.iter())
            .filter(|(_, codec)| codec.is_some());
        used.map(|(priority, _)| priority).last().unwrap_or(PRIMARY)
    }

    /// Returns the lowest priority above the primary's that has a codec.
    pub(super) fn lowest_secondary(&self) -> Option<u8> {
        let used = (0..).zip(self.codecs.iter()).skip(1);
        let mut used = used.filter(|(_, codec)| codec.is_some());
        used.next().map(|(priority, _)| priority)
    }

    /// Moves objects together, and frees what moving found to be dead.
    ///
    /// # Context
    ///
    /// May sleep; takes class locks, and slots by try.
    pub(crate) fn compact(&self) -> u64 {
        self.drain_all();
        let pages = self.pool.compact(self);
        self.drain_all();
        pages
    }

    /// Marks the chunk of slot `index` for the next drain.
    ///
    /// # Context
    ///
    /// Any, interrupts off included.
    pub(super) fn mark(&self, index: u32) {
        self.table.mark(index);
        self.drains.note_mark();
    }

    /// Takes the slot of `cell`.
    ///
    /// # Context
    ///
    /// Not preemptible until the guard goes.
    pub(crate) fn lock<'a>(&'a self, cell: &'a SlotCell) -> SlotGuard<'a> {
        SlotGuard::lock(self, cell)
    }

    /// Frees content that no slot holds any more, and accounts it.
    ///
    /// # Context
    ///
    /// Any, interrupts off included; takes a class lock of the pool.
    pub(crate) fn free(&self, dead: &Stored) {
        if dead.is_empty() {
            return;
        }
        if dead.word.has_object() {
            self.pool.free(ObjectId::from_bits(dead.value));
        }
        self.release_block(dead);
        self.stats.freed(dead);
    }

    /// Gives the block of content that was written back to the next who wants one; no I/O.
    ///
    /// # Context
    ///
    /// Any, interrupts off included; takes no lock.
    pub(super) fn release_block(&self, dead: &Stored) {
        if dead.word.kind() == Ok(Kind::Block) {
            if let Some(backing) = &self.backing {
                backing.common.release(dead.value);
            }
        }
    }

    /// As [`Live::free`], for content that notify marked.
    ///
    /// # Context
    ///
    /// As [`Live::free`].
    pub(crate) fn free_notified(&self, dead: &Stored) {
        if dead.word.has_object() && self.deferral == Deferral::Batches {
            self.pool.free_later(ObjectId::from_bits(dead.value));
            self.stats.freed(dead);
        } else {
            self.free(dead);
        }
    }

    /// Returns whether the pool is above the user's limit.
    pub(crate) fn is_over_limit(&self) -> bool {
        let limit = self.limit_pages.load_relaxed();
        limit != 0 && self.pool.total_pages() > limit
    }
}

impl Owner for Live {
    fn try_relocate(
        &self,
        owner: u32,
        from: ObjectId,
        place: &mut dyn FnMut() -> ObjectId,
    ) -> Relocated {
        let Some(cell) = self.table.cell(owner) else {
            return Relocated::Gone;
        };
        // LOCK: against the order (slot before class), hence only tried. The caller's class lock
        // keeps this non-preemptible, so no section is needed.
        let Some(held) = cell.try_lock() else {
            return Relocated::Busy;
        };
        bitlock::note_acquire(true);
        let was_dead = held.has_dead();
        let ended = cell.relocate(held, from.to_bits(), &mut || place().to_bits());
        bitlock::note_release();
        bitlock::after_unlock(cell.word(), LOCK_BIT);
        if ended.needs_hint {
            if !was_dead {
                // Notify found a holder and counted; now who takes the slot next counts it.
                self.stats.add(Counter::NotifyFree, -1);
            }
            self.mark(owner);
        }
        if ended.moved {
            Relocated::Moved
        } else {
            Relocated::Gone
        }
    }
}

impl Shrink for Worker<Live> {
    fn count(&self) -> usize {
        let pending = self.pending_slots();
        u64_to_usize(self.pool.compactable_pages().saturating_add(pending))
    }

    fn scan(&self, _pages: usize) -> Option<usize> {
        let before = self.pool.total_pages();
        self.drain_now(Cause::Shrinker);
        self.pool.compact(&**self);
        if self.drains.is_marked() {
            // What died while it was being moved: any worker looks at marks.
            self.queue(0);
        }
        let freed = before.saturating_sub(self.pool.total_pages());
        Some(u64_to_usize(freed)).filter(|freed| *freed != 0)
    }
}

impl OomClient for Worker<Live> {
    /// Never reports pages twice in a row: between two reports the kernel gets to kill, and so to
    /// free what no drain can.
    fn give_back(&self) -> usize {
        let before = self.pool.total_pages();
        self.drain_now(Cause::Oom);
        let freed = u64_to_usize(before.saturating_sub(self.pool.total_pages()));
        let reported = self.oom_reported.swap_full(freed != 0);
        if reported {
            self.oom_reported.store_relaxed(false);
            return 0;
        }
        freed
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut index = self.table.skip_absent(0);
        while index < self.table.slots() {
            let step = CHUNK_SLOTS;
            self.table.for_each(index, step, &mut |_, cell| {
                if cell.peek() != SlotWord::EMPTY {
                    self.lock(cell).replace(SlotContent::Empty, 0);
                }
            });
            sched::cond_resched();
            index = self.table.skip_absent(index.saturating_add(step));
        }
    }
}
