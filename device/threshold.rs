// SPDX-License-Identifier: GPL-2.0

//! `mem_threshold`: an event for user space when a disk's memory reaches what the user set.
//!
//! ```text
//! write bio -> look: at or above the threshold, and was not -> work item -> change event
//!              look: an eighth below it                     -> armed again
//! ```
//!
//! Only writes make a pool grow for good, so looking after each write bio misses no crossing. While
//! no threshold is set that costs one load. The event is sent by a work item, never by the task
//! that writes: sending allocates and may sleep, and page-out must do neither for comfort.
//!
//! One event a crossing: from the first write that finds the pool at or above the threshold, none
//! is sent until a write has found it more than an eighth below.
//!
//! # Locks
//!
//! A mutex protects the way to the disk, which goes when the disk is about to be removed. It is
//! taken under none but the registry's.

use crate::{
    kapi::{
        atomic::{AtomicBool, AtomicU64},
        gendisk::EventTarget,
        num::{usize_to_u64, PAGE_SIZE},
        work::{Job, Worker}, //
    },
    zsmalloc::PoolStats, //
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{Arc, Mutex}, //
};

/// How far below the threshold the use must fall before the next event: this part of it. Less would
/// make a use that swings around the threshold a stream of events.
const REARM_PART: u64 = 8;

/// What a device's threshold is and whether it was reached.
pub(super) struct Threshold {
    /// The user's threshold, pages; 0 is none.
    pages: AtomicU64,
    /// Reached, and the use has not fallen far enough since.
    is_reached: AtomicBool,
    /// Events since the last reset.
    sent: AtomicU64,
    pool: Arc<PoolStats>,
    target: Pin<KBox<Mutex<Option<EventTarget>>>>,
}

impl Threshold {
    /// Returns a threshold that is off.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pool: Arc<PoolStats>) -> Result<Self> {
        Ok(Self {
            pages: AtomicU64::new(0),
            is_reached: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            pool,
            target: KBox::pin_init(new_mutex!(None, "rzram event target"), GFP_KERNEL)?,
        })
    }

    /// Sends events to `target` from now on; to nobody if there is none.
    ///
    /// # Context
    ///
    /// May sleep: waits for an event that is being sent.
    pub(super) fn set_target(&self, target: Option<EventTarget>) {
        let old = core::mem::replace(&mut *self.target.lock(), target);
        drop(old);
    }

    /// Returns the threshold in pages; 0 is none.
    pub(super) fn pages(&self) -> u64 {
        self.pages.load_relaxed()
    }

    /// Returns how many events were sent since the last reset.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load_relaxed()
    }

    /// Forgets the threshold, as for a new device.
    ///
    /// # Context
    ///
    /// The device lock is held exclusively.
    pub(super) fn forget(&self) {
        self.pages.store_relaxed(0);
        self.is_reached.store_relaxed(false);
        self.sent.store_relaxed(0);
    }

    /// Sets the threshold; if the use is there already, that is a crossing.
    ///
    /// # Context
    ///
    /// The device lock is held exclusively.
    pub(super) fn set(this: &Worker<Self>, pages: u64) {
        this.pages.store_relaxed(pages);
        this.is_reached.store_relaxed(false);
        Self::look(this);
    }

    /// Looks where the use is, and has a crossing announced.
    ///
    /// # Context
    ///
    /// Any but NMI; never waits or allocates.
    #[inline]
    pub(super) fn look(this: &Worker<Self>) {
        let threshold = this.pages.load_relaxed();
        if threshold != 0 {
            Self::compare(this, threshold);
        }
    }

    fn compare(this: &Worker<Self>, threshold: u64) {
        let used = this.pool.total_pages();
        let rearm = threshold.saturating_sub(threshold / REARM_PART);
        // ORDERING: relaxed, and full for the exchange: of several writers one wins. A writer that
        // was stopped between its load and its store for a whole swing of the use costs an event
        // too many, which is harmless.
        if used >= threshold {
            if !this.is_reached.load_relaxed() && !this.is_reached.swap_full(true) {
                this.queue(0);
            }
        } else if used < rearm && this.is_reached.load_relaxed() {
            this.is_reached.store_relaxed(false);
        }
    }

    fn send(&self) -> Result {
        let page = usize_to_u64(PAGE_SIZE);
        let bytes = |pages: u64| pages.saturating_mul(page);
        let used = bytes(self.pool.total_pages());
        let used = CString::try_from_fmt(fmt!("RZRAM_MEM_USED={}", used))?;
        let threshold = bytes(self.pages());
        let threshold = CString::try_from_fmt(fmt!("RZRAM_MEM_THRESHOLD={}", threshold))?;
        match &*self.target.lock() {
            Some(target) => target.uevent(&[c"RZRAM_EVENT=mem_threshold", &used, &threshold]),
            None => Ok(()),
        }
    }
}

impl Job for Threshold {
    fn run(this: &Worker<Self>, _item: usize) {
        match this.send() {
            Ok(()) => {
                this.sent.fetch_add_relaxed(1);
            }
            // The next write tries again.
            Err(_) => this.is_reached.store_relaxed(false),
        }
    }
}
