// SPDX-License-Identifier: GPL-2.0

//! Being asked for memory: the kernel's shrinkers.
//!
//! # Protocol
//!
//! The kernel asks how many pages could be given, and then, in portions, for some of them. Both
//! calls come from a task that wants memory and may hold anything it held when it asked: they take
//! locks by try only, allocate nothing and wait for nobody.
//!
//! # Who may run with whom
//!
//! Calls overlap with each other, on several CPUs, and with everything else of the client. None
//! runs after the [`Shrinker`] is dropped.

use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};

/// Somebody who can give memory back.
pub(crate) trait Shrink: Send + Sync + 'static {
    /// Returns how many pages could be given back, roughly.
    ///
    /// # Context
    ///
    /// Reclaim: no allocation, no waiting.
    fn count(&self) -> usize;

    /// Tries to give back `pages` pages and returns how many it were; nothing if it is no use to
    /// ask on.
    ///
    /// # Context
    ///
    /// Reclaim: locks by try only, no allocation, no waiting.
    fn scan(&self, pages: usize) -> Option<usize>;
}

/// A registered client.
///
/// # Invariants
///
/// `raw` is registered, with the callbacks for `T` and the address of `client`'s value.
pub(crate) struct Shrinker<T: Shrink> {
    raw: NonNull<bindings::shrinker>,
    /// Dropped after the callbacks have ended, which the type's own drop waits for.
    _client: Arc<T>,
}

// SAFETY: a registration may be dropped on any thread; the client is `Send` and `Sync`.
unsafe impl<T: Shrink> Send for Shrinker<T> {}
// SAFETY: a shared reference gives nothing out.
unsafe impl<T: Shrink> Sync for Shrinker<T> {}

impl<T: Shrink> Shrinker<T> {
    /// Registers `client` under `name`, which debugfs shows.
    ///
    /// # Context
    ///
    /// May sleep; allocates as [`super::gfp::Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register(name: &CStr, client: Arc<T>) -> Result<Self> {
        // SAFETY: the format takes one string, which is copied.
        let raw = unsafe { bindings::shrinker_alloc(0, c"%s".as_char_ptr(), name.as_char_ptr()) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY:
        // - Allocated above, not registered yet, so the fields are ours to set.
        // - The client stays until the registration has ended.
        unsafe {
            let shrinker = raw.as_ptr();
            (*shrinker).count_objects = Some(count::<T>);
            (*shrinker).scan_objects = Some(scan::<T>);
            (*shrinker).seeks = SEEKS;
            (*shrinker).private_data = Arc::as_ptr(&client).cast_mut().cast();
            bindings::shrinker_register(shrinker);
        }
        // INVARIANT: registered just now.
        Ok(Self {
            raw,
            _client: client,
        })
    }
}

/// Cost of getting a page back, in the kernel's unit; 2 is its default, and a compaction is no
/// dearer than reading a page from a disk.
const SEEKS: c_int = 2;

impl<T: Shrink> Drop for Shrinker<T> {
    /// Ends the registration.
    ///
    /// # Context
    ///
    /// May sleep: waits for calls that run.
    fn drop(&mut self) {
        // SAFETY: the invariant; given up here.
        unsafe { bindings::shrinker_free(self.raw.as_ptr()) };
    }
}

/// Answers how much could be given.
///
/// # Safety
///
/// Called by the kernel for a registered shrinker of `T`.
unsafe extern "C" fn count<T: Shrink>(
    shrinker: *mut bindings::shrinker,
    _control: *mut bindings::shrink_control,
) -> c_ulong {
    // SAFETY: the invariant of `Shrinker`; the client outlives the call.
    let client = unsafe { &*(*shrinker).private_data.cast_const().cast::<T>() };
    match client.count() {
        0 => special(bindings::SHRINK_EMPTY),
        // Far from the special numbers at the top.
        pages => pages.min(isize::MAX.unsigned_abs()),
    }
}

/// Gives some back.
///
/// # Safety
///
/// As [`count`].
unsafe extern "C" fn scan<T: Shrink>(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    // SAFETY: the invariant of `Shrinker`, and a control block that is the call's own.
    let (client, wanted) = unsafe {
        (
            &*(*shrinker).private_data.cast_const().cast::<T>(),
            (*control).nr_to_scan,
        )
    };
    match client.scan(wanted) {
        None => special(bindings::SHRINK_STOP),
        Some(pages) => pages.min(isize::MAX.unsigned_abs()),
    }
}

/// Returns one of the kernel's special answers, which bindgen makes small negative numbers of.
fn special(number: i32) -> c_ulong {
    // CAST: sign extension to the machine's word is what the C constant is.
    number as c_ulong
}
