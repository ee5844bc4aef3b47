// SPDX-License-Identifier: GPL-2.0

//! debugfs `block_state`: a line for each slot that holds something.
//!
//! ```text
//!          300           75.000000 .wh...
//! index, width 12; seconds since boot of the last access, width 12 and six zeroes; flags
//! ```
//!
//! | flag | slot |
//! |---|---|
//! | `s` | holds a fill pattern |
//! | `w` | is on the backing device |
//! | `h` | is stored raw, or was before it was written back |
//! | `i` | is idle |
//! | `r` | was made by a secondary codec |
//! | `n` | can't be made smaller by any secondary codec |
//!
//! The file position counts slots. A read returns whole lines, as many as fit: a buffer that is too
//! small for one gets an error, never what looks like the end of the file.
//!
//! # Context
//!
//! Task context; may sleep. The device lock is held, shared, for one page of text at a time, and not
//! while that is copied to the reader. No slot is held: a slot word says everything, in one read.

use super::{
    slot_word::{Kind, Mark, SlotWord},
    table::CHUNK_SLOTS,
    Device, //
};
use crate::kapi::{
    debugfs::{Records, UserOut},
    gfp::Policy,
    num::PAGE_SIZE,
    page::PageBuf,
    sched,
    signal,
    sysfs::Emit, //
};
use core::fmt::Write;
use kernel::prelude::*;

/// Length of a line. Both numbers have 32 bits, so they always fit their widths.
const LINE_BYTES: usize = 12 + 1 + 12 + 7 + 1 + 6 + 1;

/// Lines in a page.
const PAGE_LINES: usize = PAGE_SIZE / LINE_BYTES;

impl Records for Device {
    /// Prints lines from slot `position` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no size or the buffer no room for a line, `EFAULT`, `ENOMEM`.
    fn print(&self, out: &mut UserOut<'_>, position: &mut u64) -> Result {
        let mut lines = out.room() / LINE_BYTES;
        if lines == 0 {
            return Err(EINVAL);
        }
        let mut page = PageBuf::alloc(Policy::Sleep)?;
        while lines != 0 && !signal::is_killed() {
            let mut text = Emit::new(&mut page);
            let found = print_some(self, &mut text, lines.min(PAGE_LINES), position)?;
            // It fits: room was counted in lines.
            out.write(text.as_bytes())?;
            if found < PAGE_LINES {
                break;
            }
            lines = lines.saturating_sub(found);
        }
        Ok(())
    }
}

/// Prints at most `lines` lines from slot `position` on, moves it behind the last slot that was looked
/// at, and returns their number.
fn print_some(
    device: &Device,
    text: &mut Emit<'_>,
    lines: usize,
    position: &mut u64,
) -> Result<usize> {
    let config = device.config.read();
    let live = device.live.get(&config).ok_or(EINVAL)?;
    let Ok(first) = u32::try_from(*position) else {
        return Ok(0);
    };
    let table = &live.table;
    let mut found = 0usize;
    let mut next = table.slots().max(first);
    let mut index = table.skip_absent(first);
    // Goes on to the slot after the last line, which is where the next read starts.
    while index < table.slots() && found <= lines {
        table.for_each(index, CHUNK_SLOTS, &mut |index, cell| {
            let word = cell.peek();
            if word.kind() == Ok(Kind::Empty) || word.is_pending() || found > lines {
                return;
            }
            if found == lines {
                next = index;
            } else {
                // Cannot fail: the page has room for all the lines.
                let _ = print_line(text, index, word);
            }
            found = found.saturating_add(1);
        });
        sched::cond_resched();
        index = table.skip_absent(index.saturating_add(CHUNK_SLOTS));
    }
    *position = u64::from(next);
    Ok(found.min(lines))
}

fn print_line(text: &mut Emit<'_>, index: u32, word: SlotWord) -> core::fmt::Result {
    let kind = word.kind();
    let is_raw = kind == Ok(Kind::Raw) || word.has(Mark::WasRaw);
    let flag = |is_set: bool, letter: char| if is_set { letter } else { '.' };
    writeln!(
        text,
        "{index:12} {:12}.000000 {}{}{}{}{}{}",
        word.accessed_seconds(),
        flag(kind == Ok(Kind::Fill), 's'),
        flag(kind == Ok(Kind::Block), 'w'),
        flag(is_raw, 'h'),
        flag(word.has(Mark::Idle), 'i'),
        flag(word.priority() != 0, 'r'),
        flag(word.has(Mark::Incompressible), 'n'),
    )
}
