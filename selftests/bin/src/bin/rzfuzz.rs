// SPDX-License-Identifier: GPL-2.0

//! `rzfuzz NAME --seed N --seconds N [--rate N] [--skip FILE,...] [--backing PATH] [--dict PATH]`
//! `rzfuzz names`
//!
//! Reads and writes the control files of all disks NAME0, NAME1, ..., of the class NAME-control and of
//! debugfs at random until the time is over: right words, damaged ones, any bytes; whole reads, small
//! ones, reads far behind the end. Disks may come and go meanwhile, by its own doing, too: it keeps to
//! six. At most `--rate` files a second, as every refusal is a line in the kernel log.
//!
//! It knows nothing of a disk's state, so any outcome that some state explains is right. Wrong is
//! another errno, a successful write that did not take all of it or a page, and what is no printable
//! text in a file. Prints what it did and the longest it waited, and in a second line after `taken`
//! the files that took a text; exits 1 at the first wrong outcome.
//!
//! `names` prints the files that it knows how to write.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use rzram_selftests::args::Args;
use rzram_selftests::rng::Rng;
use rzram_selftests::words;

/// Disks above which none is added.
const MOST_DISKS: usize = 6;
/// Most that one write hands to a file.
const PAGE_BYTES: usize = 4096;
/// After so many files it looks again which there are.
const LOOK_EVERY: u64 = 512;

/// Errors of some state or grammar, of memory, and of a file that went away.
const USUAL: [i32; 14] = [
    libc::EINVAL,
    libc::ERANGE,
    libc::EBUSY,
    libc::ENODEV,
    libc::ENOMEM,
    libc::E2BIG,
    libc::EAGAIN,
    libc::EINTR,
    libc::EIO,
    libc::ENOSPC,
    libc::EOPNOTSUPP,
    libc::ENOENT,
    libc::EACCES,
    libc::ENXIO,
];
/// Files that open a path for the writer: `open(2)` may say what it likes, but not that memory of the
/// caller is bad.
const OF_PATHS: [&str; 2] = ["backing_dev", "algorithm_params"];

fn main() -> ExitCode {
    let done = Args::from_env(&[]).and_then(|args| match args.word(0, "name")? {
        "names" => Ok(names()),
        name => Fuzz::new(name, &args)?.run(args.option("seconds", 1)?),
    });
    match done {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            println!("rzfuzz: {message}");
            ExitCode::FAILURE
        }
    }
}

fn names() -> String {
    let files = words::OF_DISK.iter().chain(words::OF_CLASS);
    files.map(|file| file.name).collect::<Vec<_>>().join("\n")
}

/// A file that there is, and what it takes, if it is known.
#[derive(Clone)]
struct Place {
    path: PathBuf,
    words: Option<&'static words::File>,
}

/// The files that there were a moment ago.
#[derive(Default)]
struct Places {
    disks: Vec<String>,
    class: Vec<Place>,
    of_disks: Vec<Place>,
    debug: Vec<Place>,
}

struct Fuzz {
    name: String,
    rng: Rng,
    seed: u64,
    rate: u64,
    skip: Vec<String>,
    backing: String,
    dict: String,
    places: Places,
    /// By what was done and its errno, 0 for success.
    outcomes: BTreeMap<(&'static str, i32), u64>,
    slowest: (Duration, String),
    /// The files that took a text.
    taken: BTreeSet<&'static str>,
}

impl Fuzz {
    fn new(name: &str, args: &Args) -> Result<Self, String> {
        let seed = args.option("seed", 1)?;
        let skip: String = args.option("skip", String::new())?;
        Ok(Self {
            name: name.to_owned(),
            rng: Rng::new(seed),
            seed,
            rate: args.option("rate", 2000)?,
            skip: skip.split(',').map(str::to_owned).collect(),
            backing: args.option("backing", "/dev/loop0".to_owned())?,
            dict: args.option("dict", "/dev/zero".to_owned())?,
            places: Places::default(),
            outcomes: BTreeMap::new(),
            slowest: (Duration::ZERO, String::new()),
            taken: BTreeSet::new(),
        })
    }

    fn run(mut self, seconds: u64) -> Result<String, String> {
        let begin = Instant::now();
        let end = Duration::from_secs(seconds);
        let mut files = 0u64;
        while begin.elapsed() < end {
            if files % LOOK_EVERY == 0 {
                self.look();
            }
            self.step()
                .map_err(|message| format!("seed {}, file {files}: {message}", self.seed))?;
            files += 1;
            let due = Duration::from_micros(files * 1_000_000 / self.rate);
            if let Some(early) = due.checked_sub(begin.elapsed()) {
                // Not for each file: a short sleep takes much longer than asked for.
                if early > Duration::from_millis(20) {
                    std::thread::sleep(early);
                }
            }
        }
        Ok(self.summary(files))
    }

    fn summary(&self, files: u64) -> String {
        let (longest, what) = &self.slowest;
        let mut text = format!("rzfuzz: seed {}: {files} files;", self.seed);
        for ((what, errno), count) in &self.outcomes {
            match errno {
                0 => text.push_str(&format!(" {count} {what},")),
                _ => text.push_str(&format!(" {count} {what} with errno {errno},")),
            }
        }
        let taken: Vec<&str> = self.taken.iter().copied().collect();
        let (longest, taken) = (longest.as_millis(), taken.join(" "));
        format!("{text} longest {longest} ms: {what}\ntaken {taken}")
    }

    /// Finds the files that there are.
    fn look(&mut self) {
        let mut places = Places::default();
        for disk in entries(Path::new("/sys/block")) {
            let number = disk.strip_prefix(self.name.as_str()).unwrap_or_default();
            if number.parse::<u32>().is_err() {
                continue;
            }
            let folder = Path::new("/sys/block").join(&disk);
            places.of_disks.extend(self.files(&folder, words::OF_DISK));
            let debug = Path::new("/sys/kernel/debug").join(&self.name).join(&disk);
            places.debug.extend(self.files(&debug, &[]));
            places.disks.push(disk);
        }
        let class = format!("/sys/class/{}-control", self.name);
        places.class = self.files(Path::new(&class), words::OF_CLASS);
        self.places = places;
    }

    /// Returns the files of a folder that may be touched.
    fn files(&self, folder: &Path, known: &'static [words::File]) -> Vec<Place> {
        let mut places = Vec::new();
        for name in entries(folder) {
            let path = folder.join(&name);
            if !self.skip.contains(&name) && path.is_file() {
                let words = known.iter().find(|file| file.name == name);
                places.push(Place { path, words });
            }
        }
        places
    }

    /// Does something with one file.
    fn step(&mut self) -> Result<(), String> {
        // Of the class seldom: disks that come and go take most of the time.
        let places = match self.rng.below(32) {
            0 => &self.places.class,
            1..=4 => &self.places.debug,
            _ => &self.places.of_disks,
        };
        if places.is_empty() {
            return Ok(());
        }
        let place = places[self.rng.below(places.len())].clone();
        let begin = Instant::now();
        let done = match place.words {
            _ if place.path.ends_with("hot_add") => self.add(&place.path),
            Some(file) if self.rng.chance(3, 4) => self.write(&place.path, file),
            _ => self.read(&place.path),
        };
        let took = begin.elapsed();
        if took > self.slowest.0 {
            self.slowest = (took, place.path.display().to_string());
        }
        done.map_err(|message| format!("{}: {message}", place.path.display()))
    }

    /// Counts an outcome, and says whether it may be.
    fn note(&mut self, what: &'static str, error: &io::Error, any: bool) -> Result<(), String> {
        let errno = error.raw_os_error().unwrap_or(0);
        *self.outcomes.entry((what, errno)).or_default() += 1;
        if errno == libc::EFAULT || !(any || USUAL.contains(&errno)) {
            return Err(format!("{what}: {error}"));
        }
        Ok(())
    }

    fn well(&mut self, what: &'static str) {
        *self.outcomes.entry((what, 0)).or_default() += 1;
    }

    /// Adds a disk now and then, if there are few.
    fn add(&mut self, path: &Path) -> Result<(), String> {
        if self.rng.chance(3, 4) {
            return Ok(());
        }
        self.look();
        if self.places.disks.len() >= MOST_DISKS {
            return Ok(());
        }
        self.read(path)
    }

    fn write(&mut self, path: &Path, file: &words::File) -> Result<(), String> {
        let disk = match self.places.disks.len() {
            0 => String::new(),
            len => format!("/dev/{}", self.places.disks[self.rng.below(len)]),
        };
        let fill = |word: &&str| {
            word.replace("@backing", &self.backing)
                .replace("@dict", &self.dict)
                .replace("@disk", &disk)
        };
        let words: Vec<String> = file.words.iter().map(fill).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = words::text(&mut self.rng, &words);
        let mut opened = match OpenOptions::new().write(true).open(path) {
            Ok(opened) => opened,
            Err(error) => return self.note("opened to write", &error, false),
        };
        match opened.write(&text) {
            Ok(len) if len == text.len().min(PAGE_BYTES) => {
                self.well("written");
                self.taken.insert(file.name);
                Ok(())
            }
            Ok(len) => Err(format!("{len} bytes of {} taken", text.len())),
            Err(error) => self
                .note("refused", &error, OF_PATHS.contains(&file.name))
                .map_err(|message| format!("{message}: \"{}\"", text.escape_ascii())),
        }
    }

    fn read(&mut self, path: &Path) -> Result<(), String> {
        let mut opened = match File::open(path) {
            Ok(opened) => opened,
            Err(error) => return self.note("opened to read", &error, false),
        };
        let mut buffer = vec![0; 1 + self.rng.below(3 * PAGE_BYTES)];
        let far = self.rng.chance(1, 8).then(|| {
            let shift = self.rng.below(64);
            self.rng.bits() >> shift
        });
        for _ in 0..=self.rng.below(8) {
            let read = match far {
                Some(offset) => opened.read_at(&mut buffer, offset),
                None => opened.read(&mut buffer),
            };
            match read {
                Ok(0) => break,
                Ok(len) => printable(path, &buffer[..len])?,
                Err(error) => return self.note("read", &error, far.is_some()),
            }
        }
        self.well("read");
        Ok(())
    }
}

/// Returns the names in a folder; none if it is gone.
fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries.filter_map(name).collect();
    // The order of a folder is no part of the seed.
    names.sort();
    names
}

fn printable(path: &Path, text: &[u8]) -> Result<(), String> {
    // C's list of secondary codecs has NULs in it (SE-2).
    let may_nul = path.ends_with("recomp_algorithm");
    let is_text = |byte: &u8| match byte {
        b' '..=b'~' | b'\n' | b'\t' => true,
        0 => may_nul,
        _ => false,
    };
    match text.iter().all(is_text) {
        true => Ok(()),
        false => Err(format!("it reads \"{}\"", text.escape_ascii())),
    }
}
