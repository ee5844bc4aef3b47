// SPDX-License-Identifier: GPL-2.0

//! A lock in one bit of a word whose other bits others may change meanwhile.
//!
//! # Protocol
//!
//! - Who sets the bit, and was the one to set it, holds the lock.
//! - The holder clears the bit by [`unlock`], or by a read-modify-write of its own that changes other
//!   bits with it: [`before_unlock`], the operation, [`after_unlock`].
//! - A holder is inside a [`Section`], so it is not preempted and a waiter waits for a few
//!   microseconds of work only. It spins.
//!
//! # PREEMPT_RT
//!
//! There a section can be preempted, and a waiter of higher priority that spun would spin for ever.
//! It sleeps in the kernel's shared bit wait queues instead, and an unlock looks there.
//!
//! # Lockdep
//!
//! All such locks are one class of lockdep, `rzram slot`. A thread that waits for a second one while
//! it holds one is reported; a try is not.
//!
//! # Orders
//!
//! Taking is an acquire, leaving a release; what the lock protects may be plain or relaxed.
//!
//! # Who may run with whom
//!
//! | | `lock` | `try_lock` | unlock | other bits |
//! |---|---|---|---|---|
//! | any of them | - | - | - | - |
//!
//! "-" is no further lock needed. `lock` is for a [`Section`]; the others run in any context.

use super::{
    atomic::AtomicU64,
    preempt::Section, //
};

/// Takes the lock in bit `bit` of `word` and returns the word as it was before, the bit clear.
///
/// # Context
///
/// Inside of a section, which makes the holding time short. Spins until the lock is free; sleeps on
/// PREEMPT_RT.
#[inline]
pub(crate) fn lock(word: &AtomicU64, bit: u32, section: &Section) -> u64 {
    lockdep::acquire(false);
    // ORDERING: acquire, pairs with the releasing operation of `unlock` or of the holder's own
    // read-modify-write between `before_unlock` and `after_unlock`.
    let old = word.fetch_or_acquire(mask(bit));
    if old & mask(bit) == 0 {
        return old;
    }
    contended(word, bit, section)
}

/// Waits for the lock; out of line, so that the common case stays small.
#[cold]
fn contended(word: &AtomicU64, bit: u32, _section: &Section) -> u64 {
    loop {
        wait(word, bit);
        // ORDERING: acquire, as in `lock`.
        let old = word.fetch_or_acquire(mask(bit));
        if old & mask(bit) == 0 {
            return old;
        }
    }
}

/// Spins until the bit is seen clear; reading alone leaves the cache line with the holder.
#[cfg(not(CONFIG_PREEMPT_RT))]
fn wait(word: &AtomicU64, bit: u32) {
    while word.load_relaxed() & mask(bit) != 0 {
        super::atomic::cpu_relax();
    }
}

/// Sleeps until the bit is seen clear.
#[cfg(CONFIG_PREEMPT_RT)]
fn wait(word: &AtomicU64, bit: u32) {
    use kernel::bindings;
    let bit = kernel::ffi::c_int::try_from(bit).unwrap_or(0);
    // SAFETY: the word is live for the call; the function sleeps until the bit is clear.
    unsafe {
        bindings::out_of_line_wait_on_bit(
            word.as_word_ptr(),
            bit,
            Some(bindings::bit_wait),
            bindings::TASK_UNINTERRUPTIBLE,
        )
    };
}

/// Takes the lock if it is free, and returns the word as it was before.
///
/// # Context
///
/// Any; never waits.
#[inline]
pub(crate) fn try_lock(word: &AtomicU64, bit: u32) -> Option<u64> {
    // A look first leaves the cache line with a holder.
    if word.load_relaxed() & mask(bit) != 0 {
        return None;
    }
    // ORDERING: acquire, as in `lock`.
    let old = word.fetch_or_acquire(mask(bit));
    if old & mask(bit) != 0 {
        return None;
    }
    lockdep::acquire(true);
    Some(old)
}

/// Leaves the lock and returns the word as it was before, the bit set.
///
/// # Context
///
/// Any; the caller holds the lock.
#[inline]
pub(crate) fn unlock(word: &AtomicU64, bit: u32) -> u64 {
    before_unlock();
    // ORDERING: full, and so a release that pairs with `lock` and `try_lock`; the full barrier also
    // orders the clear bit before the look at the waiters on PREEMPT_RT.
    let old = word.fetch_and_full(!mask(bit));
    after_unlock(word, bit);
    old
}

/// Tells lockdep that the holder is about to clear the bit by an operation of its own.
///
/// Once an unlock, also where that operation is tried several times.
#[inline]
pub(crate) fn before_unlock() {
    lockdep::release();
}

/// Wakes who sleeps for the bit, after the holder cleared it by a fully ordered operation.
///
/// The word may belong to another holder by now; only its address is used.
#[inline]
pub(crate) fn after_unlock(word: &AtomicU64, bit: u32) {
    #[cfg(CONFIG_PREEMPT_RT)]
    {
        let bit = kernel::ffi::c_int::try_from(bit).unwrap_or(0);
        // SAFETY: the address only selects a wait queue; the operation before was a full barrier.
        unsafe { kernel::bindings::wake_up_bit(word.as_word_ptr(), bit) };
    }
    #[cfg(not(CONFIG_PREEMPT_RT))]
    let _ = (word, bit);
}

/// Returns the word with only bit `bit` set.
#[inline]
const fn mask(bit: u32) -> u64 {
    1u64.wrapping_shl(bit)
}

/// What lockdep is told.
#[cfg(CONFIG_LOCKDEP)]
mod lockdep {
    use core::cell::UnsafeCell;
    use kernel::{
        bindings,
        sync::LockClassKey, //
    };

    /// The one map that stands for every lock of this kind.
    struct Map(UnsafeCell<bindings::lockdep_map>);

    // SAFETY: lockdep serializes what it does to a map.
    unsafe impl Sync for Map {}

    // SAFETY: static, never dropped.
    static CLASS: LockClassKey = unsafe { LockClassKey::new_static() };

    static MAP: Map = Map(UnsafeCell::new(pin_init::zeroed()));

    /// Returns the map, named and keyed.
    ///
    /// A zeroed map without a key would make a class of its own by its address; the name is set the
    /// same way each time, so threads that do it at once agree.
    fn map() -> *mut bindings::lockdep_map {
        let map = MAP.0.get();
        // SAFETY: the map is static; each write stores the same constants, and lockdep reads them
        // after the call.
        unsafe {
            (&raw mut (*map).name)
                .write_volatile(kernel::str::as_char_ptr_in_const_context(c"rzram slot"));
            (&raw mut (*map).key).write_volatile(CLASS.as_ptr().cast());
        }
        map
    }

    /// Notes that this thread takes a lock; `by_try` if it would not have waited.
    #[track_caller]
    pub(super) fn acquire(by_try: bool) {
        // SAFETY: the map is static and keyed.
        unsafe {
            bindings::lock_acquire(
                map(),
                0,
                i32::from(by_try),
                0,
                1,
                core::ptr::null_mut(),
                address(),
            )
        };
    }

    /// Notes that this thread leaves a lock.
    pub(super) fn release() {
        // SAFETY: the map is static and keyed.
        unsafe { bindings::lock_release(map(), address()) };
    }

    /// Returns an address in this module, for reports.
    fn address() -> kernel::ffi::c_ulong {
        // CAST: an address is a number for a report.
        address as *const () as kernel::ffi::c_ulong
    }
}

/// Without lockdep nothing is told.
#[cfg(not(CONFIG_LOCKDEP))]
mod lockdep {
    #[inline(always)]
    pub(super) fn acquire(_by_try: bool) {}

    #[inline(always)]
    pub(super) fn release() {}
}
