// SPDX-License-Identifier: GPL-2.0

//! Giving the processor away in a long loop, and who should have it first.

use kernel::task::Task;

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

/// Returns a number that tells the current task from all others that exist now.
///
/// # Context
///
/// Task context.
pub(crate) fn task_id() -> i32 {
    kernel::current!().pid()
}

/// Returns the current task's effective priority: lower is better, real-time is below 100, nice 0 is
/// 120.
///
/// # Context
///
/// Task context. A change of it meanwhile is harmless.
pub(crate) fn priority() -> u32 {
    // SAFETY: the current task exists while it runs; the word may change, hence the volatile read.
    let priority = unsafe { (&raw const (*Task::current_raw()).prio).read_volatile() };
    // Deadline tasks have the number -1.
    u32::try_from(priority).unwrap_or(0)
}
