// SPDX-License-Identifier: GPL-2.0

//! The bounce buffer: where a spanning object is put together so that a codec can read it in a row.
//!
//! It belongs to one bio, is only allocated when the first spanning object is met, without sleeping
//! and without reserves, and serves all pages of the bio. If there is no memory for it, the bio does
//! not ask again: the fallback, a stream's local copy, needs none.

use crate::kapi::{
    gfp::Policy,
    page::PageBuf, //
};

/// A bio's bounce buffer.
pub(crate) enum Bounce {
    /// Not needed so far.
    Untried,
    /// Allocated.
    Page(PageBuf),
    /// There was no memory for it, or the fallback is wanted.
    Refused,
}

impl Bounce {
    /// Returns a buffer that is allocated when it is needed.
    pub(crate) const fn new() -> Self {
        Self::Untried
    }

    /// Returns a buffer that is never allocated, so that the fallback is always taken.
    pub(crate) const fn refused() -> Self {
        Self::Refused
    }

    /// Returns the page, if there is or can be one.
    ///
    /// # Context
    ///
    /// Any task context, the slot held; allocates at most once, without sleeping.
    pub(super) fn page(&mut self) -> Option<&mut PageBuf> {
        if let Self::Untried = self {
            *self = match PageBuf::alloc(Policy::Comfort) {
                Ok(page) => Self::Page(page),
                Err(_) => Self::Refused,
            };
        }
        match self {
            Self::Page(page) => Some(page),
            _ => None,
        }
    }
}
