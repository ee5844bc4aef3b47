// SPDX-License-Identifier: GPL-2.0

//! The bench's guest side: runs a plan and writes one line of JSON a job.
//!
//! `rzbench run PLAN OUTPUT` does the jobs of a plan in order. The runner on the host has put the
//! drivers next to each other in it, round by round. Each line of results is on the disk before the
//! next job starts, so an interrupted run loses one job at most. Lines that start with `@` on the
//! standard output tell the runner where the guest is.

mod aio;
mod build;
mod clock;
mod codec;
mod collect;
mod data;
mod device;
mod error;
mod hist;
mod io;
mod json;
mod latency;
mod plan;
mod proc;
mod space;
mod swap;
mod sys;
mod team;

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use data::Dataset;
use device::Disk;
use device::Kind;
use error::failed;
use error::premise;
use error::Doing;
use error::Error;
use error::Result;
use json::Json;
use latency::Front;
use plan::Job;

/// The disks, and the data that some of them are filled with.
struct Bench {
    disks: Vec<Disk>,
    data: Option<(usize, Dataset)>,
    clock: &'static str,
}

/// Keys of a job that name its line of results.
const NAMES: &[&str] = &["id", "boot", "cell", "kind", "round"];
/// The size of the repeated data where a job does not say.
const DATA_MB: usize = 32;

impl Bench {
    fn new() -> Self {
        Self {
            disks: [Kind::Zram, Kind::Rzram, Kind::Ram].map(Disk::new).into(),
            data: None,
            clock: clock::start(),
        }
    }

    /// Empties all disks but the given one; a swap job must be alone with its memory.
    fn only(&mut self, kind: Kind) -> Result<()> {
        let mut others = self.disks.iter_mut().filter(|disk| disk.kind() != kind);
        others.try_for_each(Disk::reset)
    }

    fn run(&mut self, job: &Job) -> Result<Json> {
        let work = job.text("work")?;
        if work == "collect" {
            return collect::collect(job);
        }
        if work == "symbols" {
            // For a profile: the drivers are where the jobs before had them.
            fs::copy("/proc/kallsyms", "/mnt/host/kallsyms").doing("copying the symbols")?;
            return Ok(Json::object());
        }
        if work == "codec" {
            self.load_data(job)?;
            return match &self.data {
                Some((_, data)) => codec::bare(job, data),
                None => failed("no data"),
            };
        }
        let kind = Kind::of(job)?;
        let needs_data = matches!(work, "io" | "readers" | "density");
        if !needs_data {
            self.data = None;
        }
        if !matches!(work, "io" | "readers") {
            self.only(kind)?;
        }
        if needs_data {
            self.load_data(job)?;
        }
        let Some(disk) = self.disks.iter_mut().find(|disk| disk.kind() == kind) else {
            return failed("no such disk");
        };
        let result = match (work, &self.data) {
            ("munmap", _) => swap::munmap(disk, job),
            ("return", _) => swap::memory_return(disk, job),
            ("isolation", _) => swap::isolation(disk, job),
            ("cost", _) => swap::cost(disk, job),
            ("loads", _) => latency::swapping(disk, job, Front::Loads),
            ("stores", _) => latency::swapping(disk, job, Front::Stores),
            ("huge", _) => space::huge(disk, job),
            ("build", _) => build::build(disk, job),
            ("io", Some((_, data))) => io::throughput(disk, job, data),
            ("readers", Some((_, data))) => latency::readers(disk, job, data),
            ("density", Some((_, data))) => space::density(disk, job, data),
            _ => failed(format!("no work called {work}")),
        };
        if result.is_err() {
            // Whatever is left would spoil the next job; the job's own error says more.
            let _ = disk.reset();
        }
        result
    }

    fn load_data(&mut self, job: &Job) -> Result<()> {
        let (name, mb) = (job.text("data")?, job.number_or("data_mb", DATA_MB)?);
        let same = self
            .data
            .as_ref()
            .is_some_and(|(size, data)| *size == mb && data.name == name);
        if !same {
            self.data = None;
            self.data = Some((mb, Dataset::new(name, mb)?));
        }
        Ok(())
    }
}

fn line(job: &Job, clock: &str, seconds: f64, result: Result<Json>) -> Json {
    let mut line = Json::object();
    for name in NAMES {
        line.put(name, job.find(name).unwrap_or_default());
    }
    line.put("seconds", seconds);
    line.put("clock", clock);
    match result {
        Ok(Json::Object(members)) => {
            for (name, value) in members {
                line.put(&name, value);
            }
        }
        Ok(_) => line.put("error", "a job returned no object"),
        Err(error) => line.put(error.word(), error.to_string()),
    }
    line
}

fn title(job: &Job) -> String {
    let words = NAMES.iter().map(|name| job.find(name).unwrap_or("-"));
    words.collect::<Vec<_>>().join(" ")
}

fn run_plan(plan: &str, output: &str) -> Result<()> {
    let text = fs::read_to_string(plan).doing(plan)?;
    let mut file: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(output)
        .doing(output)?;
    let mut bench = Bench::new();
    println!("@kernel {}", proc::kernel_release());
    for job in text.lines().filter(|line| !line.trim().is_empty()) {
        let job = Job::parse(job)?;
        println!("@start {}", title(&job));
        let (begin, kernel_begin) = (clock::now_ns(), sys::monotonic_ns());
        let result = bench.run(&job);
        let seconds = clock::ms_between(begin, clock::now_ns()) / 1e3;
        let kernel_seconds = clock::ms_between(kernel_begin, sys::monotonic_ns()) / 1e3;
        let drift = (seconds - kernel_seconds).abs();
        let result = result.and_then(|found| match drift < 0.02 + 0.01 * kernel_seconds {
            true => Ok(found),
            false => premise(format!(
                "the clocks disagree: {seconds} s and {kernel_seconds} s"
            )),
        });
        let line = line(&job, bench.clock, seconds, result);
        writeln!(file, "{line}")
            .and_then(|()| file.sync_all())
            .doing(output)?;
        println!("@done {}", title(&job));
    }
    println!("@end");
    for disk in &mut bench.disks {
        disk.reset()?;
        disk.unload()?;
    }
    Ok(())
}

/// Runs one job given as words and prints its line.
fn run_one(words: &[String]) -> Result<()> {
    let job = Job::parse(&words.join(" "))?;
    let mut bench = Bench::new();
    let result = bench.run(&job);
    println!("{}", line(&job, bench.clock, 0.0, result));
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.as_slice() {
        [verb, plan, output] if verb == "run" => run_plan(plan, output),
        [verb, rest @ ..] if verb == "one" => run_one(rest),
        _ => Err(Error::Failed(
            "usage: rzbench run PLAN OUTPUT | one KEY=VALUE...".to_owned(),
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rzbench: {error}");
            ExitCode::FAILURE
        }
    }
}
