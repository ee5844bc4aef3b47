// SPDX-License-Identifier: GPL-2.0

//! Compressed RAM block device.
//!
//! The crate root: metadata and the module list, no logic.

use kernel::prelude::*;

mod kapi;

module! {
    type: Rzram,
    name: "rzram",
    authors: ["The rzram developers"],
    description: "Compressed RAM block device",
    license: "GPL",
}

/// Everything that lives from load to unload, in drop order.
struct Rzram;

impl kernel::Module for Rzram {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
