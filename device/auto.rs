// SPDX-License-Identifier: GPL-2.0

//! What happens to old pages by itself: recompression, writing back. Off until somebody asks for it.
//!
//! | file                | unit    | default | meaning                                              |
//! |---------------------|---------|---------|------------------------------------------------------|
//! | `auto_idle_seconds` | seconds | 0: off  | a page is old if it was not used for so long         |
//! | `auto_recompress`   | 0 or 1  | 0       | old pages are stored again with the secondary codec  |
//! | `auto_writeback`    | 0 or 1  | 0       | then, or instead, written back, within the budget    |
//!
//! A work item of the disk's worker looks four times in that many seconds, but at least once a minute
//! and at most once a second. It runs at the lowest nice value, and goes by the time of last use: it
//! neither needs nor changes idle marks, but that an attempt to recompress ends idleness.
//!
//! # Who may run with whom
//!
//! It takes the device's turn by try, so it never waits for a user's pass; a user's pass ends it,
//! within a page's time, see `post.rs`. Reset and removal end it like any pass, and reset switches it
//! off. A full device, a spent budget or an error ends it until the next time.

use super::{
    live::Live,
    post::Pass,
    recompress,
    request,
    slot_word::SlotWord,
    sysfs,
    targets::Rule,
    writeback,
    Device, //
};
use crate::kapi::{
    atomic::{AtomicBool, AtomicU32},
    clock,
    disk::LiveDisk,
    sched::LowPriority,
    sysfs::Emit,
    work::Worker, //
};
use core::fmt::Write;
use kernel::prelude::*;

/// Longest time between two looks, in seconds.
const MOST_SECONDS: u32 = 60;

/// What shall happen by itself.
pub(super) struct Policy {
    idle_seconds: AtomicU32,
    recompress: AtomicBool,
    writeback: AtomicBool,
}

impl Policy {
    /// Returns a policy that is off.
    pub(super) const fn new() -> Self {
        Self {
            idle_seconds: AtomicU32::new(0),
            recompress: AtomicBool::new(false),
            writeback: AtomicBool::new(false),
        }
    }

    /// Switches everything off.
    pub(super) fn reset(&self) {
        self.idle_seconds.store_relaxed(0);
        self.recompress.store_relaxed(false);
        self.writeback.store_relaxed(false);
    }

    /// Returns the time to the next look, if there is to be one.
    fn period_ms(&self) -> Option<u32> {
        let seconds = self.idle_seconds.load_relaxed();
        let is_on = self.recompress.load_relaxed() || self.writeback.load_relaxed();
        let period = (seconds / 4).clamp(1, MOST_SECONDS);
        (seconds != 0 && is_on).then(|| period.saturating_mul(1000))
    }
}

/// Has the work item run at its time, if the policy wants it.
///
/// # Context
///
/// Any but NMI.
pub(super) fn schedule(live: &Worker<Live>) {
    if let Some(ms) = live.policy.period_ms() {
        live.queue_after(live.auto_item, ms);
    }
}

/// Looks for old pages and does what the policy says.
///
/// # Context
///
/// A work item: may sleep.
pub(super) fn run(live: &Worker<Live>) {
    let policy = &live.policy;
    if policy.period_ms().is_none() {
        return;
    }
    let age = policy.idle_seconds.load_relaxed();
    if let Some(cutoff) = clock::boot_seconds().checked_sub(age) {
        let _low = LowPriority::enter();
        let is_old = |word: SlotWord| word.accessed_seconds() < cutoff;
        // Whatever ends a pass is met again, or is over, at the next look.
        if policy.recompress.load_relaxed() {
            let _ = recompress_old(live, &is_old);
        }
        if policy.writeback.load_relaxed() {
            let _ = write_back_old(live, &is_old);
        }
    }
    schedule(live);
}

fn recompress_old(live: &Worker<Live>, is_old: &dyn Fn(SlotWord) -> bool) -> Result {
    let Some(priority) = live.lowest_secondary() else {
        return Ok(());
    };
    let pass = Pass::begin_auto(live)?;
    recompress::run_old(&pass, priority, is_old)
}

fn write_back_old(live: &Worker<Live>, is_old: &dyn Fn(SlotWord) -> bool) -> Result {
    let Some(backing) = &live.backing else {
        return Ok(());
    };
    let pass = Pass::begin_auto(live)?;
    let is_wanted = |word: SlotWord| Rule::Any.wants(word) && is_old(word);
    let ended = writeback::run(&pass, backing, &live.settings, |chosen| {
        chosen.choose(0, u32::MAX, is_wanted)
    })?;
    ended.result()
}

fn emitted(out: &mut Emit<'_>, number: u32) -> Result {
    writeln!(out, "{number}").map_err(|_| ENOSPC)
}

/// Changes the policy; whatever is wrong with the number is `EINVAL`.
fn store(
    disk: &LiveDisk<Device>,
    file: &str,
    text: &[u8],
    max: u32,
    set: impl FnOnce(u32),
) -> Result {
    let number = request::number(text, max).map_err(sysfs::errno);
    let number = number.inspect_err(|_| {
        let legal = if max == 1 {
            "0 or 1"
        } else {
            "a number of seconds, or 0 for never"
        };
        disk.refuse(file, text, legal);
    })?;
    let config = disk.config.write();
    set(number);
    if let Some(live) = disk.live.get(&config) {
        // A look that was due later, or that is not wanted any more, does no harm.
        if let Some(ms) = live.policy.period_ms() {
            live.requeue_after(live.auto_item, ms);
        }
    }
    Ok(())
}

pub(super) fn show_idle_seconds(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    emitted(out, disk.policy.idle_seconds.load_relaxed())
}

pub(super) fn store_idle_seconds(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let set = |seconds| disk.policy.idle_seconds.store_relaxed(seconds);
    store(disk, "auto_idle_seconds", text, u32::MAX, set)
}

pub(super) fn show_recompress(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    emitted(out, u32::from(disk.policy.recompress.load_relaxed()))
}

pub(super) fn store_recompress(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let set = |on| disk.policy.recompress.store_relaxed(on != 0);
    store(disk, "auto_recompress", text, 1, set)
}

pub(super) fn show_writeback(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    emitted(out, u32::from(disk.policy.writeback.load_relaxed()))
}

pub(super) fn store_writeback(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let set = |on| disk.policy.writeback.store_relaxed(on != 0);
    store(disk, "auto_writeback", text, 1, set)
}
