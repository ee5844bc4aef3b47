// SPDX-License-Identifier: GPL-2.0

//! Whether the current task is being killed: what a long loop looks at between two steps.

use kernel::{
    bindings,
    prelude::*, //
};

/// Returns whether a fatal signal waits for the current task.
///
/// # Context
///
/// Task context; does not sleep.
pub(crate) fn is_killed() -> bool {
    let task = current!();
    if !task.signal_pending() {
        return false;
    }
    // SAFETY: the current task is alive; others set bits of the word meanwhile, hence the volatile
    // read.
    let signals = unsafe { (&raw const (*task.as_ptr()).pending.signal.sig[0]).read_volatile() };
    signals & (1 << (bindings::SIGKILL - 1)) != 0
}
