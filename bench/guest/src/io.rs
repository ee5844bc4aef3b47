// SPDX-License-Identifier: GPL-2.0

//! P4, P6: throughput of a filled disk, and the time a page.
//!
//! Writers write what the disk already holds at that place: the driver's work is that of any
//! overwrite, and the content can be proved again before each round.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::aio::Aio;
use crate::aio::Request;
use crate::clock::now_ns;
use crate::data::Dataset;
use crate::data::Rng;
use crate::device::Disk;
use crate::error::failed;
use crate::error::Doing;
use crate::error::Result;
use crate::json::Json;
use crate::plan::Job;
use crate::sys;
use crate::sys::Map;
use crate::sys::PAGE;
use crate::team::Member;
use crate::team::Team;

const LARGE: usize = 1 << 20;
const BATCH: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
    Mixed,
}

/// One of the six phases, or a variant.
#[derive(Clone, Copy)]
struct Phase {
    direction: Direction,
    random: bool,
    /// Pages a request; random ones go in batches of [`BATCH`] unless `single`.
    single: bool,
}

impl Phase {
    fn parse(word: &str) -> Result<Self> {
        let (word, single) = match word.strip_suffix("-single") {
            Some(rest) => (rest, true),
            None => (word, false),
        };
        let (direction, random) = match word {
            "read" => (Direction::Read, false),
            "randread" => (Direction::Read, true),
            "write" => (Direction::Write, false),
            "randwrite" => (Direction::Write, true),
            "rw" => (Direction::Mixed, false),
            "randrw" => (Direction::Mixed, true),
            other => return failed(format!("no phase called {other}")),
        };
        Ok(Self {
            direction,
            random,
            single,
        })
    }
}

struct Worker<'a> {
    phase: Phase,
    file: File,
    data: &'a Dataset,
    buffer: Map,
    aio: Aio,
    rng: Rng,
    /// The part of the disk that sequential requests go round in.
    start: u64,
    end: u64,
    next: u64,
    disk_bytes: u64,
    /// Counts requests: every second one of a mixed phase writes.
    turn: u64,
}

impl Worker<'_> {
    fn writes_now(&mut self) -> bool {
        self.turn += 1;
        match self.phase.direction {
            Direction::Read => false,
            Direction::Write => true,
            Direction::Mixed => self.turn % 2 == 0,
        }
    }

    /// Does one step and returns the number of pages moved.
    fn step(&mut self) -> Result<u64> {
        match (self.phase.random, self.phase.single) {
            (false, _) => self.large(),
            (true, true) => self.single(),
            (true, false) => self.batch(),
        }
    }

    fn one(&mut self, offset: u64, length: usize) -> Result<()> {
        if self.writes_now() {
            let bytes = self.data.at(offset, length);
            self.file.write_all_at(bytes, offset).doing("writing")
        } else {
            let bytes = &mut self.buffer.bytes_mut()[..length];
            self.file.read_exact_at(bytes, offset).doing("reading")
        }
    }

    fn large(&mut self) -> Result<u64> {
        let offset = self.next;
        self.next += LARGE as u64;
        if self.next + LARGE as u64 > self.end {
            self.next = self.start;
        }
        self.one(offset, LARGE)?;
        Ok((LARGE / PAGE) as u64)
    }

    fn random_offset(&mut self) -> u64 {
        self.rng.below(self.disk_bytes / PAGE as u64) * PAGE as u64
    }

    fn single(&mut self) -> Result<u64> {
        let offset = self.random_offset();
        self.one(offset, PAGE)?;
        Ok(1)
    }

    fn batch(&mut self) -> Result<u64> {
        let mut requests = Vec::with_capacity(BATCH);
        for index in 0..BATCH {
            let offset = self.random_offset();
            let write = self.writes_now();
            let memory = if write {
                self.data.at(offset, PAGE).as_ptr()
            } else {
                self.buffer.bytes_mut()[index * PAGE..]
                    .as_mut_ptr()
                    .cast_const()
            };
            requests.push(Request {
                write,
                memory,
                bytes: PAGE,
                offset,
            });
        }
        // SAFETY: Each read has its own page of the buffer, which is not touched meanwhile; writes
        // take from the data, which nobody changes. `run` waits for all of them.
        unsafe { self.aio.run(self.file.as_raw_fd(), &requests) }.doing("a batch")?;
        Ok(BATCH as u64)
    }
}

fn work(member: &mut Member, worker: &mut Worker<'_>, duration_ns: u64) -> Result<Vec<u64>> {
    // Once through the code and the data's page table entries.
    for _ in 0..4 {
        worker.step()?;
    }
    member.ready_and_wait()?;
    let (begin, cpu) = (now_ns(), sys::thread_cpu_ns());
    let mut pages = 0;
    loop {
        pages += worker.step()?;
        let now = now_ns();
        if now - begin >= duration_ns {
            return Ok(vec![pages, now - begin, sys::thread_cpu_ns() - cpu]);
        }
    }
}

/// P4, P6: `jobs` processes do `phase` for `secs` seconds on a disk filled with `data`.
pub fn throughput(disk: &mut Disk, job: &Job, data: &Dataset) -> Result<Json> {
    let bytes = job.number::<u64>("mb")? << 20;
    let jobs = job.number_or("jobs", 1_u64)?;
    let phase = Phase::parse(job.text("phase")?)?;
    let duration_ns = (job.number_or("secs", 1.0_f64)? * 1e9) as u64;
    disk.fill(job, bytes, data)?;
    let mut team = Team::start(jobs as usize, |member| {
        let part = bytes / jobs / LARGE as u64 * LARGE as u64;
        let start = part * member.index as u64;
        let mut worker = Worker {
            phase,
            file: sys::open_direct(&disk.node()).doing("opening the disk")?,
            data,
            buffer: Map::shared(LARGE).doing("a buffer")?,
            aio: Aio::new(BATCH).doing("io_setup")?,
            rng: Rng::new(0xb + member.index as u64),
            start,
            end: start + part,
            next: start,
            disk_bytes: bytes,
            turn: member.index as u64,
        };
        work(member, &mut worker, duration_ns)
    })?;
    team.wait_ready()?;
    team.go()?;
    let results = team.collect()?;
    let rate: f64 = results
        .iter()
        .map(|words| words[0] as f64 * 1e9 / words[1] as f64)
        .sum();
    let pages: u64 = results.iter().map(|words| words[0]).sum();
    let cpu: u64 = results.iter().map(|words| words[2]).sum();
    let values = Json::object()
        .with("pages_per_s", rate)
        .with("mib_per_s", rate * PAGE as f64 / 1048576.0)
        .with("ns_per_page", jobs as f64 * 1e9 / rate)
        .with("cpu_ns_per_page", cpu as f64 / pages.max(1) as f64);
    Ok(Json::object()
        .with("values", values)
        .with("premises", disk.premises()))
}
