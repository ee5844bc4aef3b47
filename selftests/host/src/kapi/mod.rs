// SPDX-License-Identifier: GPL-2.0

//! Stands in for the driver's `kapi` room: only what pure files may use of it.

pub(crate) mod atomic;
#[path = "../../../../kapi/llist.rs"]
#[allow(dead_code, reason = "the driver uses the rest")]
pub(crate) mod llist;
pub(crate) mod num;
