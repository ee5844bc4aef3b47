// SPDX-License-Identifier: GPL-2.0

//! `swapfill [--procs N] [--mib N] [--rounds N] [--seed N] [--huge]`
//!
//! Several processes that fill anonymous memory with pages naming their own place, push it out to
//! swap, and check every page that comes back. A round rewrites a third of the pages (an overwrite
//! of their slots once they go out again), checks in random order (each fault frees a slot), unmaps
//! an area and maps a new one (many frees at once). Exits 1 and names the page at the first error.

use std::process::Child;
use std::process::Command;
use std::process::ExitCode;

use rzram_selftests::args::Args;
use rzram_selftests::mapping::Mapping;
use rzram_selftests::pattern::compare;
use rzram_selftests::pattern::Kind;
use rzram_selftests::pattern::Tag;
use rzram_selftests::pattern::PAGE_BYTES;
use rzram_selftests::pattern::PAGE_SECTORS;
use rzram_selftests::rng::Rng;

/// An area is the unit of unmapping: 4 MiB, so that areas are whole huge pages.
const AREA_PAGES: usize = 1024;

fn main() -> ExitCode {
    let done = Args::from_env(&["huge"]).and_then(|args| match args.option("process", 0)? {
        0 => parent(&args),
        number => child(&args, number),
    });
    match done {
        Ok(summary) => {
            println!("swapfill: {summary}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("swapfill: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program once a process and waits for all of them.
fn parent(args: &Args) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let start = |number: u32| {
        let mut command = Command::new(&program);
        command.args(std::env::args().skip(1));
        command.args(["--process", &number.to_string()]);
        command
            .spawn()
            .map_err(|error| format!("process {number}: {error}"))
    };
    let processes = args.option("procs", 2)?;
    let children: Vec<Child> = (1..=processes).map(start).collect::<Result<_, _>>()?;
    for (number, mut child) in (1u32..).zip(children) {
        match child.wait() {
            Ok(status) if status.success() => (),
            Ok(status) => return Err(format!("process {number} failed: {status}")),
            Err(error) => return Err(format!("process {number}: {error}")),
        }
    }
    Ok(format!("{processes} processes, every page right"))
}

fn child(args: &Args, number: u32) -> Result<String, String> {
    let mut memory = Memory {
        areas: Vec::new(),
        process: number,
        rng: Rng::new(args.option("seed", 1)?).fork(u64::from(number)),
        huge: args.has("huge"),
        generation: 0,
        verified: 0,
    };
    let areas = args.option("mib", 64)?.max(4) / 4;
    for _ in 0..areas {
        memory.add_area()?;
    }
    for round in 0..args.option("rounds", 2)? {
        memory
            .round()
            .map_err(|message| format!("process {number} round {round}: {message}"))?;
    }
    Ok(format!(
        "process {number}: {} pages verified",
        memory.verified
    ))
}

struct Area {
    mapping: Mapping,
    tags: Vec<Tag>,
}

struct Memory {
    areas: Vec<Area>,
    process: u32,
    rng: Rng,
    huge: bool,
    generation: u32,
    verified: u64,
}

impl Memory {
    fn add_area(&mut self) -> Result<(), String> {
        let mapping = Mapping::new(AREA_PAGES * PAGE_BYTES, self.huge)?;
        let mut area = Area {
            mapping,
            tags: Vec::new(),
        };
        self.generation += 1;
        for _ in 0..AREA_PAGES {
            let tag = Tag {
                page: self.rng.bits() & 0xffff_ffff,
                writer: self.process,
                generation: self.generation,
                kind: Kind::any(&mut self.rng),
            };
            tag.fill(area.page(area.tags.len()));
            area.tags.push(tag);
        }
        self.areas.push(area);
        Ok(())
    }

    fn round(&mut self) -> Result<(), String> {
        self.page_out()?;
        self.rewrite_a_third();
        self.check_all()?;
        self.page_out()?;
        // Half of the oldest areas go while they are out.
        let gone = self.areas.len().div_ceil(2);
        self.areas.drain(..gone);
        self.check_all()?;
        (0..gone).try_for_each(|_| self.add_area())
    }

    fn page_out(&self) -> Result<(), String> {
        self.areas
            .iter()
            .try_for_each(|area| area.mapping.page_out())
    }

    fn rewrite_a_third(&mut self) {
        self.generation += 1;
        for area in &mut self.areas {
            for page in 0..area.tags.len() {
                if self.rng.chance(1, 3) {
                    let tag = Tag {
                        generation: self.generation,
                        kind: Kind::any(&mut self.rng),
                        ..area.tags[page]
                    };
                    area.tags[page] = tag;
                    tag.fill(area.page(page));
                }
            }
        }
    }

    fn check_all(&mut self) -> Result<(), String> {
        for area in &mut self.areas {
            // Odd steps through an area of 2^n pages visit each page once.
            let step = self.rng.below(AREA_PAGES / 2) * 2 + 1;
            for turn in 0..area.tags.len() {
                let page = turn * step % AREA_PAGES;
                let tag = area.tags[page];
                compare(&tag.make(), area.page(page), tag.page * PAGE_SECTORS)
                    .map_err(|message| format!("page {page} of an area: {message}"))?;
                self.verified += 1;
            }
        }
        Ok(())
    }
}

impl Area {
    fn page(&mut self, page: usize) -> &mut [u8] {
        &mut self.mapping.bytes_mut()[page * PAGE_BYTES..(page + 1) * PAGE_BYTES]
    }
}
