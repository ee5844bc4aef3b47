// SPDX-License-Identifier: GPL-2.0

//! The kernel's read-write semaphore around a value.
//!
//! The kernel crate has none. Many readers or one writer; a writer that waits keeps new readers
//! out, so a thread that holds a read guard must not ask for another.
//!
//! # Who may run with whom
//!
//! | | `read` | `write` |
//! |---|---|---|
//! | `read` | - | waits |
//! | `write` | waits | waits |
//!
//! Everything here is for task context and may sleep; the `try_` forms do not wait for the lock.
//! Lockdep knows each semaphore by the class given to [`RwSem::new`].

use super::once::{
    Anchor,
    Anchored,
    PinsLive,
    WriteProof, //
};
use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    }, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::LockClassKey,
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

/// A value that many may read or one may change; waiting sleeps.
///
/// # Invariants
///
/// `sem` is an initialized C semaphore. `value` is written only by its write holder, and read only
/// by a holder.
///
/// C counterpart: `struct rw_semaphore`, `include/linux/rwsem.h`.
#[pin_data]
pub(crate) struct RwSem<T> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the semaphore.
unsafe impl<T: Send> Send for RwSem<T> {}
// SAFETY: readers on several threads share `&T`, a writer on any thread has `&mut T`.
unsafe impl<T: Send + Sync> Sync for RwSem<T> {}

impl<T> RwSem<T> {
    /// Returns an initializer for a free semaphore around `value`.
    ///
    /// `name` and `class` are lockdep's; the class is one for each kind of semaphore, made by
    /// `static_lock_class!()`.
    pub(crate) fn new(
        value: T,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: initialized here.
            sem <- Opaque::ffi_init(move |sem| {
                // SAFETY: `sem` is memory for a semaphore; name and class live for ever.
                unsafe { bindings::__init_rwsem(sem, name.as_char_ptr(), class.as_ptr()) }
            }),
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until no writer is inside, and enters as a reader.
    ///
    /// # Context
    ///
    /// May sleep.
    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: the invariant; task context is the caller's.
        unsafe { bindings::down_read(self.sem.get()) };
        ReadGuard::new(self)
    }

    /// Enters as a reader if no writer is inside or waiting.
    ///
    /// # Context
    ///
    /// Does not sleep.
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        // SAFETY: the invariant.
        let taken = unsafe { bindings::down_read_trylock(self.sem.get()) } != 0;
        taken.then(|| ReadGuard::new(self))
    }

    /// Waits until nobody is inside, and enters as the writer.
    ///
    /// # Context
    ///
    /// May sleep.
    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: the invariant; task context is the caller's.
        unsafe { bindings::down_write(self.sem.get()) };
        WriteGuard::new(self)
    }

    /// Enters as the writer if nobody is inside.
    ///
    /// # Context
    ///
    /// Does not sleep.
    pub(crate) fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        // SAFETY: the invariant.
        let taken = unsafe { bindings::down_write_trylock(self.sem.get()) } != 0;
        taken.then(|| WriteGuard::new(self))
    }

    /// As [`Self::write`], but gives up when the task is killed.
    ///
    /// # Context
    ///
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EINTR` if a fatal signal came.
    pub(crate) fn write_killable(&self) -> Result<WriteGuard<'_, T>> {
        // SAFETY: the invariant; task context is the caller's.
        kernel::error::to_result(unsafe { bindings::down_write_killable(self.sem.get()) })?;
        Ok(WriteGuard::new(self))
    }

    /// Returns the identity of the semaphore.
    fn anchor(&self) -> Anchor {
        Anchor::of(self.sem.get())
    }
}

/// The right to read the value.
#[must_use = "the semaphore is left when the guard is dropped"]
pub(crate) struct ReadGuard<'a, T> {
    lock: &'a RwSem<T>,
    _thread: NotThreadSafe,
}

impl<'a, T> ReadGuard<'a, T> {
    /// Returns a guard for a semaphore that was just entered for reading.
    fn new(lock: &'a RwSem<T>) -> Self {
        Self {
            lock,
            _thread: NotThreadSafe,
        }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: held for reading, so there is no writer.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: entered for reading by this thread.
        unsafe { bindings::up_read(self.lock.sem.get()) };
    }
}

/// The right to change the value.
#[must_use = "the semaphore is left when the guard is dropped"]
pub(crate) struct WriteGuard<'a, T> {
    lock: &'a RwSem<T>,
    _thread: NotThreadSafe,
}

impl<'a, T> WriteGuard<'a, T> {
    /// Returns a guard for a semaphore that was just entered for writing.
    fn new(lock: &'a RwSem<T>) -> Self {
        Self {
            lock,
            _thread: NotThreadSafe,
        }
    }

    /// Lets other readers in and goes on as one.
    ///
    /// # Context
    ///
    /// Does not sleep.
    pub(crate) fn downgrade(self) -> ReadGuard<'a, T> {
        let lock = self.lock;
        core::mem::forget(self);
        // SAFETY: held for writing by this thread; the guard that would leave was forgotten.
        unsafe { bindings::downgrade_write(lock.sem.get()) };
        ReadGuard::new(lock)
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: held for writing, so nobody else is inside.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: held for writing, so nobody else is inside.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: entered for writing by this thread.
        unsafe { bindings::up_write(self.lock.sem.get()) };
    }
}

// SAFETY: the semaphore's address, which is pinned and borrowed by the guard.
unsafe impl<T> Anchored for ReadGuard<'_, T> {
    fn anchor(&self) -> Anchor {
        self.lock.anchor()
    }
}

// SAFETY: as for the read guard.
unsafe impl<T> Anchored for WriteGuard<'_, T> {
    fn anchor(&self) -> Anchor {
        self.lock.anchor()
    }
}

// SAFETY: no writer is inside while a reader is.
unsafe impl<T> PinsLive for ReadGuard<'_, T> {}

// SAFETY: nobody else is inside while a writer is, and `retire` needs this guard exclusively.
unsafe impl<T> PinsLive for WriteGuard<'_, T> {}

// SAFETY: nobody else is inside while a writer is.
unsafe impl<T> WriteProof for WriteGuard<'_, T> {}
