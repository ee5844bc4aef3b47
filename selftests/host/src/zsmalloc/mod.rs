// SPDX-License-Identifier: GPL-2.0

//! The pure files of the driver's `zsmalloc` room, by path.

#[path = "../../../../zsmalloc/batch.rs"]
pub(crate) mod batch;
#[path = "../../../../zsmalloc/fullness.rs"]
pub(crate) mod fullness;
#[path = "../../../../zsmalloc/geometry.rs"]
pub(crate) mod geometry;
#[path = "../../../../zsmalloc/object.rs"]
pub(crate) mod object;
#[path = "../../../../zsmalloc/places.rs"]
pub(crate) mod places;

// Beside the files, as most of what they share is the room's own.
#[cfg(all(test, not(loom)))]
mod properties;
