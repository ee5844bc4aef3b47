// SPDX-License-Identifier: GPL-2.0

//! What a user may tell a codec, and the checks that several codecs share.
//!
//! Values are kept as they were written; each codec checks them when it is made, which is when
//! `disksize` is written. Nothing here locks or sleeps, but for [`Dict::new`]. A refusal is one line
//! in the log that names the value and what would be legal.

use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The value users know as "not set".
const UNSET: i32 = i32::MIN;

/// A dictionary: bytes that stay where they are as long as anything refers to them.
pub(crate) struct Dict(KVVec<u8>);

impl Dict {
    /// Takes over the bytes of a dictionary.
    ///
    /// # Context
    ///
    /// May sleep; allocates a little with `GFP_KERNEL`.
    pub(crate) fn new(bytes: KVVec<u8>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(bytes), GFP_KERNEL)?)
    }

    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The parameters of one codec of one device, as the user wrote them.
#[derive(Default, Clone)]
pub(crate) struct CodecParams {
    /// Level; its meaning is the codec's.
    pub(crate) level: Option<i32>,
    /// Dictionary.
    pub(crate) dict: Option<Arc<Dict>>,
    /// Window bits of deflate; other codecs ignore it.
    pub(crate) winbits: Option<i32>,
}

impl CodecParams {
    /// Returns the level, if one was given.
    fn level(&self) -> Option<i32> {
        self.level.filter(|&l| l != UNSET)
    }

    /// Returns the window bits, if given.
    pub(super) fn winbits(&self) -> Option<i32> {
        self.winbits.filter(|&w| w != UNSET)
    }

    /// Returns the dictionary, if there is one with any byte in it.
    pub(super) fn dict(&self) -> Option<&Arc<Dict>> {
        self.dict.as_ref().filter(|d| !d.bytes().is_empty())
    }

    /// Refuses a dictionary.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if one was given.
    pub(super) fn refuse_dict(&self, codec: &str) -> Result {
        if self.dict().is_some() {
            pr_err!("{}: takes no dictionary\n", codec);
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }

    /// Refuses a level.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if one was given.
    pub(super) fn refuse_level(&self, codec: &str) -> Result {
        if let Some(level) = self.level() {
            pr_err!("{}: has no levels; level={} refused\n", codec, level);
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }

    /// Returns the level, or `default` if none was given.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it lies outside `min..=max`.
    pub(super) fn level_within(
        &self,
        codec: &str,
        min: i32,
        max: i32,
        default: i32,
    ) -> Result<i32> {
        let level = self.level().unwrap_or(default);
        if level < min || level > max {
            pr_err!(
                "{}: level={} refused; legal are {} to {}\n",
                codec,
                level,
                min,
                max
            );
            return Err(EINVAL);
        }
        Ok(level)
    }
}
