// SPDX-License-Identifier: GPL-2.0

//! Post-processing: passes over all slots that a user starts, one at a time, and how they end.
//!
//! A pass may take minutes. It holds the device's turn and a reference to its inner parts, but not
//! the device lock: statistics and settings never wait for it. Whoever takes the inner parts away,
//! at reset or removal, tells the pass to stop and then waits for the turn, which comes within a
//! page's time.
//!
//! # Locks
//!
//! The turn is inside of the disk's open lock and outside of the device lock. Nothing that serves
//! a bio takes it.

use super::{
    live::Live,
    slot_word::SlotCell,
    table::CHUNK_SLOTS,
    Device, //
};
use crate::kapi::{
    atomic::AtomicBool,
    sched,
    signal,
    work::Worker, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex, MutexGuard}, //
};

/// A device's turn, and whether the pass that has it shall stop.
#[pin_data]
pub(super) struct PostProcessing {
    #[pin]
    turn: Mutex<()>,
    /// A mere request, looked at between pages: the turn orders everything.
    stop: AtomicBool,
}

/// How a pass ended.
#[must_use = "the user wants to know"]
pub(super) struct Ended {
    /// Why it did not get to its end, if it did not.
    pub(super) pass: Result,
    /// The last error of a slot, after which it went on.
    pub(super) slots: Result,
}

impl Ended {
    /// Returns what the user sees.
    pub(super) fn result(self) -> Result {
        self.pass.and(self.slots)
    }
}

impl PostProcessing {
    /// Returns an initializer for a free turn.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            turn <- new_mutex!((), "rzram post-processing"),
            stop: AtomicBool::new(false),
        })
    }

    /// Tells the pass to stop, for good: the disk is going away.
    pub(super) fn stop(&self) {
        self.stop.store_relaxed(true);
    }

    /// Ends the pass, and keeps others out while the answer lives.
    ///
    /// # Context
    ///
    /// May sleep: a page's time, if a pass is under way. The device lock is not held.
    pub(super) fn halt(&self) -> Halted<'_> {
        self.stop.store_relaxed(true);
        Halted {
            turn: self.turn.lock(),
            stop: &self.stop,
        }
    }
}

/// The certainty that no pass is under way.
#[must_use = "passes go on when this is dropped"]
pub(super) struct Halted<'a> {
    #[expect(dead_code, reason = "held, not used")]
    turn: MutexGuard<'a, ()>,
    stop: &'a AtomicBool,
}

impl Drop for Halted<'_> {
    fn drop(&mut self) {
        self.stop.store_relaxed(false);
    }
}

/// A pass under way.
///
/// Fields drop in this order: the reference goes before the turn, so that it is never the last.
pub(super) struct Pass<'a> {
    live: Arc<Worker<Live>>,
    stop: &'a AtomicBool,
    #[expect(dead_code, reason = "held, not used")]
    turn: MutexGuard<'a, ()>,
}

impl<'a> Pass<'a> {
    /// Starts a pass.
    ///
    /// # Context
    ///
    /// May sleep; takes the turn, by try, and the device lock, shared, for a moment.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if another pass is under way, `EINVAL` if the device has no size.
    pub(super) fn begin(device: &'a Device) -> Result<Self> {
        let post = &device.post;
        let turn = post.turn.try_lock().ok_or(EAGAIN)?;
        let config = device.config.read();
        let live = device.live.get(&config).ok_or(EINVAL)?.share();
        drop(config);
        Ok(Self {
            live,
            stop: &post.stop,
            turn,
        })
    }

    /// Returns the device's inner parts.
    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    /// Returns whether the device is being reset or removed.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load_relaxed()
    }

    /// Lets others run, and says whether to go on.
    ///
    /// # Context
    ///
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EINTR` if the task is killed, or the device is reset or removed.
    pub(super) fn go_on(&self) -> Result {
        sched::cond_resched();
        if self.is_stopped() || signal::is_killed() {
            return Err(EINTR);
        }
        Ok(())
    }
}

/// Calls `visit` for the slots from `first` to before `end` whose chunk exists, and `between` before
/// each chunk.
///
/// # Context
///
/// As `between` and `visit`.
///
/// # Errors
///
/// Those of `between`, which end the walk.
pub(super) fn walk(
    live: &Live,
    first: u32,
    end: u32,
    between: &mut dyn FnMut() -> Result,
    visit: &mut dyn FnMut(u32, &SlotCell),
) -> Result {
    let end = end.min(live.table.slots());
    let mut index = live.table.skip_absent(first);
    while index < end {
        between()?;
        let step = end.saturating_sub(index).min(CHUNK_SLOTS);
        live.table.for_each(index, step, visit);
        index = live.table.skip_absent(index.saturating_add(step));
    }
    Ok(())
}
