// SPDX-License-Identifier: GPL-2.0

//! A backing block device: opened by path, read and written by the page.
//!
//! | call | returns | may be used in |
//! |---|---|---|
//! | [`BackingDev::read`], [`BackingDev::write`] | when the page was moved | a worker; never `submit_bio` |
//! | [`PageIo::read`], [`PageIo::write`] | at once; a callback follows | task context, `submit_bio` included |
//!
//! Requests submitted from our own `submit_bio` are queued on the current thread until it returns,
//! so that waiting for one there would wait for ever.
//!
//! A [`PageIo`] has requests of its own, some of them in reserve, so that a read makes progress
//! when there is no memory. Each request carries, in front of itself, the memory to move and the
//! client's callback, and calls back exactly once. Dropping a `PageIo` waits for all of them.
//!
//! What comes from a device is untrusted: a page of any bytes.

use crate::kapi::{
    bio::{
        OwnedSegment,
        Status, //
    },
    ffi, file,
    num::{
        PAGE_SHIFT,
        PAGE_SIZE,
        SECTORS_PER_PAGE, //
    },
    page::PageBuf,
    users::Users,
};
use core::{
    marker::PhantomData,
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// A block device that is held open, for us alone, until it is dropped.
///
/// # Invariants
///
/// `file` is an open file of the block device `bdev`, whose reference this value owns.
pub(crate) struct BackingDev {
    file: NonNull<bindings::file>,
    bdev: NonNull<bindings::block_device>,
    blocks: u64,
}

// SAFETY: an open block device may be used and closed from any thread.
unsafe impl Send for BackingDev {}
// SAFETY: as above.
unsafe impl Sync for BackingDev {}

impl BackingDev {
    /// Opens the block device at `path`, for reading and writing and for nobody else.
    ///
    /// # Context
    ///
    /// May sleep and allocates. The path is looked up in the caller's mount namespace.
    ///
    /// # Errors
    ///
    /// EPERM without CAP_SYS_ADMIN. What the open says: ENOENT, EISDIR for a directory or an empty path, EBUSY if somebody holds
    /// the device, EACCES; then ENOTBLK for anything but a block device, and EINVAL for one smaller
    /// than a page, such as an empty disk of our own.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        if !file::may_name_paths() {
            return Err(EPERM);
        }
        let flags = i32::try_from(bindings::O_RDWR | bindings::O_LARGEFILE | bindings::O_EXCL)?;
        // SAFETY: the path ends with a NUL.
        let file = from_err_ptr(unsafe { bindings::filp_open(path.as_char_ptr(), flags, 0) })?;
        let file = NonNull::new(file).ok_or(ENOENT)?;
        // SAFETY: an open file has a mapping, and that an inode.
        let inode = unsafe { (*(*file.as_ptr()).f_mapping).host };
        // SAFETY: as above; the type of an inode does not change.
        let mode = u32::from(unsafe { (*inode).i_mode });
        if mode & bindings::S_IFMT != bindings::S_IFBLK {
            // SAFETY: our reference; not a block device, so the plain close is the right one.
            unsafe { bindings::filp_close(file.as_ptr(), core::ptr::null_mut()) };
            return Err(ENOTBLK);
        }
        // SAFETY: the host of a block file's mapping is the inode of its device.
        let (bdev, size) = unsafe { (bindings::I_BDEV(inode), (*inode).i_size) };
        // INVARIANT: opened above; closed by the drop, also on the way out of here.
        let device = Self {
            file,
            bdev: NonNull::new(bdev).ok_or(ENOTBLK)?,
            blocks: u64::try_from(size)? >> PAGE_SHIFT,
        };
        if device.blocks == 0 {
            return Err(EINVAL);
        }
        Ok(device)
    }

    /// Returns the size in blocks of one page, at least 1; a rest that is no page is left out.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the path of the opened file, as it is now, in `buffer`.
    ///
    /// # Context
    ///
    /// Takes the kernel's locks for names. Does not allocate.
    ///
    /// # Errors
    ///
    /// ENAMETOOLONG if it does not fit.
    pub(crate) fn path<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a CStr> {
        let len = i32::try_from(buffer.len())?;
        // SAFETY: an open file; the text is put at the end of the buffer, with a NUL.
        let text = from_err_ptr(unsafe {
            bindings::file_path(self.file.as_ptr(), buffer.as_mut_ptr(), len)
        })?;
        // SAFETY: a text inside of the buffer, which is borrowed as long as the result.
        Ok(unsafe { CStr::from_char_ptr(text) })
    }

    /// Reads a block and waits for it.
    ///
    /// # Context
    ///
    /// Sleeps until the device has answered. Never from `submit_bio`.
    ///
    /// # Errors
    ///
    /// EIO for a block that the device does not have; else the device's error.
    pub(crate) fn read(&self, block: u64, page: &mut PageBuf) -> Result {
        self.transfer(block, page.as_mut_ptr(), bindings::req_op_REQ_OP_READ)
    }

    /// Writes a block and waits for it; it may stay in the device's cache.
    ///
    /// # Context
    ///
    /// As [`BackingDev::read`].
    ///
    /// # Errors
    ///
    /// As [`BackingDev::read`].
    pub(crate) fn write(&self, block: u64, page: &PageBuf) -> Result {
        let bytes = page.as_ptr().cast_mut();
        self.transfer(block, bytes, bindings::req_op_REQ_OP_WRITE)
    }

    /// Moves the page at `bytes`, which the caller has borrowed as the operation needs.
    fn transfer(&self, block: u64, bytes: *mut u8, op: bindings::req_op) -> Result {
        kernel::task::might_sleep();
        let sector = self.sector(block).ok_or(EIO)?;
        // SAFETY: an open device; a page in the direct map, in use until the call returns.
        to_result(unsafe {
            bindings::bdev_rw_virt(self.bdev.as_ptr(), sector, bytes.cast(), PAGE_SIZE, op)
        })
    }

    /// Returns where a block starts, if the device has it.
    fn sector(&self, block: u64) -> Option<u64> {
        (block < self.blocks).then(|| block.wrapping_mul(SECTORS_PER_PAGE))
    }
}

impl Drop for BackingDev {
    /// Closes the device and gives the exclusive claim back at once; may sleep.
    fn drop(&mut self) {
        // SAFETY: our reference, given up once. The plain close would keep the claim until this
        // thread returns to user space.
        unsafe { bindings::bdev_fput(self.file.as_ptr()) };
    }
}

/// Memory that a request can move: one page in the direct map.
///
/// # Safety
///
/// The bytes at [`IoMemory::address`] must be as many as [`IoMemory::len`] says, in the direct map,
/// readable and writable, and must stay where they are while the value exists, wherever it is moved.
pub(crate) unsafe trait IoMemory: Send + 'static {
    /// Returns the address of the first byte.
    fn address(&mut self) -> *mut u8;

    /// Returns the number of bytes.
    fn len(&self) -> usize;

    /// Returns flags for the request beside its operation.
    fn hints(&self) -> bindings::blk_opf_t {
        0
    }
}

// SAFETY: a page of its own, reached by its address in the direct map.
unsafe impl IoMemory for PageBuf {
    fn address(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }

    fn len(&self) -> usize {
        PAGE_SIZE
    }
}

// SAFETY: a part of a page that the unfinished request keeps, reached by the direct map.
unsafe impl IoMemory for OwnedSegment {
    fn address(&mut self) -> *mut u8 {
        OwnedSegment::address(self)
    }

    fn len(&self) -> usize {
        OwnedSegment::len(self)
    }

    fn hints(&self) -> bindings::blk_opf_t {
        OwnedSegment::hints(self)
    }
}

/// Memory of either kind, for a pool of requests that serves both.
pub(crate) enum IoPage {
    /// A page of our own.
    Own(PageBuf),
    /// A part of a request of this disk.
    Request(OwnedSegment),
}

// SAFETY: both kinds keep the promise, and the address depends on neither's place.
unsafe impl IoMemory for IoPage {
    fn address(&mut self) -> *mut u8 {
        match self {
            Self::Own(page) => IoMemory::address(page),
            Self::Request(segment) => IoMemory::address(segment),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Own(page) => IoMemory::len(page),
            Self::Request(segment) => IoMemory::len(segment),
        }
    }

    fn hints(&self) -> bindings::blk_opf_t {
        match self {
            Self::Own(page) => IoMemory::hints(page),
            Self::Request(segment) => IoMemory::hints(segment),
        }
    }
}

/// What happens when a page was moved.
pub(crate) trait Done: Send + 'static {
    /// The memory that is moved.
    type Memory: IoMemory;

    /// Takes the memory back; called exactly once for each request.
    ///
    /// # Context
    ///
    /// Any, interrupts included: must not sleep, and must neither own the last reference to the
    /// [`PageIo`] nor to its device. May run before the call that submitted the request returns.
    fn done(self, memory: Self::Memory, status: Status);
}

/// What a request carries in front of itself.
struct Head<D: Done> {
    users: *const Users,
    memory: D::Memory,
    client: D,
}

/// A request as it lies in memory; tells how much room the head needs.
#[repr(C)]
struct Frame<D: Done> {
    head: Head<D>,
    bio: bindings::bio,
}

/// A pool of requests to one backing device whose completion is a `D`.
///
/// # Invariants
///
/// `set` is initialized, with room for a head in front of each request; it does not move.
pub(crate) struct PageIo<D: Done> {
    device: Arc<BackingDev>,
    users: Pin<KBox<Users>>,
    set: Pin<KBox<Opaque<bindings::bio_set>>>,
    _done: PhantomData<fn(D)>,
}

// SAFETY: the kernel's pools of requests may be used from any thread; what travels in them is
// `Send`.
unsafe impl<D: Done> Send for PageIo<D> {}
// SAFETY: as above.
unsafe impl<D: Done> Sync for PageIo<D> {}

impl<D: Done> PageIo<D> {
    /// Returns a pool for `device` with `reserve` requests that are always to be had.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new(device: Arc<BackingDev>, reserve: u32) -> Result<Self> {
        const {
            assert!(
                align_of::<Frame<D>>() <= 64,
                "requests are aligned to a cache line"
            )
        };
        let users = KBox::pin_init(Users::new(), GFP_KERNEL)?;
        let set = KBox::pin(Opaque::<bindings::bio_set>::zeroed(), GFP_KERNEL)?;
        let head = u32::try_from(offset_of!(Frame<D>, bio))?;
        // The rescuer, a thread of the set, frees requests that wait behind the caller's own when
        // several are allocated in one `submit_bio`.
        let flags = i32::try_from(bindings::BIOSET_NEED_BVECS | bindings::BIOSET_NEED_RESCUER)?;
        // SAFETY: zeroed memory that stays where it is.
        to_result(unsafe { bindings::bioset_init(set.get(), reserve, head, flags) })?;
        // INVARIANT: initialized, with a head for `D`.
        Ok(Self {
            device,
            users,
            set,
            _done: PhantomData,
        })
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &BackingDev {
        &self.device
    }

    /// Reads a block into `memory`, then calls `client`.
    ///
    /// A block that the device does not have, or memory that is not one page, ends with an I/O
    /// error at once.
    ///
    /// # Context
    ///
    /// May sleep for a request of the reserve; starts no I/O for memory. Never waits for the block.
    pub(crate) fn read(&self, block: u64, memory: D::Memory, client: D) {
        self.submit(block, memory, client, bindings::req_op_REQ_OP_READ);
    }

    /// Writes `memory` to a block, then calls `client`; see [`PageIo::read`].
    ///
    /// # Context
    ///
    /// As [`PageIo::read`].
    pub(crate) fn write(&self, block: u64, memory: D::Memory, client: D) {
        self.submit(block, memory, client, bindings::req_op_REQ_OP_WRITE);
    }

    fn submit(&self, block: u64, mut memory: D::Memory, client: D, op: bindings::req_op) {
        let Some(sector) = self.device.sector(block) else {
            return client.done(memory, Status::IoError);
        };
        let bytes = memory.address();
        if memory.len() != PAGE_SIZE {
            return client.done(memory, Status::IoError);
        }
        let Some(bio) = self.allocate(op | memory.hints()) else {
            return client.done(memory, Status::Resource);
        };
        self.users.get();
        let head = Head {
            users: &raw const *self.users,
            memory,
            client,
        };
        // SAFETY:
        // - The request is ours until it is submitted; it has a vector for one page.
        // - The set keeps room in front of each request, enough and aligned for the head, by the
        //   type invariant.
        // - The head owns the memory until the callback, which takes it out, and the device and the
        //   set stay until the callback has left, as `drop` waits for the user counted above.
        unsafe {
            (*bio).bi_iter.bi_sector = sector;
            // CAST: a page is far below 4 GiB.
            bindings::bio_add_virt_nofail(bio, bytes.cast(), PAGE_SIZE as u32);
            (*bio).bi_end_io = Some(end_io::<D>);
            head_of::<D>(bio).write(head);
            bindings::submit_bio(bio);
        }
    }

    /// Allocates a request; fails only where the kernel breaks its promise.
    fn allocate(&self, flags: bindings::blk_opf_t) -> Option<*mut bindings::bio> {
        // SAFETY: an open device and an initialized set; a sleeping allocation without I/O waits
        // for a request of the reserve.
        let bio = unsafe {
            bindings::bio_alloc_bioset(
                self.device.bdev.as_ptr(),
                1,
                flags,
                ffi::GFP_NOIO,
                self.set.get(),
            )
        };
        (!bio.is_null()).then_some(bio)
    }
}

impl<D: Done> Drop for PageIo<D> {
    fn drop(&mut self) {
        self.users.wait();
        // SAFETY: initialized by `new`; every request has been put.
        unsafe { bindings::bioset_exit(self.set.get()) };
    }
}

/// Returns the place in front of a request.
///
/// # Safety
///
/// `bio` must come from the set of a [`PageIo`] for `D`.
unsafe fn head_of<D: Done>(bio: *mut bindings::bio) -> *mut Head<D> {
    // SAFETY: the set keeps this many bytes in front of each request.
    unsafe { bio.byte_sub(offset_of!(Frame<D>, bio)).cast() }
}

/// Ends a request: frees it, then hands memory and status to the client.
///
/// # Safety
///
/// Called by the block layer, once, for a request that [`PageIo::submit`] submitted.
unsafe extern "C" fn end_io<D: Done>(bio: *mut bindings::bio) {
    // SAFETY: the head was written before the request was submitted and is taken out once, here;
    // the request is put after its last use.
    let (head, status) = unsafe {
        let head = head_of::<D>(bio).read();
        let status = Status::from_code((*bio).bi_status);
        bindings::bio_put(bio);
        (head, status)
    };
    head.client.done(head.memory, status);
    // SAFETY: the owner waits until this user has left, and frees the count only then.
    unsafe { (*head.users).put() };
}
