// SPDX-License-Identifier: GPL-2.0

//! A device class that exists for its attribute files: `hot_add` and `hot_remove`.
//!
//! The class object is allocated and freed by the kernel, which may keep it a little longer than
//! its unregistering; the rows are copied to memory of our own, each with a pointer to the context
//! that its handlers get. The name is chosen at run time.
//!
//! # Context
//!
//! Handlers run in task context and may sleep; any number run at once. Dropping the class removes
//! the files and waits for running handlers: it must not happen under a lock that they take.

use crate::kapi::sysfs::{
    raw_attribute,
    show_into,
    store_from,
    Emit, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

/// A handler that prints an attribute of the class.
pub(crate) type Show<C> = fn(&C, &mut Emit<'_>) -> Result;

/// A handler that takes what was written to an attribute of the class.
pub(crate) type Store<C> = fn(&C, &[u8]) -> Result;

/// One attribute file of the class.
pub(crate) struct Row<C> {
    name: &'static CStr,
    mode: u16,
    show: Option<Show<C>>,
    store: Option<Store<C>>,
}

impl<C> Row<C> {
    /// Returns a row that root may read; reading may have an effect.
    pub(crate) const fn private_ro(name: &'static CStr, show: Show<C>) -> Self {
        Self {
            name,
            mode: 0o400,
            show: Some(show),
            store: None,
        }
    }

    /// Returns a row that everybody may read.
    pub(crate) const fn ro(name: &'static CStr, show: Show<C>) -> Self {
        Self {
            name,
            mode: 0o444,
            show: Some(show),
            store: None,
        }
    }

    /// Returns a row that root may write.
    pub(crate) const fn wo(name: &'static CStr, store: Store<C>) -> Self {
        Self {
            name,
            mode: 0o200,
            show: None,
            store: Some(store),
        }
    }
}

/// A row in use.
///
/// # Invariants
///
/// `raw` is the first field; `context` is valid while the file exists.
#[repr(C)]
struct File<C> {
    raw: bindings::class_attribute,
    show: Option<Show<C>>,
    store: Option<Store<C>>,
    context: *const C,
}

impl<C> File<C> {
    fn new(row: &Row<C>, context: *const C) -> Self {
        let mut attr = raw_attribute(row.name, row.mode);
        set_lock_class(&mut attr);
        Self {
            raw: bindings::class_attribute {
                attr,
                show: row.show.map(|_| show::<C> as ShowRaw),
                store: row.store.map(|_| store::<C> as StoreRaw),
            },
            show: row.show,
            store: row.store,
            context,
        }
    }
}

type ShowRaw = unsafe extern "C" fn(
    *const bindings::class,
    *const bindings::class_attribute,
    *mut c_char,
) -> isize;

type StoreRaw = unsafe extern "C" fn(
    *const bindings::class,
    *const bindings::class_attribute,
    *const c_char,
    usize,
) -> isize;

/// Gives an attribute outside of static memory the lock class that lock debugging asks for.
fn set_lock_class(attr: &mut bindings::attribute) {
    #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
    {
        attr.key = kernel::static_lock_class!().as_ptr();
    }
    let _ = attr;
}

/// A registered class with its attribute files.
///
/// # Invariants
///
/// The first `visible` of `files` exist; `files` does not move, as it never grows.
pub(crate) struct Class<C: Send + Sync + 'static> {
    raw: NonNull<bindings::class>,
    files: KVec<File<C>>,
    visible: usize,
    // Kept for the files, which point at it.
    _context: Arc<C>,
}

// SAFETY: the kernel's functions for classes may be called from any thread; the handlers need
// `C: Sync`, and the context is released by whoever drops the class, which needs `C: Send`.
unsafe impl<C: Send + Sync + 'static> Send for Class<C> {}
// SAFETY: as above; there is no method on a shared reference.
unsafe impl<C: Send + Sync + 'static> Sync for Class<C> {}

impl<C: Send + Sync + 'static> Class<C> {
    /// Registers the class `name` with one file a row.
    ///
    /// # Context
    ///
    /// May sleep and allocates. Handlers may run before this returns.
    ///
    /// # Errors
    ///
    /// EEXIST if the class exists, ENOMEM; else what the kernel says.
    pub(crate) fn new(name: &'static CStr, context: Arc<C>, rows: &[Row<C>]) -> Result<Self> {
        let mut files = KVec::with_capacity(rows.len(), GFP_KERNEL)?;
        for row in rows {
            files.push(File::new(row, &raw const *context), GFP_KERNEL)?;
        }
        // SAFETY: the name is a constant.
        let raw = from_err_ptr(unsafe { bindings::class_create(name.as_char_ptr()) })?;
        // INVARIANT: no file exists yet, and nothing is pushed from here on.
        let mut class = Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            files,
            visible: 0,
            _context: context,
        };
        for file in &class.files {
            // SAFETY: the class is registered; the attribute stays where it is until it is removed.
            to_result(unsafe {
                bindings::class_create_file_ns(raw, &raw const file.raw, core::ptr::null())
            })?;
            // INVARIANT: one more.
            class.visible = class.visible.wrapping_add(1);
        }
        Ok(class)
    }
}

impl<C: Send + Sync + 'static> Drop for Class<C> {
    fn drop(&mut self) {
        let class = self.raw.as_ptr();
        // SAFETY: registered by `new`; removing a file waits for its handlers, so that neither the
        // files nor the context are used afterwards.
        unsafe {
            for file in self.files.iter().take(self.visible) {
                bindings::class_remove_file_ns(class, &raw const file.raw, core::ptr::null());
            }
            bindings::class_destroy(class);
        }
    }
}

/// Shows a file.
///
/// # Safety
///
/// Called by sysfs for the attribute of a [`File`] for `C`.
unsafe extern "C" fn show<C>(
    _class: *const bindings::class,
    attribute: *const bindings::class_attribute,
    buffer: *mut c_char,
) -> isize {
    // SAFETY: the attribute is the first field of its file, and both file and context stay until
    // the file was removed, which waits for this call.
    let (file, context) = unsafe {
        let file = &*attribute.cast::<File<C>>();
        (file, &*file.context)
    };
    // SAFETY: sysfs passes a page.
    unsafe {
        show_into(buffer, |out| {
            file.show.map_or(Err(EIO), |f| f(context, out))
        })
    }
}

/// Stores to a file.
///
/// # Safety
///
/// As [`show`].
unsafe extern "C" fn store<C>(
    _class: *const bindings::class,
    attribute: *const bindings::class_attribute,
    buffer: *const c_char,
    len: usize,
) -> isize {
    // SAFETY: as in `show`.
    let (file, context) = unsafe {
        let file = &*attribute.cast::<File<C>>();
        (file, &*file.context)
    };
    // SAFETY: sysfs passes `len` bytes, and a NUL behind them.
    unsafe {
        store_from(buffer, len, |bytes| {
            file.store.map_or(Err(EIO), |f| f(context, bytes))
        })
    }
}
