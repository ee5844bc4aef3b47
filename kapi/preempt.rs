// SPDX-License-Identifier: GPL-2.0

//! A section that is not preempted, for locks that nobody should wait for long.
//!
//! The kernel offers Rust no switch for preemption, but a spin lock's holder is not preempted. So a
//! section holds a spin lock of the CPU's own, which nobody else wants and which therefore costs
//! two atomic operations on a cache line that stays with the CPU.
//!
//! # Protocol
//!
//! 1. The thread reads which CPU it runs on and takes that CPU's lock. If it moves in between it
//!    holds another CPU's lock, which serves as well: that CPU's next section waits for this one.
//! 2. Sections do not nest: a second one on the same CPU would wait for itself. Lockdep says so.
//! 3. No interrupt handler enters a section, so interrupts stay as they are.
//!
//! The locks are in the module's static per-CPU data. They exist before `init` and after the last
//! drop, all-zero is an unlocked spin lock, and so [`Section::enter`] needs no argument and cannot
//! fail. [`Locks::new`] gives them their lockdep class; only a debugging kernel sees a difference.
//!
//! # PREEMPT_RT
//!
//! There a spin lock sleeps: a section can be preempted, though it stays on its CPU, and a waiter
//! lends its priority. Code in a section may wait for what the holder of another section holds.
//!
//! # Context
//!
//! Task context, interrupts on or off. No sleep, no allocation with sleep, no second section
//! inside.

use super::percpu::{
    of_cookie,
    possible,
    this_cookie, //
};
use core::cell::UnsafeCell;
use kernel::{
    bindings,
    prelude::*,
    static_lock_class,
    types::NotThreadSafe, //
};

/// One CPU's lock, on a cache line of its own.
#[repr(C, align(64))]
struct CpuLock(UnsafeCell<bindings::spinlock_t>);

// SAFETY: a spin lock is made to be used by several threads.
unsafe impl Sync for CpuLock {}

/// The lock of each CPU. The module loader makes the copies; this one is only their pattern.
#[cfg_attr(CONFIG_SMP, link_section = ".data..percpu")]
static LOCKS: CpuLock = CpuLock(UnsafeCell::new(pin_init::zeroed()));

/// Returns the per-CPU name of the locks.
#[inline]
fn cookie() -> *mut bindings::spinlock_t {
    LOCKS.0.get()
}

/// The locks' place in the order of locks, which debugging kernels check.
///
/// Make it once, first thing in the module's `init`. Dropping it does nothing.
pub(crate) struct Locks(());

impl Locks {
    /// Gives each CPU's lock its name and lockdep class.
    ///
    /// # Context
    ///
    /// Before any section is entered.
    ///
    /// # Errors
    ///
    /// None today; the type leaves room for a kernel where locks have to be allocated.
    pub(crate) fn new() -> Result<Self> {
        for cpu in possible() {
            // SAFETY:
            // - The cookie names a per-CPU lock of ours; no section is entered yet.
            // - Name and class live as long as the module.
            unsafe {
                bindings::__spin_lock_init(
                    of_cookie(cookie(), cpu),
                    c"rzram section".as_char_ptr(),
                    static_lock_class!().as_ptr(),
                )
            };
        }
        Ok(Self(()))
    }
}

/// A section of code that is not preempted until the guard is dropped.
#[must_use = "the section ends when the guard is dropped"]
pub(crate) struct Section {
    lock: *mut bindings::spinlock_t,
    _thread: NotThreadSafe,
}

impl Section {
    /// Enters the section.
    ///
    /// # Context
    ///
    /// Task context, interrupts on or off, not inside of another section. Takes this CPU's lock and
    /// waits at most for one section of a thread that moved. On PREEMPT_RT it may sleep.
    #[inline]
    pub(crate) fn enter() -> Self {
        // SAFETY: the cookie names a per-CPU lock of ours; which CPU's does not matter.
        let lock = unsafe { this_cookie(cookie()) };
        // SAFETY: the lock exists as long as the module; all-zero or initialized, it is usable.
        unsafe { bindings::spin_lock(lock) };
        Self {
            lock,
            _thread: NotThreadSafe,
        }
    }

    /// Checks, on debugging kernels, that this thread is in the section.
    #[inline]
    pub(crate) fn assert_held(&self) {
        // SAFETY: the lock exists as long as the module.
        unsafe { bindings::spin_assert_is_held(self.lock) };
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: taken in `enter` by this very thread, since the guard does not leave it.
        unsafe { bindings::spin_unlock(self.lock) };
    }
}
