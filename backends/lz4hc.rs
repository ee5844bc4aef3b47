// SPDX-License-Identifier: GPL-2.0

//! lz4hc: the lz4 format, found by a longer search. Levels 1 to 16, 9 if none is given.
//!
//! Compression needs 256 KiB, all of it written for each page. A dictionary is loaded once into a
//! state of that size, which is copied over the context for each page. Decompression is that of lz4.
//!
//! Some kernels have the compressor as a module of its own. Our references to it are weak then: the
//! driver loads without it, and does not offer this codec.
//!
//! # Context
//!
//! Only making a codec or a context sleeps or allocates. Contexts are exclusive; decompression and
//! the prepared dictionary are shared.

use super::{
    lz4_format::{
        self,
        fitted,
        Prepared, //
    },
    Codec,
    CodecParams,
    CompressError,
    Damaged,
    NoState,
    Pace, //
};
use crate::kapi::{
    bytes::{
        Dst,
        Src, //
    },
    page::Buf,
    percpu::Cpu, //
};
use kernel::prelude::*;

/// Weakest and strongest level, and the one taken if none is given.
const MIN_LEVEL: i32 = 1;
const MAX_LEVEL: i32 = 16;
const DEFAULT_LEVEL: i32 = 9;
/// Strongest level at which no ordinary page takes longer than the border of [`Pace`].
///
/// 25 us of each page go into clearing the tables. The search doubles with each level where many
/// matches compete: from level 7 on, ordinary pages pass the border.
const LAST_SHORT_LEVEL: i32 = 5;

/// lz4hc at one level, with or without a dictionary.
pub(super) struct Lz4Hc {
    level: i32,
    dict: Option<Prepared<ffi::Memory>>,
}

impl Codec for Lz4Hc {
    const NAME: &'static str = "lz4hc";
    type Compress = ffi::Memory;
    type Decompress = NoState;

    fn is_present() -> bool {
        ffi::is_present()
    }

    fn new(params: &CodecParams) -> Result<Self> {
        let level = params.level_within(Self::NAME, MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL)?;
        let dict = Prepared::new(Self::NAME, params, 1, |bytes| {
            let mut state = ffi::Memory::new(None)?;
            let used = state.load(bytes, level);
            Ok((state, used))
        })?;
        Ok(Self { level, dict })
    }

    fn compress_pace(&self) -> Pace {
        if self.level <= LAST_SHORT_LEVEL {
            Pace::Short
        } else {
            Pace::Long
        }
    }

    fn compress_context(&self, near: Option<Cpu>) -> Result<ffi::Memory> {
        ffi::Memory::new(near)
    }

    fn decompress_context(&self, _near: Option<Cpu>) -> Result<NoState> {
        Ok(NoState)
    }

    fn compress(
        &self,
        context: &mut ffi::Memory,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        match &self.dict {
            None => ffi::compress(context, page, out, self.level),
            Some(dict) => {
                context.copy_from(&dict.state);
                ffi::compress_with_dict(context, page, out)
            }
        }
    }

    fn decompress(
        &self,
        _context: &mut NoState,
        object: Src<'_>,
        page: Dst<'_>,
    ) -> Result<usize, Damaged> {
        lz4_format::decompress(object, page, self.dict.as_ref())
    }
}

/// The library's calls.
mod ffi {
    use super::*;
    use crate::kapi::ffi as c;

    /// Working memory of the compressor, and its state after loading a dictionary.
    ///
    /// # Invariants
    ///
    /// At least `LZ4HC_MEM_COMPRESS` bytes, aligned to 8.
    pub(in super::super) struct Memory(Buf);

    impl Memory {
        pub(super) fn new(near: Option<Cpu>) -> Result<Self> {
            // INVARIANT: as many bytes as the library asks for.
            Ok(Self(Buf::zeroed(c::LZ4HC_MEM_COMPRESS, near)?))
        }

        /// Loads a dictionary and returns how many bytes of it are used.
        pub(super) fn load(&mut self, dict: &[u8], level: c_int) -> usize {
            let Ok(len) = c_int::try_from(dict.len()) else {
                return 0;
            };
            // SAFETY:
            // - the memory is large and aligned enough, by its invariant; both calls write it;
            // - `dict` is readable for `len` bytes; whoever keeps the state keeps those.
            let used = unsafe {
                let state = self.0.as_mut_ptr().cast();
                c::LZ4_resetStreamHC(state, level);
                c::LZ4_loadDictHC(state, dict.as_ptr(), len)
            };
            usize::try_from(used).unwrap_or(0)
        }

        /// Becomes a copy of `other`.
        pub(super) fn copy_from(&mut self, other: &Self) {
            self.0.copy_from_slice(&other.0);
        }
    }

    pub(super) fn compress(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
        level: c_int,
    ) -> Result<usize, CompressError> {
        let (Ok(len), Ok(room)) = (c_int::try_from(page.len()), c_int::try_from(out.len())) else {
            return Err(CompressError::Failed);
        };
        // SAFETY:
        // - `page` is readable for `len` bytes; that it may change meanwhile costs at worst a bad
        //   result, as matches are bounded by positions, not by what is read there;
        // - `out` is writable for `room` bytes and the library checks them;
        // - the memory is as large and aligned as the library asks, by its invariant.
        fitted(unsafe {
            c::LZ4_compress_HC(
                page.as_ptr(),
                out.as_mut_ptr(),
                len,
                room,
                level,
                memory.0.as_mut_ptr().cast(),
            )
        })
    }

    /// Compresses with a memory that is a fresh copy of a state with a dictionary loaded.
    pub(super) fn compress_with_dict(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        let (Ok(len), Ok(room)) = (c_int::try_from(page.len()), c_int::try_from(out.len())) else {
            return Err(CompressError::Failed);
        };
        // SAFETY:
        // - as in `compress`;
        // - the state refers to a dictionary that the codec keeps.
        fitted(unsafe {
            c::LZ4_compress_HC_continue(
                memory.0.as_mut_ptr().cast(),
                page.as_ptr(),
                out.as_mut_ptr(),
                len,
                room,
            )
        })
    }

    super::super::optional_library!(
        "rzram_lz4hc_library",
        CONFIG_LZ4HC_COMPRESS | CONFIG_LZ4_DECOMPRESS,
        "LZ4_compress_HC",
        "LZ4_compress_HC_continue",
        "LZ4_resetStreamHC",
        "LZ4_loadDictHC",
        "LZ4_decompress_safe",
        "LZ4_decompress_safe_usingDict",
    );
}
