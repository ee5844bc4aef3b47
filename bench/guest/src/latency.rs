// SPDX-License-Identifier: GPL-2.0

//! P5, P8, P11: what a task of high priority waits for behind tasks of low priority.

use std::os::unix::fs::FileExt;

use crate::clock::now_ns;
use crate::data;
use crate::data::Dataset;
use crate::data::Rng;
use crate::device::Disk;
use crate::error::failed;
use crate::error::premise;
use crate::error::Doing;
use crate::error::Result;
use crate::hist::Hist;
use crate::json::Json;
use crate::plan::Job;
use crate::sys;
use crate::sys::Map;
use crate::sys::PAGE;
use crate::team::Team;

const FRONT_NICE: i32 = -19;
const READERS_NICE: i32 = 19;
const WRITERS_NICE: i32 = 10;
/// Fewer pages paged out beside the front in a whole run are no background.
const LEAST_WRITTEN: u64 = 2000;
const WRITER_BYTES: usize = 16 << 20;
const FRONT_BYTES: usize = 4 << 20;
/// The background runs this long before the front is measured.
const LEAD_US: u64 = 1_000_000;

fn spin() -> ! {
    let mut value = 1_u64;
    loop {
        value = std::hint::black_box(value.wrapping_mul(3));
    }
}

fn spinners(count: usize) -> Result<Team> {
    Team::start(count, |_| spin())
}

/// Joins the histograms of a team, and describes them.
fn joined(results: &[Vec<u64>], limit_ns: u64, seconds: f64) -> Result<(Json, Json)> {
    let mut all = Hist::new(limit_ns);
    for words in results {
        match Hist::from_words(words, limit_ns) {
            Some(hist) => all.merge(&hist),
            None => return failed("a child sent no histogram"),
        }
    }
    let mut values = Json::object();
    all.describe(&mut values);
    values.put("iops", all.count() as f64 / seconds);
    Ok((values, all.series()))
}

/// P5: interactive readers in front of readers at nice 19 and spinners at nice 0.
pub fn readers(disk: &mut Disk, job: &Job, data: &Dataset) -> Result<Json> {
    let bytes = job.number::<u64>("mb")? << 20;
    let request = job.number::<usize>("request_kb")? << 10;
    let front = job.number_or("front", 2_usize)?;
    let behind = job.number_or("behind", 6_usize)?;
    let think_us = job.number_or("think_us", 500_u64)?;
    let seconds = job.number::<f64>("secs")?;
    let limit_ns = 2 * sys::tick_ns();
    disk.fill(job, bytes, data)?;
    let node = disk.node();
    let _spinners = spinners(job.number_or("spinners", 2_usize)?)?;
    let _behind = Team::start(behind, |member| {
        sys::set_nice(READERS_NICE).doing("nice")?;
        let file = sys::open_direct(&node).doing("opening the disk")?;
        let mut buffer = Map::shared(request).doing("a buffer")?;
        let mut rng = Rng::new(0x100 + member.index as u64);
        loop {
            let offset = rng.below(bytes / request as u64) * request as u64;
            file.read_exact_at(buffer.bytes_mut(), offset)
                .doing("reading")?;
        }
    })?;
    let mut team = Team::start(front, |member| {
        sys::set_nice(FRONT_NICE).doing("nice")?;
        let file = sys::open_direct(&node).doing("opening the disk")?;
        let mut buffer = Map::shared(PAGE).doing("a buffer")?;
        let mut rng = Rng::new(0x200 + member.index as u64);
        let mut hist = Hist::new(limit_ns);
        member.ready_and_wait()?;
        let end = now_ns() + (seconds * 1e9) as u64;
        loop {
            let offset = rng.below(bytes / PAGE as u64) * PAGE as u64;
            let begin = now_ns();
            file.read_exact_at(buffer.bytes_mut(), offset)
                .doing("reading")?;
            let now = now_ns();
            hist.add(now - begin);
            if now >= end {
                return Ok(hist.to_words());
            }
            sys::sleep_us(think_us);
        }
    })?;
    team.wait_ready()?;
    sys::sleep_us(LEAD_US);
    team.go()?;
    let (values, series) = joined(&team.collect()?, limit_ns, seconds)?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", disk.premises())
        .with("debug", disk.debug_figures())
        .with("histogram", series))
}

/// What the front does: P8 reads back, P11 stores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// Faults pages in, in bursts of eight.
    Loads,
    /// Pages out one page at a time.
    Stores,
}

fn front_pass(map: &mut Map, front: Front, end: u64, hist: &mut Hist) -> Result<()> {
    let pages = FRONT_BYTES / PAGE;
    if front == Front::Loads {
        map.page_out(0, pages).doing("paging out")?;
        let out = map.pages_out().doing("counting pages")?;
        if out * 10 < pages * 9 {
            return premise(format!(
                "only {out} of {pages} pages of the reader went out"
            ));
        }
    }
    for page in 0..pages {
        match front {
            Front::Loads => {
                let begin = now_ns();
                map.touch(page);
                hist.add(now_ns() - begin);
            }
            Front::Stores => {
                map.store(page, now_ns());
                let begin = now_ns();
                map.page_out(page, 1).doing("paging out")?;
                hist.add(now_ns() - begin);
            }
        }
        if now_ns() >= end {
            break;
        }
        if page % 8 == 0 {
            sys::sleep_us(300);
        }
    }
    Ok(())
}

/// P8, P11: a reader or storer at nice -19 among tasks at nice 10 that page out and back.
pub fn swapping(disk: &mut Disk, job: &Job, front: Front) -> Result<Json> {
    let writers = job.number::<usize>("writers")?;
    let fronts = job.number::<usize>("fronts")?;
    let seconds = job.number::<f64>("secs")?;
    let limit_ns = 2 * sys::tick_ns();
    let total = writers * WRITER_BYTES + fronts * FRONT_BYTES;
    std::fs::write("/proc/sys/vm/page-cluster", "0").doing("page-cluster")?;
    disk.swap_on(job, (2 * total + (16 << 20)) as u64)?;
    let background = Team::start(writers, |_| {
        sys::set_nice(WRITERS_NICE).doing("nice")?;
        let mut map = Map::private(WRITER_BYTES).doing("memory")?;
        data::fill_swap_pages(map.bytes_mut(), true);
        loop {
            map.page_out(0, WRITER_BYTES / PAGE).doing("paging out")?;
            for page in 0..WRITER_BYTES / PAGE {
                map.touch(page);
            }
        }
    })?;
    let spinners = spinners(job.number::<usize>("spinners")?)?;
    sys::sleep_us(LEAD_US);
    let mut team = Team::start(fronts, |member| {
        sys::set_nice(FRONT_NICE).doing("nice")?;
        let mut map = Map::private(FRONT_BYTES).doing("memory")?;
        data::fill_swap_pages(map.bytes_mut(), true);
        let mut hist = Hist::new(limit_ns);
        member.ready_and_wait()?;
        let end = now_ns() + (seconds * 1e9) as u64;
        while now_ns() < end {
            front_pass(&mut map, front, end, &mut hist)?;
        }
        Ok(hist.to_words())
    })?;
    team.wait_ready()?;
    disk.swap_used()?;
    let before = written_pages()?;
    team.go()?;
    let (values, series) = joined(&team.collect()?, limit_ns, seconds)?;
    let written = written_pages()?.saturating_sub(before);
    // The background must have paged out for real, or there was nothing to wait for.
    if written < LEAST_WRITTEN {
        return premise(format!(
            "only {written} pages were paged out beside the front"
        ));
    }
    let used = disk.swap_used()?;
    let premises = disk
        .premises()
        .with("swap_used", used)
        .with("pages_written", written);
    let debug = disk.debug_figures();
    drop((background, spinners));
    disk.reset()?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises)
        .with("debug", debug)
        .with("histogram", series))
}

/// Returns the pages that swap has written since the boot, to whatever area is in use.
fn written_pages() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").doing("/proc/vmstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("pswpout "));
    match line.and_then(|word| word.trim().parse().ok()) {
        Some(pages) => Ok(pages),
        None => failed("/proc/vmstat lacks pswpout"),
    }
}
