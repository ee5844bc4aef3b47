// SPDX-License-Identifier: GPL-2.0

//! Giving the processor away in a long loop.

/// Lets others run if somebody waits, on kernels that do not preempt by themselves.
///
/// # Context
///
/// May sleep.
pub(crate) fn cond_resched() {
    kernel::task::might_sleep();
    // Fully preemptible kernels have no such function, as they need none.
    #[cfg(any(not(CONFIG_PREEMPTION), CONFIG_PREEMPT_DYNAMIC))]
    // SAFETY: no preconditions beyond the context above.
    unsafe {
        kernel::bindings::__cond_resched()
    };
}
