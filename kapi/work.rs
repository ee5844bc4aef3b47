// SPDX-License-Identifier: GPL-2.0

//! A workqueue of our own, and work items that belong to the object they work on.
//!
//! The kernel crate's items own a reference to their object while queued, so an object could not go
//! before its work ran, and a cancel would have to give the reference back. Here it is the other
//! way around: the object owns its items, queueing neither allocates nor counts, and dropping the
//! object first stops every item and then drops the value.
//!
//! # Protocol
//!
//! - [`Worker`] is a value and a fixed number of items. Item `i` calls [`Job::run`] with `i`.
//! - An item is queued or not. Queueing a queued item changes nothing; queueing one that is running
//!   makes it run once more. One item never runs twice at the same time; different ones may.
//! - Dropping a worker disables its items, waits for those that run, and from then on queueing does
//!   nothing. Only then is the value dropped. So `run` may use the value freely, and must not drop
//!   the last reference to its own worker, which would wait for itself.
//!
//! # Who may run with whom
//!
//! | | `queue*` | `run(i)` | `run(j)` | `cancel_sync` |
//! |---|---|---|---|---|
//! | `queue*` | - | - | - | either order |
//! | `run(i)` | - | never | - | waits |
//!
//! Queueing runs in any context but NMI, interrupts on or off. `cancel_sync`, `flush` and drop
//! sleep.

use core::ops::Deref;
use kernel::{
    bindings,
    prelude::*,
    static_lock_class,
    sync::Arc,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// A workqueue whose threads run on any CPU, and which works on when memory is short.
///
/// # Invariants
///
/// `raw` is a live workqueue that this value owns.
///
/// C counterpart: `struct workqueue_struct`.
pub(crate) struct Workqueue {
    raw: *mut bindings::workqueue_struct,
}

// SAFETY: workqueues are made to be used from everywhere.
unsafe impl Send for Workqueue {}
// SAFETY: as above.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Makes a queue, visible under `name` in `/sys/devices/virtual/workqueue`, where its CPUs and
    /// nice value can be set.
    ///
    /// It has a thread of its own in reserve, so the I/O path may wait for its items.
    ///
    /// # Context
    ///
    /// May sleep; allocates as [`super::gfp::Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the name is taken.
    pub(crate) fn new(name: &CStr) -> Result<Arc<Self>> {
        let room = kernel::sync::UniqueArc::<Self>::new_uninit(GFP_KERNEL)?;
        let flags = bindings::wq_flags_WQ_UNBOUND
            | bindings::wq_flags_WQ_MEM_RECLAIM
            | bindings::wq_flags_WQ_SYSFS;
        // SAFETY: the format takes one string, which is copied; zero asks for the default number of
        // items at work.
        let raw = unsafe {
            bindings::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, 0, name.as_char_ptr())
        };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        // INVARIANT: live, and ours.
        Ok(room.write(Self { raw }).into())
    }

    /// Waits until everything queued before this call has run.
    ///
    /// # Context
    ///
    /// May sleep; not from an item of this queue.
    pub(crate) fn flush(&self) {
        // SAFETY: the invariant.
        unsafe { bindings::__flush_workqueue(self.raw) };
    }
}

impl Drop for Workqueue {
    /// Ends the queue. Every worker holds a reference, so nothing is queued any more.
    ///
    /// # Context
    ///
    /// May sleep; not from an item of this queue.
    fn drop(&mut self) {
        // SAFETY: the invariant; given up here.
        unsafe { bindings::destroy_workqueue(self.raw) };
    }
}

/// What a worker does.
pub(crate) trait Job: Send + Sync + Sized + 'static {
    /// Does the work of item `item`.
    ///
    /// # Context
    ///
    /// Task context, may sleep. Memory may be short: the queue serves reclaim.
    fn run(this: &Worker<Self>, item: usize);
}

/// One item: the C work with a timer for delays, and the way back to its worker.
///
/// # Invariants
///
/// `work` is initialized and calls [`run`]; `owner` is the worker that holds the item.
#[repr(C)]
struct Item<T: Job> {
    /// First, so that the work's address is the item's.
    work: Opaque<bindings::delayed_work>,
    owner: *const Worker<T>,
    index: usize,
}

/// A value with items that work on it; see the file's header.
///
/// # Invariants
///
/// - `items` does not change its place or length after construction.
/// - Every item is initialized, and `queue` outlives all of them.
#[pin_data(PinnedDrop)]
pub(crate) struct Worker<T: Job> {
    items: KVec<Item<T>>,
    queue: Arc<Workqueue>,
    /// Dropped last, after the items were stopped in `drop`.
    value: T,
    #[pin]
    _pin: core::marker::PhantomPinned,
}

// SAFETY: items are touched through the workqueue's own locking only; the value is `Send`.
unsafe impl<T: Job> Send for Worker<T> {}
// SAFETY: as above; a shared reference gives out `&T`, which is `Sync`.
unsafe impl<T: Job> Sync for Worker<T> {}

impl<T: Job> Worker<T> {
    /// Returns an initializer for a worker with `count` items on `queue`.
    ///
    /// # Context
    ///
    /// The initializer may sleep; it allocates as [`super::gfp::Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(queue: Arc<Workqueue>, count: usize, value: T) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            items: Self::make_items(this.as_ptr(), count)?,
            queue,
            value,
            _pin: core::marker::PhantomPinned,
        }? Error)
    }

    /// Makes the items of the worker that will be at `owner`.
    fn make_items(owner: *const Self, count: usize) -> Result<KVec<Item<T>>> {
        let mut items = KVec::with_capacity(count, GFP_KERNEL)?;
        for index in 0..count {
            items.push(
                Item {
                    work: Opaque::zeroed(),
                    owner,
                    index,
                },
                GFP_KERNEL,
            )?;
        }
        // In a second step, since C objects must not move once they are initialized; the vector's
        // memory stays where it is, as its capacity was enough.
        for item in &items {
            // INVARIANT: initialized here, with the function that expects an item of this type.
            // SAFETY: zeroed memory for a work at its final address.
            unsafe { init_work(item.work.get(), run::<T>) };
        }
        Ok(items)
    }

    /// Returns the C work of an item.
    #[inline]
    fn item(&self, item: usize) -> Option<*mut bindings::delayed_work> {
        self.items.get(item).map(|i| i.work.get())
    }

    /// Queues an item to run as soon as a thread is free; returns whether it was not queued yet.
    ///
    /// # Context
    ///
    /// Any but NMI; interrupts may be off. Never waits or allocates.
    #[inline]
    pub(crate) fn queue(&self, item: usize) -> bool {
        self.item(item).is_some_and(|work| {
            // SAFETY: the item is initialized; the queue is alive, as `self` holds it, and the item
            // is stopped before either goes.
            unsafe { bindings::queue_work_on(ANY_CPU, self.queue.raw, &raw mut (*work).work) }
        })
    }

    /// Queues an item to run after `ms` milliseconds; returns whether it was not queued yet.
    ///
    /// # Context
    ///
    /// As [`Self::queue`].
    pub(crate) fn queue_after(&self, item: usize, ms: u32) -> bool {
        self.item(item).is_some_and(|work| {
            let delay = msecs_to_jiffies(ms);
            // SAFETY: as in `queue`.
            unsafe { bindings::queue_delayed_work_on(ANY_CPU, self.queue.raw, work, delay) }
        })
    }

    /// Queues an item to run `ms` milliseconds from now, whether it was queued for another time or
    /// not.
    ///
    /// # Context
    ///
    /// As [`Self::queue`].
    pub(crate) fn requeue_after(&self, item: usize, ms: u32) {
        if let Some(work) = self.item(item) {
            let delay = msecs_to_jiffies(ms);
            // SAFETY: as in `queue`.
            unsafe { bindings::mod_delayed_work_on(ANY_CPU, self.queue.raw, work, delay) };
        }
    }

    /// Takes an item off the queue and waits until it does not run; it may be queued again.
    ///
    /// Returns whether it was queued.
    ///
    /// # Context
    ///
    /// May sleep; not from the item itself.
    pub(crate) fn cancel_sync(&self, item: usize) -> bool {
        self.item(item).is_some_and(|work| {
            // SAFETY: the item is initialized.
            unsafe { bindings::cancel_delayed_work_sync(work) }
        })
    }

    /// Waits until an item that is queued, or waits for its time, has run; that is not put off.
    ///
    /// # Context
    ///
    /// May sleep; not from the item itself.
    pub(crate) fn flush(&self, item: usize) {
        if let Some(work) = self.item(item) {
            // SAFETY: the item is initialized.
            unsafe { bindings::flush_delayed_work(work) };
        }
    }

    /// Takes all items off for good and waits until none runs; queueing does nothing afterwards.
    ///
    /// Dropping does it anyway; this is for an owner who must know earlier that nothing runs.
    ///
    /// # Context
    ///
    /// May sleep; not from one of the items.
    pub(crate) fn stop(&self) {
        for item in &self.items {
            // SAFETY: the item is initialized. A disabled item cannot be queued, so none comes back
            // while the others are being stopped.
            unsafe { bindings::disable_delayed_work_sync(item.work.get()) };
        }
    }
}

impl<T: Job> Deref for Worker<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[pinned_drop]
impl<T: Job> PinnedDrop for Worker<T> {
    /// Stops all items; the value goes afterwards.
    ///
    /// # Context
    ///
    /// May sleep; not from one of the items.
    fn drop(self: Pin<&mut Self>) {
        self.stop();
    }
}

/// "No particular CPU", the unbound queue's choice.
// CAST: a small constant.
const ANY_CPU: c_int = bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int;

/// Initializes a work and its timer.
///
/// # Safety
///
/// `work` must be zeroed memory at the work's final address; `function` must expect it.
unsafe fn init_work(
    work: *mut bindings::delayed_work,
    function: unsafe extern "C" fn(*mut bindings::work_struct),
) {
    // SAFETY: the caller's promise; names and classes live for ever.
    unsafe {
        bindings::init_work_with_key(
            &raw mut (*work).work,
            Some(function),
            false,
            c"rzram work".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
        bindings::timer_init_key(
            &raw mut (*work).timer,
            Some(bindings::delayed_work_timer_fn),
            bindings::TIMER_IRQSAFE,
            c"rzram work timer".as_char_ptr(),
            static_lock_class!().as_ptr(),
        );
    }
}

/// Runs an item.
///
/// # Safety
///
/// Called by the workqueue with the work of an [`Item`] of a live worker of `T`.
unsafe extern "C" fn run<T: Job>(work: *mut bindings::work_struct) {
    // SAFETY: the work is the first field of a delayed work, which is the first field of an item.
    // The worker is alive: it stops its items before anything of it goes.
    let (owner, index) = unsafe {
        let item = work.cast::<Item<T>>();
        (&*(*item).owner, (*item).index)
    };
    T::run(owner, index);
}
