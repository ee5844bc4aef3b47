// SPDX-License-Identifier: GPL-2.0

//! P7, P9: how much memory stored pages take, and an empty disk of 100 GB.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::clock::ms_between;
use crate::clock::now_ns;
use crate::data::Dataset;
use crate::data::Rng;
use crate::device::Disk;
use crate::device::Kind;
use crate::error::failed;
use crate::error::premise;
use crate::error::Doing;
use crate::error::Error;
use crate::error::Result;
use crate::json::Json;
use crate::plan::Job;
use crate::proc;
use crate::sys;
use crate::sys::PAGE;

/// Pool and compressed bytes at one moment.
struct Density {
    stored: u64,
    compressed: u64,
    pool: u64,
}

impl Density {
    fn read(disk: &Disk) -> Result<Self> {
        let fields = disk.mm_stat()?;
        let [stored, compressed, pool, ..] = *fields.as_slice() else {
            return failed("mm_stat has fewer than three fields");
        };
        if compressed == 0 {
            return premise("nothing is stored");
        }
        Ok(Self {
            stored,
            compressed,
            pool,
        })
    }

    fn ratio(&self) -> f64 {
        self.pool as f64 / self.compressed as f64
    }
}

/// Overwrites and discards random pages, twice as many as the disk has.
fn churn(disk: &Disk, bytes: u64, data: &Dataset) -> Result<()> {
    let file = sys::open_direct(&disk.node()).doing("opening the disk")?;
    let pages = bytes / PAGE as u64;
    let mut rng = Rng::new(0xc0ffee);
    for _ in 0..2 * pages {
        let place = rng.below(pages) * PAGE as u64;
        if rng.below(4) == 0 {
            sys::discard(&file, place, PAGE as u64).doing("discarding")?;
        } else {
            let source = rng.below(pages) * PAGE as u64;
            file.write_all_at(data.at(source, PAGE), place)
                .doing("writing")?;
        }
    }
    Ok(())
}

/// Bytes taken outside the pool for each stored page, by the free memory of the whole guest.
fn outside(free_before: u64, density: &Density) -> Result<f64> {
    proc::drop_caches()?;
    let taken = free_before as f64 - proc::unused_bytes()? as f64;
    Ok((taken - density.pool as f64) / (density.stored / PAGE as u64).max(1) as f64)
}

/// P7: pool bytes / compressed bytes, fresh, after churn, and after `compact`.
pub fn density(disk: &mut Disk, job: &Job, data: &Dataset) -> Result<Json> {
    let bytes = job.number::<u64>("mb")? << 20;
    disk.reset()?;
    disk.prepare(job)?;
    proc::drop_caches()?;
    let free_before = proc::unused_bytes()?;
    disk.fill(job, bytes, data)?;
    let fresh = Density::read(disk)?;
    let mut values = Json::object()
        .with("fresh", fresh.ratio())
        .with("outside_bytes", outside(free_before, &fresh)?)
        .with("stored_mb", fresh.stored as f64 / 1048576.0)
        .with("compressed_mb", fresh.compressed as f64 / 1048576.0)
        .with("pool_mb", fresh.pool as f64 / 1048576.0)
        .with("total_ratio", fresh.stored as f64 / fresh.pool as f64);
    let premises = disk.premises();
    disk.forget_data();
    churn(disk, bytes, data)?;
    let churned = Density::read(disk)?;
    let begin = now_ns();
    fs::write(disk.attribute("compact"), "1").doing("compact")?;
    values.put("compact_ms", ms_between(begin, now_ns()));
    let compacted = Density::read(disk)?;
    values.put("churned", churned.ratio());
    values.put("compacted", compacted.ratio());
    let debug = disk.debug_figures();
    disk.reset()?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises)
        .with("debug", debug))
}

/// P9: a disk far larger than memory: what it takes, and the times of its life.
pub fn huge(disk: &mut Disk, job: &Job) -> Result<Json> {
    let bytes = job.number::<u64>("gb")? << 30;
    if disk.kind() == Kind::Ram {
        return Err(Error::Absent("a RAM disk has no table".to_owned()));
    }
    disk.reset()?;
    disk.prepare(job)?;
    proc::drop_caches()?;
    let free = proc::unused_bytes()?;
    let begin = now_ns();
    disk.set_size(job, bytes)?;
    let sized = now_ns();
    let taken = free as f64 - proc::unused_bytes()? as f64;
    disk.check_shape()?;
    let premises = disk.premises();
    let file = sys::open_direct(&disk.node()).doing("opening the disk")?;
    let discard = now_ns();
    sys::discard(&file, 0, bytes).doing("discarding all")?;
    let discarded = now_ns();
    drop(file);
    let reset = now_ns();
    disk.reset()?;
    let end = now_ns();
    let values = Json::object()
        .with("taken_mib", taken / 1048576.0)
        .with("disksize_ms", ms_between(begin, sized))
        .with("discard_ms", ms_between(discard, discarded))
        .with("reset_ms", ms_between(reset, end));
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises))
}
