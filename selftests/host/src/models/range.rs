// SPDX-License-Identifier: GPL-2.0

//! Ranges noted on one CPU, by threads that may have moved there, while drains take them out.
//!
//! The ring has one place in these builds, so overflow is reached, and a group has two slots. Bound:
//! three threads, three preemptions; a second on one core.

use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering;
use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::device::range::*;
use crate::kapi::atomic::AtomicU64;

const CHUNK: u32 = 4;

/// A buffer, the pending bits of the first eight slots, and how often each was found pending.
struct World {
    buffer: RangeBuffer,
    out: [AtomicUsize; 8],
    pending: [AtomicU64; 8],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            buffer: RangeBuffer::new(),
            out: std::array::from_fn(|_| AtomicUsize::new(0)),
            pending: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// As a drain does: looks at each slot, and frees what is pending.
    fn visit(&self, range: Range) {
        for slot in range.first..range.first + range.slots {
            let slot = usize::try_from(slot).unwrap();
            if self.pending[slot].load_relaxed() == 1 && self.pending[slot].swap_full(0) == 1 {
                self.out[slot].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// As notify does: sets the bit, and then notes the slot.
    fn note(&self, slot: u32) -> Noted {
        self.pending[usize::try_from(slot).unwrap()].fetch_or_full(1);
        let noted = self.buffer.note(slot, CHUNK);
        if let Noted::Overflow(range) = noted {
            self.visit(range);
        }
        noted
    }

    fn take(&self) {
        self.buffer.take_closed(&mut |range| self.visit(range));
        if let Some(range) = self.buffer.take_open() {
            self.visit(range);
        }
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

/// The slots of a group that is named already: each is found by the drain that takes the range, or
/// finds the range gone and is noted anew.
#[test]
fn a_named_slot_is_found() {
    explore(4, || {
        let world = World::new();
        world.note(0);
        let taker = spawn(&world, World::take);
        world.note(1);
        taker.join().unwrap();
        world.finish(&[0, 1]);
    });
}

#[test]
fn two_noting_threads_lose_nothing() {
    explore(3, || {
        let world = World::new();
        let taker = spawn(&world, World::take);
        let other = spawn(&world, |world| {
            world.note(4);
            world.note(2);
        });
        world.note(0);
        world.note(6);
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

/// What the noter and the worker share: a ring, the flag, and how often the worker is queued.
struct Shop {
    world: Arc<World>,
    called: Called,
    queued: AtomicUsize,
}

impl Shop {
    fn note(&self, slot: u32) {
        if self.world.note(slot) == Noted::Closed && self.called.call() {
            self.queued.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Runs the worker as often as it is queued by now.
    fn run(&self) {
        while self.queued.swap(0, Ordering::SeqCst) != 0 {
            loop {
                self.world
                    .buffer
                    .take_closed(&mut |range| self.world.visit(range));
                if self.called.end(|| self.world.buffer.has_closed()) {
                    break;
                }
            }
        }
    }
}

/// Whatever the timing, a closed range is either met by the worker that runs or has it queued. The
/// worker was called for something else and looks for more when the ranges come.
#[test]
fn a_closed_range_finds_its_worker() {
    explore(3, || {
        let shop = Arc::new(Shop {
            world: World::new(),
            called: Called::new(),
            queued: AtomicUsize::new(1),
        });
        assert!(shop.called.call());
        let worker = {
            let shop = Arc::clone(&shop);
            thread::spawn(move || shop.run())
        };
        // Neither follows the one before it.
        shop.note(0);
        shop.note(4);
        shop.note(2);
        worker.join().unwrap();
        // Nobody notes any more: the queue is worked off, and then nothing closed is left behind.
        shop.run();
        assert!(!shop.world.buffer.has_closed(), "a range without a worker");
        shop.world.finish(&[0, 2, 4]);
    });
}
