// SPDX-License-Identifier: GPL-2.0

//! A count of users that an owner waits out before it goes.
//!
//! The owner itself is one user. The last one to leave wakes the owner up, by a completion, whose
//! own lock makes it safe for the owner to free the count as soon as it has woken.
//!
//! | | `get` | `put` | `wait` |
//! |---|---|---|---|
//! | `get` | - | - | needs a user that has not left |
//! | `put` | - | - | - |
//! | `wait` | | - | once |

use crate::kapi::atomic::AtomicU32;
use kernel::{
    prelude::*,
    sync::Completion, //
};

/// A count of users, the owner included.
#[pin_data]
pub(super) struct Users {
    count: AtomicU32,
    #[pin]
    unused: Completion,
}

impl Users {
    /// Returns a count of one, the owner.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: AtomicU32::new(1),
            unused <- Completion::new(),
        })
    }

    /// Adds a user; the caller or the owner is one already.
    pub(super) fn get(&self) {
        self.count.fetch_add_relaxed(1);
    }

    /// Lets a user leave; it must not touch the count afterwards.
    ///
    /// # Context
    ///
    /// Any; takes the completion's lock with interrupts off.
    pub(super) fn put(&self) {
        // ORDERING: full, so that what every user did comes before the end of the wait in
        // `users.rs::Users::wait`, whichever of them is the last.
        if self.count.fetch_sub_full(1) == 1 {
            self.unused.complete_all();
        }
    }

    /// Lets the owner leave and waits for all others.
    ///
    /// # Context
    ///
    /// Sleeps, uninterruptibly. Called once.
    pub(super) fn wait(&self) {
        self.put();
        self.unused.wait_for_completion();
    }
}
