// SPDX-License-Identifier: GPL-2.0

//! One zspage: which of its places are taken, and which of its pages are there.
//!
//! Everything here runs under the class lock, which the [`Token`] shows. Nothing sleeps, allocates
//! or touches a list; a change of fullness is for the class to see.
//!
//! ```text
//!   0                                  end              usable                 objects
//!   +----------------------------------+-----------------+-----------------------+
//!   |  objects and free places, mixed  |  free places    |  pages not held       |
//!   +----------------------------------+-----------------+-----------------------+
//! ```
//!
//! The lowest free place is taken first, so the pages at the end are needed last and need not be
//! there. A zspage *grows* by a page or a run of pages at its end, up to its class's chain, and is
//! *trimmed* of those behind its last object.

#![deny(unsafe_code)]

use super::{
    geometry::Shape,
    mem::{
        LaterPages,
        Place,
        Token,
        Zs, //
    }, //
};
use crate::kapi::page::Pages;
use kernel::prelude::*;

/// Takes a free place for an object of `owner`, if there is one.
pub(super) fn take(zs: Zs, shape: &Shape, owner: u32, token: &mut Token) -> Option<Place> {
    let state = zs.state_mut(token);
    let index = state.places.take(state.usable)?;
    zs.set_owner(shape.offset(index), owner, token);
    Some(Place::new(zs, index, shape.bytes_of(index), token))
}

/// Frees a place. Returns whether an object was there.
pub(super) fn put(zs: Zs, index: u8, token: &mut Token) -> bool {
    zs.state_mut(token).places.put(index)
}

/// Adds pages at the chain's end, and returns those that it does not need.
///
/// Takes the array for later pages out of `later` if the zspage needs one and has none yet.
pub(super) fn grow(
    zs: Zs,
    shape: &Shape,
    pages: Pages,
    later: &mut Option<KBox<LaterPages>>,
    token: &mut Token,
) -> Option<Pages> {
    let missing = missing(zs, shape, token);
    let run = pages.count();
    let rest = zs.extend(pages, missing, later, token);
    let state = zs.state_mut(token);
    state.usable = shape.places_in(state.pages.into());
    state.single = run < missing;
    rest
}

/// Takes away pages at the chain's end that hold no object.
///
/// One run of them a call; `None` if there is nothing to take. The first page stays.
pub(super) fn trim(zs: Zs, shape: &Shape, token: &mut Token) -> Option<Pages> {
    let pages = zs.cut(needed(zs, shape, token), token)?;
    let state = zs.state_mut(token);
    // INVARIANT: the objects lie in the pages kept, so they are below `usable` still.
    state.usable = shape.places_in(state.pages.into());
    state.single = false;
    Some(pages)
}

/// Returns how many pages a zspage needs for the objects it holds.
pub(super) fn needed(zs: Zs, shape: &Shape, token: &Token) -> usize {
    shape.pages_for(zs.state(token).places.end()).max(1)
}

/// Returns how many pages of its chain a zspage does not hold.
pub(super) fn missing(zs: Zs, shape: &Shape, token: &Token) -> usize {
    shape.chain().saturating_sub(zs.state(token).pages.into())
}

/// Returns the owner of the object in a place, if there is one.
pub(super) fn owner(zs: Zs, shape: &Shape, index: u8, token: &Token) -> Option<u32> {
    let is_taken = zs.state(token).places.has(index);
    is_taken.then(|| zs.owner(shape.offset(index), token))
}
