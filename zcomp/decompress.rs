// SPDX-License-Identifier: GPL-2.0

//! Decompressing an object, in one of three modes.
//!
//! | codec | object | mode |
//! |---|---|---|
//! | without state | in one piece | shared: in place, no stream, no copy |
//! | without state | spanning | shared, from the bio's bounce buffer |
//! | without state | spanning, no bounce buffer | exclusive, from the stream's local copy |
//! | with state | any | exclusive, a spanning one from the stream's local copy |
//!
//! Exclusive mode is short: it runs inside of the slot's section. Where long kind is forced the
//! stream has to be borrowed before the slot is taken, which may sleep: [`Zcomp::begin_long_read`].
//! Then the object is copied under the slot and decompressed after it.

use super::{
    bounce::Bounce,
    stats::Counter,
    streams::Held,
    Inner,
    Zcomp, //
};
use crate::{
    backends::{
        Algorithm,
        Damaged,
        Decompressor,
        Pace, //
    },
    kapi::{
        bytes::{
            Dst,
            Pieces,
            Src, //
        },
        gfp::Policy,
        page::PageBuf,
        percpu::Cpu, //
    },
};
use kernel::prelude::*;

/// Why an object was not decompressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DecompressError {
    /// The stored bytes do not make exactly one page; the page holds nothing of use.
    Damaged,
    /// A stream must be borrowed first, without the slot: nothing was done.
    MustBorrow,
}

impl From<Damaged> for DecompressError {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

/// A decompression stream: the context, if the codec has one, and the local copy.
pub(super) struct DecompressStream {
    context: Option<KBox<dyn Decompressor>>,
    local: PageBuf,
}

impl DecompressStream {
    /// Makes a stream, near the memory of `near` if given.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    pub(super) fn new(algorithm: &dyn Algorithm, near: Option<Cpu>) -> Result<KBox<Self>> {
        let context = if algorithm.is_shared() {
            None
        } else {
            Some(algorithm.decompressor(near)?)
        };
        let local = PageBuf::alloc(Policy::Sleep)?;
        Ok(KBox::new(Self { context, local }, GFP_KERNEL)?)
    }

    /// Decompresses with the context if there is one.
    fn decompress(
        &mut self,
        algorithm: &dyn Algorithm,
        object: Pieces<'_>,
        page: Dst<'_>,
    ) -> Result<(), Damaged> {
        let Self { context, local } = self;
        let object = match object {
            Pieces::One(src) => src,
            Pieces::Two(..) => gather(object, local)?,
        };
        match context {
            Some(context) => context.decompress(object, page),
            None => algorithm.decompress_shared(object, page),
        }
    }
}

/// Puts an object together in `buffer` and returns it in a row.
fn gather<'a>(object: Pieces<'_>, buffer: &'a mut PageBuf) -> Result<Src<'a>, Damaged> {
    let len = object.copy_to(buffer);
    if len != object.len() {
        return Err(Damaged);
    }
    buffer.get(..len).map(Src::from_slice).ok_or(Damaged)
}

impl Zcomp {
    /// Decompresses `object` into `page`, which is exactly one page.
    ///
    /// # Context
    ///
    /// The slot is held, so nothing sleeps: at most a short decompression stream is taken and the
    /// bounce buffer allocated without sleeping.
    ///
    /// # Errors
    ///
    /// [`DecompressError::Damaged`]; [`DecompressError::MustBorrow`] only where long kind is forced.
    #[inline]
    pub(crate) fn decompress(
        &self,
        object: Pieces<'_>,
        page: Dst<'_>,
        bounce: &mut Bounce,
    ) -> Result<(), DecompressError> {
        let inner = &*self.inner;
        let result = match object {
            _ if !inner.is_shared => inner.decompress_exclusive(object, page)?,
            Pieces::One(src) => {
                inner.stats.count(Counter::SharedReads);
                inner.algorithm.decompress_shared(src, page)
            }
            Pieces::Two(..) => match bounce.page() {
                Some(buffer) => {
                    inner.stats.count(Counter::BouncedReads);
                    gather(object, buffer)
                        .and_then(|src| inner.algorithm.decompress_shared(src, page))
                }
                None => {
                    inner.stats.count(Counter::BounceFallbacks);
                    inner.decompress_exclusive(object, page)?
                }
            },
        };
        inner.judge(result)
    }

    /// Borrows a stream for one read, if the codec's streams are of the long kind.
    ///
    /// # Context
    ///
    /// May sleep, so no slot may be held.
    pub(crate) fn begin_long_read(&self) -> Option<LongRead<'_>> {
        let inner = &*self.inner;
        match inner.decompress.pace() {
            Pace::Short => None,
            Pace::Long => Some(LongRead {
                held: inner.decompress.borrow(),
                inner,
                len: 0,
            }),
        }
    }
}

impl Inner {
    /// Decompresses with a short stream held.
    fn decompress_exclusive(
        &self,
        object: Pieces<'_>,
        page: Dst<'_>,
    ) -> Result<Result<(), Damaged>, DecompressError> {
        if self.decompress.pace() == Pace::Long {
            return Err(DecompressError::MustBorrow);
        }
        let done = self
            .decompress
            .with(|stream| stream.decompress(&*self.algorithm, object, page));
        Ok(done.unwrap_or(Err(Damaged)))
    }

    /// Counts damage.
    #[inline]
    fn judge(&self, result: Result<(), Damaged>) -> Result<(), DecompressError> {
        result.map_err(|damaged| {
            self.stats.count(Counter::DamagedReads);
            damaged.into()
        })
    }
}

/// A read with a borrowed stream: load the object under its slot, finish without.
pub(crate) struct LongRead<'a> {
    held: Held<'a, KBox<DecompressStream>>,
    inner: &'a Inner,
    len: usize,
}

impl LongRead<'_> {
    /// Copies the object, while its slot is held.
    ///
    /// # Context
    ///
    /// Any; neither sleeps nor allocates.
    ///
    /// # Errors
    ///
    /// [`DecompressError::Damaged`] if it is longer than a page.
    pub(crate) fn load(&mut self, object: Pieces<'_>) -> Result<(), DecompressError> {
        let stream = self.held.stream().ok_or(DecompressError::Damaged)?;
        self.len = gather(object, &mut stream.local)?.len();
        Ok(())
    }

    /// Decompresses what was loaded into `page`, which is exactly one page, and puts the stream.
    ///
    /// # Context
    ///
    /// No slot held; neither sleeps nor allocates.
    ///
    /// # Errors
    ///
    /// [`DecompressError::Damaged`].
    pub(crate) fn finish(mut self, page: Dst<'_>) -> Result<(), DecompressError> {
        let stream = self.held.stream().ok_or(DecompressError::Damaged)?;
        let DecompressStream { context, local } = &mut **stream;
        let object = local.get(..self.len).map(Src::from_slice).ok_or(Damaged)?;
        let result = match context {
            Some(context) => context.decompress(object, page),
            None => self.inner.algorithm.decompress_shared(object, page),
        };
        self.inner.judge(result)
    }
}
