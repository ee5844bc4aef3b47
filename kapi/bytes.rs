// SPDX-License-Identifier: GPL-2.0

//! Views of memory that somebody else may be changing.
//!
//! The pages of a bio belong to their owner: a process may scribble on a page while it is being
//! written to disk. A Rust reference to such bytes would be a false promise, so [`Src`] and [`Dst`]
//! are addresses with a length and a lifetime, and bytes only ever move through them by copy.
//!
//! # Guarantees
//!
//! - A view never reaches outside of the memory it was made from; every length is checked or cut.
//! - A copy of changing bytes is some mixture of old and new ones, never anything else. Who decodes
//!   such a copy must be able to take any bytes.
//!
//! # Who may run with whom
//!
//! Any context; nothing sleeps, allocates, locks or fails. Two views may overlap if both are `Src`.

use core::{
    marker::PhantomData,
    ptr, //
};

/// Bytes of the pattern that [`Src::same_word`] looks for.
const WORD_BYTES: usize = size_of::<u64>();

/// Words looked at between two tests of [`Src::same_word`]: one cache line, so that the loop is one
/// branch a line and ends on the first line that differs.
const WORDS_PER_STEP: usize = 8;

/// A readable stretch of memory that may change while it is read.
///
/// # Invariants
///
/// `ptr` is valid for reads of `len` bytes during `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Src<'a> {
    ptr: *const u8,
    len: usize,
    _memory: PhantomData<&'a [u8]>,
}

// SAFETY: A view is an address; the memory is readable from every thread during `'a`.
unsafe impl Send for Src<'_> {}
// SAFETY: As above; all methods read only.
unsafe impl Sync for Src<'_> {}

impl<'a> Src<'a> {
    /// Returns a view of `bytes`.
    #[inline]
    pub(crate) const fn from_slice(bytes: &'a [u8]) -> Self {
        // INVARIANT: a slice is valid for reads of its length during its lifetime.
        Self {
            ptr: bytes.as_ptr(),
            len: bytes.len(),
            _memory: PhantomData,
        }
    }

    /// Returns a view of `len` bytes at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for reads of `len` bytes during `'a`. Others may write there meanwhile.
    #[inline]
    pub(crate) const unsafe fn from_raw(ptr: *const u8, len: usize) -> Self {
        // INVARIANT: the caller's promise.
        Self {
            ptr,
            len,
            _memory: PhantomData,
        }
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the address, for a codec's foreign call.
    #[inline]
    pub(crate) const fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// Returns the part of `len` bytes at `offset`, or nothing if it is not all inside.
    #[inline]
    pub(crate) fn sub(&self, offset: usize, len: usize) -> Option<Src<'a>> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // INVARIANT: the part lies inside, by the test above.
        Some(Self {
            // SAFETY: `offset` is at most the length, so the address is inside or one past the end.
            ptr: unsafe { self.ptr.add(offset) },
            len,
            _memory: PhantomData,
        })
    }

    /// Copies to the front of `dst` as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn copy_to(&self, dst: &mut [u8]) -> usize {
        let len = self.len.min(dst.len());
        // SAFETY:
        // - The invariant makes `ptr` readable for `self.len >= len` bytes.
        // - `dst` is exclusive and holds at least `len` bytes, so it does not overlap memory that a
        //   view can be made of.
        unsafe { ptr::copy_nonoverlapping(self.ptr, dst.as_mut_ptr(), len) };
        len
    }

    /// Returns the word that the whole view repeats, if it does.
    ///
    /// The view must be a whole number of words, eight bytes each, and aligned to one; any other
    /// repeats nothing. Words are read one after another, so that a page which changes meanwhile
    /// gives an answer that was true of each word when it was read.
    ///
    /// A page that is no fill almost always shows it in its first, last or middle words: those are
    /// compared first, the rest line by line.
    #[inline]
    pub(crate) fn same_word(&self) -> Option<u64> {
        let words = self.len / WORD_BYTES;
        if words == 0 || self.len % WORD_BYTES != 0 || self.ptr.align_offset(WORD_BYTES) != 0 {
            return None;
        }
        let base = self.ptr.cast::<u64>();
        // SAFETY: for `i < words` the word lies inside of the view, and `base` is aligned; a
        // volatile read of a word makes no promise that it keeps its value.
        let word = |i: usize| unsafe { base.add(i).read_volatile() };
        let first = word(0);
        if word(words - 1) != first || word(words / 2) != first {
            return None;
        }
        // SAFETY: `base` is readable for `words` words.
        unsafe { all_equal(base, words, first) }.then_some(first)
    }
}

/// Returns whether `words` words at `base` all equal `first`.
///
/// # Safety
///
/// `base` must be aligned and valid for reads of `words` words.
unsafe fn all_equal(base: *const u64, words: usize, first: u64) -> bool {
    let mut at = 0;
    while words - at >= WORDS_PER_STEP {
        let mut differs = 0;
        for i in 0..WORDS_PER_STEP {
            // SAFETY: `at + i < words`, by the loop's condition.
            differs |= unsafe { base.add(at + i).read_volatile() } ^ first;
        }
        if differs != 0 {
            return false;
        }
        at += WORDS_PER_STEP;
    }
    // SAFETY: `i < words`.
    (at..words).all(|i| unsafe { base.add(i).read_volatile() } == first)
}

/// A writable stretch of memory that others may read or write meanwhile.
///
/// # Invariants
///
/// `ptr` is valid for writes of `len` bytes during `'a`, and no Rust reference to them exists.
pub(crate) struct Dst<'a> {
    ptr: *mut u8,
    len: usize,
    _memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: A view is an address; the memory is writable from every thread during `'a`.
unsafe impl Send for Dst<'_> {}

impl<'a> Dst<'a> {
    /// Returns a view of `bytes`.
    #[inline]
    pub(crate) fn from_slice(bytes: &'a mut [u8]) -> Self {
        // INVARIANT: an exclusive slice, borrowed for `'a`.
        Self {
            ptr: bytes.as_mut_ptr(),
            len: bytes.len(),
            _memory: PhantomData,
        }
    }

    /// Returns a view of `len` bytes at `ptr`.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid for writes of `len` bytes during `'a`, and no Rust reference to them may
    /// be alive.
    #[inline]
    pub(crate) const unsafe fn from_raw(ptr: *mut u8, len: usize) -> Self {
        // INVARIANT: the caller's promise.
        Self {
            ptr,
            len,
            _memory: PhantomData,
        }
    }

    /// Returns the length in bytes.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the address, for a codec's foreign call.
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }

    /// Returns another view of the same bytes, for the time of a borrow.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> Dst<'_> {
        // INVARIANT: the same bytes; this view is borrowed meanwhile.
        Dst {
            ptr: self.ptr,
            len: self.len,
            _memory: PhantomData,
        }
    }

    /// Returns the part of `len` bytes at `offset`, or nothing if it is not all inside.
    #[inline]
    pub(crate) fn sub(&mut self, offset: usize, len: usize) -> Option<Dst<'_>> {
        if offset > self.len || len > self.len - offset {
            return None;
        }
        // INVARIANT: the part lies inside, by the test above; this view is borrowed meanwhile.
        Some(Dst {
            // SAFETY: `offset` is at most the length, so the address is inside or one past the end.
            ptr: unsafe { self.ptr.add(offset) },
            len,
            _memory: PhantomData,
        })
    }

    /// Copies the front of `src`, as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn copy_from(&mut self, src: &[u8]) -> usize {
        let len = self.len.min(src.len());
        // SAFETY:
        // - `src` holds at least `len` bytes.
        // - The invariant makes `ptr` writable for them, and no reference such as `src` covers
        //   them.
        unsafe { ptr::copy_nonoverlapping(src.as_ptr(), self.ptr, len) };
        len
    }

    /// Copies the front of `src`, as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn copy_from_src(&mut self, src: Src<'_>) -> usize {
        let len = self.len.min(src.len);
        // SAFETY:
        // - The invariants make both valid for `len` bytes.
        // - `ptr::copy` permits overlap, which two views of foreign memory cannot exclude.
        unsafe { ptr::copy(src.ptr, self.ptr, len) };
        len
    }

    /// Repeats `word` over the whole view, beginning with its first byte in memory.
    ///
    /// A length that is no multiple of a word ends with the word's first bytes.
    #[inline]
    pub(crate) fn fill_word(&mut self, word: u64) {
        if word == 0 {
            return self.zero();
        }
        let words = self.len / WORD_BYTES;
        let base = self.ptr.cast::<u64>();
        for i in 0..words {
            // SAFETY: the word lies inside of the view; the address need not be aligned.
            unsafe { base.add(i).write_unaligned(word) };
        }
        let rest = self.len % WORD_BYTES;
        let bytes = word.to_ne_bytes();
        // SAFETY: `rest` bytes remain behind the last whole word, and `bytes` has more of them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(words).cast(), rest) };
    }

    /// Sets every byte to zero.
    #[inline]
    pub(crate) fn zero(&mut self) {
        // SAFETY: the invariant makes all of it writable.
        unsafe { ptr::write_bytes(self.ptr, 0, self.len) };
    }
}

/// A stored object: in one piece, or in two where it spans pages that are not neighbors.
#[derive(Clone, Copy)]
pub(crate) enum Pieces<'a> {
    /// All bytes in a row.
    One(Src<'a>),
    /// The front at the end of one page, the rest at the start of another; neither is empty.
    Two(Src<'a>, Src<'a>),
}

impl<'a> Pieces<'a> {
    /// Returns the length of all pieces together, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(all) => all.len(),
            Self::Two(front, rest) => front.len().saturating_add(rest.len()),
        }
    }

    /// Returns the bytes if they are in a row.
    #[inline]
    pub(crate) fn as_one(&self) -> Option<Src<'a>> {
        match self {
            Self::One(all) => Some(*all),
            Self::Two(..) => None,
        }
    }

    /// Copies to the front of `dst` as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn copy_to(&self, dst: &mut [u8]) -> usize {
        match self {
            Self::One(all) => all.copy_to(dst),
            Self::Two(front, rest) => {
                let done = front.copy_to(dst);
                let more = dst.get_mut(done..).map_or(0, |tail| rest.copy_to(tail));
                done.saturating_add(more)
            }
        }
    }

    /// Copies to the front of `dst` as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn copy_to_dst(&self, dst: &mut Dst<'_>) -> usize {
        match self {
            Self::One(all) => dst.copy_from_src(*all),
            Self::Two(front, rest) => {
                let done = dst.copy_from_src(*front);
                let left = dst.len().saturating_sub(done);
                let more = dst
                    .sub(done, left)
                    .map_or(0, |mut d| d.copy_from_src(*rest));
                done.saturating_add(more)
            }
        }
    }
}
