// SPDX-License-Identifier: GPL-2.0

//! The guard of one slot and its content: the only reader of word and value.
//!
//! A [`SlotGuard`] is held inside a non-preemptible section, for a few microseconds: long enough to
//! copy or decompress one page, never across compression, allocation or I/O. So whoever spins for
//! a slot spins for a running holder. What a guard leaves dead behind it frees after the section.
//!
//! # Who may run with whom
//!
//! See `slot_word.rs`: this file adds only what the bits mean.

use super::{
    live::Live,
    slot_word::{
        Held,
        Kind,
        Mark,
        Settled,
        SlotCell,
        SlotWord,
        Stored, //
    },
    stats::Counter,
    word::{
        Undecodable,
        LOCK_BIT, //
    },
};
use crate::{
    kapi::{
        bitlock,
        num::{saturating_u32, u32_to_usize, usize_to_u64, PAGE_SIZE},
        preempt::Section, //
    },
    zsmalloc::{HoldsOwner, ObjectId}, //
};

/// Stored length of a raw page.
const PAGE_BYTES: u32 = saturating_u32(usize_to_u64(PAGE_SIZE));

/// What a slot holds, decoded.
#[derive(Clone, Copy)]
pub(crate) enum SlotContent {
    /// Nothing: reads as zeroes.
    Empty,
    /// One machine word, repeated.
    Fill(u64),
    /// A compressed object.
    Object {
        /// Its place.
        id: ObjectId,
        /// Its length in bytes.
        len: usize,
        /// Priority of the codec that made it.
        priority: u8,
    },
    /// A page as it is.
    Raw {
        /// Its place.
        id: ObjectId,
    },
    /// A block of the backing device.
    Block {
        /// Its number.
        number: u64,
        /// The object that was written back, unless it was raw.
        object: Option<WrittenBack>,
    },
}

/// What is known of an object that was written back.
#[derive(Clone, Copy)]
pub(crate) struct WrittenBack {
    /// Its length in bytes.
    pub(crate) len: usize,
    /// Priority of the codec that made it.
    pub(crate) priority: u8,
}

impl SlotContent {
    /// Returns the meaning of a word and its value.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] for a pattern that this driver never writes.
    pub(crate) fn decode(stored: &Stored) -> Result<Self, Undecodable> {
        let word = stored.word;
        match word.kind()? {
            Kind::Empty => Ok(Self::Empty),
            Kind::Fill => Ok(Self::Fill(stored.value)),
            Kind::Object => Ok(Self::Object {
                id: ObjectId::from_bits(stored.value),
                len: u32_to_usize(word.size_bytes()),
                priority: word.priority(),
            }),
            Kind::Raw => Ok(Self::Raw {
                id: ObjectId::from_bits(stored.value),
            }),
            Kind::Block => Ok(Self::Block {
                number: stored.value,
                object: (!word.has(Mark::WasRaw)).then(|| WrittenBack {
                    len: u32_to_usize(word.size_bytes()),
                    priority: word.priority(),
                }),
            }),
        }
    }

    /// Returns the word and value that mean this, stamped with an access time.
    pub(crate) fn encode(&self, seconds: u32) -> Stored {
        let (kind, size, priority, value) = match *self {
            Self::Empty => return Stored::NOTHING,
            Self::Fill(pattern) => (Kind::Fill, 0, 0, pattern),
            Self::Object { id, len, priority } => {
                let len = saturating_u32(usize_to_u64(len));
                (Kind::Object, len, priority, id.to_bits())
            }
            Self::Raw { id } => (Kind::Raw, PAGE_BYTES, 0, id.to_bits()),
            Self::Block { number, object } => {
                let word = match object {
                    Some(WrittenBack { len, priority }) => {
                        let len = saturating_u32(usize_to_u64(len));
                        SlotWord::new(Kind::Object, len, priority, seconds)
                    }
                    None => SlotWord::new(Kind::Raw, PAGE_BYTES, 0, seconds),
                };
                return Stored {
                    word: word.written_back(),
                    value: number,
                };
            }
        };
        Stored {
            word: SlotWord::new(kind, size, priority, seconds),
            value,
        }
    }
}

/// A held slot.
///
/// # Invariants
///
/// `held` is `Some` until the guard is used up by one of the methods that take it, or its drop.
pub(crate) struct SlotGuard<'a> {
    live: &'a Live,
    cell: &'a SlotCell,
    held: Option<Held>,
    section: Option<Section>,
}

impl HoldsOwner for SlotGuard<'_> {}

impl<'a> SlotGuard<'a> {
    /// Takes a slot, spinning for at most a holder's few microseconds.
    ///
    /// # Context
    ///
    /// Enters a non-preemptible section until the guard goes. Takes the slot's lock.
    pub(crate) fn lock(live: &'a Live, cell: &'a SlotCell) -> Self {
        let section = Some(Section::enter());
        bitlock::note_acquire(false);
        let held = cell.lock(|word| bitlock::wait(word, LOCK_BIT));
        Self::new(live, cell, held, section)
    }

    /// Every holder of a dead slot ends its death one way or other, so it is counted here.
    fn new(live: &'a Live, cell: &'a SlotCell, held: Held, section: Option<Section>) -> Self {
        if held.has_dead() {
            live.stats.add(Counter::NotifiedPages, 1);
        }
        Self {
            live,
            cell,
            held: Some(held),
            section,
        }
    }

    /// Takes a slot if it is free. For drains, which never wait.
    ///
    /// # Context
    ///
    /// As [`SlotGuard::lock`].
    pub(crate) fn try_lock(live: &'a Live, cell: &'a SlotCell) -> Option<Self> {
        Self::try_with(live, cell, Some(Section::enter()))
    }

    /// Takes a slot if it is free, in a context that is not preemptible anyway. For notify.
    ///
    /// # Context
    ///
    /// Atomic, interrupts possibly off.
    pub(super) fn try_lock_atomic(live: &'a Live, cell: &'a SlotCell) -> Option<Self> {
        Self::try_with(live, cell, None)
    }

    fn try_with(live: &'a Live, cell: &'a SlotCell, section: Option<Section>) -> Option<Self> {
        let held = cell.try_lock()?;
        bitlock::note_acquire(true);
        Some(Self::new(live, cell, held, section))
    }

    /// Takes the hold out of the guard, to end it by one operation on the cell.
    fn take_held(&mut self) -> Option<Held> {
        let held = self.held.take()?;
        bitlock::note_release();
        Some(held)
    }

    /// Ends what ending the hold began: wakes, and leaves the section.
    fn left(&mut self) {
        bitlock::after_unlock(self.cell.word(), LOCK_BIT);
        drop(self.section.take());
    }

    /// Returns what the slot holds; nothing if it is dead.
    ///
    /// # Errors
    ///
    /// [`Undecodable`] if the slot is damaged.
    pub(crate) fn content(&self) -> Result<SlotContent, Undecodable> {
        SlotContent::decode(&self.stored())
    }

    /// Returns word and value as they are; nothing if the slot is dead.
    pub(crate) fn stored(&self) -> Stored {
        self.held
            .as_ref()
            .map_or(Stored::NOTHING, |held| self.cell.live(held))
    }

    /// Leaves the slot as used at `seconds`: not idle, no longer chosen by a pass.
    ///
    /// # Context
    ///
    /// Leaves the section; may free a dead object (class lock).
    pub(crate) fn touch(mut self, seconds: u32) {
        let word = self
            .stored()
            .word
            .with_accessed_seconds(seconds)
            .without(Mark::Idle)
            .without(Mark::Selected);
        self.leave(Some(word));
    }

    /// Replaces the content and frees the old one.
    ///
    /// The new content is accounted before it is visible, the old one after it is freed, so that
    /// no counter can be seen below zero because of this slot.
    ///
    /// # Context
    ///
    /// Leaves the section; frees the old object (class lock).
    pub(crate) fn replace(mut self, new: SlotContent, seconds: u32) {
        let new = new.encode(seconds);
        let Some(held) = self.take_held() else {
            return;
        };
        self.live.stats.stored(&new);
        let old = self.cell.replace(held, new);
        self.left();
        self.live.free(&old);
    }

    /// Leaves the slot with other marks; its content and its access time stay.
    ///
    /// # Context
    ///
    /// Leaves the section; may free a dead object (class lock).
    pub(crate) fn mark(mut self, change: impl FnOnce(SlotWord) -> SlotWord) {
        let word = change(self.stored().word);
        self.leave(Some(word));
    }

    /// Gives the slot's data another form, which no mark is known of, and frees the old one.
    ///
    /// The access time stays: whoever does this is no user of the data. If the data is dead, `new`
    /// is freed instead.
    ///
    /// # Context
    ///
    /// Leaves the section; frees an object or two (class lock).
    pub(crate) fn exchange(self, new: SlotContent) {
        let new = new.encode(self.stored().word.accessed_seconds());
        self.exchange_stored(new);
    }

    /// Has the slot refer to the block that its data was written to, and frees the object.
    ///
    /// All that is known of the data stays but for idleness. If the data is dead, the block is freed.
    ///
    /// # Context
    ///
    /// As [`SlotGuard::exchange`].
    pub(crate) fn write_back(self, number: u64) {
        let new = Stored {
            word: self.stored().word.written_back(),
            value: number,
        };
        self.exchange_stored(new);
    }

    fn exchange_stored(mut self, new: Stored) {
        let Some(held) = self.take_held() else {
            return;
        };
        self.live.stats.stored(&new);
        let ended = self.cell.exchange(held, new);
        self.left();
        match ended {
            Ok(old) => self.live.free(&old),
            Err(settled) => {
                self.live.free(&new);
                if let Settled::Dead(dead) = settled {
                    self.live.free_notified(&dead);
                }
            }
        }
    }

    /// Leaves the slot and returns its content if that is dead, for the caller to free and account.
    ///
    /// # Context
    ///
    /// Leaves the section.
    pub(super) fn into_dead(mut self) -> Option<Stored> {
        let settled = self.cell.release_unchanged(self.take_held()?);
        self.left();
        match settled {
            Settled::Kept => None,
            Settled::Dead(dead) => Some(dead),
        }
    }

    fn leave(&mut self, word: Option<SlotWord>) {
        let Some(held) = self.take_held() else {
            return;
        };
        let settled = match word {
            Some(word) => self.cell.release(held, word),
            None => self.cell.release_unchanged(held),
        };
        self.left();
        if let Settled::Dead(dead) = settled {
            self.live.free_notified(&dead);
        }
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
