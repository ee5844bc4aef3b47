// SPDX-License-Identifier: GPL-2.0

//! One slot under reader, writer, notify, drain and compaction.
//!
//! Checked in each model: no object is freed twice or used after it was freed (its bytes are a
//! cell that loom watches), none is leaked, no pending bit is left without anybody who knows of
//! it, and a slot whose notify has returned reads as zeroes.
//!
//! A holder in the driver spins until it has the lock. Loom can't bound a spin of two threads, so
//! here a thread that met a holder twice gives its operation up: any order in which it would have
//! waited longer is that of a run in which it came later. One model of two threads spins for real.
//!
//! Bound: three or four threads, two or three preemptions. Seven seconds for all, one core.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering;
use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::device::slot_word::*;

const PLACES: usize = 4;
const FREE: u64 = 0;

/// A slot, the places its objects may live in, and the hint that a drain follows.
struct World {
    cell: SlotCell,
    /// What each place holds: the object's name, or [`FREE`].
    places: [UnsafeCell<u64>; PLACES],
    hint: AtomicBool,
}

fn stored(place: u64) -> Stored {
    Stored {
        word: SlotWord::new(Kind::Object, 64, 0, 1),
        value: place,
    }
}

impl World {
    fn new() -> Arc<Self> {
        let world = Self {
            cell: SlotCell::new(),
            places: std::array::from_fn(|_| UnsafeCell::new(FREE)),
            hint: AtomicBool::new(false),
        };
        world.write(1);
        Arc::new(world)
    }

    fn place(&self, place: u64) -> &UnsafeCell<u64> {
        &self.places[usize::try_from(place).unwrap()]
    }

    fn make(&self, place: u64) {
        // SAFETY: Loom fails the model if anybody else uses the cell at the same time.
        self.place(place).with_mut(|object| unsafe {
            assert_eq!(*object, FREE, "place given out twice");
            *object = 100 + place;
        });
    }

    fn free(&self, place: u64) {
        // SAFETY: As in `make`.
        self.place(place).with_mut(|object| unsafe {
            assert_eq!(*object, 100 + place, "freed twice");
            *object = FREE;
        });
    }

    fn settle(&self, settled: Settled) {
        if let Settled::Dead(dead) = settled {
            self.free(dead.value);
        }
    }

    /// Takes the lock, unless a holder was met twice.
    fn hold(&self) -> Option<Held> {
        let again = || {
            thread::yield_now();
            self.cell.try_lock()
        };
        self.cell.try_lock().or_else(again)
    }

    /// Writes an object at `place`; returns whether it got the lock.
    fn write(&self, place: u64) -> bool {
        self.make(place);
        let Some(held) = self.hold() else {
            self.free(place);
            return false;
        };
        let old = self.cell.replace(held, stored(place));
        if !old.is_empty() {
            self.free(old.value);
        }
        true
    }

    /// Reads the slot; returns the place of what it holds, [`FREE`] for zeroes, if it got the lock.
    fn read(&self) -> Option<u64> {
        self.hold().map(|held| self.read_held(held))
    }

    fn read_held(&self, held: Held) -> u64 {
        let live = self.cell.live(&held);
        if !live.is_empty() {
            // SAFETY: As in `make`.
            let object = self.place(live.value).with(|object| unsafe { *object });
            assert_eq!(object, 100 + live.value, "read after free");
        }
        let settled = self.cell.release(held, live.word.with_accessed_seconds(2));
        self.settle(settled);
        live.value
    }

    fn try_free(&self) {
        if let Some(held) = self.cell.try_lock() {
            let settled = self.cell.release_unchanged(held);
            self.settle(settled);
        }
    }

    /// Notify that frees at once where it can: `deferred_free` 0.
    fn notify_and_free(&self) {
        if let Marked::Free(_) = self.cell.mark_pending() {
            self.try_free();
        }
    }

    /// Notify that only leaves a hint: `deferred_free` 2.
    fn notify_and_hint(&self) {
        if let Marked::Free(_) = self.cell.mark_pending() {
            self.hint.swap(true, Ordering::Release);
        }
    }

    fn drain(&self) {
        if self.hint.swap(false, Ordering::Acquire) {
            self.try_free();
        }
    }

    fn compact(&self, from: u64, to: u64) {
        let Some(held) = self.cell.try_lock() else {
            return;
        };
        let moved = self.cell.relocate(held, from, &mut || {
            self.make(to);
            to
        });
        if moved.moved {
            self.free(from);
        }
        if moved.needs_hint {
            self.hint.swap(true, Ordering::Release);
        }
    }

    /// Gives the content another form, at another place: recompression.
    fn recompress(&self, to: u64) {
        let Some(held) = self.hold() else {
            return;
        };
        if self.cell.live(&held).is_empty() {
            let settled = self.cell.release_unchanged(held);
            return self.settle(settled);
        }
        self.make(to);
        match self.cell.exchange(held, stored(to)) {
            Ok(old) => self.free(old.value),
            Err(settled) => {
                self.free(to);
                self.settle(settled);
            }
        }
    }

    /// Nobody else runs any more: what is there must be one object in the slot, or none.
    fn finish(&self) -> u64 {
        self.drain();
        let word = self.cell.peek();
        assert!(!word.is_locked(), "a lock was left behind");
        assert!(!word.is_pending(), "a pending bit was lost");
        let left = self.read_held(self.cell.lock(|_| crate::kapi::atomic::cpu_relax()));
        let objects = (0..).zip(&self.places).filter(|(place, object)| {
            // SAFETY: As in `make`.
            *place != left && object.with(|object| unsafe { *object != FREE })
        });
        assert_eq!(objects.count(), 0, "an object was leaked");
        left
    }
}

fn spawn(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn notify_that_frees_meets_a_reader() {
    explore(3, || {
        let world = World::new();
        let notify = spawn(&world, World::notify_and_free);
        world.read_held(world.cell.lock(|_| crate::kapi::atomic::cpu_relax()));
        notify.join().unwrap();
        assert_eq!(world.finish(), FREE);
    });
}

#[test]
fn notify_that_frees_meets_a_reader_and_a_writer() {
    explore(3, || {
        let world = World::new();
        let notify = spawn(&world, World::notify_and_free);
        let reader = spawn(&world, |world| assert_ne!(world.read(), Some(3)));
        let wrote = world.write(2);
        join([notify, reader]);
        // Without an order between them either may win, but nothing else may be left.
        let left = world.finish();
        assert!(left == FREE || wrote && left == 2);
    });
}

#[test]
fn late_drain_leaves_new_data() {
    explore(3, || {
        let world = World::new();
        let drain = spawn(&world, World::drain);
        let reader = spawn(&world, |world| assert_ne!(world.read(), Some(3)));
        world.notify_and_hint();
        let newest = if world.write(2) { 2 } else { FREE };
        assert!(
            [None, Some(newest)].contains(&world.read()),
            "a drain took newer data"
        );
        join([drain, reader]);
        assert_eq!(world.finish(), newest);
    });
}

#[test]
fn late_free_of_notify_leaves_new_data() {
    explore(3, || {
        let world = World::new();
        let reader = spawn(&world, |world| assert_ne!(world.read(), Some(3)));
        let drain = spawn(&world, World::try_free);
        world.notify_and_free();
        let newest = if world.write(2) { 2 } else { FREE };
        assert!([None, Some(newest)].contains(&world.read()));
        join([drain, reader]);
        assert_eq!(world.finish(), newest);
    });
}

#[test]
fn pending_slot_reads_as_zeroes() {
    explore(3, || {
        let world = World::new();
        let drain = spawn(&world, World::drain);
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let reader = spawn(&world, move |world| {
            let was_told = told.load(Ordering::Acquire);
            let place = world.read().unwrap_or(FREE);
            assert!(place == FREE || !was_told, "freed content was read");
        });
        world.notify_and_hint();
        tell.store(true, Ordering::Release);
        assert_eq!(world.read().unwrap_or(FREE), FREE, "freed content was read");
        join([drain, reader]);
        assert_eq!(world.finish(), FREE);
    });
}

#[test]
fn two_notifies_free_once() {
    explore(3, || {
        let world = World::new();
        let one = spawn(&world, World::notify_and_hint);
        let two = spawn(&world, World::notify_and_hint);
        world.drain();
        join([one, two]);
        assert_eq!(world.finish(), FREE);
    });
}

#[test]
fn two_writers_leave_one_object() {
    explore(3, || {
        let world = World::new();
        let one = spawn(&world, |world| {
            world.write(2);
        });
        let two = spawn(&world, World::notify_and_free);
        world.write(3);
        join([one, two]);
        assert!([FREE, 2, 3].contains(&world.finish()));
    });
}

#[test]
fn compaction_loses_no_pending_bit() {
    explore(3, || {
        let world = World::new();
        let compaction = spawn(&world, |world| world.compact(1, 2));
        let notify = spawn(&world, World::notify_and_hint);
        world.drain();
        join([compaction, notify]);
        assert_eq!(world.finish(), FREE);
    });
}

#[test]
fn compaction_moves_or_leaves_what_a_writer_replaces() {
    explore(3, || {
        let world = World::new();
        let compaction = spawn(&world, |world| world.compact(1, 2));
        let reader = spawn(&world, |world| assert_ne!(world.read(), Some(FREE)));
        let wrote = world.write(3);
        join([compaction, reader]);
        let left = world.finish();
        assert!(if wrote {
            left == 3
        } else {
            [1, 2].contains(&left)
        });
    });
}

#[test]
fn recompression_revives_nothing() {
    explore(3, || {
        let world = World::new();
        let recompression = spawn(&world, |world| world.recompress(2));
        let reader = spawn(&world, |world| assert_ne!(world.read(), Some(3)));
        world.notify_and_hint();
        assert_eq!(world.read().unwrap_or(FREE), FREE, "freed content was read");
        join([recompression, reader]);
        assert_eq!(world.finish(), FREE);
    });
}

#[test]
fn recompression_leaves_new_data() {
    explore(3, || {
        let world = World::new();
        let recompression = spawn(&world, |world| world.recompress(2));
        let notify = spawn(&world, World::notify_and_free);
        let wrote = world.write(3);
        join([recompression, notify]);
        let left = world.finish();
        assert!(left == FREE || !wrote && left == 2 || wrote && [2, 3].contains(&left));
    });
}

#[test]
fn everybody_on_one_slot() {
    explore(2, || {
        let world = World::new();
        let notify = spawn(&world, World::notify_and_hint);
        let drain = spawn(&world, World::drain);
        let compaction = spawn(&world, |world| world.compact(1, 3));
        world.write(2);
        join([notify, drain, compaction]);
        assert!([FREE, 2].contains(&world.finish()));
    });
}
