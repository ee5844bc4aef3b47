// SPDX-License-Identifier: GPL-2.0

//! Ranges: whatever is noted comes out again, taken or handed back, with its group and nothing else.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::holds;
use crate::device::range::*;

#[derive(Clone, Debug)]
enum Step {
    /// Note a run of slots that follow each other.
    Run {
        first: u32,
        slots: u32,
    },
    Note(u32),
    Take,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = prop_oneof![
        0..2048u32,
        Just(0),
        Just(u32::MAX),
        (u32::MAX - 600)..=u32::MAX
    ];
    let step = prop_oneof![
        2 => (slot.clone(), 1..700u32).prop_map(|(first, slots)| Step::Run { first, slots }),
        6 => slot.prop_map(Step::Note),
        1 => Just(Step::Take),
    ];
    prop::collection::vec(step, 1..120)
}

fn check_and_collect(range: Range, chunk: u32, out: &mut BTreeSet<u32>) {
    assert!((1..=MAX_RANGE_SLOTS).contains(&range.slots), "{range:?}");
    let last = range
        .first
        .checked_add(range.slots - 1)
        .expect("a range does not wrap");
    assert_eq!(range.first % GROUP_SLOTS, 0, "{range:?}");
    assert_eq!(range.slots % GROUP_SLOTS, 0, "{range:?}");
    assert_eq!(
        range.first / chunk,
        last / chunk,
        "{range:?} crosses a chunk"
    );
    out.extend(range.first..=last);
}

/// Takes all ranges out, the open one last.
fn take(buffer: &RangeBuffer, visit: &mut dyn FnMut(Range)) {
    buffer.take_closed(visit);
    if let Some(range) = buffer.take_open() {
        visit(range);
    }
}

#[test]
fn every_noted_slot_comes_out_and_no_other() {
    let chunk = prop::sample::select(&[8u32, 256, 512, 1024][..]);
    holds((steps(), chunk), |(steps, chunk)| {
        let buffer = RangeBuffer::new();
        let (mut noted, mut out) = (BTreeSet::new(), BTreeSet::new());
        let mut note = |slot, out: &mut BTreeSet<u32>| {
            let first = slot - slot % GROUP_SLOTS;
            noted.extend(first..=first + (GROUP_SLOTS - 1));
            if let Noted::Overflow(range) = buffer.note(slot, chunk) {
                check_and_collect(range, chunk, out);
            }
        };
        for step in steps {
            match step {
                Step::Note(slot) => note(slot, &mut out),
                Step::Run { first, slots } => {
                    (first..=first.saturating_add(slots - 1)).for_each(|slot| note(slot, &mut out));
                }
                Step::Take => {
                    take(&buffer, &mut |range| {
                        check_and_collect(range, chunk, &mut out)
                    });
                    take(&buffer, &mut |range| panic!("{range:?} was taken twice"));
                }
            }
        }
        take(&buffer, &mut |range| {
            check_and_collect(range, chunk, &mut out)
        });
        prop_assert_eq!(noted, out);
        Ok(())
    });
}

#[test]
fn first_note_after_a_take_opens() {
    let buffer = RangeBuffer::new();
    assert_eq!(buffer.note(5, 256), Noted::Opened);
    take(&buffer, &mut |_| ());
    assert_eq!(buffer.note(6, 256), Noted::Opened);
    assert_eq!(buffer.note(0, 256), Noted::Known);
}
