// SPDX-License-Identifier: GPL-2.0

//! `rzchange DEVICE PAGE COUNT SECONDS`
//!
//! Writes pages that change while they are being written: one thread writes COUNT pages from PAGE on,
//! one after the other and over again, all from one page of memory that another thread makes noise
//! and text in turn. What is stored is arbitrary; that every write succeeds is checked here, and the
//! pages around are for the caller to check. Prints how many pages were written.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use rzram_selftests::args::Args;

/// Words of a page.
const WORDS: usize = 512;

/// A page, aligned as direct I/O wants it.
#[repr(align(4096))]
struct Page([AtomicU64; WORDS]);

fn main() -> ExitCode {
    match Args::from_env(&[]).and_then(|args| run(&args)) {
        Ok(pages) => {
            println!("rzchange: {pages} pages written while they changed");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("rzchange: {message}");
            ExitCode::from(1)
        }
    }
}

fn run(args: &Args) -> Result<u64, String> {
    let path = args.word(0, "device")?;
    let first: u64 = args.number(1, "page")?;
    let count: u64 = args.number(2, "count")?;
    let seconds = args.number(3, "seconds")?;
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_DIRECT);
    let file = options.open(path).map_err(|e| format!("{path}: {e}"))?;
    let page = Page([const { AtomicU64::new(0) }; WORDS]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| change(&page, &stop));
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut written = 0;
        let mut outcome = Ok(0);
        while Instant::now() < end {
            let at = (first + written % count) * 4096;
            if let Err(e) = write(file.as_raw_fd(), &page, at) {
                outcome = Err(format!("page at {at}: {e}"));
                break;
            }
            written += 1;
        }
        stop.store(true, Ordering::Relaxed);
        outcome.map(|_| written)
    })
}

/// Makes the page noise and a repeated word in turn, word by word.
fn change(page: &Page, stop: &AtomicBool) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    while !stop.load(Ordering::Relaxed) {
        for word in &page.0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.store(state, Ordering::Relaxed);
        }
        for word in &page.0 {
            word.store(0x2e2e_2e2e, Ordering::Relaxed);
        }
    }
}

fn write(file: i32, page: &Page, at: u64) -> io::Result<()> {
    let offset = i64::try_from(at).map_err(io::Error::other)?;
    // SAFETY: the page has this length; the kernel reads it while another thread stores to it, which
    // atomic words allow.
    let written = unsafe { libc::pwrite(file, (&raw const page.0).cast(), 4096, offset) };
    match written {
        4096 => Ok(()),
        0.. => Err(io::Error::other("short write")),
        _ => Err(io::Error::last_os_error()),
    }
}
