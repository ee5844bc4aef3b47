// SPDX-License-Identifier: GPL-2.0

//! The slots that a pass chose, and their turns.
//!
//! A chosen slot carries [`Mark::Selected`] from its choice to the end of its turn. Only a pass sets
//! the mark, there is one pass at a time, and any read, write, discard or slot-free takes it away.
//! So a slot that is still selected still has the data that was read. Its object may have moved
//! meanwhile, by compaction, which does not matter. And no slot can be chosen twice.

use super::{
    candidates::{band_of, Bands, Places, Span},
    live::Live,
    post::{self, Pass},
    read::ReadError,
    seal::{self, Owner},
    slot::SlotContent,
    slot_word::{Kind, Mark, SlotCell, SlotWord},
    table::CHUNK_SLOTS, //
};
use crate::{
    kapi::{
        num::PAGE_SIZE,
        page::PageBuf, //
    },
    zcomp::Bounce,
};
use kernel::prelude::*;

/// Whether a pass goes on to the next slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It does.
    Next,
    /// What the user allowed is used up.
    Enough,
}

/// The chosen slots of a pass.
pub(super) struct Chosen<'a> {
    pass: &'a Pass<'a>,
    bands: KBox<Bands>,
}

impl<'a> Chosen<'a> {
    /// Returns an empty choice.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(pass: &'a Pass<'a>) -> Result<Self> {
        Ok(Self {
            pass,
            bands: KBox::new(Bands::new(), GFP_KERNEL)?,
        })
    }

    /// Chooses the slots from `first` to before `end` whose word is wanted.
    ///
    /// # Context
    ///
    /// May sleep; takes each slot that changes.
    ///
    /// # Errors
    ///
    /// Those of [`Pass::go_on`].
    pub(super) fn choose(
        &mut self,
        first: u32,
        end: u32,
        wants: impl Fn(SlotWord) -> bool,
    ) -> Result {
        let Self { pass, bands } = self;
        let live = pass.live();
        let is_new = |word: SlotWord| !word.has(Mark::Selected) && wants(word);
        let mut go_on = || pass.go_on();
        post::walk(live, first, end, &mut go_on, &mut |index, cell| {
            if is_new(cell.peek()) {
                let guard = live.lock(cell);
                let word = guard.stored().word;
                if is_new(word) {
                    bands.note(word.size_bytes(), index);
                    guard.mark(|word| word.with(Mark::Selected));
                }
            }
        })
    }

    /// Returns whether nothing was chosen.
    pub(super) fn is_empty(&self) -> bool {
        self.bands.descending().next().is_none()
    }

    /// Gives each chosen slot its turn: the largest first, see `candidates.rs`.
    ///
    /// # Context
    ///
    /// May sleep, as `turn` may.
    ///
    /// # Errors
    ///
    /// Those of `turn` and of [`Pass::go_on`], which end the walk.
    pub(super) fn each(&self, turn: &mut dyn FnMut(u32, &SlotCell) -> Result<Turn>) -> Result {
        for (band, Span { first, last }) in self.bands.descending() {
            let mut chunk = last.wrapping_sub(last % CHUNK_SLOTS);
            loop {
                self.pass.go_on()?;
                let mut places = self.places(band, chunk);
                while let Some(place) = places.take_last() {
                    let index = chunk.wrapping_add(place);
                    if let Some(cell) = self.pass.live().table.cell(index) {
                        if turn(index, cell)? == Turn::Enough {
                            return Ok(());
                        }
                    }
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
        let table = &self.pass.live().table;
        table.for_each(chunk, CHUNK_SLOTS, &mut |index, cell| {
            let word = cell.peek();
            if word.has(Mark::Selected) && band_of(word.size_bytes()) == band {
                places.insert(index.wrapping_sub(chunk));
            }
        });
        places
    }

    /// Takes the marks of those whose turn did not come, even from a task that is killed.
    ///
    /// # Context
    ///
    /// May sleep; takes each slot that is still selected.
    pub(super) fn give_up(&self) {
        let live = self.pass.live();
        // The slots of a device that goes away need no marks to be right.
        let mut go_on = || match self.pass.go_on() {
            Err(e) if self.pass.is_stopped() => Err(e),
            _ => Ok(()),
        };
        for (_, Span { first, last }) in self.bands.descending() {
            let end = last.saturating_add(1);
            let ended = post::walk(live, first, end, &mut go_on, &mut |_, cell| {
                if cell.peek().has(Mark::Selected) {
                    settle(live, cell, |word| word);
                }
            });
            if ended.is_err() {
                return;
            }
        }
    }
}

/// Ends a slot's turn with its content as it is; `change` says what was learned of its data.
///
/// # Context
///
/// Takes the slot; does not sleep.
pub(super) fn settle(live: &Live, cell: &SlotCell, change: impl FnOnce(SlotWord) -> SlotWord) {
    let guard = live.lock(cell);
    if guard.stored().word.has(Mark::Selected) {
        guard.mark(|word| change(word).without(Mark::Selected));
    }
}

/// Reads a selected slot's page, and changes its marks; `None` if it is not selected any more.
///
/// # Context
///
/// May sleep until a stream is free; takes the slot for no longer than any read.
///
/// # Errors
///
/// [`ReadError`]; the slot keeps its mark.
pub(super) fn load(
    live: &Live,
    cell: &SlotCell,
    page: &mut PageBuf,
    bounce: &mut Bounce,
    change: impl FnOnce(SlotWord) -> SlotWord,
) -> Result<Option<SlotWord>, ReadError> {
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
            object.copy_to_dst(&mut page.dst());
        }
        SlotContent::Object { id, len, .. } => {
            let object = live.pool.pieces(id, len, &guard);
            let done = match &mut long {
                Some(stream) => stream.load(object),
                None => codec.decompress(object, page.dst(), bounce),
            };
            done.map_err(|_| ReadError::Decompress)?;
        }
        SlotContent::Empty | SlotContent::Fill(_) | SlotContent::Block { .. } => return Ok(None),
    }
    guard.mark(change);
    if let Some(stream) = long {
        let done = stream.finish(page.dst());
        done.map_err(|_| ReadError::Decompress)?;
    }
    Ok(Some(word))
}

/// Copies a selected slot's object as it is stored, then zeroes and a seal; returns whether it still
/// is selected.
///
/// # Context
///
/// Takes the slot; does not sleep.
///
/// # Errors
///
/// [`ReadError::Damaged`].
pub(super) fn copy(
    live: &Live,
    index: u32,
    cell: &SlotCell,
    page: &mut PageBuf,
) -> Result<bool, ReadError> {
    let guard = live.lock(cell);
    if !guard.stored().word.has(Mark::Selected) {
        return Ok(false);
    }
    let (id, len, made_by) = match guard.content().map_err(|_| ReadError::Damaged)? {
        SlotContent::Raw { id } => (id, PAGE_SIZE, None),
        SlotContent::Object { id, len, priority } => (id, len, Some(priority)),
        SlotContent::Empty | SlotContent::Fill(_) | SlotContent::Block { .. } => return Ok(false),
    };
    let copied = live.pool.pieces(id, len, &guard).copy_to(page);
    drop(guard);
    page.get_mut(copied..).unwrap_or_default().fill(0);
    if let Some(priority) = made_by {
        seal::seal(page, len, Owner { index, priority });
    }
    Ok(true)
}
