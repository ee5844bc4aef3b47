// SPDX-License-Identifier: GPL-2.0

//! `rzram_stat`: every figure of a device, a line each: a key that names its unit, and a number.
//!
//! Keys keep their meaning; new ones may come. The words are those that users know from `mm_stat`.
//! Figures that hold for one codec or one size class are in debugfs.

use super::{
    lifecycle::Config,
    live::Live,
    stats::Counter,
    Device, //
};
use crate::{
    kapi::{
        disk::LiveDisk,
        num::{usize_to_u64, PAGE_SIZE},
        sysfs::Emit, //
    },
    zcomp, //
};
use core::fmt::{self, Write};
use kernel::prelude::*;

/// Prints all figures. Frees what is pending first, so that they are exact, as `mm_stat` does.
///
/// # Context
///
/// May sleep; takes the device lock, shared, and waits for running drains.
pub(super) fn show(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    let live = disk.live.get(&config);
    if let Some(live) = live {
        live.drain_all();
    }
    print(disk, &config, live.map(|live| &***live), out).map_err(|_| ENOSPC)
}

fn print(device: &Device, config: &Config, live: Option<&Live>, out: &mut Emit<'_>) -> fmt::Result {
    let stats = &device.stats;
    let pool = &stats.pool;
    let bytes = |pages: u64| pages.saturating_mul(usize_to_u64(PAGE_SIZE));
    let (linear_runs, refused_runs) = pool.linear();
    let table = live.map_or(0, |live| live.table.footprint_bytes());
    let limit = device.limit_pages.load_relaxed();
    for (key, value) in [
        ("disksize_bytes", config.disksize_bytes),
        ("orig_data_bytes", bytes(stats.sum(Counter::Stored))),
        ("compressed_bytes", stats.sum(Counter::CompressedBytes)),
        ("mem_used_bytes", bytes(pool.total_pages())),
        ("mem_used_max_bytes", bytes(pool.peak_pages())),
        ("mem_limit_bytes", bytes(limit)),
        ("mem_threshold_bytes", bytes(device.threshold.pages())),
        ("mem_threshold_events", device.threshold.sent()),
        ("table_bytes", table),
        ("pool_pages", pool.total_pages()),
        ("same_pages", stats.sum(Counter::FillPages)),
        ("huge_pages", stats.sum(Counter::RawPages)),
        ("huge_pages_since", stats.sum(Counter::RawStores)),
        ("compacted_pages", pool.compacted_pages()),
        ("backing_blocks", stats.sum(Counter::Blocks)),
        ("backing_read_blocks", stats.sum(Counter::BlockReads)),
        ("backing_written_blocks", stats.sum(Counter::BlockWrites)),
        ("linear_runs", linear_runs),
        ("refused_runs", refused_runs),
        ("failed_read_bios", stats.sum(Counter::FailedReads)),
        ("failed_write_bios", stats.sum(Counter::FailedWrites)),
        ("slow_allocations", stats.sum(Counter::SlowAllocations)),
        ("notify_free_slots", stats.slot_frees()),
        ("freed_slots", stats.sum(Counter::NotifiedPages)),
        ("pending_slots", live.map_or(0, Live::pending_slots)),
    ] {
        writeln!(out, "{key} {value}")?;
    }
    stats.drains.show(out)?;
    pool.show(out)?;
    zcomp::Stats::show_sum(&stats.codecs, out)
}
