// SPDX-License-Identifier: GPL-2.0

//! Casts that lose nothing, and the units of memory and disk.
//!
//! Only 64-bit kernels without high memory are supported, which is checked here, once: a pool page
//! then always has an address, and `usize` and `u64` are the same numbers.
//!
//! Pure arithmetic: any context, nothing sleeps, nothing fails.

use kernel::bindings;

#[cfg(not(CONFIG_64BIT))]
compile_error!("rzram supports 64-bit kernels only");
#[cfg(CONFIG_HIGHMEM)]
compile_error!("rzram needs all memory in the kernel's direct map (no CONFIG_HIGHMEM)");

const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// Base-2 logarithm of [`PAGE_SIZE`].
pub(crate) const PAGE_SHIFT: u32 = bindings::PAGE_SHIFT;

/// Bytes in a page of memory, which is also a page of the disk.
pub(crate) const PAGE_SIZE: usize = 1 << PAGE_SHIFT;

/// Base-2 logarithm of [`SECTOR_SIZE`].
pub(crate) const SECTOR_SHIFT: u32 = bindings::SECTOR_SHIFT;

/// Bytes in a sector, the block layer's unit.
pub(crate) const SECTOR_SIZE: usize = 1 << SECTOR_SHIFT;

/// Base-2 logarithm of [`SECTORS_PER_PAGE`].
pub(crate) const SECTORS_PER_PAGE_SHIFT: u32 = PAGE_SHIFT - SECTOR_SHIFT;

/// Sectors in a page.
pub(crate) const SECTORS_PER_PAGE: u64 = 1 << SECTORS_PER_PAGE_SHIFT;

/// Returns `value` unchanged as `u64`.
#[inline]
pub(crate) const fn usize_to_u64(value: usize) -> u64 {
    // CAST: both are 64 bits wide, as asserted above.
    value as u64
}

/// Returns `value` unchanged as `usize`.
#[inline]
pub(crate) const fn u64_to_usize(value: u64) -> usize {
    // CAST: both are 64 bits wide, as asserted above.
    value as usize
}

/// Returns `value` unchanged as `usize`.
#[inline]
pub(crate) const fn u32_to_usize(value: u32) -> usize {
    // CAST: widening from 32 to 64 bits.
    value as usize
}

/// Returns `value` unchanged as `u64`, for constants; elsewhere `From` does it.
#[inline]
pub(crate) const fn u32_to_u64(value: u32) -> u64 {
    // CAST: widening from 32 to 64 bits.
    value as u64
}

/// Returns the low 32 bits of `value`.
#[inline]
pub(crate) const fn low_u32(value: u64) -> u32 {
    // CAST: the upper half is masked off, so that the cast itself loses nothing.
    (value & 0xffff_ffff) as u32
}

/// Returns `value` as `u32`, or the largest one where it does not fit.
#[inline]
pub(crate) const fn saturating_u32(value: u64) -> u32 {
    if value > 0xffff_ffff {
        u32::MAX
    } else {
        low_u32(value)
    }
}

/// Returns a signed count as `u64`, zero where it is negative.
#[inline]
pub(crate) const fn clamped_u64(value: i64) -> u64 {
    if value < 0 {
        0
    } else {
        value.unsigned_abs()
    }
}
