// SPDX-License-Identifier: GPL-2.0

//! Memory for direct I/O: pieces at chosen offsets in an area that is guarded all around.
//!
//! An [`Arena`] is page-aligned memory filled with a guard byte. A [`Layout`] places the pieces of
//! one request in it: at any multiple of 512 bytes, apart from each other or in one run. After a
//! read, every byte outside the pieces must still be the guard byte: a driver that ignores a
//! vector's offset or length is caught even if the data itself came out right.

use std::alloc;
use std::ops::Range;

use crate::pattern::PAGE_BYTES;
use crate::pattern::SECTOR_BYTES;
use crate::rng::Rng;

const GUARD: u8 = 0xc3;
/// The kernel takes at most this many vectors in one call.
const MOST_PIECES: usize = 1024;

/// How a request's bytes lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One piece.
    One,
    /// Page-sized pieces, apart from each other.
    Pages,
    /// The smallest pieces that fit one call: 512 bytes, 1024 for requests above 512 KiB.
    Small,
    /// Pieces of random lengths, apart from each other.
    Mixed,
}

/// Where the pieces of one request lie in an arena.
#[derive(Clone, Debug)]
pub struct Layout(Vec<Range<usize>>);

impl Layout {
    /// Places `bytes` bytes in pieces of `shape`, the first one `offset` bytes after a page border.
    ///
    /// With `aligned`, all pieces are whole pages at page borders instead, as C zram needs.
    pub fn new(shape: Shape, offset: usize, bytes: usize, aligned: bool, rng: &mut Rng) -> Self {
        let unit = if aligned { PAGE_BYTES } else { SECTOR_BYTES };
        let mut at = PAGE_BYTES + if aligned { 0 } else { offset };
        let mut left = bytes;
        let mut pieces = Vec::new();
        while left > 0 {
            let least = left
                .div_ceil(MOST_PIECES - pieces.len())
                .next_multiple_of(unit);
            let wanted = match shape {
                Shape::One => left,
                Shape::Pages => PAGE_BYTES,
                Shape::Small => unit,
                Shape::Mixed => unit * (1 + rng.below(24)),
            };
            let length = wanted.max(least).min(left);
            pieces.push(at..at + length);
            left -= length;
            at += length;
            at += match shape {
                Shape::One => 0,
                Shape::Pages | Shape::Small => unit,
                Shape::Mixed => unit * rng.below(10),
            };
        }
        Self(pieces)
    }

    /// Returns the arena bytes that the layout needs.
    pub fn arena_bytes(&self) -> usize {
        self.0.last().map_or(0, |piece| piece.end) + PAGE_BYTES
    }

    /// Returns the pieces in order.
    pub fn pieces(&self) -> &[Range<usize>] {
        &self.0
    }
}

/// Page-aligned memory.
pub struct Arena {
    start: *mut u8,
    layout: alloc::Layout,
}

impl Arena {
    /// Allocates `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let layout = alloc::Layout::from_size_align(bytes.max(PAGE_BYTES), PAGE_BYTES)
            .expect("an arena is far smaller than the address space");
        // SAFETY: The layout's size is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        if start.is_null() {
            alloc::handle_alloc_error(layout);
        }
        Self { start, layout }
    }

    /// Returns the whole area.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The area is allocated, initialized, and borrowed with the arena.
        unsafe { std::slice::from_raw_parts(self.start, self.layout.size()) }
    }

    /// Returns the whole area.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `bytes`, and the arena is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }

    /// Makes the area large enough for `layout` and fills all of it with the guard byte.
    pub fn guard(&mut self, layout: &Layout) {
        if self.layout.size() < layout.arena_bytes() {
            *self = Self::new(layout.arena_bytes());
        }
        self.bytes_mut().fill(GUARD);
    }

    /// Copies `data` into the pieces.
    pub fn scatter(&mut self, layout: &Layout, data: &[u8]) {
        let mut rest = data;
        for piece in layout.pieces() {
            let (now, later) = rest.split_at(piece.len());
            self.bytes_mut()[piece.clone()].copy_from_slice(now);
            rest = later;
        }
    }

    /// Returns the bytes of the pieces, joined.
    pub fn gather(&self, layout: &Layout) -> Vec<u8> {
        let pieces = layout
            .pieces()
            .iter()
            .map(|piece| &self.bytes()[piece.clone()]);
        pieces.flatten().copied().collect()
    }

    /// Checks that no byte outside the pieces changed since [`Arena::guard`].
    ///
    /// # Errors
    ///
    /// The message names the first byte that did, counted from the nearest piece before it.
    pub fn check_guards(&self, layout: &Layout) -> Result<(), String> {
        let mut start = 0;
        let ends = layout.pieces().iter().map(|piece| (piece.start, piece.end));
        for (gap_end, next) in ends.chain([(self.layout.size(), 0)]) {
            let gap = &self.bytes()[start..gap_end];
            if let Some(at) = gap.iter().position(|byte| *byte != GUARD) {
                let byte = start + at;
                return Err(format!(
                    "memory outside the request changed: arena byte {byte}"
                ));
            }
            start = next;
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: Allocated in `new` with this layout; nothing borrows it any more.
        unsafe { alloc::dealloc(self.start, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_all_bytes_within_the_limit_of_vectors() {
        let mut rng = Rng::new(1);
        for shape in [Shape::One, Shape::Pages, Shape::Small, Shape::Mixed] {
            for bytes in [4096, 65536, 1 << 20] {
                for offset in (0..4096).step_by(512) {
                    let layout = Layout::new(shape, offset, bytes, false, &mut rng);
                    assert_eq!(layout.pieces().iter().map(Range::len).sum::<usize>(), bytes);
                    assert!(layout.pieces().len() <= MOST_PIECES);
                    assert!(layout.pieces().iter().all(|p| p.len() % 512 == 0));
                    assert_eq!(layout.pieces()[0].start % 4096, offset);
                }
            }
        }
    }

    #[test]
    fn a_touched_guard_is_found() {
        let layout = Layout::new(Shape::Small, 512, 4096, false, &mut Rng::new(1));
        let mut arena = Arena::new(PAGE_BYTES);
        arena.guard(&layout);
        arena.scatter(&layout, &[7; 4096]);
        assert_eq!(arena.check_guards(&layout), Ok(()));
        let between = layout.pieces()[0].end;
        arena.bytes_mut()[between] = 0;
        assert!(arena.check_guards(&layout).is_err());
    }
}
