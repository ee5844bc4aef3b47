// SPDX-License-Identifier: GPL-2.0

//! The kernel as rzram sees it: unsafe inside, safe outside.
//!
//! One line a wrapper: its C partner, and why the `kernel` crate does not do.

// A wrapper shows the whole face of what it wraps, tested as a whole; no room needs all of it.
#![allow(dead_code)]

// Atomics: `atomic64_*`, `READ_ONCE`. The crate's have no and/or, and pure files need a facade.
pub(crate) mod atomic;
// Backing devices: `filp_open`, `bioset_init`, `submit_bio`. The crate has no bios.
pub(crate) mod bdev;
// The cells below `atomic`: `cmpxchg`, `xadd`. The crate's are calls; used by `atomic` only.
mod atomic_word;
// Incoming requests: `struct bio`. The crate knows requests of a queue only.
pub(crate) mod bio;
// Bit locks: `bit_spin_lock`, `wait_on_bit_lock`. Inline in C; the crate has none.
pub(crate) mod bitlock;
// Memory that may change while it is read. A Rust slice would promise that it does not.
pub(crate) mod bytes;
// The control class in sysfs: `class_register`. The crate has none.
pub(crate) mod class;
// Clocks: `ktime_get`, `ktime_get_coarse_with_offset`. The crate has no coarse clock.
pub(crate) mod clock;
// CPU hotplug instances: `cpuhp_state_add_instance`. The crate has none.
pub(crate) mod cpuhp;
// Files for people who debug: `debugfs_create_file`. Thin over the crate.
pub(crate) mod debugfs;
// A disk from creation to removal: `__blk_alloc_disk`. The crate's are request-based.
pub(crate) mod disk;
// Declarations that `kernel::bindings` does not carry, generated from our own header.
pub(crate) mod ffi;
// The disk that the kernel sees: size, openers, claims. The crate's `GenDisk` has none of it.
pub(crate) mod gendisk;
// Allocation policies: `gfp_t`. The crate's flags cannot be composed freely.
pub(crate) mod gfp;
// Requests that several parties serve: `bio_chain`. The crate has no bios.
pub(crate) mod joint;
// Lock-free lists: `struct llist_head`. Inline in C; the crate has none.
pub(crate) mod llist;
// Numbers: page and sector sizes, casts that lose nothing.
pub(crate) mod num;
// Boxes published by a pointer: `smp_store_release`. The crate's `SetOnce` keeps values in place.
pub(crate) mod once;
// Out-of-memory notifiers: `register_oom_notifier`. The crate has none.
pub(crate) mod oom;
// Pages and buffers: `alloc_pages_node`, `split_page`, `kvmalloc`. The crate has order 0, no node.
pub(crate) mod page;
// Module parameters: `module_param`. The crate's are invisible, constant, and never strings.
pub(crate) mod params;
// Per-CPU memory: `alloc_percpu`, `this_cpu_add`. The crate has none.
pub(crate) mod percpu;
// Sections without preemption: `preempt_disable`. Inline in C; the crate has none.
pub(crate) mod preempt;
// Read-write semaphores: `struct rw_semaphore`. The crate has none.
pub(crate) mod rwsem;
// Shrinkers: `struct shrinker`. The crate has none.
pub(crate) mod shrinker;
// Fatal signals: `fatal_signal_pending`. The crate knows signals of any kind only.
pub(crate) mod signal;
// Attribute tables: `struct device_attribute`. The crate has none.
pub(crate) mod sysfs;
// Wait queues: `wait_event_exclusive`, `wake_up`. The crate's `CondVar` wants a lock of the crate.
pub(crate) mod waitq;
// Workqueues and items: `alloc_workqueue`, `queue_work`. The crate's items own their object.
pub(crate) mod work;
// Giving the processor away: `cond_resched`. The crate has none.
pub(crate) mod sched;
// Words that a user wrote, made safe for the log.
pub(crate) mod log;
// A count of users that is waited for: `percpu_ref`, `completion`.
mod users;
// Whole files by path: `kernel_read_file_from_path`. The crate has none.
pub(crate) mod file;
