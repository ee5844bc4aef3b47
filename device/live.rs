// SPDX-License-Identifier: GPL-2.0

//! What exists from `disksize` to reset: table, pool and codecs.
//!
//! The I/O path reaches it without a lock: a bio or a notify proves that the disk is open, and
//! reset first claims the disk, which excludes both. Control files reach it under the device lock.

use super::{
    drain::{self, Drains},
    notify::Deferral,
    slot::{SlotContent, SlotGuard},
    slot_word::{SlotCell, SlotWord, Stored},
    stats::{Counter, DeviceStats},
    table::{Table, CHUNK_SLOTS},
    Device, //
};
use crate::{
    kapi::{
        atomic::AtomicU64,
        sched,
        work::Worker, //
    },
    zcomp::Zcomp,
    zsmalloc::{ObjectId, Owner, Pool, PoolConfig, Relocated}, //
};
use core::ops::Deref;
use kernel::{prelude::*, sync::Arc};

/// Codec priorities: the primary and up to three secondaries.
pub(crate) const PRIORITIES: usize = 4;

/// Priority of the codec that writes use.
pub(crate) const PRIMARY: u8 = 0;

/// Codecs by priority; the first is always there.
pub(crate) type Codecs = [Option<Zcomp>; PRIORITIES];

/// A configured device's inner parts.
///
/// Dropping it empties the table into the pool first, see below; then the fields go in this order.
pub(crate) struct Live {
    codecs: Codecs,
    /// All slots.
    pub(crate) table: Table,
    /// Where the objects are.
    pub(crate) pool: Pin<KBox<Pool>>,
    /// The device's counters.
    pub(crate) stats: Arc<DeviceStats>,
    /// Most pool pages the user allows; 0 means no limit. Shared with the device.
    pub(crate) limit_pages: Arc<AtomicU64>,
    /// When notified slots are freed.
    pub(crate) deferral: Deferral,
    /// What is pending, and where.
    pub(super) drains: Drains,
}

/// A device's parts together with the workers that drain them.
///
/// Dropping it stops the workers before anything of the parts goes.
pub(crate) struct Running(Pin<KBox<Worker<Live>>>);

impl Deref for Running {
    type Target = Worker<Live>;

    fn deref(&self) -> &Worker<Live> {
        &self.0
    }
}

impl Live {
    /// Returns the parts of a device of `table.slots()` pages, all of them empty.
    ///
    /// # Context
    ///
    /// May sleep; allocates the pool's classes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Device, table: Table, codecs: Codecs) -> Result<KBox<Running>> {
        let pool = Pool::new(device.stats.pool.clone(), PoolConfig { linear: true })?;
        let live = Self {
            codecs,
            table,
            pool,
            stats: device.stats.clone(),
            limit_pages: device.limit_pages.clone(),
            deferral: device.shared.deferral,
            drains: Drains::new()?,
        };
        let queue = device.shared.workqueue.clone();
        let worker = Worker::new(queue, drain::items(), live);
        let running = Running(KBox::pin_init(worker, GFP_KERNEL)?);
        Ok(KBox::new(running, GFP_KERNEL)?)
    }

    /// Returns the codec of a priority, if one is configured.
    pub(crate) fn codec(&self, priority: u8) -> Option<&Zcomp> {
        self.codecs.get(usize::from(priority))?.as_ref()
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
        if dead.has_object() {
            self.pool.free(ObjectId::from_bits(dead.value));
        }
        self.stats.freed(dead);
    }

    /// As [`Live::free`], for content that notify marked.
    ///
    /// # Context
    ///
    /// As [`Live::free`].
    pub(crate) fn free_notified(&self, dead: &Stored) {
        self.free(dead);
        self.stats.add(Counter::NotifiedPages, 1);
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
        let ended = cell.relocate(held, from.to_bits(), &mut || place().to_bits());
        if ended.needs_hint {
            self.mark(owner);
        }
        if ended.moved {
            Relocated::Moved
        } else {
            Relocated::Gone
        }
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
