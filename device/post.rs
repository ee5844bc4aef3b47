// SPDX-License-Identifier: GPL-2.0

//! Post-processing: passes over all slots that a user starts, one at a time, and how they end.
//!
//! A pass may take minutes. It holds the device's turn and a reference to its inner parts, but not
//! the device lock: statistics and settings never wait for it. Whoever takes the inner parts away,
//! at reset or removal, tells the pass to stop and then waits for the turn, which comes within a
//! page's time. A pass that began by itself, see `auto.rs`, also ends as soon as a user wants a turn.
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
    atomic::{AtomicBool, AtomicU32},
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
    /// A pass that began by itself has the turn, or tries to take it. A hint.
    is_auto: AtomicBool,
    /// How many users wait for such a pass to end. A request, as `stop`.
    waiting: AtomicU32,
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
            is_auto: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
        })
    }

    /// Takes the turn for a user's pass; nothing if another user's is under way.
    ///
    /// # Context
    ///
    /// May sleep: until a pass that began by itself has ended, a page's time.
    fn user_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.waiting.fetch_add_relaxed(1);
        let turn = loop {
            // ORDERING: acquire pairs with the release of `AutoMark::drop`: who sees the mark gone
            // sees the turn free, or taken by somebody else.
            let was_auto = self.is_auto.load_acquire();
            let turn = self.turn.try_lock();
            let may_end_soon = was_auto || self.is_auto.load_relaxed();
            if turn.is_some() || !may_end_soon || signal::is_killed() {
                break turn;
            }
            sched::sleep_ms(1);
        };
        self.waiting.fetch_sub_relaxed(1);
        turn
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
    live: LiveRef<'a>,
    post: &'a PostProcessing,
    #[expect(dead_code, reason = "held, not used")]
    turn: MutexGuard<'a, ()>,
    /// If it began by itself.
    auto: Option<AutoMark<'a>>,
}

/// The device's inner parts, which stay while the pass is under way.
enum LiveRef<'a> {
    /// A user's pass keeps them.
    Shared(Arc<Worker<Live>>),
    /// A work item is stopped before they go.
    Own(&'a Worker<Live>),
}

/// The note that a pass began by itself. It goes after the turn, so that a user who meets the turn
/// taken waits for as long as it may be such a pass that has it.
struct AutoMark<'a>(&'a AtomicBool);

impl<'a> AutoMark<'a> {
    fn new(post: &'a PostProcessing) -> Self {
        post.is_auto.store_relaxed(true);
        Self(&post.is_auto)
    }
}

impl Drop for AutoMark<'_> {
    fn drop(&mut self) {
        // ORDERING: release pairs with the acquire of `PostProcessing::user_turn`.
        self.0.store_release(false);
    }
}

impl<'a> Pass<'a> {
    /// Starts a pass for a user.
    ///
    /// # Context
    ///
    /// May sleep; takes the turn, by try, and the device lock, shared, for a moment.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if another pass is under way, `EINVAL` if the device has no size.
    pub(super) fn begin(device: &'a Device) -> Result<Self> {
        let post = &*device.post;
        let turn = post.user_turn().ok_or(EAGAIN)?;
        let config = device.config.read();
        let live = device.live.get(&config).ok_or(EINVAL)?.share();
        drop(config);
        Ok(Self {
            live: LiveRef::Shared(live),
            post,
            turn,
            auto: None,
        })
    }

    /// Starts a pass by itself, in a work item of `live`.
    ///
    /// # Context
    ///
    /// May sleep; takes the turn, by try.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if another pass is under way.
    pub(super) fn begin_auto(live: &'a Worker<Live>) -> Result<Self> {
        let post = &*live.post;
        let mark = AutoMark::new(post);
        let turn = post.turn.try_lock().ok_or(EAGAIN)?;
        Ok(Self {
            live: LiveRef::Own(live),
            post,
            turn,
            auto: Some(mark),
        })
    }

    /// Returns the device's inner parts.
    pub(super) fn live(&self) -> &Live {
        match &self.live {
            LiveRef::Shared(live) => live,
            LiveRef::Own(live) => live,
        }
    }

    /// Returns whether the device is being reset or removed.
    pub(super) fn is_stopped(&self) -> bool {
        self.post.stop.load_relaxed()
    }

    /// Lets others run, and says whether to go on.
    ///
    /// # Context
    ///
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EINTR` if the task is killed, or the device is reset or removed; `EAGAIN` if the pass began
    /// by itself and a user wants the turn.
    pub(super) fn go_on(&self) -> Result {
        sched::cond_resched();
        if self.auto.is_some() && self.post.waiting.load_relaxed() != 0 {
            return Err(EAGAIN);
        }
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
