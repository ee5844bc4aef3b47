// SPDX-License-Identifier: GPL-2.0

//! 842, by the kernel's software library. No levels, no dictionary; few configurations have it.
//!
//! Objects end with a checksum, so damaged ones are found out. Decompression keeps no state.
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

/// 842.
pub(super) struct X842;

impl Codec for X842 {
    const NAME: &'static str = "842";
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

    // 50 to 115 us a page, always near the border.
    fn compress_pace(&self) -> Pace {
        Pace::Long
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
        ffi::compress(context, page, out)
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

/// The library's calls.
mod ffi {
    use super::*;
    use crate::kapi::ffi as c;

    /// Working memory of the compressor.
    ///
    /// # Invariants
    ///
    /// At least `SW842_MEM_COMPRESS` bytes, aligned to 8.
    pub(in super::super) struct Memory(Buf);

    impl Memory {
        pub(super) fn new(near: Option<Cpu>) -> Result<Self> {
            // INVARIANT: as many bytes as the library asks for.
            Ok(Self(Buf::zeroed(c::SW842_MEM_COMPRESS, near)?))
        }
    }

    pub(super) fn compress(
        memory: &mut Memory,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        let (Ok(len), Ok(mut room)) = (u32::try_from(page.len()), u32::try_from(out.len())) else {
            return Err(CompressError::Failed);
        };
        // SAFETY:
        // - `page` is readable for `len` bytes; that it may change meanwhile costs at worst a bad
        //   result, which the checksum shows when it is read;
        // - `out` is writable for `room` bytes and the library checks them;
        // - the memory is as large and aligned as the library asks, by its invariant.
        let answer = unsafe {
            c::sw842_compress(
                page.as_ptr(),
                len,
                out.as_mut_ptr(),
                &mut room,
                memory.0.as_mut_ptr().cast(),
            )
        };
        match answer {
            0 => usize::try_from(room).map_err(|_| CompressError::Failed),
            e if e == ENOSPC.to_errno() => Err(CompressError::TooBig),
            _ => Err(CompressError::Failed),
        }
    }

    pub(super) fn decompress(object: Src<'_>, mut page: Dst<'_>) -> Result<usize, Damaged> {
        let (Ok(len), Ok(mut room)) = (u32::try_from(object.len()), u32::try_from(page.len()))
        else {
            return Err(Damaged);
        };
        // SAFETY:
        // - `object` is readable for `len` bytes;
        // - `page` is writable for `room` bytes; the library checks both ends.
        let answer =
            unsafe { c::sw842_decompress(object.as_ptr(), len, page.as_mut_ptr(), &mut room) };
        match answer {
            0 => usize::try_from(room).map_err(|_| Damaged),
            _ => Err(Damaged),
        }
    }

    super::super::optional_library!(
        "rzram_842_library",
        CONFIG_842_COMPRESS | CONFIG_842_DECOMPRESS,
        "sw842_compress",
        "sw842_decompress",
    );
}
