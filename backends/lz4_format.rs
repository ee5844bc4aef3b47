// SPDX-License-Identifier: GPL-2.0

//! What lz4 and lz4hc share: the format, so the decompressor, and how a dictionary is kept.
//!
//! # Context
//!
//! Only [`Prepared::new`] sleeps or allocates. All of it is shared by any number of threads.

use super::{
    CodecParams,
    CompressError,
    Damaged,
    Dict, //
};
use crate::kapi::{
    bytes::{
        Dst,
        Src, //
    },
    ffi as c, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Longest dictionary the format can refer to, in bytes. The libraries would silently use the end of
/// a longer one; C zram with lz4hc then fails every write.
const MAX_DICT_BYTES: usize = 64 * 1024;

/// A dictionary and the compressor's state after loading it.
///
/// # Invariants
///
/// `state` refers to `bytes`.
pub(super) struct Prepared<M> {
    pub(super) state: M,
    bytes: Arc<Dict>,
}

impl<M> Prepared<M> {
    /// Prepares the dictionary that `params` name, if any, of at least `min` bytes.
    ///
    /// `load` makes a state of the bytes and returns it with how many of them it uses.
    ///
    /// # Context
    ///
    /// May sleep; allocates as `load` does.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a length that is not legal or not used in full; those of `load`.
    pub(super) fn new(
        codec: &str,
        params: &CodecParams,
        min: usize,
        load: impl FnOnce(&[u8]) -> Result<(M, usize)>,
    ) -> Result<Option<Self>> {
        let Some(dict) = params.dict() else {
            return Ok(None);
        };
        let len = dict.bytes().len();
        if !(min..=MAX_DICT_BYTES).contains(&len) {
            pr_err!(
                "{}: dictionary of {} bytes refused; legal are {} to {}\n",
                codec,
                len,
                min,
                MAX_DICT_BYTES
            );
            return Err(EINVAL);
        }
        let (state, used) = load(dict.bytes())?;
        if used != len {
            return Err(EINVAL);
        }
        // INVARIANT: just loaded from these bytes.
        Ok(Some(Self {
            state,
            bytes: dict.clone(),
        }))
    }
}

/// Turns a length returned by a library into ours: zero is its word for "does not fit".
pub(super) fn fitted(len: c_int) -> Result<usize, CompressError> {
    match usize::try_from(len) {
        Ok(0) => Err(CompressError::TooBig),
        Ok(len) => Ok(len),
        Err(_) => Err(CompressError::Failed),
    }
}

/// Decompresses an object; `dict` is what it was compressed with.
pub(super) fn decompress<M>(
    object: Src<'_>,
    mut page: Dst<'_>,
    dict: Option<&Prepared<M>>,
) -> Result<usize, Damaged> {
    let (Ok(len), Ok(room)) = (c_int::try_from(object.len()), c_int::try_from(page.len())) else {
        return Err(Damaged);
    };
    let out = page.as_mut_ptr();
    let made = match dict.map(|dict| dict.bytes.bytes()) {
        // SAFETY:
        // - `object` is readable for `len` bytes;
        // - `page` is writable for `room` bytes, and the `_safe` decompressor checks both ends.
        None => unsafe { c::LZ4_decompress_safe(object.as_ptr(), out, len, room) },
        Some(dict) => {
            let used = c_int::try_from(dict.len()).map_err(|_| Damaged)?;
            // SAFETY: as above, and `dict` is readable for `used` bytes; matches that reach in
            // front of it are refused.
            unsafe {
                c::LZ4_decompress_safe_usingDict(
                    object.as_ptr(),
                    out,
                    len,
                    room,
                    dict.as_ptr(),
                    used,
                )
            }
        }
    };
    usize::try_from(made).map_err(|_| Damaged)
}
