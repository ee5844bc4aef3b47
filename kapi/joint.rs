// SPDX-License-Identifier: GPL-2.0

//! A share of a request that lies in several hands.
//!
//! A [`Bio`] token belongs to one thread at a time. Parts of a request that are served by another
//! device end at any time and on any CPU, and only the last of them may end the request's common
//! share. So the share is wrapped in what gives it to nobody but an exclusive owner: the last
//! reference's drop.

use crate::kapi::bio::{
    Bio,
    Status, //
};

/// A token that is out of reach until it is owned alone.
#[must_use = "dropping the share fails the request"]
pub(crate) struct JointBio(Bio);

// SAFETY: no method takes a shared reference, so one does nothing on any thread; the token itself
// may be sent.
unsafe impl Sync for JointBio {}

impl JointBio {
    /// Wraps a token.
    pub(crate) fn new(bio: Bio) -> Self {
        Self(bio)
    }

    /// Ends this share of the request.
    ///
    /// # Context
    ///
    /// As [`Bio::end`].
    pub(crate) fn end(self, status: Status) {
        self.0.end(status);
    }
}
