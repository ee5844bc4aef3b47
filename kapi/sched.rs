// SPDX-License-Identifier: GPL-2.0

//! Giving the processor away in a long loop, and who should have it first.

use kernel::{
    bindings,
    ffi::c_long,
    task::{might_sleep, Task},
    types::NotThreadSafe, //
};

/// What the kernel calls nice 0.
const DEFAULT_PRIORITY: c_long = 120;
/// The lowest nice value there is.
const LOWEST_NICE: c_long = 19;

/// Lets others run if somebody waits, on kernels that do not preempt by themselves.
///
/// # Context
///
/// May sleep.
pub(crate) fn cond_resched() {
    might_sleep();
    // Fully preemptible kernels have no such function, as they need none.
    #[cfg(any(not(CONFIG_PREEMPTION), CONFIG_PREEMPT_DYNAMIC))]
    // SAFETY: no preconditions beyond the context above.
    unsafe {
        bindings::__cond_resched()
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

/// Sleeps for some milliseconds.
///
/// # Context
///
/// May sleep, uninterruptibly.
pub(crate) fn sleep_ms(ms: u32) {
    might_sleep();
    // SAFETY: no preconditions beyond the context above.
    unsafe { bindings::msleep(ms) };
}

/// A scope in which the current thread has the lowest nice value; a work item's, as a rule.
///
/// The guard stays on its thread.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct LowPriority {
    before: c_long,
    _thread: NotThreadSafe,
}

impl LowPriority {
    /// Begins the scope.
    ///
    /// # Context
    ///
    /// Task context; takes locks of the scheduler.
    pub(crate) fn enter() -> Self {
        let task = Task::current_raw();
        // SAFETY: the current task exists while it runs; its priority is changed with the
        // scheduler's own locks.
        let before = unsafe {
            let priority = (&raw const (*task).static_prio).read_volatile();
            bindings::set_user_nice(task, LOWEST_NICE);
            // CAST: widening.
            (priority as c_long).wrapping_sub(DEFAULT_PRIORITY)
        };
        Self {
            before,
            _thread: NotThreadSafe,
        }
    }
}

impl Drop for LowPriority {
    fn drop(&mut self) {
        // SAFETY: the guard never leaves its thread, so this is the task of `enter`.
        unsafe { bindings::set_user_nice(Task::current_raw(), self.before) };
    }
}
