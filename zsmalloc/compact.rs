// SPDX-License-Identifier: GPL-2.0

//! Compaction: the objects of the emptiest zspages move into the fullest, and what they leave empty
//! goes back to the page allocator.
//!
//! # How an object moves
//!
//! A zspage is *isolated*: taken off its list, so that nobody takes a place in it or frees it.
//! Then, object by object and each under a new hold of the class lock:
//!
//! 1. its header names the owner; a place is taken in the fullest zspage that has one;
//! 2. the owner is asked ([`Owner::try_relocate`]): it tries its slot, and if the slot still has
//!    the object's id, the bytes are copied and the slot gets the new id;
//! 3. the old place is freed, or the new one if the owner said no.
//!
//! | who meets it | what happens |
//! |---|---|
//! | a reader | holds the slot, so the try fails and the object stays |
//! | a free | the slot no longer has the id; the object stays until it is freed, under the lock |
//! | a new object that is not in its slot yet | the slot does not have the id; it stays |
//! | an allocation | finds other zspages; the class lock is free between any two objects |
//!
//! Objects that stay keep their zspage; it goes back to its list, and after some of those the class
//! is left alone. What is moved is one object of at most a page under one hold of the lock.

#![deny(unsafe_code)]

use super::{
    class::{
        Class,
        Put, //
    },
    drain::DrainCause,
    mem::Zs,
    pool::Pool,
    Owner,
    Relocated, //
};
use kernel::prelude::*;

/// So many zspages of a class may turn out to hold objects that stay, before the class is left.
///
/// Each costs a visit to its objects for nothing. One could be a reader's bad moment; more are
/// objects in use or waiting to be freed.
const MAX_STUCK: u32 = 4;

/// What became of one place.
enum Step {
    /// Empty by now, or there was nothing.
    Clear,
    /// The object stays.
    Stays,
    /// No place is free elsewhere.
    NoRoom,
}

impl Pool {
    /// Moves objects together and returns how many pages that gave back.
    ///
    /// One compaction runs in a pool at a time; a second one returns 0 at once. Objects waiting to
    /// be freed are in nobody's slot and cannot move, so they are freed first.
    ///
    /// # Context
    ///
    /// Does not sleep, but takes time: not in atomic context. Takes class locks, each for the move
    /// of one object; tries slots under them.
    pub(crate) fn compact(&self, owner: &dyn Owner) -> u64 {
        // ORDERING: full, with the store below: one compaction sees the lists as the last left them
        // by way of the class locks anyway; the flag only keeps a second one out.
        if self.compacting.swap_full(true) {
            return 0;
        }
        let mut freed = self.drain_now(DrainCause::Compact).pages;
        // Largest places first, as most memory is there.
        for class in self.classes().rev() {
            freed = freed
                .saturating_add(self.compact_class(class, owner))
                .saturating_add(self.trim_class(class));
        }
        self.stats.add_compacted(freed);
        // ORDERING: pairs with the swap above.
        self.compacting.store_release(false);
        freed
    }

    /// Returns about how many pages [`Pool::compact`] could give back.
    ///
    /// # Context
    ///
    /// Any; takes each class lock in turn, for short.
    pub(crate) fn compactable_pages(&self) -> u64 {
        let pages = |class: &Class| {
            let inner = class.inner.lock();
            let whole = inner.counts().surplus(class.shape);
            whole
                .wrapping_mul(class.shape.pages.into())
                .wrapping_add(inner.unneeded_pages())
        };
        self.classes().map(pages).sum()
    }

    fn compact_class(&self, class: &Class, owner: &dyn Owner) -> u64 {
        let mut freed = 0u64;
        let mut stuck = 0;
        // Not more than there are now: others store and free meanwhile, and might go on doing so.
        let most = class.inner.lock().counts().zspages();
        for _ in 0..most {
            if stuck >= MAX_STUCK {
                break;
            }
            let Some(source) = isolate(class) else {
                break;
            };
            let has_room = empty(class, source, owner);
            // A statement of its own, or the class would stay locked while pages are given back.
            let emptied = class.inner.lock().restore(source);
            match emptied {
                Some(zspage) => freed = freed.saturating_add(self.give_back(zspage)),
                None => stuck += 1,
            }
            if !has_room {
                break;
            }
        }
        freed
    }
}

/// Isolates the emptiest zspage, if the class could do without one.
fn isolate(class: &Class) -> Option<Zs> {
    let mut inner = class.inner.lock();
    if inner.counts().surplus(class.shape) == 0 {
        return None;
    }
    inner.isolate_emptiest()
}

/// Moves what can be moved out of an isolated zspage. Returns false if there was no room for it.
fn empty(class: &Class, source: Zs, owner: &dyn Owner) -> bool {
    let places = class.inner.lock().places(source);
    for index in (0..places.end()).filter(|&index| places.has(index)) {
        match move_one(class, source, index, owner) {
            Step::Clear | Step::Stays => (),
            Step::NoRoom => return false,
        }
    }
    true
}

/// Moves the object in one place of an isolated zspage, under one hold of the class lock.
fn move_one(class: &Class, source: Zs, index: u8, owner: &dyn Owner) -> Step {
    let mut inner = class.inner.lock();
    let Some(slot) = inner.owner(source, index) else {
        return Step::Clear;
    };
    let Ok(mut place) = inner.take(slot) else {
        return Step::NoRoom;
    };
    let (offset, room) = class.shape.bytes_of(index);
    // LOCK: slot after class is against the order, so the owner only tries.
    let relocated = owner.try_relocate(slot, source.id(index), &mut || {
        place.write(0, source.pieces(offset, room));
        place.id()
    });
    let (dead, step) = match relocated {
        Relocated::Moved => ((source, index), Step::Clear),
        Relocated::Busy | Relocated::Gone => ((place.zs(), place.index()), Step::Stays),
    };
    // Neither empties a zspage on a list: the source is isolated, and the other one held an object
    // before, or it would not have been on a list.
    match inner.put(dead.0, dead.1) {
        Put::Kept => (),
        Put::Emptied(_) | Put::Missing => pr_err!("a move emptied a zspage it should not\n"),
    }
    step
}
