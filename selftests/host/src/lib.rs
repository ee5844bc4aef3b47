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
//! `RZRAM_CASES` sets the number of cases of a property, `RZRAM_SEED` the seed; both are fixed
//! otherwise, so that a run can be repeated. Miri is not in Debian and the sanitizers need a nightly
//! compiler; the pure files are safe code, and what is unsafe is tested in guests.

mod kapi;

#[allow(dead_code, reason = "the driver's other rooms use the rest")]
mod device;

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
