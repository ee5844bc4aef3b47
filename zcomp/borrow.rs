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
//! | | take | put | fill | open, close |
//! |---|---|---|---|---|
//! | take | home's lock | home's lock, hint | home's lock, hint | home's lock |
//! | put | | only of different homes | fill is refused | home's lock |
//!
//! # Sleeping and waking
//!
//! A home shows in a word of its own whether it looks idle, so that a borrower passes over busy
//! homes without touching what their holders write. The word may be stale, and that is made good by
//! the order below; it is the pattern of a store and a load on each side with a full barrier between.
//!
//! | who waits | who returns |
//! |---|---|
//! | 1. queues itself (full barrier) | 1. puts the stream, sets the hint |
//! | 2. looks at every hint | 2. (full barrier) looks for somebody queued, wakes one |
//! | 3. sleeps if it got none | |
//!
//! So at least one sees the other. Each return wakes one waiter, which leaves the queue by that; if
//! another thread was quicker, the woken one queues again, and the quicker one wakes when it returns.

use crate::kapi::atomic::AtomicU32;

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
        // ORDERING: none: the home's lock orders the stream; a waiter's look follows the full
        // barrier of its queueing, partner `borrow::put`.
        self.0.load_relaxed() != 0
    }

    #[inline]
    fn set(&self, idle: bool) {
        // ORDERING: none by itself: whoever wakes puts a full barrier behind it, partner
        // `borrow::take_or_wait`.
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

/// Those who sleep until a stream comes back.
pub(crate) trait Waiters {
    /// Calls `get` after queueing, and again after each wake-up, until it returns something.
    ///
    /// # Guarantees
    ///
    /// Queueing is a full barrier in front of each call of `get`.
    fn wait<R>(&self, get: &mut dyn FnMut() -> Option<R>) -> R;

    /// Takes one sleeper off the queue and wakes it, if there is any.
    ///
    /// # Guarantees
    ///
    /// A full barrier precedes the look at the queue.
    fn wake_one(&self);
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

/// Takes the first stream there is, in the order of `homes`, waiting until there is one.
///
/// Returns the home it came from, and whether the caller had to wait.
///
/// # Context
///
/// May sleep.
pub(crate) fn take_or_wait<'a, S, H, I>(
    homes: impl Fn() -> I,
    waiters: &impl Waiters,
) -> (&'a H, S, bool)
where
    H: Home<S> + 'a,
    I: Iterator<Item = &'a H>,
{
    let first = || homes().find_map(|home| Some((home, take(home)?)));
    if let Some((home, stream)) = first() {
        return (home, stream, false);
    }
    let (home, stream) = waiters.wait(&mut || first());
    (home, stream, true)
}

/// Brings a stream back to where it was taken, and wakes one who waits.
///
/// Returns the stream if it is surplus, for the caller to free: its CPU went away.
#[must_use = "a surplus stream is freed by dropping it, where that may be done"]
pub(crate) fn put<S>(home: &impl Home<S>, stream: S, waiters: &impl Waiters) -> Option<S> {
    let surplus = home.locked(|state| match state {
        State::Lent => {
            *state = State::Idle(stream);
            home.hint().set(true);
            None
        }
        State::Orphaned => {
            *state = State::Closed;
            Some(stream)
        }
        // Only one stream belongs to a home, and it is in our hands.
        State::Closed | State::Vacant | State::Idle(_) => Some(stream),
    });
    // Waking is right even if the home closed: whoever sleeps then looks at the others again.
    waiters.wake_one();
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

/// Gives a new stream to a home that waits for one, and wakes one who waits for any.
///
/// Returns the stream if the home has no use for it.
#[must_use = "a surplus stream is freed by dropping it, where that may be done"]
pub(crate) fn fill<S>(home: &impl Home<S>, stream: S, waiters: &impl Waiters) -> Option<S> {
    let surplus = home.locked(|state| match state {
        State::Vacant => {
            *state = State::Idle(stream);
            home.hint().set(true);
            None
        }
        State::Closed | State::Idle(_) | State::Lent | State::Orphaned => Some(stream),
    });
    if surplus.is_none() {
        waiters.wake_one();
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
