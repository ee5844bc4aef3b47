// SPDX-License-Identifier: GPL-2.0

//! Figures from /proc.

use std::fs;

use crate::error::Doing;
use crate::error::Error;
use crate::error::Result;
use crate::sys::PAGE;

/// Returns a figure of /proc/meminfo in bytes.
pub fn meminfo(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").doing("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number
        .map(|kib| kib << 10)
        .ok_or_else(|| Error::Failed(format!("/proc/meminfo lacks {name}")))
}

/// Returns the processor time that all of the kernel's workers have used so far.
///
/// It is the scheduler's own sum, not a count of ticks; of a worker that runs right now the last
/// stretch is missing, so call it when they sleep.
pub fn workers_cpu_ns() -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir("/proc").doing("/proc")?.flatten() {
        let path = entry.path();
        let is_process = entry
            .file_name()
            .to_string_lossy()
            .starts_with(|c: char| c.is_ascii_digit());
        // A worker may end meanwhile; then it did nothing for us.
        let is_worker = is_process
            && fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("kworker"));
        if !is_worker {
            continue;
        }
        if let Ok(text) = fs::read_to_string(path.join("schedstat")) {
            let first = text
                .split_whitespace()
                .next()
                .and_then(|word| word.parse::<u64>().ok());
            sum += first.ok_or_else(|| Error::Absent("the kernel has no schedstat".to_owned()))?;
        }
    }
    Ok(sum)
}

/// Gives the page cache's memory back, so that free memory says something.
pub fn drop_caches() -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3").doing("dropping caches")
}

/// Returns the memory that nobody uses, in bytes, the page allocator's per-CPU lists included.
///
/// The plain figure of free memory leaves those lists out, and they can hold many megabytes.
pub fn unused_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/zoneinfo").doing("/proc/zoneinfo")?;
    let pages: u64 = text
        .lines()
        .filter_map(|line| {
            let (name, number) = line.trim().split_once([' ', ':'])?;
            let counts = name == "nr_free_pages" || name == "count";
            counts.then(|| number.trim().parse::<u64>().unwrap_or(0))
        })
        .sum();
    Ok(pages * PAGE as u64)
}

/// Returns the running kernel's release, or nothing.
pub fn kernel_release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}
