// SPDX-License-Identifier: GPL-2.0

//! Module parameters that show in `/sys/module/rzram/parameters`, some of them writable.
//!
//! The kernel crate's own parameters are invisible, read-only and have no strings. Here a parameter
//! is a static of one of three types, and the [`module_parameters!`](module_parameters) macro makes
//! it and its entry in the module's table, with the texts that `modinfo` prints:
//!
//! ```ignore
//! module_parameters! {
//!     /// Devices made at load.
//!     pub(crate) static NUM_DEVICES: UintParam = UintParam::new(1, 0, 65536);
//!     as num_devices, HIDDEN, "Devices to create at load";
//! }
//! ```
//!
//! # Context
//!
//! Reading a value takes no lock and may be done anywhere; a writable one may change at any time,
//! so read it once and use that. The kernel sets values before the module's `init` runs, and under
//! its own parameter lock afterwards.
//!
//! # Errors
//!
//! EINVAL for a word that is no value or a number outside of the limits, ERANGE for one that does
//! not fit into 32 bits: the load or the write fails with it, and the value stays.

use crate::kapi::{
    atomic::{
        AtomicBool,
        AtomicU32, //
    },
    log::Quoted,
    sysfs::{
        show_into,
        Emit, //
    },
};
use core::{
    cell::UnsafeCell,
    fmt::Write, //
};
use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    prelude::*, //
};

pub(crate) use kernel::module_param::KernelParam;

/// File mode: not in sysfs.
pub(crate) const HIDDEN: u16 = 0;

/// File mode: everybody may read.
pub(crate) const READ_ONLY: u16 = 0o444;

/// File mode: everybody may read, root may write.
pub(crate) const WRITABLE: u16 = 0o644;

/// A number within limits.
pub(crate) struct UintParam {
    value: AtomicU32,
    min: u32,
    max: u32,
}

impl UintParam {
    /// Returns a parameter with this default that accepts `min` to `max`.
    pub(crate) const fn new(default: u32, min: u32, max: u32) -> Self {
        assert!(min <= default && default <= max);
        Self {
            value: AtomicU32::new(default),
            min,
            max,
        }
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> u32 {
        // ORDERING: relaxed; the value stands for itself.
        self.value.load_relaxed()
    }
}

/// A switch; given without a value, it is on.
pub(crate) struct BoolParam {
    value: AtomicBool,
}

impl BoolParam {
    /// Returns a parameter with this default.
    pub(crate) const fn new(default: bool) -> Self {
        Self {
            value: AtomicBool::new(default),
        }
    }

    /// Returns the value.
    pub(crate) fn get(&self) -> bool {
        // ORDERING: relaxed; the value stands for itself.
        self.value.load_relaxed()
    }
}

/// A word that is given at load and never changes afterwards.
pub(crate) struct StrParam {
    value: UnsafeCell<*mut c_char>,
}

// SAFETY: the kernel writes the cell before `init` runs and, as no mode but a read-only one is
// accepted, never again before the module is gone.
unsafe impl Sync for StrParam {}

impl StrParam {
    /// Returns a parameter that is not given.
    pub(crate) const fn new() -> Self {
        Self {
            value: UnsafeCell::new(core::ptr::null_mut()),
        }
    }

    /// Returns the word, if one was given.
    pub(crate) fn get(&self) -> Option<&'static CStr> {
        // SAFETY: not written any more, see above. The kernel ends the word with a NUL and keeps it
        // until our code is gone.
        unsafe {
            let word = *self.value.get();
            (!word.is_null()).then(|| CStr::from_char_ptr(word))
        }
    }
}

/// Returns an entry of the module's parameter table.
const fn entry(
    name: &'static CStr,
    mode: u16,
    ops: *const bindings::kernel_param_ops,
    arg: *mut c_void,
) -> KernelParam {
    KernelParam::new(bindings::kernel_param {
        name: kernel::str::as_char_ptr_in_const_context(name),
        mod_: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
        ops,
        perm: mode,
        level: -1,
        flags: 0,
        __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 { arg },
    })
}

impl UintParam {
    const OPS: &'static bindings::kernel_param_ops = &bindings::kernel_param_ops {
        set: Some(set_uint),
        get: Some(get_uint),
        ..pin_init::zeroed()
    };

    /// Returns the table entry; [`module_parameters!`] calls it.
    pub(crate) const fn entry(&'static self, name: &'static CStr, mode: u16) -> KernelParam {
        entry(name, mode, Self::OPS, (&raw const *self).cast_mut().cast())
    }
}

impl BoolParam {
    const OPS: &'static bindings::kernel_param_ops = &bindings::kernel_param_ops {
        flags: bindings::KERNEL_PARAM_OPS_FL_NOARG,
        set: Some(set_bool),
        get: Some(get_bool),
        ..pin_init::zeroed()
    };

    /// Returns the table entry; [`module_parameters!`] calls it.
    pub(crate) const fn entry(&'static self, name: &'static CStr, mode: u16) -> KernelParam {
        entry(name, mode, Self::OPS, (&raw const *self).cast_mut().cast())
    }
}

impl StrParam {
    /// Returns the table entry; [`module_parameters!`] calls it.
    pub(crate) const fn entry(&'static self, name: &'static CStr, mode: u16) -> KernelParam {
        assert!(
            mode & 0o222 == 0,
            "a string may not change while it is read"
        );
        let ops = &raw const bindings::param_ops_charp;
        entry(name, mode, ops, self.value.get().cast())
    }
}

/// Returns the name of a parameter, for the log.
///
/// # Safety
///
/// `param` must be an entry made by this module.
unsafe fn name_of<'a>(param: *const bindings::kernel_param) -> &'a CStr {
    // SAFETY: an entry's name is a constant.
    unsafe { CStr::from_char_ptr((*param).name) }
}

/// Takes a new number.
///
/// # Safety
///
/// Called by the kernel for the entry of a [`UintParam`], with a word ended by a NUL.
unsafe extern "C" fn set_uint(word: *const c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: the entry's argument is the static parameter.
    let this = unsafe { &*(*param).__bindgen_anon_1.arg.cast::<UintParam>() };
    let mut value = 0;
    // SAFETY: a word by the kernel's promise; it does not call without one, see `flags`.
    let mut done = to_result(unsafe { bindings::kstrtouint(word, 0, &mut value) });
    if done.is_ok() && !(this.min..=this.max).contains(&value) {
        done = Err(EINVAL);
    }
    match done {
        // ORDERING: relaxed; the value stands for itself.
        Ok(()) => this.value.store_relaxed(value),
        Err(_) => {
            let (min, max) = (this.min, this.max);
            // SAFETY: the kernel passes one of our entries, and a word ended by a NUL.
            let (name, word) = unsafe { (name_of(param), CStr::from_char_ptr(word)) };
            let word = Quoted(word.to_bytes());
            pr_warn!("parameter {name}: '{word}' is not a number from {min} to {max}\n");
        }
    }
    from_result(|| done.map(|()| 0))
}

/// Prints a number.
///
/// # Safety
///
/// Called by the kernel for the entry of a [`UintParam`], with a page.
unsafe extern "C" fn get_uint(page: *mut c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: the entry's argument is the static parameter.
    let this = unsafe { &*(*param).__bindgen_anon_1.arg.cast::<UintParam>() };
    // SAFETY: the kernel passes a page.
    unsafe { print(page, |out| Ok(writeln!(out, "{}", this.get())?)) }
}

/// Takes a new state.
///
/// # Safety
///
/// Called by the kernel for the entry of a [`BoolParam`], with null or a word ended by a NUL.
unsafe extern "C" fn set_bool(word: *const c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: the entry's argument is the static parameter.
    let this = unsafe { &*(*param).__bindgen_anon_1.arg.cast::<BoolParam>() };
    let mut value = true;
    from_result(|| {
        if !word.is_null() {
            // SAFETY: a word by the kernel's promise.
            to_result(unsafe { bindings::kstrtobool(word, &mut value) })?;
        }
        // ORDERING: relaxed; the value stands for itself.
        this.value.store_relaxed(value);
        Ok(0)
    })
}

/// Prints a state.
///
/// # Safety
///
/// Called by the kernel for the entry of a [`BoolParam`], with a page.
unsafe extern "C" fn get_bool(page: *mut c_char, param: *const bindings::kernel_param) -> c_int {
    // SAFETY: the entry's argument is the static parameter.
    let this = unsafe { &*(*param).__bindgen_anon_1.arg.cast::<BoolParam>() };
    let word = if this.get() { "Y" } else { "N" };
    // SAFETY: the kernel passes a page.
    unsafe { print(page, |out| Ok(writeln!(out, "{word}")?)) }
}

/// Runs a print on the kernel's page.
///
/// # Safety
///
/// `page` must be a page that is ours during the call.
unsafe fn print(page: *mut c_char, handler: impl FnOnce(&mut Emit<'_>) -> Result) -> c_int {
    // SAFETY: by the caller's promise.
    let done = unsafe { show_into(page, handler) };
    // At most a page, or an errno, so it always fits.
    c_int::try_from(done).unwrap_or(0)
}

/// Returns the bytes of a modinfo text: the text and a NUL.
pub(crate) const fn modinfo_bytes<const N: usize>(text: &str) -> [u8; N] {
    let from = text.as_bytes();
    assert!(from.len() + 1 == N);
    let mut bytes = [0; N];
    let mut i = 0;
    while i < from.len() {
        // BOUNDS: evaluated by the compiler, for a static.
        bytes[i] = from[i];
        i += 1;
    }
    bytes
}

/// Puts a text into the module's information, as `modinfo` shows it.
macro_rules! modinfo {
    ($text:expr) => {
        const _: () = {
            #[expect(unsafe_code, reason = "names a section; the content is plain bytes")]
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static TEXT: [u8; $text.len() + 1] = $crate::kapi::params::modinfo_bytes($text);
        };
    };
}
pub(crate) use modinfo;

/// Makes module parameters; see the module's header.
macro_rules! module_parameters {
    ($(
        $(#[$meta:meta])*
        $vis:vis static $id:ident: $type:ident = $init:expr;
        as $name:ident, $mode:ident, $text:literal;
    )*) => {$(
        $(#[$meta])*
        $vis static $id: $crate::kapi::params::$type = {
            use $crate::kapi::params::$type;
            $init
        };
        const _: () = {
            use $crate::kapi::params;
            #[expect(unsafe_code, reason = "names a section; the type is what the kernel reads")]
            #[link_section = "__param"]
            #[used(compiler)]
            static ENTRY: params::KernelParam =
                $id.entry(kernel::c_str!(stringify!($name)), params::$mode);
        };
        $crate::kapi::params::modinfo!(concat!(
            "parmtype=",
            stringify!($name),
            ":",
            $crate::kapi::params::type_name!($type)
        ));
        $crate::kapi::params::modinfo!(concat!("parm=", stringify!($name), ":", $text));
    )*};
}
pub(crate) use module_parameters;

/// The type of a parameter as `modinfo` prints it.
macro_rules! type_name {
    (UintParam) => {
        "uint"
    };
    (BoolParam) => {
        "bool"
    };
    (StrParam) => {
        "charp"
    };
}
pub(crate) use type_name;
