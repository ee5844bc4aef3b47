// SPDX-License-Identifier: GPL-2.0

//! lz4. The level is an acceleration: larger is faster and worse.
//!
//! Compression needs 16 KiB. A dictionary is loaded once into a state of that size, which is copied
//! over the context for each page; loading it anew would hash the whole dictionary every time.
//! Decompression keeps no state, with a dictionary or without.
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

/// Shortest dictionary the library uses, in bytes: what it hashes at once.
const MIN_DICT_BYTES: usize = 8;
/// Acceleration when none is given.
const DEFAULT_LEVEL: i32 = 1;

/// lz4 at one acceleration, with or without a dictionary.
pub(super) struct Lz4 {
    acceleration: i32,
    dict: Option<Prepared<ffi::Memory>>,
}

impl Codec for Lz4 {
    const NAME: &'static str = "lz4";
    type Compress = ffi::Memory;
    type Decompress = NoState;

    fn is_present() -> bool {
        ffi::is_present()
    }

    fn new(params: &CodecParams) -> Result<Self> {
        let acceleration = params.level_within(Self::NAME, 1, i32::MAX, DEFAULT_LEVEL)?;
        let dict = Prepared::new(Self::NAME, params, MIN_DICT_BYTES, |bytes| {
            let mut state = ffi::Memory::new(None)?;
            let used = state.load(bytes);
            Ok((state, used))
        })?;
        Ok(Self { acceleration, dict })
    }

    // 1 to 10 us a page, with a dictionary up to 20; see the table in `backends/mod.rs`.
    fn compress_pace(&self) -> Pace {
        Pace::Short
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
            None => ffi::compress(context, page, out, self.acceleration),
            Some(dict) => {
                context.copy_from(&dict.state);
                ffi::compress_with_dict(context, page, out, self.acceleration)
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
    /// At least `LZ4_MEM_COMPRESS` bytes, aligned to 8, all zero or written by the library.
    pub(in super::super) struct Memory(Buf);

    impl Memory {
        pub(super) fn new(near: Option<Cpu>) -> Result<Self> {
            // INVARIANT: zeroed, and as many bytes as the library asks for.
            Ok(Self(Buf::zeroed(c::LZ4_MEM_COMPRESS, near)?))
        }

        /// Loads a dictionary and returns how many bytes of it are used.
        pub(super) fn load(&mut self, dict: &[u8]) -> usize {
            let Ok(len) = c_int::try_from(dict.len()) else {
                return 0;
            };
            // SAFETY:
            // - the memory is a stream state by its invariant, zero counting as initialized;
            // - `dict` is readable for `len` bytes; whoever keeps the state keeps those.
            let used = unsafe { c::LZ4_loadDict(self.0.as_mut_ptr().cast(), dict.as_ptr(), len) };
            usize::try_from(used).unwrap_or(0)
        }

        /// Becomes a copy of `other`.
        pub(super) fn copy_from(&mut self, other: &Self) {
            // INVARIANT: the other holds to it.
            self.0.copy_from_slice(&other.0);
        }
    }

    pub(super) fn compress(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
        acceleration: c_int,
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
            c::LZ4_compress_fast(
                page.as_ptr(),
                out.as_mut_ptr(),
                len,
                room,
                acceleration,
                memory.0.as_mut_ptr().cast(),
            )
        })
    }

    /// Compresses with a memory that is a fresh copy of a state with a dictionary loaded.
    pub(super) fn compress_with_dict(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
        acceleration: c_int,
    ) -> Result<usize, CompressError> {
        let (Ok(len), Ok(room)) = (c_int::try_from(page.len()), c_int::try_from(out.len())) else {
            return Err(CompressError::Failed);
        };
        // SAFETY:
        // - as in `compress`;
        // - the state refers to a dictionary that the codec keeps.
        fitted(unsafe {
            c::LZ4_compress_fast_continue(
                memory.0.as_mut_ptr().cast(),
                page.as_ptr(),
                out.as_mut_ptr(),
                len,
                room,
                acceleration,
            )
        })
    }

    super::super::optional_library!(
        "rzram_lz4_library",
        CONFIG_LZ4_COMPRESS | CONFIG_LZ4_DECOMPRESS,
        "LZ4_compress_fast",
        "LZ4_compress_fast_continue",
        "LZ4_loadDict",
        "LZ4_decompress_safe",
        "LZ4_decompress_safe_usingDict",
    );
}
