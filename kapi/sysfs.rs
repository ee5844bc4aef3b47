// SPDX-License-Identifier: GPL-2.0

//! Attribute files of disks and of the control class, as tables of rows.
//!
//! A table is written with [`attributes!`](crate::kapi::sysfs::attributes): one row a file, with
//! its name, its mode by the constructor (`ro` 0444, `wo` 0200, `rw` 0644), and safe handlers. A
//! row may carry a `cfg`. The row itself is what the kernel knows as the attribute, so that one
//! function a direction serves all of them.
//!
//! ```ignore
//! attributes! {
//!     /// What users see of a disk.
//!     pub(crate) static ATTRIBUTES: Device = [
//!         Row::rw(c"disksize", show_disksize, store_disksize),
//!         Row::wo(c"reset", store_reset),
//!         #[cfg(CONFIG_LZ4_COMPRESS)]
//!         Row::ro(c"mm_stat", show_mm_stat),
//!     ];
//! }
//! ```
//!
//! # Context
//!
//! Handlers run in task context and may sleep. Any number of them run at once, on one file too,
//! except that one open file serves one caller at a time. They may come before the disk's creation
//! returns and are waited for by its removal: a handler must not remove its own disk.
//!
//! # Errors
//!
//! A handler's error is what `read(2)` or `write(2)` fails with. A store that succeeds has consumed
//! all bytes. Empty writes never arrive, and no more than a page arrives at once.

use crate::kapi::{
    disk::{
        DiskOps,
        LiveDisk, //
    },
    num::PAGE_SIZE, //
};
use core::{
    fmt,
    marker::PhantomData, //
};
use kernel::{
    bindings,
    container_of,
    error::from_result,
    prelude::*, //
};

/// The output of a show handler: text of less than a page.
///
/// What does not fit is cut off, and writing it reports an error to the formatter; the reader then
/// gets what fitted.
pub(crate) struct Emit<'a> {
    buffer: &'a mut [u8],
    len: usize,
    is_cut: bool,
}

impl<'a> Emit<'a> {
    /// Returns an empty output that is collected in `buffer`.
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self {
            buffer,
            len: 0,
            is_cut: false,
        }
    }

    /// Returns the number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&[])
    }

    /// Appends bytes that need not be text, such as a path.
    ///
    /// # Errors
    ///
    /// Nothing a user sees: what fits was appended, and the rest is cut off.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> fmt::Result {
        let room = self.buffer.get_mut(self.len..).unwrap_or(&mut []);
        let fits = room.len().min(bytes.len());
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.len = self.len.saturating_add(fits);
        if fits == bytes.len() {
            Ok(())
        } else {
            self.is_cut = true;
            Err(fmt::Error)
        }
    }
}

impl fmt::Write for Emit<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes())
    }
}

/// Runs a show handler on the kernel's page.
///
/// # Safety
///
/// `buffer` must be a page that is ours during the call.
pub(super) unsafe fn show_into(
    buffer: *mut c_char,
    handler: impl FnOnce(&mut Emit<'_>) -> Result,
) -> isize {
    // One byte stays free, as the kernel takes a full page for an overrun.
    const ROOM: usize = PAGE_SIZE - 1;
    // SAFETY: a page by the caller's promise; the kernel hands it over zeroed, so it is initialized.
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), ROOM) };
    let mut out = Emit::new(buffer);
    let done = handler(&mut out);
    from_result(|| {
        if !out.is_cut {
            done?;
        }
        Ok(isize::try_from(out.len)?)
    })
}

/// Runs a store handler on the bytes as they were written.
///
/// # Safety
///
/// `buffer` must hold `len` bytes during the call.
pub(super) unsafe fn store_from(
    buffer: *const c_char,
    len: usize,
    handler: impl FnOnce(&[u8]) -> Result,
) -> isize {
    // SAFETY: by the caller's promise; nobody changes the kernel's copy.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), len) };
    from_result(|| {
        handler(bytes)?;
        Ok(isize::try_from(len)?)
    })
}

/// A handler that prints an attribute of a disk.
pub(crate) type Show<T> = fn(&LiveDisk<T>, &mut Emit<'_>) -> Result;

/// A handler that takes what was written to an attribute of a disk.
pub(crate) type Store<T> = fn(&LiveDisk<T>, &[u8]) -> Result;

/// An attribute file of a disk whose object is a `T`.
///
/// # Invariants
///
/// `raw` is the first field and names the functions of this module for `T`, each only if the
/// handler is there.
#[repr(C)]
pub(crate) struct Row<T> {
    raw: bindings::device_attribute,
    name: &'static CStr,
    show: Option<Show<T>>,
    store: Option<Store<T>>,
}

// SAFETY: a row is never written after it was made; the pointers in it lead to constants.
unsafe impl<T> Sync for Row<T> {}

impl<T: DiskOps> Row<T> {
    /// Returns a row with any mode.
    const fn new(
        name: &'static CStr,
        mode: u16,
        show: Option<Show<T>>,
        store: Option<Store<T>>,
    ) -> Self {
        let show_raw: Option<ShowRaw> = match show {
            Some(_) => Some(show_row::<T>),
            None => None,
        };
        let store_raw: Option<StoreRaw> = match store {
            Some(_) => Some(store_row::<T>),
            None => None,
        };
        // INVARIANT: the functions are there if and only if the handlers are.
        Self {
            raw: bindings::device_attribute {
                attr: raw_attribute(name, mode),
                __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 { show: show_raw },
                __bindgen_anon_2: bindings::device_attribute__bindgen_ty_2 { store: store_raw },
            },
            name,
            show,
            store,
        }
    }

    /// Returns a row that everybody may read.
    pub(crate) const fn ro(name: &'static CStr, show: Show<T>) -> Self {
        Self::new(name, 0o444, Some(show), None)
    }

    /// Returns a row that its owner may write.
    pub(crate) const fn wo(name: &'static CStr, store: Store<T>) -> Self {
        Self::new(name, 0o200, None, Some(store))
    }

    /// Returns a row that everybody may read and its owner may write.
    pub(crate) const fn rw(name: &'static CStr, show: Show<T>, store: Store<T>) -> Self {
        Self::new(name, 0o644, Some(show), Some(store))
    }
}

type ShowRaw = unsafe extern "C" fn(
    *mut bindings::device,
    *mut bindings::device_attribute,
    *mut c_char,
) -> isize;

type StoreRaw = unsafe extern "C" fn(
    *mut bindings::device,
    *mut bindings::device_attribute,
    *const c_char,
    usize,
) -> isize;

/// Returns the kernel's description of a file.
pub(super) const fn raw_attribute(name: &'static CStr, mode: u16) -> bindings::attribute {
    // Lock debugging adds fields.
    #[allow(clippy::needless_update)]
    bindings::attribute {
        name: kernel::str::as_char_ptr_in_const_context(name),
        mode,
        ..pin_init::zeroed()
    }
}

/// Returns the disk behind a device.
///
/// # Safety
///
/// `device` must be the device of a whole disk made for `T`, not freed during `'a`.
unsafe fn live_disk<'a, T>(device: *mut bindings::device) -> &'a LiveDisk<T> {
    // SAFETY: the device of a whole disk is embedded in its block device, which knows its disk.
    unsafe {
        let bdev = container_of!(device, bindings::block_device, bd_device);
        LiveDisk::from_raw((*bdev).bd_disk)
    }
}

/// Shows a row of a table for `T`.
///
/// # Safety
///
/// Called by sysfs for a file that was made from a [`Row`] for `T`, on a disk made for `T`.
unsafe extern "C" fn show_row<T>(
    device: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buffer: *mut c_char,
) -> isize {
    // SAFETY: the attribute is the first field of its row, which is a constant; the kernel keeps
    // the disk while the handler runs.
    let (row, live) = unsafe { (&*attribute.cast::<Row<T>>(), live_disk::<T>(device)) };
    // SAFETY: sysfs passes a page.
    unsafe { show_into(buffer, |out| row.show.map_or(Err(EIO), |f| f(live, out))) }
}

/// Stores to a row of a table for `T`.
///
/// # Safety
///
/// As [`show_row`].
unsafe extern "C" fn store_row<T: DiskOps>(
    device: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    buffer: *const c_char,
    len: usize,
) -> isize {
    // SAFETY: as in `show_row`.
    let (row, live) = unsafe { (&*attribute.cast::<Row<T>>(), live_disk::<T>(device)) };
    // SAFETY: sysfs passes `len` bytes, and a NUL behind them.
    unsafe {
        store_from(buffer, len, |bytes| {
            let done = row.store.map_or(Err(EIO), |f| f(live, bytes));
            done.inspect_err(|e| live.ops().refused(row.name, bytes, *e))
        })
    }
}

/// The list of pointers to rows for `T` that sysfs reads, ended by a null.
pub(crate) struct Pointers<T, const N: usize> {
    list: [*mut bindings::attribute; N],
    _rows: PhantomData<fn(&T)>,
}

// SAFETY: never written after it was made; the pointers lead to constants.
unsafe impl<T, const N: usize> Sync for Pointers<T, N> {}

impl<T, const N: usize> Pointers<T, N> {
    /// Returns the list for `rows`, of which there must be `N` less one, checked at compile time.
    pub(crate) const fn new(rows: &'static [Row<T>]) -> Self {
        assert!(rows.len() + 1 == N);
        let mut list = [core::ptr::null_mut(); N];
        let mut i = 0;
        while i < rows.len() {
            // BOUNDS: evaluated by the compiler, for a static.
            list[i] = (&raw const rows[i].raw.attr).cast_mut();
            i += 1;
        }
        Self {
            list,
            _rows: PhantomData,
        }
    }
}

/// A set of attribute files as sysfs wants it, all made from rows for `T`.
pub(crate) struct Group<T> {
    raw: bindings::attribute_group,
    _rows: PhantomData<fn(&T)>,
}

// SAFETY: never written after it was made; the pointers lead to constants.
unsafe impl<T> Sync for Group<T> {}

impl<T> Group<T> {
    /// Returns the set of all rows of a list.
    pub(crate) const fn new<const N: usize>(pointers: &'static Pointers<T, N>) -> Self {
        Self {
            raw: bindings::attribute_group {
                __bindgen_anon_2: bindings::attribute_group__bindgen_ty_2 {
                    attrs: (&raw const pointers.list).cast_mut().cast(),
                },
                ..pin_init::zeroed()
            },
            _rows: PhantomData,
        }
    }
}

/// The attribute files of a disk whose object is a `T`.
///
/// # Invariants
///
/// The list is ended by a null and leads to rows for `T` only.
pub(crate) struct Groups<T> {
    list: [*const bindings::attribute_group; 3],
    _rows: PhantomData<fn(&T)>,
}

// SAFETY: never written after it was made; the pointers lead to constants.
unsafe impl<T> Sync for Groups<T> {}

impl<T> Groups<T> {
    /// Returns the list of one group.
    pub(crate) const fn new(group: &'static Group<T>) -> Self {
        // INVARIANT: the second element is null, and the group is for `T`.
        Self {
            list: [&raw const group.raw, core::ptr::null(), core::ptr::null()],
            _rows: PhantomData,
        }
    }

    /// Returns the list of the one group of `base` and another.
    pub(crate) const fn extended(base: &'static Self, group: &'static Group<T>) -> Self {
        assert!(base.list[1].is_null());
        // INVARIANT: the third element is null, and both groups are for `T`.
        Self {
            // BOUNDS: evaluated by the compiler, for a static.
            list: [base.list[0], &raw const group.raw, core::ptr::null()],
            _rows: PhantomData,
        }
    }

    /// Returns the list for the kernel.
    pub(super) fn as_ptr(&'static self) -> *const *const bindings::attribute_group {
        self.list.as_ptr()
    }
}

/// Makes a static table of attribute files; see the module's header.
macro_rules! attributes {
    (
        $(#[$meta:meta])*
        $vis:vis static $name:ident: $device:ty = [$($rows:tt)*];
    ) => {
        $(#[$meta])*
        $vis static $name: $crate::kapi::sysfs::Groups<$device> = {
            use $crate::kapi::sysfs::{Group, Groups, Pointers, Row};
            static ROWS: &[Row<$device>] = &[$($rows)*];
            static POINTERS: Pointers<$device, { ROWS.len() + 1 }> = Pointers::new(ROWS);
            static GROUP: Group<$device> = Group::new(&POINTERS);
            Groups::new(&GROUP)
        };
    };
    (
        $(#[$meta:meta])*
        $vis:vis static $name:ident: $device:ty = $base:ident + [$($rows:tt)*];
    ) => {
        $(#[$meta])*
        $vis static $name: $crate::kapi::sysfs::Groups<$device> = {
            use $crate::kapi::sysfs::{Group, Groups, Pointers, Row};
            static ROWS: &[Row<$device>] = &[$($rows)*];
            static POINTERS: Pointers<$device, { ROWS.len() + 1 }> = Pointers::new(ROWS);
            static GROUP: Group<$device> = Group::new(&POINTERS);
            Groups::extended(&$base, &GROUP)
        };
    };
}
pub(crate) use attributes;
