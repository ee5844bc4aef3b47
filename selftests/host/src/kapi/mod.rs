// SPDX-License-Identifier: GPL-2.0

//! Stands in for the driver's `kapi` room: only what pure files may use of it.

pub(crate) mod atomic;
pub(crate) mod num;
