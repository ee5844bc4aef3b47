// SPDX-License-Identifier: GPL-2.0

//! `recompress`: stores slots again, smaller, with a secondary codec.
//!
//! For each candidate, none of it with two things held:
//!
//! 1. the page is read, its slot held for no longer than any read;
//! 2. it is compressed with a stream of the pass's own, which no write ever waits for;
//! 3. if a smaller size class is gained, the object is placed, with reclaim if need be;
//! 4. the slot is held again, and takes the new object if it is still selected.
//!
//! # Selected slots
//!
//! A candidate carries [`Mark::Selected`] from its choice to the end of its turn. Only a pass sets
//! the mark, there is one pass at a time, and any read, write, discard or slot-free takes it away.
//! So a slot that is still selected still has the data that was read. Its object may have moved
//! meanwhile, by compaction, which does not matter.
//!
//! # Failures
//!
//! The old object is good whatever happens. A slot that cannot be read or placed is left as it is,
//! the pass goes on, and its last such error is reported at the end.

use super::{
    candidates::{band_of, Bands, Places, Request, Span},
    live::{Live, PRIMARY, PRIORITIES},
    post::{self, Pass},
    read::ReadError,
    slot::SlotContent,
    slot_word::{Kind, Mark, SlotCell, SlotWord},
    sysfs,
    table::CHUNK_SLOTS,
    Device, //
};
use crate::{
    kapi::{
        bytes::Src,
        disk::LiveDisk,
        gfp::Policy,
        num::{u32_to_usize, PAGE_SIZE},
        page::PageBuf, //
    },
    zcomp::{Bounce, Solo},
    zsmalloc::Pool, //
};
use kernel::prelude::*;

/// What may be written.
const WORDS: &str = "type=idle, huge or huge_idle, priority= and algo= as in recomp_algorithm, \
                     threshold= below 3849, max_pages=";

/// Runs a pass.
///
/// # Context
///
/// May sleep; has the device's turn throughout, and the device lock for a moment only.
///
/// # Errors
///
/// `EINVAL` and `ERANGE` for the text, a codec that is not there, or a device without a size;
/// `EAGAIN` beside another pass; `ENOMEM`; `EINTR` if the task is killed or the device reset. `EIO`
/// or `ENOMEM` if a slot could not be read or placed; all others are done then.
pub(super) fn store(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let refuse = |e: Error| {
        disk.refuse("recompress", text, WORDS);
        e
    };
    let request = Request::parse(text).map_err(sysfs::errno).map_err(refuse)?;
    let pass = Pass::begin(disk)?;
    let live = pass.live();
    if u32_to_usize(request.threshold_bytes) >= live.pool.raw_threshold() {
        return Err(refuse(EINVAL));
    }
    let priority = target(live, &request).map_err(refuse)?;
    let mut run = Run {
        pass: &pass,
        live,
        request: &request,
        priority,
        stream: live.codec(priority).ok_or(EINVAL)?.solo()?,
        page: PageBuf::alloc(Policy::Sleep)?,
        bounce: Bounce::new(),
        left: request.max_slots,
        trouble: Ok(()),
    };
    let mut bands = KBox::new(Bands::new(), GFP_KERNEL)?;
    let ended = match run.select(&mut bands) {
        Ok(()) => run.work(&bands),
        Err(e) => Err(e),
    };
    if run.left == 0 || ended.is_err() {
        run.deselect(&bands);
    }
    if let Err(e) = run.trouble {
        disk.log_io_error("recompress: a page could not be read or placed, and is left as it is");
        return ended.and(Err(e));
    }
    ended
}

/// Returns the priority that is meant: the given one, the lowest secondary that has the named
/// codec, or the first.
fn target(live: &Live, request: &Request<'_>) -> Result<u8> {
    let has = |priority: u8| {
        let codec = live.codec(priority);
        codec.is_some_and(|c| request.codec.is_none_or(|name| c.name().as_bytes() == name))
    };
    let priority = match (request.priority, request.codec) {
        (Some(given), _) => u8::try_from(given).map_err(|_| EINVAL)?,
        (None, None) => 1,
        (None, Some(_)) => (1..).take(PRIORITIES - 1).find(|p| has(*p)).ok_or(EINVAL)?,
    };
    if priority == PRIMARY || !has(priority) {
        return Err(EINVAL);
    }
    Ok(priority)
}

/// A pass and what it works with.
struct Run<'a> {
    pass: &'a Pass<'a>,
    live: &'a Live,
    request: &'a Request<'a>,
    priority: u8,
    stream: Solo,
    page: PageBuf,
    bounce: Bounce,
    /// Slots that may still be tried.
    left: u64,
    /// The last error that did not end the pass.
    trouble: Result,
}

impl Run<'_> {
    /// Marks all candidates.
    fn select(&self, bands: &mut Bands) -> Result {
        let Self { live, request, .. } = *self;
        let mut go_on = || self.pass.go_on();
        post::walk(live, 0, u32::MAX, &mut go_on, &mut |index, cell| {
            if request.wants(cell.peek(), self.priority) {
                let guard = live.lock(cell);
                let word = guard.stored().word;
                if request.wants(word, self.priority) {
                    bands.note(word.size_bytes(), index);
                    guard.mark(|word| word.with(Mark::Selected));
                }
            }
        })
    }

    /// Takes the marks of those whose turn did not come, even from a task that is killed.
    fn deselect(&self, bands: &Bands) {
        // The slots of a device that goes away need no marks to be right.
        let mut go_on = || match self.pass.go_on() {
            Err(e) if self.pass.is_stopped() => Err(e),
            _ => Ok(()),
        };
        for (_, Span { first, last }) in bands.descending() {
            let end = last.saturating_add(1);
            let ended = post::walk(self.live, first, end, &mut go_on, &mut |_, cell| {
                if cell.peek().has(Mark::Selected) {
                    self.settle(cell, |word| word);
                }
            });
            if ended.is_err() {
                return;
            }
        }
    }

    /// Tries all candidates, in order.
    fn work(&mut self, bands: &Bands) -> Result {
        for (band, Span { first, last }) in bands.descending() {
            let mut chunk = last.wrapping_sub(last % CHUNK_SLOTS);
            loop {
                self.pass.go_on()?;
                let mut places = self.places(band, chunk);
                while let Some(place) = places.take_last() {
                    if self.left == 0 {
                        return Ok(());
                    }
                    self.attempt(chunk.wrapping_add(place));
                    self.pass.go_on()?;
                }
                if chunk <= first {
                    break;
                }
                chunk = chunk.wrapping_sub(CHUNK_SLOTS);
            }
        }
        Ok(())
    }

    /// Returns which slots of a chunk are selected and in the band.
    fn places(&self, band: usize, chunk: u32) -> Places {
        let mut places = Places::default();
        let table = &self.live.table;
        table.for_each(chunk, CHUNK_SLOTS, &mut |index, cell| {
            let word = cell.peek();
            if word.has(Mark::Selected) && band_of(word.size_bytes()) == band {
                places.insert(index.wrapping_sub(chunk));
            }
        });
        places
    }

    /// Tries one candidate.
    fn attempt(&mut self, index: u32) {
        let Some(cell) = self.live.table.cell(index) else {
            return;
        };
        let word = match self.load(cell) {
            Ok(Some(word)) => word,
            Ok(None) => return,
            Err(_) => {
                self.trouble = Err(EIO);
                self.settle(cell, |word| word);
                return;
            }
        };
        self.left = self.left.saturating_sub(1);
        let Self { live, priority, .. } = *self;
        let limit = live.pool.raw_threshold().saturating_sub(1);
        let class = Pool::class_index(u32_to_usize(word.size_bytes()));
        let bytes = self.stream.compress(Src::from_slice(&self.page), limit);
        let Some(bytes) = bytes.filter(|bytes| Pool::class_index(bytes.len()) < class) else {
            self.settle(cell, |word| {
                let word = word.with_tried(priority);
                match priority == live.highest_priority() {
                    true => word.with(Mark::Incompressible),
                    false => word,
                }
            });
            return;
        };
        let threshold = u32_to_usize(self.request.threshold_bytes);
        if threshold != 0 && bytes.len() >= threshold {
            self.settle(cell, |word| word);
            return;
        }
        let Ok(mut object) = live.pool.alloc(bytes.len(), index, Policy::NoIo, None) else {
            self.trouble = Err(ENOMEM);
            self.settle(cell, |word| word);
            return;
        };
        object.write(Src::from_slice(bytes));
        let len = bytes.len();
        let guard = live.lock(cell);
        if guard.stored().word.has(Mark::Selected) {
            let id = object.into_id();
            guard.exchange(SlotContent::Object { id, len, priority });
        }
    }

    /// Reads a candidate's page and takes its idle mark; `None` if it is none any more.
    fn load(&mut self, cell: &SlotCell) -> Result<Option<SlotWord>, ReadError> {
        let live = self.live;
        let selected = cell.peek();
        let codec = live.codec(selected.priority()).ok_or(ReadError::Damaged)?;
        // Waits for a stream, where reads of this codec do, so it comes before the slot.
        let mut long = match selected.kind() {
            Ok(Kind::Object) => codec.begin_long_read(),
            _ => None,
        };
        let guard = live.lock(cell);
        let word = guard.stored().word;
        if !word.has(Mark::Selected) {
            return Ok(None);
        }
        match guard.content().map_err(|_| ReadError::Damaged)? {
            SlotContent::Raw { id } => {
                let object = live.pool.pieces(id, PAGE_SIZE, &guard);
                object.copy_to_dst(&mut self.page.dst());
            }
            SlotContent::Object { id, len, .. } => {
                let object = live.pool.pieces(id, len, &guard);
                let done = match &mut long {
                    Some(stream) => stream.load(object),
                    None => codec.decompress(object, self.page.dst(), &mut self.bounce),
                };
                done.map_err(|_| ReadError::Decompress)?;
            }
            SlotContent::Empty | SlotContent::Fill(_) => return Ok(None),
        }
        guard.mark(|word| word.without(Mark::Idle));
        if let Some(stream) = long {
            let done = stream.finish(self.page.dst());
            done.map_err(|_| ReadError::Decompress)?;
        }
        Ok(Some(word))
    }

    /// Ends a candidate's turn without a new object; `change` says what was learned of its data.
    fn settle(&self, cell: &SlotCell, change: impl FnOnce(SlotWord) -> SlotWord) {
        let guard = self.live.lock(cell);
        if guard.stored().word.has(Mark::Selected) {
            guard.mark(|word| change(word).without(Mark::Selected));
        }
    }
}
