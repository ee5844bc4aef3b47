// SPDX-License-Identifier: GPL-2.0

//! The control files of a disk, one row each, and the words and formats that users know from zram.
//!
//! Names of the ABI are translated to rzram's words here and nowhere else: `huge` is raw, `same`
//! is fill, `algo` is codec. A refused write leaves the device unchanged and one log line that
//! names the rejected word and the legal ones.
//!
//! # Context
//!
//! Task context; handlers may sleep. They take the device lock, shared or exclusive as each needs,
//! and `recompress` the post-processing turn outside of it; none is ever taken by the I/O path.

use super::{
    auto,
    backing,
    budget,
    choice,
    figures,
    idle,
    lifecycle,
    parse::{self, ParseError},
    recompress,
    request,
    stats::Counter,
    threshold::Threshold,
    writeback,
    Device, //
};
use crate::kapi::{
    disk::LiveDisk,
    num::{usize_to_u64, PAGE_SIZE},
    percpu,
    sysfs::{attributes, Emit}, //
};
use core::fmt::Write;
use kernel::prelude::*;

attributes! {
    /// The files of `/sys/block/rzramN`.
    pub(super) static ATTRIBUTES: Device = [
        Row::rw(c"disksize", show_disksize, lifecycle::set_disksize),
        Row::ro(c"initstate", show_initstate),
        Row::wo(c"reset", lifecycle::reset),
        Row::wo(c"compact", store_compact),
        Row::wo(c"mem_limit", store_mem_limit),
        Row::wo(c"mem_used_max", store_mem_used_max),
        Row::rw(c"mem_threshold", show_mem_threshold, store_mem_threshold),
        Row::rw(
            c"comp_algorithm",
            choice::show_comp_algorithm,
            choice::store_comp_algorithm,
        ),
        Row::rw(
            c"recomp_algorithm",
            choice::show_recomp_algorithm,
            choice::store_recomp_algorithm,
        ),
        Row::wo(c"algorithm_params", choice::store_algorithm_params),
        Row::wo(c"idle", idle::store),
        Row::wo(c"recompress", recompress::store),
        Row::rw(c"backing_dev", backing::show, backing::store),
        Row::wo(c"writeback", writeback::store),
        Row::rw(c"writeback_limit", budget::show_limit, budget::store_limit),
        Row::rw(
            c"writeback_limit_enable",
            budget::show_limit_enable,
            budget::store_limit_enable,
        ),
        Row::rw(
            c"writeback_batch_size",
            budget::show_batch_size,
            budget::store_batch_size,
        ),
        Row::rw(
            c"compressed_writeback",
            budget::show_compressed,
            budget::store_compressed,
        ),
        Row::ro(c"bd_stat", budget::show_bd_stat),
        Row::rw(
            c"auto_idle_seconds",
            auto::show_idle_seconds,
            auto::store_idle_seconds,
        ),
        Row::rw(
            c"auto_recompress",
            auto::show_recompress,
            auto::store_recompress,
        ),
        Row::rw(c"auto_writeback", auto::show_writeback, auto::store_writeback),
        Row::ro(c"io_stat", show_io_stat),
        Row::ro(c"mm_stat", show_mm_stat),
        Row::ro(c"debug_stat", show_debug_stat),
        Row::ro(c"rzram_stat", figures::show),
        Row::ro(c"last_error", show_last_error),
    ];
}

attributes! {
    /// The files of `/sys/block/zramN`: those above, and what tools from before zram 4.7 look for.
    pub(super) static COMPAT_ATTRIBUTES: Device = ATTRIBUTES + [
        Row::rw(
            c"max_comp_streams",
            show_max_comp_streams,
            store_max_comp_streams,
        ),
    ];
}

/// Returns the errno a user sees for a text that was refused.
pub(crate) fn errno(e: ParseError) -> Error {
    match e {
        ParseError::Malformed => EINVAL,
        ParseError::OutOfRange => ERANGE,
    }
}

/// What is written too long to fit is cut by the page; that is no error of the reader's.
fn emitted(result: core::fmt::Result) -> Result {
    result.map_err(|_| ENOSPC)
}

fn show_disksize(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    emitted(writeln!(out, "{}", disk.config.read().disksize_bytes))
}

fn show_initstate(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    let live = u8::from(disk.live.get(&config).is_some());
    emitted(writeln!(out, "{live}"))
}

/// Compacts the pool. What is written does not matter, as long as it is something.
fn store_compact(disk: &LiveDisk<Device>, _text: &[u8]) -> Result {
    let config = disk.config.read();
    let live = disk.live.get(&config).ok_or(EINVAL)?;
    live.compact();
    Ok(())
}

fn store_mem_limit(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let pages = size_limit(disk, "mem_limit", text)?;
    let _config = disk.config.write();
    disk.limit_pages.store_relaxed(pages);
    Ok(())
}

/// Returns a size in pages, rounded up.
fn size_limit(disk: &LiveDisk<Device>, file: &str, text: &[u8]) -> Result<u64> {
    let pages = request::limit_pages(text).map_err(errno);
    pages.inspect_err(|_| disk.refuse(file, text, "a size such as 512M, or 0 for none"))
}

fn show_mem_threshold(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let bytes = disk
        .threshold
        .pages()
        .saturating_mul(usize_to_u64(PAGE_SIZE));
    emitted(writeln!(out, "{bytes}"))
}

fn store_mem_threshold(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let pages = size_limit(disk, "mem_threshold", text)?;
    let _config = disk.config.write();
    Threshold::set(&disk.threshold, pages);
    Ok(())
}

fn store_mem_used_max(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let asked = request::zero(text).map_err(errno);
    asked.inspect_err(|_| disk.refuse("mem_used_max", text, "0"))?;
    let config = disk.config.read();
    if disk.live.get(&config).is_some() {
        disk.stats.pool.restart_peak();
    }
    Ok(())
}

fn show_io_stat(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    if let Some(live) = disk.live.get(&config) {
        live.drain_all();
    }
    let stats = &disk.stats;
    emitted(writeln!(
        out,
        "{:8} {:8} 0 {:8}",
        stats.sum(Counter::FailedReads),
        stats.sum(Counter::FailedWrites),
        stats.slot_frees(),
    ))
}

fn show_mm_stat(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    if let Some(live) = disk.live.get(&config) {
        live.drain_all();
    }
    let stats = &disk.stats;
    let page = usize_to_u64(PAGE_SIZE);
    let bytes = |pages: u64| pages.saturating_mul(page);
    emitted(writeln!(
        out,
        "{:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8}",
        bytes(stats.sum(Counter::Stored)),
        stats.sum(Counter::CompressedBytes),
        bytes(stats.pool.total_pages()),
        bytes(disk.limit_pages.load_relaxed()),
        bytes(stats.pool.peak_pages()),
        stats.sum(Counter::FillPages),
        stats.pool.compacted_pages(),
        stats.sum(Counter::RawPages),
        stats.sum(Counter::RawStores),
    ))
}

/// The second number of the second line counted slot-free calls that had to give up. None does.
fn show_debug_stat(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let _config = disk.config.read();
    emitted(writeln!(out, "version: 1\n0 {:8}", 0))
}

fn show_last_error(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    disk.refusals.show(out)
}

/// There has been one stream a CPU since zram 4.7, and reading says so.
fn show_max_comp_streams(_disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    emitted(writeln!(out, "{}", percpu::nr_online()))
}

/// Any positive number is taken, and none has an effect.
fn store_max_comp_streams(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    match parse::dec_i32(text) {
        Ok(1..) => Ok(()),
        _ => {
            disk.refuse(
                "max_comp_streams",
                text,
                "a number above 0; it has no effect",
            );
            Err(EINVAL)
        }
    }
}
