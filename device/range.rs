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
//! |             | `note` same CPU | `note` other CPU | `take_*` |
//! |-------------|-----------------|------------------|----------|
//! | `note`      | yes             | yes              | yes      |
//! | `take_*`    | yes             | yes              | yes      |
//!
//! One [`RangeBuffer`] a CPU: `note` normally runs there, not preempted. It is right all the same
//! if it is (PREEMPT_RT) or if its thread has moved, since every step is one exchange:
//!
//! * the open range grows, or gives way to a new one, by compare-and-exchange; who replaces it owns
//!   the old one and puts it in the ring;
//! * a ring place goes from 0 to a range by compare-and-exchange, and back to 0 by swap: whoever
//!   swaps out a range owns it;
//! * with the ring full the range is handed back to the caller, who marks its chunk.

use crate::kapi::atomic::{smp_mb, AtomicBool, AtomicU64};

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
///
/// A range's length is the number of notes in it. So whoever ends an open range, here or by
/// [`RangeBuffer::take_open`], counts them all at once, and notify need not count each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// The slot follows the open range, which grew.
    Grown,
    /// The slot is in the open range already: it was written and died again. The length stays.
    Known,
    /// The slot opened the first range since the last take: a flush must be due.
    Opened,
    /// The slot opened a range and the one before, of so many slots, went into the ring: there is
    /// work.
    Closed(u32),
    /// As `Closed`, but the ring was full: the caller marks this range's chunk.
    Overflow(Range),
}

/// The ring of closed ranges, which the drain reads, on cache lines of its own.
#[repr(align(64))]
struct Ring([AtomicU64; RING_RANGES]);

/// One CPU's open range and its ring of closed ones.
#[repr(C, align(64))]
pub(crate) struct RangeBuffer {
    /// Changed by each note, so that no drain but a flush comes near it.
    open: AtomicU64,
    /// Where the next closed range tries first; a hint.
    cursor: AtomicU64,
    ring: Ring,
}

impl RangeBuffer {
    /// Returns an empty buffer.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            open: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            ring: Ring([const { AtomicU64::new(0) }; RING_RANGES]),
        }
    }

    /// Returns an empty buffer.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            open: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            ring: Ring(core::array::from_fn(|_| AtomicU64::new(0))),
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
            // ORDERING: full. Pairs with the swap of `take_open`: whoever takes the range also sees
            // the pending bits that were set before it was noted.
            match self.open.cmpxchg_full(old, new) {
                Err(now) => old = now,
                Ok(_) if grown.is_some() && new != old => return Noted::Grown,
                Ok(_) if grown.is_some() => return Noted::Known,
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
            let Some(place) = self.ring.0.get(at) else {
                break;
            };
            // ORDERING: as in `note`.
            if place.load_relaxed() == 0 && place.cmpxchg_full(0, range.pack()).is_ok() {
                return Noted::Closed(range.slots);
            }
        }
        Noted::Overflow(range)
    }

    /// Takes every closed range out and gives each to `visit`.
    ///
    /// # Context
    ///
    /// Any CPU; `visit` decides about the rest.
    pub(crate) fn take_closed(&self, visit: &mut dyn FnMut(Range)) {
        for place in &self.ring.0 {
            if let Some(range) = Self::take_from(place) {
                visit(range);
            }
        }
    }

    /// Takes the open range out.
    ///
    /// # Context
    ///
    /// Any CPU. Costs the next notify a flush to arm.
    pub(crate) fn take_open(&self) -> Option<Range> {
        Self::take_from(&self.open)
    }

    /// Takes one closed range out.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn take_one(&self) -> Option<Range> {
        self.ring.0.iter().find_map(Self::take_from)
    }

    fn take_from(place: &AtomicU64) -> Option<Range> {
        if place.load_relaxed() == 0 {
            return None;
        }
        // ORDERING: full, pairs with the exchanges of `note` and `close`.
        Range::unpack(place.swap_full(0))
    }

    /// Returns whether the ring holds a range.
    pub(crate) fn has_closed(&self) -> bool {
        self.ring.0.iter().any(|place| place.load_relaxed() != 0)
    }

    /// Returns how many slots the open range has just now.
    pub(crate) fn open_slots(&self) -> u32 {
        Range::unpack(self.open.load_relaxed()).map_or(0, |range| range.slots)
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

/// Whether a worker is at work or about to be, so that a busy notify calls it once and not for each
/// range.
pub(crate) struct Called(AtomicBool);

impl Called {
    /// Returns the flag of a worker that rests.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Returns whether the worker was called and has not ended since.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load_relaxed()
    }

    /// Calls the worker; returns whether the caller must queue it.
    ///
    /// # Context
    ///
    /// Any. What there is to do was published before, by an exchange or a store.
    pub(crate) fn call(&self) -> bool {
        // ORDERING: full, between publishing the work and the look at the flag; pairs with the
        // barrier of `end`: either the worker's look finds the work, or the flag is seen clear here.
        smp_mb();
        !self.0.load_relaxed() && !self.0.swap_full(true)
    }

    /// Ends the worker's round; returns whether it may rest. `has_more` looks for work.
    ///
    /// If not, somebody may have queued the worker as well: then that run finds nothing.
    pub(crate) fn end(&self, has_more: impl Fn() -> bool) -> bool {
        self.0.swap_full(false);
        // ORDERING: full, between clearing the flag and the look for work; pairs with `call`.
        smp_mb();
        if !has_more() {
            return true;
        }
        self.0.swap_full(true);
        false
    }
}

impl Default for Called {
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
        b.take_closed(&mut |r| all.push((r.first, r.slots)));
        all.extend(b.take_open().map(|r| (r.first, r.slots)));
        all
    }

    #[test]
    fn consecutive_slots_make_one_range() {
        let b = RangeBuffer::new();
        assert_eq!(b.note(3, CHUNK), Noted::Opened);
        for slot in 4..=100 {
            assert_eq!(b.note(slot, CHUNK), Noted::Grown);
        }
        assert_eq!(b.note(50, CHUNK), Noted::Known);
        assert_eq!(b.open_slots(), 98);
        assert_eq!(taken(&b), [(3, 98)]);
        assert!(taken(&b).is_empty());
    }

    #[test]
    fn a_range_ends_at_its_chunk() {
        let b = RangeBuffer::new();
        let _ = b.note(CHUNK - 1, CHUNK);
        assert_eq!(b.note(CHUNK, CHUNK), Noted::Closed(1));
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
        assert_eq!(
            b.note(MAX_RANGE_SLOTS, chunk),
            Noted::Closed(MAX_RANGE_SLOTS)
        );
    }

    #[test]
    fn last_slot_of_all_does_not_wrap() {
        let b = RangeBuffer::new();
        let _ = b.note(u32::MAX, CHUNK);
        assert_eq!(b.note(0, CHUNK), Noted::Closed(1));
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
