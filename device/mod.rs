// SPDX-License-Identifier: GPL-2.0

//! One disk.
//!
//! ```text
//!  user: bio, notify                                user: control files
//!        |                                                |
//!        v                                                v
//!   io.rs -> read.rs write.rs discard.rs   notify.rs   sysfs.rs -> lifecycle.rs, idle.rs,
//!        |        |        |        |          |          |        post.rs -> recompress.rs
//!        \        |        |        /          |          |
//!         +-------+--- live.rs: table.rs, pool, codecs ---+   stats.rs
//!                          |
//!    fetch.rs -> backing.rs: blocks.rs, the block device <- writeback.rs
//!                          |
//!                 slot.rs (guard) over slot_word.rs (protocol), word.rs (bits)
//! ```
//!
//! # Life
//!
//! | state      | `live`  | capacity | bios            | how it is left                              |
//! |------------|---------|----------|-----------------|---------------------------------------------|
//! | new        | absent  | 0        | none get here   | `disksize`                                  |
//! | live       | present | set      | served          | `reset`, once the disk is claimed           |
//! | resetting  | going   | 0        | none: claimed   | by itself, to new                           |
//!
//! # Locks, outermost first
//!
//! | lock               | protects                                   | does not protect              | under it      |
//! |--------------------|--------------------------------------------|-------------------------------|---------------|
//! | registry           | which disks exist                          | a disk's content              | may sleep     |
//! | disk open          | openers and the claim                      | `live`, but for the claim     | may sleep     |
//! | post-processing    | which pass is under way; the pass's reference to `live` | anything a pass looks at | may sleep |
//! | device (`config`)  | configuration, `live` against control files| `live` against bios: the claim does | may sleep |
//! | CPU hotplug        | which streams exist                        | streams in use                | may sleep     |
//! | compression stream | its context and buffer                     | the page being compressed     | short: no sleep |
//! | slot               | word and value of one slot                 | the object's place: see `slot`| no sleep, no allocation |
//! | decompression stream | its context                              |                               | no sleep      |
//! | class              | a size class's zspages                     | objects whose slot is held    | no sleep, no allocation |
//!
//! Two leaves: the mutex of the last refusal, and that of the way to user space for `threshold.rs`.
//!
//! The I/O path takes none of the first five, and takes a slot only after its compression stream
//! was put. Against the order only by try-lock: compaction, which holds a class, tries slots.

#![deny(unsafe_code)]

mod auto;
mod backing;
mod block_state;
mod blocks;
mod budget;
mod candidates;
mod choice;
mod chosen;
mod debug;
mod discard;
mod drain;
mod fetch;
mod figures;
mod idle;
mod io;
mod lifecycle;
mod live;
mod notify;
mod parse;
mod post;
mod range;
mod read;
mod recompress;
mod refusal;
pub(crate) mod request;
mod seal;
mod slot;
mod slot_word;
mod stats;
mod sysfs;
mod table;
mod targets;
mod threshold;
mod word;
mod write;
mod writeback;

pub(crate) use self::debug::DebugFiles;
pub(crate) use self::notify::Deferral;
pub(crate) use self::refusal::Refusals;
pub(crate) use self::sysfs::errno;

use self::{
    budget::Settings,
    choice::Choice,
    lifecycle::Config,
    live::Running,
    post::PostProcessing,
    stats::DeviceStats,
    threshold::Threshold, //
};
use crate::{
    kapi::{
        atomic::AtomicU64,
        bio::Bio,
        clock::RateLimit,
        cpuhp::HotplugState,
        disk::{DeletedDisk, Disk, DiskOps, Major, NotifyCall},
        once::Published,
        params::{BoolParam, UintParam},
        rwsem::RwSem,
        work::{Worker, Workqueue}, //
    },
    zcomp::{Bounce, Hold, Zcomp}, //
};
use kernel::{
    prelude::*,
    static_lock_class,
    str::CString,
    sync::Arc, //
};

/// What all disks share, and the parameters that hold for those created from now on.
pub(crate) struct Shared {
    /// Where streams learn of processors that come and go.
    pub(crate) hotplug: HotplugState,
    /// Where deferred frees are worked off.
    pub(crate) workqueue: Arc<Workqueue>,
    /// When freed slots give their memory back.
    pub(crate) deferral: Deferral,
    /// How compression streams are held.
    pub(crate) hold: Hold,
    /// Whether the pool asks for pages in a row first.
    pub(crate) linear: bool,
    /// Whether disks carry what tools look for that know zram only.
    pub(crate) is_compat: bool,
    /// For tests: the slot, plus one, whose compressed bytes are spoilt when they are stored.
    pub(crate) spoil_slot: &'static UintParam,
    /// For tests: readers find no memory for a bounce buffer while this is set.
    pub(crate) refuse_bounce: &'static BoolParam,
}

/// A disk's object: lives from creation to the last user.
///
/// # Invariants
///
/// `live` is present if and only if `config.disksize_bytes` is not 0; both change under the
/// device lock, held exclusively.
#[pin_data]
pub(crate) struct Device {
    prefix: &'static str,
    number: u32,
    shared: Arc<Shared>,
    stats: Arc<DeviceStats>,
    limit_pages: Arc<AtomicU64>,
    live: Published<Running>,
    post: Arc<PostProcessing>,
    settings: Arc<Settings>,
    policy: Arc<auto::Policy>,
    /// The device lock.
    #[pin]
    config: RwSem<Config>,
    #[pin]
    threshold: Worker<Threshold>,
    #[pin]
    refusals: Refusals,
    io_errors: RateLimit,
}

impl Device {
    /// Creates disk `number` and announces it.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the block layer says.
    pub(crate) fn create(
        major: &Major,
        prefix: &'static str,
        number: u32,
        shared: Arc<Shared>,
    ) -> Result<Disk<Self>> {
        let name = CString::try_from_fmt(fmt!("{}{}", prefix, number))?;
        let stats = Arc::new(DeviceStats::new()?, GFP_KERNEL)?;
        let limit_pages = Arc::new(AtomicU64::new(0), GFP_KERNEL)?;
        let attributes = match shared.is_compat {
            false => &sysfs::ATTRIBUTES,
            true => &sysfs::COMPAT_ATTRIBUTES,
        };
        let threshold = Threshold::new(stats.pool.clone())?;
        let post = Arc::pin_init(PostProcessing::new(), GFP_KERNEL)?;
        let settings = Arc::new(Settings::new(), GFP_KERNEL)?;
        let policy = Arc::new(auto::Policy::new(), GFP_KERNEL)?;
        let device = Arc::pin_init(
            try_pin_init!(Self {
                refusals <- Refusals::new(prefix, Some(number)),
                prefix,
                number,
                threshold <- Worker::new(shared.workqueue.clone(), 1, threshold),
                shared,
                stats,
                limit_pages,
                live: Published::new(),
                post,
                settings,
                policy,
                config <- RwSem::new(Config::new(), c"rzram device", static_lock_class!()),
                io_errors: RateLimit::new(),
            }? Error),
            GFP_KERNEL,
        )?;
        let disk = Disk::create(major, number, &name, attributes, device)?;
        let target = disk.disk().event_target();
        disk.threshold.set_target(Some(target));
        Ok(disk)
    }

    /// Ends what may run for long in a handler of a file, as the disk is going away.
    ///
    /// # Context
    ///
    /// Any; waits for nothing.
    pub(crate) fn stop(&self) {
        self.post.stop();
    }

    /// Frees what a deleted disk still holds.
    ///
    /// # Context
    ///
    /// May sleep; takes the device lock.
    pub(crate) fn finish(disk: &DeletedDisk<Self>) {
        lifecycle::tear_down(disk, disk);
    }

    /// Returns the number in the disk's name.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Makes the codec that the user chose for a priority.
    ///
    /// # Context
    ///
    /// May sleep; allocates streams; takes the CPU hotplug lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the codec says of its parameters.
    fn open_codec(&self, priority: usize, choice: &Choice) -> Result<Zcomp> {
        let stats = self.stats.codecs.get(priority).ok_or(EINVAL)?;
        Zcomp::new(
            choice.codec,
            &choice.params,
            self.shared.hold,
            &self.shared.hotplug,
            &self.shared.workqueue,
            stats.clone(),
        )
    }

    /// Returns a bounce buffer for one request.
    fn bounce(&self) -> Bounce {
        if self.shared.refuse_bounce.get() {
            Bounce::refused()
        } else {
            Bounce::new()
        }
    }

    /// Logs a word that a control file refused, and what it would have taken.
    fn refuse(&self, file: &str, text: &[u8], legal: impl kernel::fmt::Display) {
        self.refusals.refuse(file, text, legal);
    }

    /// Logs why a request failed; not every one of a burst.
    fn log_io_error(&self, what: impl kernel::fmt::Display) {
        if self.io_errors.allows() {
            pr_err!("{}{}: {}\n", self.prefix, self.number, what);
        }
    }
}

impl DiskOps for Device {
    fn submit(&self, bio: Bio) {
        io::submit(self, bio);
    }

    fn slot_free(&self, call: &NotifyCall, index: u64) {
        if let (Some(live), Ok(index)) = (self.live.get(call), u32::try_from(index)) {
            notify::slot_free(live, index);
        }
    }

    fn refused(&self, file: &CStr, text: &[u8], error: Error) {
        let file = file.to_str().unwrap_or_default();
        self.refusals.settle(file, text, error);
    }

    fn leaving(&self) {
        self.threshold.set_target(None);
    }
}
