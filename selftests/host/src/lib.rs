// SPDX-License-Identifier: GPL-2.0

//! The driver's pure files, unchanged, with ordinary atomics (or loom's) under the kernel facade.
//!
//! `kapi` stands in for the driver's room of the same name. Everything else is the driver's own
//! source, reached by path; the tests beside it run here, and so do the larger ones in `tests` and
//! the models in `models`.
//!
//! | run                                               | what                                       |
//! |---------------------------------------------------|--------------------------------------------|
//! | `cargo test`                                      | unit, boundary and property tests          |
//! | `RUSTFLAGS="--cfg loom" cargo test models::`      | every interleaving of the models           |
//!
//! The seed of the properties is fixed, so that a run can be repeated; `RZRAM_SEED` sets another.
//! `RZRAM_TIER=full` tries ten times as many cases. Miri is not in Debian and the sanitizers need a nightly
//! compiler; the pure files are safe code, and what is unsafe is tested in guests.

mod kapi;

#[allow(dead_code, reason = "the driver's other rooms use the rest")]
mod device;
#[allow(dead_code, reason = "as above")]
mod zcomp;
#[allow(dead_code, reason = "as above")]
mod zsmalloc;

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
