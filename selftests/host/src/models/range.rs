// SPDX-License-Identifier: GPL-2.0

//! Ranges noted on one CPU, by threads that may have moved there, while drains take them out.
//!
//! The ring has one place in these builds, so overflow is reached. Bound: three threads, three
//! preemptions; a second on one core.

use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering;
use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::device::range::*;

const CHUNK: u32 = 4;

/// A buffer and how often each of the first eight slots came out of it.
struct World {
    buffer: RangeBuffer,
    out: [AtomicUsize; 8],
    pending: [AtomicUsize; 8],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            buffer: RangeBuffer::new(),
            out: std::array::from_fn(|_| AtomicUsize::new(0)),
            pending: std::array::from_fn(|_| AtomicUsize::new(0)),
        })
    }

    fn visit(&self, range: Range) {
        for slot in range.first..range.first + range.slots {
            let slot = usize::try_from(slot).unwrap();
            self.out[slot].fetch_add(1, Ordering::Relaxed);
            // Whoever takes a range sees what was written before the slots were noted.
            assert_eq!(self.pending[slot].load(Ordering::Relaxed), 1);
        }
    }

    fn note(&self, slot: u32) {
        self.pending[usize::try_from(slot).unwrap()].store(1, Ordering::Relaxed);
        if let Noted::Overflow(range) = self.buffer.note(slot, CHUNK) {
            self.visit(range);
        }
    }

    fn take(&self) {
        self.buffer.take(&mut |range| self.visit(range));
    }

    fn finish(&self, noted: &[usize]) {
        self.take();
        for (slot, out) in self.out.iter().enumerate() {
            let count = out.load(Ordering::Relaxed);
            assert_eq!(count, usize::from(noted.contains(&slot)), "slot {slot}");
        }
    }
}

fn spawn(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

#[test]
fn taking_loses_no_growing_range() {
    explore(3, || {
        let world = World::new();
        let taker = spawn(&world, World::take);
        world.note(0);
        world.note(1);
        world.note(2);
        taker.join().unwrap();
        world.finish(&[0, 1, 2]);
    });
}

#[test]
fn two_noting_threads_lose_nothing() {
    explore(3, || {
        let world = World::new();
        let taker = spawn(&world, World::take);
        let other = spawn(&world, |world| {
            world.note(4);
            world.note(6);
        });
        world.note(0);
        world.note(2);
        taker.join().unwrap();
        other.join().unwrap();
        world.finish(&[0, 2, 4, 6]);
    });
}

#[test]
fn two_takers_share_without_doubling() {
    explore(3, || {
        let world = World::new();
        let one = spawn(&world, World::take);
        let two = spawn(&world, World::take);
        world.note(1);
        world.note(3);
        one.join().unwrap();
        two.join().unwrap();
        world.finish(&[1, 3]);
    });
}
