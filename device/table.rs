// SPDX-License-Identifier: GPL-2.0

//! The slot table: lazy, two levels, made on first write and kept until reset.
//!
//! ```text
//! root: one pointer for 131072 slots (512 MiB of 4 KiB pages)
//!   -> directory: 512 chunk pointers and their marks
//!        -> chunk: 256 slots of 16 bytes, one page
//! ```
//!
//! A device of 100 GiB has a root of 200 pointers and nothing else until it is written.
//!
//! # Who may run with whom
//!
//! Everybody with everybody. A level is published by one compare-and-exchange and never replaced
//! or freed while the table lives; the loser of a race frees its own copy. Look-ups take no lock
//! and allocate nothing, so they are allowed in atomic context. The table dies with its `Live`,
//! when no bio and no notify can be under way.
//!
//! # Marks
//!
//! One bit a chunk: "may hold pending slots that no range names". Set by notify when its ring is
//! full and by compaction, which may not free; taken by the drain, which then looks at every slot
//! of the chunk.

use super::slot_word::SlotCell;
use crate::kapi::{
    atomic::AtomicU64,
    gfp::NoIoScope,
    num::{u32_to_u64, u32_to_usize, usize_to_u64},
    once::PublishOnce, //
};
use crate::zsmalloc::OWNER_LIMIT;
use kernel::prelude::*;

/// Slots in a chunk: one 4 KiB page of them.
pub(crate) const CHUNK_SLOTS: u32 = 256;
/// The same, for arrays.
const CHUNK_CELLS: usize = u32_to_usize(CHUNK_SLOTS);
/// Chunks in a directory: one 4 KiB page of pointers.
const DIRECTORY_CHUNKS: usize = 512;
/// Slots that one directory covers.
const DIRECTORY_SLOTS: usize = CHUNK_CELLS * DIRECTORY_CHUNKS;
/// Words of marks in a directory.
const MARK_WORDS: usize = DIRECTORY_CHUNKS / 64;

/// Most slots a device may have: an owner in an object's header has 32 bits. Just under 16 TiB of
/// 4 KiB pages.
pub(crate) const MAX_SLOTS: u64 = u32_to_u64(OWNER_LIMIT);

const _: () = assert!(core::mem::size_of::<SlotCell>() == 16);

/// One page of slots.
struct Chunk {
    cells: [SlotCell; CHUNK_CELLS],
}

/// The chunks of 512 MiB and their marks.
struct Directory {
    chunks: [PublishOnce<Chunk>; DIRECTORY_CHUNKS],
    marks: [AtomicU64; MARK_WORDS],
}

/// All slots of a device.
///
/// # Invariants
///
/// `root` has one entry for each started run of [`DIRECTORY_SLOTS`] slots.
pub(crate) struct Table {
    root: KVVec<PublishOnce<Directory>>,
    slots: u32,
}

/// Where a slot is: directory, chunk in it, cell in that.
struct Place {
    directory: usize,
    chunk: usize,
    cell: usize,
}

impl Place {
    fn of(index: u32) -> Self {
        let index = u32_to_usize(index);
        Self {
            directory: index / DIRECTORY_SLOTS,
            chunk: index / CHUNK_CELLS % DIRECTORY_CHUNKS,
            cell: index % CHUNK_CELLS,
        }
    }
}

impl Table {
    /// Returns an empty table of `slots` slots.
    ///
    /// # Context
    ///
    /// May sleep; allocates the root, 8 bytes for 512 MiB of disk.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are more slots than an owner can name, `ENOMEM` if the root does not fit.
    pub(crate) fn new(slots: u64) -> Result<Self> {
        let slots = u32::try_from(slots).map_err(|_| EINVAL)?;
        if u64::from(slots) > MAX_SLOTS {
            return Err(EINVAL);
        }
        let directories = u32_to_usize(slots).div_ceil(DIRECTORY_SLOTS);
        let mut root = KVVec::with_capacity(directories, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..directories {
            root.push(PublishOnce::new(), GFP_KERNEL)?;
        }
        // INVARIANT: one entry was pushed for each started directory.
        Ok(Self { root, slots })
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    fn directory(&self, place: &Place) -> Option<&Directory> {
        self.root.get(place.directory)?.get()
    }

    fn chunk(&self, place: &Place) -> Option<&Chunk> {
        self.directory(place)?.chunks.get(place.chunk)?.get()
    }

    /// Returns slot `index`, if its chunk was ever written and it is within the device.
    ///
    /// # Context
    ///
    /// Any, interrupts off included.
    pub(crate) fn cell(&self, index: u32) -> Option<&SlotCell> {
        if index >= self.slots {
            return None;
        }
        let place = Place::of(index);
        self.chunk(&place)?.cells.get(place.cell)
    }

    /// Returns slot `index`, making its chunk if need be.
    ///
    /// # Context
    ///
    /// May sleep; allocates at most two pages without I/O. Neither a stream nor a slot is held.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` past the end of the device.
    pub(crate) fn cell_or_make(&self, index: u32) -> Result<&SlotCell> {
        if let Some(cell) = self.cell(index) {
            return Ok(cell);
        }
        if index >= self.slots {
            return Err(EINVAL);
        }
        let place = Place::of(index);
        let _scope = NoIoScope::enter();
        let directory = self
            .root
            .get(place.directory)
            .ok_or(EINVAL)?
            .get_or_make(|| {
                KBox::init(
                    init!(Directory {
                        chunks <- pin_init::init_array_from_fn(|_| PublishOnce::new()),
                        marks <- pin_init::init_array_from_fn(|_| AtomicU64::new(0)),
                    }? Error),
                    GFP_KERNEL | __GFP_NOWARN,
                )
            })?;
        let chunk = directory
            .chunks
            .get(place.chunk)
            .ok_or(EINVAL)?
            .get_or_make(|| {
                KBox::init(
                    init!(Chunk {
                        cells <- pin_init::init_array_from_fn(|_| SlotCell::new()),
                    }? Error),
                    GFP_KERNEL | __GFP_NOWARN,
                )
            })?;
        chunk.cells.get(place.cell).ok_or(EINVAL)
    }

    /// Calls `visit` for each slot from `first` on, `slots` of them at most, whose chunk exists.
    ///
    /// # Context
    ///
    /// Any; `visit` decides about the rest.
    pub(crate) fn for_each(&self, first: u32, slots: u32, visit: &mut dyn FnMut(u32, &SlotCell)) {
        let end = first.saturating_add(slots).min(self.slots);
        let mut index = first;
        while index < end {
            let place = Place::of(index);
            let left = CHUNK_CELLS.saturating_sub(place.cell);
            let cells = self.chunk(&place).map_or(&[][..], |chunk| &chunk.cells[..]);
            for cell in cells.iter().skip(place.cell) {
                if index >= end {
                    return;
                }
                visit(index, cell);
                index = index.saturating_add(1);
            }
            if cells.is_empty() {
                index = index.saturating_add(u32::try_from(left).unwrap_or(u32::MAX));
            }
        }
    }

    /// Returns the first slot of the next run at or after `index` that may have a chunk.
    ///
    /// Skips whole directories that were never made, so that walking an empty device is cheap.
    pub(crate) fn skip_absent(&self, index: u32) -> u32 {
        let place = Place::of(index);
        if self.directory(&place).is_some() {
            return index;
        }
        let next = place
            .directory
            .saturating_add(1)
            .saturating_mul(DIRECTORY_SLOTS);
        u32::try_from(next).unwrap_or(u32::MAX).min(self.slots)
    }

    /// Marks the chunk of slot `index` as holding pending slots that no range names.
    ///
    /// # Context
    ///
    /// Any, interrupts off included. One atomic operation.
    pub(crate) fn mark(&self, index: u32) {
        let place = Place::of(index);
        let Some(directory) = self.directory(&place) else {
            return;
        };
        if let Some(word) = directory.marks.get(place.chunk / 64) {
            // ORDERING: full; pairs with the swap of `take_marks`, which so sees the pending bit
            // that was set before the mark.
            word.fetch_or_full(1 << (place.chunk % 64));
        }
    }

    /// Takes all marks and calls `visit` with the first slot of each marked chunk.
    ///
    /// # Context
    ///
    /// Any; `visit` decides about the rest.
    pub(crate) fn take_marks(&self, visit: &mut dyn FnMut(u32)) {
        for (at, entry) in self.root.iter().enumerate() {
            let Some(directory) = entry.get() else {
                continue;
            };
            for (nth, word) in directory.marks.iter().enumerate() {
                if word.load_relaxed() == 0 {
                    continue;
                }
                // ORDERING: full; pairs with `mark`.
                let mut marks = word.swap_full(0);
                while marks != 0 {
                    let bit = u32_to_usize(marks.trailing_zeros());
                    marks &= marks.wrapping_sub(1);
                    let chunk = nth.wrapping_mul(64).wrapping_add(bit);
                    let first = at
                        .wrapping_mul(DIRECTORY_SLOTS)
                        .wrapping_add(chunk.wrapping_mul(CHUNK_CELLS));
                    visit(u32::try_from(first).unwrap_or(u32::MAX));
                }
            }
        }
    }

    /// Returns the bytes taken by the levels that exist, for reports.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        let mut bytes = core::mem::size_of::<PublishOnce<Directory>>() * self.root.len();
        for directory in self.root.iter().filter_map(|entry| entry.get()) {
            let chunks = directory
                .chunks
                .iter()
                .filter(|c| c.get().is_some())
                .count();
            bytes = bytes
                .saturating_add(core::mem::size_of::<Directory>())
                .saturating_add(chunks.saturating_mul(core::mem::size_of::<Chunk>()));
        }
        usize_to_u64(bytes)
    }
}
