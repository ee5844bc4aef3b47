// SPDX-License-Identifier: GPL-2.0

//! A disk that takes whole bios: its block major, its creation, its claim, its removal.
//!
//! | type | is | ends by |
//! |---|---|---|
//! | [`Major`] | a block major number | waiting for its last disk to be gone |
//! | [`Disk`] | a disk that users can see, in its owner's hands | removal |
//! | [`LiveDisk`] | the same disk in the hands of its callbacks and attributes | with the last user |
//! | [`Claim`](super::gendisk::Claim) | the promise that nobody has it open, and nobody can | giving the disk back |
//! | [`ClosingDisk`] | a disk that refuses new opens for good | [`ClosingDisk::delete`] |
//! | [`DeletedDisk`] | a disk that nobody can reach any more | freeing it |
//!
//! The driver's object is reached from the disk's private data; it is released when the kernel
//! frees the disk, which can be later than its removal.
//!
//! # Who may run with whom
//!
//! Requests and slot-free calls come from any number of CPUs at once, attribute handlers from any
//! number of tasks, all beside each other and beside a claim that is being tried. While a claim is
//! held there are no openers, so no requests and no slot-free calls; attribute handlers go on.
//! After [`ClosingDisk::delete`] there are no attribute handlers either.

use crate::kapi::{
    bio::Bio,
    ffi,
    gendisk::DiskHandle,
    num::{
        usize_to_u64,
        PAGE_SIZE, //
    },
    once::{
        Anchor,
        Anchored,
        ExclusiveProof,
        PinsLive, //
    },
    sysfs::Groups,
    users::Users, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    prelude::*,
    static_lock_class,
    sync::Arc,
    types::NotThreadSafe, //
};

/// Bytes of the unit that requests are made of, whatever the page size. Users format for it.
const LOGICAL_BLOCK_SIZE: u32 = 4096;

/// What a disk does for the block layer and the swap core.
pub(crate) trait DiskOps: Send + Sync + Sized + 'static {
    /// Takes a request and ends it, now or later.
    ///
    /// # Context
    ///
    /// Task context of the submitter; may sleep. Page-out comes here under memory pressure, so no
    /// allocation may start I/O, and no request submitted from here may be waited for.
    fn submit(&self, bio: Bio);

    /// Refuses an open that the claim flags would permit, or takes note of it.
    ///
    /// # Context
    ///
    /// May sleep. The disk's open mutex is held.
    ///
    /// # Errors
    ///
    /// Any errno makes `open(2)` fail with it.
    fn open(&self) -> Result {
        Ok(())
    }

    /// Learns that the swap core has freed the page `index` of the disk, which may lie outside.
    ///
    /// # Context
    ///
    /// Atomic: a swap cluster's spin lock is held, interrupts may be off. Must neither sleep, nor
    /// wait for anybody, nor allocate.
    fn slot_free(&self, call: &NotifyCall, index: u64);

    /// Learns that the handler of a control file refused what was written to it.
    ///
    /// # Context
    ///
    /// May sleep; the handler's own task, after it has let go of its locks.
    fn refused(&self, _file: &CStr, _text: &[u8], _error: Error) {}

    /// Learns that the disk is about to be taken from everybody's sight, and drops what it holds of
    /// the disk itself.
    ///
    /// # Context
    ///
    /// May sleep. Control files may still be written.
    fn leaving(&self) {}
}

/// The proof that the swap core is calling, and so has the disk open.
pub(crate) struct NotifyCall {
    disk: *const bindings::gendisk,
    _thread: NotThreadSafe,
}

// SAFETY: the disk that the call is for, which the swap core keeps open.
unsafe impl Anchored for NotifyCall {
    fn anchor(&self) -> Anchor {
        Anchor::of(self.disk)
    }
}

// SAFETY: made by the trampoline only, for the time of a call. The swap core holds the disk open
// until its last slot is freed and the area is off, and what is live is retired only by whoever
// holds a claim, which is refused meanwhile.
unsafe impl PinsLive for NotifyCall {}

/// A block major number.
///
/// Dropping it waits until the kernel has freed the last disk that was made with it, so that none
/// of our callbacks can run after the module is gone.
pub(crate) struct Major {
    number: u32,
    name: &'static CStr,
    disks: Arc<Users>,
}

impl Major {
    /// Registers the next free number under `name`, as seen in `/proc/devices`.
    ///
    /// # Context
    ///
    /// May sleep.
    ///
    /// # Errors
    ///
    /// What the kernel says: EBUSY if there is no free number, ENOMEM.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        // SAFETY: the name is a constant; no probe function.
        let number = unsafe { bindings::__register_blkdev(0, name.as_char_ptr(), None) };
        to_result(number)?;
        let number = number.unsigned_abs();
        let disks = Arc::pin_init(Users::new(), GFP_KERNEL).inspect_err(|_| {
            // SAFETY: registered above under this very name.
            unsafe { bindings::unregister_blkdev(number, name.as_char_ptr()) }
        })?;
        Ok(Self {
            number,
            name,
            disks,
        })
    }

    /// Returns the number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Major {
    fn drop(&mut self) {
        self.disks.wait();
        // SAFETY: registered by `new` under this name; no disk uses it any more.
        unsafe { bindings::unregister_blkdev(self.number, self.name.as_char_ptr()) };
    }
}

/// A use of a major, kept by each disk.
struct MajorUse(Arc<Users>);

impl MajorUse {
    fn new(major: &Major) -> Self {
        major.disks.get();
        Self(major.disks.clone())
    }
}

impl Drop for MajorUse {
    fn drop(&mut self) {
        self.0.put();
    }
}

/// A disk as its callbacks and attribute handlers see it; dereferences to the driver's object.
pub(crate) struct LiveDisk<T> {
    handle: DiskHandle,
    ops: Arc<T>,
    // Last, so that the major goes when nothing of the disk is left.
    _major: MajorUse,
}

impl<T> LiveDisk<T> {
    /// Returns the kernel's side of the disk.
    pub(crate) fn disk(&self) -> &DiskHandle {
        &self.handle
    }

    /// Returns the driver's object, counted.
    pub(crate) fn ops(&self) -> &Arc<T> {
        &self.ops
    }

    /// Returns the object behind a disk.
    ///
    /// # Safety
    ///
    /// `disk` must be a disk made by [`Disk::create`] for the same `T`, not freed during `'a`.
    pub(in crate::kapi) unsafe fn from_raw<'a>(disk: *mut bindings::gendisk) -> &'a Self {
        // SAFETY: `create` stores this pointer before the disk can be reached, and it is taken back
        // when the disk is freed.
        unsafe { &*(*disk).private_data.cast::<Self>() }
    }
}

impl<T> Deref for LiveDisk<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.ops
    }
}

/// A disk that users can see.
///
/// Dropping it removes it, open or not: use [`Disk::close`] first where it may be open.
///
/// # Invariants
///
/// `live` was added to the kernel's disks once and not removed, and this value owns the reference
/// that the allocation of the disk gave.
pub(crate) struct Disk<T: DiskOps> {
    live: NonNull<LiveDisk<T>>,
    _owns: PhantomData<LiveDisk<T>>,
}

// SAFETY: the functions for a disk may be called from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: DiskOps> Send for Disk<T> {}
// SAFETY: as above.
unsafe impl<T: DiskOps> Sync for Disk<T> {}

impl<T: DiskOps> Disk<T> {
    /// Creates an empty disk, with its attributes, and announces it.
    ///
    /// Requests, opens and attribute handlers may come before this returns.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    ///
    /// # Errors
    ///
    /// EINVAL for a name that is too long or a minor that is too large, ENOMEM, EEXIST if the name
    /// is taken; else what the kernel says.
    pub(crate) fn create(
        major: &Major,
        minor: u32,
        name: &CStr,
        groups: &'static Groups<T>,
        ops: Arc<T>,
    ) -> Result<Self> {
        let mut limits = limits();
        // SAFETY: the limits are copied during the call.
        let raw = from_err_ptr(unsafe {
            bindings::__blk_alloc_disk(
                &mut limits,
                bindings::NUMA_NO_NODE,
                static_lock_class!().as_ptr(),
            )
        })?;
        let unadded = Unadded(NonNull::new(raw).ok_or(ENOMEM)?);
        let live = KBox::new(
            LiveDisk {
                // SAFETY: the handle is part of what the disk's end frees, or of this failing call.
                handle: unsafe { DiskHandle::new(unadded.0) },
                ops,
                _major: MajorUse::new(major),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: allocated above and not added yet, so nobody else looks at it.
        unsafe {
            (*raw).major = i32::try_from(major.number())?;
            (*raw).first_minor = i32::try_from(minor)?;
            (*raw).minors = 1;
            (*raw).flags |= i32::try_from(bindings::GENHD_FL_NO_PART)?;
            (*raw).fops = Table::<T>::OPERATIONS;
            set_name(&mut (*raw).disk_name, name)?;
            (*raw).private_data = (&raw const *live).cast_mut().cast();
        }
        // SAFETY:
        // - Fully set up; a null parent means a virtual disk.
        // - The groups are a static list for disks of `T`. The kernel only reads it.
        to_result(unsafe {
            bindings::device_add_disk(core::ptr::null_mut(), raw, groups.as_ptr().cast_mut())
        })?;
        // The kernel frees the box from now on, by `free_disk`.
        let live = NonNull::from(KBox::leak(live));
        let _ = ManuallyDrop::new(unadded);
        // INVARIANT: added above; the reference was `unadded`'s.
        Ok(Self {
            live,
            _owns: PhantomData,
        })
    }

    /// Refuses new opens for good, as the first step of a removal.
    ///
    /// A claim that somebody holds is no obstacle: the removal waits for attribute handlers.
    ///
    /// # Context
    ///
    /// May sleep. Takes the open mutex for the time of the call.
    ///
    /// # Errors
    ///
    /// Gives the disk back if it is open; the errno to report is EBUSY.
    pub(crate) fn close(self) -> Result<ClosingDisk<T>, Self> {
        if self.disk().try_close() {
            Ok(ClosingDisk(self))
        } else {
            Err(self)
        }
    }
}

impl<T: DiskOps> Deref for Disk<T> {
    type Target = LiveDisk<T>;

    fn deref(&self) -> &LiveDisk<T> {
        // SAFETY: freed with the disk, of which this value owns a reference.
        unsafe { self.live.as_ref() }
    }
}

impl<T: DiskOps> Drop for Disk<T> {
    fn drop(&mut self) {
        let raw = self.disk().as_ptr();
        self.ops.leaving();
        // SAFETY: added once, by the type invariant; the reference is given up last.
        unsafe {
            bindings::del_gendisk(raw);
            bindings::put_disk(raw);
        }
    }
}

/// A disk that nobody has open and nobody can open any more.
pub(crate) struct ClosingDisk<T: DiskOps>(Disk<T>);

impl<T: DiskOps> ClosingDisk<T> {
    /// Removes the disk from everybody's sight and waits for the attribute handlers.
    ///
    /// # Context
    ///
    /// May sleep. No lock that an attribute handler takes may be held.
    pub(crate) fn delete(self) -> DeletedDisk<T> {
        let disk = ManuallyDrop::new(self.0);
        disk.ops.leaving();
        // SAFETY: added once, by the type invariant of `Disk`, whose own `drop` does not run.
        unsafe { bindings::del_gendisk(disk.disk().as_ptr()) };
        // INVARIANT: removed now; the reference moves over.
        DeletedDisk {
            live: disk.live,
            _owns: PhantomData,
        }
    }
}

impl<T: DiskOps> Deref for ClosingDisk<T> {
    type Target = LiveDisk<T>;

    fn deref(&self) -> &LiveDisk<T> {
        &self.0
    }
}

/// A disk that is not reachable any more: no opener, no attribute handler, no claim of others.
///
/// # Invariants
///
/// `live` was removed from the kernel's disks, and this value owns the reference that the
/// allocation of the disk gave.
pub(crate) struct DeletedDisk<T: DiskOps> {
    live: NonNull<LiveDisk<T>>,
    _owns: PhantomData<LiveDisk<T>>,
}

// SAFETY: the functions for a disk may be called from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: DiskOps> Send for DeletedDisk<T> {}
// SAFETY: as above.
unsafe impl<T: DiskOps> Sync for DeletedDisk<T> {}

// SAFETY: the disk's own anchor; the disk is alive until the reference is given up.
unsafe impl<T: DiskOps> Anchored for DeletedDisk<T> {
    fn anchor(&self) -> Anchor {
        self.disk().anchor()
    }
}

// SAFETY: no openers since `Disk::close`, so neither requests nor slot-free calls; claims are made
// by attribute handlers, which have ended, or by whoever borrows the `Disk`, which is gone.
unsafe impl<T: DiskOps> ExclusiveProof for DeletedDisk<T> {}

impl<T: DiskOps> Deref for DeletedDisk<T> {
    type Target = LiveDisk<T>;

    fn deref(&self) -> &LiveDisk<T> {
        // SAFETY: freed with the disk, of which this value owns a reference.
        unsafe { self.live.as_ref() }
    }
}

impl<T: DiskOps> Drop for DeletedDisk<T> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours by the type invariant, and given up once.
        unsafe { bindings::put_disk(self.disk().as_ptr()) };
    }
}

/// A disk that was allocated and not added; dropping it frees it without calling `free_disk`.
struct Unadded(NonNull<bindings::gendisk>);

impl Drop for Unadded {
    fn drop(&mut self) {
        // SAFETY: the allocation's reference, not given to anybody else.
        unsafe { bindings::put_disk(self.0.as_ptr()) };
    }
}

/// Returns the limits of every rzram disk, which tools read in the `queue` directory.
fn limits() -> bindings::queue_limits {
    // CAST: a page is far below 4 GiB, as the assertion says.
    const PAGE: u32 = PAGE_SIZE as u32;
    const _: () = assert!(PAGE_SIZE <= 1 << 20);
    bindings::queue_limits {
        logical_block_size: LOGICAL_BLOCK_SIZE,
        // Asks users for whole pages; the walk copes with less.
        physical_block_size: PAGE,
        io_min: PAGE,
        io_opt: PAGE,
        max_hw_discard_sectors: u32::MAX,
        // Discard skips parts of a page, so it makes zeroes only where a block is a page.
        max_write_zeroes_sectors: if PAGE == LOGICAL_BLOCK_SIZE {
            u32::MAX
        } else {
            0
        },
        // Stable writes: the data is read more than once while it is being stored. Synchronous:
        // requests end in the submitter's context, so that swap skips read-ahead.
        features: ffi::BLK_FEAT_STABLE_WRITES | ffi::BLK_FEAT_SYNCHRONOUS,
        ..pin_init::zeroed()
    }
}

/// Copies a name that fits together with its NUL.
fn set_name(field: &mut [c_char], name: &CStr) -> Result {
    let bytes = name.to_bytes_with_nul();
    let place = field.get_mut(..bytes.len()).ok_or(EINVAL)?;
    for (to, from) in place.iter_mut().zip(bytes) {
        *to = *from;
    }
    Ok(())
}

/// Carries the operations table for disks of `T`.
struct Table<T>(PhantomData<T>);

impl<T: DiskOps> Table<T> {
    const OPERATIONS: *const bindings::block_device_operations =
        &bindings::block_device_operations {
            submit_bio: Some(submit_bio::<T>),
            open: Some(open::<T>),
            free_disk: Some(free_disk::<T>),
            swap_slot_free_notify: Some(swap_slot_free_notify::<T>),
            owner: kernel::module::this_module::<crate::LocalModule>().as_ptr(),
            ..pin_init::zeroed()
        };
}

/// Hands a request over.
///
/// # Safety
///
/// Called by the block layer with a request for a disk made for `T`.
unsafe extern "C" fn submit_bio<T: DiskOps>(bio: *mut bindings::bio) {
    // SAFETY:
    // - The block layer passes a valid bio, whose device and disk it keeps during this call.
    // - The bio is ours from here on.
    let (live, bio) = unsafe {
        let disk = (*(*bio).bi_bdev).bd_disk;
        (
            LiveDisk::<T>::from_raw(disk),
            Bio::from_raw(NonNull::new_unchecked(bio), NonNull::new_unchecked(disk)),
        )
    };
    live.ops.submit(bio);
}

/// Decides about an open.
///
/// # Safety
///
/// Called by the block layer, under the open mutex, for a disk made for `T`.
unsafe extern "C" fn open<T: DiskOps>(
    disk: *mut bindings::gendisk,
    _mode: bindings::blk_mode_t,
) -> c_int {
    // SAFETY: the opener keeps the disk during this call.
    let live = unsafe { LiveDisk::<T>::from_raw(disk) };
    from_result(|| {
        if live.handle.is_refused() {
            return Err(EBUSY);
        }
        live.ops.open()?;
        Ok(0)
    })
}

/// Passes a slot-free call on.
///
/// # Safety
///
/// Called by the swap core for a disk made for `T` that it has open.
unsafe extern "C" fn swap_slot_free_notify<T: DiskOps>(
    bdev: *mut bindings::block_device,
    index: c_ulong,
) {
    // SAFETY: the swap core keeps the device and its disk during this call.
    let (disk, live) = unsafe {
        let disk = (*bdev).bd_disk;
        (disk, LiveDisk::<T>::from_raw(disk))
    };
    let call = NotifyCall {
        disk,
        _thread: NotThreadSafe,
    };
    live.ops.slot_free(&call, usize_to_u64(index));
}

/// Releases what the disk points at.
///
/// # Safety
///
/// Called by the block layer once, for a disk made for `T` that was added, when its last reference
/// is gone.
unsafe extern "C" fn free_disk<T: DiskOps>(disk: *mut bindings::gendisk) {
    // SAFETY: `create` leaked this box when the disk was added, and nobody reaches it any more.
    drop(unsafe { KBox::from_raw((*disk).private_data.cast::<LiveDisk<T>>()) });
}
