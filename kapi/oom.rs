// SPDX-License-Identifier: GPL-2.0

//! The last call before a task is killed: the kernel's out-of-memory notifiers.
//!
//! # Protocol
//!
//! Before the kernel picks a task to kill it asks all notifiers. If they report pages given back,
//! it kills nobody and tries again. So a client reports only pages that it really gave back, or the
//! kernel would ask for ever.
//!
//! # Who may run with whom
//!
//! Calls come one at a time, under the kernel's out-of-memory lock, and overlap with everything
//! else of the client. A call may sleep, but not for memory, and takes bounded time. None runs
//! after the [`OomNotifier`] is dropped.

use super::ffi;
use core::cell::UnsafeCell;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// Somebody who may have memory to give when there is none.
pub(crate) trait OomClient: Send + Sync + 'static {
    /// Gives back what it can and returns how many pages it really were.
    ///
    /// # Context
    ///
    /// May sleep for a bounded time, but never for memory.
    fn give_back(&self) -> usize;
}

/// What the kernel keeps in its chain.
#[repr(C)]
struct Block {
    /// First, so that its address is the block's.
    raw: bindings::notifier_block,
    client: Arc<dyn OomClient>,
}

/// A registered client.
///
/// # Invariants
///
/// `block` is in the kernel's chain.
pub(crate) struct OomNotifier {
    block: KBox<UnsafeCell<Block>>,
}

// SAFETY: the block is the kernel's while it is registered; the client is `Send` and `Sync`.
unsafe impl Send for OomNotifier {}
// SAFETY: a shared reference gives nothing out.
unsafe impl Sync for OomNotifier {}

impl OomNotifier {
    /// Registers `client`.
    ///
    /// # Context
    ///
    /// May sleep; allocates as [`super::gfp::Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register<T: OomClient>(client: Arc<T>) -> Result<Self> {
        let block = KBox::new(
            UnsafeCell::new(Block {
                raw: bindings::notifier_block {
                    notifier_call: Some(notified),
                    ..pin_init::zeroed()
                },
                client,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: the block is boxed and stays until `drop` took it out of the chain.
        to_result(unsafe { ffi::register_oom_notifier(block.get().cast()) })?;
        // INVARIANT: registered just now.
        Ok(Self { block })
    }
}

impl Drop for OomNotifier {
    /// Ends the registration.
    ///
    /// # Context
    ///
    /// May sleep: waits for a call that runs.
    fn drop(&mut self) {
        // SAFETY: the invariant; taken out here.
        unsafe { ffi::unregister_oom_notifier(self.block.get().cast()) };
    }
}

/// The kernel's "go on and ask the others".
const NOTIFY_OK: c_int = 1;

/// Asks the client and adds to the kernel's sum.
///
/// # Safety
///
/// Called by the kernel for a registered [`Block`], with the address of its sum of pages.
unsafe extern "C" fn notified(
    block: *mut bindings::notifier_block,
    _event: c_ulong,
    freed: *mut c_void,
) -> c_int {
    // SAFETY: the notifier is the first field of a registered block, whose client stays.
    let client = unsafe { &(*block.cast::<Block>()).client };
    let pages = client.give_back();
    let freed = freed.cast::<c_ulong>();
    // SAFETY: the kernel's sum, an `unsigned long`, exclusive during the call.
    unsafe { *freed = (*freed).saturating_add(pages) };
    NOTIFY_OK
}
