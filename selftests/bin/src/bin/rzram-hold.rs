// SPDX-License-Identifier: GPL-2.0

//! Holds more anonymous memory than the machine has, and proves that none of it was lost.
//!
//! `rzram-hold SIZE_MB DISK [SEED]` fills SIZE_MB of memory from real files (text, libraries) and from
//! a random source, so that most of it has to be swapped to DISK, for instance `rzram0`. Every page
//! names its own place: its first words are its index, the run's seed, and a sum over the whole page
//! and that index. Then all pages are touched in another order and checked. A lost, stale, mixed-up or
//! damaged page fails one of the three. Exits 0 only if every page was right and the disk was used.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 4096;
const HEAD_BYTES: usize = 24;
const MIB: usize = 1 << 20;

/// Where text and libraries are taken from, in a guest that has the lab's programs.
const TEXT_ROOTS: [&str; 3] = ["/usr/lib/python3", "/usr/share", "/usr/lib/python3.13"];
const LIBRARY_ROOTS: [&str; 2] = ["/usr/lib/x86_64-linux-gnu", "/usr/bin"];

/// Kinds of pages, in the proportion of a desktop's memory: of 20 pages 9 text, 8 code, 2 nearly
/// empty, 1 random.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Library,
    Sparse,
    Random,
}

fn kind_of(index: usize) -> Kind {
    match index % 20 {
        0..=8 => Kind::Text,
        9..=16 => Kind::Library,
        17..=18 => Kind::Sparse,
        _ => Kind::Random,
    }
}

/// The seeded generator of SplitMix64.
fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn word_at(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// A sum over everything behind the head, bound to the page's place.
fn sum(page: &[u8], index: u64, seed: u64) -> u64 {
    page[HEAD_BYTES..]
        .chunks_exact(8)
        .fold(mix(seed, index), |sum, word| {
            (sum ^ word_at(word, 0))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23)
        })
}

/// The pages of many files, one after the other, again from the start when they run out.
struct Files {
    paths: Vec<PathBuf>,
    next: usize,
    buffer: Vec<u8>,
    at: usize,
}

impl Files {
    /// Collects the files below `roots` that are worth a page each; `want` decides by name.
    fn below(roots: &[&str], want: fn(&Path) -> bool) -> Result<Files, String> {
        let mut paths = Vec::new();
        let mut folders: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                match entry.metadata() {
                    Ok(data) if data.is_dir() => folders.push(path),
                    Ok(data)
                        if data.is_file() && data.len() >= 2 * PAGE_BYTES as u64 && want(&path) =>
                    {
                        paths.push(path)
                    }
                    _ => {}
                }
            }
        }
        if paths.is_empty() {
            return Err(format!("no files to fill memory from below {roots:?}"));
        }
        paths.sort();
        Ok(Files {
            paths,
            next: 0,
            buffer: Vec::new(),
            at: 0,
        })
    }

    /// Copies the next page into `page`.
    fn fill(&mut self, page: &mut [u8]) -> Result<(), String> {
        while self.at + page.len() > self.buffer.len() {
            let path = &self.paths[self.next % self.paths.len()];
            self.next += 1;
            self.at = 0;
            self.buffer.clear();
            // The first part of big files will do: variety matters more.
            File::open(path)
                .and_then(|file| file.take(MIB as u64).read_to_end(&mut self.buffer))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        page.copy_from_slice(&self.buffer[self.at..self.at + page.len()]);
        self.at += page.len();
        Ok(())
    }
}

fn is_text(path: &Path) -> bool {
    let known = [
        "py", "txt", "pl", "pm", "sh", "xml", "html", "json", "h", "conf", "md",
    ];
    path.extension()
        .and_then(|end| end.to_str())
        .is_some_and(|end| known.contains(&end))
}

fn is_library(path: &Path) -> bool {
    !is_text(path)
}

/// Prints how far a phase is, at most every five seconds.
struct Progress {
    phase: &'static str,
    begin: Instant,
    last: Instant,
}

impl Progress {
    fn new(phase: &'static str) -> Progress {
        let now = Instant::now();
        Progress {
            phase,
            begin: now,
            last: now,
        }
    }

    fn at(&mut self, done: usize, all: usize) {
        if done == all || self.last.elapsed() >= Duration::from_secs(5) {
            self.last = Instant::now();
            let mib = done * PAGE_BYTES / MIB;
            let percent = done * 100 / all;
            let seconds = self.begin.elapsed().as_secs_f32();
            println!(
                "{:<9} {mib:>5} MiB  {percent:>3} %  {seconds:.0} s",
                self.phase
            );
        }
    }
}

/// A counter of `/proc/vmstat`.
fn vmstat(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0)
}

/// The columns of the disk's `mm_stat`.
fn mm_stat(disk: &str) -> Result<Vec<u64>, String> {
    let path = format!("/sys/block/{disk}/mm_stat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect())
}

fn fill(memory: &mut [u8], seed: u64) -> Result<(), String> {
    let mut text = Files::below(&TEXT_ROOTS, is_text)?;
    let mut libraries = Files::below(&LIBRARY_ROOTS, is_library)?;
    let pages = memory.len() / PAGE_BYTES;
    let mut progress = Progress::new("filling");
    for (index, page) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
        let place = index as u64;
        match kind_of(index) {
            Kind::Text => text.fill(page)?,
            Kind::Library => libraries.fill(page)?,
            Kind::Sparse => page[PAGE_BYTES - 8..].copy_from_slice(&mix(seed, place).to_le_bytes()),
            Kind::Random => {
                for (word, n) in page.chunks_exact_mut(8).zip(place * 512..) {
                    word.copy_from_slice(&mix(!seed, n).to_le_bytes());
                }
            }
        }
        page[..8].copy_from_slice(&place.to_le_bytes());
        page[8..16].copy_from_slice(&seed.to_le_bytes());
        let sum = sum(page, place, seed);
        page[16..24].copy_from_slice(&sum.to_le_bytes());
        progress.at(index + 1, pages);
    }
    Ok(())
}

/// Checks all pages, in runs of 32 that follow each other in a scattered order. Returns the errors.
fn verify(memory: &[u8], seed: u64) -> usize {
    const RUN: usize = 32;
    let pages = memory.len() / PAGE_BYTES;
    let runs = pages.div_ceil(RUN);
    // Any step without a common factor visits every run once.
    let mut step = runs * 5 / 8 | 1;
    while gcd(step, runs) != 1 {
        step += 2;
    }
    let mut progress = Progress::new("verifying");
    let mut errors = 0;
    let mut done = 0;
    for n in 0..runs {
        let first = (n * step % runs) * RUN;
        for index in first..pages.min(first + RUN) {
            let page = &memory[index * PAGE_BYTES..(index + 1) * PAGE_BYTES];
            let place = index as u64;
            if word_at(page, 0) != place
                || word_at(page, 8) != seed
                || word_at(page, 16) != sum(page, place, seed)
            {
                errors += 1;
                if errors <= 5 {
                    println!(
                        "page {index} is wrong: it names place {} and seed {:#x}",
                        word_at(page, 0),
                        word_at(page, 8)
                    );
                }
            }
            done += 1;
        }
        progress.at(done, pages);
    }
    errors
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

fn row(name: &str, value: String) {
    println!("  {name:<18} {value:>12}");
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / MIB as f64)
}

fn run() -> Result<bool, String> {
    let usage = "usage: rzram-hold SIZE_MB DISK [SEED]";
    let args: Vec<String> = env::args().skip(1).collect();
    let [size, disk, rest @ ..] = args.as_slice() else {
        return Err(usage.into());
    };
    let size_mib: usize = size.parse().map_err(|_| usage)?;
    let seed: u64 = match rest.first() {
        Some(text) => text.parse().map_err(|_| usage)?,
        None => 0x727a_7261_6d00,
    };
    let (out_before, in_before) = (vmstat("pswpout"), vmstat("pswpin"));
    let mut memory = vec![0u8; size_mib * MIB];
    fill(&mut memory, seed)?;
    let full = mm_stat(disk)?;
    let errors = verify(&memory, seed);
    let outs = vmstat("pswpout") - out_before;
    let ins = vmstat("pswpin") - in_before;

    let &[stored, compressed, used, ..] = full.as_slice() else {
        return Err(format!("mm_stat of {disk} has too few columns"));
    };
    println!(
        "\n  {} on {disk}, when memory was full",
        mib(memory.len() as u64)
    );
    row("stored", mib(stored));
    row("compressed", mib(compressed));
    row("memory used", mib(used));
    row(
        "ratio",
        format!("{:.2}", stored as f64 / used.max(1) as f64),
    );
    row("swap-outs", format!("{outs} pages"));
    row("swap-ins", format!("{ins} pages"));
    row("pages verified", format!("{}", memory.len() / PAGE_BYTES));
    row("errors", format!("{errors}"));
    if stored == 0 || outs == 0 || ins == 0 {
        println!("nothing was swapped: this run proves nothing");
        return Ok(false);
    }
    Ok(errors == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rzram-hold: {error}");
            ExitCode::FAILURE
        }
    }
}
