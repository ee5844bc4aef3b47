// SPDX-License-Identifier: GPL-2.0

//! What a lock in one bit of a word needs from the kernel: how to wait for it, whom to wake, and what
//! lockdep is told.
//!
//! The bit itself belongs to `device/slot_word.rs`, whose protocol sets and clears it together with
//! other bits of the word. Here is only what that pure file cannot know.
//!
//! # Protocol
//!
//! - To take: [`note_acquire`], then set the bit; while it is set by somebody else, [`wait`].
//! - To try: set the bit, then [`note_acquire`] if that worked.
//! - To leave: [`note_release`], clear the bit, then [`after_unlock`].
//! - A holder is inside a [`super::preempt::Section`] or otherwise not preempted, so a waiter waits
//!   for a few microseconds of work only. It spins.
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

use super::atomic::AtomicU64;

/// Spins until the bit is seen clear; reading alone leaves the cache line with the holder.
///
/// # Context
///
/// Inside of a section.
#[cfg(not(CONFIG_PREEMPT_RT))]
pub(crate) fn wait(word: &AtomicU64, bit: u32) {
    while word.load_relaxed() & mask(bit) != 0 {
        super::atomic::cpu_relax();
    }
}

/// Sleeps until the bit is seen clear.
///
/// # Context
///
/// Inside of a section, which on this kernel may sleep.
#[cfg(CONFIG_PREEMPT_RT)]
pub(crate) fn wait(word: &AtomicU64, bit: u32) {
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

/// Tells lockdep that this thread takes a lock; `by_try` if it would not have waited.
///
/// # Context
///
/// Any.
#[inline]
pub(crate) fn note_acquire(by_try: bool) {
    lockdep::acquire(by_try);
}

/// Tells lockdep that the holder is about to clear the bit.
///
/// # Context
///
/// Any.
#[inline]
pub(crate) fn note_release() {
    lockdep::release();
}

/// Wakes who sleeps for the bit, after the holder cleared it.
///
/// The word may belong to another holder by now; only its address is used.
///
/// # Context
///
/// Any.
#[inline]
pub(crate) fn after_unlock(word: &AtomicU64, bit: u32) {
    #[cfg(CONFIG_PREEMPT_RT)]
    {
        // The bit was cleared by a release; the look at the waiters must not come before it.
        super::atomic::smp_mb();
        let bit = kernel::ffi::c_int::try_from(bit).unwrap_or(0);
        // SAFETY: the address only selects a wait queue.
        unsafe { kernel::bindings::wake_up_bit(word.as_word_ptr(), bit) };
    }
    #[cfg(not(CONFIG_PREEMPT_RT))]
    let _ = (word, bit);
}

/// Returns the word with only bit `bit` set.
#[cfg(not(CONFIG_PREEMPT_RT))]
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
