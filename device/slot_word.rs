// SPDX-License-Identifier: GPL-2.0

//! The slot word: one atomic word and one value for each page of the disk, and the protocol on it.
//!
//! Pure: needs `core` and the atomic facade only, so the host crate tests and model-checks it as is.
//!
//! The word's bits and what they mean: `word.rs`, whose names are found here as well. L is the lock
//! bit, P the free-pending bit.
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

use super::word::{LOCK, PENDING};
use crate::kapi::atomic::AtomicU64;

pub(crate) use super::word::{
    Kind,
    Mark,
    SlotWord,
    Stored, //
};

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
