// SPDX-License-Identifier: GPL-2.0

//! The bio loop: one bio in, one end out, page by page in the submitter's context. Only pages that
//! are on the backing device end later, see `fetch.rs`, and the bio with the last of them.
//!
//! Vectors may have any length and memory offset that are multiples of 512 bytes. A piece that
//! covers its slot goes the fast way; a slot that comes in several pieces is put together in one
//! page, allocated once a bio. The disk's logical block is a page, so a bio never covers part of a
//! slot.
//!
//! # Context
//!
//! May sleep, must not start I/O: swap-out arrives here under memory pressure. None of the
//! registry's, the disk's, the device's or the hotplug lock is taken.

use super::{
    discard,
    fetch::{Fetch, Found, Parts, Target},
    live::Live,
    read::{self, ReadError},
    slot_word::{SlotCell, SlotWord},
    stats::Counter,
    threshold::Threshold,
    write::{self, WriteError},
    Device, //
};
use crate::{
    kapi::{
        bio::{Bio, Op, Segment, Status},
        bytes::{Dst, Src},
        gfp::Policy,
        num::{PAGE_SIZE, SECTORS_PER_PAGE},
        page::PageBuf, //
    },
    zcomp::{Bounce, Page}, //
};
use kernel::prelude::*;

// The logical block is 4096 bytes whatever the page size. On larger pages a request could cover part
// of a slot, which would need read-modify-write under the slot's writer mark.
const _: () = assert!(PAGE_SIZE == 4096);

/// Why a bio failed.
enum IoError {
    /// A slot could not be read: which one.
    Read(u32, ReadError),
    Write(WriteError),
    /// No page to put a slot together in.
    NoAssembly,
    /// No memory to read from the backing device.
    NoFetch,
    /// The bio does not cover its last slot, or lies beyond the device.
    Misshapen,
}

impl From<WriteError> for IoError {
    fn from(e: WriteError) -> Self {
        Self::Write(e)
    }
}

/// One page in which slots that come in pieces are put together; made at first use.
struct Assembly(Option<PageBuf>);

impl Assembly {
    fn page(&mut self) -> Result<&mut PageBuf, IoError> {
        if self.0.is_none() {
            self.0 = PageBuf::alloc(Policy::NoIo).ok();
        }
        self.0.as_mut().ok_or(IoError::NoAssembly)
    }
}

/// Returns the slot that a sector is in.
fn slot_of(sector: u64) -> Result<u32, IoError> {
    u32::try_from(sector / SECTORS_PER_PAGE).map_err(|_| IoError::Misshapen)
}

/// Serves a bio to its end.
///
/// # Context
///
/// As the module.
pub(super) fn submit(device: &Device, mut bio: Bio) {
    // Reads and writes only; it ends with the bio.
    bio.account_start();
    let status = match device.live.get(&bio) {
        Some(live) => serve(device, live, &bio),
        None => Status::IoError,
    };
    Threshold::look(&device.threshold);
    bio.end(status);
}

fn serve(device: &Device, live: &Live, bio: &Bio) -> Status {
    match bio.op() {
        Op::Read => {
            let mut fetch = Fetch::new(bio);
            let result = read_bio(live, bio, device.bounce(), &mut fetch);
            match (result, fetch.joint()) {
                (Err(e), Some(joint)) => {
                    log(device, live, &e);
                    joint.fail_elsewhere();
                    Status::IoError
                }
                (result, _) => finish(device, live, result, Counter::FailedReads),
            }
        }
        Op::Write => finish(device, live, write_bio(live, bio), Counter::FailedWrites),
        Op::Discard | Op::WriteZeroes => {
            discard::discard(live, bio.sector(), bio.size_bytes());
            Status::Ok
        }
        Op::Other => Status::NotSupported,
    }
}

/// Logs a failure.
#[cold]
fn log(device: &Device, live: &Live, error: &IoError) {
    match error {
        IoError::Read(index, e) => {
            // As it is now; the reader has let go of the slot.
            let word = live.table.cell(*index).map(SlotCell::peek);
            let codec = word.and_then(|word| live.codec(word.priority()));
            let name = codec.map_or("none", |codec| codec.name());
            let bytes = word.map_or(0, SlotWord::size_bytes);
            let what = e.describe();
            device.log_io_error(fmt!("{what}: slot {index}, codec {name}, {bytes} bytes"));
        }
        IoError::Write(e) => device.log_io_error(e.describe()),
        IoError::NoAssembly => device.log_io_error("no page to assemble a split request"),
        IoError::NoFetch => device.log_io_error("no memory to read from the backing device"),
        IoError::Misshapen => device.log_io_error("a request does not cover its slot"),
    }
}

/// Logs and counts a failure; the status is an I/O error whatever the cause, as zram's.
#[cold]
fn fail(device: &Device, live: &Live, error: &IoError, counter: Counter) -> Status {
    log(device, live, error);
    device.stats.add(counter, 1);
    Status::IoError
}

fn finish(device: &Device, live: &Live, result: Result<(), IoError>, counter: Counter) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(e) => fail(device, live, &e, counter),
    }
}

fn read_bio(
    live: &Live,
    bio: &Bio,
    mut bounce: Bounce,
    fetch: &mut Fetch<'_>,
) -> Result<(), IoError> {
    let mut assembly = Assembly(None);
    let mut segments = bio.segments();
    while let Some(mut segment) = segments.next() {
        let index = slot_of(segment.sector())?;
        if segment.len() == PAGE_SIZE {
            let done = read::read_page(live, index, segment.dst(), &mut bounce);
            if let Some(found) = done.map_err(|e| IoError::Read(index, e))? {
                fetch_page(live, fetch, found, Target::Whole(segment.detach()))?;
            }
            continue;
        }
        let page = assembly.page()?;
        let done = read::read_page(live, index, Dst::from_slice(page), &mut bounce);
        match done.map_err(|e| IoError::Read(index, e))? {
            None => each_piece(segment, &mut segments, |piece, at| {
                let from = page.get(at..at.saturating_add(piece.len()));
                piece.dst().copy_from(from.ok_or(IoError::Misshapen)?);
                Ok(())
            })?,
            Some(found) => {
                let mut parts = Parts::default();
                let mut free = parts.iter_mut();
                each_piece(segment, &mut segments, |piece, _| {
                    *free.next().ok_or(IoError::Misshapen)? = Some(piece.detach());
                    Ok(())
                })?;
                fetch_page(live, fetch, found, Target::Parts(parts))?;
            }
        }
    }
    Ok(())
}

/// Has a page read from the backing device; it ends by itself.
#[cold]
fn fetch_page(
    live: &Live,
    fetch: &mut Fetch<'_>,
    found: Found,
    target: Target,
) -> Result<(), IoError> {
    let backing = live.backing.as_ref().ok_or(IoError::NoFetch)?;
    let begun = fetch.read(backing, found, target);
    begun.map_err(|_| IoError::NoFetch)
}

fn write_bio(live: &Live, bio: &Bio) -> Result<(), IoError> {
    let is_stable = bio.is_stable();
    let mut assembly = Assembly(None);
    let mut segments = bio.segments();
    while let Some(segment) = segments.next() {
        let index = slot_of(segment.sector())?;
        if segment.len() == PAGE_SIZE {
            let page = match is_stable {
                true => Page::Stable(segment.src()),
                false => Page::Changing(segment.src()),
            };
            write::write_page(live, index, page, segment.node())?;
            continue;
        }
        let page = assembly.page()?;
        let node = segment.node();
        each_piece(segment, &mut segments, |piece, at| {
            let to = page.get_mut(at..at.saturating_add(piece.len()));
            piece.src().copy_to(to.ok_or(IoError::Misshapen)?);
            Ok(())
        })?;
        write::write_page(live, index, Page::Stable(Src::from_slice(page)), node)?;
    }
    Ok(())
}

/// Calls `visit` with each piece of one slot and its offset in it, until the slot is covered.
fn each_piece<'a>(
    first: Segment<'a>,
    rest: &mut impl Iterator<Item = Segment<'a>>,
    mut visit: impl FnMut(&mut Segment<'a>, usize) -> Result<(), IoError>,
) -> Result<(), IoError> {
    let mut piece = first;
    let mut at = 0usize;
    loop {
        visit(&mut piece, at)?;
        at = at.saturating_add(piece.len());
        if at >= PAGE_SIZE {
            return Ok(());
        }
        piece = rest.next().ok_or(IoError::Misshapen)?;
    }
}
