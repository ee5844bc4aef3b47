// SPDX-License-Identifier: GPL-2.0

//! The backing device of a disk: attached by the user, used from `disksize` to reset.
//!
//! | what              | lives in               | from          | to                     |
//! |-------------------|------------------------|---------------|------------------------|
//! | the open device   | configuration, backing | `backing_dev` | reset, removal, another device |
//! | [`Backing`]       | the live parts         | `disksize`    | reset, removal         |
//! | [`Common`]        | backing, reads under way | `disksize`  | the last read          |
//!
//! A block holds one slot's page, or its object as it is stored and a seal, see `seal.rs`. It belongs to
//! the slot that refers to it, and is given back by whoever takes the slot's content away, at once
//! and without touching the device. Only a read that is under way delays that, see `blocks.rs`.
//!
//! What the device returns is not trusted: an object is checked against its seal, and then goes to a
//! codec that can take any bytes, with the length and the codec that memory remembers.

use super::{
    blocks::{self, BlockMap, Group},
    fetch::{Decoder, Fetched},
    live::Codecs,
    parse,
    stats::{Counter, DeviceStats},
    writeback::Written,
    Device, //
};
use crate::kapi::{
    bdev::{BackingDev, PageIo},
    clock::RateLimit,
    disk::LiveDisk,
    gfp::Policy,
    num::{u64_to_usize, PAGE_SIZE},
    page::PageBuf,
    sysfs::Emit,
    work::Worker, //
};
use core::fmt::Write;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};

/// Reads that make progress without any memory.
const RESERVED_READS: u32 = 32;
/// Writes that do.
const RESERVED_WRITES: u32 = 4;

/// What a read that is under way refers to: it may end after the device was reset.
pub(super) struct Common {
    map: BlockMap<KVVec<Group>>,
    pub(super) stats: Arc<DeviceStats>,
    prefix: &'static str,
    number: u32,
    errors: RateLimit,
}

impl Common {
    /// Takes a free block, if there is one.
    pub(super) fn reserve(&self) -> Option<u64> {
        let number = self.map.reserve()?;
        self.stats.add(Counter::Blocks, 1);
        Some(number)
    }

    /// Gives a block back.
    ///
    /// # Context
    ///
    /// Any, interrupts off included.
    pub(super) fn release(&self, number: u64) {
        self.map.release(number);
        self.stats.add(Counter::Blocks, -1);
    }

    /// Logs a failure; not every one of a burst.
    ///
    /// # Context
    ///
    /// Any, interrupts included.
    pub(super) fn log(&self, what: &str) {
        if self.errors.allows() {
            pr_err!("{}{}: {}\n", self.prefix, self.number, what);
        }
    }
}

/// A block that is being read: given to nobody else while this exists.
pub(super) struct Reading {
    common: Arc<Common>,
    number: u64,
}

impl Reading {
    /// Returns the block's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.common.map.end_read(self.number);
    }
}

/// The backing device in use.
///
/// Fields drop in this order: the pools wait for their requests, then the decoder stops.
pub(crate) struct Backing {
    pub(super) reads: PageIo<Fetched>,
    pub(super) writes: PageIo<Written>,
    pub(super) decoder: Arc<Worker<Decoder>>,
    pub(super) common: Arc<Common>,
    /// Blocks hold objects as they are stored.
    pub(super) is_compressed: bool,
}

impl Backing {
    /// Puts a device to use for a disk of `slots` slots, none of which is on it.
    ///
    /// # Context
    ///
    /// May sleep; allocates three bits a block.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        device: &Device,
        opened: Arc<BackingDev>,
        slots: u64,
        codecs: Arc<Codecs>,
    ) -> Result<Self> {
        // No more than there can be slots for, and some that wait for the end of reads.
        let useful = slots.saturating_add(slots / 8).saturating_add(4096);
        let blocks = opened.blocks().min(useful);
        let count = u64_to_usize(blocks::groups_for(blocks));
        let mut groups = KVVec::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..count {
            groups.push(Group::new(), GFP_KERNEL)?;
        }
        let common = Common {
            map: BlockMap::new(groups, blocks),
            stats: device.stats.clone(),
            prefix: device.prefix,
            number: device.number,
            errors: RateLimit::new(),
        };
        let queue = device.shared.workqueue.clone();
        Ok(Self {
            reads: PageIo::new(opened.clone(), RESERVED_READS)?,
            writes: PageIo::new(opened, RESERVED_WRITES)?,
            decoder: Arc::pin_init(Decoder::new(queue, codecs), GFP_KERNEL)?,
            common: Arc::new(common, GFP_KERNEL)?,
            is_compressed: device.settings.is_compressed(),
        })
    }

    /// Begins to read a block. The caller holds the slot that has it.
    ///
    /// # Context
    ///
    /// Any; takes no lock.
    pub(super) fn begin_read(&self, number: u64) -> Reading {
        self.common.map.begin_read(number);
        Reading {
            common: self.common.clone(),
            number,
        }
    }
}

/// Shows the path of the backing device, or `none`.
pub(super) fn show(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let mut buffer = PageBuf::alloc(Policy::Sleep)?;
    let config = disk.config.read();
    let written = match &config.backing {
        None => out.write_str("none\n"),
        Some(opened) => {
            let path = opened.path(&mut buffer)?;
            out.write_bytes(path.to_bytes())
                .and_then(|()| out.write_str("\n"))
        }
    };
    written.map_err(|_| ENOSPC)
}

/// Attaches the block device at a path, in place of the one before.
///
/// # Context
///
/// May sleep; opens the path with no lock held, then takes the device lock.
///
/// # Errors
///
/// `EBUSY` on a device that has a size, before the path is looked at. Then what opening says: `EBUSY`
/// if somebody has the device for himself, the present one of this disk included; `ENOTBLK` for what
/// is no block device; `EINVAL` for one smaller than a page.
pub(super) fn store(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let config = disk.config.read();
    if disk.live.get(&config).is_some() {
        return Err(EBUSY);
    }
    drop(config);
    let path = parse::name(text);
    let opened = open(path).inspect_err(|e| disk.refuse("backing_dev", path, advice(*e)))?;
    let mut config = disk.config.write();
    let old = if disk.live.get(&config).is_some() {
        // Somebody gave the device a size meanwhile.
        Err(opened)
    } else {
        Ok(config.backing.replace(opened))
    };
    drop(config);
    // Closing a device takes locks of its own, so the device lock was let go first.
    old.map(drop).map_err(|opened| {
        drop(opened);
        EBUSY
    })
}

fn open(path: &[u8]) -> Result<Arc<BackingDev>> {
    if path.len() >= PAGE_SIZE {
        return Err(ENAMETOOLONG);
    }
    let mut name = KVec::with_capacity(path.len().saturating_add(1), GFP_KERNEL)?;
    name.extend_from_slice(path, GFP_KERNEL)?;
    name.push(0, GFP_KERNEL)?;
    let name = CStr::from_bytes_with_nul(&name).map_err(|_| EINVAL)?;
    let name = CString::try_from(name)?;
    Ok(Arc::new(BackingDev::open(&name)?, GFP_KERNEL)?)
}

/// Returns what the user may write instead, for an error of opening.
fn advice(e: Error) -> &'static str {
    if e == ENOTBLK {
        "a block device; of a plain file make a loop device first: losetup -f --show FILE"
    } else if e == EBUSY {
        "a block device that nobody uses: not mounted, no swap, of no other disk"
    } else if e == EINVAL {
        "a block device of at least one page"
    } else {
        "the path of a block device"
    }
}
