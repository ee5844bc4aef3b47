// SPDX-License-Identifier: GPL-2.0

//! Boxes that other contexts find by a pointer: published once, or published and taken back.
//!
//! | type | published | taken back | who may read |
//! |---|---|---|---|
//! | [`PublishOnce`] | by the first who makes a value | never, only dropped | anybody |
//! | [`Published`] | under the device's write lock | by who shows both proofs | who shows one |
//!
//! # Why a reader of `Published` is safe
//!
//! A reader is either a user of the disk (a request, a slot-free call), or holds the device's
//! read-write semaphore. Who takes the value back shows a proof that the disk has no user, and
//! holds the semaphore for writing. Both sides name *which* disk and *which* semaphore by an
//! [`Anchor`], so a proof from another device proves nothing here: the reader finds nothing, the
//! retiring caller gets nothing.
//!
//! # Who may run with whom
//!
//! | | `get` | `get_or_make` | `publish` | `retire` |
//! |---|---|---|---|---|
//! | `get` | - | - | - | excluded by the proofs |
//! | `get_or_make` | - | one value wins | | |
//! | `publish` | - | | excluded by the semaphore | excluded by the semaphore |
//!
//! "-" is no lock needed. `get` runs in any context; the others sleep only as their arguments do.

use super::atomic::{
    AtomicPtr,
    AtomicUsize, //
};
use core::{
    marker::PhantomData,
    ptr::null_mut, //
};
use kernel::prelude::*;

/// A value that is made on first use and stays until its owner is dropped.
///
/// # Invariants
///
/// The pointer is null, or came from a box that this value owns. Once set it does not change.
pub(crate) struct PublishOnce<T> {
    pointer: AtomicPtr<T>,
    _owns: PhantomData<KBox<T>>,
}

// SAFETY: owns a `T` that may be dropped elsewhere.
unsafe impl<T: Send> Send for PublishOnce<T> {}
// SAFETY: gives out `&T` on any thread, and takes a `T` in from any thread.
unsafe impl<T: Send + Sync> Sync for PublishOnce<T> {}

// SAFETY: all-zero is the null pointer, which is the state without a value.
unsafe impl<T> pin_init::Zeroable for PublishOnce<T> {}

impl<T> PublishOnce<T> {
    /// Returns a place without a value.
    #[inline]
    pub(crate) const fn new() -> Self {
        // INVARIANT: null.
        Self {
            pointer: AtomicPtr::null(),
            _owns: PhantomData,
        }
    }

    /// Returns the value, if there is one by now.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // ORDERING: acquire, pairs with the exchange of `once::get_or_make`, so that what the
        // pointer leads to was written before.
        let pointer = self.pointer.load_acquire();
        // SAFETY: the invariant: null, or a value that lives as long as `self`.
        unsafe { pointer.as_ref() }
    }

    /// Returns the value; makes it first if there is none.
    ///
    /// Several callers may make one at the same time: one wins, the others drop theirs.
    ///
    /// # Context
    ///
    /// As `make` does; takes no lock.
    ///
    /// # Errors
    ///
    /// Those of `make`, unless somebody else published meanwhile.
    pub(crate) fn get_or_make<E>(
        &self,
        make: impl FnOnce() -> Result<KBox<T>, E>,
    ) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let mine = match make() {
            Ok(value) => KBox::into_raw(value),
            Err(error) => return self.get().ok_or(error),
        };
        // ORDERING: full: its release half pairs with the acquire of `once::get`, its acquire half
        // makes the winner's value readable where the exchange was lost. A failed exchange orders
        // nothing, hence the second look by `get`.
        match self.pointer.cmpxchg_full(null_mut(), mine) {
            // INVARIANT: was null, is a box's pointer now.
            // SAFETY: the value lives as long as `self`.
            Ok(_) => Ok(unsafe { &*mine }),
            Err(_) => {
                // SAFETY: made by `into_raw` above and not published.
                drop(unsafe { KBox::from_raw(mine) });
                // SAFETY: the exchange failed, so the pointer is not null, and then it is constant.
                // ORDERING: acquire, pairs with the winner's exchange in `once::get_or_make`.
                Ok(unsafe { &*self.pointer.load_acquire() })
            }
        }
    }

    /// Takes the value out.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<KBox<T>> {
        // ORDERING: none needed: the exclusive borrow says that nobody else is here.
        let pointer = self.pointer.load_relaxed();
        self.pointer.store_relaxed(null_mut());
        // SAFETY: the invariant: null, or from a box of ours, which is given away here, once.
        (!pointer.is_null()).then(|| unsafe { KBox::from_raw(pointer) })
    }
}

impl<T> Drop for PublishOnce<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The identity of something that keeps others in or out: a disk, a semaphore.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor(usize);

impl Anchor {
    /// Returns the identity of what lives at `address`.
    #[inline]
    pub(super) fn of<T>(address: *const T) -> Self {
        Self(address.addr())
    }
}

/// Something that knows which disk, or which semaphore, it belongs to.
///
/// # Safety
///
/// [`Anchored::anchor`] must name the same thing each time: for all that belongs to one disk the
/// disk, for the guards of one semaphore the semaphore; and never one that is not alive.
pub(crate) unsafe trait Anchored {
    /// Returns the identity of the disk or the semaphore.
    fn anchor(&self) -> Anchor;
}

/// A proof that what is published stays while the proof lives.
///
/// # Safety
///
/// While a value of the type lives there can be no [`ExclusiveProof`] of the same anchor, or no
/// [`WriteProof`] of it, whichever the anchor has.
pub(crate) unsafe trait PinsLive: Anchored {}

/// A proof that the disk of its anchor has no user, and can get none while the proof lives.
///
/// # Safety
///
/// While a value of the type lives there is no [`PinsLive`] of the same anchor.
pub(crate) unsafe trait ExclusiveProof: Anchored {}

/// A proof that the semaphore of its anchor is held for writing.
///
/// # Safety
///
/// While a value of the type lives there is no other guard of the same anchor. A shared borrow of
/// it may serve as [`PinsLive`]; taking back needs the exclusive borrow.
pub(crate) unsafe trait WriteProof: Anchored {}

/// A value that requests find, and that the device can take back.
///
/// # Invariants
///
/// - The pointer is null, or came from a box that this value owns.
/// - While it is not null, `disk` and `lock` are the anchors it was published under. `lock` is set
///   by the first `publish` and never changes: a place belongs to one semaphore.
pub(crate) struct Published<T> {
    pointer: AtomicPtr<T>,
    disk: AtomicUsize,
    lock: AtomicUsize,
    _owns: PhantomData<KBox<T>>,
}

// SAFETY: owns a `T` that may be dropped elsewhere.
unsafe impl<T: Send> Send for Published<T> {}
// SAFETY: gives out `&T` on any thread, and takes a `T` in and out on any thread.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Published<T> {
    /// Returns a place without a value.
    pub(crate) const fn new() -> Self {
        // INVARIANT: null.
        Self {
            pointer: AtomicPtr::null(),
            disk: AtomicUsize::new(0),
            lock: AtomicUsize::new(0),
            _owns: PhantomData,
        }
    }

    /// Makes `value` visible to users of `disk` and to holders of `lock`.
    ///
    /// # Context
    ///
    /// The caller holds the semaphore for writing. Does not sleep.
    ///
    /// # Errors
    ///
    /// The value itself, if there is one already, or the place belongs to another semaphore.
    pub(crate) fn publish(
        &self,
        value: KBox<T>,
        disk: &impl Anchored,
        lock: &mut impl WriteProof,
    ) -> Result<(), KBox<T>> {
        let lock = lock.anchor().0;
        // ORDERING: full; the cell is set once and never changes, so no reader can see it wrong.
        let mine = self
            .lock
            .cmpxchg_full(0, lock)
            .unwrap_or_else(|found| found);
        // ORDERING: relaxed: from here on the write lock of this very semaphore excludes every
        // other `publish` and `retire`, and those are the only ones to change the pointer.
        if (mine != 0 && mine != lock) || !self.pointer.load_relaxed().is_null() {
            return Err(value);
        }
        self.disk.store_relaxed(disk.anchor().0);
        // INVARIANT: both anchors were stored first.
        // ORDERING: release, pairs with the acquire of `once::Published::get`.
        self.pointer.store_release(KBox::into_raw(value));
        Ok(())
    }

    /// Returns the value, if there is one and `proof` is of its disk or its semaphore.
    #[inline]
    pub(crate) fn get<'a>(&'a self, proof: &'a impl PinsLive) -> Option<&'a T> {
        // ORDERING: acquire, pairs with the release of `once::Published::publish`.
        let pointer = self.pointer.load_acquire();
        let anchor = proof.anchor().0;
        if pointer.is_null()
            || (anchor != self.disk.load_relaxed() && anchor != self.lock.load_relaxed())
        {
            return None;
        }
        // SAFETY: the value is dropped by `retire` or with `self` only. `retire` needs an exclusive
        // proof of the disk and the exclusive borrow of a write proof of the semaphore; by their
        // contracts one of them excludes `proof`, which is borrowed as long as the reference lives.
        Some(unsafe { &*pointer })
    }

    /// Takes the value back, if both proofs are of its disk and its semaphore.
    ///
    /// # Context
    ///
    /// The caller holds the claim, and the semaphore for writing. Does not sleep.
    pub(crate) fn retire(
        &self,
        disk: &impl ExclusiveProof,
        lock: &mut impl WriteProof,
    ) -> Option<KBox<T>> {
        if disk.anchor().0 != self.disk.load_relaxed()
            || lock.anchor().0 != self.lock.load_relaxed()
        {
            return None;
        }
        // ORDERING: full: everything that former readers did is over, by the proofs; later readers
        // see null.
        let pointer = self.pointer.swap_full(null_mut());
        // SAFETY: the invariant; no reader is left and none can come, as in `get`.
        (!pointer.is_null()).then(|| unsafe { KBox::from_raw(pointer) })
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // ORDERING: none needed: dropping is exclusive.
        let pointer = self.pointer.load_relaxed();
        if !pointer.is_null() {
            // SAFETY: the invariant, and the exclusive borrow.
            drop(unsafe { KBox::from_raw(pointer) });
        }
    }
}
