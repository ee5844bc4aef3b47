// SPDX-License-Identifier: GPL-2.0

//! The kernel's side of a disk: size, openers, claims, events, counters.
//!
//! # Locks
//!
//! The kernel's open mutex of the disk orders opens, claims and removal. The refusal flags are
//! written, and an open is decided, under it only; it does not protect the size or the counters.
//! Nothing else of rzram is locked inside.
//!
//! | flags | opens | a new claim | ends by |
//! |---|---|---|---|
//! | none | permitted | if there are no openers | |
//! | claimed | EBUSY | EBUSY | dropping the [`Claim`] |
//! | closing, claimed or not | EBUSY | EBUSY | removal |

use crate::kapi::{
    atomic::AtomicU32,
    ffi,
    once::{
        Anchor,
        Anchored,
        ExclusiveProof, //
    },
    percpu, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::NotThreadSafe, //
};

/// Flag: claimed for a reset; given back afterwards.
const CLAIMED: u32 = 1 << 0;

/// Flag: about to be removed; never given back.
const CLOSING: u32 = 1 << 1;

/// The kernel's side of a disk: size, openers, claims, events.
///
/// # Invariants
///
/// - `raw` is a disk that the kernel has not freed.
/// - `flags` is written under the disk's open mutex only.
pub(crate) struct DiskHandle {
    raw: NonNull<bindings::gendisk>,
    flags: AtomicU32,
}

// SAFETY: the kernel's functions for a disk may be called from any thread.
unsafe impl Send for DiskHandle {}
// SAFETY: as above; the flags are atomic.
unsafe impl Sync for DiskHandle {}

// SAFETY: the disk stays the same and is alive.
unsafe impl Anchored for DiskHandle {
    fn anchor(&self) -> Anchor {
        Anchor::of(self.as_ptr())
    }
}

impl DiskHandle {
    /// Returns a handle that nobody has claimed.
    ///
    /// # Safety
    ///
    /// `raw` must be a disk that the kernel does not free before the handle is gone.
    pub(super) const unsafe fn new(raw: NonNull<bindings::gendisk>) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            raw,
            flags: AtomicU32::new(0),
        }
    }

    /// Returns the kernel's disk.
    pub(super) fn as_ptr(&self) -> *mut bindings::gendisk {
        self.raw.as_ptr()
    }

    fn part0(&self) -> *mut bindings::block_device {
        // SAFETY: valid by the type invariant; the field never changes.
        unsafe { (*self.as_ptr()).part0 }
    }

    /// Returns the disk's name, `rzram0` and the like.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: set before the disk became visible, ended by a NUL, never changed.
        unsafe { CStr::from_char_ptr((&raw const (*self.as_ptr()).disk_name).cast()) }
    }

    /// Returns the minor number.
    pub(crate) fn minor(&self) -> u32 {
        // SAFETY: valid by the type invariant; the field never changes.
        unsafe { (*self.as_ptr()).first_minor }.unsigned_abs()
    }

    /// Returns the size in sectors.
    pub(crate) fn capacity(&self) -> u64 {
        // SAFETY: `part0` lives as long as the disk; a word that others may be changing.
        unsafe { (&raw const (*self.part0()).bd_nr_sectors).read_volatile() }
    }

    /// Sets the size in sectors, logs a change, and sends a uevent unless it is from or to zero.
    ///
    /// # Context
    ///
    /// May sleep; allocates for the uevent.
    pub(crate) fn set_capacity_and_notify(&self, sectors: u64) {
        // SAFETY: valid by the type invariant.
        unsafe { bindings::set_capacity_and_notify(self.as_ptr(), sectors) };
    }

    /// Returns the number of openers: descriptors, mounts, swap areas, kernel users.
    pub(crate) fn openers(&self) -> u32 {
        // SAFETY: `part0` lives as long as the disk.
        let openers = unsafe { bindings::atomic_read(&raw const (*self.part0()).bd_openers) };
        u32::try_from(openers).unwrap_or(0)
    }

    /// Writes dirty pages of the node's page cache back and drops what is clean.
    ///
    /// # Context
    ///
    /// May sleep. Submits requests to this very disk, so no lock that they need may be held.
    ///
    /// # Errors
    ///
    /// EIO if a page could not be written.
    pub(crate) fn sync(&self) -> Result {
        // SAFETY: `part0` lives as long as the disk.
        unsafe {
            let done = to_result(bindings::sync_blockdev(self.part0()));
            bindings::invalidate_bdev(self.part0());
            done
        }
    }

    /// Sets the block layer's counters (`stat`) back to zero.
    ///
    /// # Context
    ///
    /// Any. A request that is accounted meanwhile may be lost or halved, so a claim is asked for.
    pub(crate) fn clear_stats(&self, _proof: &impl ExclusiveProof) {
        // SAFETY: `part0` lives as long as the disk, and so does its per-CPU memory.
        let stats = unsafe { (*self.part0()).bd_stats };
        for cpu in percpu::possible() {
            // SAFETY: the field names per-CPU memory of this size, whose type the kernel's bindings
            // leave out; plain numbers, for which zero is a value, and nobody counts while the proof
            // exists.
            unsafe {
                let copy = percpu::of_cookie(stats, cpu).cast::<u8>();
                copy.write_bytes(0, ffi::DISK_STATS_SIZE);
            }
        }
    }

    /// Sends a change event for the disk, with up to [`Self::MAX_EVENT_VARS`] `KEY=value` words.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    ///
    /// # Errors
    ///
    /// E2BIG for too many words; else what the kernel says.
    pub(crate) fn uevent(&self, vars: &[&CStr]) -> Result {
        self.event_target().uevent(vars)
    }

    /// Returns the disk as a receiver of events, for whoever has no other hold of it.
    ///
    /// # Context
    ///
    /// Any.
    pub(crate) fn event_target(&self) -> EventTarget {
        // SAFETY: `part0` and its device live as long as the disk.
        let device = unsafe {
            let device = &raw mut (*self.part0()).bd_device;
            bindings::get_device(device);
            NonNull::new_unchecked(device)
        };
        // INVARIANT: counted above.
        EventTarget(device)
    }

    /// Words that one event can carry beside the kernel's own.
    pub(crate) const MAX_EVENT_VARS: usize = 7;

    /// Refuses new opens until the claim is dropped.
    ///
    /// # Context
    ///
    /// May sleep. Takes the open mutex for the time of the call.
    ///
    /// # Errors
    ///
    /// EBUSY if the disk is open, claimed already or about to be removed.
    pub(crate) fn claim(&self) -> Result<Claim<'_>> {
        let open = OpenLock::new(self);
        if self.openers() != 0 || open.flags() != 0 {
            return Err(EBUSY);
        }
        open.set_flags(CLAIMED);
        // INVARIANT: no openers, and `open` refuses from now on.
        Ok(Claim { disk: self })
    }

    /// Refuses new opens for good, unless the disk is open; says whether it did.
    ///
    /// # Context
    ///
    /// As [`DiskHandle::claim`].
    pub(super) fn try_close(&self) -> bool {
        let open = OpenLock::new(self);
        let closed = self.openers() == 0;
        if closed {
            open.set_flags(open.flags() | CLOSING);
        }
        closed
    }

    /// Says whether a new open is refused.
    ///
    /// # Context
    ///
    /// The open mutex is held, so the answer holds for the open that asks.
    pub(super) fn is_refused(&self) -> bool {
        // ORDERING: relaxed; the open mutex orders it with `gendisk.rs::OpenLock::set_flags`.
        self.flags.load_relaxed() != 0
    }
}

/// A disk that events can be sent for. It keeps the disk's memory, so what the disk owns must not
/// keep it beyond the disk's removal.
///
/// # Invariants
///
/// The device of a disk, of which this value owns a reference.
pub(crate) struct EventTarget(NonNull<bindings::device>);

// SAFETY: the functions for devices may be called from any thread.
unsafe impl Send for EventTarget {}
// SAFETY: as above.
unsafe impl Sync for EventTarget {}

impl EventTarget {
    /// As [`DiskHandle::uevent`].
    ///
    /// # Context
    ///
    /// May sleep and allocates. The disk is not being removed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`DiskHandle::uevent`].
    pub(crate) fn uevent(&self, vars: &[&CStr]) -> Result {
        const MAX: usize = DiskHandle::MAX_EVENT_VARS;
        let mut words = [core::ptr::null_mut::<c_char>(); MAX + 1];
        if vars.len() > MAX {
            return Err(E2BIG);
        }
        for (word, var) in words.iter_mut().zip(vars) {
            *word = var.as_char_ptr().cast_mut();
        }
        // SAFETY: the device is alive by the type invariant; the list ends with a null, and the
        // words are only read, during the call.
        to_result(unsafe {
            bindings::kobject_uevent_env(
                &raw mut (*self.0.as_ptr()).kobj,
                bindings::kobject_action_KOBJ_CHANGE,
                words.as_mut_ptr(),
            )
        })
    }
}

impl Drop for EventTarget {
    fn drop(&mut self) {
        // SAFETY: our reference, given up once.
        unsafe { bindings::put_device(self.0.as_ptr()) };
    }
}

/// The open mutex of a disk, held.
struct OpenLock<'a> {
    disk: &'a DiskHandle,
    _thread: NotThreadSafe,
}

impl<'a> OpenLock<'a> {
    fn new(disk: &'a DiskHandle) -> Self {
        // SAFETY: initialized with the disk, which is alive.
        unsafe { bindings::mutex_lock(&raw mut (*disk.as_ptr()).open_mutex) };
        Self {
            disk,
            _thread: NotThreadSafe,
        }
    }

    fn flags(&self) -> u32 {
        // ORDERING: relaxed; the mutex that this guard holds orders all accesses.
        self.disk.flags.load_relaxed()
    }

    fn set_flags(&self, flags: u32) {
        // INVARIANT: the open mutex is held.
        // ORDERING: relaxed; as above.
        self.disk.flags.store_relaxed(flags);
    }
}

impl Drop for OpenLock<'_> {
    fn drop(&mut self) {
        // SAFETY: locked by `new` on this thread, which the guard does not leave.
        unsafe { bindings::mutex_unlock(&raw mut (*self.disk.as_ptr()).open_mutex) };
    }
}

/// The promise that nobody has the disk open and nobody can open it.
///
/// # Invariants
///
/// The disk has no openers, and `CLAIMED` is set, by this value alone.
#[must_use = "the disk can be opened again when the claim is dropped"]
pub(crate) struct Claim<'a> {
    disk: &'a DiskHandle,
}

// SAFETY: the disk's own anchor.
unsafe impl Anchored for Claim<'_> {
    fn anchor(&self) -> Anchor {
        self.disk.anchor()
    }
}

// SAFETY: requests and slot-free calls need an opener, and there is none while a claim exists; a
// disk has at most one claim.
unsafe impl ExclusiveProof for Claim<'_> {}

impl Claim<'_> {
    /// Returns the claimed disk.
    pub(crate) fn disk(&self) -> &DiskHandle {
        self.disk
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let open = OpenLock::new(self.disk);
        // A removal that began meanwhile stays in force.
        open.set_flags(open.flags() & !CLAIMED);
    }
}
