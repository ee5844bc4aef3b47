// SPDX-License-Identifier: GPL-2.0

//! The pool of compressed objects.
//!
//! Knows nothing of disks or codecs: it stores runs of bytes under ids, and names the slot that
//! owns each only to ask it when an object is to be moved ([`Owner`]).
//!
//! # The picture
//!
//! ```text
//!  Pool
//!   `- Class, one a place size            lock: lists, counts, and of each zspage the state
//!       |- lists by fullness  ->  zspage <-> zspage <-> ...
//!       `- growing            ->  the youngest zspage, not all of its pages may be there
//!
//!  zspage: a descriptor, and a chain of 1 to 16 pages
//!
//!   linear     | page | page | page |     pages in a row: every object is in one piece
//!              |obj|obj|obj|obj|obj|
//!
//!   scattered  | page | page |  ...  | page |     an object that spans two pages which are not
//!              |obj|obj|obj|     |obj|obj|        neighbors is in two pieces
//!
//!   object     | header: 4 bytes, the owner | bytes |
//!   raw        | one page, no header, no class |
//! ```
//!
//! An object's id is its place: the descriptor's address and its number there (`object.rs`). There
//! is no table between a slot and its object, and no lock: whoever holds the slot finds the bytes
//! by arithmetic. So only the slot's holder can let the object go or have it moved, and compaction
//! works by asking, see `compact.rs`.
//!
//! # Files
//!
//! | file | what |
//! |---|---|
//! | `geometry.rs` | which place sizes and chains there are, and why |
//! | `object.rs` | object id and header |
//! | `places.rs` | which places of a zspage are taken |
//! | `fullness.rs` | groups of zspages by use |
//! | `mem.rs` | descriptors and bytes: the only unsafe file |
//! | `list.rs` | lists of zspages |
//! | `zspage.rs` | places and pages of one zspage |
//! | `class.rs` | one size class, and its lock |
//! | `pool.rs` | storing, finding, freeing |
//! | `compact.rs` | moving objects out of the emptiest zspages |
//! | `batch.rs` | objects to be freed, in a good order |
//! | `drain.rs` | deferred frees, and what triggers them |
//! | `stats.rs` | counters, and the table of classes |
//!
//! # Lock order
//!
//! | | lock | protects | sleeps, allocates under it |
//! |---|---|---|---|
//! | 1 | gate (`drain.rs`) | that `drain_all` leaves nothing in anybody's hands | yes, no |
//! | 2 | an owner's slot (`device`) | that object's existence and bytes | no, no |
//! | 3 | class (`class.rs`) | lists, states, headers, counts of one class | no, no |
//! | 4 | batch (`drain.rs`) | open and spare batches of one CPU | no, no |
//!
//! The gate is tried where a slot or a stream may be held. Class and batch locks are in fact never
//! held together.
//!
//! A slot's holder may take a class lock. Against the order a slot is only *tried*, by
//! [`Owner::try_relocate`], under one class lock. No two class locks are held at once. The flag of
//! a running compaction (`Pool::compacting`) is no lock: nobody waits for it.
//!
//! No lock protects the way from an id to its bytes. See `mem.rs`.

#![deny(unsafe_code)]

mod batch;
mod class;
mod compact;
mod drain;
mod fullness;
mod geometry;
mod list;
#[expect(
    unsafe_code,
    reason = "the pool's page memory; the other files are safe"
)]
mod mem;
mod object;
mod places;
mod pool;
mod stats;
mod zspage;

pub(crate) use batch::FreeBatch;
pub(crate) use drain::DrainCause;
pub(crate) use object::{
    ObjectId,
    OWNER_LIMIT, //
};
pub(crate) use pool::{
    NewObject,
    Pool,
    PoolBox,
    PoolConfig, //
};
pub(crate) use stats::PoolStats;

/// Proof that a slot is held: implemented by the guard of a slot, and by nothing else.
///
/// The pool takes the holder's word for it that the id it asks about is the one in that slot.
pub(crate) trait HoldsOwner {}

/// Outcome of [`Owner::try_relocate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relocated {
    /// The slot has the new id.
    Moved,
    /// The slot was held by somebody else; nothing has changed.
    Busy,
    /// The slot does not have the id: the object is about to be freed, or not in its slot yet.
    Gone,
}

/// Whoever keeps object ids in slots, as the pool sees him.
pub(crate) trait Owner: Send + Sync {
    /// Moves an object, if its slot agrees.
    ///
    /// Tries to take the slot `owner`. If it has `from`, calls `place` once, which copies the
    /// object and returns its new id, puts that into the slot, and lets go.
    ///
    /// # Context
    ///
    /// Called under a class lock: does not sleep, wait, allocate, or call the pool. What it finds
    /// to be freed in the slot it leaves for later.
    fn try_relocate(
        &self,
        owner: u32,
        from: ObjectId,
        place: &mut dyn FnMut() -> ObjectId,
    ) -> Relocated;
}
