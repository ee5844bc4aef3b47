// SPDX-License-Identifier: GPL-2.0

//! The page size of the kernel that is tested, and casts that lose nothing on 64 bits.

/// Bytes of a page.
pub(crate) const PAGE_SIZE: usize = 4096;

/// Returns `value` unchanged as `u64`.
pub(crate) const fn usize_to_u64(value: usize) -> u64 {
    // CAST: both are 64 bits wide.
    value as u64
}

/// Returns `value` unchanged as `usize`.
pub(crate) const fn u32_to_usize(value: u32) -> usize {
    // CAST: widening.
    value as usize
}
