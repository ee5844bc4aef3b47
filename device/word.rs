// SPDX-License-Identifier: GPL-2.0

//! The bits of a slot word, and what they and the slot's value mean.
//!
//! Pure: needs `core` only. Who may change which bit when is the protocol's, see `slot_word.rs`.
//!
//! ```text
//!  63            32 31  29 28        12 11 10 9 8 7 6 5 4  2  1 0
//! +----------------+------+------------+-----+-+-+-+-+-+----+-+-+
//! |  access time   |tried | size bytes | pri |H|S|-|N|I|kind|P|L|
//! +----------------+------+------------+-----+-+-+-+-+-+----+-+-+
//!  L lock  P free pending  I idle  N incompressible  S selected  H held raw before
//!  tried: one bit for each secondary codec that made nothing smaller of this content
//! ```

/// Number of the lock bit.
pub(crate) const LOCK_BIT: u32 = 0;
/// Lock bit: its holder owns the value and, but for P, the word.
pub(super) const LOCK: u64 = 1 << LOCK_BIT;
/// Free-pending bit: the content is dead and waits for someone to free it.
pub(super) const PENDING: u64 = 1 << 1;
const KIND_SHIFT: u32 = 2;
const KIND_MASK: u64 = 0b111;
const PRIORITY_SHIFT: u32 = 10;
const PRIORITY_MASK: u64 = 0b11;
const SIZE_SHIFT: u32 = 12;
const SIZE_MASK: u64 = (1 << 17) - 1;
/// Where the tried bit of priority 0 would be: those of 1 to 3 are the three below the time.
const TRIED_SHIFT: u32 = 28;
const TIME_SHIFT: u32 = 32;

/// Codec priorities: the primary and up to three secondaries.
pub(crate) const PRIORITIES: usize = 4;

// CAST: widening.
const _: () = assert!(PRIORITIES as u64 == PRIORITY_MASK + 1);
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
pub(crate) struct SlotWord(pub(super) u64);

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

    /// Returns the word for the same data in a block of the backing device.
    ///
    /// What is known of the data stays: length, codec, time, verdicts, and whether it was raw. It is
    /// not idle any more, and its turn in a pass is over.
    pub(crate) const fn written_back(self) -> Self {
        // CAST: an enum discriminant of three bits.
        let kind = (Kind::Block as u64) << KIND_SHIFT;
        let word = Self(self.0 & !(KIND_MASK << KIND_SHIFT) | kind)
            .without(Mark::Idle)
            .without(Mark::Selected);
        match self.kind() {
            Ok(Kind::Raw) => word.with(Mark::WasRaw),
            _ => word,
        }
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

    /// Returns the word without lock and pending bit.
    pub(super) const fn settled(self) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn writing_back_keeps_what_is_known_of_the_data() {
        let raw = SlotWord::new(Kind::Raw, 4096, 0, 77);
        let object = SlotWord::new(Kind::Object, 3000, 2, 78);
        for word in [raw, object] {
            let marked = word
                .with(Mark::Idle)
                .with(Mark::Selected)
                .with(Mark::Incompressible)
                .with_tried(3);
            let block = marked.written_back();
            assert_eq!(block.kind(), Ok(Kind::Block));
            assert_eq!(block.size_bytes(), word.size_bytes());
            assert_eq!(block.priority(), word.priority());
            assert_eq!(block.accessed_seconds(), word.accessed_seconds());
            assert_eq!(block.has(Mark::WasRaw), word == raw);
            assert!(block.has(Mark::Incompressible) && block.is_tried(3));
            assert!(!block.has(Mark::Idle) && !block.has(Mark::Selected));
            assert!(!block.has_object());
        }
    }

    #[test]
    fn unnamed_kinds_do_not_decode() {
        for bits in 5..8u64 {
            assert_eq!(SlotWord::from_bits(bits << 2).kind(), Err(Undecodable));
        }
    }
}
