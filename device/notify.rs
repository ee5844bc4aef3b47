// SPDX-License-Identifier: GPL-2.0

//! Slot-free notify: what the unmapping task itself pays for each swap slot it drops.
//!
//! Called by the swap core under its cluster lock, possibly with interrupts off. It never waits,
//! never allocates, never sleeps. Whatever the mode, the pending bit set first is the truth; the
//! rest decides only who frees and when:
//!
//! | `deferred_free` | after the bit is set                                                       |
//! |-----------------|----------------------------------------------------------------------------|
//! | 0               | try the slot's lock and free at once; a holder honors the bit when it goes |
//! | 1               | the same, but the pool gathers the object in a per-CPU batch               |
//! | 2               | note the slot in this CPU's range, and a worker frees                      |
//!
//! In mode 2 the usual call, of a slot near the last one, is one atomic operation, on the slot's word,
//! and one read of the range. It is counted by whoever takes the slot to free it.
//!
//! Modes 0 and 1 take a class lock of the pool or a batch, by way of the one function of `slot.rs`.

use super::{
    drain::{self, Cause, CpuDrain},
    live::{Live, Running},
    range::Noted,
    slot::SlotGuard,
    slot_word::{Kind, Marked, SlotCell},
    stats::Counter,
    table::CHUNK_SLOTS, //
};

/// When an object that notify marked is freed: the module parameter `deferred_free`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deferral {
    /// At once.
    Synchronous,
    /// In the pool's per-CPU batches.
    Batches,
    /// By a worker that is told of ranges; the pool's batches as well.
    Ranges,
}

/// Frees slot `index`, now or soon. From here on it reads as zeroes.
///
/// An index beyond the device, or of a slot that was never written, is counted and ignored.
///
/// # Context
///
/// Atomic, interrupts possibly off.
pub(super) fn slot_free(live: &Running, index: u32) {
    let Some(cell) = live.table.cell(index) else {
        live.stats.add(Counter::NotifyFree, 1);
        return;
    };
    match cell.mark_pending() {
        Marked::Free(word) if word.kind() != Ok(Kind::Empty) => {
            if live.deferral == Deferral::Ranges {
                note(live, index);
            } else {
                free_now(live, cell);
            }
        }
        // Held: the holder frees. Already: the first notify has seen to it. Empty: nothing to free,
        // and the bit goes with the next holder.
        _ => live.stats.add(Counter::NotifyFree, 1),
    }
}

/// Frees a pending slot unless somebody holds it, who then does.
fn free_now(live: &Live, cell: &SlotCell) {
    // Dropping the guard honors the pending bit.
    drop(SlotGuard::try_lock_atomic(live, cell));
}

#[inline]
fn note(live: &Running, index: u32) {
    let cpu = live.drains.this();
    match cpu.ranges.note(index, CHUNK_SLOTS) {
        Noted::Known => {}
        noted => tell(live, cpu, noted),
    }
}

/// Has somebody come for what was noted.
fn tell(live: &Running, cpu: &CpuDrain, noted: Noted) {
    match noted {
        Noted::Known | Noted::Opened => {}
        Noted::Closed => drain::start(live, cpu, Cause::RangeClosed),
        Noted::Overflow(range) => {
            live.mark(range.first);
            drain::start(live, cpu, Cause::RingFull);
        }
    }
    drain::flush_soon(live, cpu);
}
