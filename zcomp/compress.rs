// SPDX-License-Identifier: GPL-2.0

//! Compressing a page: with a stream held, for this one page, and for no longer.
//!
//! The caller's sink sees the compressed bytes while the stream is held, and places them where it
//! can without sleeping. If it cannot, it asks to keep them: the stream's buffer is swapped for a
//! spare one and goes out with the bytes, so that the caller finds memory with nothing held and does
//! not compress again. Spares are few; without one the caller does compress again.
//!
//! A result that would not be stored anyway is not wanted: the codec gets room for the longest one
//! that is, and gives up where that does not do.
//!
//! # Locks
//!
//! The spares' lock is a leaf, taken with a stream held.

use super::{
    stats::Counter,
    Zcomp, //
};
use crate::{
    backends::{
        Algorithm,
        CompressError,
        Compressor, //
    },
    kapi::{
        bytes::Src,
        gfp::Policy,
        num::PAGE_SIZE,
        page::PageBuf,
        percpu::Cpu, //
    },
};
use core::{
    mem,
    ops::Deref, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

/// Spare buffers of a codec. Writers that hold one wait for memory, and there is little use in many
/// doing so at once.
const SPARES: usize = 4;

/// What becomes of the compressed bytes, as the sink decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// They were placed, or are not wanted.
    Done,
    /// They shall be kept beyond the stream.
    Keep,
}

/// What became of a page.
#[must_use = "only `Done` means that the sink took care of the page"]
pub(crate) enum Outcome<'a> {
    /// The sink placed the bytes.
    Done,
    /// The bytes are not shorter than the limit, or the codec failed: store the page raw.
    Incompressible,
    /// The bytes, as the sink asked to keep them.
    Kept(Kept<'a>),
    /// The sink asked to keep this many bytes, but there was no spare buffer: compress again.
    NotKept(usize),
}

/// A page that is to be compressed.
#[derive(Clone, Copy)]
pub(crate) enum Page<'a> {
    /// Nobody changes it meanwhile.
    Stable(Src<'a>),
    /// Somebody may. It is copied first: of a page that changes under it a codec makes what may not
    /// decompress at all.
    Changing(Src<'a>),
}

impl<'a> Page<'a> {
    /// Returns its bytes, which may be others the next time.
    pub(crate) fn bytes(self) -> Src<'a> {
        match self {
            Self::Stable(bytes) | Self::Changing(bytes) => bytes,
        }
    }
}

/// A compression stream: a context, room for a page that may change, and where the output goes.
pub(super) struct CompressStream {
    compressor: KBox<dyn Compressor>,
    copy: PageBuf,
    out: PageBuf,
}

impl CompressStream {
    /// Makes a stream, near the memory of `near` if given.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    pub(super) fn new(algorithm: &dyn Algorithm, near: Option<Cpu>) -> Result<KBox<Self>> {
        let compressor = algorithm.compressor(near)?;
        let stream = Self {
            compressor,
            copy: PageBuf::alloc(Policy::Sleep)?,
            out: PageBuf::alloc(Policy::Sleep)?,
        };
        Ok(KBox::new(stream, GFP_KERNEL)?)
    }

    /// Compresses into the stream's buffer; room for `limit` bytes, a page at most.
    fn compress(&mut self, page: Page<'_>, limit: usize) -> Result<usize, CompressError> {
        let room = limit.min(PAGE_SIZE);
        let out = self.out.get_mut(..room).ok_or(CompressError::Failed)?;
        let bytes = match page {
            Page::Stable(bytes) => bytes,
            Page::Changing(bytes) => {
                bytes.copy_to(&mut self.copy);
                Src::from_slice(&self.copy)
            }
        };
        self.compressor.compress(bytes, out)
    }
}

/// Buffers to swap for a stream's.
#[pin_data]
pub(super) struct Spares {
    #[pin]
    pages: SpinLock<[Option<PageBuf>; SPARES]>,
}

impl Spares {
    /// Makes the buffers.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    pub(super) fn new() -> Result<Pin<KBox<Self>>> {
        let mut pages = [const { None }; SPARES];
        for page in &mut pages {
            *page = Some(PageBuf::alloc(Policy::Sleep)?);
        }
        KBox::pin_init(
            pin_init!(Self {
                pages <- new_spinlock!(pages, "rzram_spares"),
            }),
            GFP_KERNEL,
        )
    }

    fn take(&self) -> Option<PageBuf> {
        self.pages.lock().iter_mut().find_map(Option::take)
    }

    fn put(&self, page: PageBuf) {
        if let Some(empty) = self.pages.lock().iter_mut().find(|p| p.is_none()) {
            *empty = Some(page);
        }
    }
}

/// Compressed bytes that were kept.
pub(crate) struct Kept<'a> {
    page: Option<PageBuf>,
    len: usize,
    spares: &'a Spares,
}

impl Deref for Kept<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let page = self.page.as_deref();
        page.and_then(|page| page.get(..self.len)).unwrap_or(&[])
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.spares.put(page);
        }
    }
}

impl Zcomp {
    /// Compresses `page`, and shows the bytes to `sink` if there are at most `limit` of them.
    ///
    /// Of a page that changes meanwhile the result is some mixture.
    ///
    /// # Context
    ///
    /// May sleep: long kind waits for a stream, and so does short kind on PREEMPT_RT. `sink` runs
    /// with a stream held, in short kind with preemption off: it must not sleep and not take a slot.
    #[inline]
    pub(crate) fn compress(
        &self,
        page: Page<'_>,
        limit: usize,
        sink: impl FnOnce(&[u8]) -> Verdict,
    ) -> Outcome<'_> {
        let inner = &*self.inner;
        let outcome = inner.compress.with(|stream| {
            let len = match stream.compress(page, limit) {
                Ok(len) => len,
                Err(CompressError::TooBig) => return Outcome::Incompressible,
                Err(CompressError::Failed) => {
                    inner.stats.count(Counter::FailedWrites);
                    return Outcome::Incompressible;
                }
            };
            match stream.out.get(..len).map(sink) {
                None => Outcome::Incompressible,
                Some(Verdict::Done) => Outcome::Done,
                Some(Verdict::Keep) => match inner.spares.take() {
                    None => {
                        inner.stats.count(Counter::RepeatedWrites);
                        Outcome::NotKept(len)
                    }
                    Some(spare) => {
                        inner.stats.count(Counter::KeptWrites);
                        Outcome::Kept(Kept {
                            page: Some(mem::replace(&mut stream.out, spare)),
                            len,
                            spares: &inner.spares,
                        })
                    }
                },
            }
        });
        outcome.unwrap_or(Outcome::Incompressible)
    }

    /// Makes a compressor of its own, for recompression: never one of the write path's.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn solo(&self) -> Result<Solo> {
        Ok(Solo(CompressStream::new(&*self.inner.algorithm, None)?))
    }
}

/// A compression stream that belongs to one user and is never waited for.
pub(crate) struct Solo(KBox<CompressStream>);

impl Solo {
    /// Compresses `page`, which nobody changes; returns the bytes if there are at most `limit` of them.
    ///
    /// # Context
    ///
    /// Any task context; neither sleeps nor allocates, but takes as long as the codec takes.
    pub(crate) fn compress(&mut self, page: Src<'_>, limit: usize) -> Option<&[u8]> {
        let len = self.0.compress(Page::Stable(page), limit).ok()?;
        self.0.out.get(..len)
    }
}
