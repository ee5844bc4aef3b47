// SPDX-License-Identifier: GPL-2.0

//! P10: a real job, compiling a source tree in a group with too little memory.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::clock::ms_between;
use crate::clock::now_ns;
use crate::device::Disk;
use crate::error::failed;
use crate::error::premise;
use crate::error::Doing;
use crate::error::Result;
use crate::json::Json;
use crate::plan::Job;
use crate::proc;
use crate::sys;

const GROUPS: &str = "/sys/fs/cgroup";
/// A run that paged out less did not depend on the disk.
const LEAST_PAGED_OUT: u64 = 5000;

fn make_group(name: &str, bytes: u64) -> Result<String> {
    if !Path::new(GROUPS).join("cgroup.procs").exists() {
        let mounted = Command::new("mount")
            .args(["-t", "cgroup2", "none", GROUPS])
            .status();
        if !mounted.doing("mount")?.success() {
            return failed("the control groups cannot be mounted");
        }
    }
    let path = format!("{GROUPS}/{name}");
    fs::write(format!("{GROUPS}/cgroup.subtree_control"), "+memory").doing("memory controller")?;
    if Path::new(&path).exists() {
        fs::remove_dir(&path).doing(&path)?;
    }
    fs::create_dir(&path).doing(&path)?;
    fs::write(format!("{path}/memory.max"), bytes.to_string()).doing("memory.max")?;
    Ok(path)
}

/// Returns the number after `key` in a file of `key number` lines.
fn figure(path: &str, key: &str) -> Result<u64> {
    let text = fs::read_to_string(path).doing(path)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(name, _)| *name == key);
    match found.and_then(|(_, number)| number.trim().parse().ok()) {
        Some(number) => Ok(number),
        None => failed(format!("{path} lacks {key}")),
    }
}

/// Runs the command of the plan's `script` in a group of `limit_mb` MiB, swapping on the disk.
pub fn build(disk: &mut Disk, job: &Job) -> Result<Json> {
    let limit = job.number::<u64>("limit_mb")? << 20;
    let script = job.text("script")?;
    let processes = job.number_or("jobs", sys::cpus())?;
    disk.swap_on(job, job.number::<u64>("mb")? << 20)?;
    proc::drop_caches()?;
    let group = make_group("rzbench", limit)?;
    let (out, back) = (
        figure("/proc/vmstat", "pswpout")?,
        figure("/proc/vmstat", "pswpin")?,
    );
    let enter = format!("echo $$ > {group}/cgroup.procs && exec bash {script} {processes}");
    let begin = now_ns();
    let output = Command::new("bash")
        .args(["-c", &enter])
        .output()
        .doing(script)?;
    let end = now_ns();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return failed(format!(
            "the build failed: {}",
            text.trim().chars().take(300).collect::<String>()
        ));
    }
    let out = figure("/proc/vmstat", "pswpout")? - out;
    let back = figure("/proc/vmstat", "pswpin")? - back;
    let statistics = format!("{group}/cpu.stat");
    let seconds = |key| figure(&statistics, key).map(|us| us as f64 / 1e6);
    let mut values = Json::object()
        .with("wall_s", ms_between(begin, end) / 1e3)
        .with("cpu_s", seconds("usage_usec")?);
    // User-mode Linux books all time as system time.
    if seconds("user_usec")? > 0.0 {
        values.put("system_s", seconds("system_usec")?);
        values.put("user_s", seconds("user_usec")?);
    }
    if out < LEAST_PAGED_OUT {
        return premise(format!(
            "only {out} pages were paged out: the group has too much memory"
        ));
    }
    let premises = disk
        .premises()
        .with("pages_written", out)
        .with("pages_read", back);
    disk.reset()?;
    fs::remove_dir(&group).doing(&group)?;
    Ok(Json::object()
        .with("values", values)
        .with("premises", premises))
}
