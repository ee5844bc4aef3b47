// SPDX-License-Identifier: GPL-2.0

//! The driver's atomic facade over std's atomics, or over loom's with `--cfg loom`.
//!
//! The kernel's "full" operations order more than `SeqCst` read-modify-writes do (they are full
//! barriers). A protocol that passes here therefore does not lean on that, but where it says so, by
//! [`after_full`].

#![allow(dead_code, reason = "one facade for all pure files")]

#[cfg(loom)]
use loom::sync::atomic;
#[cfg(not(loom))]
use std::sync::atomic;

use atomic::Ordering::AcqRel;
use atomic::Ordering::Acquire;
use atomic::Ordering::Relaxed;
use atomic::Ordering::Release;
use atomic::Ordering::SeqCst;

/// Tells the processor, or the model, that the caller waits for somebody else.
pub(crate) fn cpu_relax() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Orders everything before it against everything after it.
pub(crate) fn smp_mb() {
    atomic::fence(SeqCst);
}

/// Where a protocol leans on the operation before it being a full barrier, as the kernel's are.
pub(crate) fn after_full() {
    smp_mb();
}

macro_rules! facade {
    ($name:ident, $value:ty) => {
        /// An integer with the operations of the driver's facade.
        #[derive(Debug)]
        pub(crate) struct $name(atomic::$name);

        impl $name {
            #[cfg(not(loom))]
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            #[cfg(loom)]
            pub(crate) fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub(crate) fn load_relaxed(&self) -> $value {
                self.0.load(Relaxed)
            }

            pub(crate) fn load_acquire(&self) -> $value {
                self.0.load(Acquire)
            }

            pub(crate) fn store_relaxed(&self, value: $value) {
                self.0.store(value, Relaxed);
            }

            #[cfg(not(loom))]
            pub(crate) fn store_release(&self, value: $value) {
                self.0.store(value, Release);
            }

            // Loom orders a plain store only against what its thread has seen, so a load could
            // return a value that a concurrent exchange wrote before it, for ever. An exchange
            // takes its place in the one order that all threads agree on, as a store really does.
            #[cfg(loom)]
            pub(crate) fn store_release(&self, value: $value) {
                self.0.swap(value, Release);
            }

            pub(crate) fn swap_full(&self, value: $value) -> $value {
                self.0.swap(value, SeqCst)
            }

            pub(crate) fn swap_acquire(&self, value: $value) -> $value {
                self.0.swap(value, Acquire)
            }

            pub(crate) fn cmpxchg_full(&self, old: $value, new: $value) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, SeqCst, Relaxed)
            }

            pub(crate) fn cmpxchg_acquire(
                &self,
                old: $value,
                new: $value,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, Acquire, Relaxed)
            }

            pub(crate) fn cmpxchg_release(
                &self,
                old: $value,
                new: $value,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, Release, Relaxed)
            }

            pub(crate) fn cmpxchg_relaxed(
                &self,
                old: $value,
                new: $value,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(old, new, Relaxed, Relaxed)
            }
        }
    };
}

/// A pointer with the operations of the driver's facade.
#[derive(Debug)]
pub(crate) struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub(crate) fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }

    pub(crate) fn load_relaxed(&self) -> *mut T {
        self.0.load(Relaxed)
    }

    pub(crate) fn store_relaxed(&self, value: *mut T) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn swap_full(&self, value: *mut T) -> *mut T {
        self.0.swap(value, SeqCst)
    }

    pub(crate) fn cmpxchg_full(&self, old: *mut T, new: *mut T) -> Result<*mut T, *mut T> {
        self.0.compare_exchange(old, new, SeqCst, Relaxed)
    }
}

macro_rules! arithmetic {
    ($name:ident, $value:ty) => {
        impl $name {
            pub(crate) fn fetch_or_full(&self, value: $value) -> $value {
                self.0.fetch_or(value, SeqCst)
            }

            pub(crate) fn fetch_or_acquire(&self, value: $value) -> $value {
                self.0.fetch_or(value, Acquire)
            }

            pub(crate) fn fetch_and_release(&self, value: $value) -> $value {
                self.0.fetch_and(value, Release)
            }

            pub(crate) fn fetch_and_full(&self, value: $value) -> $value {
                self.0.fetch_and(value, SeqCst)
            }

            pub(crate) fn fetch_add_full(&self, value: $value) -> $value {
                self.0.fetch_add(value, AcqRel)
            }

            pub(crate) fn fetch_add_relaxed(&self, value: $value) -> $value {
                self.0.fetch_add(value, Relaxed)
            }

            pub(crate) fn fetch_sub_relaxed(&self, value: $value) -> $value {
                self.0.fetch_sub(value, Relaxed)
            }
        }
    };
}

facade!(AtomicU64, u64);
facade!(AtomicU32, u32);
facade!(AtomicUsize, usize);
facade!(AtomicBool, bool);
arithmetic!(AtomicU64, u64);
arithmetic!(AtomicU32, u32);
arithmetic!(AtomicUsize, usize);
