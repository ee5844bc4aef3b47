// SPDX-License-Identifier: GPL-2.0

//! Size classes: which object sizes exist, and how many objects share how many pages.
//!
//! Pure arithmetic, done at build time. Nothing here sleeps, locks or fails.
//!
//! A class is a place size and a chain length. Its zspages are chains of `pages` pages that hold
//! `objects` places of `size` bytes each, header included, back to back.
//!
//! # Where memory is lost, and how the classes were chosen
//!
//! | loss | grows with | answer |
//! |---|---|---|
//! | rounding: place minus what is in it | distance of classes | sizes that chains fit exactly |
//! | tail: end of a chain that holds no place | odd sizes | the same |
//! | header | objects | 4 bytes, not 8 |
//! | unfilled: what each class's youngest zspage does not use yet | classes, chains | *growing* |
//!
//! C's classes step by 16 bytes and merge where chain and count are the same: rounding costs 1.5 %,
//! because chains of 8 pages leave few sizes above half a page. Longer chains give more sizes and
//! lose less to rounding, but then the youngest zspages alone lose more than that. So a zspage need
//! not have all pages of its chain, see *growing* in `class.rs`: those it does not need yet are
//! taken back. With that the unfilled part is half a page a class, and 16 pages are best.
//!
//! Pool bytes over compressed bytes, computed for 450 MB of shared libraries in two samples
//! (105,000 pages each, fill pages left out, pages beyond the largest class counted as a whole
//! page, every class's youngest zspage included; "apart" in bytes, "s" is the next larger class;
//! "unfilled" says whether the youngest zspage has all pages of its chain or what it needs):
//!
//! | chain | apart | classes | unfilled | lz4 | zstd | lz4 | zstd |
//! |---|---|---|---|---|---|---|---|
//! | 8 | C's, C's header | 119 | chain | 1.0255 | 1.0297 | 1.0240 | 1.0292 |
//! | 8 | 16 | 112 | chain | 1.0219 | 1.0248 | 1.0205 | 1.0255 |
//! | 8 | 16 | 112 | page | 1.0181 | 1.0201 | 1.0173 | 1.0202 |
//! | 12 | 16 | 149 | chain | 1.0204 | 1.0244 | 1.0192 | 1.0243 |
//! | 12 | 16 | 149 | page | 1.0122 | 1.0143 | 1.0117 | 1.0136 |
//! | 16 | 8 | 290 | chain | 1.0305 | 1.0373 | 1.0280 | 1.0366 |
//! | 16 | 12 | 216 | page | 1.0097 | 1.0120 | 1.0092 | 1.0115 |
//! | 16 | 16 | 174 | page | 1.0100 | 1.0126 | 1.0094 | 1.0119 |
//! | 16 | s/64, 8 to 16 | **205** | page | **1.0102** | **1.0128** | **1.0095** | **1.0120** |
//! | 16 | s/64, 4 to 16 | 235 | page | 1.0104 | 1.0132 | 1.0099 | 1.0124 |
//!
//! The relative step is for contents that compress to a few hundred bytes, which libraries hardly
//! have: on sizes drawn around 110 bytes C loses 15 %, a fixed step of 16 as much, this one 11 %.
//! Finer steps than these gain little there and cost classes here.
//!
//! At most 64 places a zspage, and places of at least 64 bytes, so that one word tells which are
//! free (`places.rs`). Small places have shorter chains for that. It costs nothing measurable but
//! for objects below 60 bytes, which get more room than they need: a page that compresses to so
//! little takes a sixty-fourth of itself.
//!
//! The limit of 16 pages is also what a linear zspage asks of the page allocator in one piece.

use super::{
    object::HEADER_BYTES,
    places::MAX_PLACES, //
};
use crate::kapi::num::PAGE_SIZE;

/// Most pages of one zspage. See the table above; a linear zspage takes them as one block.
pub(super) const MAX_CHAIN: usize = 16;

/// Place sizes are multiples of this, in bytes, so that a header never spans two pages. It grows
/// with the page, which keeps the tables below at one size.
const ALIGN: usize = PAGE_SIZE / 1024;

/// Smallest place, in bytes.
const MIN_SIZE: usize = 16 * ALIGN;

/// Least and largest distance between neighboring classes, in bytes.
const STEP_BYTES: (usize, usize) = (2 * ALIGN, 4 * ALIGN);

/// Between those limits, classes are at least this part of their size apart.
const STEP_PART: usize = 64;

/// What one page more in a chain may save at least, as a part of the chain: a thousandth. Shorter
/// chains are easier to get in one piece and sooner empty.
const PAGE_WORTH: usize = 1000;

/// One size class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of one place, header included.
    pub(super) size: u32,
    /// Pages of a complete zspage.
    pub(super) pages: u8,
    /// Places of a complete zspage.
    pub(super) objects: u8,
}

impl Shape {
    /// Returns the bytes of one place, header included.
    pub(super) const fn size_bytes(&self) -> usize {
        // CAST: u32 to usize widens.
        self.size as usize
    }

    /// Returns the pages of a complete zspage.
    pub(super) const fn chain(&self) -> usize {
        // CAST: u8 to usize widens.
        self.pages as usize
    }

    /// Returns the byte offset of a place from the start of its zspage.
    pub(super) const fn offset(&self, index: u8) -> usize {
        // CAST: u8 widens. OVERFLOW: at most 255 times the largest size.
        index as usize * self.size_bytes()
    }

    /// Returns where an object's bytes start, behind its header, and how many fit.
    pub(super) const fn bytes_of(&self, index: u8) -> (usize, usize) {
        // OVERFLOW: see `offset`; every size is larger than a header.
        (
            self.offset(index) + HEADER_BYTES,
            self.size_bytes() - HEADER_BYTES,
        )
    }

    /// Returns how many places lie wholly in the first `pages` pages.
    pub(super) const fn places_in(&self, pages: usize) -> u8 {
        if pages >= self.chain() {
            return self.objects;
        }
        match (pages * PAGE_SIZE).checked_div(self.size_bytes()) {
            // CAST: the quotient is below `objects`, which fits.
            Some(places) => places as u8,
            // No class has places of no size.
            None => 0,
        }
    }

    /// Returns how many pages the first `places` places touch.
    pub(super) const fn pages_for(&self, places: u8) -> usize {
        self.offset(places).div_ceil(PAGE_SIZE)
    }
}

/// Returns the chain length that suits places of `size` bytes best.
///
/// Chains that waste a size more places would fit into are not considered: such a size has a larger
/// neighbor that does the same at no cost. Zero if there is none.
const fn best_chain(size: usize) -> usize {
    let mut best = 0;
    let mut best_cost = usize::MAX;
    let mut pages = 1;
    while pages <= MAX_CHAIN {
        let bytes = pages * PAGE_SIZE;
        let objects = bytes / size;
        // More objects than pages, or the place would be as good as a page; and a bit for each.
        let fits = objects > pages && objects <= MAX_PLACES;
        if fits && bytes / objects / ALIGN * ALIGN == size {
            let tail = bytes - objects * size;
            // In millionths of the chain, to compare chains of different length.
            let cost = tail * 1_000_000 / bytes + pages * 1_000_000 / PAGE_WORTH;
            if cost < best_cost {
                best_cost = cost;
                best = pages;
            }
        }
        pages += 1;
    }
    best
}

/// Returns the next class size below `size`, or zero.
const fn next_smaller(size: usize) -> usize {
    let mut step = size / STEP_PART;
    if step < STEP_BYTES.0 {
        step = STEP_BYTES.0;
    }
    if step > STEP_BYTES.1 {
        step = STEP_BYTES.1;
    }
    let mut next = (size - step) / ALIGN * ALIGN;
    while next >= MIN_SIZE {
        if best_chain(next) != 0 {
            return next;
        }
        next -= ALIGN;
    }
    0
}

/// Number of size classes.
pub(super) const CLASSES: usize = {
    let mut count = 0;
    let mut size = next_smaller(PAGE_SIZE);
    while size != 0 {
        count += 1;
        size = next_smaller(size);
    }
    count
};

/// All size classes, smallest first.
pub(super) static SHAPES: [Shape; CLASSES] = SHAPES_CONST;

const SHAPES_CONST: [Shape; CLASSES] = {
    let mut shapes = [Shape {
        size: 0,
        pages: 0,
        objects: 0,
    }; CLASSES];
    let mut size = next_smaller(PAGE_SIZE);
    let mut at = CLASSES;
    while size != 0 {
        at -= 1;
        let pages = best_chain(size);
        // CAST: a size is below PAGE_SIZE, pages at most MAX_CHAIN, objects at most MAX_PLACES.
        shapes[at] = Shape {
            size: size as u32,
            pages: pages as u8,
            objects: (pages * PAGE_SIZE / size) as u8,
        };
        size = next_smaller(size);
    }
    shapes
};

/// Longest object that is not stored raw, in bytes.
pub(super) const MAX_LEN: usize = {
    // CAST: u32 to usize widens.
    SHAPES_CONST[CLASSES - 1].size as usize - HEADER_BYTES
};

/// Class of each place size, in units of [`ALIGN`], rounded up.
static CLASS_OF: [u8; PAGE_SIZE / ALIGN + 1] = {
    let mut table = [0; PAGE_SIZE / ALIGN + 1];
    let mut unit = 0;
    let mut class = 0;
    while unit < table.len() {
        // CAST: u32 to usize widens.
        while class + 1 < CLASSES && (SHAPES_CONST[class].size as usize) < unit * ALIGN {
            class += 1;
        }
        // CAST: there are fewer than 256 classes, as asserted below.
        table[unit] = class as u8;
        unit += 1;
    }
    table
};

const _: () = {
    assert!(CLASSES > 0 && CLASSES < 256 && MAX_PLACES < 256);
    assert!(PAGE_SIZE % 1024 == 0 && ALIGN % align_of::<u32>() == 0);
    assert!(HEADER_BYTES <= ALIGN, "a header must not span two pages");
};

/// Returns the class for objects of `len` bytes, or nothing if they are stored raw.
pub(super) fn class_of(len: usize) -> Option<usize> {
    if len > MAX_LEN {
        return None;
    }
    // OVERFLOW: `len` is below PAGE_SIZE here.
    let unit = (len + HEADER_BYTES).div_ceil(ALIGN);
    CLASS_OF.get(unit).copied().map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gets_the_smallest_class_that_holds_it() {
        for len in 1..=PAGE_SIZE {
            let fits = |s: &Shape| s.size as usize >= len + HEADER_BYTES;
            assert_eq!(class_of(len), SHAPES.iter().position(fits), "length {len}");
        }
        assert_eq!(class_of(MAX_LEN), Some(CLASSES - 1));
        assert_eq!(class_of(MAX_LEN + 1), None);
        assert_eq!(class_of(0), Some(0));
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn shapes_are_sound() {
        let mut last = 0;
        for shape in &SHAPES {
            let (size, pages) = (shape.size as usize, usize::from(shape.pages));
            assert!(
                size > last && size < PAGE_SIZE && size % ALIGN == 0,
                "{shape:?}"
            );
            assert!((1..=MAX_CHAIN).contains(&pages), "{shape:?}");
            assert!((pages + 1..=MAX_PLACES).contains(&usize::from(shape.objects)));
            let tail = pages * PAGE_SIZE - size * usize::from(shape.objects);
            assert!(tail < size, "one more would fit: {shape:?}");
            last = size;
        }
    }

    #[test]
    fn places_and_pages_are_inverse() {
        for shape in &SHAPES {
            assert_eq!(shape.places_in(0), 0);
            assert_eq!(shape.places_in(shape.pages.into()), shape.objects);
            assert_eq!(shape.pages_for(shape.objects), usize::from(shape.pages));
            for pages in 1..=usize::from(shape.pages) {
                let places = shape.places_in(pages);
                assert!(shape.pages_for(places) <= pages);
                if places < shape.objects {
                    assert!(shape.pages_for(places + 1) > pages);
                }
            }
        }
    }

    #[test]
    fn classes_at_4k_pages_are_those_of_the_table() {
        if PAGE_SIZE == 4096 {
            assert_eq!(CLASSES, 205);
            assert_eq!(MAX_LEN, 3848);
        }
    }
}
