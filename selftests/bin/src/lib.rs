// SPDX-License-Identifier: GPL-2.0

//! What the guest programs share.
//!
//! `pattern` makes and checks pages whose content names its own place, `disk` does direct I/O on a
//! block device from memory with guards around it, `rng` is the seeded generator that makes every
//! run repeatable, `args` reads a command line, `words` is what control files take, and nearly take.

pub mod args;
pub mod disk;
pub mod mapping;
pub mod memory;
pub mod model;
pub mod pattern;
pub mod race;
pub mod rng;
pub mod words;
