// SPDX-License-Identifier: GPL-2.0

//! The page size of the kernel that is tested.

/// Bytes of a page.
pub(crate) const PAGE_SIZE: usize = 4096;
