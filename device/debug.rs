// SPDX-License-Identifier: GPL-2.0

//! A disk's files in debugfs: figures for those who measure, which users need not know.
//!
//! | file          | what                                                                         |
//! |---------------|------------------------------------------------------------------------------|
//! | `block_state` | every slot that holds something, a line each; see `block_state.rs`           |
//! | `pool_pages`  | pages the pool holds at this moment; unlike `mm_stat` it drains nothing      |
//! | `drains`      | pending slots, drains by cause, longest time a free was pending              |
//! | `streams`     | contention on the streams, by codec priority                                 |
//! | `classes`     | the pool's size classes                                                      |
//! | `table`       | bytes of the slot table                                                      |
//!
//! # Context
//!
//! Task context; may sleep. `block_state`, `classes` and `table` take the device lock, shared.

use super::{
    live::Live,
    stats::Counter,
    Device, //
};
use crate::kapi::debugfs::{Dir, Entry};
use core::fmt;
use kernel::{prelude::*, sync::Arc};

/// The files of one disk; they go when this is dropped, which waits for their readers.
pub(crate) struct DebugFiles {
    _files: KVec<Entry>,
    _dir: Dir,
}

impl DebugFiles {
    /// Creates the files of `device` in a directory `name` under `root`.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(root: &Dir, name: &CStr, device: &Arc<Device>) -> Result<Self> {
        let dir = root.subdir(name);
        let mut files = KVec::new();
        let mut add = |file| -> Result { Ok(files.push(file, GFP_KERNEL)?) };
        add(dir.records(c"block_state", device.clone())?)?;
        add(dir.text(c"pool_pages", device.clone(), &show_pool_pages)?)?;
        add(dir.text(c"drains", device.clone(), &show_drains)?)?;
        add(dir.text(c"streams", device.clone(), &show_streams)?)?;
        add(dir.text(c"classes", device.clone(), &show_classes)?)?;
        add(dir.text(c"table", device.clone(), &show_table)?)?;
        Ok(Self {
            _files: files,
            _dir: dir,
        })
    }
}

fn show_pool_pages(device: &Arc<Device>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "{}", device.stats.pool.total_pages())
}

fn show_drains(device: &Arc<Device>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let stats = &device.stats;
    let config = device.config.read();
    let pending = device
        .live
        .get(&config)
        .map_or(0, |live| live.pending_slots());
    drop(config);
    writeln!(out, "pending_slots {pending}")?;
    writeln!(out, "freed_slots {}", stats.sum(Counter::NotifiedPages))?;
    device.stats.drains.show(out)?;
    stats.pool.show(out)
}

fn show_streams(device: &Arc<Device>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (priority, codec) in device.stats.codecs.iter().enumerate() {
        writeln!(out, "priority {priority}")?;
        codec.show(out)?;
    }
    writeln!(
        out,
        "slow_allocations {}",
        device.stats.sum(Counter::SlowAllocations)
    )
}

/// Prints something of a device that has a size; nothing of one that has none.
fn with_live(device: &Device, print: impl FnOnce(&Live) -> fmt::Result) -> fmt::Result {
    let config = device.config.read();
    match device.live.get(&config) {
        Some(live) => print(live),
        None => Ok(()),
    }
}

fn show_classes(device: &Arc<Device>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_live(device, |live| {
        let (linear, scattered) = device.stats.pool.linear();
        live.pool.write_classes(out)?;
        writeln!(out, "linear_runs {linear}\nrefused_runs {scattered}")
    })
}

fn show_table(device: &Arc<Device>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_live(device, |live| {
        writeln!(out, "table_bytes {}", live.table.footprint_bytes())
    })
}
