// SPDX-License-Identifier: GPL-2.0

//! How much may be written back, and how: settings that a reset leaves alone.
//!
//! The budget is counted in units of 4096 bytes, whatever the page size. While it is switched on, each
//! page is paid for before it is submitted. A page that is not there in the end is paid back: its
//! write failed, or its slot was used meanwhile.
//!
//! # Context
//!
//! Task context; handlers take the device lock, exclusively to write. [`Settings::charge`] and
//! [`Settings::refund`] take no lock: a pass goes on while the budget is changed.

use super::{
    parse,
    request,
    stats::Counter,
    sysfs,
    Device, //
};
use crate::kapi::{
    atomic::{AtomicBool, AtomicU32, AtomicU64},
    disk::LiveDisk,
    num::{usize_to_u64, PAGE_SIZE},
    sysfs::Emit, //
};
use core::fmt::Write;
use kernel::prelude::*;

/// Bytes of a unit.
const UNIT_BYTES: u64 = 4096;
/// Units of a page.
const PAGE_UNITS: u64 = usize_to_u64(PAGE_SIZE) / UNIT_BYTES;
/// Pages in flight until somebody sets another number.
const DEFAULT_BATCH: u32 = 32;
/// Most pages in flight, whatever was set: 4 MiB of 4 KiB pages are enough for any device.
const MAX_BATCH: u32 = 1024;

/// A device's settings for writing back.
pub(super) struct Settings {
    is_limited: AtomicBool,
    /// What is left of the budget, in units.
    left_units: AtomicU64,
    batch_pages: AtomicU32,
    is_compressed: AtomicBool,
}

/// The right to write one page back; not given back by itself.
#[must_use = "a page that is not written is paid back"]
#[derive(Clone, Copy)]
pub(super) struct Charge {
    was_limited: bool,
}

impl Settings {
    /// Returns the settings of a new device.
    pub(super) const fn new() -> Self {
        Self {
            is_limited: AtomicBool::new(false),
            left_units: AtomicU64::new(0),
            batch_pages: AtomicU32::new(DEFAULT_BATCH),
            is_compressed: AtomicBool::new(false),
        }
    }

    /// Returns whether objects go to the backing device as they are stored.
    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed.load_relaxed()
    }

    /// Returns how many pages may be in flight, at least one.
    pub(super) fn batch_pages(&self) -> u32 {
        self.batch_pages.load_relaxed().clamp(1, MAX_BATCH)
    }

    /// Pays for one page; nothing if the budget does not allow it.
    pub(super) fn charge(&self) -> Option<Charge> {
        if !self.is_limited.load_relaxed() {
            return Some(Charge { was_limited: false });
        }
        self.change(|left| left.checked_sub(PAGE_UNITS))
            .then_some(Charge { was_limited: true })
    }

    /// Pays a page back.
    pub(super) fn refund(&self, charge: Charge) {
        if charge.was_limited {
            self.change(|left| Some(left.saturating_add(PAGE_UNITS)));
        }
    }

    /// Changes what is left, unless `to` says no; returns whether it did.
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> bool {
        let mut left = self.left_units.load_relaxed();
        while let Some(new) = to(left) {
            // ORDERING: relaxed: a number that orders nothing else.
            match self.left_units.cmpxchg_relaxed(left, new) {
                Ok(_) => return true,
                Err(now) => left = now,
            }
        }
        false
    }
}

/// Returns the number that was written; whatever is wrong with it is `EINVAL`.
fn number(disk: &LiveDisk<Device>, file: &str, text: &[u8], legal: &str) -> Result<u64> {
    parse::dec(text, u64::MAX).map_err(|_| {
        disk.refuse(file, text, legal);
        EINVAL
    })
}

fn emitted(out: &mut Emit<'_>, number: u64) -> Result {
    writeln!(out, "{number}").map_err(|_| ENOSPC)
}

pub(super) fn show_limit(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let _config = disk.config.read();
    emitted(out, disk.settings.left_units.load_relaxed())
}

pub(super) fn store_limit(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let legal = "a number of 4096-byte units";
    let units = number(disk, "writeback_limit", text, legal)?;
    let _config = disk.config.write();
    // Whole pages only, where a page has several units.
    let pages = units / PAGE_UNITS;
    disk.settings
        .left_units
        .store_relaxed(pages.saturating_mul(PAGE_UNITS));
    Ok(())
}

pub(super) fn show_limit_enable(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let _config = disk.config.read();
    emitted(out, u64::from(disk.settings.is_limited.load_relaxed()))
}

pub(super) fn store_limit_enable(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let on = number(disk, "writeback_limit_enable", text, "0 or 1")?;
    let _config = disk.config.write();
    disk.settings.is_limited.store_relaxed(on != 0);
    Ok(())
}

pub(super) fn show_batch_size(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let _config = disk.config.read();
    emitted(out, u64::from(disk.settings.batch_pages.load_relaxed()))
}

pub(super) fn store_batch_size(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    const FILE: &str = "writeback_batch_size";
    const LEGAL: &str = "a number of pages, at least 1";
    let pages = request::batch_pages(text).map_err(sysfs::errno);
    let pages = pages.inspect_err(|_| disk.refuse(FILE, text, LEGAL))?;
    let _config = disk.config.write();
    disk.settings.batch_pages.store_relaxed(pages);
    Ok(())
}

pub(super) fn show_compressed(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let _config = disk.config.read();
    emitted(out, u64::from(disk.settings.is_compressed()))
}

/// # Errors
///
/// `EINVAL` for what is no truth value, then `EBUSY` on a device that has a size: what its blocks
/// hold must not change its meaning.
pub(super) fn store_compressed(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let on = parse::boolean(text).map_err(|_| {
        disk.refuse("compressed_writeback", text, "0 or 1");
        EINVAL
    })?;
    let config = disk.config.write();
    if disk.live.get(&config).is_some() {
        return Err(EBUSY);
    }
    disk.settings.is_compressed.store_relaxed(on);
    Ok(())
}

/// Shows blocks taken, read and written, in units of 4096 bytes; see `stats.rs`.
pub(super) fn show_bd_stat(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    if let Some(live) = disk.live.get(&config) {
        live.drain_all();
    }
    let units = |counter| disk.stats.sum(counter).saturating_mul(PAGE_UNITS);
    writeln!(
        out,
        "{:8} {:8} {:8}",
        units(Counter::Blocks),
        units(Counter::BlockReads),
        units(Counter::BlockWrites),
    )
    .map_err(|_| ENOSPC)
}
