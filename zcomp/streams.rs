// SPDX-License-Identifier: GPL-2.0

//! The streams of one direction: one for each CPU and a reserve, held in the short or the long way.
//!
//! *Short*: the home's spin lock is held while the stream is used. Its holder is not preempted, so
//! whoever meets it waits for one page at most. A CPU without a stream takes another home's lock,
//! by trying, and in the end waits for the reserve's.
//!
//! *Long*: the stream is taken out of its home and used by its owner, who stays preemptible; see
//! [`super::borrow`] for the protocol. Whoever finds every stream lent sleeps, and a stream that comes
//! back is handed to the sleeper of the best priority.
//!
//! # Locks
//!
//! | lock | protects | does not protect | under it |
//! |---|---|---|---|
//! | home, short | state and stream | | one page is worked on; no sleep, no allocation |
//! | table, long | who waits, what was granted | | homes, a few instructions each |
//! | home, long | state | a stream that is lent | a few instructions |
//!
//! A home's lock is taken with nothing of this room held, except that a decompression home may be
//! taken with a compression stream of the long kind in hand.

use super::{
    borrow::{
        self,
        Hint,
        Home,
        Lender,
        Loan,
        State,
        Table,
        SEATS, //
    },
    stats::{
        Direction,
        Found,
        Stats, //
    },
};
use crate::{
    backends::Pace,
    kapi::{
        atomic::AtomicU32,
        clock::Instant,
        percpu::{
            self,
            Cpu,
            PerCpu, //
        },
        sched,
        waitq::WaitQueue, //
    },
};
use kernel::{
    cpu::nr_cpu_ids,
    new_spinlock,
    prelude::*,
    static_lock_class,
    sync::{
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
        },
        Arc,
        LockClassKey,
        SpinLock, //
    },
};

/// A home, its hint on a cache line of its own: a borrower that passes over a busy home shall not
/// take the lock's line away from the holder.
#[pin_data]
#[repr(C)]
pub(super) struct Quarters<S> {
    hint: Line<Hint>,
    #[pin]
    state: SpinLock<State<S>>,
}

/// A value on a cache line of its own.
#[repr(C, align(64))]
struct Line<T>(T);

impl<S> Quarters<S> {
    fn new(class: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            hint: Line(Hint::new()),
            state <- SpinLock::new(State::Closed, c"rzram_stream", class),
        })
    }
}

impl<S> Home<S> for Quarters<S> {
    fn hint(&self) -> &Hint {
        &self.hint.0
    }

    fn locked<R>(&self, f: impl FnOnce(&mut State<S>) -> R) -> R {
        f(&mut self.state.lock())
    }
}

/// Where a home is: a CPU's, or the reserve.
pub(super) type Place = Option<Cpu>;

/// What one thread sleeps on.
#[pin_data]
struct Chair {
    #[pin]
    queue: WaitQueue,
}

impl Chair {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            queue <- WaitQueue::new(c"rzram_stream_seat", static_lock_class!()),
        }? Error)
    }
}

/// Where threads of the long kind wait; see [`super::borrow`].
#[pin_data]
struct Room<S> {
    waiting: AtomicU32,
    #[pin]
    table: SpinLock<Table<S, Place>>,
    seats: Pin<KBox<[Chair]>>,
    #[pin]
    door: WaitQueue,
}

impl<S> Room<S> {
    fn new() -> Result<Pin<KBox<Self>>> {
        let seats = KBox::pin_slice(|_| Chair::new(), SEATS, GFP_KERNEL)?;
        KBox::pin_init(
            pin_init!(Self {
                waiting: AtomicU32::new(0),
                table <- new_spinlock!(Table::new(), "rzram_stream_table"),
                seats,
                door <- WaitQueue::new(c"rzram_stream_door", static_lock_class!()),
            }),
            GFP_KERNEL,
        )
    }
}

/// Waits in a queue until `ready` returns something.
fn wait_in<R>(queue: &WaitQueue, mut ready: impl FnMut() -> Option<R>) -> R {
    loop {
        let mut got = None;
        queue.wait(|| {
            got = ready();
            got.is_some()
        });
        if let Some(got) = got {
            return got;
        }
    }
}

impl<S> Room<S> {
    /// Returns the queue of a seat.
    fn seat(&self, number: usize) -> &WaitQueue {
        // A number is never past the end; the door would do, as its sleepers look again.
        self.seats.get(number).map_or(&self.door, |c| &c.queue)
    }
}

impl<S> Lender<S> for Streams<S> {
    type Place = Place;
    type Home = Quarters<S>;

    fn home(&self, place: Place) -> &Quarters<S> {
        match place {
            Some(cpu) => self.homes.of(cpu),
            None => &self.reserve,
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        Places {
            own: Cpu::current().as_u32(),
            step: 0,
        }
    }

    fn waiting(&self) -> &AtomicU32 {
        &self.room.waiting
    }

    fn table<R>(&self, f: impl FnOnce(&mut Table<S, Place>) -> R) -> R {
        f(&mut self.room.table.lock())
    }

    fn sleep<R>(&self, seat: usize, ready: impl FnMut() -> Option<R>) -> R {
        wait_in(self.room.seat(seat), ready)
    }

    fn wake(&self, seat: usize) {
        self.room.seat(seat).wake_one();
    }

    fn wait_at_door<R>(&self, ready: impl FnMut() -> Option<R>) -> R {
        wait_in(&self.room.door, ready)
    }

    fn call_in(&self) {
        self.room.door.wake_one();
    }
}

/// The streams of one direction.
pub(super) struct Streams<S> {
    homes: PerCpu<Quarters<S>>,
    reserve: Pin<KBox<Quarters<S>>>,
    room: Pin<KBox<Room<S>>>,
    pace: Pace,
    direction: Direction,
    stats: Arc<Stats>,
}

impl<S> Streams<S> {
    /// Makes homes without streams, and a reserve with one.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    pub(super) fn new(
        pace: Pace,
        direction: Direction,
        class: Pin<&'static LockClassKey>,
        stats: Arc<Stats>,
        reserve: S,
    ) -> Result<Self> {
        let streams = Self {
            homes: PerCpu::new(|_| Quarters::new(class))?,
            reserve: KBox::pin_init(Quarters::new(class), GFP_KERNEL)?,
            room: Room::new()?,
            pace,
            direction,
            stats,
        };
        borrow::open(&*streams.reserve);
        // A home just opened takes what it is given.
        drop(borrow::fill(&streams, RESERVE, reserve));
        Ok(streams)
    }

    /// Returns how streams are held.
    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Uses a stream, waiting for one if need be; `f` must not sleep.
    ///
    /// Returns nothing only if a home broke its protocol, which is a fault of this module.
    ///
    /// # Context
    ///
    /// Short: any task context, preemptible or not; takes a home's lock, `f` runs under it. Long:
    /// may sleep.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        match self.pace {
            Pace::Short => match &mut *self.lock() {
                State::Idle(stream) => Some(f(stream)),
                _ => None,
            },
            Pace::Long => self.borrow().stream().map(f),
        }
    }

    /// Locks a home whose stream is there: this CPU's, with hardly an exception.
    #[inline]
    fn lock(&self) -> Guard<'_, State<S>, SpinLockBackend> {
        let own = self.lock_home(self.homes.this());
        if let State::Idle(_) = *own {
            self.stats.held(self.direction, Found::Own);
            return own;
        }
        drop(own);
        self.lock_another()
    }

    /// Locks the home of another CPU, or the reserve, for a CPU that has no stream yet or a thread
    /// that was moved off a CPU that went away.
    #[cold]
    fn lock_another(&self) -> Guard<'_, State<S>, SpinLockBackend> {
        self.stats.held(self.direction, Found::Borrowed);
        for place in self.places() {
            let home = self.home(place);
            if !home.hint().looks_idle() {
                continue;
            }
            if let Some(guard) = home.state.try_lock() {
                if let State::Idle(_) = *guard {
                    return guard;
                }
            }
        }
        self.lock_home(&self.reserve)
    }

    /// Locks a home, and counts if that meant waiting.
    #[inline]
    fn lock_home<'a>(&self, home: &'a Quarters<S>) -> Guard<'a, State<S>, SpinLockBackend> {
        match home.state.try_lock() {
            Some(guard) => guard,
            None => {
                let since = Instant::now();
                let guard = home.state.lock();
                self.stats.waited(self.direction, since.elapsed_ns());
                guard
            }
        }
    }

    /// Takes a stream out of its home: this CPU's, or the next that is idle, or the first that comes
    /// back.
    ///
    /// # Context
    ///
    /// May sleep.
    pub(super) fn borrow(&self) -> Held<'_, S> {
        let own = Some(Cpu::current());
        let loan = match borrow::take_any(self) {
            Some(loan) => loan,
            None => {
                let since = Instant::now();
                let loan = borrow::wait_for_any(self, sched::priority());
                self.stats.waited(self.direction, since.elapsed_ns());
                loan
            }
        };
        let found = if loan.place == own {
            Found::Own
        } else {
            Found::Borrowed
        };
        self.stats.held(self.direction, found);
        Held {
            loan: Some(loan),
            streams: self,
        }
    }

    /// Opens the home of a CPU that comes up, and tells whether a stream has to be made for it.
    ///
    /// # Context
    ///
    /// Takes a home's lock; neither sleeps nor allocates.
    pub(super) fn open(&self, cpu: Cpu) -> bool {
        borrow::open(self.homes.of(cpu))
    }

    /// Tells whether a stream has to be made for a CPU.
    pub(super) fn is_vacant(&self, cpu: Cpu) -> bool {
        borrow::is_vacant(self.homes.of(cpu))
    }

    /// Gives a CPU its stream, or drops it if the CPU has no use for it any more.
    ///
    /// # Context
    ///
    /// May sleep, to free.
    pub(super) fn fill(&self, cpu: Cpu, stream: S) {
        drop(borrow::fill(self, Some(cpu), stream));
    }

    /// Closes the home of a CPU that went away, and frees its stream unless it is lent.
    ///
    /// # Context
    ///
    /// May sleep, to free; takes a home's lock, so it waits for a short holder.
    pub(super) fn close(&self, cpu: Cpu) {
        drop(borrow::close(self.homes.of(cpu)));
    }
}

/// The reserve's place.
const RESERVE: Place = None;

/// The places in the order in which CPU `own` asks them: its own, those of the online CPUs that
/// follow, of those in front, the reserve.
struct Places {
    own: u32,
    step: u32,
}

impl Iterator for Places {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let numbers = nr_cpu_ids();
        while self.step < numbers {
            // OVERFLOW: both are below the number of CPU ids, which is far below half of the range.
            let number = self.own.wrapping_add(self.step) % numbers;
            self.step = self.step.wrapping_add(1);
            let cpu = Cpu::from_u32(number).filter(|&cpu| percpu::is_online(cpu));
            if cpu.is_some() {
                return Some(cpu);
            }
        }
        let is_last = self.step == numbers;
        self.step = self.step.saturating_add(1);
        is_last.then_some(RESERVE)
    }
}

/// A stream taken out of its home; it returns when this goes.
pub(super) struct Held<'a, S> {
    loan: Option<Loan<S, Place>>,
    streams: &'a Streams<S>,
}

impl<S> Held<'_, S> {
    /// Returns the stream.
    pub(super) fn stream(&mut self) -> Option<&mut S> {
        self.loan.as_mut().map(|loan| &mut loan.stream)
    }
}

impl<S> Drop for Held<'_, S> {
    fn drop(&mut self) {
        if let Some(loan) = self.loan.take() {
            drop(borrow::put(self.streams, loan));
        }
    }
}
