// SPDX-License-Identifier: GPL-2.0

//! Compression and decompression of pages: whose working memory, held how, for how long.
//!
//! ```text
//!               write                                  read
//!                 |                                      |
//!            compress.rs                           decompress.rs ---- bounce.rs
//!                 |                        shared:  /    | exclusive, borrowed
//!   streams.rs: one stream a CPU + a reserve       /  streams.rs, of its own
//!                 |                               /      |
//!             a context of backends/     the codec itself     a context of backends/
//! ```
//!
//! The two directions never share a stream, so a read does not wait for a write. A stream is held
//! for one page, never for a bio, and nobody takes a slot with a compression stream of the short
//! kind in hand: an object is installed after its stream was put.
//!
//! # Kinds of holding
//!
//! | kind | for | how | who waits for whom |
//! |---|---|---|---|
//! | short | below about 100 us a page | the home's spin lock, not preemptible | one page, whose holder runs |
//! | long | above | taken out of its home, preemptible, borrowed | the first stream that comes back |
//!
//! Which is right follows from the codec, its level and the direction ([`Pace`], measured); a module
//! parameter forces either ([`Hold`]). Decompression is short for every codec. On PREEMPT_RT the
//! short kind's lock sleeps and lends its waiters' priority, which helps real-time waiters only.
//!
//! # CPUs that come and go
//!
//! The first streams are made before the hotplug instance is registered. A CPU that comes up finds
//! its home opened and a work item queued, no more: until that has made the stream, the CPU uses
//! others' or the reserve. If memory is short the work item tries again later. A CPU that went away
//! has its home closed; a stream that is lent meanwhile is freed by its borrower.
//!
//! # Limits
//!
//! One stream a direction and online CPU, and the reserve: for lz4 16 KiB + 4 KiB and 4 KiB, for
//! zstd at level 3 about 90 KiB + 4 KiB and 96 KiB + 4 KiB. None of it shows in `mm_stat`.
//!
//! # Locks
//!
//! Compression stream, (slot,) decompression stream; the spares' lock and the wait queues are
//! leaves. A borrowed stream of either direction may be held when a slot is taken, a spin-locked one
//! only for decompression, inside of the slot.

mod borrow;
mod bounce;
mod compress;
mod decompress;
mod stats;
mod streams;

pub(crate) use crate::backends::{
    all as codecs,
    default_codec,
    lookup,
    CodecId,
    CodecParams,
    Dict, //
};

pub(crate) use self::{
    bounce::Bounce,
    compress::{
        Outcome,
        Page,
        Solo,
        Verdict, //
    },
    decompress::DecompressError,
    stats::Stats, //
};

use self::{
    compress::{
        CompressStream,
        Spares, //
    },
    decompress::DecompressStream,
    stats::Direction,
    streams::Streams, //
};
use crate::{
    backends::{
        Algorithm,
        Pace, //
    },
    kapi::{
        atomic::AtomicBool,
        cpuhp::{
            HotplugClient,
            HotplugInstance,
            HotplugState, //
        },
        percpu::{
            self,
            Cpu, //
        },
        work::{
            Job,
            Worker,
            Workqueue, //
        },
    },
};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::Arc, //
};

/// How long the work item waits before it asks again for memory, in milliseconds.
///
/// Nothing waits for it, as a CPU without a stream borrows; it shall not add to the pressure.
const RETRY_MS: u32 = 1000;

/// The one work item: it makes the streams that are missing.
const REFILL: usize = 0;

/// How streams are held: as measured, or the same way everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// Each direction as its codec's measured time a page suggests.
    Auto,
    /// Short everywhere.
    Short,
    /// Long everywhere, but for codecs that decompress without any stream.
    Long,
}

impl Hold {
    fn pace(self, measured: Pace) -> Pace {
        match self {
            Self::Auto => measured,
            Self::Short => Pace::Short,
            Self::Long => Pace::Long,
        }
    }
}

/// One codec of one device, with its streams.
///
/// Fields drop in this order: no more news of CPUs, then no more work, then the streams.
pub(crate) struct Zcomp {
    _hotplug: HotplugInstance,
    inner: Arc<Worker<Inner>>,
}

/// What the hotplug callbacks and the work item refer to.
struct Inner {
    compress: Streams<KBox<CompressStream>>,
    decompress: Streams<KBox<DecompressStream>>,
    spares: Pin<KBox<Spares>>,
    algorithm: KBox<dyn Algorithm>,
    is_shared: bool,
    /// Whether the first streams are in place; before, the callbacks leave the work alone.
    is_started: AtomicBool,
    stats: Arc<Stats>,
}

impl Zcomp {
    /// Makes the codec `id` with its streams.
    ///
    /// # Context
    ///
    /// May sleep; allocates with `GFP_KERNEL`; takes the CPU hotplug lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` and `EOPNOTSUPP` for parameters that the codec refuses, with a line in the log;
    /// `ENOMEM`.
    pub(crate) fn new(
        id: CodecId,
        params: &CodecParams,
        hold: Hold,
        hotplug: &HotplugState,
        queue: &Arc<Workqueue>,
        stats: Arc<Stats>,
    ) -> Result<Self> {
        let inner = Inner::new(id.open(params)?, hold, stats)?;
        let inner = Arc::pin_init(Worker::new(queue.clone(), 1, inner), GFP_KERNEL)?;
        // Made before the callbacks are registered, since those may not wait for memory.
        let mut made = KVec::new();
        for cpu in percpu::online() {
            made.push(
                (cpu, inner.make_compress(cpu)?, inner.make_decompress(cpu)?),
                GFP_KERNEL,
            )?;
        }
        let hotplug = HotplugInstance::register(hotplug, inner.clone())?;
        // The callbacks have opened the homes of all CPUs that are online now.
        for (cpu, compress, decompress) in made.drain_all() {
            inner.compress.fill(cpu, compress);
            inner.decompress.fill(cpu, decompress);
        }
        // ORDERING: relaxed: a callback that does not see it is made good by the next line, which
        // looks at every home that was opened before.
        inner.is_started.store_relaxed(true);
        inner.queue(REFILL);
        Ok(Self {
            _hotplug: hotplug,
            inner,
        })
    }

    /// Returns the codec's name in `comp_algorithm`.
    pub(crate) fn name(&self) -> &'static str {
        self.inner.algorithm.name()
    }
}

impl Inner {
    /// Makes everything but the CPUs' streams.
    fn new(algorithm: KBox<dyn Algorithm>, hold: Hold, stats: Arc<Stats>) -> Result<Self> {
        let is_shared = algorithm.is_shared();
        // A codec without state has streams for their local copies only: those are always short.
        let decompress_pace = if is_shared {
            Pace::Short
        } else {
            hold.pace(algorithm.decompress_pace())
        };
        Ok(Self {
            compress: Streams::new(
                hold.pace(algorithm.compress_pace()),
                Direction::Write,
                static_lock_class!(),
                stats.clone(),
                CompressStream::new(&*algorithm, None)?,
            )?,
            decompress: Streams::new(
                decompress_pace,
                Direction::Read,
                static_lock_class!(),
                stats.clone(),
                DecompressStream::new(&*algorithm, None)?,
            )?,
            spares: Spares::new()?,
            algorithm,
            is_shared,
            is_started: AtomicBool::new(false),
            stats,
        })
    }

    fn make_compress(&self, cpu: Cpu) -> Result<KBox<CompressStream>> {
        CompressStream::new(&*self.algorithm, Some(cpu))
    }

    fn make_decompress(&self, cpu: Cpu) -> Result<KBox<DecompressStream>> {
        DecompressStream::new(&*self.algorithm, Some(cpu))
    }

    /// Makes the streams of a CPU that has none.
    fn refill(&self, cpu: Cpu) -> Result {
        if self.compress.is_vacant(cpu) {
            self.compress.fill(cpu, self.make_compress(cpu)?);
        }
        if self.decompress.is_vacant(cpu) {
            self.decompress.fill(cpu, self.make_decompress(cpu)?);
        }
        Ok(())
    }
}

impl Job for Inner {
    /// Makes the streams that are missing, and comes back later if memory is short.
    fn run(this: &Worker<Self>, _item: usize) {
        for cpu in percpu::possible() {
            if this.refill(cpu).is_err() {
                this.queue_after(REFILL, RETRY_MS);
                return;
            }
        }
    }
}

impl HotplugClient for Worker<Inner> {
    fn cpu_up(&self, cpu: Cpu) {
        // Both are opened, whatever the first says.
        let is_missing = self.compress.open(cpu) | self.decompress.open(cpu);
        // ORDERING: relaxed, partner `Zcomp::new`: the home was opened before, under its lock.
        if is_missing && self.is_started.load_relaxed() {
            self.queue(REFILL);
        }
    }

    fn cpu_dead(&self, cpu: Cpu) {
        self.compress.close(cpu);
        self.decompress.close(cpu);
    }
}
