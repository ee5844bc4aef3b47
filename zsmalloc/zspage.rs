// SPDX-License-Identifier: GPL-2.0

//! One zspage: which of its places are free, and which of its pages are needed.
//!
//! Everything here runs under the class lock, which the [`Token`] shows. Nothing sleeps, allocates
//! or touches a list; a change of fullness is for the class to see.
//!
//! # Places
//!
//! ```text
//!   0          used and free places, mixed        fresh        usable           objects
//!   +-----------------------------------------------+------------+-----------------+
//!   |  objects; free places linked by their headers  | never used | page not held   |
//!   +-----------------------------------------------+------------+-----------------+
//! ```
//!
//! Places are handed out from the free list first, then from `fresh` on. So a new zspage needs no
//! set-up of its links, and the pages behind `fresh` hold nothing: they need not be there. A zspage
//! *grows* by a page or a run of pages at its end, up to its class's chain, and is *trimmed* of
//! those it does not need yet.

#![deny(unsafe_code)]

use super::{
    geometry::Shape,
    mem::{
        LaterPages,
        Place,
        Token,
        Zs, //
    },
    object::{
        Header,
        END, //
    }, //
};
use crate::kapi::page::Pages;
use kernel::prelude::*;

/// Takes a free place for an object of `owner`, if there is one.
pub(super) fn take(zs: Zs, shape: &Shape, owner: u32, token: &mut Token) -> Option<Place> {
    let index = match pop(zs, shape, token) {
        Some(index) => index,
        None => pass_border(zs, token)?,
    };
    let offset = shape.offset(index);
    zs.set_header(offset, Header::Owner(owner), token);
    let state = zs.state_mut(token);
    // INVARIANT: one place more is used; it left the free list, or `fresh` has moved past it.
    state.used = state.used.wrapping_add(1);
    Some(Place::new(zs, index, shape.bytes_of(index), token))
}

/// Takes the first place off the free list.
fn pop(zs: Zs, shape: &Shape, token: &mut Token) -> Option<u16> {
    let index = zs.state(token).free;
    if index == END {
        return None;
    }
    // A free place that has an owner ends the list: the rest of it is lost, nobody's data is.
    let next = match zs.header(shape.offset(index), token) {
        Header::Free(next) => next,
        Header::Owner(_) => END,
    };
    zs.state_mut(token).free = next;
    Some(index)
}

/// Takes the first place that was never used, if its pages are there.
fn pass_border(zs: Zs, token: &mut Token) -> Option<u16> {
    let state = zs.state_mut(token);
    if state.fresh >= state.usable {
        return None;
    }
    let index = state.fresh;
    state.fresh = index.wrapping_add(1);
    Some(index)
}

/// Returns a place to the free list. Returns whether an object was there.
pub(super) fn put(zs: Zs, shape: &Shape, index: u16, token: &mut Token) -> bool {
    let offset = shape.offset(index);
    let known = index < zs.state(token).fresh;
    if !known || matches!(zs.header(offset, token), Header::Free(_)) {
        return false;
    }
    let state = zs.state_mut(token);
    let next = state.free;
    // INVARIANT: one place less is used, and it joins the free list.
    state.free = index;
    state.used = state.used.wrapping_sub(1);
    zs.set_header(offset, Header::Free(next), token);
    true
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

/// Takes away pages at the chain's end that hold no used place and never did.
///
/// One run of pages a call; `None` if there is nothing to take. The first page stays.
pub(super) fn trim(zs: Zs, shape: &Shape, token: &mut Token) -> Option<Pages> {
    let keep = shape.pages_for(zs.state(token).fresh).max(1);
    let pages = zs.cut(keep, token)?;
    let state = zs.state_mut(token);
    // INVARIANT: the places below `fresh` lie in the pages kept, so `fresh <= usable` still.
    state.usable = shape.places_in(state.pages.into());
    state.single = false;
    Some(pages)
}

/// Returns how many pages of its chain a zspage does not hold.
pub(super) fn missing(zs: Zs, shape: &Shape, token: &Token) -> usize {
    shape.chain().saturating_sub(zs.state(token).pages.into())
}

/// Returns the owner of the object in a place, if there is one.
pub(super) fn owner(zs: Zs, shape: &Shape, index: u16, token: &Token) -> Option<u32> {
    if index >= zs.state(token).fresh {
        return None;
    }
    match zs.header(shape.offset(index), token) {
        Header::Owner(owner) => Some(owner),
        Header::Free(_) => None,
    }
}
