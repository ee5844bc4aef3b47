// SPDX-License-Identifier: GPL-2.0

//! Writing one page into one slot.
//!
//! Order of steps, each chosen so that nothing is held across what may wait:
//!
//! 1. the slot's chunk is made, if it is not there (may sleep, nothing held);
//! 2. the page is compressed with a stream held, placed in the pool without reclaim, and the
//!    stream is put;
//! 3. if the pool had no room without reclaim, it is asked again with it, nothing held; the
//!    compressed bytes wait in a buffer taken out of the stream;
//! 4. the slot is taken, the object installed, the old content freed.
//!
//! A failure in any step leaves the old content as it was.

use super::{
    drain::Cause,
    live::{Live, PRIMARY},
    slot::SlotContent,
    slot_word::{Kind, SlotCell},
    stats::Counter, //
};
use crate::{
    kapi::{
        bytes::Src,
        clock,
        gfp::Policy,
        num::{u32_to_usize, PAGE_SIZE}, //
    },
    zcomp::{Outcome, Page, Verdict},
    zsmalloc::NewObject, //
};

/// Why a page could not be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteError {
    /// No memory for a chunk of the slot table.
    NoTable,
    /// No memory for the object, reclaim included.
    NoMemory,
    /// The pool is at the user's limit.
    OverLimit,
    /// The codec failed.
    Compress,
}

impl WriteError {
    /// Returns the cause in words, for the log.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::NoTable => "no memory for the slot table",
            Self::NoMemory => "no memory for a page",
            Self::OverLimit => "the memory limit is reached",
            Self::Compress => "compression failed",
        }
    }
}

/// Where the object of a page is, before its slot knows.
struct Placed<'a> {
    object: NewObject<'a>,
    /// Compressed length in bytes; `None` if the page is stored raw.
    len: Option<usize>,
}

/// Writes a page to slot `index`.
///
/// # Context
///
/// May sleep, with nothing held; takes a compression stream, and after it the slot. Allocates first
/// without reclaim, then with reclaim but without I/O.
///
/// # Errors
///
/// [`WriteError`]; the slot then has its old content.
pub(crate) fn write_page(
    live: &Live,
    index: u32,
    page: Page<'_>,
    node: Option<u32>,
) -> Result<(), WriteError> {
    let cell = live
        .table
        .cell_or_make(index)
        .map_err(|_| WriteError::NoTable)?;
    live.help();
    let content = match page.bytes().same_word() {
        Some(pattern) => SlotContent::Fill(pattern),
        None => store(live, index, cell, page, node)?,
    };
    live.lock(cell).replace(content, clock::boot_seconds());
    Ok(())
}

/// Puts a page into the pool and returns what its slot will hold.
fn store(
    live: &Live,
    owner: u32,
    cell: &SlotCell,
    page: Page<'_>,
    node: Option<u32>,
) -> Result<SlotContent, WriteError> {
    let pages_before = live.pool.total_pages();
    let placed = match compress(live, owner, page, node)? {
        Some(placed) => placed,
        None => store_raw(live, owner, page.bytes(), node)?,
    };
    if live.is_over_limit() && !is_within_limit(live, cell, placed.len, pages_before) {
        // Dropping the object frees it.
        return Err(WriteError::OverLimit);
    }
    let id = placed.object.into_id();
    Ok(match placed.len {
        Some(len) => SlotContent::Object {
            id,
            len,
            priority: PRIMARY,
        },
        None => {
            live.stats.add(Counter::RawStores, 1);
            SlotContent::Raw { id }
        }
    })
}

/// Returns whether a page may be stored although the pool is above the user's limit.
///
/// What is charged is growth: an object that went into a place the pool had is welcome, and so is
/// one that replaces an object at least as large, which goes as soon as this one is installed.
#[cold]
fn is_within_limit(live: &Live, cell: &SlotCell, len: Option<usize>, pages_before: u64) -> bool {
    if live.pool.total_pages() <= pages_before {
        return true;
    }
    // A look without the slot: at worst one page more or less is let in.
    let old = cell.peek();
    let replaces = match old.kind() {
        Ok(Kind::Raw) => true,
        Ok(Kind::Object) => len.is_some_and(|len| len <= u32_to_usize(old.size_bytes())),
        _ => false,
    };
    if replaces && !old.is_pending() {
        return true;
    }
    live.drain_now(Cause::Limit);
    !live.is_over_limit()
}

/// Compresses and places a page; `None` if it is better stored raw.
fn compress<'a>(
    live: &'a Live,
    owner: u32,
    page: Page<'_>,
    node: Option<u32>,
) -> Result<Option<Placed<'a>>, WriteError> {
    let codec = live.codec(PRIMARY).ok_or(WriteError::Compress)?;
    let limit = live.pool.raw_threshold().saturating_sub(1);
    // Room made with reclaim, while no stream was held, and its length.
    let mut reserve: Option<(NewObject<'a>, usize)> = None;
    loop {
        let mut placed = None;
        let outcome = codec.compress(page, limit, |bytes| {
            placed = place(live, owner, bytes, node, reserve.take());
            match placed {
                Some(_) => Verdict::Done,
                None => Verdict::Keep,
            }
        });
        match outcome {
            Outcome::Done => return placed.map(Some).ok_or(WriteError::Compress),
            Outcome::Incompressible => return Ok(None),
            Outcome::Kept(kept) => {
                let mut object = allocate_slowly(live, kept.len(), owner, node)?;
                object.write(Src::from_slice(&kept));
                let len = Some(kept.len());
                return Ok(Some(Placed { object, len }));
            }
            // The page may change, and compress to more, each time: no bound but the owner's.
            Outcome::NotKept(len) => {
                reserve = Some((allocate_slowly(live, len, owner, node)?, len));
            }
        }
    }
}

/// Puts compressed bytes into reserved room, or into what the pool has without reclaim.
///
/// # Context
///
/// A compression stream is held. Takes a class lock.
fn place<'a>(
    live: &'a Live,
    owner: u32,
    bytes: &[u8],
    node: Option<u32>,
    reserve: Option<(NewObject<'a>, usize)>,
) -> Option<Placed<'a>> {
    let reserved = reserve.filter(|(_, room)| bytes.len() <= *room);
    let mut object = match reserved {
        Some((object, _)) => object,
        None => {
            let found = live.pool.alloc(bytes.len(), owner, Policy::NoReclaim, node);
            found.ok()?
        }
    };
    object.write(Src::from_slice(bytes));
    if live.spoil_slot.get() == owner.wrapping_add(1) {
        spoil(&mut object, bytes.len());
    }
    let len = Some(bytes.len());
    Some(Placed { object, len })
}

/// For tests: makes an object's bytes what no codec takes.
#[cold]
fn spoil(object: &mut NewObject<'_>, len: usize) {
    const NOTHING: [u8; PAGE_SIZE] = [0xff; PAGE_SIZE];
    object.write(Src::from_slice(NOTHING.get(..len).unwrap_or_default()));
}

/// Makes room with reclaim.
///
/// # Context
///
/// May sleep; nothing is held. Starts no I/O.
fn allocate_slowly<'a>(
    live: &'a Live,
    len: usize,
    owner: u32,
    node: Option<u32>,
) -> Result<NewObject<'a>, WriteError> {
    live.stats.add(Counter::SlowAllocations, 1);
    live.drain_now(Cause::Pressure);
    live.pool
        .alloc(len, owner, Policy::NoIo, node)
        .map_err(|_| WriteError::NoMemory)
}

/// Places a page as it is.
fn store_raw<'a>(
    live: &'a Live,
    owner: u32,
    src: Src<'_>,
    node: Option<u32>,
) -> Result<Placed<'a>, WriteError> {
    let quick = live.pool.alloc(PAGE_SIZE, owner, Policy::NoReclaim, node);
    let mut object = match quick {
        Ok(object) => object,
        Err(_) => allocate_slowly(live, PAGE_SIZE, owner, node)?,
    };
    object.write(src);
    Ok(Placed { object, len: None })
}
