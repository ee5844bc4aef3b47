// SPDX-License-Identifier: GPL-2.0

//! Ranges: how notify tells the drain which slots are worth a look, one word for up to 512 of them.
//!
//! Pure: needs `core` and the atomic facade only.
//!
//! A range is a hint. The pending bit in the slot word is the truth, so a range taken twice or
//! naming slots that were written again is harmless, and only a *lost* range would be a fault.
//!
//! ```text
//!  63        48 47       32 31                 0
//! +------------+-----------+--------------------+
//! |     0      |  length   |  first slot        |    0 as a whole: no range
//! +------------+-----------+--------------------+
//! ```
//!
//! # Who may run with whom
//!
//! |             | `note` same CPU | `note` other CPU | `take` |
//! |-------------|-----------------|------------------|--------|
//! | `note`      | yes             | yes              | yes    |
//! | `take`      | yes             | yes              | yes    |
//!
//! One [`RangeBuffer`] a CPU: `note` normally runs there, not preempted. It is right all the same
//! if it is (PREEMPT_RT) or if its thread has moved, since every step is one exchange:
//!
//! * the open range grows, or gives way to a new one, by compare-and-exchange; who replaces it owns
//!   the old one and puts it in the ring;
//! * a ring place goes from 0 to a range by compare-and-exchange, and back to 0 by swap: whoever
//!   swaps out a range owns it;
//! * with the ring full the range is handed back to the caller, who marks its chunk.

use crate::kapi::atomic::AtomicU64;

/// Longest range, in slots: the worker starts while a long unmapping still goes on, and a drain's
/// step stays short. A divisor or multiple of the chunk, whichever a build chooses.
pub(crate) const MAX_RANGE_SLOTS: u32 = 512;

/// Places in a CPU's ring. 64 ranges of 256 slots are 64 MiB of pages between two runs of the
/// worker; a power of two, so that the cursor wraps cheaply. Model builds make it tiny.
#[cfg(not(loom))]
pub(crate) const RING_RANGES: usize = 64;
/// See above.
#[cfg(loom)]
pub(crate) const RING_RANGES: usize = 1;

const _: () = assert!(RING_RANGES.is_power_of_two());

/// Adjacent slots that may be pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// First slot.
    pub(crate) first: u32,
    /// Number of slots, 1 to [`MAX_RANGE_SLOTS`].
    pub(crate) slots: u32,
}

impl Range {
    const fn one(slot: u32) -> Self {
        Self {
            first: slot,
            slots: 1,
        }
    }

    const fn pack(self) -> u64 {
        // CAST: widening.
        (self.first as u64) | ((self.slots as u64) << 32)
    }

    const fn unpack(bits: u64) -> Option<Self> {
        if bits == 0 {
            return None;
        }
        // CAST: the lower and the upper half of the word.
        let (first, slots) = (bits as u32, (bits >> 32) as u32);
        Some(Self { first, slots })
    }

    /// Returns the first `slots` slots and what is left, if anything.
    pub(crate) fn split(self, slots: u32) -> (Self, Option<Self>) {
        let left = self.slots.saturating_sub(slots);
        let mine = Self {
            first: self.first,
            slots: self.slots.saturating_sub(left),
        };
        let rest = Self {
            first: self.first.wrapping_add(mine.slots),
            slots: left,
        };
        (mine, (left != 0).then_some(rest))
    }

    /// Returns the range grown by `slot`, if `slot` is in it or follows it, within its chunk.
    ///
    /// `chunk_slots` is a power of two. A range never crosses a chunk, so that a chunk's mark
    /// stands for every range that could not be kept.
    fn grown(self, slot: u32, chunk_slots: u32) -> Option<Self> {
        let offset = slot.wrapping_sub(self.first);
        if offset < self.slots {
            return Some(self);
        }
        let starts_chunk = slot & chunk_slots.wrapping_sub(1) == 0;
        if offset != self.slots || self.slots >= MAX_RANGE_SLOTS || starts_chunk {
            return None;
        }
        Some(Self {
            first: self.first,
            slots: self.slots.wrapping_add(1),
        })
    }
}

/// What [`RangeBuffer::note`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// The slot follows the open range or is in it.
    Grown,
    /// The slot opened the first range since the last take: a flush must be due.
    Opened,
    /// The slot opened a range and the one before went into the ring: there is work.
    Closed,
    /// As `Closed`, but the ring was full: the caller marks this range's chunk.
    Overflow(Range),
}

/// One CPU's open range and its ring of closed ones.
pub(crate) struct RangeBuffer {
    open: AtomicU64,
    ring: [AtomicU64; RING_RANGES],
    /// Where the next closed range tries first; a hint.
    cursor: AtomicU64,
}

impl RangeBuffer {
    /// Returns an empty buffer.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            open: AtomicU64::new(0),
            ring: [const { AtomicU64::new(0) }; RING_RANGES],
            cursor: AtomicU64::new(0),
        }
    }

    /// Returns an empty buffer.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            open: AtomicU64::new(0),
            ring: core::array::from_fn(|_| AtomicU64::new(0)),
            cursor: AtomicU64::new(0),
        }
    }

    /// Notes that `slot` is pending.
    ///
    /// # Context
    ///
    /// Any, interrupts off included. One exchange for a slot that follows the last one.
    pub(crate) fn note(&self, slot: u32, chunk_slots: u32) -> Noted {
        let mut old = self.open.load_relaxed();
        loop {
            let open = Range::unpack(old);
            let grown = open.and_then(|range| range.grown(slot, chunk_slots));
            let new = grown.unwrap_or(Range::one(slot)).pack();
            // ORDERING: full. Pairs with the swap of `take`: whoever takes the range also sees the
            // pending bits that were set before it was noted.
            match self.open.cmpxchg_full(old, new) {
                Err(now) => old = now,
                Ok(_) if grown.is_some() => return Noted::Grown,
                Ok(_) => {
                    return match open {
                        None => Noted::Opened,
                        Some(range) => self.close(range),
                    }
                }
            }
        }
    }

    fn close(&self, range: Range) -> Noted {
        let start = self.cursor.fetch_add_relaxed(1);
        for step in 0..RING_RANGES {
            // CAST: the masked cursor is a place in the ring.
            let at = (start as usize).wrapping_add(step) & RING_RANGES.wrapping_sub(1);
            let Some(place) = self.ring.get(at) else {
                break;
            };
            // ORDERING: as in `note`.
            if place.load_relaxed() == 0 && place.cmpxchg_full(0, range.pack()).is_ok() {
                return Noted::Closed;
            }
        }
        Noted::Overflow(range)
    }

    /// Takes every range out, the open one last, and gives each to `visit`.
    ///
    /// # Context
    ///
    /// Any CPU; `visit` decides about the rest.
    pub(crate) fn take(&self, visit: &mut dyn FnMut(Range)) {
        for place in self.ring.iter().chain(core::iter::once(&self.open)) {
            if place.load_relaxed() == 0 {
                continue;
            }
            // ORDERING: full, pairs with the exchanges of `note` and `close`.
            if let Some(range) = Range::unpack(place.swap_full(0)) {
                visit(range);
            }
        }
    }

    /// Returns whether the ring holds a range, the one closed last most likely.
    pub(crate) fn has_closed(&self) -> bool {
        self.ring.iter().any(|place| place.load_relaxed() != 0)
    }

    /// Takes one closed range out.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn take_closed(&self) -> Option<Range> {
        self.ring
            .iter()
            .filter(|place| place.load_relaxed() != 0)
            // ORDERING: as in `take`.
            .find_map(|place| Range::unpack(place.swap_full(0)))
    }

    /// Puts a range into the ring; hands it back if that is full.
    ///
    /// # Context
    ///
    /// As [`RangeBuffer::note`].
    pub(crate) fn put_back(&self, range: Range) -> Option<Range> {
        match self.close(range) {
            Noted::Overflow(range) => Some(range),
            _ => None,
        }
    }
}

impl Default for RangeBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u32 = 256;

    fn taken(b: &RangeBuffer) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        b.take(&mut |r| all.push((r.first, r.slots)));
        all
    }

    #[test]
    fn consecutive_slots_make_one_range() {
        let b = RangeBuffer::new();
        assert_eq!(b.note(3, CHUNK), Noted::Opened);
        for slot in 4..=100 {
            assert_eq!(b.note(slot, CHUNK), Noted::Grown);
        }
        assert_eq!(b.note(50, CHUNK), Noted::Grown);
        assert_eq!(taken(&b), [(3, 98)]);
        assert!(taken(&b).is_empty());
    }

    #[test]
    fn a_range_ends_at_its_chunk() {
        let b = RangeBuffer::new();
        let _ = b.note(CHUNK - 1, CHUNK);
        assert_eq!(b.note(CHUNK, CHUNK), Noted::Closed);
        assert_eq!(taken(&b), [(CHUNK - 1, 1), (CHUNK, 1)]);
    }

    #[test]
    fn a_range_ends_at_its_longest() {
        let b = RangeBuffer::new();
        let chunk = 4 * MAX_RANGE_SLOTS;
        let _ = b.note(0, chunk);
        for slot in 1..MAX_RANGE_SLOTS {
            assert_eq!(b.note(slot, chunk), Noted::Grown);
        }
        assert_eq!(b.note(MAX_RANGE_SLOTS, chunk), Noted::Closed);
    }

    #[test]
    fn last_slot_of_all_does_not_wrap() {
        let b = RangeBuffer::new();
        let _ = b.note(u32::MAX, CHUNK);
        assert_eq!(b.note(0, CHUNK), Noted::Closed);
        assert_eq!(taken(&b), [(u32::MAX, 1), (0, 1)]);
    }

    #[test]
    fn a_full_ring_hands_the_range_back() {
        let b = RangeBuffer::new();
        let mut given = Vec::new();
        for i in 0..=(RING_RANGES as u32 + 1) {
            if let Noted::Overflow(r) = b.note(i * 2, CHUNK) {
                given.push((r.first, r.slots));
            }
        }
        assert_eq!(given.len(), 1);
        given.extend(taken(&b));
        given.sort_unstable();
        let want: Vec<_> = (0..=(RING_RANGES as u32 + 1)).map(|i| (i * 2, 1)).collect();
        assert_eq!(given, want);
    }
}
