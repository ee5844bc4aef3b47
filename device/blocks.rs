// SPDX-License-Identifier: GPL-2.0

//! The blocks of a backing device: which are taken, and which are being read.
//!
//! Pure: needs `core` and the atomic facade only.
//!
//! # Protocol
//!
//! | who        | does                                | while                               |
//! |------------|-------------------------------------|-------------------------------------|
//! | writeback  | [`BlockMap::reserve`]               | it looks for a place                |
//! | reader     | [`BlockMap::begin_read`]            | it holds the slot that has the block|
//! | reader     | [`BlockMap::end_read`]              | the block has been read: interrupts |
//! | whoever frees | [`BlockMap::release`]            | no slot has the block any more      |
//!
//! A block that is freed while it is being read must not be given to another slot before the read
//! has ended: the reader would get that slot's data. So reads are counted, by half a group, that is
//! 32 blocks, in the same word in which freed blocks wait. Whoever ends the last read of a half
//! frees what waits there, in one exchange. A block so waits for reads beside it too, which costs
//! nothing but time; in return the count takes two bits a block.
//!
//! # Who may run with whom
//!
//! Everybody with everybody, in any context; nothing waits. That a block is released once, and not
//! read after its release began, is the slot lock's doing.

use crate::kapi::atomic::AtomicU64;
use core::ops::Deref;

/// Blocks in a group: the bits of a word.
const GROUP_BLOCKS: u64 = 64;
/// Blocks in a half: the bits that freed blocks have beside the count of reads.
const HALF_BLOCKS: u64 = 32;
/// One read, in the upper half of the word.
const READ: u64 = 1 << HALF_BLOCKS;
/// The blocks that wait, in the lower half.
const WAITING: u64 = READ - 1;

/// The state of 64 blocks.
pub(crate) struct Group {
    taken: AtomicU64,
    /// Reads that are under way, and freed blocks that wait for their end: one word a half.
    reads: [AtomicU64; 2],
}

impl Group {
    /// Returns a group whose blocks are all free.
    pub(crate) fn new() -> Self {
        Self {
            taken: AtomicU64::new(0),
            reads: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }
}

/// Where a block is.
struct Place<'a> {
    group: &'a Group,
    reads: &'a AtomicU64,
    /// Which half of the group.
    half: u64,
    /// Which block of the half.
    bit: u64,
}

/// All blocks of a device.
pub(crate) struct BlockMap<G> {
    groups: G,
    blocks: u64,
    /// The group where the last free block was found: the next search begins there.
    hint: AtomicU64,
}

/// Returns how many groups `blocks` blocks need.
pub(crate) fn groups_for(blocks: u64) -> u64 {
    blocks.div_ceil(GROUP_BLOCKS)
}

/// Returns a number as an index; one that is too large is none of a group's.
fn at(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl<G: Deref<Target = [Group]>> BlockMap<G> {
    /// Returns a map of `blocks` free blocks, or as many as `groups` has room for.
    pub(crate) fn new(groups: G, blocks: u64) -> Self {
        let room = u64::try_from(groups.len()).unwrap_or(u64::MAX);
        Self {
            blocks: blocks.min(room.saturating_mul(GROUP_BLOCKS)),
            groups,
            hint: AtomicU64::new(0),
        }
    }

    fn place(&self, block: u64) -> Option<Place<'_>> {
        if block >= self.blocks {
            return None;
        }
        let group = self.groups.get(at(block / GROUP_BLOCKS))?;
        let half = block % GROUP_BLOCKS / HALF_BLOCKS;
        Some(Place {
            group,
            reads: group.reads.get(at(half))?,
            half,
            bit: 1 << (block % HALF_BLOCKS),
        })
    }

    /// Returns the blocks of a group that the device has, as bits.
    fn existing(&self, group: u64) -> u64 {
        match self
            .blocks
            .saturating_sub(group.saturating_mul(GROUP_BLOCKS))
        {
            left @ 0..GROUP_BLOCKS => !(u64::MAX << left),
            _ => u64::MAX,
        }
    }

    /// Takes a free block; nothing if there is none.
    ///
    /// The search goes on where the last one ended, so that its cost does not grow with what is
    /// taken.
    pub(crate) fn reserve(&self) -> Option<u64> {
        let count = groups_for(self.blocks);
        let start = self.hint.load_relaxed();
        for number in Iterator::chain(start..count, 0..start.min(count)) {
            let group = self.groups.get(at(number))?;
            loop {
                let taken = group.taken.load_relaxed();
                let free = !taken & self.existing(number);
                if free == 0 {
                    break;
                }
                let bit = free & free.wrapping_neg();
                // ORDERING: acquire pairs with the release of `Place::free`: the last read of the
                // block ended before.
                if group.taken.fetch_or_acquire(bit) & bit == 0 {
                    self.hint.store_relaxed(number);
                    let within = u64::from(bit.trailing_zeros());
                    return Some(number.saturating_mul(GROUP_BLOCKS).saturating_add(within));
                }
            }
        }
        None
    }

    /// Notes that a block is about to be read. The caller holds the slot that has it.
    pub(crate) fn begin_read(&self, block: u64) {
        if let Some(place) = self.place(block) {
            // ORDERING: relaxed: who releases the block held the slot later, so sees the count.
            place.reads.fetch_add_relaxed(READ);
        }
    }

    /// Notes that a block has been read, and frees what waited for that.
    pub(crate) fn end_read(&self, block: u64) {
        let Some(place) = self.place(block) else {
            return;
        };
        let mut old = place.reads.load_relaxed();
        loop {
            let left = (old & !WAITING).saturating_sub(READ);
            let new = if left == 0 { 0 } else { left | (old & WAITING) };
            // ORDERING: full: every read of the half ended before the last one frees a block.
            match place.reads.cmpxchg_full(old, new) {
                Ok(_) if left == 0 => return place.free(old & WAITING),
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Gives a block back: at once, or when the reads beside it have ended.
    pub(crate) fn release(&self, block: u64) {
        let Some(place) = self.place(block) else {
            return;
        };
        // ORDERING: acquire pairs with the exchange of `end_read`: a count of zero says that the
        // block's reads are over.
        let mut old = place.reads.load_acquire();
        while old & !WAITING != 0 {
            // ORDERING: full, as in `end_read`: whoever takes the bit comes after this release.
            match place.reads.cmpxchg_full(old, old | place.bit) {
                Ok(_) => return,
                // ORDERING: acquire, as above: a failed exchange orders nothing.
                Err(_) => old = place.reads.load_acquire(),
            }
        }
        place.free(place.bit);
    }
}

impl Place<'_> {
    /// Makes blocks of the half free for all.
    fn free(&self, bits: u64) {
        if bits != 0 {
            let shift = self.half.saturating_mul(HALF_BLOCKS);
            // ORDERING: release pairs with the acquire of `reserve`.
            self.group.taken.fetch_and_release(!(bits << shift));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn map(blocks: u64) -> BlockMap<Vec<Group>> {
        let groups = (0..groups_for(blocks)).map(|_| Group::new());
        BlockMap::new(groups.collect(), blocks)
    }

    #[test]
    fn every_block_is_given_once_and_none_beyond_the_end() {
        for blocks in [0, 1, 31, 32, 33, 63, 64, 65, 200] {
            let map = map(blocks);
            let mut found: Vec<_> = std::iter::from_fn(|| map.reserve()).collect();
            found.sort_unstable();
            assert_eq!(found, (0..blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_block_that_is_read_waits_for_the_last_reader() {
        let map = map(64);
        for _ in 0..64 {
            map.reserve().unwrap();
        }
        map.begin_read(40);
        map.begin_read(40);
        map.release(40);
        map.release(3);
        assert_eq!(map.reserve(), Some(3));
        map.end_read(40);
        assert_eq!(map.reserve(), None);
        map.end_read(40);
        assert_eq!(map.reserve(), Some(40));
    }

    #[test]
    fn strangers_change_nothing() {
        let map = map(1);
        map.release(1);
        map.end_read(5);
        map.begin_read(u64::MAX);
        assert_eq!((map.reserve(), map.reserve()), (Some(0), None));
    }
}
