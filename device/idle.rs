// SPDX-License-Identifier: GPL-2.0

//! `idle`: marks what was not used lately, for `recompress` and others to choose by.
//!
//! Any access takes a slot's mark away, see `slot.rs`.

use super::{
    post,
    request::{self, Idle},
    slot_word::{Mark, SlotWord},
    sysfs,
    Device, //
};
use crate::kapi::{
    clock,
    disk::LiveDisk,
    sched,
    signal, //
};
use kernel::prelude::*;

/// Slots that are walked before the device lock is let go: about a millisecond's worth.
const WINDOW_SLOTS: u32 = 1 << 16;

/// What a pass does to the slots that hold an object.
#[derive(Clone, Copy)]
enum Rule {
    /// Marks them all.
    All,
    /// Marks those last used before this second since boot, and no others.
    Before(u32),
}

impl Rule {
    /// Returns what `word` becomes.
    fn apply(self, word: SlotWord) -> SlotWord {
        match self {
            Self::Before(cutoff) if word.accessed_seconds() >= cutoff => word.without(Mark::Idle),
            _ => word.with(Mark::Idle),
        }
    }
}

/// Marks slots as idle: all, or by age.
///
/// # Context
///
/// May sleep; takes the device lock, shared, for short turns, and each slot that changes.
///
/// # Errors
///
/// `EINVAL` for anything but `all` and a number of seconds, and on a device without a size; the
/// latter not if the age is more than the time since boot, as then nothing can be idle anyway.
/// `EINTR` if the task is killed.
pub(super) fn store(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let asked = request::idle(text).map_err(sysfs::errno);
    let asked = asked.inspect_err(|_| disk.refuse("idle", text, "all, or an age in seconds"))?;
    let rule = match asked {
        Idle::All => Rule::All,
        Idle::Seconds(age) => match clock::boot_seconds().checked_sub(age) {
            None | Some(0) => return Ok(()),
            Some(cutoff) => Rule::Before(cutoff),
        },
    };
    let mut first = 0u32;
    loop {
        // A reset between two turns leaves nothing to mark.
        let config = disk.config.read();
        let live = disk.live.get(&config).ok_or(EINVAL)?;
        let end = first.saturating_add(WINDOW_SLOTS);
        let mut between = || {
            sched::cond_resched();
            Ok(())
        };
        post::walk(live, first, end, &mut between, &mut |_, cell| {
            let word = cell.peek();
            if is_eligible(word) && rule.apply(word) != word {
                let guard = live.lock(cell);
                if is_eligible(guard.stored().word) {
                    guard.mark(|word| rule.apply(word));
                }
            }
        })?;
        first = live.table.skip_absent(end);
        if first >= live.table.slots() {
            return Ok(());
        }
        if signal::is_killed() {
            return Err(EINTR);
        }
    }
}

/// Returns whether a slot holds an object in memory, and not one that is dead.
fn is_eligible(word: SlotWord) -> bool {
    word.has_object() && !word.is_pending()
}
