// SPDX-License-Identifier: GPL-2.0

//! The streams of one direction: one for each CPU and a reserve, held in the short or the long way.
//!
//! *Short*: the home's spin lock is held while the stream is used. Its holder is not preempted, so
//! whoever meets it waits for one page at most. A CPU without a stream takes another home's lock,
//! by trying, and in the end waits for the reserve's.
//!
//! *Long*: the stream is taken out of its home and used by its owner, who stays preemptible; see
//! [`super::borrow`] for the protocol. Whoever finds every stream lent sleeps; a stream that comes
//! back wakes one, those of high priority first.
//!
//! # Locks
//!
//! | lock | protects | does not protect | under it |
//! |---|---|---|---|
//! | home, short | state and stream | | one page is worked on; no sleep, no allocation |
//! | home, long | state | a stream that is lent | a few instructions |
//!
//! A home's lock is taken with nothing of this room held, except that a decompression home may be
//! taken with a compression stream of the long kind in hand.

use super::{
    borrow::{
        self,
        Hint,
        Home,
        State,
        Waiters, //
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
        clock::Instant,
        percpu::{
            self,
            Cpu,
            PerCpu, //
        },
        waitq::WaitQueue, //
    },
};
use kernel::{
    cpu::nr_cpu_ids,
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
pub(super) struct Place<S> {
    hint: Line<Hint>,
    #[pin]
    state: SpinLock<State<S>>,
}

/// A value on a cache line of its own.
#[repr(C, align(64))]
struct Line<T>(T);

impl<S> Place<S> {
    fn new(class: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            hint: Line(Hint::new()),
            state <- SpinLock::new(State::Closed, c"rzram_stream", class),
        })
    }
}

impl<S> Home<S> for Place<S> {
    fn hint(&self) -> &Hint {
        &self.hint.0
    }

    fn locked<R>(&self, f: impl FnOnce(&mut State<S>) -> R) -> R {
        f(&mut self.state.lock())
    }
}

/// Those who sleep.
struct Sleepers(Pin<KBox<WaitQueue>>);

impl Sleepers {
    fn new() -> Result<Self> {
        let queue = WaitQueue::new(c"rzram_stream_wait", static_lock_class!());
        Ok(Self(KBox::pin_init(queue, GFP_KERNEL)?))
    }
}

impl Waiters for Sleepers {
    fn wait<R>(&self, get: &mut dyn FnMut() -> Option<R>) -> R {
        loop {
            let mut got = None;
            self.0.wait(|| {
                got = get();
                got.is_some()
            });
            if let Some(got) = got {
                return got;
            }
        }
    }

    fn wake_one(&self) {
        self.0.wake_one();
    }
}

/// The streams of one direction.
pub(super) struct Streams<S> {
    homes: PerCpu<Place<S>>,
    reserve: Pin<KBox<Place<S>>>,
    sleepers: Sleepers,
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
            homes: PerCpu::new(|_| Place::new(class))?,
            reserve: KBox::pin_init(Place::new(class), GFP_KERNEL)?,
            sleepers: Sleepers::new()?,
            pace,
            direction,
            stats,
        };
        borrow::open(&*streams.reserve);
        // A home just opened takes what it is given.
        drop(borrow::fill(&*streams.reserve, reserve, &streams.sleepers));
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
        let idle = self.order().filter(|home| home.hint().looks_idle());
        for home in idle {
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
    fn lock_home<'a>(&self, home: &'a Place<S>) -> Guard<'a, State<S>, SpinLockBackend> {
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
        let own = self.homes.this();
        let (home, stream) = match borrow::take(own) {
            Some(stream) => (own, stream),
            None => {
                let since = Instant::now();
                let (home, stream, waited) = borrow::take_or_wait(|| self.order(), &self.sleepers);
                if waited {
                    self.stats.waited(self.direction, since.elapsed_ns());
                }
                (home, stream)
            }
        };
        let found = if core::ptr::eq(home, own) {
            Found::Own
        } else {
            Found::Borrowed
        };
        self.stats.held(self.direction, found);
        Held {
            stream: Some(stream),
            home,
            streams: self,
        }
    }

    /// Returns the homes in the order in which this CPU asks them.
    fn order(&self) -> Order<'_, S> {
        Order {
            streams: self,
            own: Cpu::current().as_u32(),
            step: 0,
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
        drop(borrow::fill(self.homes.of(cpu), stream, &self.sleepers));
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

/// The homes of `own`, of the online CPUs that follow, of those in front, and the reserve.
struct Order<'a, S> {
    streams: &'a Streams<S>,
    own: u32,
    step: u32,
}

impl<'a, S> Iterator for Order<'a, S> {
    type Item = &'a Place<S>;

    fn next(&mut self) -> Option<&'a Place<S>> {
        let numbers = nr_cpu_ids();
        while self.step < numbers {
            // OVERFLOW: both are below the number of CPU ids, which is far below half of the range.
            let number = self.own.wrapping_add(self.step) % numbers;
            self.step = self.step.wrapping_add(1);
            let cpu = Cpu::from_u32(number).filter(|&cpu| percpu::is_online(cpu));
            if let Some(cpu) = cpu {
                return Some(self.streams.homes.of(cpu));
            }
        }
        let last = self.step == numbers;
        self.step = self.step.saturating_add(1);
        last.then_some(&*self.streams.reserve)
    }
}

/// A stream taken out of its home; it returns when this goes.
pub(super) struct Held<'a, S> {
    stream: Option<S>,
    home: &'a Place<S>,
    streams: &'a Streams<S>,
}

impl<S> Held<'_, S> {
    /// Returns the stream.
    pub(super) fn stream(&mut self) -> Option<&mut S> {
        self.stream.as_mut()
    }
}

impl<S> Drop for Held<'_, S> {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            drop(borrow::put(self.home, stream, &self.streams.sleepers));
        }
    }
}
