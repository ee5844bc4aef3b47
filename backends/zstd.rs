// SPDX-License-Identifier: GPL-2.0

//! zstd. Levels -131072 to 22, 3 if none is given; a dictionary of any size.
//!
//! Contexts live in workspaces whose size the library names beforehand, with a dictionary or
//! without: a context in a fixed workspace cannot allocate, so no page ever does. Tuning and
//! dictionary are digested once, by reference to the dictionary's bytes; only that uses the
//! allocator hook.
//!
//! # Context
//!
//! Only making a codec or a context sleeps or allocates. Contexts are exclusive in both directions;
//! the digested dictionary is shared and read only.

use super::{
    Codec,
    CodecParams,
    CompressError,
    Damaged,
    Dict,
    Pace,
    State, //
};
use crate::kapi::{
    bytes::{
        Dst,
        Src, //
    },
    num::{
        usize_to_u64,
        PAGE_SIZE, //
    },
    page::Buf,
    percpu::Cpu, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Level when none is given: the library's own default.
const DEFAULT_LEVEL: i32 = 3;

/// Strongest level at which no ordinary page takes longer than the border of [`Pace`].
const LAST_SHORT_LEVEL: i32 = 6;

/// zstd at one level, with or without a dictionary.
pub(super) struct Zstd {
    level: i32,
    digest: ffi::Digest,
}

impl Codec for Zstd {
    const NAME: &'static str = "zstd";
    type Compress = ffi::Compress;
    type Decompress = ffi::Decompress;

    fn is_present() -> bool {
        ffi::is_present()
    }

    fn new(params: &CodecParams) -> Result<Self> {
        let (min, max) = ffi::level_range();
        let level = params.level_within(Self::NAME, min, max, DEFAULT_LEVEL)?;
        Ok(Self {
            level,
            digest: ffi::Digest::new(params.dict(), level)?,
        })
    }

    fn compress_pace(&self) -> Pace {
        if self.level <= LAST_SHORT_LEVEL {
            Pace::Short
        } else {
            Pace::Long
        }
    }

    fn compress_context(&self, near: Option<Cpu>) -> Result<ffi::Compress> {
        let mut context = ffi::Compress::new(&self.digest, near)?;
        // The library lays a workspace out at first use, where one that is too small would show: it
        // shall not be a user's page that finds out. Fast levels do not compress even this page.
        let (page, mut out) = (Buf::zeroed(PAGE_SIZE, None)?, Buf::zeroed(PAGE_SIZE, None)?);
        match self.compress(&mut context, Src::from_slice(&page), &mut out) {
            Ok(_) | Err(CompressError::TooBig) => Ok(context),
            Err(CompressError::Failed) => Err(ENOMEM),
        }
    }

    fn decompress_context(&self, near: Option<Cpu>) -> Result<ffi::Decompress> {
        ffi::Decompress::new(near)
    }

    fn compress(
        &self,
        context: &mut ffi::Compress,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError> {
        context.compress(&self.digest, page, out)
    }

    fn decompress(
        &self,
        context: &mut ffi::Decompress,
        object: Src<'_>,
        page: Dst<'_>,
    ) -> Result<usize, Damaged> {
        context.decompress(&self.digest, object, page)
    }
}

impl State for ffi::Decompress {}

/// The library's calls.
mod ffi {
    use super::*;
    use crate::kapi::ffi as c;
    use core::ptr::NonNull;

    /// The library's error for a result that does not fit.
    const DST_SIZE_TOO_SMALL: c::zstd_error_code = c::ZSTD_ErrorCode_ZSTD_error_dstSize_tooSmall;

    /// Returns the weakest and the strongest level.
    pub(super) fn level_range() -> (i32, i32) {
        // SAFETY: both only return a constant.
        unsafe { (c::zstd_min_clevel(), c::zstd_max_clevel()) }
    }

    /// A level's tuning and a dictionary, digested for both directions.
    ///
    /// Compression goes through it without a dictionary too: the empty one costs nothing at a page,
    /// while the call that takes parameters sets each of them anew, 0.2 us of a page's 3 to 20.
    ///
    /// # Invariants
    ///
    /// The pointers were made by the library from `_bytes`, which they refer to, with [`HOOK`].
    /// They are read only from then on. `decompress` is there if a dictionary is.
    pub(super) struct Digest {
        compress: NonNull<c::zstd_cdict>,
        decompress: Option<NonNull<c::zstd_ddict>>,
        tuning: c::zstd_compression_parameters,
        _bytes: Option<Arc<Dict>>,
    }

    // SAFETY: The library only reads a digested dictionary once it is made.
    unsafe impl Send for Digest {}
    // SAFETY: As above, from any number of threads at once.
    unsafe impl Sync for Digest {}

    impl Digest {
        pub(super) fn new(dict: Option<&Arc<Dict>>, level: i32) -> Result<Self> {
            let bytes = dict.map_or(&[][..], |d| d.bytes());
            let (start, len) = (bytes.as_ptr().cast(), bytes.len());
            // SAFETY: a pure function of its arguments.
            let tuning = unsafe { c::zstd_get_cparams(level, usize_to_u64(PAGE_SIZE), len) };
            // SAFETY: `start` is readable for `len` bytes, which the result keeps alive.
            let compress =
                unsafe { c::zstd_create_cdict_byreference(start, len, tuning, HOOK.mem()) };
            // INVARIANT: made just now, from bytes that we keep.
            let mut digest = Self {
                compress: NonNull::new(compress).ok_or(ENOMEM)?,
                decompress: None,
                tuning,
                _bytes: dict.cloned(),
            };
            if dict.is_some() {
                // SAFETY: as above.
                let made = unsafe { c::zstd_create_ddict_byreference(start, len, HOOK.mem()) };
                // INVARIANT: as above.
                digest.decompress = Some(NonNull::new(made).ok_or(ENOMEM)?);
            }
            Ok(digest)
        }
    }

    impl Drop for Digest {
        fn drop(&mut self) {
            // SAFETY: made by the library, by the invariant, and nobody uses it any more.
            unsafe { c::zstd_free_cdict(self.compress.as_ptr()) };
            if let Some(dict) = self.decompress {
                // SAFETY: as above.
                unsafe { c::zstd_free_ddict(dict.as_ptr()) };
            }
        }
    }

    /// A compression context.
    ///
    /// # Invariants
    ///
    /// `context` lies in `_memory` and was made there by the library.
    pub(in super::super) struct Compress {
        context: NonNull<c::zstd_cctx>,
        _memory: Buf,
    }

    // SAFETY: The context is memory of ours; the library ties it to no thread.
    unsafe impl Send for Compress {}

    impl Compress {
        /// Makes a context that serves this level and dictionary.
        pub(super) fn new(digest: &Digest, near: Option<Cpu>) -> Result<Self> {
            // SAFETY: a pure function of the structure pointed at.
            let bytes = unsafe { c::zstd_cctx_workspace_bound(&digest.tuning) };
            let mut memory = Buf::zeroed(bytes, near)?;
            let len = memory.len();
            // SAFETY: the workspace is writable for `len` bytes and aligned to 64, as is asked for.
            let context = unsafe { c::zstd_init_cctx(memory.as_mut_ptr().cast(), len) };
            // INVARIANT: made in the memory, whose address does not change as the value moves.
            Ok(Self {
                context: NonNull::new(context).ok_or(ENOMEM)?,
                _memory: memory,
            })
        }

        pub(super) fn compress(
            &mut self,
            digest: &Digest,
            page: Src<'_>,
            out: &mut [u8],
        ) -> Result<usize, CompressError> {
            // SAFETY:
            // - the context is exclusive and alive, by its invariant;
            // - `out` is writable for its length, which the library checks;
            // - `page` is readable for its length; that it may change meanwhile costs at worst a
            //   bad result, as the library bounds its stores by lengths it counted itself;
            // - the digest is alive and read only.
            let made = unsafe {
                c::zstd_compress_using_cdict(
                    self.context.as_ptr(),
                    out.as_mut_ptr().cast(),
                    out.len(),
                    page.as_ptr().cast(),
                    page.len(),
                    digest.compress.as_ptr(),
                )
            };
            match error_of(made) {
                None => Ok(made),
                Some(DST_SIZE_TOO_SMALL) => Err(CompressError::TooBig),
                Some(_) => Err(CompressError::Failed),
            }
        }
    }

    /// A decompression context.
    ///
    /// # Invariants
    ///
    /// `context` lies in `_memory` and was made there by the library.
    pub(in super::super) struct Decompress {
        context: NonNull<c::zstd_dctx>,
        _memory: Buf,
    }

    // SAFETY: The context is memory of ours; the library ties it to no thread.
    unsafe impl Send for Decompress {}

    impl Decompress {
        pub(super) fn new(near: Option<Cpu>) -> Result<Self> {
            // SAFETY: returns a constant.
            let mut memory = Buf::zeroed(unsafe { c::zstd_dctx_workspace_bound() }, near)?;
            let len = memory.len();
            // SAFETY: the workspace is writable for `len` bytes and aligned to 64, as is asked for.
            let context = unsafe { c::zstd_init_dctx(memory.as_mut_ptr().cast(), len) };
            // INVARIANT: made in the memory, whose address does not change as the value moves.
            Ok(Self {
                context: NonNull::new(context).ok_or(ENOMEM)?,
                _memory: memory,
            })
        }

        pub(super) fn decompress(
            &mut self,
            digest: &Digest,
            object: Src<'_>,
            mut page: Dst<'_>,
        ) -> Result<usize, Damaged> {
            let (to, room) = (page.as_mut_ptr().cast(), page.len());
            let (from, len) = (object.as_ptr().cast(), object.len());
            let context = self.context.as_ptr();
            let made = match digest.decompress {
                // SAFETY:
                // - the context is exclusive and alive, by its invariant;
                // - `page` is writable for `room` bytes and `object` readable for `len`; the
                //   library checks both, whatever the object holds.
                None => unsafe { c::zstd_decompress_dctx(context, to, room, from, len) },
                // SAFETY: as above; the dictionary is alive and read only.
                Some(dict) => unsafe {
                    let dict = dict.as_ptr();
                    c::zstd_decompress_using_ddict(context, to, room, from, len, dict)
                },
            };
            match error_of(made) {
                None => Ok(made),
                Some(_) => Err(Damaged),
            }
        }
    }

    /// Returns the error that a result stands for, if it is one.
    fn error_of(result: usize) -> Option<c::zstd_error_code> {
        // SAFETY: pure functions of a number.
        unsafe {
            if c::zstd_is_error(result) == 0 {
                return None;
            }
            Some(c::zstd_get_error_code(result))
        }
    }

    /// The library's way to memory for digested dictionaries; contexts have fixed workspaces.
    struct Hook;
    const HOOK: Hook = Hook;

    impl Hook {
        fn mem(&self) -> c::zstd_custom_mem {
            c::zstd_custom_mem {
                customAlloc: Some(hook_alloc),
                customFree: Some(hook_free),
                opaque: core::ptr::null_mut(),
            }
        }
    }

    /// Bytes in front of what the library gets: they hold the length, which freeing needs. The
    /// library wants no more than the alignment of a pointer; this keeps that of the allocation.
    const HOOK_HEADER_WORDS: usize = 2;

    /// # Safety
    ///
    /// Called by the library while a dictionary is digested, where we may sleep.
    unsafe extern "C" fn hook_alloc(_opaque: *mut c_void, bytes: usize) -> *mut c_void {
        let words = bytes
            .div_ceil(size_of::<u64>())
            .saturating_add(HOOK_HEADER_WORDS);
        let Ok(memory) = KVVec::<u64>::zeroed(words, GFP_KERNEL) else {
            return core::ptr::null_mut();
        };
        let (start, _, capacity) = memory.into_raw_parts();
        // SAFETY: the allocation has room for the header in front of `bytes` bytes.
        unsafe {
            start.cast::<usize>().write(capacity);
            start.add(HOOK_HEADER_WORDS).cast()
        }
    }

    /// # Safety
    ///
    /// `address` is null or was returned by `hook_alloc` and not freed since.
    unsafe extern "C" fn hook_free(_opaque: *mut c_void, address: *mut c_void) {
        if address.is_null() {
            return;
        }
        // SAFETY:
        // - `hook_alloc` wrote the capacity in front of what it returned;
        // - start, capacity and allocator are those of the vector it took apart.
        unsafe {
            let start = address.cast::<u64>().sub(HOOK_HEADER_WORDS);
            let capacity = start.cast::<usize>().read();
            drop(KVVec::<u64>::from_raw_parts(start, 0, capacity));
        }
    }

    super::super::optional_library!(
        "rzram_zstd_library",
        CONFIG_ZSTD_COMPRESS | CONFIG_ZSTD_DECOMPRESS,
        "zstd_min_clevel",
        "zstd_max_clevel",
        "zstd_get_cparams",
        "zstd_create_cdict_byreference",
        "zstd_free_cdict",
        "zstd_cctx_workspace_bound",
        "zstd_init_cctx",
        "zstd_compress_using_cdict",
        "zstd_create_ddict_byreference",
        "zstd_free_ddict",
        "zstd_dctx_workspace_bound",
        "zstd_init_dctx",
        "zstd_decompress_dctx",
        "zstd_decompress_using_ddict",
        "zstd_is_error",
        "zstd_get_error_code",
    );
}
