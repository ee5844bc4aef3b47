// SPDX-License-Identifier: GPL-2.0

//! The bare codec for P4 and P6: the kernel's own library called on the same pages, with no driver
//! around it.

use std::path::Path;
use std::process::Command;

use crate::data::Dataset;
use crate::error::failed;
use crate::error::premise;
use crate::error::Doing;
use crate::error::Error;
use crate::error::Result;
use crate::json::Json;
use crate::plan::Job;
use crate::sys;
use crate::sys::PAGE;

const NODE: &str = "/dev/rzbench";
/// Built by bench/run for this guest's kernel.
const MODULE: &str = "/mnt/host/rzbench_codec.ko";
/// The codecs in the order of their numbers in bench/kmod.
const CODECS: &[&str] = &["lzo-rle", "lz4", "zstd", "lzo"];

fn load() -> Result<()> {
    if Path::new(NODE).exists() {
        return Ok(());
    }
    if !Path::new(MODULE).exists() {
        return Err(Error::Absent("the codec module was not built".to_owned()));
    }
    // The codec libraries may be modules; C zram needs the same ones.
    let _ = Command::new("modprobe").arg("zram").status();
    let output = Command::new("insmod")
        .arg(MODULE)
        .output()
        .doing("insmod")?;
    if !output.status.success() {
        return failed(String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Times compression and decompression of every page of the data, once each.
pub fn bare(job: &Job, data: &Dataset) -> Result<Json> {
    load()?;
    let codec = job.text("codec")?;
    let Some(number) = CODECS.iter().position(|name| *name == codec) else {
        return Err(Error::Absent(format!("the codec module lacks {codec}")));
    };
    let bytes = data.at(0, job.number::<usize>("data_mb")? << 20);
    let answer = sys::bare_codec(NODE, number as u64, bytes).doing("the codec module")?;
    let [compress_ns, decompress_ns, compressed] = answer;
    if compressed == 0 {
        return premise("the codec made nothing of the pages");
    }
    let pages = (bytes.len() / PAGE) as f64;
    let values = Json::object()
        .with("compress_ns", compress_ns as f64 / pages)
        .with("decompress_ns", decompress_ns as f64 / pages)
        .with("compressed_mb", compressed as f64 / 1048576.0);
    Ok(Json::object().with("values", values))
}
