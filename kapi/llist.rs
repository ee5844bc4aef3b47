// SPDX-License-Identifier: GPL-2.0

//! A list that anybody may push to and that is taken as a whole: lock-free, last in first out.
//!
//! # Protocol
//!
//! The head points at the last node pushed, each node at the one before it. A push writes the
//! node's link first and then swings the head by compare-and-exchange; a take swaps the head for
//! null and owns the whole chain. Since nobody takes single nodes off, a node cannot come back
//! between a pusher's look and its exchange with a different successor: there is no ABA problem.
//!
//! Pushing hands the node over to the list; taking hands all of them to the taker. The list never
//! allocates. What remains is dropped with the list.
//!
//! # Who may run with whom
//!
//! | | `push` | `take_all` | `is_empty` |
//! |---|---|---|---|
//! | `push` | - | - | - |
//! | `take_all` | - | - | - |
//! | `is_empty` | - | - | - |
//!
//! "-" is no lock needed. Every one in any context, interrupts on or off.
//!
//! # Building
//!
//! Pure but for the last item: the host crate compiles this file over its own atomics, gives its
//! own boxes [`Linked`], and tests the matrix.

use crate::kapi::atomic::AtomicPtr;
use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    }, //
};

/// What a node carries for the list.
pub(crate) struct Link {
    /// The node pushed before; meaningful only while the node is in a list or a chain.
    next: AtomicPtr<Link>,
}

impl Link {
    /// Returns a link that is in no list.
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicPtr::new(null_mut()),
        }
    }
}

/// An owner of a node, which the list keeps by its link alone.
///
/// # Safety
///
/// - `into_link` gives up the owner and returns a link that stays valid, at its address, and unused
///   by anybody else, until `from_link`.
/// - `from_link` of that link returns an equivalent owner.
pub(crate) unsafe trait Linked: Sized {
    /// Gives the node up.
    fn into_link(self) -> NonNull<Link>;

    /// Takes the node back.
    ///
    /// # Safety
    ///
    /// `link` must come from `into_link` of this type, and be taken back once.
    unsafe fn from_link(link: NonNull<Link>) -> Self;
}

/// The list.
///
/// # Invariants
///
/// The head is null, or a link given up to this list; so is the `next` of every link in it.
pub(crate) struct List<N: Linked> {
    head: AtomicPtr<Link>,
    _owns: PhantomData<N>,
}

// SAFETY: the list owns nodes, which may be taken on another thread.
unsafe impl<N: Linked + Send> Send for List<N> {}
// SAFETY: as above; all access to the head is atomic.
unsafe impl<N: Linked + Send> Sync for List<N> {}

impl<N: Linked> List<N> {
    /// Returns an empty list.
    pub(crate) fn new() -> Self {
        // INVARIANT: null.
        Self {
            head: AtomicPtr::new(null_mut()),
            _owns: PhantomData,
        }
    }

    /// Pushes a node; returns whether the list was empty, so that one pusher wakes the taker.
    pub(crate) fn push(&self, node: N) -> bool {
        let link = node.into_link();
        let mut head = self.head.load_relaxed();
        loop {
            // SAFETY: the node was given up to us, and nobody else knows it yet.
            // ORDERING: relaxed: made visible by the exchange below.
            unsafe { link.as_ref() }.next.store_relaxed(head);
            // INVARIANT: `link` was given up, and its `next` is the former head.
            // ORDERING: full: the release half pairs with the acquire of `llist::take_all`, for the
            // link and for what the node holds. The other half orders "pushed" before whatever the
            // pusher does to find out whether somebody must be woken.
            match self.head.cmpxchg_full(head, link.as_ptr()) {
                Ok(before) => return before.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Takes every node, the last pushed first.
    pub(crate) fn take_all(&self) -> Chain<N> {
        // ORDERING: full: the acquire half pairs with the exchange of `llist::push`. The other half
        // orders what the taker did before, such as marking itself idle, before the taking.
        let first = self.head.swap_full(null_mut());
        // INVARIANT: the whole chain left the list at once and belongs to us.
        Chain {
            next: first,
            _owns: PhantomData,
        }
    }

    /// Returns whether there was no node a moment ago.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load_relaxed().is_null()
    }
}

impl<N: Linked> Drop for List<N> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Nodes taken from a list; those not asked for are dropped with it.
///
/// # Invariants
///
/// `next` is null or a link that was given up and belongs to the chain, as do those behind it.
#[must_use = "nodes that are not taken out are dropped"]
pub(crate) struct Chain<N: Linked> {
    next: *mut Link,
    _owns: PhantomData<N>,
}

// SAFETY: the chain owns nodes and nothing else.
unsafe impl<N: Linked + Send> Send for Chain<N> {}

impl<N: Linked> Chain<N> {
    /// Returns the same nodes, the first pushed first.
    pub(crate) fn reversed(mut self) -> Self {
        let mut done = null_mut();
        let mut next = core::mem::replace(&mut self.next, null_mut());
        while let Some(link) = NonNull::new(next) {
            // SAFETY: the invariant: the link is ours alone.
            // ORDERING: relaxed: the chain is exclusive.
            let cell = &unsafe { link.as_ref() }.next;
            next = cell.load_relaxed();
            cell.store_relaxed(done);
            done = link.as_ptr();
        }
        // INVARIANT: the same links, each once.
        self.next = done;
        self
    }
}

impl<N: Linked> Iterator for Chain<N> {
    type Item = N;

    fn next(&mut self) -> Option<N> {
        let link = NonNull::new(self.next)?;
        // INVARIANT: the link leaves the chain here.
        // SAFETY: the invariant: the link is ours alone.
        // ORDERING: relaxed: the chain is exclusive.
        self.next = unsafe { link.as_ref() }.next.load_relaxed();
        // SAFETY: given up by `into_link` in `push`, and out of every list now.
        Some(unsafe { N::from_link(link) })
    }
}

impl<N: Linked> Drop for Chain<N> {
    fn drop(&mut self) {
        // Each node's own drop runs here, outside of any step of the list.
        self.for_each(drop);
    }
}

/// A value with a link beside it: the usual node, `KBox<Entry<T>>`.
#[repr(C)]
pub(crate) struct Entry<T> {
    /// First, so that the link's address is the entry's.
    link: Link,
    /// What the node is about.
    pub(crate) value: T,
}

impl<T> Entry<T> {
    /// Returns an entry that is in no list.
    pub(crate) fn new(value: T) -> Self {
        Self {
            link: Link::new(),
            value,
        }
    }
}

#[cfg(CONFIG_RUST)]
// SAFETY: the box keeps its address while it is a raw pointer, the link is the entry's first field,
// and nobody can reach it meanwhile.
unsafe impl<T> Linked for kernel::prelude::KBox<Entry<T>> {
    fn into_link(self) -> NonNull<Link> {
        let entry = kernel::prelude::KBox::into_raw(self);
        // SAFETY: a box's pointer is not null.
        unsafe { NonNull::new_unchecked(entry.cast()) }
    }

    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: by the caller's promise the pointer came from `into_link` above.
        unsafe { kernel::prelude::KBox::from_raw(link.as_ptr().cast()) }
    }
}
