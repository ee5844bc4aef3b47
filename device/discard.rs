// SPDX-License-Identifier: GPL-2.0

//! Discard and write-zeroes: free every slot that lies wholly inside the range.
//!
//! # Context
//!
//! May sleep: gives the processor away between chunks, since one bio may cover a million slots.

use super::{
    live::Live,
    slot::SlotContent,
    slot_word::SlotWord,
    stats::Counter,
    table::CHUNK_SLOTS, //
};
use crate::kapi::{
    num::{u32_to_u64, SECTORS_PER_PAGE, SECTOR_SHIFT},
    sched, //
};

/// Frees the slots wholly inside `size_bytes` bytes from `sector` on.
///
/// Slots that were never written cost nothing; parts of slots at the ends keep their data.
///
/// # Context
///
/// As the module.
pub(crate) fn discard(live: &Live, sector: u64, size_bytes: u32) {
    let end_sector = sector.saturating_add(u32_to_u64(size_bytes >> SECTOR_SHIFT));
    let last = u32_to_u64(live.table.slots());
    let first = sector.div_ceil(SECTORS_PER_PAGE).min(last);
    let end = (end_sector / SECTORS_PER_PAGE).min(last);
    let (Ok(first), Ok(end)) = (u32::try_from(first), u32::try_from(end)) else {
        return;
    };
    let slots = end.saturating_sub(first);
    live.stats.add(Counter::NotifyFree, i64::from(slots));

    let mut index = live.table.skip_absent(first);
    while index < end {
        let step = end.saturating_sub(index).min(CHUNK_SLOTS);
        live.table.for_each(index, step, &mut |_, cell| {
            // A word without lock, mark or content has nothing to free, now or when it was read.
            if cell.peek() != SlotWord::EMPTY {
                live.lock(cell).replace(SlotContent::Empty, 0);
            }
        });
        live.help();
        sched::cond_resched();
        index = live.table.skip_absent(index.saturating_add(step));
    }
}
