// SPDX-License-Identifier: GPL-2.0

//! Waiting for a condition, one sleeper woken at a time.
//!
//! The kernel crate's `CondVar` wants a lock of the crate around the condition; here the condition
//! is any test on atomics, and a waker looks for sleepers without a lock.
//!
//! # Protocol
//!
//! - A waiter enters the queue, then tests the condition, then sleeps; after each wake-up it starts
//!   over. A waker changes what the condition tests, then looks at the queue. Both have a full
//!   barrier in between, so one of them sees the other.
//! - [`WaitQueue::wake_one`] wakes the first in the queue. If that one was about to leave anyhow,
//!   because it found its condition true by itself, it passes the wake-up on. So no wake-up is lost
//!   while somebody sleeps.
//! - A sleeper that wakes and finds that another one was faster goes back to sleep **at the end**.
//!
//! # In which order
//!
//! First come, first served, in two classes: urgent waiters, whose task had a real-time priority or
//! a nice value below zero when it went to sleep, come before all others. The kernel's queues
//! know no finer order. The others can be kept waiting as long as there is always an urgent one;
//! how long each holds what they wait for is the user's to bound.
//!
//! # Who may run with whom
//!
//! | | `wait` | `wake_*` | `has_sleeper` |
//! |---|---|---|---|
//! | any of them | - | - | - |
//!
//! "-" is no lock needed. Waiting is for task context; waking for any context, interrupts on or
//! off.

use super::atomic::{
    smp_mb,
    AtomicBool, //
};
use core::{
    cell::UnsafeCell,
    ptr::null_mut, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::LockClassKey,
    task::{
        might_sleep,
        Task, //
    },
    types::Opaque, //
};

/// A queue of tasks that wait for something.
///
/// # Invariants
///
/// `head` is an initialized C wait queue, and all its entries are the `entry` of a [`Waiter`].
///
/// C counterpart: `wait_queue_head_t`, `include/linux/wait.h`.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
}

// SAFETY: the C queue has a lock of its own.
unsafe impl Send for WaitQueue {}
// SAFETY: as above.
unsafe impl Sync for WaitQueue {}

/// A task's place in the queue, on its stack.
#[repr(C)]
struct Waiter {
    /// First, so that the entry's address is the waiter's.
    entry: UnsafeCell<bindings::wait_queue_entry>,
    /// A waker took this waiter out of the queue, and the condition was not tested since.
    woken: AtomicBool,
}

/// What [`WaitQueue::wake_one`] tells the wake function, told apart from "wake all" by not being
/// null.
const ONE: *mut c_void = core::ptr::without_provenance_mut(1);

impl WaitQueue {
    /// Returns an initializer for an empty queue; name and class are lockdep's.
    pub(crate) fn new(
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: initialized here, without entries.
            head <- Opaque::ffi_init(move |head| {
                // SAFETY: `head` is memory for a queue; name and class live for ever.
                unsafe {
                    bindings::__init_waitqueue_head(head, name.as_char_ptr(), class.as_ptr())
                }
            }),
        })
    }

    /// Waits until `condition` is true; a true answer may take what was waited for.
    ///
    /// Not interrupted by signals: what is waited for must come.
    ///
    /// # Context
    ///
    /// May sleep, with no lock held that a waker needs. `condition` runs while the task is marked
    /// as sleeping, so it must not sleep itself.
    pub(crate) fn wait(&self, mut condition: impl FnMut() -> bool) {
        might_sleep();
        if !condition() {
            self.wait_in_queue(condition);
        }
    }

    /// The part of [`Self::wait`] that may sleep.
    #[cold]
    fn wait_in_queue(&self, mut condition: impl FnMut() -> bool) {
        let waiter = Waiter {
            entry: UnsafeCell::new(pin_init::zeroed()),
            woken: AtomicBool::new(false),
        };
        let entry = waiter.entry.get();
        // SAFETY: the entry is ours until it is in the queue. It stays at its address, since the
        // waiter is not moved below.
        unsafe {
            bindings::init_wait_entry(entry, entry_flags());
            (*entry).func = Some(wake);
        }
        loop {
            // SAFETY: queue and entry are initialized. The call enters the entry if it is not in
            // the queue, sets the task's state, and is a full barrier after both.
            unsafe {
                // CAST: a small constant.
                let state = bindings::TASK_UNINTERRUPTIBLE as c_int;
                bindings::prepare_to_wait_event(self.head.get(), entry, state)
            };
            // A wake-up until here is used up by the test below; a later one is not.
            // ORDERING: full, so that the test comes after; pairs with the store in `waitq::wake`.
            waiter.woken.swap_full(false);
            if condition() {
                break;
            }
            // SAFETY: task context; the state was set above, and a wake-up since then undid it.
            unsafe { bindings::schedule() };
        }
        // SAFETY: takes the entry out, if no waker did, and marks the task as running. After it no
        // waker knows the entry.
        unsafe { bindings::finish_wait(self.head.get(), entry) };
        // ORDERING: acquire, pairs with the store in `waitq::wake`; the queue's lock, or the
        // careful test of the entry's links, has ordered it already.
        if waiter.woken.load_acquire() {
            // Somebody woke us for more than the condition has taken: pass it on.
            self.wake_one();
        }
    }

    /// Wakes one waiter, an urgent one if there is any. Does nothing, cheaply, if nobody waits.
    ///
    /// Call it after the change that a condition tests; the barrier is in here.
    ///
    /// # Context
    ///
    /// Any, interrupts on or off. Takes the queue's lock if somebody waits.
    #[inline]
    pub(crate) fn wake_one(&self) {
        if self.has_sleeper() {
            self.wake(1, ONE);
        }
    }

    /// Wakes all waiters.
    ///
    /// # Context
    ///
    /// As [`Self::wake_one`].
    pub(crate) fn wake_all(&self) {
        if self.has_sleeper() {
            self.wake(0, null_mut());
        }
    }

    /// Wakes up to `count` waiters that are not urgent, or all for zero; `key` goes to [`wake`].
    fn wake(&self, count: c_int, key: *mut c_void) {
        // SAFETY: the queue is initialized; its entries are waiters, which the wake function
        // expects.
        unsafe { bindings::__wake_up(self.head.get(), bindings::TASK_NORMAL, count, key) };
    }

    /// Returns whether somebody waits.
    ///
    /// A full barrier comes first: a caller that changed what a condition tests either sees the
    /// waiter here, or the waiter sees the change.
    #[inline]
    pub(crate) fn has_sleeper(&self) -> bool {
        // ORDERING: full barrier, pairs with the one in `prepare_to_wait_event()`.
        smp_mb();
        let head = self.head.get();
        // SAFETY: an initialized queue; the word may change meanwhile, hence the volatile read.
        unsafe {
            let list = &raw mut (*head).head;
            (&raw const (*list).next).read_volatile() != list
        }
    }
}

/// Returns the flags of the current task's place in a queue.
fn entry_flags() -> c_int {
    // SAFETY: the current task's own priority; a change of it meanwhile is harmless.
    let priority = unsafe { (&raw const (*Task::current_raw()).prio).read_volatile() };
    let flags = if u32::try_from(priority).is_ok_and(|p| p >= bindings::DEFAULT_PRIO) {
        bindings::WQ_FLAG_EXCLUSIVE
    } else {
        // Enters before the others, behind those of its kind. Such an entry must not be exclusive,
        // or the queue would put it at the end; `wake` stops the waker instead.
        bindings::WQ_FLAG_PRIORITY
    };
    // CAST: small constants.
    flags as c_int
}

/// Wakes one waiter; returns 1 if it did, 0 if the task was awake already, and -1 to end a
/// "wake one" that woke an urgent waiter.
///
/// # Safety
///
/// Called by the kernel with the queue's lock held, for an entry of a [`WaitQueue`].
unsafe extern "C" fn wake(
    entry: *mut bindings::wait_queue_entry,
    mode: c_uint,
    sync: c_int,
    key: *mut c_void,
) -> c_int {
    // SAFETY: the entry is the first field of a waiter, which cannot leave before it is out of the
    // queue; the lock is held and the entry is in.
    let (woken, urgent) = unsafe {
        let waiter = entry.cast::<Waiter>();
        (
            &(*waiter).woken,
            (*entry).flags & bindings::WQ_FLAG_PRIORITY != 0,
        )
    };
    // Noted before the wake-up: once the entry is out of the queue the waiter may be gone.
    // ORDERING: release, pairs with the swap and the load in `waitq::wait_in_queue`.
    woken.store_release(true);
    // SAFETY: the kernel's own arguments passed on. The function takes the entry out if it woke the
    // task.
    let did = unsafe { bindings::autoremove_wake_function(entry, mode, sync, key) } != 0;
    if !did {
        // SAFETY of the access: not woken, so still in the queue, whose lock is held: the waiter
        // cannot leave.
        // ORDERING: relaxed: the waiter will take the lock, or test again, before it reads.
        woken.store_relaxed(false);
        return 0;
    }
    if urgent && !key.is_null() {
        return -1;
    }
    1
}
