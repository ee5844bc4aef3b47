// SPDX-License-Identifier: GPL-2.0

//! deflate, by the kernel's zlib. Levels -1 to 9, where -1 stands for 6 and 0 for "stored".
//!
//! `winbits` is the window's base-2 logarithm: negative for a bare stream, positive for one with
//! zlib's header and checksum, which damaged data cannot pass.
//!
//! # Context
//!
//! Only making a context sleeps or allocates. Contexts are exclusive in both directions.

use super::{
    Codec,
    CodecParams,
    CompressError,
    Damaged,
    Pace,
    State, //
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
const MIN_LEVEL: i32 = -1;
const MAX_LEVEL: i32 = 9;
const DEFAULT_LEVEL: i32 = -1;
/// Window bits if none are given, as the kernel's crypto interface has them.
const DEFAULT_WINBITS: i32 = -11;
/// Smallest and largest window, as a base-2 logarithm.
const MIN_WINDOW: u32 = 9;
const MAX_WINDOW: u32 = 15;

/// Strongest level at which no ordinary page takes longer than the border of [`Pace`].
const LAST_SHORT_LEVEL: i32 = 2;

/// deflate at one level and window.
pub(super) struct Deflate {
    level: i32,
    winbits: i32,
}

impl Codec for Deflate {
    const NAME: &'static str = "deflate";
    type Compress = ffi::Compress;
    type Decompress = ffi::Decompress;

    fn is_present() -> bool {
        ffi::is_present()
    }

    fn new(params: &CodecParams) -> Result<Self> {
        params.refuse_dict(Self::NAME)?;
        let level = params.level_within(Self::NAME, MIN_LEVEL, MAX_LEVEL, DEFAULT_LEVEL)?;
        let winbits = params.winbits().unwrap_or(DEFAULT_WINBITS);
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&winbits.unsigned_abs()) {
            pr_err!(
                "{}: deflate.winbits={} refused; legal are {} to {} and the same negative\n",
                Self::NAME,
                winbits,
                MIN_WINDOW,
                MAX_WINDOW
            );
            return Err(EINVAL);
        }
        Ok(Self { level, winbits })
    }

    fn compress_pace(&self) -> Pace {
        // The default stands for 6.
        if self.level >= 0 && self.level <= LAST_SHORT_LEVEL {
            Pace::Short
        } else {
            Pace::Long
        }
    }

    fn compress_context(&self, near: Option<Cpu>) -> Result<ffi::Compress> {
        ffi::Compress::new(self.level, self.winbits, near)
    }

    fn decompress_context(&self, near: Option<Cpu>) -> Result<ffi::Decompress> {
        ffi::Decompress::new(self.winbits, near)
    }

    fn compress(
        &self,
        context: &mut ffi::Compress,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        context.compress(page, out)
    }

    fn decompress(
        &self,
        context: &mut ffi::Decompress,
        object: Src<'_>,
        page: Dst<'_>,
    ) -> Result<usize, Damaged> {
        context.decompress(object, page)
    }
}

impl State for ffi::Decompress {}

/// The library's calls.
mod ffi {
    use super::*;
    use crate::kapi::ffi as c;

    const OK: c_int = int(c::Z_OK);
    const STREAM_END: c_int = int(c::Z_STREAM_END);
    const SYNC_FLUSH: c_int = int(c::Z_SYNC_FLUSH);
    const FINISH: c_int = int(c::Z_FINISH);
    const DEFLATED: c_int = int(c::Z_DEFLATED);
    const DEFAULT_STRATEGY: c_int = int(c::Z_DEFAULT_STRATEGY);
    /// Returns one of the library's constants as it wants it back.
    const fn int(value: u32) -> c_int {
        // CAST: the constants are small.
        value as c_int
    }

    /// How much memory the hash and the symbol buffer get.
    ///
    /// 6 is the least that keeps a page's symbols in one block. C zram takes 8, the largest: four
    /// times the hash, which is cleared for each page and gone through whenever the window slides.
    /// At level 1 a page takes half the time with 6, and is 0.2 % larger.
    const MEM_LEVEL: c_int = 6;

    /// A stream of the library with its memory.
    ///
    /// # Invariants
    ///
    /// `stream` is initialized and its workspace is `_memory`. The library keeps the stream's
    /// address, hence the box.
    struct Stream {
        stream: KBox<c::z_stream>,
        _memory: Buf,
    }

    // SAFETY: All pointers of a stream lead into memory that it owns, or are set for one call.
    unsafe impl Send for Stream {}

    impl Stream {
        /// Makes a stream with `bytes` bytes of memory, initialized by `init`.
        ///
        /// # Safety
        ///
        /// `bytes` must be what the library asks for what `init` does.
        unsafe fn new(
            bytes: c_int,
            near: Option<Cpu>,
            init: impl FnOnce(*mut c::z_stream) -> c_int,
        ) -> Result<Self> {
            let bytes = usize::try_from(bytes).map_err(|_| EINVAL)?;
            let mut memory = Buf::zeroed(bytes, near)?;
            let mut stream = KBox::new(c::z_stream::default(), GFP_KERNEL)?;
            stream.workspace = memory.as_mut_ptr().cast();
            if init(&raw mut *stream) != OK {
                return Err(EINVAL);
            }
            // INVARIANT: initialized just now; neither address changes as the value moves.
            Ok(Self {
                stream,
                _memory: memory,
            })
        }

        /// Resets the stream and points it at its next input and output.
        fn start(
            &mut self,
            reset: unsafe extern "C" fn(*mut c::z_stream) -> c_int,
            from: Src<'_>,
            to: *mut u8,
            room: usize,
        ) -> bool {
            // SAFETY: the stream is initialized and exclusive.
            if unsafe { reset(&raw mut *self.stream) } != OK {
                return false;
            }
            self.stream.next_in = from.as_ptr();
            self.stream.avail_in = from.len();
            self.stream.next_out = to;
            self.stream.avail_out = room;
            true
        }

        /// Returns how many bytes came out since the last start.
        fn made(&self) -> usize {
            self.stream.total_out
        }
    }

    /// A compression context.
    pub(in super::super) struct Compress(Stream);

    impl Compress {
        pub(super) fn new(level: c_int, winbits: c_int, near: Option<Cpu>) -> Result<Self> {
            // SAFETY: the size is what the library names for this window and memory level.
            let stream = unsafe {
                Stream::new(
                    c::zlib_deflate_workspacesize(winbits, MEM_LEVEL),
                    near,
                    |stream| {
                        c::zlib_deflateInit2(
                            stream,
                            level,
                            DEFLATED,
                            winbits,
                            MEM_LEVEL,
                            DEFAULT_STRATEGY,
                        )
                    },
                )
            };
            Ok(Self(stream?))
        }

        pub(super) fn compress(
            &mut self,
            page: Src<'_>,
            out: &mut [u8],
        ) -> Result<usize, CompressError> {
            let (to, room) = (out.as_mut_ptr(), out.len());
            if !self.0.start(c::zlib_deflateReset, page, to, room) {
                return Err(CompressError::Failed);
            }
            // SAFETY:
            // - the stream is initialized and exclusive;
            // - its input is readable and its output writable as long as it says; the input is
            //   copied into the window before it is looked at, so it may change meanwhile.
            match unsafe { c::zlib_deflate(&raw mut *self.0.stream, FINISH) } {
                STREAM_END => Ok(self.0.made()),
                // It wants more room.
                OK => Err(CompressError::TooBig),
                _ => Err(CompressError::Failed),
            }
        }
    }

    /// A decompression context.
    pub(in super::super) struct Decompress(Stream);

    impl Decompress {
        pub(super) fn new(winbits: c_int, near: Option<Cpu>) -> Result<Self> {
            // SAFETY: the size is what the library names; it serves every window.
            let stream = unsafe {
                Stream::new(c::zlib_inflate_workspacesize(), near, |stream| {
                    c::zlib_inflateInit2(stream, winbits)
                })
            };
            Ok(Self(stream?))
        }

        pub(super) fn decompress(
            &mut self,
            object: Src<'_>,
            mut page: Dst<'_>,
        ) -> Result<usize, Damaged> {
            let (to, room) = (page.as_mut_ptr(), page.len());
            if !self.0.start(c::zlib_inflateReset, object, to, room) {
                return Err(Damaged);
            }
            // SAFETY:
            // - the stream is initialized and exclusive;
            // - its input is readable and its output writable as long as it says, and the library
            //   checks both, whatever the object holds.
            match unsafe { c::zlib_inflate(&raw mut *self.0.stream, SYNC_FLUSH) } {
                STREAM_END => Ok(self.0.made()),
                _ => Err(Damaged),
            }
        }
    }

    super::super::optional_library!(
        "rzram_zlib_library",
        CONFIG_ZLIB_DEFLATE | CONFIG_ZLIB_INFLATE,
        "zlib_deflate_workspacesize",
        "zlib_deflateInit2",
        "zlib_deflateReset",
        "zlib_deflate",
        "zlib_inflate_workspacesize",
        "zlib_inflateInit2",
        "zlib_inflateReset",
        "zlib_inflate",
    );
}
