// SPDX-License-Identifier: GPL-2.0

//! The pure file of the driver's `zcomp` room, by path.

#[path = "../../../../zcomp/borrow.rs"]
pub(crate) mod borrow;
