// SPDX-License-Identifier: GPL-2.0

//! Time, read without a system call.
//!
//! In user-mode Linux a clock call costs some microseconds, as much as the page that is measured.
//! The processor's time stamp counter costs nanoseconds. It is calibrated against the monotonic
//! clock once, before any child is made, and used only if two calibrations agree. Elsewhere the
//! monotonic clock needs no system call and is used as it is: an emulated counter is not steady.

use std::sync::OnceLock;
use std::time::Duration;

use crate::sys;

/// Monotonic time in nanoseconds = `base_ns` + (counter - `base_count`) * `scale`.
struct Counter {
    base_ns: u64,
    base_count: u64,
    scale: f64,
}

static COUNTER: OnceLock<Option<Counter>> = OnceLock::new();

#[cfg(target_arch = "x86_64")]
fn count() -> Option<u64> {
    // SAFETY: The instruction has no precondition; every x86_64 processor has it.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn count() -> Option<u64> {
    None
}

/// Reads both clocks as close together as three tries allow.
fn both() -> Option<(u64, u64)> {
    let mut best = None;
    for _ in 0..5 {
        let before = count()?;
        let ns = sys::monotonic_ns();
        let after = count()?;
        let width = after.wrapping_sub(before);
        if best.is_none_or(|(least, _, _)| width < least) {
            best = Some((width, before.wrapping_add(width / 2), ns));
        }
    }
    best.map(|(_, at, ns)| (at, ns))
}

fn calibrate() -> Option<Counter> {
    let mut scales = Vec::new();
    let (base_count, base_ns) = both()?;
    let (mut last_count, mut last_ns) = (base_count, base_ns);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(60));
        let (now_count, now_ns) = both()?;
        let counts = now_count
            .checked_sub(last_count)
            .filter(|counts| *counts > 0)?;
        scales.push((now_ns - last_ns) as f64 / counts as f64);
        (last_count, last_ns) = (now_count, now_ns);
    }
    let (first, second) = (scales[0], scales[1]);
    let scale = (last_ns - base_ns) as f64 / (last_count - base_count) as f64;
    ((first / second - 1.0).abs() < 2e-3).then_some(Counter {
        base_ns,
        base_count,
        scale,
    })
}

fn calibrate_if_needed() -> Option<Counter> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.contains("User Mode Linux").then(calibrate).flatten()
}

/// Calibrates; call it before the first child is made. Returns the clock's name.
pub fn start() -> &'static str {
    match COUNTER.get_or_init(calibrate_if_needed) {
        Some(_) => "tsc",
        None => "clock_gettime",
    }
}

/// Returns monotonic time in nanoseconds.
pub fn now_ns() -> u64 {
    if let (Some(Some(counter)), Some(at)) = (COUNTER.get(), count()) {
        let past = at.wrapping_sub(counter.base_count) as f64 * counter.scale;
        return counter.base_ns + past as u64;
    }
    sys::monotonic_ns()
}

/// Returns the milliseconds between two times in nanoseconds.
pub fn ms_between(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}
