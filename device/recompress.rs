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
//! How candidates are found again, and known to be untouched: `chosen.rs`.
//!
//! # Failures
//!
//! The old object is good whatever happens. A slot that cannot be read or placed is left as it is,
//! the pass goes on, and its last such error is reported at the end.

use super::{
    candidates::Request,
    chosen::{self, Chosen, Turn},
    live::{Live, PRIMARY, PRIORITIES},
    post::{Ended, Pass},
    slot::SlotContent,
    slot_word::{Mark, SlotCell, SlotWord},
    sysfs,
    Device, //
};
use crate::{
    kapi::{
        bytes::Src,
        disk::LiveDisk,
        gfp::Policy,
        num::u32_to_usize,
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
    let ended = run(&pass, &request, priority, &|_| true)?;
    if ended.slots.is_err() {
        disk.log_io_error("recompress: a page could not be read or placed, and is left as it is");
    }
    ended.result()
}

/// Recompresses what is old with the codec of a priority that there is.
///
/// # Context
///
/// As [`store`], in a work item.
///
/// # Errors
///
/// As [`store`].
pub(super) fn run_old(pass: &Pass<'_>, priority: u8, is_old: &dyn Fn(SlotWord) -> bool) -> Result {
    run(pass, &Request::ALL, priority, is_old)?.result()
}

/// Runs a pass over the slots that the request wants and `wants` does, too.
fn run(
    pass: &Pass<'_>,
    request: &Request<'_>,
    priority: u8,
    wants: &dyn Fn(SlotWord) -> bool,
) -> Result<Ended> {
    let mut chosen = Chosen::new(pass)?;
    let is_wanted = |word: SlotWord| request.wants(word, priority) && wants(word);
    let chose = chosen.choose(0, u32::MAX, is_wanted);
    if chosen.is_empty() {
        return Ok(Ended {
            pass: chose,
            slots: Ok(()),
        });
    }
    let begun = Run::new(pass.live(), request, priority);
    let mut run = begun.inspect_err(|_| chosen.give_up())?;
    let ended = chose.and_then(|()| chosen.each(&mut |index, cell| Ok(run.attempt(index, cell))));
    if run.left == 0 || ended.is_err() {
        chosen.give_up();
    }
    Ok(Ended {
        pass: ended,
        slots: run.trouble,
    })
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

impl<'a> Run<'a> {
    fn new(live: &'a Live, request: &'a Request<'a>, priority: u8) -> Result<Self> {
        Ok(Self {
            live,
            request,
            priority,
            stream: live.codec(priority).ok_or(EINVAL)?.solo()?,
            page: PageBuf::alloc(Policy::Sleep)?,
            bounce: Bounce::new(),
            left: request.max_slots,
            trouble: Ok(()),
        })
    }

    /// Tries one candidate, if one more may be tried.
    fn attempt(&mut self, index: u32, cell: &SlotCell) -> Turn {
        if self.left == 0 {
            return Turn::Enough;
        }
        let Self { live, priority, .. } = *self;
        let not_idle = |word: SlotWord| word.without(Mark::Idle);
        let loaded = chosen::load(live, cell, &mut self.page, &mut self.bounce, not_idle);
        let word = match loaded {
            Ok(Some(word)) => word,
            Ok(None) => return Turn::Next,
            Err(_) => {
                self.trouble = Err(EIO);
                chosen::settle(live, cell, |word| word);
                return Turn::Next;
            }
        };
        self.left = self.left.saturating_sub(1);
        let limit = live.pool.raw_threshold().saturating_sub(1);
        let class = Pool::class_index(u32_to_usize(word.size_bytes()));
        let bytes = self.stream.compress(Src::from_slice(&self.page), limit);
        let Some(bytes) = bytes.filter(|bytes| Pool::class_index(bytes.len()) < class) else {
            chosen::settle(live, cell, |word| {
                let word = word.with_tried(priority);
                match priority == live.highest_priority() {
                    true => word.with(Mark::Incompressible),
                    false => word,
                }
            });
            return Turn::Next;
        };
        let threshold = u32_to_usize(self.request.threshold_bytes);
        if threshold != 0 && bytes.len() >= threshold {
            chosen::settle(live, cell, |word| word);
            return Turn::Next;
        }
        let Ok(mut object) = live.pool.alloc(bytes.len(), index, Policy::NoIo, None) else {
            self.trouble = Err(ENOMEM);
            chosen::settle(live, cell, |word| word);
            return Turn::Next;
        };
        object.write(Src::from_slice(bytes));
        let len = bytes.len();
        let guard = live.lock(cell);
        if guard.stored().word.has(Mark::Selected) {
            let id = object.into_id();
            guard.exchange(SlotContent::Object { id, len, priority });
        }
        Turn::Next
    }
}
