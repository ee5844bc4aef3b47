// SPDX-License-Identifier: GPL-2.0

//! Streams borrowed, returned, waited for, and taken away with their CPU.
//!
//! Builds for loom have one seat, so that the door is used as soon as two threads wait. Every model
//! ends with all streams at home or freed, and loom itself reports a thread that nobody wakes.
//! Bound: up to three threads, two preemptions (three for two threads); ten seconds on one core.

use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::Arc;
use loom::sync::Condvar;
use loom::sync::Mutex;
use loom::thread;

use super::explore;
use crate::kapi::atomic::AtomicU32;
use crate::zcomp::borrow::*;

/// A stream: its number. Number `n` first belongs to home `n`; the reserve's is 0.
type Stream = usize;

const STREAMS: usize = 3;

/// A home behind loom's mutex, which stands for the spin lock.
struct ModelHome {
    hint: Hint,
    state: Mutex<State<Stream>>,
}

impl Home<Stream> for ModelHome {
    fn hint(&self) -> &Hint {
        &self.hint
    }

    fn locked<R>(&self, f: impl FnOnce(&mut State<Stream>) -> R) -> R {
        f(&mut self.state.lock().unwrap())
    }
}

/// A wait queue of one condition: a wake-up is kept until somebody looks again.
struct Queue {
    woken: Mutex<usize>,
    sleepers: Condvar,
}

impl Queue {
    fn new() -> Self {
        Self {
            woken: Mutex::new(0),
            sleepers: Condvar::new(),
        }
    }

    fn wait<R>(&self, mut ready: impl FnMut() -> Option<R>) -> R {
        loop {
            // The kernel's waiter is in the queue before it tests: a wake-up from here on counts.
            let before = *self.woken.lock().unwrap();
            if let Some(got) = ready() {
                return got;
            }
            let mut woken = self.woken.lock().unwrap();
            while *woken == before {
                woken = self.sleepers.wait(woken).unwrap();
            }
        }
    }

    fn wake_one(&self) {
        *self.woken.lock().unwrap() += 1;
        // More than one may sleep here only at the door, where each looks again.
        self.sleepers.notify_all();
    }
}

struct World {
    homes: Vec<ModelHome>,
    waiting: AtomicU32,
    table: Mutex<Table<Stream, usize>>,
    seats: Vec<Queue>,
    door: Queue,
    held: [AtomicBool; STREAMS],
    freed: [AtomicBool; STREAMS],
    used: AtomicUsize,
}

impl Lender<Stream> for World {
    type Place = usize;
    type Home = ModelHome;

    fn home(&self, place: usize) -> &ModelHome {
        &self.homes[place]
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        // CPUs first, the reserve last.
        (0..self.homes.len()).rev()
    }

    fn waiting(&self) -> &AtomicU32 {
        &self.waiting
    }

    fn table<R>(&self, f: impl FnOnce(&mut Table<Stream, usize>) -> R) -> R {
        f(&mut self.table.lock().unwrap())
    }

    fn sleep<R>(&self, seat: usize, ready: impl FnMut() -> Option<R>) -> R {
        self.seats[seat].wait(ready)
    }

    fn wake(&self, seat: usize) {
        self.seats[seat].wake_one();
    }

    fn wait_at_door<R>(&self, ready: impl FnMut() -> Option<R>) -> R {
        self.door.wait(ready)
    }

    fn call_in(&self) {
        self.door.wake_one();
    }
}

impl World {
    /// Homes with their streams: the reserve and `cpus` more.
    fn new(cpus: usize) -> Arc<Self> {
        let home = |_| ModelHome {
            hint: Hint::new(),
            state: Mutex::new(State::Closed),
        };
        let world = Self {
            homes: (0..=cpus).map(home).collect(),
            waiting: AtomicU32::new(0),
            table: Mutex::new(Table::new()),
            seats: (0..SEATS).map(|_| Queue::new()).collect(),
            door: Queue::new(),
            held: std::array::from_fn(|_| AtomicBool::new(false)),
            freed: std::array::from_fn(|_| AtomicBool::new(false)),
            used: AtomicUsize::new(0),
        };
        for place in 0..=cpus {
            assert!(open(world.home(place)));
            assert!(fill(&world, place, place).is_none());
        }
        Arc::new(world)
    }

    fn free(&self, stream: Option<Stream>) {
        if let Some(stream) = stream {
            assert!(!self.held[stream].load(SeqCst), "freed in use");
            assert!(!self.freed[stream].swap(true, SeqCst), "freed twice");
        }
    }

    /// Borrows a stream, waiting if need be, and returns it.
    fn use_one(&self, priority: u32) {
        let loan = match take_any(self) {
            Some(loan) => loan,
            None => wait_for_any(self, priority),
        };
        let stream = loan.stream;
        assert!(!self.held[stream].swap(true, SeqCst), "two holders");
        thread::yield_now();
        assert!(!self.freed[stream].load(SeqCst), "used after it was freed");
        self.used.fetch_add(1, SeqCst);
        self.held[stream].store(false, SeqCst);
        self.free(put(self, loan));
    }

    /// Checks that every home is at rest and nobody waits.
    fn finish(&self, uses: usize) {
        assert_eq!(self.used.load(SeqCst), uses);
        assert_eq!(self.waiting.load_relaxed(), 0);
        for (place, home) in self.homes.iter().enumerate() {
            let idle = home.locked(|state| match state {
                State::Idle(_) => true,
                State::Closed | State::Vacant => false,
                State::Lent | State::Orphaned => panic!("home {place} waits for its stream"),
            });
            assert_eq!(home.hint().looks_idle(), idle, "hint of home {place}");
        }
    }
}

fn spawn(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

#[test]
fn one_stream_serves_two_in_turn() {
    explore(3, || {
        let world = World::new(0);
        let other = spawn(&world, |w| w.use_one(120));
        world.use_one(100);
        other.join().unwrap();
        world.finish(2);
    });
}

#[test]
fn nobody_is_left_asleep_in_seat_or_at_door() {
    explore(2, || {
        let world = World::new(0);
        let a = spawn(&world, |w| w.use_one(120));
        let b = spawn(&world, |w| w.use_one(100));
        world.use_one(110);
        a.join().unwrap();
        b.join().unwrap();
        world.finish(3);
    });
}

#[test]
fn two_streams_serve_three() {
    explore(2, || {
        let world = World::new(1);
        let a = spawn(&world, |w| w.use_one(120));
        let b = spawn(&world, |w| w.use_one(100));
        world.use_one(110);
        a.join().unwrap();
        b.join().unwrap();
        world.finish(3);
    });
}

#[test]
fn stream_of_a_dead_cpu_is_freed_once_and_not_used_after() {
    explore(2, || {
        let world = World::new(1);
        let user = spawn(&world, |w| w.use_one(120));
        let hotplug = spawn(&world, |w| w.free(close(w.home(1))));
        world.use_one(110);
        user.join().unwrap();
        hotplug.join().unwrap();
        world.finish(2);
        assert!(world.freed[1].load(SeqCst));
        assert!(world.home(1).locked(|s| matches!(s, State::Closed)));
    });
}

#[test]
fn cpu_that_returns_finds_its_stream_or_gets_a_new_one() {
    explore(2, || {
        let world = World::new(1);
        let user = spawn(&world, |w| w.use_one(120));
        let hotplug = spawn(&world, |w| {
            w.free(close(w.home(1)));
            if open(w.home(1)) {
                w.free(fill(w, 1, 2));
            }
        });
        world.use_one(110);
        user.join().unwrap();
        hotplug.join().unwrap();
        world.finish(2);
        assert!(world.home(1).locked(|s| matches!(s, State::Idle(_))));
    });
}

#[test]
fn new_stream_wakes_one_who_waits() {
    explore(2, || {
        let world = World::new(1);
        world.free(close(world.home(1)));
        // The reserve's stream is in use until the new one has served the other.
        let held = take_any(&*world).unwrap();
        let user = spawn(&world, |w| w.use_one(120));
        let worker = spawn(&world, |w| {
            if open(w.home(1)) {
                w.free(fill(w, 1, 2));
            }
        });
        user.join().unwrap();
        worker.join().unwrap();
        world.free(put(&*world, held));
        world.finish(1);
    });
}
