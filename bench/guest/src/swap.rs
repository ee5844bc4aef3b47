// SPDX-License-Identifier: GPL-2.0

//! P1, P2, P3: how long unmapping a swapped-out area takes, when its memory comes back, what it
//! costs altogether, and what an innocent process feels of it.

use crate::clock::ms_between;
use crate::clock::now_ns;
use crate::data;
use crate::device::Disk;
use crate::device::Kind;
use crate::error::premise;
use crate::error::Doing;
use crate::error::Result;
use crate::json::Json;
use crate::plan::Job;
use crate::proc;
use crate::sys;
use crate::sys::Map;
use crate::sys::PAGE;
use crate::team::Member;
use crate::team::Team;

/// A page-out that leaves more than one page in a hundred in memory is tried again this often.
const TRIES: usize = 4;
/// How long P3 waits for the pool to become empty.
const LONGEST_RETURN_NS: u64 = 10_000_000_000;
/// After the last page came back, the workers get this long to finish what they do.
const SETTLE_US: u64 = 60_000;
/// Two readings of the clock that lie further apart had somebody else between them.
const LEAST_GAP_NS: u64 = 1000;

/// Fills private memory and pages it out; returns it with the number of pages that are out.
pub fn paged_out(bytes: usize) -> Result<(Map, usize)> {
    let mut map = Map::private(bytes).doing("memory to page out")?;
    data::fill_swap_pages(map.bytes_mut(), false);
    let pages = bytes / PAGE;
    let mut out = 0;
    for _ in 0..TRIES {
        map.page_out(0, pages).doing("paging out")?;
        out = map.pages_out().doing("counting pages")?;
        if out * 100 >= pages * 99 {
            return Ok((map, out));
        }
    }
    premise(format!("only {out} of {pages} pages went out"))
}

/// The measured part of P1 to P3: returns wall time, processor time, and pages that were out.
fn unmapper(member: &mut Member, bytes: usize, pin: bool, stay_us: u64) -> Result<Vec<u64>> {
    if pin {
        sys::pin(member.index % sys::cpus()).doing("binding to a CPU")?;
    }
    let (map, out) = paged_out(bytes)?;
    member.ready_and_wait()?;
    let (cpu, begin) = (sys::thread_cpu_ns(), now_ns());
    map.unmap().doing("munmap")?;
    let (end, cpu_end) = (now_ns(), sys::thread_cpu_ns());
    if stay_us > 0 {
        // The end of this process would be counted with its work.
        sys::sleep_us(stay_us);
    }
    Ok(vec![begin, end, cpu_end - cpu, out as u64])
}

/// Proves that what is about to be unmapped really is on the disk and not in the swap cache.
fn check_out(disk: &Disk, bytes: usize) -> Result<u64> {
    let used = disk.swap_used()?;
    let bytes = bytes as u64;
    if used < bytes / 100 * 98 {
        return premise(format!("{used} bytes of swap are used, not {bytes}"));
    }
    let cached = proc::meminfo("SwapCached")?;
    if cached > bytes / 50 {
        return premise(format!("{cached} bytes are still in the swap cache"));
    }
    if disk.kind() != Kind::Ram {
        let stored = disk.mm_stat()?.first().copied().unwrap_or(0);
        if stored < bytes / 100 * 98 {
            return premise(format!("the disk stores {stored} bytes, not {bytes}"));
        }
    }
    Ok(used)
}

/// P1, P2: `procs` processes unmap `mb` MiB each at the same time.
pub fn munmap(disk: &mut Disk, job: &Job) -> Result<Json> {
    let bytes = job.number::<usize>("mb")? << 20;
    let procs = job.number_or("procs", 1_usize)?;
    let pin = job.number_or("pin", 0_u32)? != 0;
    let total = bytes * procs;
    disk.swap_on(job, (total + total / 8 + (16 << 20)) as u64)?;
    let mut team = Team::start(procs, |member| unmapper(member, bytes, pin, 0))?;
    team.wait_ready()?;
    let used = check_out(disk, total)?;
    let premises = disk.premises().with("swap_used", used);
    team.go()?;
    let results = team.collect()?;
    let times: Vec<f64> = results
        .iter()
        .map(|words| ms_between(words[0], words[1]))
        .collect();
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let out: u64 = results.iter().map(|words| words[3]).sum();
    // Where the processes did not overlap, two of them measured one.
    let first_end = results.iter().map(|words| words[1]).min().unwrap_or(0);
    let last_begin = results.iter().map(|words| words[0]).max().unwrap_or(0);
    let overlap = ms_between(last_begin, first_end) / slowest.max(1e-9);
    let values = Json::object()
        .with("munmap_ms", slowest)
        .with("mean_ms", times.iter().sum::<f64>() / procs as f64)
        .with(
            "cpu_ms",
            results.iter().map(|words| words[2]).sum::<u64>() as f64 / 1e6,
        )
        .with("overlap", overlap);
    disk.reset()?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises.with("pages_out", out)))
}

/// Pool size and free memory since the start of munmap.
struct Samples {
    at_ns: Vec<u64>,
    pages: Vec<u64>,
    free: Vec<u64>,
}

impl Samples {
    fn take(disk: &Disk, full: u64, interval_us: u64) -> Result<Self> {
        let mut all = Self {
            at_ns: Vec::new(),
            pages: Vec::new(),
            free: Vec::new(),
        };
        let pool = disk.pool_pages()?;
        let start = now_ns();
        let mut settled = None;
        loop {
            let pages = pool.read()?;
            let now = now_ns();
            all.at_ns.push(now);
            all.pages.push(pages);
            all.free.push(sys::free_bytes());
            if pages * 100 <= full && settled.is_none() {
                settled = Some(now);
            }
            let long = settled.is_some_and(|at| now - at > SETTLE_US * 1000);
            if long || now - start > LONGEST_RETURN_NS {
                return Ok(all);
            }
            sys::sleep_us(if settled.is_some() { 2000 } else { interval_us });
        }
    }

    /// Returns when the pool had given back the share `part` of `full`, since `begin`.
    fn returned_ms(&self, full: u64, part: f64, begin: u64) -> Option<f64> {
        let left = full as f64 * (1.0 - part);
        let found = self.pages.iter().position(|pages| *pages as f64 <= left)?;
        self.at_ns.get(found).map(|at| ms_between(begin, *at))
    }

    /// Returns at most about 200 points: milliseconds, pool pages, free bytes.
    fn series(&self, begin: u64) -> Json {
        let step = (self.at_ns.len() / 200).max(1);
        let points = (0..self.at_ns.len()).step_by(step).map(|index| {
            Json::from(vec![
                ms_between(begin, self.at_ns[index]),
                self.pages[index] as f64,
                self.free[index] as f64,
            ])
        });
        Json::List(points.collect())
    }
}

/// P3: the pool's size against time from the start of munmap, and processor time altogether.
pub fn memory_return(disk: &mut Disk, job: &Job) -> Result<Json> {
    let bytes = job.number::<usize>("mb")? << 20;
    let interval_us = job.number_or("interval_us", 250)?;
    disk.swap_on(job, (bytes + bytes / 8 + (16 << 20)) as u64)?;
    let mut team = Team::start(1, |member| unmapper(member, bytes, false, 0))?;
    team.wait_ready()?;
    let used = check_out(disk, bytes)?;
    let pool = disk.pool_pages()?;
    let full = pool.read()?;
    let mut premises = disk
        .premises()
        .with("swap_used", used)
        .with("pool_pages", full);
    premises.put("pool_read_drains", u64::from(pool.draining));
    // What the page-out left for later must not be counted.
    sys::sleep_us(SETTLE_US);
    sys::set_nice(-20).doing("raising the sampler's priority")?;
    let workers = proc::workers_cpu_ns()?;
    team.go()?;
    let samples = Samples::take(disk, full, interval_us);
    sys::set_nice(0).doing("restoring the priority")?;
    let samples = samples?;
    let workers = proc::workers_cpu_ns()?.saturating_sub(workers);
    let results = team.collect()?;
    let words = &results[0];
    let mut values = Json::object().with("munmap_ms", ms_between(words[0], words[1]));
    for (name, part) in [("t50_ms", 0.5), ("t90_ms", 0.9), ("t99_ms", 0.99)] {
        match samples.returned_ms(full, part, words[0]) {
            Some(ms) => values.put(name, ms),
            None => return premise(format!("the pool never gave back {part} of {full} pages")),
        }
    }
    values.put("task_cpu_ms", words[2] as f64 / 1e6);
    values.put("workers_cpu_ms", workers as f64 / 1e6);
    values.put("cpu_ms", (words[2] + workers) as f64 / 1e6);
    let free = samples.free.first().zip(samples.free.last());
    let freed = free.map_or(0.0, |(first, last)| *last as f64 - *first as f64);
    values.put("freed_mb", freed / 1048576.0);
    disk.reset()?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises)
        .with("series", samples.series(words[0])))
}

/// Counts units of work until a deadline; a unit is some 20 us of arithmetic.
fn units_until(end: u64) -> (u64, u64) {
    let (mut units, mut longest, mut last) = (0, 0, now_ns());
    let mut value = 1_u64;
    loop {
        for _ in 0..8000 {
            value = std::hint::black_box(value.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x55);
        }
        let now = now_ns();
        longest = longest.max(now - last);
        last = now;
        units += 1;
        if now >= end {
            return (units, longest);
        }
    }
}

/// P3, isolation: `innocents` processes compute while another one unmaps `mb` MiB.
///
/// Each tells how much of a window it lost, against what it did alone right before.
pub fn isolation(disk: &mut Disk, job: &Job) -> Result<Json> {
    let bytes = job.number::<usize>("mb")? << 20;
    let innocents = job.number_or("innocents", 1_usize)?;
    let window_ns = job.number_or("window_ms", 200_u64)? * 1_000_000;
    disk.swap_on(job, (bytes + bytes / 8 + (16 << 20)) as u64)?;
    let mut task = Team::start(1, |member| unmapper(member, bytes, false, 0))?;
    task.wait_ready()?;
    let used = check_out(disk, bytes)?;
    let premises = disk.premises().with("swap_used", used);
    let mut team = Team::start(innocents, |member| {
        member.ready_and_wait()?;
        let begin = now_ns();
        let (alone, _) = units_until(begin + window_ns);
        let (beside, gap) = units_until(begin + 2 * window_ns);
        Ok(vec![alone, beside, gap])
    })?;
    team.wait_ready()?;
    team.go()?;
    let begin = now_ns();
    sys::sleep_us(window_ns / 1000);
    let late = ms_between(begin + window_ns, now_ns());
    task.go()?;
    let results = team.collect()?;
    let words = task.collect()?;
    let window_ms = window_ns as f64 / 1e6;
    let lost = |words: &Vec<u64>| (1.0 - words[1] as f64 / words[0].max(1) as f64) * window_ms;
    let gap = results.iter().map(|words| words[2]).max().unwrap_or(0);
    let values = Json::object()
        .with("lost_ms", results.iter().map(lost).sum::<f64>())
        .with("gap_ms", gap as f64 / 1e6)
        .with("munmap_ms", ms_between(words[0][0], words[0][1]))
        .with("late_ms", late);
    disk.reset()?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises))
}

/// Spins until a deadline and returns how long somebody else had the CPU.
fn stolen_until(end: u64) -> u64 {
    let (mut stolen, mut last) = (0, now_ns());
    while last < end {
        let now = now_ns();
        if now - last > LEAST_GAP_NS {
            stolen += now - last;
        }
        last = now;
    }
    stolen
}

/// P3, cost: the processor time of the task and of all kernel workers together.
///
/// On every CPU a process spins that runs only when nobody else wants to, and sums up the gaps. What
/// is missing in a window with the munmap, beyond what an idle window just before misses, is its
/// cost. So every worker and interrupt counts, and the kernel's own clock, which in user-mode Linux
/// moves by the tick, does not matter.
pub fn cost(disk: &mut Disk, job: &Job) -> Result<Json> {
    let bytes = job.number::<usize>("mb")? << 20;
    let window_ns = job.number_or("window_ms", 200_u64)? * 1_000_000;
    disk.swap_on(job, (bytes + bytes / 8 + (16 << 20)) as u64)?;
    let stay_us = window_ns / 500;
    let mut task = Team::start(1, |member| unmapper(member, bytes, false, stay_us))?;
    task.wait_ready()?;
    let used = check_out(disk, bytes)?;
    let mut team = Team::start(sys::cpus(), |member| {
        sys::pin(member.index).doing("binding to a CPU")?;
        sys::set_idle_policy().doing("idle policy")?;
        member.ready_and_wait()?;
        let begin = now_ns();
        let idle = stolen_until(begin + window_ns);
        // The window opens late: the spinners' own start is over, the task's is not yet.
        let busy = stolen_until(begin + 2 * window_ns);
        Ok(vec![begin, idle, busy])
    })?;
    team.wait_ready()?;
    team.go()?;
    sys::sleep_us(window_ns / 1000 * 5 / 4);
    task.go()?;
    let results = team.collect()?;
    let words = task.collect()?;
    let sum = |index: usize| results.iter().map(|words| words[index]).sum::<u64>() as f64 / 1e6;
    let (idle, busy) = (sum(1), sum(2));
    let opened = results.iter().map(|words| words[0]).max().unwrap_or(0) + window_ns;
    if words[0][0] < opened || words[0][1] > opened + window_ns * 3 / 4 {
        return premise("the munmap did not fall into the window");
    }
    let values = Json::object()
        .with("cpu_ms", busy - idle)
        .with("idle_ms", idle)
        .with("munmap_ms", ms_between(words[0][0], words[0][1]));
    let premises = disk.premises().with("swap_used", used);
    disk.reset()?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises))
}
