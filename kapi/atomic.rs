// SPDX-License-Identifier: GPL-2.0

//! The one door to atomic operations.
//!
//! Everything above this file names the types here and never `core::sync::atomic` or the kernel's
//! `Atomic`. The host crate puts a file of the same names in this place, over `std` or over loom, so
//! that pure files and their protocols are tested as they are.
//!
//! # Memory model
//!
//! The kernel's (LKMM). The order is part of a method's name:
//!
//! | suffix | C partner | orders |
//! |---|---|---|
//! | `_relaxed` | `atomic64_*_relaxed()`, `READ_ONCE()`, `WRITE_ONCE()` | nothing but the cell itself |
//! | `_acquire` | `smp_load_acquire()`, `*_acquire()` | what follows comes after |
//! | `_release` | `smp_store_release()`, `*_release()` | what precedes comes before |
//! | `_full` | `atomic64_*()` without suffix | everything, like a full barrier on both sides |
//!
//! A failed compare-and-exchange orders nothing.
//!
//! # Why not the kernel crate alone
//!
//! It has no and/or/not, and each of its loads and stores is a call into a C helper. Relaxed loads
//! and stores of machine words are volatile accesses on every 64-bit machine, so they are made
//! inline here; everything else goes through the kernel crate or its helpers.
//!
//! # Who may run with whom
//!
//! Any context, any CPU, interrupts on or off. Nothing here sleeps, allocates or fails.

use kernel::{
    bindings,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        barrier, //
    }, //
};

/// Defines one integer facade; `$int` must be as wide as a register or as an `int`.
macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub(crate) struct $name(Atomic<$int>);

        // Not every width needs every order; the set is the same so that a cell may change its
        // width without a change here.
        #[allow(dead_code)]
        impl $name {
            /// Returns a new cell that holds `value`.
            #[inline]
            pub(crate) const fn new(value: $int) -> Self {
                Self(Atomic::new(value))
            }

            /// Returns the value.
            #[inline]
            pub(crate) fn load_relaxed(&self) -> $int {
                // SAFETY:
                // - The pointer comes from a live cell: valid and aligned.
                // - A volatile read of an aligned word is `READ_ONCE()`, which LKMM counts as an
                //   atomic access, so a concurrent write is no data race.
                unsafe { self.0.as_ptr().read_volatile() }
            }

            /// Returns the value; pairs with a release of the same cell.
            #[inline]
            pub(crate) fn load_acquire(&self) -> $int {
                self.0.load(Acquire)
            }

            /// Sets the value.
            #[inline]
            pub(crate) fn store_relaxed(&self, value: $int) {
                // SAFETY:
                // - The pointer comes from a live cell: valid and aligned.
                // - A volatile write of an aligned word is `WRITE_ONCE()`, an atomic access under
                //   LKMM; 64-bit machines need no lock for it against read-modify-write.
                unsafe { self.0.as_ptr().write_volatile(value) }
            }

            /// Sets the value; pairs with an acquire of the same cell.
            #[inline]
            pub(crate) fn store_release(&self, value: $int) {
                self.0.store(value, Release)
            }

            /// Sets the value and returns the old one.
            #[inline]
            pub(crate) fn swap_full(&self, value: $int) -> $int {
                self.0.xchg(value, Full)
            }

            /// Sets the value and returns the old one, with acquire order.
            #[inline]
            pub(crate) fn swap_acquire(&self, value: $int) -> $int {
                self.0.xchg(value, Acquire)
            }

            /// Sets the value and returns the old one, with release order.
            #[inline]
            pub(crate) fn swap_release(&self, value: $int) -> $int {
                self.0.xchg(value, Release)
            }

            /// Sets the value and returns the old one, without any order.
            #[inline]
            pub(crate) fn swap_relaxed(&self, value: $int) -> $int {
                self.0.xchg(value, Relaxed)
            }

            /// Replaces `old` by `new`; returns the old value, or the one found instead.
            #[inline]
            pub(crate) fn cmpxchg_full(&self, old: $int, new: $int) -> Result<$int, $int> {
                self.0.cmpxchg(old, new, Full)
            }

            /// As [`Self::cmpxchg_full`], with acquire order.
            #[inline]
            pub(crate) fn cmpxchg_acquire(&self, old: $int, new: $int) -> Result<$int, $int> {
                self.0.cmpxchg(old, new, Acquire)
            }

            /// As [`Self::cmpxchg_full`], with release order.
            #[inline]
            pub(crate) fn cmpxchg_release(&self, old: $int, new: $int) -> Result<$int, $int> {
                self.0.cmpxchg(old, new, Release)
            }

            /// As [`Self::cmpxchg_full`], without any order.
            #[inline]
            pub(crate) fn cmpxchg_relaxed(&self, old: $int, new: $int) -> Result<$int, $int> {
                self.0.cmpxchg(old, new, Relaxed)
            }

            /// Adds, wrapping, and returns the old value.
            #[inline]
            pub(crate) fn fetch_add_full(&self, value: $int) -> $int {
                self.0.fetch_add(value, Full)
            }

            /// Adds, wrapping, and returns the old value, without any order.
            #[inline]
            pub(crate) fn fetch_add_relaxed(&self, value: $int) -> $int {
                self.0.fetch_add(value, Relaxed)
            }

            /// Subtracts, wrapping, and returns the old value.
            #[inline]
            pub(crate) fn fetch_sub_full(&self, value: $int) -> $int {
                self.0.fetch_sub(value, Full)
            }

            /// Subtracts, wrapping, and returns the old value, with release order.
            #[inline]
            pub(crate) fn fetch_sub_release(&self, value: $int) -> $int {
                self.0.fetch_sub(value, Release)
            }

            /// Subtracts, wrapping, and returns the old value, without any order.
            #[inline]
            pub(crate) fn fetch_sub_relaxed(&self, value: $int) -> $int {
                self.0.fetch_sub(value, Relaxed)
            }

            /// Raises the value to at least `value`, without any order.
            ///
            /// Costs one load when there is nothing to raise, so it suits high-water marks.
            #[inline]
            pub(crate) fn fetch_max_relaxed(&self, value: $int) -> $int {
                let mut now = self.load_relaxed();
                while now < value {
                    match self.cmpxchg_relaxed(now, value) {
                        Ok(old) => return old,
                        Err(found) => now = found,
                    }
                }
                now
            }
        }
    };
}

integer!(
    /// A 64-bit cell.
    AtomicU64,
    u64
);
integer!(
    /// A 32-bit cell.
    AtomicU32,
    u32
);
integer!(
    /// A cell of the machine's word.
    AtomicUsize,
    usize
);

#[allow(dead_code)]
impl AtomicU64 {
    /// Returns the address as the C helpers want it.
    #[inline]
    fn as_c(&self) -> *mut bindings::atomic64_t {
        self.0.as_ptr().cast()
    }

    /// Returns the address of the word, for C code that works on its bits.
    #[inline]
    pub(super) fn as_word_ptr(&self) -> *mut kernel::ffi::c_ulong {
        self.0.as_ptr().cast()
    }

    /// Sets the bits of `mask` and returns the old value.
    #[inline]
    pub(crate) fn fetch_or_full(&self, mask: u64) -> u64 {
        // SAFETY: `as_c` is the address of a live, aligned `atomic64_t`.
        let old = unsafe { bindings::atomic64_fetch_or(to_signed(mask), self.as_c()) };
        to_unsigned(old)
    }

    /// Sets the bits of `mask` and returns the old value, with acquire order.
    #[inline]
    pub(crate) fn fetch_or_acquire(&self, mask: u64) -> u64 {
        // SAFETY: `as_c` is the address of a live, aligned `atomic64_t`.
        let old = unsafe { bindings::atomic64_fetch_or_acquire(to_signed(mask), self.as_c()) };
        to_unsigned(old)
    }

    /// Sets the bits of `mask` and returns the old value, without any order.
    #[inline]
    pub(crate) fn fetch_or_relaxed(&self, mask: u64) -> u64 {
        // SAFETY: `as_c` is the address of a live, aligned `atomic64_t`.
        let old = unsafe { bindings::atomic64_fetch_or_relaxed(to_signed(mask), self.as_c()) };
        to_unsigned(old)
    }

    /// Keeps only the bits of `mask` and returns the old value.
    #[inline]
    pub(crate) fn fetch_and_full(&self, mask: u64) -> u64 {
        // SAFETY: `as_c` is the address of a live, aligned `atomic64_t`.
        let old = unsafe { bindings::atomic64_fetch_and(to_signed(mask), self.as_c()) };
        to_unsigned(old)
    }

    /// Keeps only the bits of `mask` and returns the old value, with release order.
    #[inline]
    pub(crate) fn fetch_and_release(&self, mask: u64) -> u64 {
        // SAFETY: `as_c` is the address of a live, aligned `atomic64_t`.
        let old = unsafe { bindings::atomic64_fetch_and_release(to_signed(mask), self.as_c()) };
        to_unsigned(old)
    }

    /// Keeps only the bits of `mask` and returns the old value, without any order.
    #[inline]
    pub(crate) fn fetch_and_relaxed(&self, mask: u64) -> u64 {
        // SAFETY: `as_c` is the address of a live, aligned `atomic64_t`.
        let old = unsafe { bindings::atomic64_fetch_and_relaxed(to_signed(mask), self.as_c()) };
        to_unsigned(old)
    }
}

// SAFETY: A cell is its integer in memory, and zero is a value of every integer.
unsafe impl pin_init::Zeroable for AtomicU64 {}
// SAFETY: As for `AtomicU64`.
unsafe impl pin_init::Zeroable for AtomicU32 {}
// SAFETY: As for `AtomicU64`.
unsafe impl pin_init::Zeroable for AtomicUsize {}

/// Returns the same bits as the signed type of the C helpers.
#[inline]
const fn to_signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

/// Returns the same bits as the unsigned type of this crate.
#[inline]
const fn to_unsigned(bits: i64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes())
}

/// A flag.
#[repr(transparent)]
pub(crate) struct AtomicBool(Atomic<bool>);

#[allow(dead_code)]
impl AtomicBool {
    /// Returns a new flag.
    #[inline]
    pub(crate) const fn new(value: bool) -> Self {
        Self(Atomic::new(value))
    }

    /// Returns the flag.
    #[inline]
    pub(crate) fn load_relaxed(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns the flag; pairs with a release of the same flag.
    #[inline]
    pub(crate) fn load_acquire(&self) -> bool {
        self.0.load(Acquire)
    }

    /// Sets the flag.
    #[inline]
    pub(crate) fn store_relaxed(&self, value: bool) {
        self.0.store(value, Relaxed)
    }

    /// Sets the flag; pairs with an acquire of the same flag.
    #[inline]
    pub(crate) fn store_release(&self, value: bool) {
        self.0.store(value, Release)
    }

    /// Sets the flag and returns the old one.
    #[inline]
    pub(crate) fn swap_full(&self, value: bool) -> bool {
        self.0.xchg(value, Full)
    }

    /// Sets the flag and returns the old one, with acquire order.
    #[inline]
    pub(crate) fn swap_acquire(&self, value: bool) -> bool {
        self.0.xchg(value, Acquire)
    }
}

/// A pointer that several contexts exchange.
///
/// Says nothing about what it points at: who stores a pointer and who follows it agree elsewhere.
#[repr(transparent)]
pub(crate) struct AtomicPtr<T>(Atomic<*mut T>);

#[allow(dead_code)]
impl<T> AtomicPtr<T> {
    /// Returns a new cell that holds `pointer`.
    #[inline]
    pub(crate) const fn new(pointer: *mut T) -> Self {
        Self(Atomic::new(pointer))
    }

    /// Returns a new cell that holds no pointer.
    #[inline]
    pub(crate) const fn null() -> Self {
        Self::new(core::ptr::null_mut())
    }

    /// Returns the pointer.
    #[inline]
    pub(crate) fn load_relaxed(&self) -> *mut T {
        self.0.load(Relaxed)
    }

    /// Returns the pointer; pairs with a release of the same cell.
    #[inline]
    pub(crate) fn load_acquire(&self) -> *mut T {
        self.0.load(Acquire)
    }

    /// Sets the pointer.
    #[inline]
    pub(crate) fn store_relaxed(&self, pointer: *mut T) {
        self.0.store(pointer, Relaxed)
    }

    /// Sets the pointer; pairs with an acquire of the same cell.
    #[inline]
    pub(crate) fn store_release(&self, pointer: *mut T) {
        self.0.store(pointer, Release)
    }

    /// Sets the pointer and returns the old one.
    #[inline]
    pub(crate) fn swap_full(&self, pointer: *mut T) -> *mut T {
        self.0.xchg(pointer, Full)
    }

    /// Sets the pointer and returns the old one, with acquire order.
    #[inline]
    pub(crate) fn swap_acquire(&self, pointer: *mut T) -> *mut T {
        self.0.xchg(pointer, Acquire)
    }

    /// Replaces `old` by `new`; returns the old pointer, or the one found instead.
    #[inline]
    pub(crate) fn cmpxchg_full(&self, old: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        self.0.cmpxchg(old, new, Full)
    }

    /// As [`Self::cmpxchg_full`], with acquire order.
    #[inline]
    pub(crate) fn cmpxchg_acquire(&self, old: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        self.0.cmpxchg(old, new, Acquire)
    }

    /// As [`Self::cmpxchg_full`], with release order.
    #[inline]
    pub(crate) fn cmpxchg_release(&self, old: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        self.0.cmpxchg(old, new, Release)
    }
}

/// Tells the processor that this is a spinning loop.
#[inline]
pub(crate) fn cpu_relax() {
    kernel::processor::cpu_relax();
}

/// A full barrier between what precedes and what follows, as seen by all CPUs.
#[inline]
#[allow(dead_code)]
pub(crate) fn smp_mb() {
    barrier::smp_mb(Full);
}
