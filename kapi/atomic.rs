// SPDX-License-Identifier: GPL-2.0

//! The one door to atomic operations.
//!
//! Everything above this file names the types here and never `core::sync::atomic` or the kernel's
//! `Atomic`. The host crate puts a file of the same names in this place, over `std` or over loom,
//! so that pure files and their protocols are tested as they are.
//!
//! # Memory model
//!
//! The kernel's (LKMM). The order is part of a method's name:
//!
//! | suffix | C partner | orders |
//! |---|---|---|
//! | `_relaxed` | `atomic64_*_relaxed()`, `READ_ONCE()`, `WRITE_ONCE()` | the cell itself only |
//! | `_acquire` | `smp_load_acquire()`, `*_acquire()` | what follows comes after |
//! | `_release` | `smp_store_release()`, `*_release()` | what precedes comes before |
//! | `_full` | `atomic64_*()` without suffix | everything, like a full barrier on both sides |
//!
//! A failed compare-and-exchange orders nothing.
//!
//! # Why not the kernel crate alone
//!
//! It has no and/or, and each of its operations is a call into a C helper. Relaxed loads and stores
//! of machine words are volatile accesses on every 64-bit machine, so they are made inline here;
//! `atomic_word.rs` does the like for the rest where the processor allows it.
//!
//! # Who may run with whom
//!
//! Any context, any CPU, interrupts on or off. Nothing here sleeps, allocates or fails.

use super::{
    atomic_word::{
        pointer_acquire,
        Half,
        Word, //
    },
    num::{
        u64_to_usize,
        usize_to_u64, //
    }, //
};
use kernel::{
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

/// Returns its argument, where a cell holds the number as it is.
#[inline(always)]
const fn same<T: Copy>(value: T) -> T {
    value
}

/// Defines one integer facade: its name, its number, the cell, and the ways into and out of it.
macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $int:ty, $cell:ty, $into:ident, $from:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub(crate) struct $name($cell);

        // SAFETY: a cell is its integer in memory, and zero is a value of every integer.
        unsafe impl pin_init::Zeroable for $name {}

        // Not every width needs every order; the set is the same so that a cell may change its
        // width without a change here.
        #[allow(dead_code)]
        impl $name {
            /// Returns a new cell that holds `value`.
            #[inline]
            pub(crate) const fn new(value: $int) -> Self {
                Self(<$cell>::new($into(value)))
            }

            /// Returns the value.
            #[inline]
            pub(crate) fn load_relaxed(&self) -> $int {
                // SAFETY:
                // - The pointer comes from a live cell: valid and aligned.
                // - A volatile read of an aligned word is `READ_ONCE()`, which LKMM counts as an
                //   atomic access, so a concurrent write is no data race.
                $from(unsafe { self.0.as_ptr().read_volatile() })
            }

            /// Sets the value.
            #[inline]
            pub(crate) fn store_relaxed(&self, value: $int) {
                // SAFETY:
                // - The pointer comes from a live cell: valid and aligned.
                // - A volatile write of an aligned word is `WRITE_ONCE()`, an atomic access under
                //   LKMM; 64-bit machines need no lock for it against read-modify-write.
                unsafe { self.0.as_ptr().write_volatile($into(value)) }
            }

            /// Returns the value; pairs with a release of the same cell.
            #[inline]
            pub(crate) fn load_acquire(&self) -> $int {
                $from(self.0.load_acquire())
            }

            /// Sets the value; pairs with an acquire of the same cell.
            #[inline]
            pub(crate) fn store_release(&self, value: $int) {
                self.0.store_release($into(value))
            }

            /// Sets the value and returns the old one.
            #[inline]
            pub(crate) fn swap_full(&self, value: $int) -> $int {
                $from(self.0.swap($into(value), Full))
            }

            /// Sets the value and returns the old one, with acquire order.
            #[inline]
            pub(crate) fn swap_acquire(&self, value: $int) -> $int {
                $from(self.0.swap($into(value), Acquire))
            }

            /// Sets the value and returns the old one, with release order.
            #[inline]
            pub(crate) fn swap_release(&self, value: $int) -> $int {
                $from(self.0.swap($into(value), Release))
            }

            /// Sets the value and returns the old one, without any order.
            #[inline]
            pub(crate) fn swap_relaxed(&self, value: $int) -> $int {
                $from(self.0.swap($into(value), Relaxed))
            }

            /// Replaces `old` by `new`; returns the old value, or the one found instead.
            #[inline]
            pub(crate) fn cmpxchg_full(&self, old: $int, new: $int) -> Result<$int, $int> {
                match self.0.cmpxchg($into(old), $into(new), Full) {
                    Ok(before) => Ok($from(before)),
                    Err(found) => Err($from(found)),
                }
            }

            /// As [`Self::cmpxchg_full`], with acquire order.
            #[inline]
            pub(crate) fn cmpxchg_acquire(&self, old: $int, new: $int) -> Result<$int, $int> {
                match self.0.cmpxchg($into(old), $into(new), Acquire) {
                    Ok(before) => Ok($from(before)),
                    Err(found) => Err($from(found)),
                }
            }

            /// As [`Self::cmpxchg_full`], with release order.
            #[inline]
            pub(crate) fn cmpxchg_release(&self, old: $int, new: $int) -> Result<$int, $int> {
                match self.0.cmpxchg($into(old), $into(new), Release) {
                    Ok(before) => Ok($from(before)),
                    Err(found) => Err($from(found)),
                }
            }

            /// As [`Self::cmpxchg_full`], without any order.
            #[inline]
            pub(crate) fn cmpxchg_relaxed(&self, old: $int, new: $int) -> Result<$int, $int> {
                match self.0.cmpxchg($into(old), $into(new), Relaxed) {
                    Ok(before) => Ok($from(before)),
                    Err(found) => Err($from(found)),
                }
            }

            /// Adds, wrapping, and returns the old value.
            #[inline]
            pub(crate) fn fetch_add_full(&self, value: $int) -> $int {
                $from(self.0.fetch_add($into(value), Full))
            }

            /// Adds, wrapping, and returns the old value, without any order.
            #[inline]
            pub(crate) fn fetch_add_relaxed(&self, value: $int) -> $int {
                $from(self.0.fetch_add($into(value), Relaxed))
            }

            /// Subtracts, wrapping, and returns the old value.
            #[inline]
            pub(crate) fn fetch_sub_full(&self, value: $int) -> $int {
                $from(self.0.fetch_add($into(value).wrapping_neg(), Full))
            }

            /// Subtracts, wrapping, and returns the old value, with release order.
            #[inline]
            pub(crate) fn fetch_sub_release(&self, value: $int) -> $int {
                $from(self.0.fetch_add($into(value).wrapping_neg(), Release))
            }

            /// Subtracts, wrapping, and returns the old value, without any order.
            #[inline]
            pub(crate) fn fetch_sub_relaxed(&self, value: $int) -> $int {
                $from(self.0.fetch_add($into(value).wrapping_neg(), Relaxed))
            }

            /// Raises the value to at least `value`, without any order, and returns the old one.
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
    u64,
    Word,
    same,
    same
);
integer!(
    /// A cell of the machine's word.
    AtomicUsize,
    usize,
    Word,
    usize_to_u64,
    u64_to_usize
);
integer!(
    /// A 32-bit cell.
    AtomicU32,
    u32,
    Half,
    same,
    same
);

#[allow(dead_code)]
impl AtomicU64 {
    /// Returns the address of the word, for C code that works on its bits.
    #[inline]
    pub(super) const fn as_word_ptr(&self) -> *mut kernel::ffi::c_ulong {
        self.0.as_ptr().cast()
    }

    /// Sets the bits of `mask` and returns the old value.
    #[inline]
    pub(crate) fn fetch_or_full(&self, mask: u64) -> u64 {
        self.0.fetch_or(mask, Full)
    }

    /// Sets the bits of `mask` and returns the old value, with acquire order.
    #[inline]
    pub(crate) fn fetch_or_acquire(&self, mask: u64) -> u64 {
        self.0.fetch_or(mask, Acquire)
    }

    /// Sets the bits of `mask` and returns the old value, without any order.
    #[inline]
    pub(crate) fn fetch_or_relaxed(&self, mask: u64) -> u64 {
        self.0.fetch_or(mask, Relaxed)
    }

    /// Keeps only the bits of `mask` and returns the old value.
    #[inline]
    pub(crate) fn fetch_and_full(&self, mask: u64) -> u64 {
        self.0.fetch_and(mask, Full)
    }

    /// Keeps only the bits of `mask` and returns the old value, with release order.
    #[inline]
    pub(crate) fn fetch_and_release(&self, mask: u64) -> u64 {
        self.0.fetch_and(mask, Release)
    }

    /// Keeps only the bits of `mask` and returns the old value, without any order.
    #[inline]
    pub(crate) fn fetch_and_relaxed(&self, mask: u64) -> u64 {
        self.0.fetch_and(mask, Relaxed)
    }
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
        // SAFETY: a live cell that only ever holds a `bool`; a volatile read is `READ_ONCE()`.
        unsafe { self.0.as_ptr().read_volatile() }
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
        // SAFETY: a live, aligned cell; a volatile read of a word is `READ_ONCE()`.
        unsafe { self.0.as_ptr().read_volatile() }
    }

    /// Returns the pointer; pairs with a release of the same cell.
    #[inline]
    pub(crate) fn load_acquire(&self) -> *mut T {
        pointer_acquire(&self.0)
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

/// Where a protocol leans on the operation before it being a full barrier, as all `_full` ones are.
///
/// No instruction. The host's models, whose operations are weaker, have a barrier here.
#[inline]
pub(crate) fn after_full() {}

/// A full barrier between what precedes and what follows, as seen by all CPUs.
#[inline]
#[allow(dead_code)]
pub(crate) fn smp_mb() {
    barrier::smp_mb(Full);
}
