// SPDX-License-Identifier: GPL-2.0

//! lzo and lzo-rle: one library, one decompressor, two compressors.
//!
//! lzo-rle stores runs of zero bytes as such. Both need 16 KiB to compress, cleared by the library
//! for each page, and nothing to decompress. No levels, no dictionary.
//!
//! # Context
//!
//! Only making a context sleeps or allocates. Contexts are exclusive; decompression is not.

use super::{
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

/// Plain lzo.
pub(super) struct Lzo;

/// lzo with runs.
pub(super) struct LzoRle;

/// The parts that the two have in common; they differ in name and compressor.
macro_rules! lzo_codec {
    ($type:ty, $name:literal, $compress:path) => {
        impl Codec for $type {
            const NAME: &'static str = $name;
            type Compress = ffi::Memory;
            type Decompress = NoState;

            fn is_present() -> bool {
                ffi::is_present()
            }

            fn new(params: &CodecParams) -> Result<Self> {
                params.refuse_dict(Self::NAME)?;
                params.refuse_level(Self::NAME)?;
                Ok(Self)
            }

            // 1 to 11 us a page; see the table in `backends/mod.rs`.
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
                $compress(context, page, out)
            }

            fn decompress(
                &self,
                _context: &mut NoState,
                object: Src<'_>,
                page: Dst<'_>,
            ) -> Result<usize, Damaged> {
                ffi::decompress(object, page)
            }
        }
    };
}

lzo_codec!(Lzo, "lzo", ffi::compress);
lzo_codec!(LzoRle, "lzo-rle", ffi::compress_rle);

/// The library's calls.
mod ffi {
    use super::*;
    use crate::kapi::ffi as c;

    /// The library's answer for success.
    const OK: c_int = 0;
    /// The library's answer when the result does not fit.
    const OUTPUT_OVERRUN: c_int = -5;
    /// Fewest bytes of output lzo-rle needs: it writes two of them before it looks.
    const MIN_OUT: usize = 2;

    type CompressFn =
        unsafe extern "C" fn(*const u8, usize, *mut u8, *mut usize, *mut c_void) -> c_int;

    /// Working memory of the compressors.
    ///
    /// # Invariants
    ///
    /// At least `LZO1X_MEM_COMPRESS` bytes.
    pub(in super::super) struct Memory(Buf);

    impl Memory {
        pub(super) fn new(near: Option<Cpu>) -> Result<Self> {
            // INVARIANT: as many bytes as the library asks for.
            Ok(Self(Buf::zeroed(c::LZO1X_MEM_COMPRESS, near)?))
        }
    }

    fn compress_with(
        f: CompressFn,
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        let mut len = out.len();
        if len < MIN_OUT {
            return Err(CompressError::TooBig);
        }
        // SAFETY:
        // - `page` is readable for its length; that it may change meanwhile costs at worst a bad
        //   result, since the library bounds every access by lengths it does not read from there;
        // - `out` is writable for `len` bytes, at least the two written unchecked, and the `_safe`
        //   compressors check all others;
        // - the memory is as large as the library asks, by its invariant.
        let answer = unsafe {
            f(
                page.as_ptr(),
                page.len(),
                out.as_mut_ptr(),
                &mut len,
                memory.0.as_mut_ptr().cast(),
            )
        };
        match answer {
            OK => Ok(len),
            OUTPUT_OVERRUN => Err(CompressError::TooBig),
            _ => Err(CompressError::Failed),
        }
    }

    pub(super) fn compress(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        compress_with(c::lzo1x_1_compress_safe, memory, page, out)
    }

    pub(super) fn compress_rle(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        compress_with(c::lzorle1x_1_compress_safe, memory, page, out)
    }

    pub(super) fn decompress(object: Src<'_>, mut page: Dst<'_>) -> Result<usize, Damaged> {
        let mut len = page.len();
        // SAFETY:
        // - `object` is readable for its length;
        // - `page` is writable for `len` bytes, and the `_safe` decompressor checks both ends.
        let answer = unsafe {
            c::lzo1x_decompress_safe(object.as_ptr(), object.len(), page.as_mut_ptr(), &mut len)
        };
        match answer {
            OK => Ok(len),
            _ => Err(Damaged),
        }
    }

    super::super::optional_library!(
        "rzram_lzo_library",
        CONFIG_LZO_COMPRESS | CONFIG_LZO_DECOMPRESS,
        "lzo1x_1_compress_safe",
        "lzorle1x_1_compress_safe",
        "lzo1x_decompress_safe",
    );
}
