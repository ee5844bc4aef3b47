// SPDX-License-Identifier: GPL-2.0

//! Clocks, and a limit for what is said too often.
//!
//! | what | resolution | cost | for |
//! |---|---|---|---|
//! | [`boot_seconds`] | 1 s, from a coarse clock | a few loads | when a slot was last used |
//! | [`Instant`] | ns | reads the hardware | waits and times of a page |
//! | [`RateLimit`] | 5 s | one load while quiet | log lines |
//!
//! Any context but NMI; nothing sleeps, allocates or fails.

use super::{
    atomic::AtomicU64,
    num::{
        clamped_u64,
        saturating_u32, //
    }, //
};
use kernel::bindings;

/// Nanoseconds in a second.
const NS_PER_SECOND: u64 = 1_000_000_000;

/// Returns the seconds since boot, time asleep included; 136 years fit.
#[inline]
pub(crate) fn boot_seconds() -> u32 {
    // SAFETY: no preconditions; the clock exists since boot.
    let ns = unsafe { bindings::ktime_get_coarse_with_offset(bindings::tk_offsets_TK_OFFS_BOOT) };
    saturating_u32(clamped_u64(ns) / NS_PER_SECOND)
}

/// Returns the monotonic clock in nanoseconds, for moments that are kept in an atomic word.
///
/// # Context
///
/// Any.
#[inline]
pub(crate) fn now_ns() -> u64 {
    Instant::now().ns
}

/// A moment of the monotonic clock, which stands still while the machine sleeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Instant {
    ns: u64,
}

impl Instant {
    /// Returns the present moment.
    #[inline]
    pub(crate) fn now() -> Self {
        // SAFETY: no preconditions; the clock exists since boot.
        let ns = unsafe { bindings::ktime_get() };
        Self {
            ns: clamped_u64(ns),
        }
    }

    /// Returns the nanoseconds since this moment.
    #[inline]
    pub(crate) fn elapsed_ns(self) -> u64 {
        Self::now().ns_since(self)
    }

    /// Returns the nanoseconds from `earlier` to this moment; zero if it was later.
    #[inline]
    pub(crate) fn ns_since(self, earlier: Self) -> u64 {
        self.ns.saturating_sub(earlier.ns)
    }
}

/// Lets one call in an interval through, for log lines about what should not happen.
///
/// # Invariants
///
/// `next` is the moment, in coarse nanoseconds since boot, from which the next call passes.
pub(crate) struct RateLimit {
    next: AtomicU64,
}

impl RateLimit {
    /// Nanoseconds between two lines: the kernel's own interval for repeated messages.
    const INTERVAL_NS: u64 = 5 * NS_PER_SECOND;

    /// Returns a limit that lets the next call through.
    pub(crate) const fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
        }
    }

    /// Returns whether this call may speak.
    pub(crate) fn allows(&self) -> bool {
        // SAFETY: no preconditions; the clock exists since boot.
        let now =
            unsafe { bindings::ktime_get_coarse_with_offset(bindings::tk_offsets_TK_OFFS_BOOT) };
        let now = clamped_u64(now);
        let next = self.next.load_relaxed();
        // ORDERING: relaxed: only one of several callers may win, nothing else depends on it.
        now >= next
            && self
                .next
                .cmpxchg_relaxed(next, now.saturating_add(Self::INTERVAL_NS))
                .is_ok()
    }
}
