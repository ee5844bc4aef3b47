// SPDX-License-Identifier: GPL-2.0

//! The slot word: one atomic word and one value for each page of the disk, and the protocol on it.
//!
//! Pure: needs `core` and the atomic facade only, so the host crate tests and model-checks it as is.
//!
//! ```text
//!  63            32 31  29 28        12 11 10 9 8 7 6 5 4  2  1 0
//! +----------------+------+------------+-----+-+-+-+-+-+----+-+-+
//! |  access time   |tried | size bytes | pri |H|S|-|N|I|kind|P|L|
//! +----------------+------+------------+-----+-+-+-+-+-+----+-+-+
//!  L lock  P free pending  I idle  N incompressible  S selected  H held raw before
//!  tried: one bit for each secondary codec that made nothing smaller of this content
//! ```
//!
//! # Protocol
//!
//! The value belongs to whoever holds L. It is a relaxed atomic: taking L acquires what the last
//! holder released, so the order of the two words follows from the lock alone.
//!
//! | who           | may set P | may set L | may change the rest            | honors P              |
//! |---------------|-----------|-----------|--------------------------------|-----------------------|
//! | notify        | always    | try       | only after it got L            | if it got L           |
//! | reader        | no        | spin      | time, idle and selected marks  | at lock and at unlock |
//! | writer        | no        | spin      | everything, in one step        | by replacing          |
//! | recompression | no        | spin      | as a writer; the data stays    | at lock and at unlock |
//! | drain         | no        | try       | to `Empty`                     | yes                   |
//! | compaction    | no        | try       | value only                     | leaves a hint         |
//!
//! * While L is held nobody but notify changes the word, and notify only sets P. So a failed
//!   exchange in `release` means exactly one thing: P appeared.
//! * P is the truth: from the moment it is set the slot reads as zeroes. It is never lost: L is only
//!   ever dropped by an exchange that saw P clear, or that empties the slot, or that replaces its
//!   content. So every holder that leaves content behind has seen P clear at that very moment.
//!   Compaction alone drops L with P set, learns of it by the same operation, and leaves a hint.
//! * A writer that meets P replaces content that is dead anyway: the old object is freed by the
//!   writer, P goes with it, and a drain that comes later finds nothing to do.

use crate::kapi::atomic::AtomicU64;

/// Number of the lock bit.
pub(crate) const LOCK_BIT: u32 = 0;
/// Lock bit: its holder owns the value and, but for P, the word.
const LOCK: u64 = 1 << LOCK_BIT;
/// Free-pending bit: the content is dead and waits for someone to free it.
const PENDING: u64 = 1 << 1;
const KIND_SHIFT: u32 = 2;
const KIND_MASK: u64 = 0b111;
const PRIORITY_SHIFT: u32 = 10;
const PRIORITY_MASK: u64 = 0b11;
const SIZE_SHIFT: u32 = 12;
const SIZE_MASK: u64 = (1 << 17) - 1;
/// Where the tried bit of priority 0 would be: those of 1 to 3 are the three below the time.
const TRIED_SHIFT: u32 = 28;
const TIME_SHIFT: u32 = 32;

// The largest size is one page, of 64 KiB at most.
const _: () = assert!(1 << 16 <= SIZE_MASK);
const _: () = assert!(SIZE_MASK << SIZE_SHIFT < 2 << TRIED_SHIFT);

/// A mark on a slot: one bit each, independent of the content's kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Mark {
    /// Not touched since the last idle pass.
    Idle = 1 << 5,
    /// No codec makes it smaller.
    Incompressible = 1 << 6,
    /// Chosen by a post-processing pass; any access takes the mark away.
    Selected = 1 << 8,
    /// A block whose page was stored raw before it was written back.
    WasRaw = 1 << 9,
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing: reads as zeroes.
    Empty = 0,
    /// One repeated pattern; the value is the pattern.
    Fill = 1,
    /// A compressed object; the value is its id.
    Object = 2,
    /// An object that holds the page as it is; the value is its id.
    Raw = 3,
    /// A block of the backing device; the value is its number.
    Block = 4,
}

/// A bit pattern that no [`Kind`] names: the slot is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Undecodable;

/// A copy of a slot word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotWord(u64);

impl SlotWord {
    /// An unlocked slot that holds nothing. A zeroed table is a table of these.
    pub(crate) const EMPTY: Self = Self(0);

    /// Returns a word for fresh content: unlocked, no marks.
    ///
    /// `size_bytes` is at most one page and `priority` at most 3; both are cut to fit.
    pub(crate) const fn new(kind: Kind, size_bytes: u32, priority: u8, seconds: u32) -> Self {
        // CAST: widening only; an enum discriminant and three unsigned fields.
        let (kind, size, priority, seconds) = (
            kind as u64,
            size_bytes as u64,
            priority as u64,
            seconds as u64,
        );
        Self(
            (kind << KIND_SHIFT)
                | ((size & SIZE_MASK) << SIZE_SHIFT)
                | ((priority & PRIORITY_MASK) << PRIORITY_SHIFT)
                | (seconds << TIME_SHIFT),
        )
    }

    /// Returns the word as bits.
    #[cfg(test)]
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns a word made of any bits.
    #[cfg(test)]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns whether somebody holds the slot.
    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Returns whether the content is dead and waits to be freed.
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// Returns what the slot holds.
    pub(crate) const fn kind(self) -> Result<Kind, Undecodable> {
        match (self.0 >> KIND_SHIFT) & KIND_MASK {
            0 => Ok(Kind::Empty),
            1 => Ok(Kind::Fill),
            2 => Ok(Kind::Object),
            3 => Ok(Kind::Raw),
            4 => Ok(Kind::Block),
            _ => Err(Undecodable),
        }
    }

    /// Returns whether the value is the id of an object in the pool.
    pub(crate) const fn has_object(self) -> bool {
        matches!(self.kind(), Ok(Kind::Object | Kind::Raw))
    }

    /// Returns the stored length in bytes.
    pub(crate) const fn size_bytes(self) -> u32 {
        // CAST: masked to 17 bits.
        ((self.0 >> SIZE_SHIFT) & SIZE_MASK) as u32
    }

    /// Returns the priority of the codec that made the object, 0 to 3.
    pub(crate) const fn priority(self) -> u8 {
        // CAST: masked to 2 bits.
        ((self.0 >> PRIORITY_SHIFT) & PRIORITY_MASK) as u8
    }

    /// Returns the time of the last access, in whole seconds since boot.
    pub(crate) const fn accessed_seconds(self) -> u32 {
        // CAST: the upper half of the word.
        (self.0 >> TIME_SHIFT) as u32
    }

    /// Returns the word with another time of last access.
    pub(crate) const fn with_accessed_seconds(self, seconds: u32) -> Self {
        // CAST: widening.
        let seconds = seconds as u64;
        Self((self.0 & ((1 << TIME_SHIFT) - 1)) | (seconds << TIME_SHIFT))
    }

    /// Returns whether `mark` is set.
    pub(crate) const fn has(self, mark: Mark) -> bool {
        // CAST: an enum discriminant that is one bit.
        self.0 & mark as u64 != 0
    }

    /// Returns the word with `mark` set.
    pub(crate) const fn with(self, mark: Mark) -> Self {
        // CAST: as in `has`.
        Self(self.0 | mark as u64)
    }

    /// Returns the word with `mark` clear.
    pub(crate) const fn without(self, mark: Mark) -> Self {
        // CAST: as in `has`.
        Self(self.0 & !(mark as u64))
    }

    const fn tried_bit(priority: u8) -> u64 {
        match priority {
            // CAST: widening.
            1..=3 => 1 << (TRIED_SHIFT + priority as u32),
            _ => 0,
        }
    }

    /// Returns whether the secondary codec of `priority` is known to gain nothing.
    pub(crate) const fn is_tried(self, priority: u8) -> bool {
        self.0 & Self::tried_bit(priority) != 0
    }

    /// Returns the word with it known that the secondary codec of `priority` gains nothing.
    pub(crate) const fn with_tried(self, priority: u8) -> Self {
        Self(self.0 | Self::tried_bit(priority))
    }

    const fn settled(self) -> Self {
        Self(self.0 & !(LOCK | PENDING))
    }
}

/// A slot's word and value as one holder of the lock saw them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// The word without lock and pending bit.
    pub(crate) word: SlotWord,
    /// Pattern, object id or block number, as the kind says.
    pub(crate) value: u64,
}

impl Stored {
    /// What an empty slot stores.
    pub(crate) const NOTHING: Self = Self {
        word: SlotWord::EMPTY,
        value: 0,
    };

    /// Returns whether there is nothing to free.
    pub(crate) fn is_empty(&self) -> bool {
        self.word.kind() == Ok(Kind::Empty)
    }
}

/// Proof that a cell's lock bit is held, with the word as its holder last saw it.
///
/// Neither `Copy` nor `Clone`: it is used up by exactly one of [`SlotCell::release`],
/// [`SlotCell::replace`], [`SlotCell::exchange`] and [`SlotCell::relocate`].
#[must_use = "a slot that is never released hangs every later access"]
#[derive(Debug)]
pub(crate) struct Held {
    /// The word in memory but for a P that may have appeared since; L is set in it.
    seen: u64,
}

impl Held {
    /// Returns whether the content was already dead when the lock was taken.
    pub(crate) fn is_pending(&self) -> bool {
        SlotWord(self.seen).is_pending()
    }

    /// Returns whether there is content that was dead when the lock was taken.
    pub(crate) fn has_dead(&self) -> bool {
        self.is_pending() && SlotWord(self.seen).kind() != Ok(Kind::Empty)
    }
}

/// How a hold ended.
#[must_use = "dead content must be freed"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// The content stays.
    Kept,
    /// P was met: the slot is empty now and the caller frees what it held.
    Dead(Stored),
}

/// How an attempt to move an object ended.
#[must_use = "a pending slot without a hint is never drained"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Relocation {
    /// The object has its new place.
    pub(crate) moved: bool,
    /// P is set and L was dropped nevertheless: the caller leaves a hint for the drain.
    pub(crate) needs_hint: bool,
}

/// One slot: 16 bytes.
#[repr(C)]
pub(crate) struct SlotCell {
    word: AtomicU64,
    /// Read and written with L held; ordered by L.
    value: AtomicU64,
}

impl SlotCell {
    /// Returns an empty, unlocked slot.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            value: AtomicU64::new(0),
        }
    }

    /// Returns an empty, unlocked slot.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            value: AtomicU64::new(0),
        }
    }

    /// Returns a copy of the word, with no claim that it still holds.
    ///
    /// # Context
    ///
    /// Any. Takes no lock.
    pub(crate) fn peek(&self) -> SlotWord {
        SlotWord(self.word.load_relaxed())
    }

    /// Takes the lock if it is free.
    ///
    /// # Context
    ///
    /// Any, but not preemptible from success to release.
    pub(crate) fn try_lock(&self) -> Option<Held> {
        let old = self.word.load_relaxed();
        if old & LOCK != 0 {
            return None;
        }
        self.try_lock_from(old)
    }

    fn try_lock_from(&self, old: u64) -> Option<Held> {
        let seen = old | LOCK;
        // ORDERING: acquire pairs with the release exchanges of `settle` and `replace` here, so
        // that the value and the object's bytes of the last holder are visible.
        match self.word.cmpxchg_acquire(old, seen) {
            Ok(_) => Some(Held { seen }),
            Err(_) => None,
        }
    }

    /// Takes the lock, calling `wait` for as long as somebody else has it.
    ///
    /// Holders never sleep and are never preempted, so the wait is a few microseconds. `wait` gets
    /// the word and returns when the lock bit was seen clear.
    ///
    /// # Context
    ///
    /// Not preemptible from here to release.
    pub(crate) fn lock(&self, wait: impl Fn(&AtomicU64)) -> Held {
        loop {
            let old = self.word.load_relaxed();
            if old & LOCK == 0 {
                if let Some(held) = self.try_lock_from(old) {
                    return held;
                }
            } else {
                wait(&self.word);
            }
        }
    }

    /// Returns the word, for waking those who wait for its lock bit.
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.word
    }

    /// Returns what the slot holds for a reader: nothing if it is dead.
    pub(crate) fn live(&self, held: &Held) -> Stored {
        if held.is_pending() {
            Stored::NOTHING
        } else {
            self.stored(held)
        }
    }

    fn stored(&self, held: &Held) -> Stored {
        Stored {
            word: SlotWord(held.seen).settled(),
            value: self.value.load_relaxed(),
        }
    }

    /// Drops the lock, leaving the content with `word` as its new word.
    ///
    /// `word` has the same kind and size as the held one; marks and time may differ. Returns what
    /// the caller must free: the dead content if P was set before or appears now.
    ///
    /// # Context
    ///
    /// Any. The caller frees after it left its non-preemptible section.
    pub(crate) fn release(&self, held: Held, word: SlotWord) -> Settled {
        if !held.is_pending() {
            // ORDERING: release pairs with the acquire of `try_lock_from`.
            match self.word.cmpxchg_release(held.seen, word.settled().0) {
                Ok(_) => return Settled::Kept,
                Err(now) => debug_assert_eq!(now, held.seen | PENDING),
            }
        }
        // P is set, and only a holder clears it: nothing else can change now.
        let dead = self.stored(&held);
        self.value.store_relaxed(0);
        // ORDERING: release pairs with the acquire of `try_lock_from`. A second notify that sets
        // P between the exchange above and this store loses nothing: what it means is freed here.
        self.word.store_release(SlotWord::EMPTY.0);
        if dead.is_empty() {
            Settled::Kept
        } else {
            Settled::Dead(dead)
        }
    }

    /// Drops the lock, leaving the slot as it was.
    ///
    /// # Context
    ///
    /// As [`SlotCell::release`].
    pub(crate) fn release_unchanged(&self, held: Held) -> Settled {
        let word = SlotWord(held.seen);
        self.release(held, word)
    }

    /// Replaces the content, drops the lock and returns what was there, for the caller to free.
    ///
    /// P, old or new, goes with the content it was meant for.
    ///
    /// # Context
    ///
    /// As [`SlotCell::release`].
    #[must_use = "the old content must be freed"]
    pub(crate) fn replace(&self, held: Held, new: Stored) -> Stored {
        let old = self.stored(&held);
        self.value.store_relaxed(new.value);
        // ORDERING: release pairs with the acquire of `try_lock_from`. A plain store: P set
        // meanwhile was meant for the old content, which the caller frees.
        self.word.store_release(new.word.settled().0);
        old
    }

    /// Gives the same data another form and drops the lock. `Ok` is the old form, to be freed.
    ///
    /// Unlike `replace`: P means the data, so it kills the new form with the old one.
    ///
    /// # Context
    ///
    /// As [`SlotCell::release`].
    ///
    /// # Errors
    ///
    /// P was set: `new` is not installed; what is returned was there and is freed like `new`.
    pub(crate) fn exchange(&self, held: Held, new: Stored) -> Result<Stored, Settled> {
        if !held.is_pending() {
            let old = self.stored(&held);
            self.value.store_relaxed(new.value);
            // ORDERING: release pairs with the acquire of `try_lock_from`; fails only if P appeared.
            match self.word.cmpxchg_release(held.seen, new.word.settled().0) {
                Ok(_) => return Ok(old),
                Err(_) => self.value.store_relaxed(old.value),
            }
        }
        Err(self.release_unchanged(held))
    }

    /// Gives the object another place, if `from` is still its place, and drops the lock.
    ///
    /// `place` copies the object and returns its new place; it is asked only then. For compaction,
    /// which holds a class lock and so cannot free: P stays set, and a hint must be left.
    ///
    /// # Context
    ///
    /// Any; takes no lock beyond the held one.
    pub(crate) fn relocate(
        &self,
        held: Held,
        from: u64,
        place: &mut dyn FnMut() -> u64,
    ) -> Relocation {
        let stored = self.live(&held);
        let moved = stored.word.has_object() && stored.value == from;
        if moved {
            self.value.store_relaxed(place());
        }
        // ORDERING: full; its release part pairs with the acquire of `try_lock_from`, and it tells
        // for certain whether P was set before L went.
        let needs_hint = SlotWord(self.word.fetch_and_full(!LOCK)).is_pending();
        Relocation { moved, needs_hint }
    }

    /// Marks the content dead. The one thing notify does in every mode.
    ///
    /// Returns whether the caller should try to free it or leave a hint: not if P was set already,
    /// nor if the slot was empty and free, nor if a holder is there who will meet P.
    ///
    /// # Context
    ///
    /// Any, interrupts off included. One atomic operation.
    pub(crate) fn mark_pending(&self) -> Marked {
        // ORDERING: full. Pairs with the exchange of `release`: either that exchange fails and the
        // holder frees, or L is seen clear here and the caller must act.
        let old = SlotWord(self.word.fetch_or_full(PENDING));
        if old.is_locked() {
            Marked::Held
        } else if old.is_pending() {
            Marked::Already
        } else {
            Marked::Free(old)
        }
    }
}

/// What [`SlotCell::mark_pending`] met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marked {
    /// The slot was free; the word before P.
    Free(SlotWord),
    /// A holder is there and frees the content when it leaves.
    Held,
    /// An earlier notify marked it; its hint still stands.
    Already,
}

impl Default for SlotCell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin(_: &AtomicU64) {
        std::thread::yield_now();
    }

    #[test]
    fn fields_round_trip_at_their_limits() {
        for size in [0, 1, 4095, 4096, 1 << 16] {
            for priority in 0..=3u8 {
                for time in [0, 1, u32::MAX] {
                    let w = SlotWord::new(Kind::Object, size, priority, time);
                    assert_eq!(w.size_bytes(), size);
                    assert_eq!(w.priority(), priority);
                    assert_eq!(w.accessed_seconds(), time);
                    assert_eq!(w.kind(), Ok(Kind::Object));
                    assert!(!w.is_locked() && !w.is_pending());
                }
            }
        }
    }

    #[test]
    fn unnamed_kinds_do_not_decode() {
        for bits in 5..8u64 {
            assert_eq!(SlotWord::from_bits(bits << 2).kind(), Err(Undecodable));
        }
    }

    #[test]
    fn pending_slot_reads_as_nothing_and_is_freed_by_its_reader() {
        let c = SlotCell::new();
        let stored = Stored {
            word: SlotWord::new(Kind::Object, 100, 0, 1),
            value: 7,
        };
        assert!(c.replace(c.lock(spin), stored).is_empty());
        assert_eq!(c.mark_pending(), Marked::Free(stored.word));
        assert_eq!(c.mark_pending(), Marked::Already);
        let held = c.lock(spin);
        assert_eq!(c.live(&held), Stored::NOTHING);
        assert_eq!(c.release_unchanged(held), Settled::Dead(stored));
        assert_eq!(c.peek(), SlotWord::EMPTY);
    }

    #[test]
    fn late_drain_leaves_new_data() {
        let c = SlotCell::new();
        let old = Stored {
            word: SlotWord::new(Kind::Object, 100, 0, 1),
            value: 7,
        };
        let new = Stored { value: 9, ..old };
        let _ = c.replace(c.lock(spin), old);
        let _ = c.mark_pending();
        assert_eq!(c.replace(c.lock(spin), new), old);
        let held = c.try_lock().unwrap();
        assert!(!held.is_pending());
        assert_eq!(c.release_unchanged(held), Settled::Kept);
        assert_eq!(c.live(&c.lock(spin)), new);
    }
}
