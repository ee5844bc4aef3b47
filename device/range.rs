// SPDX-License-Identifier: GPL-2.0

//! Ranges: how notify tells the drain which slots are worth a look, one word for up to 512 of them.
//!
//! Pure: needs `core` and the atomic facade only.
//!
//! A range is a hint. The pending bit in the slot word is the truth, so a range taken twice or
//! naming slots that live is harmless, and only a *lost* range would be a fault. So a range is made
//! of whole groups of [`GROUP_SLOTS`], and the first slot of a group notes the others too: they find
//! themselves named already, which costs them one read.
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
//! * a slot that the open range names is noted. Its pending bit was set, by a full operation, before
//!   the range was looked at; whoever takes the range does so by one, and looks at the bits after.
//!   So one of the two sees what the other did;
//! * the open range grows, or gives way to a new one, by compare-and-exchange; who replaces it owns
//!   the old one and puts it in the ring;
//! * a ring place goes from 0 to a range by compare-and-exchange, and back to 0 by swap: whoever
//!   swaps out a range owns it;
//! * with the ring full the range is handed back to the caller, who marks its chunk.

use crate::kapi::atomic::{after_full, smp_mb, AtomicBool, AtomicU64};

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

/// Slots in a group: what notify names with one exchange. Two cache lines of slots, so that looking
/// at all of them for one that is pending costs the drain next to nothing.
#[cfg(not(loom))]
pub(crate) const GROUP_SLOTS: u32 = 8;
/// See above.
#[cfg(loom)]
pub(crate) const GROUP_SLOTS: u32 = 2;

const _: () = assert!(RING_RANGES.is_power_of_two());
const _: () = assert!(GROUP_SLOTS.is_power_of_two() && MAX_RANGE_SLOTS % GROUP_SLOTS == 0);

/// Adjacent slots that may be pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// First slot.
    pub(crate) first: u32,
    /// Number of slots, 1 to [`MAX_RANGE_SLOTS`]. The last ones may be past the device's end.
    pub(crate) slots: u32,
}

impl Range {
    /// Returns the group of a slot.
    const fn group(slot: u32) -> Self {
        Self {
            first: slot & !GROUP_SLOTS.wrapping_sub(1),
            slots: GROUP_SLOTS,
        }
    }

    const fn has(self, slot: u32) -> bool {
        slot.wrapping_sub(self.first) < self.slots
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

    /// Returns the range grown by the group of a slot, if that follows it within its chunk.
    ///
    /// `chunk_slots` is a power of two. A range never crosses a chunk, so that a chunk's mark
    /// stands for every range that could not be kept.
    fn grown(self, group: Self, chunk_slots: u32) -> Option<Self> {
        let starts_chunk = group.first & chunk_slots.wrapping_sub(1) == 0;
        let follows = group.first.wrapping_sub(self.first) == self.slots;
        if !follows || self.slots >= MAX_RANGE_SLOTS || starts_chunk {
            return None;
        }
        Some(Self {
            first: self.first,
            slots: self.slots.saturating_add(group.slots),
        })
    }
}

/// What [`RangeBuffer::note`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// The open range names the slot already, or was grown to.
    Known,
    /// The slot opened the first range since the last take: a flush must be due.
    Opened,
    /// The slot opened a range and the one before went into the ring: there is work.
    Closed,
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

    /// Notes that `slot` is pending. The caller has set its pending bit, by a full operation.
    ///
    /// `chunk_slots` is a multiple of [`GROUP_SLOTS`].
    ///
    /// # Context
    ///
    /// Any, interrupts off included. One read for a slot near the last one, one exchange for a group.
    #[inline]
    pub(crate) fn note(&self, slot: u32, chunk_slots: u32) -> Noted {
        // ORDERING: full, between the caller's operation on the slot and the read; pairs with the
        // one of `take_from`. If a taker's swap comes after this read, it finds the slot pending.
        after_full();
        let old = self.open.load_relaxed();
        match Range::unpack(old) {
            Some(open) if open.has(slot) => Noted::Known,
            _ => self.note_group(old, slot, chunk_slots),
        }
    }

    fn note_group(&self, mut old: u64, slot: u32, chunk_slots: u32) -> Noted {
        let group = Range::group(slot);
        loop {
            let open = Range::unpack(old);
            if open.is_some_and(|open| open.has(slot)) {
                return Noted::Known;
            }
            let grown = open.and_then(|open| open.grown(group, chunk_slots));
            // ORDERING: full. Pairs with the swap of `take_open`: whoever takes the range also sees
            // the pending bits that were set before it was noted.
            match self.open.cmpxchg_full(old, grown.unwrap_or(group).pack()) {
                // ORDERING: a failed exchange is a read as in `note`.
                Err(now) => old = now,
                Ok(_) if grown.is_some() => return Noted::Known,
                Ok(_) => return open.map_or(Noted::Opened, |range| self.close(range)),
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
                return Noted::Closed;
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
        // ORDERING: full, pairs with the exchanges of `note_group` and `close`, and with the read of
        // `note`.
        let taken = place.swap_full(0);
        after_full();
        Range::unpack(taken)
    }

    /// Returns whether the ring holds a range.
    pub(crate) fn has_closed(&self) -> bool {
        self.ring.0.iter().any(|place| place.load_relaxed() != 0)
    }

    /// Returns how many slots all ranges name just now, which is no less than are noted.
    pub(crate) fn slots(&self) -> u64 {
        let words = Iterator::chain(core::iter::once(&self.open), &self.ring.0);
        let ranges = words.filter_map(|word| Range::unpack(word.load_relaxed()));
        ranges.map(|range| u64::from(range.slots)).sum()
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
    fn neighbors_make_one_range() {
        let b = RangeBuffer::new();
        assert_eq!(b.note(3, CHUNK), Noted::Opened);
        for slot in 4..=100 {
            assert_eq!(b.note(slot, CHUNK), Noted::Known);
        }
        assert_eq!(b.note(0, CHUNK), Noted::Known);
        assert_eq!(b.slots(), 104);
        assert_eq!(taken(&b), [(0, 104)]);
        assert!(taken(&b).is_empty() && b.slots() == 0);
    }

    #[test]
    fn a_range_ends_at_its_chunk() {
        let b = RangeBuffer::new();
        let _ = b.note(CHUNK - 1, CHUNK);
        assert_eq!(b.note(CHUNK, CHUNK), Noted::Closed);
        assert_eq!(taken(&b), [(CHUNK - 8, 8), (CHUNK, 8)]);
    }

    #[test]
    fn a_range_ends_at_its_longest() {
        let b = RangeBuffer::new();
        let chunk = 4 * MAX_RANGE_SLOTS;
        let _ = b.note(0, chunk);
        for slot in 1..MAX_RANGE_SLOTS {
            assert_eq!(b.note(slot, chunk), Noted::Known);
        }
        assert_eq!(b.note(MAX_RANGE_SLOTS, chunk), Noted::Closed);
        assert_eq!(b.slots(), u64::from(MAX_RANGE_SLOTS) + 8);
    }

    #[test]
    fn last_slot_of_all_does_not_wrap() {
        let b = RangeBuffer::new();
        let _ = b.note(u32::MAX, CHUNK);
        assert_eq!(b.note(u32::MAX - 7, CHUNK), Noted::Known);
        assert_eq!(b.note(0, CHUNK), Noted::Closed);
        assert_eq!(taken(&b), [(u32::MAX - 7, 8), (0, 8)]);
    }

    #[test]
    fn a_full_ring_hands_the_range_back() {
        let b = RangeBuffer::new();
        let mut given = Vec::new();
        for i in 0..=(RING_RANGES as u32 + 1) {
            if let Noted::Overflow(r) = b.note(i * 16, CHUNK) {
                given.push((r.first, r.slots));
            }
        }
        assert_eq!(given.len(), 1);
        given.extend(taken(&b));
        given.sort_unstable();
        let want: Vec<_> = (0..=(RING_RANGES as u32 + 1))
            .map(|i| (i * 16, 8))
            .collect();
        assert_eq!(given, want);
    }
}
