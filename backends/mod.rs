// SPDX-License-Identifier: GPL-2.0

//! The codecs: one file each behind one trait, and the registry of those this kernel has.
//!
//! ```text
//! zcomp -> open(id, params) -> dyn Algorithm -+- compressor()   -> dyn Compressor    one a stream
//!                                             +- decompressor() -> dyn Decompressor  one a stream
//!                                             +- decompress_shared()                 no stream at all
//!              (typed side)    Codec: parameters, dictionary | its two kinds of working memory
//! ```
//!
//! A codec object holds what its parameters and its dictionary decide, is made once for a device and
//! priority, and never changes. What changes while a page is worked on is a *context*: its owner has
//! it exclusively, so nothing here locks. A codec whose decompression context is [`NoState`] may
//! decompress any number of pages at once.
//!
//! The typed side is erased once, where a stream is made: the per-page cost is one dynamic call.
//!
//! # Who may do what
//!
//! | step | sleeps | allocates |
//! |---|---|---|
//! | `open`, `compressor`, `decompressor` | yes | `GFP_KERNEL` |
//! | compress, decompress | no | never |
//!
//! # Limits every codec keeps
//!
//! * A compressor writes into the slice it is given and nowhere else; a result that does not fit is
//!   [`CompressError::TooBig`], not a fault.
//! * A decompressor never writes past the page, whatever the object holds; anything but exactly one
//!   page of output is [`Damaged`].

use crate::kapi::{
    bytes::{
        Dst,
        Src, //
    },
    num::PAGE_SIZE,
    percpu::Cpu, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

mod params;

#[cfg(all(CONFIG_ZLIB_DEFLATE, CONFIG_ZLIB_INFLATE))]
mod deflate;
#[cfg(all(CONFIG_LZ4_COMPRESS, CONFIG_LZ4_DECOMPRESS))]
mod lz4;
#[cfg(all(any(CONFIG_LZ4_COMPRESS, CONFIG_LZ4HC_COMPRESS), CONFIG_LZ4_DECOMPRESS))]
mod lz4_format;
#[cfg(all(CONFIG_LZ4HC_COMPRESS, CONFIG_LZ4_DECOMPRESS))]
mod lz4hc;
#[cfg(all(CONFIG_LZO_COMPRESS, CONFIG_LZO_DECOMPRESS))]
mod lzo;
#[cfg(all(CONFIG_842_COMPRESS, CONFIG_842_DECOMPRESS))]
mod x842;
#[cfg(all(CONFIG_ZSTD_COMPRESS, CONFIG_ZSTD_DECOMPRESS))]
mod zstd;

pub(crate) use self::params::{
    CodecParams,
    Dict, //
};

/// Why a page was not compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompressError {
    /// The result would not fit into the space given.
    TooBig,
    /// The library refused for a reason of its own.
    Failed,
}

/// The stored bytes are not what the codec wrote: they do not decompress to exactly one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damaged;

/// How long a page takes, measured, which decides how its stream is held.
///
/// The border is about 100 us for the slowest ordinary page: below it a section that cannot be
/// preempted does no harm. Measured in us on an x86-64 user-mode kernel, each page the best of nine:
/// 96 pages of libraries, 48 of text, 64 of a heap (mean of the slowest kind / slowest page), and the
/// slowest of 40 pages made to be slow.
///
/// | codec, level | ordinary pages | made slow | compress |
/// |---|---|---|---|
/// | lzo, lzo-rle | 7.8 / 11 | 10 | short |
/// | lz4 1; with 64 KiB dictionary | 6.4 / 9; 10 / 19 | 10; 13 | short |
/// | lz4hc 1; 5; 7 | 31 / 42; 39 / 80; 45 / 110 | 44; 141; 495 | short to 5 |
/// | lz4hc 9; 16 | 84 / 212; 227 / 2711 | 1067; 2075 | long |
/// | zstd -5; 1; 3 | 7 / 14; 15 / 20; 20 / 36 | 17; 23; 41 | short |
/// | zstd 6; 7; 9; 19 | 41 / 65; 59 / 157; 122 / 263; 1358 / 7305 | 68; 240; 380; 2699 | short to 6 |
/// | the same, 64 KiB dictionary: 3; 6; 7 | 21 / 33; 51 / 88; 104 / 147 | 30; 102; 134 | short to 6 |
/// | deflate 1; 2; 3; 6; 9 | 41 / 63; 50 / 99; 56 / 127; 89 / 249; 157 / 686 | 80; 70; 147; 678; 1375 | short to 2 |
/// | 842 | 86 / 101 | 114 | long |
///
/// Decompression takes 1 to 9 us for lzo and lz4, 3 to 20 for zstd, 5 to 25 for deflate and 25 to 46
/// for 842: short for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// Short enough to be done without giving up the CPU.
    Short,
    /// So long that the CPU must stay preemptible.
    Long,
}

/// Working memory of decompression.
///
/// `shared()` is the answer to "can any number of pages be decompressed at once?": the value itself,
/// which costs nothing to make, or nothing.
pub(crate) trait State: Send + Sized {
    /// Returns the state if it is none at all.
    fn shared() -> Option<Self> {
        None
    }
}

/// The state of a decompressor that keeps none.
pub(crate) struct NoState;

impl State for NoState {
    fn shared() -> Option<Self> {
        Some(Self)
    }
}

/// One compression algorithm with its parameters.
///
/// # Guarantees
///
/// Implementers keep the limits listed at the top of this file.
pub(crate) trait Codec: Sized + Send + Sync + 'static {
    /// Name in `comp_algorithm`.
    const NAME: &'static str;
    /// Working memory of compression.
    type Compress: Send;
    /// Working memory of decompression; [`NoState`] if there is none.
    type Decompress: State;

    /// Tells whether the library behind the codec is there.
    fn is_present() -> bool {
        true
    }

    /// Checks the parameters and prepares what depends on nothing else.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a value out of range, `EOPNOTSUPP` for a parameter the algorithm does not have,
    /// `ENOMEM`. A line in the log names the reason.
    fn new(params: &CodecParams) -> Result<Self>;

    /// Returns how long a page takes to compress at these parameters.
    fn compress_pace(&self) -> Pace;

    /// Returns how long a page takes to decompress.
    fn decompress_pace(&self) -> Pace {
        Pace::Short
    }

    /// Makes working memory for compression, near the memory of `near` if given.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    fn compress_context(&self, near: Option<Cpu>) -> Result<Self::Compress>;

    /// Makes working memory for decompression, near the memory of `near` if given.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    fn decompress_context(&self, near: Option<Cpu>) -> Result<Self::Decompress>;

    /// Compresses one page into `out` and returns the length. `page` may change meanwhile.
    fn compress(
        &self,
        context: &mut Self::Compress,
        page: Src<'_>,
        out: &mut [u8],
    ) -> Result<usize, CompressError>;

    /// Decompresses `object` into `page` and returns how many bytes came out.
    fn decompress(
        &self,
        context: &mut Self::Decompress,
        object: Src<'_>,
        page: Dst<'_>,
    ) -> Result<usize, Damaged>;
}

/// A codec with its type forgotten.
pub(crate) trait Algorithm: Send + Sync {
    /// Returns the name in `comp_algorithm`.
    fn name(&self) -> &'static str;

    /// Returns how long a page takes to compress.
    fn compress_pace(&self) -> Pace;

    /// Returns how long a page takes to decompress.
    fn decompress_pace(&self) -> Pace;

    /// Tells whether `decompress_shared` serves: the codec keeps no state while decompressing.
    fn is_shared(&self) -> bool;

    /// Makes a compressor with working memory of its own, near `near` if given.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    fn compressor(&self, near: Option<Cpu>) -> Result<KBox<dyn Compressor>>;

    /// Makes a decompressor with working memory of its own, near `near` if given.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    fn decompressor(&self, near: Option<Cpu>) -> Result<KBox<dyn Decompressor>>;

    /// Decompresses with no working memory; [`Damaged`] if the codec needs some.
    ///
    /// # Context
    ///
    /// Any; neither sleeps nor allocates.
    fn decompress_shared(&self, object: Src<'_>, page: Dst<'_>) -> Result<(), Damaged>;
}

/// Compresses one page at a time.
pub(crate) trait Compressor: Send {
    /// Compresses `page` into `out` and returns the length, at least 1.
    ///
    /// # Context
    ///
    /// Any task context; neither sleeps nor allocates.
    ///
    /// # Errors
    ///
    /// [`CompressError`]; the content of `out` is then of no use.
    fn compress(&mut self, page: Src<'_>, out: &mut [u8]) -> Result<usize, CompressError>;
}

/// Decompresses one page at a time.
pub(crate) trait Decompressor: Send {
    /// Decompresses `object` into exactly one page.
    ///
    /// # Context
    ///
    /// Any task context; neither sleeps nor allocates.
    ///
    /// # Errors
    ///
    /// [`Damaged`]; the content of `page` is then of no use, nothing else was written.
    fn decompress(&mut self, object: Src<'_>, page: Dst<'_>) -> Result<(), Damaged>;
}

/// A codec object behind [`Algorithm`].
struct Erased<C: Codec>(Arc<C>);

/// A codec with one context of it. The context goes first: it may point into the codec.
struct Bound<C: Codec, T> {
    context: T,
    codec: Arc<C>,
}

impl<C: Codec> Algorithm for Erased<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn compress_pace(&self) -> Pace {
        self.0.compress_pace()
    }

    fn decompress_pace(&self) -> Pace {
        self.0.decompress_pace()
    }

    fn is_shared(&self) -> bool {
        C::Decompress::shared().is_some()
    }

    fn compressor(&self, near: Option<Cpu>) -> Result<KBox<dyn Compressor>> {
        let context = self.0.compress_context(near)?;
        let codec = self.0.clone();
        Ok(KBox::new(Bound { context, codec }, GFP_KERNEL)? as KBox<dyn Compressor>)
    }

    fn decompressor(&self, near: Option<Cpu>) -> Result<KBox<dyn Decompressor>> {
        let context = Expand(self.0.decompress_context(near)?);
        let codec = self.0.clone();
        Ok(KBox::new(Bound { context, codec }, GFP_KERNEL)? as KBox<dyn Decompressor>)
    }

    fn decompress_shared(&self, object: Src<'_>, page: Dst<'_>) -> Result<(), Damaged> {
        let mut state = C::Decompress::shared().ok_or(Damaged)?;
        whole_page(&*self.0, &mut state, object, page)
    }
}

impl<C: Codec> Compressor for Bound<C, C::Compress> {
    fn compress(&mut self, page: Src<'_>, out: &mut [u8]) -> Result<usize, CompressError> {
        if page.len() != PAGE_SIZE || out.is_empty() {
            return Err(CompressError::Failed);
        }
        self.codec.compress(&mut self.context, page, out)
    }
}

/// Keeps the two kinds of [`Bound`] apart where a codec uses one type for both contexts.
struct Expand<T>(T);

impl<C: Codec> Decompressor for Bound<C, Expand<C::Decompress>> {
    fn decompress(&mut self, object: Src<'_>, page: Dst<'_>) -> Result<(), Damaged> {
        whole_page(&*self.codec, &mut self.context.0, object, page)
    }
}

/// Decompresses and insists on exactly one page.
fn whole_page<C: Codec>(
    codec: &C,
    state: &mut C::Decompress,
    object: Src<'_>,
    page: Dst<'_>,
) -> Result<(), Damaged> {
    if page.len() != PAGE_SIZE || codec.decompress(state, object, page)? != PAGE_SIZE {
        return Err(Damaged);
    }
    Ok(())
}

/// A row of the registry.
struct Entry {
    name: &'static str,
    is_present: fn() -> bool,
    open: fn(&CodecParams) -> Result<KBox<dyn Algorithm>>,
}

impl Entry {
    /// Only some configurations have codecs to make rows of.
    #[allow(dead_code)]
    const fn of<C: Codec>() -> Self {
        Self {
            name: C::NAME,
            is_present: C::is_present,
            open: |params| {
                let codec = Arc::new(C::new(params)?, GFP_KERNEL)?;
                Ok(KBox::new(Erased(codec), GFP_KERNEL)? as KBox<dyn Algorithm>)
            },
        }
    }
}

/// Every codec this kernel's configuration has, in the order in which users see them.
static REGISTRY: &[Entry] = &[
    #[cfg(all(CONFIG_LZO_COMPRESS, CONFIG_LZO_DECOMPRESS))]
    Entry::of::<lzo::LzoRle>(),
    #[cfg(all(CONFIG_LZO_COMPRESS, CONFIG_LZO_DECOMPRESS))]
    Entry::of::<lzo::Lzo>(),
    #[cfg(all(CONFIG_LZ4_COMPRESS, CONFIG_LZ4_DECOMPRESS))]
    Entry::of::<lz4::Lz4>(),
    #[cfg(all(CONFIG_LZ4HC_COMPRESS, CONFIG_LZ4_DECOMPRESS))]
    Entry::of::<lz4hc::Lz4Hc>(),
    #[cfg(all(CONFIG_ZSTD_COMPRESS, CONFIG_ZSTD_DECOMPRESS))]
    Entry::of::<zstd::Zstd>(),
    #[cfg(all(CONFIG_ZLIB_DEFLATE, CONFIG_ZLIB_INFLATE))]
    Entry::of::<deflate::Deflate>(),
    #[cfg(all(CONFIG_842_COMPRESS, CONFIG_842_DECOMPRESS))]
    Entry::of::<x842::X842>(),
];

/// The codec a new device starts with, where the kernel has it.
const DEFAULT_NAME: &str = "lz4";

/// Names one codec that is present.
///
/// # Invariants
///
/// Refers to a row of the registry whose library is there, and stays so: libraries cannot be
/// unloaded while we refer to them, and one that was absent at load is never looked for again.
#[derive(Clone, Copy)]
pub(crate) struct CodecId(&'static Entry);

impl CodecId {
    /// Returns the name in `comp_algorithm`.
    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    /// Makes the codec with its parameters.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EOPNOTSUPP` or `ENOMEM`, as [`Codec::new`] says.
    pub(crate) fn open(self, params: &CodecParams) -> Result<KBox<dyn Algorithm>> {
        (self.0.open)(params)
    }
}

impl PartialEq for CodecId {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// Returns the codecs that are present, in the order of listings.
pub(crate) fn all() -> impl Iterator<Item = CodecId> {
    // INVARIANT: only rows whose library is there.
    REGISTRY.iter().filter(|e| (e.is_present)()).map(CodecId)
}

/// Returns the codec of that name, if it is present.
pub(crate) fn lookup(name: &[u8]) -> Option<CodecId> {
    all().find(|id| id.name().as_bytes() == name)
}

/// Returns the codec a new device starts with: lz4, or the first there is.
pub(crate) fn default_codec() -> Option<CodecId> {
    lookup(DEFAULT_NAME.as_bytes()).or_else(|| all().next())
}

/// Makes `is_present`, and references to a library optional if it is a module of its own.
///
/// The library is one if any of the options is `m`. Then its functions are declared weak, so that our
/// module loads without it, and their addresses noted in a table of words named `$table`: a
/// comparison of the functions themselves with null could be folded away by the compiler. The
/// dependency is still recorded, so `modprobe` brings the library.
macro_rules! optional_library {
    ($table:literal, $($option:ident)|+, $($symbol:literal),+ $(,)?) => {
        #[cfg(any($($option = "m"),+))]
        core::arch::global_asm!(
            $(concat!(".weak ", $symbol),)+
            ".pushsection .data",
            ".balign 8",
            concat!($table, ":"),
            $(concat!(".quad ", $symbol),)+
            ".popsection",
        );

        /// Tells whether every function of the library was found when we were loaded.
        #[cfg(any($($option = "m"),+))]
        pub(super) fn is_present() -> bool {
            const WORDS: usize = [$($symbol),+].len();
            extern "C" {
                #[link_name = $table]
                static addresses: [usize; WORDS];
            }
            // SAFETY: the table above has a word for each function; the module loader wrote them
            // before we ran.
            let words = unsafe { (&raw const addresses).read_volatile() };
            words.iter().all(|&address| address != 0)
        }

        /// The library is part of the kernel.
        #[cfg(not(any($($option = "m"),+)))]
        pub(super) fn is_present() -> bool {
            true
        }
    };
}
use optional_library;
