// SPDX-License-Identifier: GPL-2.0

//! Reading one slot into one page.
//!
//! The slot is held from the look-up to the last byte, a few microseconds. No pool lock is taken:
//! an object cannot move or go while its slot is held.

use super::{
    fetch::Found,
    live::Live,
    slot::SlotContent,
    slot_word::SlotCell, //
};
use crate::{
    kapi::{
        bytes::Dst,
        clock,
        num::PAGE_SIZE, //
    },
    zcomp::{Bounce, DecompressError, Zcomp}, //
};

/// Why a slot could not be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadError {
    /// The slot word has no meaning, or names a codec that the device does not have.
    Damaged,
    /// The codec refused the stored bytes, or they did not make one page.
    Decompress,
}

impl ReadError {
    /// Returns the cause in words, for the log.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Damaged => "a slot is damaged",
            Self::Decompress => "decompression failed",
        }
    }
}

/// Reads slot `index` into `dst`, one page.
///
/// A slot that was never written, or was freed, reads as zeroes and touches nothing. Of one that is
/// on the backing device only the block is noted and returned, for the caller to fetch.
///
/// # Context
///
/// May sleep in long mode only. Takes the slot, and inside it a decompression stream where the
/// codec keeps state. Allocates at most the bio's bounce buffer, without sleeping.
///
/// # Errors
///
/// [`ReadError`]; `dst` may then hold part of the page, and the bio fails.
pub(crate) fn read_page(
    live: &Live,
    index: u32,
    mut dst: Dst<'_>,
    bounce: &mut Bounce,
) -> Result<Option<Found>, ReadError> {
    let Some(cell) = live.table.cell(index) else {
        dst.zero();
        return Ok(None);
    };
    loop {
        let guard = live.lock(cell);
        match guard.content().map_err(|_| ReadError::Damaged)? {
            SlotContent::Empty => {
                drop(guard);
                dst.zero();
            }
            SlotContent::Fill(pattern) => {
                guard.touch(clock::boot_seconds());
                dst.fill_word(pattern);
            }
            SlotContent::Raw { id } => {
                live.pool
                    .pieces(id, PAGE_SIZE, &guard)
                    .copy_to_dst(&mut dst);
                guard.touch(clock::boot_seconds());
            }
            SlotContent::Block { number, object } => {
                let backing = live.backing.as_ref().ok_or(ReadError::Damaged)?;
                let found = Found::new(backing, index, number, object);
                guard.touch(clock::boot_seconds());
                return Ok(Some(found));
            }
            SlotContent::Object { id, len, priority } => {
                let codec = live.codec(priority).ok_or(ReadError::Damaged)?;
                let object = live.pool.pieces(id, len, &guard);
                match codec.decompress(object, dst.reborrow(), bounce) {
                    Ok(()) => guard.touch(clock::boot_seconds()),
                    Err(DecompressError::Damaged) => return Err(ReadError::Decompress),
                    Err(DecompressError::MustBorrow) => {
                        drop(guard);
                        if !read_long(live, cell, codec, priority, dst.reborrow())? {
                            continue;
                        }
                    }
                }
            }
        }
        return Ok(None);
    }
}

/// Reads a slot with a stream borrowed first; returns whether the slot still was the codec's.
///
/// # Context
///
/// May sleep until a stream is free. The slot is taken for the copy alone.
fn read_long(
    live: &Live,
    cell: &SlotCell,
    codec: &Zcomp,
    expected: u8,
    dst: Dst<'_>,
) -> Result<bool, ReadError> {
    let Some(mut stream) = codec.begin_long_read() else {
        return Ok(false);
    };
    let guard = live.lock(cell);
    match guard.content().map_err(|_| ReadError::Damaged)? {
        SlotContent::Object { id, len, priority } if priority == expected => {
            let object = live.pool.pieces(id, len, &guard);
            stream.load(object).map_err(|_| ReadError::Decompress)?;
            guard.touch(clock::boot_seconds());
        }
        _ => return Ok(false),
    }
    stream.finish(dst).map_err(|_| ReadError::Decompress)?;
    Ok(true)
}
