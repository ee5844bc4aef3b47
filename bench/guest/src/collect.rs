// SPDX-License-Identifier: GPL-2.0

//! Real memory pages for P4 and P7: the memory of running programs, libraries, and text.
//!
//! Gathered once into one file; every driver then stores the same pages.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use crate::data::REAL_PAGES;
use crate::error::failed;
use crate::error::Doing;
use crate::error::Result;
use crate::json::Json;
use crate::plan::Job;
use crate::sys;
use crate::sys::PAGE;

/// Programs whose memory is taken, and after how many milliseconds.
const PROGRAMS: &[(&str, u64)] = &[
    ("rustc --edition 2021 --crate-type lib --emit=metadata -o /dev/null --cap-lints allow \
      /usr/src/rustc-*/library/alloc/src/lib.rs", 900),
    ("for m in $(seq 400); do echo \"int f$m(int a){return a*$m;}\"; done | gcc -O2 -x c -c -o /dev/null -", 400),
    ("python3 -c 'import ast, json, decimal, email, http.client, xml.dom, unittest, asyncio, time\n\
      import glob\nt=[ast.parse(open(f).read()) for f in glob.glob(\"/usr/lib/python3*/[a-h]*.py\")]\n\
      time.sleep(60)'", 5000),
    ("perl -e 'my %h; for (1..150000) { $h{\"key$_\"} = [$_, \"value \" . $_ * 7]; } sleep 60'", 1500),
    ("sort /usr/share/dict/* /usr/share/perl/*/unicore/*.txt /usr/share/i18n/locales/* \
      /usr/share/doc/*/copyright | sort -r | uniq -c > /dev/null", 600),
    ("bash -c 'for ((i = 0; i < 60000; i++)); do a[i]=\"entry $i of $RANDOM\"; done; sleep 60'", 3000),
];

/// At most this much of one program's memory.
const PROGRAM_BYTES: u64 = 48 << 20;
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const TEXTS: &[&str] = &[
    "/usr/lib/rustlib/src",
    "/usr/src",
    "/usr/lib/python3",
    "/usr/share",
];

struct Output {
    file: File,
    left: u64,
}

impl Output {
    /// Writes whole pages until the file is full; returns whether there is room left.
    fn add(&mut self, bytes: &[u8]) -> Result<bool> {
        let length = (bytes.len() as u64).min(self.left) as usize / PAGE * PAGE;
        self.file.write_all(&bytes[..length]).doing(REAL_PAGES)?;
        self.left -= length as u64;
        Ok(self.left > 0)
    }
}

fn stopped(command: &str, after_ms: u64) -> Result<Child> {
    use std::os::unix::process::CommandExt;
    let mut start = Command::new("bash");
    start.args(["-c", command]).process_group(0);
    start
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    let child = start.spawn().doing(command)?;
    sys::sleep_us(after_ms * 1000);
    signal_group(&child, libc::SIGSTOP);
    Ok(child)
}

fn signal_group(child: &Child, signal: libc::c_int) {
    // SAFETY: The child leads a group of its own and was not waited for yet.
    unsafe { libc::kill(-(child.id() as libc::pid_t), signal) };
}

fn members(group: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let in_group = |path: &PathBuf| {
        fs::read_to_string(path.join("stat")).is_ok_and(|stat| {
            let rest = stat.rsplit(')').next().unwrap_or_default();
            rest.split_whitespace().nth(2) == Some(group.to_string().as_str())
        })
    };
    paths.filter(in_group).collect()
}

/// Copies the writable private pages that a process has in memory.
fn take_memory(process: &Path, output: &mut Output) -> Result<u64> {
    let mut taken = 0;
    let Ok(maps) = fs::read_to_string(process.join("maps")) else {
        return Ok(0);
    };
    let (Ok(memory), Ok(table)) = (
        File::open(process.join("mem")),
        File::open(process.join("pagemap")),
    ) else {
        return Ok(0);
    };
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let range = line
            .split_whitespace()
            .next()
            .and_then(|word| word.split_once('-'));
        let ends = range.map(|(a, b)| (u64::from_str_radix(a, 16), u64::from_str_radix(b, 16)));
        let Some((Ok(start), Ok(end))) = ends else {
            continue;
        };
        for at in (start..end).step_by(PAGE) {
            let mut entry = [0; 8];
            let known = table.read_exact_at(&mut entry, at / PAGE as u64 * 8);
            let in_memory = known.is_ok() && u64::from_ne_bytes(entry) >> 63 != 0;
            let mut page = [0; PAGE];
            if in_memory && memory.read_exact_at(&mut page, at).is_ok() {
                taken += PAGE as u64;
                if !output.add(&page)? || taken >= PROGRAM_BYTES {
                    return Ok(taken);
                }
            }
        }
    }
    Ok(taken)
}

fn take_file(path: &Path, most: u64, output: &mut Output) -> Result<u64> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // A file that cannot be read is left out: there are enough.
        let _ = file.take(most).read_to_end(&mut bytes);
    }
    // A short file's last page ends in zeroes, as it does in the page cache.
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    output.add(&bytes)?;
    Ok(bytes.len() as u64)
}

fn libraries() -> Vec<PathBuf> {
    let entries = fs::read_dir(LIBRARIES).into_iter().flatten().flatten();
    let mut all: Vec<(u64, PathBuf)> = entries
        .filter(|entry| entry.file_name().to_string_lossy().contains(".so"))
        .filter_map(|entry| {
            let data = entry
                .path()
                .symlink_metadata()
                .ok()
                .filter(|data| data.is_file())?;
            Some((data.len(), entry.path()))
        })
        .collect();
    all.sort_by(|a, b| b.cmp(a));
    all.into_iter().map(|(_, path)| path).collect()
}

fn take_texts(folder: &Path, left: &mut u64, output: &mut Output) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(data) = path.symlink_metadata() else {
            continue;
        };
        if data.is_dir() {
            take_texts(&path, left, output)?;
        } else if data.is_file() && is_text(&path) {
            *left = left.saturating_sub(take_file(&path, 1 << 20, output)?);
        }
        if *left == 0 {
            break;
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [
        ".rs",
        ".c",
        ".h",
        ".py",
        ".txt",
        ".html",
        ".pl",
        ".pm",
        "copyright",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

/// Gathers `mb` MiB of pages, unless the file is there already.
pub fn collect(job: &Job) -> Result<Json> {
    let bytes = job.number::<u64>("mb")? << 20;
    let mut values = Json::object();
    if fs::metadata(REAL_PAGES).is_ok_and(|data| data.len() == bytes) {
        return Ok(Json::object().with("values", values));
    }
    let partial = format!("{REAL_PAGES}.new");
    let mut output = Output {
        file: File::create(&partial).doing(&partial)?,
        left: bytes,
    };
    let mut total = 0;
    for (command, after_ms) in PROGRAMS {
        let mut child = stopped(command, *after_ms)?;
        for process in members(child.id()) {
            total += take_memory(&process, &mut output)?;
        }
        signal_group(&child, libc::SIGKILL);
        child.wait().doing("waiting for a program")?;
    }
    values.put("programs_mb", (total >> 20) as f64);
    // Half of what is left is text, half libraries; libraries fill the rest if text is scarce.
    let share = output.left / 2;
    let mut left = share;
    for folder in TEXTS {
        take_texts(Path::new(folder), &mut left, &mut output)?;
    }
    values.put("texts_mb", ((share - left) >> 20) as f64);
    values.put("libraries_mb", (output.left >> 20) as f64);
    for library in libraries() {
        let left = output.left;
        take_file(&library, left, &mut output)?;
    }
    if output.left > 0 {
        return failed(format!(
            "{} MiB of real pages are missing",
            output.left >> 20
        ));
    }
    output.file.sync_all().doing(&partial)?;
    fs::rename(&partial, REAL_PAGES).doing(REAL_PAGES)?;
    Ok(Json::object().with("values", values))
}
