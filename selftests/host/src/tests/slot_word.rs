// SPDX-License-Identifier: GPL-2.0

//! The slot word against an oracle of plain fields, and one cell against a model of its states.

use proptest::prelude::*;

use super::holds;
use crate::device::slot_word::*;

/// A page of 64 KiB, the largest.
const MAX_SIZE_BYTES: u32 = 1 << 16;

const MARKS: [Mark; 4] = [
    Mark::Idle,
    Mark::Incompressible,
    Mark::Selected,
    Mark::WasRaw,
];
const KINDS: [Kind; 5] = [
    Kind::Empty,
    Kind::Fill,
    Kind::Object,
    Kind::Raw,
    Kind::Block,
];

fn fields() -> impl Strategy<Value = (Kind, u32, u8, u32)> {
    let size = prop_oneof![
        0..=MAX_SIZE_BYTES,
        Just(0),
        Just(1),
        Just(4095),
        Just(4096),
        Just(MAX_SIZE_BYTES)
    ];
    (
        prop::sample::select(&KINDS[..]),
        size,
        0..=3u8,
        any::<u32>(),
    )
}

#[test]
fn each_field_is_independent_of_the_others() {
    let marks = prop::collection::vec((prop::sample::select(&MARKS[..]), any::<bool>()), 0..12);
    holds(
        (fields(), marks, any::<u32>()),
        |((kind, size, priority, time), marks, later)| {
            let mut word = SlotWord::new(kind, size, priority, time);
            let mut wanted = [false; MARKS.len()];
            for (mark, on) in marks {
                word = if on {
                    word.with(mark)
                } else {
                    word.without(mark)
                };
                wanted[MARKS.iter().position(|other| *other == mark).unwrap()] = on;
            }
            let word = SlotWord::from_bits(word.with_accessed_seconds(later).to_bits());
            prop_assert_eq!(word.kind(), Ok(kind));
            prop_assert_eq!(word.size_bytes(), size);
            prop_assert_eq!(word.priority(), priority);
            prop_assert_eq!(word.accessed_seconds(), later);
            prop_assert_eq!(MARKS.map(|mark| word.has(mark)), wanted);
            prop_assert!(!word.is_locked() && !word.is_pending());
            Ok(())
        },
    );
}

#[test]
fn values_too_large_do_not_reach_other_fields() {
    holds(
        (any::<u32>(), any::<u8>(), any::<u32>()),
        |(size, priority, time)| {
            let word = SlotWord::new(Kind::Raw, size, priority, time);
            prop_assert_eq!(word.kind(), Ok(Kind::Raw));
            prop_assert_eq!(word.accessed_seconds(), time);
            prop_assert_eq!(word.priority(), priority & 3);
            prop_assert_eq!(MARKS.map(|mark| word.has(mark)), [false; MARKS.len()]);
            prop_assert!(!word.is_locked() && !word.is_pending());
            Ok(())
        },
    );
}

#[test]
fn a_zeroed_word_is_an_empty_slot() {
    assert_eq!(SlotWord::from_bits(0), SlotWord::EMPTY);
    assert_eq!(SlotWord::EMPTY.kind(), Ok(Kind::Empty));
    assert!(SlotCell::new()
        .live(&SlotCell::new().lock(|_| ()))
        .is_empty());
}

#[test]
fn any_bits_decode_or_are_refused() {
    holds(any::<u64>(), |bits| {
        let word = SlotWord::from_bits(bits);
        let code = bits >> 2 & 7;
        prop_assert_eq!(word.kind().is_ok(), code < 5);
        prop_assert!(u64::from(word.size_bytes()) < 1 << 17);
        Ok(())
    });
}

/// What one task may do to a slot.
#[derive(Clone, Debug)]
enum Step {
    Write { kind: Kind, size: u32 },
    Read { seconds: u32 },
    Notify,
    NotifyWhileWriting { kind: Kind },
    NotifyWhileReading,
    Drain,
    Move { from_its_place: bool },
    MoveWhileNotified,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stored = prop::sample::select(&KINDS[1..4]);
    let step = prop_oneof![
        (stored.clone(), 0..=4096u32).prop_map(|(kind, size)| Step::Write { kind, size }),
        any::<u32>().prop_map(|seconds| Step::Read { seconds }),
        Just(Step::Notify),
        stored.prop_map(|kind| Step::NotifyWhileWriting { kind }),
        Just(Step::NotifyWhileReading),
        Just(Step::Drain),
        any::<bool>().prop_map(|from_its_place| Step::Move { from_its_place }),
        Just(Step::MoveWhileNotified),
    ];
    prop::collection::vec(step, 1..40)
}

/// A slot beside what it should hold: the oracle knows only content, pending or not, and which
/// values were given out and not yet freed.
struct Checked {
    cell: SlotCell,
    content: Option<Stored>,
    pending: bool,
    next: u64,
    live: Vec<u64>,
}

impl Checked {
    fn fresh(&mut self, kind: Kind, size: u32) -> Stored {
        self.next += 1;
        self.live.push(self.next);
        Stored {
            word: SlotWord::new(kind, size, 1, 5),
            value: self.next,
        }
    }

    fn freed(&mut self, stored: Stored) {
        let at = self.live.iter().position(|value| *value == stored.value);
        self.live
            .swap_remove(at.expect("freed twice, or never given out"));
    }

    fn settled(&mut self, settled: Settled) {
        match settled {
            Settled::Kept => assert!(!self.pending || self.content.is_none(), "a free was missed"),
            Settled::Dead(stored) => {
                assert!(self.pending, "live content was freed");
                assert_eq!(
                    self.content.take().map(|content| content.value),
                    Some(stored.value)
                );
                self.freed(stored);
            }
        }
        if self.pending {
            self.content = None;
            self.pending = false;
        }
    }

    fn write(&mut self, new: Stored, notify_meanwhile: bool) {
        let held = self.cell.lock(|_| crate::kapi::atomic::cpu_relax());
        if notify_meanwhile {
            assert_eq!(self.cell.mark_pending(), Marked::Held);
        }
        let old = self.cell.replace(held, new);
        assert_eq!(old.is_empty(), self.content.is_none());
        if let Some(content) = self.content.take() {
            assert_eq!(content.value, old.value);
            self.freed(old);
        }
        self.content = Some(new);
        self.pending = false;
    }

    fn read(&mut self, seconds: u32, notify_meanwhile: bool) {
        let held = self.cell.lock(|_| crate::kapi::atomic::cpu_relax());
        let live = self.cell.live(&held);
        match self.content.filter(|_| !self.pending) {
            None => assert!(live.is_empty() && live.value == 0),
            Some(content) => assert_eq!(live.value, content.value),
        }
        if notify_meanwhile {
            assert_eq!(self.cell.mark_pending(), Marked::Held);
            self.pending = true;
        }
        let word = live.word.with_accessed_seconds(seconds).without(Mark::Idle);
        let settled = self.cell.release(held, word);
        self.settled(settled);
        if self.content.is_some() {
            assert_eq!(self.cell.peek().accessed_seconds(), seconds);
        }
    }

    fn relocate(&mut self, from_its_place: bool, notify_meanwhile: bool) {
        let held = self.cell.try_lock().expect("nobody else holds it");
        if notify_meanwhile {
            let _ = self.cell.mark_pending();
            // The holder took the lock before: it may still move what is dead by now.
        }
        let here = self.content.map_or(0, |content| content.value);
        let from = if from_its_place {
            here
        } else {
            here + 1_000_000
        };
        let movable = self.content.filter(|content| {
            matches!(content.word.kind(), Ok(Kind::Object | Kind::Raw)) && !self.pending
        });
        let mut place = 0;
        let next = self.next + 1;
        let outcome = self.cell.relocate(held, from, &mut || {
            place = next;
            next
        });
        assert_eq!(outcome.moved, movable.is_some() && from_its_place);
        if outcome.moved {
            self.next = next;
            self.live.retain(|value| *value != here);
            self.live.push(place);
            self.content.as_mut().unwrap().value = place;
        }
        self.pending |= notify_meanwhile;
        assert_eq!(outcome.needs_hint, self.pending);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Write { kind, size } => {
                let new = self.fresh(kind, size);
                self.write(new, false);
            }
            Step::NotifyWhileWriting { kind } => {
                let new = self.fresh(kind, 77);
                self.write(new, true);
            }
            Step::Read { seconds } => self.read(seconds, false),
            Step::NotifyWhileReading => self.read(9, true),
            Step::Notify => {
                let marked = self.cell.mark_pending();
                assert_eq!(marked == Marked::Already, self.pending);
                assert_ne!(marked, Marked::Held);
                self.pending = true;
            }
            Step::Drain => {
                let held = self.cell.try_lock().expect("nobody else holds it");
                assert_eq!(held.is_pending(), self.pending);
                let settled = self.cell.release_unchanged(held);
                self.settled(settled);
            }
            Step::Move { from_its_place } => self.relocate(from_its_place, false),
            Step::MoveWhileNotified => self.relocate(true, true),
        }
        assert!(!self.cell.peek().is_locked());
        assert_eq!(self.cell.peek().is_pending(), self.pending);
        assert_eq!(self.live.len(), usize::from(self.content.is_some()));
    }
}

#[test]
fn no_sequence_of_steps_leaks_or_frees_twice() {
    holds(steps(), |steps| {
        let mut checked = Checked {
            cell: SlotCell::new(),
            content: None,
            pending: false,
            next: 0,
            live: Vec::new(),
        };
        steps.into_iter().for_each(|step| checked.take(step));
        Ok(())
    });
}

#[test]
fn tried_bits_are_the_secondaries_own() {
    holds(
        (fields(), 0..=3u8),
        |((kind, size, priority, time), tried)| {
            let word = SlotWord::new(kind, size, priority, time);
            let marked = word.with_tried(tried);
            for other in 0..=3 {
                prop_assert_eq!(marked.is_tried(other), other == tried && tried != 0);
            }
            prop_assert_eq!(marked.size_bytes(), size);
            prop_assert_eq!(marked.priority(), priority);
            prop_assert_eq!(marked.accessed_seconds(), time);
            prop_assert_eq!(marked.kind(), Ok(kind));
            Ok(())
        },
    );
}

/// Data that is freed while it gets another form is freed in both forms, and the slot is empty.
#[test]
fn exchange_never_outlives_a_notify() {
    let old = Stored {
        word: SlotWord::new(Kind::Raw, 4096, 0, 1).with(Mark::Selected),
        value: 5,
    };
    let new = Stored {
        word: SlotWord::new(Kind::Object, 100, 1, 1),
        value: 6,
    };
    for notify_at in 0..3 {
        let cell = SlotCell::new();
        let _ = cell.replace(cell.lock(|_| ()), old);
        if notify_at == 0 {
            let _ = cell.mark_pending();
        }
        let held = cell.lock(|_| ());
        if notify_at == 1 {
            let _ = cell.mark_pending();
        }
        let ended = cell.exchange(held, new);
        if notify_at == 2 {
            assert_eq!(ended, Ok(old));
            assert_eq!(cell.live(&cell.lock(|_| ())), new);
        } else {
            assert_eq!(ended, Err(Settled::Dead(old)));
            assert_eq!(cell.peek(), SlotWord::EMPTY);
        }
    }
}

#[test]
fn notify_during_a_hold_is_honored_by_the_holder() {
    let c = SlotCell::new();
    let stored = Stored {
        word: SlotWord::new(Kind::Raw, 4096, 0, 1),
        value: 5,
    };
    let _ = c.replace(c.lock(|_| ()), stored);
    let held = c.lock(|_| ());
    assert_eq!(c.mark_pending(), Marked::Held);
    assert_eq!(c.release_unchanged(held), Settled::Dead(stored));
}
