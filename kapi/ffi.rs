// SPDX-License-Identifier: GPL-2.0

//! Generated declarations that `kernel::bindings` does not carry.
//!
//! Bindgen makes them from `ffi/helper.h` by a rule in `Kbuild`: the compression libraries, the
//! out-of-memory notifier, and constants that C hides behind casts (`GFP_*`, `BLK_*`, `REQ_*`).
//! The file is found through the environment variable `RZ_GEN`, which `Kbuild` exports.
//!
//! A declaration here is not an export: whether the running kernel has the library is told by
//! `cfg(CONFIG_LZ4_COMPRESS)` and its like, and a call without that gate stops the build in
//! modpost. Types that `kernel::bindings` knows as well are distinct types here: pass pointers to
//! them by `cast()`.
//!
//! # Context
//!
//! As the C function that is called. Nothing here is wrapped, so everything is `unsafe` to call.

// Generated text answers to the generator, not to our lints.
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

use kernel::ffi;
// Whether the derives below use both depends on the configuration.
#[allow(unused_imports)]
use pin_init::{
    MaybeZeroable,
    Zeroable, //
};

type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!(concat!(env!("RZ_GEN"), "/ffi_generated.rs"));
