// SPDX-License-Identifier: GPL-2.0

//! A device's states and what moves it from one to the next.
//!
//! Everything here may sleep and takes the device lock. A transition builds or parses first, locks
//! second, and either completes or leaves the device as it was.

use super::{
    backing::Backing,
    choice::{self, Choices},
    live::{Live, Running, PRIORITIES},
    request,
    sysfs,
    table::{Table, MAX_SLOTS},
    Device, //
};
use crate::kapi::{
    bdev::BackingDev,
    disk::LiveDisk,
    num::{PAGE_SHIFT, SECTOR_SHIFT},
    once::ExclusiveProof, //
};
use kernel::{prelude::*, sync::Arc};

/// What the user configured. Guarded by the device lock.
pub(crate) struct Config {
    /// Size of the disk in bytes; 0 while the device is new.
    pub(crate) disksize_bytes: u64,
    /// Codecs by priority; the first is always chosen.
    pub(crate) choices: Choices,
    /// The backing device, if one is attached.
    pub(crate) backing: Option<Arc<BackingDev>>,
}

impl Config {
    /// Returns what a new device has.
    pub(crate) fn new() -> Self {
        Self {
            disksize_bytes: 0,
            choices: choice::defaults(),
            backing: None,
        }
    }
}

/// Gives a new device a size: from new to live.
///
/// # Context
///
/// May sleep; takes the device lock; allocates table root, pool and streams before anything of
/// them is visible.
///
/// # Errors
///
/// `EINVAL` for a size of nothing or one that wraps, `EBUSY` on a live device, `ENOMEM` if it is
/// larger than the slot table can be or memory is short, or what the codec says of its parameters.
/// The configuration is kept in every case.
pub(super) fn set_disksize(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let bytes = request::disk_bytes(text).map_err(sysfs::errno);
    let bytes = bytes.inspect_err(|_| {
        disk.refuse("disksize", text, "a size such as 512M or 2G");
    })?;
    let mut config = disk.config.write();
    if disk.live.get(&config).is_some() {
        return Err(EBUSY);
    }
    let slots = bytes >> PAGE_SHIFT;
    if slots > MAX_SLOTS {
        disk.refuse("disksize", text, "at most 16T less 4K");
        return Err(ENOMEM);
    }
    let live = build(disk, &config, slots)?;
    // Absence was checked under this very lock.
    let published = disk.live.publish(live, disk.disk(), &mut config);
    published.map_err(|_| EBUSY)?;
    config.disksize_bytes = bytes;
    disk.disk().set_capacity_and_notify(bytes >> SECTOR_SHIFT);
    Ok(())
}

fn build(device: &Device, config: &Config, slots: u64) -> Result<KBox<Running>> {
    let mut codecs = [const { None }; PRIORITIES];
    for (priority, (codec, choice)) in codecs.iter_mut().zip(&config.choices).enumerate() {
        if let Some(choice) = choice {
            *codec = Some(device.open_codec(priority, choice)?);
        }
    }
    let codecs = Arc::new(codecs, GFP_KERNEL)?;
    let backing = match &config.backing {
        Some(opened) => Some(Backing::new(device, opened.clone(), slots, codecs.clone())?),
        None => None,
    };
    Live::start(device, Table::new(slots)?, codecs, backing)
}

/// Brings the device back to new: `reset`.
///
/// On a device that was never given a size there is nothing to reset but the configuration, so
/// that succeeds whoever has it open.
///
/// # Context
///
/// May sleep; takes the disk's open lock for a moment, then the device lock.
///
/// # Errors
///
/// `EINVAL` and `ERANGE` for the text, `EBUSY` while the disk is open or being reset.
pub(super) fn reset(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let asked = request::reset(text).map_err(sysfs::errno);
    asked.inspect_err(|_| disk.refuse("reset", text, "1"))?;
    if reset_new(disk) {
        return Ok(());
    }
    let claim = disk.disk().claim()?;
    // The error of a failed write-back is nobody's any more: the data goes.
    let _ = disk.disk().sync();
    tear_down(disk, &claim);
    Ok(())
}

/// Reverts the configuration of a device that is not live; returns whether that was all.
fn reset_new(disk: &LiveDisk<Device>) -> bool {
    let mut config = disk.config.write();
    if disk.live.get(&config).is_some() {
        return false;
    }
    let old = forget(disk, &mut config);
    drop(config);
    drop(old);
    true
}

/// Reverts the configuration and returns the old one, which is dropped after the device lock: closing
/// a backing device takes locks of its own.
#[must_use]
fn forget(device: &Device, config: &mut Config) -> Config {
    device.limit_pages.store_relaxed(0);
    device.threshold.forget();
    device.policy.reset();
    device.stats.reset();
    core::mem::replace(config, Config::new())
}

/// From live to new, for whoever has proof that no request and no notify can come.
///
/// # Context
///
/// May sleep; ends the post-processing pass that may be under way; takes the device lock; frees the
/// pool under it.
pub(super) fn tear_down(disk: &LiveDisk<Device>, proof: &impl ExclusiveProof) {
    let _halted = disk.post.halt();
    let mut config = disk.config.write();
    let live = disk.live.retire(proof, &mut config);
    if live.is_some() {
        disk.disk().set_capacity_and_notify(0);
        disk.disk().clear_stats(proof);
    }
    // Pool and streams go first: freeing them moves counters, which are zeroed after.
    drop(live);
    let old = forget(disk, &mut config);
    drop(config);
    drop(old);
}
