// SPDX-License-Identifier: GPL-2.0

//! The cells below `atomic.rs`: 64-bit words, without a call where the processor allows it, and
//! 32-bit halves.
//!
//! The kernel crate reaches each operation through a C helper. Slots, ranges and locks change one
//! word or two for each page, so on x86-64 the instruction stands right here; it costs a third less
//! than the call, and half of that on kernels that protect returns. Other processors, and kernels
//! that watch memory accesses (KASAN, KCSAN), take the crate's way.
//!
//! On x86-64 a locked instruction is a full barrier, a plain load an acquire and a plain store a
//! release, in hardware. What is left is to keep the compiler from moving accesses: an assembly
//! block that may touch memory is such a barrier, and volatile accesses keep their own order.
//!
//! Any context; nothing sleeps or fails. The orders are those asked for, or stronger.

use kernel::sync::atomic::{
    ordering,
    Acquire,
    Atomic,
    Release, //
};

/// x86-64: the instructions themselves.
#[cfg(all(CONFIG_X86_64, not(any(CONFIG_KASAN, CONFIG_KCSAN))))]
mod way {
    use super::*;
    use core::arch::asm;

    /// Keeps the compiler from moving memory accesses across.
    #[inline(always)]
    fn barrier() {
        // SAFETY: no instruction; without options the block counts as touching all memory.
        unsafe { asm!("", options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    pub(crate) fn load_acquire(cell: &Atomic<u64>) -> u64 {
        // SAFETY: a live, aligned word; a volatile read is an atomic access under LKMM.
        let value = unsafe { cell.as_ptr().read_volatile() };
        barrier();
        value
    }

    #[inline(always)]
    pub(crate) fn pointer_acquire<T>(cell: &Atomic<*mut T>) -> *mut T {
        // SAFETY: as in `load_acquire`.
        let value = unsafe { cell.as_ptr().read_volatile() };
        barrier();
        value
    }

    #[inline(always)]
    pub(crate) fn store_release(cell: &Atomic<u64>, value: u64) {
        barrier();
        // SAFETY: a live, aligned word; a volatile write is an atomic access under LKMM.
        unsafe { cell.as_ptr().write_volatile(value) };
    }

    #[inline(always)]
    pub(crate) fn cmpxchg<O>(
        cell: &Atomic<u64>,
        old: u64,
        new: u64,
        _order: O,
    ) -> Result<u64, u64> {
        let found: u64;
        // SAFETY: a live, aligned word; the instruction compares it with `rax`, and leaves there
        // what it found.
        unsafe {
            asm!(
                "lock cmpxchg qword ptr [{cell}], {new}",
                cell = in(reg) cell.as_ptr(),
                new = in(reg) new,
                inout("rax") old => found,
                options(nostack)
            )
        };
        if found == old {
            Ok(found)
        } else {
            Err(found)
        }
    }

    #[inline(always)]
    pub(crate) fn swap<O>(cell: &Atomic<u64>, value: u64, _order: O) -> u64 {
        let mut value = value;
        // SAFETY: a live, aligned word; an exchange with memory is locked by itself.
        unsafe {
            asm!(
                "xchg qword ptr [{cell}], {value}",
                cell = in(reg) cell.as_ptr(),
                value = inout(reg) value,
                options(nostack, preserves_flags)
            )
        };
        value
    }

    #[inline(always)]
    pub(crate) fn fetch_add<O>(cell: &Atomic<u64>, value: u64, _order: O) -> u64 {
        let mut value = value;
        // SAFETY: a live, aligned word.
        unsafe {
            asm!(
                "lock xadd qword ptr [{cell}], {value}",
                cell = in(reg) cell.as_ptr(),
                value = inout(reg) value,
                options(nostack)
            )
        };
        value
    }

    /// Replaces the word by `change` of it and returns the old one.
    #[inline(always)]
    fn update(cell: &Atomic<u64>, change: impl Fn(u64) -> u64) -> u64 {
        // SAFETY: a live, aligned word; a volatile read is an atomic access under LKMM.
        let mut old = unsafe { cell.as_ptr().read_volatile() };
        loop {
            match cmpxchg(cell, old, change(old), ()) {
                Ok(old) => return old,
                Err(found) => old = found,
            }
        }
    }

    #[inline(always)]
    pub(crate) fn fetch_or<O>(cell: &Atomic<u64>, mask: u64, _order: O) -> u64 {
        update(cell, |word| word | mask)
    }

    #[inline(always)]
    pub(crate) fn fetch_and<O>(cell: &Atomic<u64>, mask: u64, _order: O) -> u64 {
        update(cell, |word| word & mask)
    }
}

/// All others: the kernel crate, and its C helpers where it has no operation.
#[cfg(not(all(CONFIG_X86_64, not(any(CONFIG_KASAN, CONFIG_KCSAN)))))]
mod way {
    use super::*;
    use kernel::bindings;

    #[inline]
    pub(crate) fn load_acquire(cell: &Atomic<u64>) -> u64 {
        cell.load(Acquire)
    }

    #[inline]
    pub(crate) fn pointer_acquire<T>(cell: &Atomic<*mut T>) -> *mut T {
        cell.load(Acquire)
    }

    #[inline]
    pub(crate) fn store_release(cell: &Atomic<u64>, value: u64) {
        cell.store(value, Release)
    }

    #[inline]
    pub(crate) fn cmpxchg<O: ordering::Ordering>(
        cell: &Atomic<u64>,
        old: u64,
        new: u64,
        order: O,
    ) -> Result<u64, u64> {
        cell.cmpxchg(old, new, order)
    }

    #[inline]
    pub(crate) fn swap<O: ordering::Ordering>(cell: &Atomic<u64>, value: u64, order: O) -> u64 {
        cell.xchg(value, order)
    }

    #[inline]
    pub(crate) fn fetch_add<O: ordering::Ordering>(
        cell: &Atomic<u64>,
        value: u64,
        order: O,
    ) -> u64 {
        cell.fetch_add(value, order)
    }

    /// Returns the same bits as the signed type of the C helpers.
    const fn to_signed(bits: u64) -> i64 {
        i64::from_ne_bytes(bits.to_ne_bytes())
    }

    #[inline]
    pub(crate) fn fetch_or<O: ordering::Ordering>(cell: &Atomic<u64>, mask: u64, _order: O) -> u64 {
        // SAFETY: a live, aligned `atomic64_t`. The form without suffix has every order.
        let old = unsafe { bindings::atomic64_fetch_or(to_signed(mask), cell.as_ptr().cast()) };
        u64::from_ne_bytes(old.to_ne_bytes())
    }

    #[inline]
    pub(crate) fn fetch_and<O: ordering::Ordering>(
        cell: &Atomic<u64>,
        mask: u64,
        _order: O,
    ) -> u64 {
        // SAFETY: a live, aligned `atomic64_t`. The form without suffix has every order.
        let old = unsafe { bindings::atomic64_fetch_and(to_signed(mask), cell.as_ptr().cast()) };
        u64::from_ne_bytes(old.to_ne_bytes())
    }
}

/// Returns a pointer, with acquire order.
#[inline(always)]
pub(super) fn pointer_acquire<T>(cell: &Atomic<*mut T>) -> *mut T {
    way::pointer_acquire(cell)
}

/// A 64-bit word; the operations of [`Atomic`], and and/or.
#[repr(transparent)]
pub(super) struct Word(Atomic<u64>);

/// Makes the methods that only pass their arguments on.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) -> $out:ty;)*) => {
        impl Word {
            $(
                $(#[$doc])*
                #[inline(always)]
                pub(super) fn $name<O: ordering::Ordering>(&self, $($arg: u64,)* order: O) -> $out {
                    way::$name(&self.0, $($arg,)* order)
                }
            )*
        }
    };
}

methods! {
    /// Replaces `old` by `new`; returns the old value, or the one found instead.
    cmpxchg(old, new) -> Result<u64, u64>;
    /// Sets the word and returns the old one.
    swap(value) -> u64;
    /// Adds, wrapping, and returns the old value.
    fetch_add(value) -> u64;
    /// Sets the bits of `mask` and returns the old value.
    fetch_or(mask) -> u64;
    /// Keeps only the bits of `mask` and returns the old value.
    fetch_and(mask) -> u64;
}

impl Word {
    /// Returns a new word.
    #[inline]
    pub(super) const fn new(value: u64) -> Self {
        Self(Atomic::new(value))
    }

    /// Returns the address of the word.
    #[inline]
    pub(super) const fn as_ptr(&self) -> *mut u64 {
        self.0.as_ptr()
    }

    /// Returns the word, with acquire order.
    #[inline(always)]
    pub(super) fn load_acquire(&self) -> u64 {
        way::load_acquire(&self.0)
    }

    /// Sets the word, with release order.
    #[inline(always)]
    pub(super) fn store_release(&self, value: u64) {
        way::store_release(&self.0, value)
    }
}

/// A 32-bit cell; rare, so the kernel crate's operations do.
#[repr(transparent)]
pub(super) struct Half(Atomic<u32>);

impl Half {
    /// Returns a new cell.
    #[inline]
    pub(super) const fn new(value: u32) -> Self {
        Self(Atomic::new(value))
    }

    /// Returns the address of the cell.
    #[inline]
    pub(super) const fn as_ptr(&self) -> *mut u32 {
        self.0.as_ptr()
    }

    /// Returns the value, with acquire order.
    #[inline]
    pub(super) fn load_acquire(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Sets the value, with release order.
    #[inline]
    pub(super) fn store_release(&self, value: u32) {
        self.0.store(value, Release)
    }

    /// Replaces `old` by `new`; returns the old value, or the one found instead.
    #[inline]
    pub(super) fn cmpxchg<O: ordering::Ordering>(
        &self,
        old: u32,
        new: u32,
        order: O,
    ) -> Result<u32, u32> {
        self.0.cmpxchg(old, new, order)
    }

    /// Sets the value and returns the old one.
    #[inline]
    pub(super) fn swap<O: ordering::Ordering>(&self, value: u32, order: O) -> u32 {
        self.0.xchg(value, order)
    }

    /// Adds, wrapping, and returns the old value.
    #[inline]
    pub(super) fn fetch_add<O: ordering::Ordering>(&self, value: u32, order: O) -> u32 {
        self.0.fetch_add(value, order)
    }
}
