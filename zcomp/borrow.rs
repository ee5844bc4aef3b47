// SPDX-License-Identifier: GPL-2.0

//! Where streams live, and the protocol by which they are lent, returned, and outlive their CPU.
//!
//! Pure: needs `core` and the atomic facade only, so the host crate model-checks it as is.
//!
//! Each CPU has a *home*, and there is one home more, the reserve, that belongs to no CPU. A home is
//! in one of these states, which only changes under the home's own lock:
//!
//! ```text
//!            open            fill             take
//!   Closed --------> Vacant --------> Idle ---------> Lent
//!      ^                |              | ^-------------+ | ^
//!      +-----close------+----close-----+     put   close | | open
//!      ^                                                 v |
//!      +------------------- put: stream is surplus --- Orphaned
//! ```
//!
//! * Whoever takes a stream *owns* it until it is put: no pointer is left behind, so a stream
//!   outlives every operation on it, whatever becomes of its CPU meanwhile.
//! * A CPU that comes up opens its home and nothing else; memory is found later, by someone who may
//!   wait for it. Until then that CPU borrows.
//! * A CPU that goes away closes its home. An idle stream is handed out to be freed; a lent one is
//!   freed by its holder, unless the CPU came back before.
//! * The reserve is open from the first to the last moment, so a borrower always has one home that
//!   will have a stream again.
//!
//! # Who may run with whom
//!
//! | | take | put | fill | open, close | serve |
//! |---|---|---|---|---|---|
//! | take | home's lock | home's lock, hint | home's lock, hint | home's lock | home's lock |
//! | put | | of different homes only | fill is refused | home's lock | home's lock |
//! | serve | | | | home's lock | table's lock |
//!
//! Order of locks: table, home. Both are held for a few instructions.
//!
//! # Sleeping and waking
//!
//! A home shows in a word of its own whether it looks idle, so that a borrower passes over busy
//! homes without touching what their holders write. Whoever finds none idle takes a *seat* and
//! sleeps until a stream is *granted* to that seat: the stream changes hands before the sleeper
//! wakes, so it neither can be overtaken by those who never slept, nor is any other sleeper woken.
//! Grants go to the best priority, and among equals to who sat down first.
//!
//! Grants are made by [`serve`], which both sides call. Each side first writes, then has a full
//! barrier, then reads what the other wrote, so at least one of them sees both:
//!
//! | who waits | who returns |
//! |---|---|
//! | 1. counts itself as waiting, sits down | 1. puts the stream, sets the hint |
//! | 2. full barrier | 2. full barrier |
//! | 3. serves: looks at every hint | 3. serves, if anybody counts as waiting |
//!
//! Seats are few. Without one a thread waits at the *door*, in the order that the kernel's queues
//! know; who sits down serves, so a stream that came back meanwhile is found.

use crate::kapi::atomic::{
    smp_mb,
    AtomicU32, //
};

/// How many threads can sleep in the order of their priority; more wait at the door.
///
/// A thread waits with its page in hand, so many are rare; the table is searched under its lock.
pub(crate) const SEATS: usize = if cfg!(any(loom, rzram_debug)) { 1 } else { 16 };

/// Content of a home.
pub(crate) enum State<S> {
    /// The CPU is not there.
    Closed,
    /// The CPU is there, its stream is not made yet.
    Vacant,
    /// The stream is at home.
    Idle(S),
    /// Somebody holds the stream and will bring it back.
    Lent,
    /// Somebody holds the stream, and the CPU went away.
    Orphaned,
}

// Nothing ever relies on a stream's address: it moves with its owner.
impl<S> Unpin for State<S> {}

/// Whether a home looks idle. Written under the home's lock, read without.
pub(crate) struct Hint(AtomicU32);

impl Hint {
    /// Returns the hint of a home without a stream.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Tells whether the home looked idle at some moment not long ago.
    #[inline]
    pub(crate) fn looks_idle(&self) -> bool {
        // ORDERING: none: the home's lock orders the stream; a waiter's look follows a full barrier,
        // partner `borrow::put`.
        self.0.load_relaxed() != 0
    }

    #[inline]
    fn set(&self, idle: bool) {
        // ORDERING: none by itself: a full barrier follows where it is set, partner
        // `borrow::wait_for_any`.
        self.0.store_relaxed(u32::from(idle));
    }
}

/// A home: a state behind a lock that is held for a few instructions, and its hint.
pub(crate) trait Home<S> {
    /// Returns the hint.
    fn hint(&self) -> &Hint;

    /// Runs `f` with the lock held.
    fn locked<R>(&self, f: impl FnOnce(&mut State<S>) -> R) -> R;
}

/// Takes the stream of `home` if it is there.
pub(crate) fn take<S>(home: &impl Home<S>) -> Option<S> {
    if !home.hint().looks_idle() {
        return None;
    }
    home.locked(|state| match core::mem::replace(state, State::Lent) {
        State::Idle(stream) => {
            home.hint().set(false);
            Some(stream)
        }
        other => {
            *state = other;
            None
        }
    })
}

/// A stream with the place it has to be brought back to.
pub(crate) struct Loan<S, P> {
    /// The stream, owned.
    pub(crate) stream: S,
    /// Where its home is.
    pub(crate) place: P,
}

/// A seat of the waiting room.
enum Seat<S, P> {
    /// Nobody's.
    Free,
    /// Somebody sleeps here. A lower number is a better priority.
    Taken { priority: u32, ticket: u64 },
    /// The sleeper may take this and go.
    Granted(Loan<S, P>),
}

/// The waiting room's seats.
pub(crate) struct Table<S, P> {
    seats: [Seat<S, P>; SEATS],
    next_ticket: u64,
}

// As for `State`.
impl<S, P> Unpin for Table<S, P> {}

impl<S, P> Table<S, P> {
    /// Returns a table with free seats only.
    pub(crate) fn new() -> Self {
        Self {
            seats: [const { Seat::Free }; SEATS],
            next_ticket: 0,
        }
    }

    /// Takes a seat, if one is free.
    pub(crate) fn sit(&mut self, priority: u32) -> Option<usize> {
        let is_free = |seat: &Seat<S, P>| matches!(seat, Seat::Free);
        let number = self.seats.iter().position(is_free)?;
        let ticket = self.next_ticket;
        // OVERFLOW: not in the lifetime of a machine.
        self.next_ticket = ticket.wrapping_add(1);
        *self.seats.get_mut(number)? = Seat::Taken { priority, ticket };
        Some(number)
    }

    /// Returns the seat whose sleeper is next.
    fn best(&self) -> Option<usize> {
        let taken = self
            .seats
            .iter()
            .enumerate()
            .filter_map(|(i, seat)| match seat {
                Seat::Taken { priority, ticket } => Some(((*priority, *ticket), i)),
                Seat::Free | Seat::Granted(_) => None,
            });
        taken.min().map(|(_, i)| i)
    }

    /// Takes what was granted to a seat and leaves it.
    fn collect(&mut self, number: usize) -> Option<Loan<S, P>> {
        let seat = self.seats.get_mut(number)?;
        match core::mem::replace(seat, Seat::Free) {
            Seat::Granted(loan) => Some(loan),
            other => {
                *seat = other;
                None
            }
        }
    }
}

/// Homes with a waiting room.
pub(crate) trait Lender<S> {
    /// Names a home.
    type Place: Copy;
    /// A home.
    type Home: Home<S>;

    /// Returns the home at `place`.
    fn home(&self, place: Self::Place) -> &Self::Home;

    /// Returns the places in the order in which the caller should ask them.
    fn places(&self) -> impl Iterator<Item = Self::Place>;

    /// Returns the number of threads that wait, at the door included.
    fn waiting(&self) -> &AtomicU32;

    /// Runs `f` with the table's lock held.
    fn table<R>(&self, f: impl FnOnce(&mut Table<S, Self::Place>) -> R) -> R;

    /// Sleeps until `ready` returns something, asking it first and after each wake-up of this seat.
    fn sleep<R>(&self, seat: usize, ready: impl FnMut() -> Option<R>) -> R;

    /// Wakes who sleeps on `seat`.
    fn wake(&self, seat: usize);

    /// As `sleep`, at the door.
    fn wait_at_door<R>(&self, ready: impl FnMut() -> Option<R>) -> R;

    /// Wakes one who waits at the door.
    fn call_in(&self);
}

/// Takes the first idle stream, in the order of the places.
pub(crate) fn take_any<S, L: Lender<S>>(lender: &L) -> Option<Loan<S, L::Place>> {
    lender.places().find_map(|place| {
        let stream = take(lender.home(place))?;
        Some(Loan { stream, place })
    })
}

/// Sleeps until a stream is granted. A lower `priority` is a better one.
///
/// # Context
///
/// May sleep.
pub(crate) fn wait_for_any<S, L: Lender<S>>(lender: &L, priority: u32) -> Loan<S, L::Place> {
    // ORDERING: none by itself; the barrier in front of the look at the hints orders it, partner
    // `put`.
    lender.waiting().fetch_add_relaxed(1);
    let seat = lender.wait_at_door(|| lender.table(|table| table.sit(priority)));
    smp_mb();
    serve(lender);
    let loan = lender.sleep(seat, || lender.table(|table| table.collect(seat)));
    // ORDERING: none: who still counts us serves once for nothing.
    lender.waiting().fetch_sub_relaxed(1);
    lender.call_in();
    loan
}

/// Grants idle streams to sleepers as long as there are both.
fn serve<S, L: Lender<S>>(lender: &L) {
    loop {
        let granted = lender.table(|table| {
            let number = table.best()?;
            let loan = take_any(lender)?;
            *table.seats.get_mut(number)? = Seat::Granted(loan);
            Some(number)
        });
        match granted {
            Some(number) => lender.wake(number),
            None => return,
        }
    }
}

/// Serves if somebody waits; called after a home got a stream.
fn serve_waiting<S, L: Lender<S>>(lender: &L) {
    smp_mb();
    // ORDERING: relaxed: ordered by the barrier, partner `wait_for_any`.
    if lender.waiting().load_relaxed() != 0 {
        serve(lender);
    }
}

/// Brings a stream back to where it was taken, for the best of those who wait.
///
/// Returns the stream if it is surplus, for the caller to free: its CPU went away.
#[must_use = "a surplus stream is freed by dropping it, where that may be done"]
pub(crate) fn put<S, L: Lender<S>>(lender: &L, loan: Loan<S, L::Place>) -> Option<S> {
    let home = lender.home(loan.place);
    let surplus = home.locked(|state| match state {
        State::Lent => {
            *state = State::Idle(loan.stream);
            home.hint().set(true);
            None
        }
        State::Orphaned => {
            *state = State::Closed;
            Some(loan.stream)
        }
        // Only one stream belongs to a home, and it is in our hands.
        State::Closed | State::Vacant | State::Idle(_) => Some(loan.stream),
    });
    if surplus.is_none() {
        serve_waiting(lender);
    }
    surplus
}

/// Opens a home, for a CPU that comes up, and returns whether a stream has to be made for it.
pub(crate) fn open<S>(home: &impl Home<S>) -> bool {
    home.locked(|state| match state {
        State::Closed => {
            *state = State::Vacant;
            true
        }
        State::Orphaned => {
            *state = State::Lent;
            false
        }
        State::Vacant => true,
        State::Idle(_) | State::Lent => false,
    })
}

/// Tells whether a stream has to be made for `home`.
pub(crate) fn is_vacant<S>(home: &impl Home<S>) -> bool {
    home.locked(|state| matches!(state, State::Vacant))
}

/// Gives a new stream to a home that lacks one, for the best of those who wait for any.
///
/// Returns the stream if the home has no use for it.
#[must_use = "a surplus stream is freed by dropping it, where that may be done"]
pub(crate) fn fill<S, L: Lender<S>>(lender: &L, place: L::Place, stream: S) -> Option<S> {
    let home = lender.home(place);
    let surplus = home.locked(|state| match state {
        State::Vacant => {
            *state = State::Idle(stream);
            home.hint().set(true);
            None
        }
        State::Closed | State::Idle(_) | State::Lent | State::Orphaned => Some(stream),
    });
    if surplus.is_none() {
        serve_waiting(lender);
    }
    surplus
}

/// Closes a home, for a CPU that went away, and returns its stream if it was at home.
#[must_use = "the stream is freed by dropping it, where that may be done"]
pub(crate) fn close<S>(home: &impl Home<S>) -> Option<S> {
    home.locked(|state| {
        let after = match state {
            State::Lent | State::Orphaned => State::Orphaned,
            State::Closed | State::Vacant | State::Idle(_) => State::Closed,
        };
        home.hint().set(false);
        match core::mem::replace(state, after) {
            State::Idle(stream) => Some(stream),
            _ => None,
        }
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn loan(stream: u32) -> Loan<u32, u32> {
        Loan { stream, place: 0 }
    }

    #[test]
    fn better_priority_is_next_and_equals_go_in_turn() {
        let mut table = Table::<u32, u32>::new();
        let seats: Vec<_> = [120, 139, 99, 120, 99]
            .iter()
            .map(|&p| table.sit(p).unwrap())
            .collect();
        for expected in [2, 4, 0, 3, 1] {
            let best = table.best().unwrap();
            assert_eq!(best, seats[expected]);
            table.seats[best] = Seat::Granted(loan(7));
            assert_eq!(table.collect(best).unwrap().stream, 7);
        }
        assert!(table.best().is_none());
    }

    #[test]
    fn full_table_refuses_and_a_collected_seat_is_free() {
        let mut table = Table::<u32, u32>::new();
        let seats: Vec<_> = (0..SEATS).map(|_| table.sit(120).unwrap()).collect();
        assert!(table.sit(0).is_none());
        assert!(table.collect(seats[3]).is_none());
        table.seats[3] = Seat::Granted(loan(1));
        assert!(table.sit(0).is_none());
        assert!(table.collect(seats[3]).is_some());
        assert_eq!(table.sit(0), Some(seats[3]));
    }
}
