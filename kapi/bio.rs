// SPDX-License-Identifier: GPL-2.0

//! Block requests that arrive at a disk: an end-once token and a walk in pieces of one page.
//!
//! A [`Bio`] is the right, and the duty, to end one request. It ends exactly once: by
//! [`Bio::end`], or with an I/O error when it is dropped, so a request that some path forgets fails
//! instead of hanging its submitter. Until then its memory stays and may be read or filled, from
//! this thread or, as the token can be sent, from another one after `submit_bio` returned.
//!
//! A request that waits for several things at once is *forked*: every fork must end too, the
//! submitter hears when the last one has, and the first error is what it hears. This is the
//! kernel's own count of chained requests and allocates nothing.
//!
//! The walk never touches the request's own iterator, which belongs to the block layer, and trusts
//! nothing else: the vector count may be 0 (swap leaves it so), a vector may cover any number of
//! physically contiguous pages and start at any multiple of 512 bytes, also beyond its first page.
//! A [`Segment`] lies inside one page of memory and inside one page of the disk.
//!
//! Segments give [`Src`] and [`Dst`] views, not slices: the submitter may still map or change the
//! memory (direct I/O from a shared mapping). The direct map covers all memory (`num.rs` checks
//! it), so a view needs no temporary mapping.

use crate::kapi::{
    bytes::{
        Dst,
        Src, //
    },
    ffi,
    num::{
        u32_to_usize,
        usize_to_u64,
        PAGE_SIZE,
        SECTORS_PER_PAGE,
        SECTOR_SHIFT, //
    },
    once::{
        Anchor,
        Anchored,
        PinsLive, //
    },
    page::{
        node_of,
        page_address, //
    },
};
use core::{
    cell::Cell,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

// A vector of several pages is walked by counting up from the first page's struct.
#[cfg(all(CONFIG_SPARSEMEM, not(CONFIG_SPARSEMEM_VMEMMAP)))]
compile_error!("rzram needs page structs in a row (CONFIG_SPARSEMEM_VMEMMAP or flat memory)");
// Only lock debugging of temporary maps sets it where there is no high memory.
#[cfg(CONFIG_KMAP_LOCAL)]
compile_error!("rzram needs a kernel without temporary page maps (no CONFIG_KMAP_LOCAL)");

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Fill the memory from the disk.
    Read,
    /// Store the memory on the disk.
    Write,
    /// Forget the range; carries no memory.
    Discard,
    /// Make the range read as zeroes; carries no memory.
    WriteZeroes,
    /// Anything else; the block layer filters these out for a disk with our limits.
    Other,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// All of it was done.
    Ok,
    /// Failed for good; the submitter sees EIO.
    IoError,
    /// Failed for want of room; the submitter sees ENOSPC.
    NoSpace,
    /// Failed for want of memory; the submitter sees ENOMEM.
    Resource,
    /// Not an operation of this disk; the submitter sees EOPNOTSUPP.
    NotSupported,
    /// Failed as the device below did, whatever its reason.
    Below(StatusBelow),
}

/// An error code of the device below, to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusBelow(bindings::blk_status_t);

impl Status {
    /// Returns the block layer's code.
    fn code(self) -> bindings::blk_status_t {
        match self {
            Self::Ok => ffi::BLK_STS_OK,
            Self::IoError => ffi::BLK_STS_IOERR,
            Self::NoSpace => ffi::BLK_STS_NOSPC,
            Self::Resource => ffi::BLK_STS_RESOURCE,
            Self::NotSupported => ffi::BLK_STS_NOTSUPP,
            Self::Below(StatusBelow(code)) => code,
        }
    }

    /// Returns the status with this code of the block layer.
    pub(super) fn from_code(code: bindings::blk_status_t) -> Self {
        if code == ffi::BLK_STS_OK {
            Self::Ok
        } else {
            Self::Below(StatusBelow(code))
        }
    }

    /// Returns the status as an errno.
    ///
    /// # Errors
    ///
    /// The errno that the kernel gives for the code, usually EIO.
    pub(crate) fn to_result(self) -> Result {
        // SAFETY: any code is taken; unknown ones give EIO.
        to_result(unsafe { bindings::blk_status_to_errno(self.code()) })
    }
}

impl From<Result> for Status {
    fn from(result: Result) -> Self {
        match result {
            Ok(()) => Self::Ok,
            Err(_) => Self::IoError,
        }
    }
}

/// A request of this disk that has not ended yet.
///
/// # Invariants
///
/// - `ptr` is a valid bio, submitted to one of our disks, of which this value owns one of the
///   outstanding completions; nobody but the block layer's caller reads it meanwhile.
/// - `disk` is the disk that it was submitted to.
/// - `started` is the start stamp if and only if the request is accounted as in flight by this
///   value.
#[must_use = "dropping a bio fails the request"]
pub(crate) struct Bio {
    ptr: NonNull<bindings::bio>,
    disk: NonNull<bindings::gendisk>,
    started: Cell<Option<c_ulong>>,
}

// SAFETY: a bio belongs to no thread; whoever holds the token may read it, reach its memory and end
// it. The token is not `Sync`, so the non-atomic flag word is changed by one thread at a time.
unsafe impl Send for Bio {}

// SAFETY: the disk stays the same, and is alive while it has an unfinished request.
unsafe impl Anchored for Bio {
    fn anchor(&self) -> Anchor {
        Anchor::of(self.disk.as_ptr())
    }
}

// SAFETY: an unfinished request keeps its disk open (its submitter waits for it before the last
// close), and what is live is retired only by whoever holds a claim, which is refused while the
// disk is open.
unsafe impl PinsLive for Bio {}

impl Bio {
    /// Takes over the duty to end `ptr`, which was submitted to `disk`.
    ///
    /// # Safety
    ///
    /// - `ptr` must be a valid bio that the block layer handed to the `submit_bio` of `disk`.
    /// - The caller must give up its right to end or change it.
    pub(super) unsafe fn from_raw(
        ptr: NonNull<bindings::bio>,
        disk: NonNull<bindings::gendisk>,
    ) -> Self {
        // INVARIANT: by the caller's promise; nothing is accounted yet.
        Self {
            ptr,
            disk,
            started: Cell::new(None),
        }
    }

    fn as_ptr(&self) -> *mut bindings::bio {
        self.ptr.as_ptr()
    }

    fn iter(&self) -> bindings::bvec_iter {
        // SAFETY: valid by the type invariant; a plain copy that the block layer does not change
        // before the end of the request.
        unsafe { (*self.as_ptr()).bi_iter }
    }

    /// Returns the operation.
    pub(crate) fn op(&self) -> Op {
        // SAFETY: valid by the type invariant.
        let flags = unsafe { (*self.as_ptr()).bi_opf };
        match flags & ((1 << bindings::REQ_OP_BITS) - 1) {
            bindings::req_op_REQ_OP_READ => Op::Read,
            bindings::req_op_REQ_OP_WRITE => Op::Write,
            bindings::req_op_REQ_OP_DISCARD => Op::Discard,
            bindings::req_op_REQ_OP_WRITE_ZEROES => Op::WriteZeroes,
            _ => Op::Other,
        }
    }

    /// Returns whether nobody changes the pages of this write before it ends.
    ///
    /// That holds for swap: its pages are in the swap cache, and the disk's limits ask for stable
    /// writes. File systems keep to those for data but not all of them for metadata, and a task may
    /// change what it writes directly.
    pub(crate) fn is_stable(&self) -> bool {
        // SAFETY: valid by the type invariant.
        let flags = unsafe { (*self.as_ptr()).bi_opf };
        flags & (1 << bindings::req_flag_bits___REQ_SWAP) != 0
    }

    /// Returns the first sector on the disk.
    pub(crate) fn sector(&self) -> u64 {
        self.iter().bi_sector
    }

    /// Returns the length in bytes, a multiple of 512.
    pub(crate) fn size_bytes(&self) -> u32 {
        self.iter().bi_size
    }

    /// Returns the number of sectors.
    pub(crate) fn size_sectors(&self) -> u64 {
        u64::from(self.iter().bi_size >> SECTOR_SHIFT)
    }

    /// Walks the memory of a read or a write; empty for the operations that carry none.
    pub(crate) fn segments(&self) -> Segments<'_> {
        let mut iter = self.iter();
        if !matches!(self.op(), Op::Read | Op::Write) {
            iter.bi_size = 0;
        }
        // SAFETY: valid by the type invariant.
        let vectors = unsafe { (*self.as_ptr()).bi_io_vec };
        // INVARIANT: both come from one unfinished request, which `bio` keeps.
        Segments {
            bio: self,
            vectors,
            iter,
        }
    }

    /// Starts accounting a read or a write as in flight; other operations are not accounted.
    ///
    /// Accounting stops at [`Bio::account_end`] or with the end of this token. Calling it twice
    /// does nothing.
    ///
    /// # Context
    ///
    /// Any context in which a bio may be submitted; takes no lock.
    pub(crate) fn account_start(&mut self) {
        if self.started.get().is_none() && matches!(self.op(), Op::Read | Op::Write) {
            // INVARIANT: now in flight, and the stamp says since when.
            // SAFETY: valid by the type invariant and not ended.
            let start = unsafe { bindings::bio_start_io_acct(self.as_ptr()) };
            self.started.set(Some(start));
        }
    }

    /// Stops accounting before the request ends, for one that goes on to a slower device.
    ///
    /// # Context
    ///
    /// As [`Bio::account_start`]; the thread may be another one.
    pub(crate) fn account_end(&mut self) {
        if let Some(start) = self.started.take() {
            // SAFETY: valid by the type invariant and not ended; `start` is from the matching call
            // for the same device, as nobody remaps our bios.
            unsafe {
                let bdev = (*self.as_ptr()).bi_bdev;
                bindings::bio_end_io_acct_remapped(self.as_ptr(), start, bdev);
            }
        }
    }

    /// Returns a second token for the same request, which then ends when both have ended.
    ///
    /// # Context
    ///
    /// Any; neither sleeps nor allocates.
    pub(crate) fn fork(&self) -> Self {
        let bio = self.as_ptr();
        // SAFETY:
        // - Valid by the type invariant, and not ended before this token ends.
        // - The flag word is not atomic. A request with one token is ours alone, and one with
        //   several has the flag already, so it is written only in the first case: a token is not
        //   shared between threads, and the count cannot fall to zero while this one exists.
        // - The count is raised after the flag is visible; the helper for the barrier comes with
        //   the full ordering of the exchange itself.
        unsafe {
            let chained = 1 << bindings::BIO_CHAIN;
            if (*bio).bi_flags & chained == 0 {
                (*bio).bi_flags |= chained;
            }
            bindings::atomic_fetch_add(1, &raw mut (*bio).__bi_remaining);
        }
        // INVARIANT: one more completion is outstanding, and it belongs to the new value.
        Self {
            ptr: self.ptr,
            disk: self.disk,
            started: Cell::new(None),
        }
    }

    /// As [`Bio::fork`]; the second token also takes over the accounting, for as long as it lives.
    ///
    /// # Context
    ///
    /// As [`Bio::fork`].
    pub(crate) fn fork_accounted(&self) -> Self {
        let fork = self.fork();
        // INVARIANT: accounted by one of the two, as before.
        fork.started.set(self.started.take());
        fork
    }

    /// Ends the request, or this token's share of a forked one.
    ///
    /// # Context
    ///
    /// Any that the submitter's completion allows; it may run at once, in this call.
    pub(crate) fn end(self, status: Status) {
        let mut bio = ManuallyDrop::new(self);
        bio.finish(status);
    }

    /// Ends the request; called once, as the last thing done with the value.
    fn finish(&mut self, status: Status) {
        self.account_end();
        let bio = self.as_ptr();
        // SAFETY: valid by the type invariant. The completion that this value owns is given back
        // here and the value is not used again. Shares of a forked request may store their errors
        // at the same time: every value stored is an error, one byte wide, and any of them will do,
        // so nothing but a torn or invented store could do harm, which a volatile one is not.
        unsafe {
            if status != Status::Ok {
                (&raw mut (*bio).bi_status).write_volatile(status.code());
            }
            bindings::bio_endio(bio);
        }
    }
}

impl Drop for Bio {
    fn drop(&mut self) {
        self.finish(Status::IoError);
    }
}

/// A walk over the memory of a request; see the module's header.
///
/// # Invariants
///
/// `vectors` is the vector array of `bio`, and `iter` a position in it that differs from the
/// request's own only by bytes that were walked already.
pub(crate) struct Segments<'a> {
    bio: &'a Bio,
    vectors: *const bindings::bio_vec,
    iter: bindings::bvec_iter,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        while self.iter.bi_size != 0 {
            // SAFETY: bytes are left, so the block layer promises a vector at this index.
            let vector = unsafe { &*self.vectors.add(u32_to_usize(self.iter.bi_idx)) };
            let left = vector.bv_len.saturating_sub(self.iter.bi_offset);
            if left == 0 {
                self.iter.bi_idx = self.iter.bi_idx.wrapping_add(1);
                self.iter.bi_offset = 0;
                continue;
            }
            let start =
                u32_to_usize(vector.bv_offset).wrapping_add(u32_to_usize(self.iter.bi_offset));
            let offset = start % PAGE_SIZE;
            let on_disk = page_offset(self.iter.bi_sector);
            let len = u32_to_usize(left.min(self.iter.bi_size))
                .min(PAGE_SIZE.wrapping_sub(offset))
                .min(PAGE_SIZE.wrapping_sub(on_disk));
            // SAFETY: a vector covers contiguous memory, whose page structs lie in a row (checked
            // at the top), so this is the struct of the page that holds byte `start`.
            let page = unsafe { vector.bv_page.add(start / PAGE_SIZE) };
            let segment = Segment {
                bio: self.bio,
                page: NonNull::new(page)?,
                offset,
                len,
                sector: self.iter.bi_sector,
            };
            self.advance(len);
            return Some(segment);
        }
        None
    }
}

impl Segments<'_> {
    /// Moves on by `len` bytes, which the present vector has.
    fn advance(&mut self, len: usize) {
        // CAST: at most one page, so it fits.
        let step = len as u32;
        // INVARIANT: `len` is at most what is left of the vector and of the request.
        self.iter.bi_size = self.iter.bi_size.wrapping_sub(step);
        self.iter.bi_offset = self.iter.bi_offset.wrapping_add(step);
        self.iter.bi_sector = self
            .iter
            .bi_sector
            .wrapping_add(usize_to_u64(len >> SECTOR_SHIFT));
    }
}

/// Returns how far into its page of the disk a sector starts, in bytes.
fn page_offset(sector: u64) -> usize {
    // CAST: below SECTORS_PER_PAGE, so it fits.
    let sectors = (sector % SECTORS_PER_PAGE) as usize;
    sectors << SECTOR_SHIFT
}

/// A piece of a request: inside one page of memory and one page of the disk, never empty.
///
/// # Invariants
///
/// `page`, `offset` and `len` lie inside one page that `bio` keeps until it ends.
pub(crate) struct Segment<'a> {
    bio: &'a Bio,
    page: NonNull<bindings::page>,
    offset: usize,
    len: usize,
    sector: u64,
}

impl<'a> Segment<'a> {
    /// Returns the first sector on the disk.
    pub(crate) fn sector(&self) -> u64 {
        self.sector
    }

    /// Returns the page of the disk that the segment lies in.
    pub(crate) fn index(&self) -> u64 {
        self.sector / SECTORS_PER_PAGE
    }

    /// Returns where in that page it starts, in bytes.
    pub(crate) fn page_offset(&self) -> usize {
        page_offset(self.sector)
    }

    /// Returns the length in bytes, at most a page.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Says whether it covers its whole page of the disk.
    pub(crate) fn is_whole_page(&self) -> bool {
        self.len == PAGE_SIZE
    }

    /// Returns the memory as a source; meaningful for a write.
    pub(crate) fn src(&self) -> Src<'a> {
        // SAFETY: the bytes are mapped and stay until the bio ends, which outlives `'a`.
        unsafe { Src::from_raw(self.address(), self.len) }
    }

    /// Returns the memory as a destination; meaningful for a read.
    pub(crate) fn dst(&mut self) -> Dst<'a> {
        // SAFETY: as in `src`; the submitter of a read expects its memory to be written.
        unsafe { Dst::from_raw(self.address(), self.len) }
    }

    /// Returns the memory node of the page, a hint where to store its data.
    pub(crate) fn node(&self) -> Option<u32> {
        // SAFETY: a page in use by the type invariant.
        Some(unsafe { node_of(self.page.as_ptr()) })
    }

    /// Detaches the segment from the walk, together with a fork of its request.
    ///
    /// # Context
    ///
    /// Any; neither sleeps nor allocates.
    pub(crate) fn detach(&self) -> OwnedSegment {
        // INVARIANT: the fork keeps the memory until it ends.
        OwnedSegment {
            bio: self.bio.fork(),
            page: self.page,
            offset: self.offset,
            len: self.len,
            sector: self.sector,
        }
    }

    fn address(&self) -> *mut u8 {
        address(self.page, self.offset)
    }
}

/// Returns the address of a byte of a page in the direct map.
fn address(page: NonNull<bindings::page>, offset: usize) -> *mut u8 {
    // SAFETY: a page in use, which its request keeps.
    unsafe { page_address(page.as_ptr()) }.wrapping_add(offset)
}

/// A segment that owns a share of its request, so that it can be filled later and elsewhere.
///
/// # Invariants
///
/// `page`, `offset` and `len` lie inside one page that `bio` keeps until it ends.
#[must_use = "dropping the segment fails the request"]
pub(crate) struct OwnedSegment {
    bio: Bio,
    page: NonNull<bindings::page>,
    offset: usize,
    len: usize,
    sector: u64,
}

// SAFETY: the page belongs to the request, whose token may be sent.
unsafe impl Send for OwnedSegment {}

impl OwnedSegment {
    /// Returns the first sector on the disk.
    pub(crate) fn sector(&self) -> u64 {
        self.sector
    }

    /// Returns the page of the disk that the segment lies in.
    pub(crate) fn index(&self) -> u64 {
        self.sector / SECTORS_PER_PAGE
    }

    /// Returns where in that page it starts, in bytes.
    pub(crate) fn page_offset(&self) -> usize {
        page_offset(self.sector)
    }

    /// Returns the length in bytes, at most a page.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the share of the request, which proves that its disk is in use.
    pub(crate) fn bio(&self) -> &Bio {
        &self.bio
    }

    /// Returns the memory as a destination.
    pub(crate) fn dst(&mut self) -> Dst<'_> {
        // SAFETY: the bytes are mapped and stay until the bio ends, which this value prevents.
        unsafe { Dst::from_raw(self.address(), self.len) }
    }

    /// Returns the address of the memory, which stays until this value is gone.
    pub(super) fn address(&self) -> *mut u8 {
        address(self.page, self.offset)
    }

    /// Returns the submitter's hints about urgency, for a request that serves this one.
    pub(super) fn hints(&self) -> bindings::blk_opf_t {
        const HINTS: bindings::blk_opf_t = (1 << bindings::req_flag_bits___REQ_SYNC)
            | (1 << bindings::req_flag_bits___REQ_META)
            | (1 << bindings::req_flag_bits___REQ_PRIO)
            | (1 << bindings::req_flag_bits___REQ_IDLE)
            | (1 << bindings::req_flag_bits___REQ_RAHEAD);
        // SAFETY: valid by the invariant of the bio.
        unsafe { (*self.bio.as_ptr()).bi_opf & HINTS }
    }

    /// Ends this share of the request.
    ///
    /// # Context
    ///
    /// As [`Bio::end`].
    pub(crate) fn end(self, status: Status) {
        self.bio.end(status);
    }
}
