// SPDX-License-Identifier: GPL-2.0

//! The three disks that are compared, and the proofs that a job really uses the one it names.
//!
//! C zram and rzram stay loaded side by side; the RAM disk, which cannot be reset, is loaded anew
//! each time. Only one of them is a swap area at any time.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
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

/// Which driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel's own.
    Zram,
    /// Ours.
    Rzram,
    /// `brd`, the floor: no compression and no notification of freed slots.
    Ram,
}

impl Kind {
    /// Reads the plan's word, which may go on after the name: `rzram-sync` is still rzram.
    pub fn of(job: &Job) -> Result<Self> {
        match job.text("kind")? {
            "zram" => Ok(Self::Zram),
            "ram" => Ok(Self::Ram),
            word if word.starts_with("rzram") => Ok(Self::Rzram),
            word => failed(format!("no driver called {word}")),
        }
    }

    fn module(self) -> &'static str {
        match self {
            Self::Zram => "zram",
            Self::Rzram => "rzram",
            Self::Ram => "brd",
        }
    }

    fn disk(self) -> &'static str {
        match self {
            Self::Zram => "zram0",
            Self::Rzram => "rzram0",
            Self::Ram => "ram0",
        }
    }

    /// The name that the driver registered its block major under.
    fn major_name(self) -> &'static str {
        match self {
            Self::Zram => "zram",
            Self::Rzram => "rzram",
            Self::Ram => "ramdisk",
        }
    }
}

/// What a disk was made into.
#[derive(Clone, PartialEq, Eq)]
struct Shape {
    codec: String,
    bytes: u64,
    data: String,
}

/// One driver's disk.
pub struct Disk {
    kind: Kind,
    parameters: String,
    shape: Option<Shape>,
    swapping: bool,
}

fn codec_of(job: &Job) -> &str {
    job.find("codec").unwrap_or("lzo-rle")
}

fn read_trimmed(path: &str) -> Result<String> {
    Ok(fs::read_to_string(path).doing(path)?.trim().to_owned())
}

fn write_attribute(path: &str, value: &str) -> Result<()> {
    fs::write(path, value).doing(&format!("writing {value} to {path}"))
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .doing(program)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    failed(format!(
        "{program} {}: {}",
        arguments.join(" "),
        text.trim()
    ))
}

impl Disk {
    /// Returns the disk of a driver that is not loaded yet.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            parameters: String::new(),
            shape: None,
            swapping: false,
        }
    }

    /// Returns which driver it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the path of the device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.kind.disk())
    }

    /// Returns the path of an attribute in the disk's folder.
    pub fn attribute(&self, name: &str) -> String {
        format!("/sys/block/{}/{name}", self.kind.disk())
    }

    fn is_loaded(&self) -> bool {
        Path::new("/sys/module").join(self.kind.module()).exists()
    }

    /// Loads the driver with exactly these module parameters.
    fn load(&mut self, parameters: &str) -> Result<()> {
        if self.is_loaded() && self.parameters == parameters {
            return self.check_module();
        }
        self.unload()?;
        let words = parameters.split_whitespace();
        match self.kind {
            Kind::Rzram => {
                let path = std::env::var("RZRAM_KO").unwrap_or_default();
                if !Path::new(&path).exists() {
                    return Err(Error::Absent("rzram.ko was not built".to_owned()));
                }
                let words: Vec<_> = std::iter::once("num_devices=1").chain(words).collect();
                run("load-rzram", &words).map_err(|error| Error::Absent(error.to_string()))?;
            }
            Kind::Zram => run("modprobe", &["zram", "num_devices=1"])?,
            Kind::Ram => {
                let words: Vec<_> = ["brd", "rd_nr=1"].into_iter().chain(words).collect();
                run("modprobe", &words)?;
            }
        }
        self.parameters = parameters.to_owned();
        self.check_module()
    }

    /// Unloads the driver if it is loaded, with all that is stored.
    pub fn unload(&mut self) -> Result<()> {
        self.shape = None;
        if self.is_loaded() {
            run("rmmod", &[self.kind.module()])?;
        }
        Ok(())
    }

    /// Proves that the node belongs to the driver that the job names.
    fn check_module(&self) -> Result<()> {
        let node = self.node();
        let device = fs::metadata(&node).doing(&node)?.rdev();
        let table = read_trimmed("/proc/devices")?;
        let block = table.split("Block devices:").nth(1).unwrap_or_default();
        let wanted = format!("{} {}", sys::major(device), self.kind.major_name());
        if block.lines().any(|line| line.trim() == wanted) {
            return Ok(());
        }
        premise(format!("{node} does not belong to {}", self.kind.module()))
    }

    /// Makes an empty disk of `bytes` bytes with the codec and parameters that the job names.
    pub fn make(&mut self, job: &Job, bytes: u64) -> Result<()> {
        if self.kind == Kind::Ram {
            self.unload()?;
            self.load(&format!("rd_size={} max_part=0", bytes >> 10))?;
        } else {
            self.prepare(job)?;
        }
        self.set_size(job, bytes)?;
        self.check_shape()
    }

    /// Loads the driver with the job's parameters, empties the disk, and selects the job's codec.
    pub fn prepare(&mut self, job: &Job) -> Result<()> {
        if self.kind == Kind::Ram {
            return Ok(());
        }
        self.load(&job.find("param").unwrap_or_default().replace(',', " "))?;
        self.reset()?;
        self.select_codec(codec_of(job))
    }

    /// Gives a prepared disk its size.
    pub fn set_size(&mut self, job: &Job, bytes: u64) -> Result<()> {
        if self.kind != Kind::Ram {
            write_attribute(&self.attribute("disksize"), &bytes.to_string())?;
        }
        self.shape = Some(Shape {
            codec: codec_of(job).to_owned(),
            bytes,
            data: String::new(),
        });
        Ok(())
    }

    /// Forgets what the disk was filled with, because the job changes it.
    pub fn forget_data(&mut self) {
        if let Some(shape) = &mut self.shape {
            shape.data.clear();
        }
    }

    fn select_codec(&self, codec: &str) -> Result<()> {
        let path = self.attribute("comp_algorithm");
        let names = read_trimmed(&path)?;
        let mut known = names
            .split_whitespace()
            .map(|name| name.trim_matches(['[', ']']));
        if !known.any(|name| name == codec) {
            return Err(Error::Absent(format!(
                "{} lacks {codec}",
                self.kind.module()
            )));
        }
        write_attribute(&path, codec)
    }

    /// Proves that the disk has the codec and the size that the job names.
    pub fn check_shape(&self) -> Result<()> {
        let Some(shape) = &self.shape else {
            return premise("the disk was not made");
        };
        let file = File::open(self.node()).doing(&self.node())?;
        let bytes = sys::device_bytes(&file).doing("size of the disk")?;
        if bytes != shape.bytes.next_multiple_of(PAGE as u64) {
            return premise(format!("the disk has {bytes} bytes, not {}", shape.bytes));
        }
        if self.kind != Kind::Ram {
            let names = read_trimmed(&self.attribute("comp_algorithm"))?;
            let wanted = format!("[{}]", shape.codec);
            if !names.split_whitespace().any(|name| name == wanted) {
                return premise(format!("the codec is not {}: {names}", shape.codec));
            }
        }
        self.check_module()
    }

    /// Empties the disk and gives its memory back.
    pub fn reset(&mut self) -> Result<()> {
        if self.swapping {
            self.swap_off()?;
        }
        self.shape = None;
        if self.kind == Kind::Ram {
            return self.unload();
        }
        if self.is_loaded() {
            write_attribute(&self.attribute("reset"), "1")?;
        }
        Ok(())
    }

    /// Makes a disk filled with data, unless it already is the one that the job names.
    pub fn fill(&mut self, job: &Job, bytes: u64, data: &Dataset) -> Result<()> {
        let codec = codec_of(job);
        let parameters = job.find("param").unwrap_or_default().replace(',', " ");
        let same = self.shape.as_ref().is_some_and(|shape| {
            shape.data == data.name && shape.bytes == bytes && shape.codec == codec
        });
        if same && (self.kind == Kind::Ram || parameters == self.parameters) {
            return self.check_filled(data);
        }
        self.make(job, bytes)?;
        let file = sys::open_direct(&self.node()).doing("opening the disk")?;
        let mut offset = 0;
        while offset < bytes {
            let length = (bytes - offset).min(1 << 20) as usize;
            // The data is page-aligned in memory, as direct writes need it.
            let chunk = data.at(offset, length);
            file.write_all_at(chunk, offset).doing("filling the disk")?;
            offset += length as u64;
        }
        if let Some(shape) = &mut self.shape {
            shape.data.clone_from(&data.name);
        }
        self.check_filled(data)
    }

    /// Proves that the disk holds the data: its statistics, and every 64th MiB read back.
    fn check_filled(&self, data: &Dataset) -> Result<()> {
        self.check_shape()?;
        let bytes = self.shape.as_ref().map_or(0, |shape| shape.bytes);
        if self.kind != Kind::Ram && self.mm_stat()?.first() != Some(&bytes) {
            return premise(format!("the disk does not store {bytes} bytes"));
        }
        let file = sys::open_direct(&self.node()).doing("opening the disk")?;
        let mut buffer = sys::Map::shared(1 << 20).doing("a buffer")?;
        for offset in (0..bytes).step_by(64 << 20) {
            let length = (bytes - offset).min(1 << 20) as usize;
            let piece = &mut buffer.bytes_mut()[..length];
            file.read_exact_at(piece, offset)
                .doing("reading the disk")?;
            if piece != data.at(offset, length) {
                return premise("the disk returns other data than was written");
            }
        }
        Ok(())
    }

    /// Makes a disk of `bytes` bytes and the only swap area of the system.
    pub fn swap_on(&mut self, job: &Job, bytes: u64) -> Result<()> {
        self.make(job, bytes)?;
        let mut header = sys::Map::shared(PAGE).doing("a buffer")?;
        let page = header.bytes_mut();
        let last = (bytes / PAGE as u64 - 1) as u32;
        page[1024..1028].copy_from_slice(&1_u32.to_ne_bytes());
        page[1028..1032].copy_from_slice(&last.to_ne_bytes());
        page[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
        let file = sys::open_direct(&self.node()).doing("opening the disk")?;
        file.write_all_at(page, 0)
            .doing("writing the swap header")?;
        drop(file);
        sys::swap_on(&self.node()).doing("swapon")?;
        self.swapping = true;
        self.swap_used().map(|_| ())
    }

    /// Returns the bytes used of the swap area; proves that it is the only one.
    pub fn swap_used(&self) -> Result<u64> {
        let table = read_trimmed("/proc/swaps")?;
        let areas: Vec<&str> = table.lines().skip(1).collect();
        let &[area] = areas.as_slice() else {
            return premise(format!("{} swap areas, not one", areas.len()));
        };
        let mut words = area.split_whitespace();
        if words.next() != Some(self.node().as_str()) {
            return premise(format!("swap is not on {}: {area}", self.node()));
        }
        let used = words.nth(2).and_then(|word| word.parse::<u64>().ok());
        Ok(used.unwrap_or(0) << 10)
    }

    /// Takes the swap area out of use.
    pub fn swap_off(&mut self) -> Result<()> {
        self.swapping = false;
        sys::swap_off(&self.node()).doing("swapoff")
    }

    /// Returns the fields of `mm_stat`; reading it drains what rzram has pending.
    pub fn mm_stat(&self) -> Result<Vec<u64>> {
        let text = read_trimmed(&self.attribute("mm_stat"))?;
        Ok(text
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0))
            .collect())
    }

    /// Opens the figure of pool pages that can be read without draining: its path, and whether the
    /// third field (in bytes) or the first (in pages) counts.
    pub fn pool_pages(&self) -> Result<PoolPages> {
        let debug = format!("/sys/kernel/debug/rzram/{}/pool_pages", self.kind.disk());
        if self.kind == Kind::Rzram && Path::new(&debug).exists() {
            let file = File::open(&debug).doing(&debug)?;
            return Ok(PoolPages {
                file,
                draining: false,
            });
        }
        let path = self.attribute("mm_stat");
        let file = File::open(&path).doing(&path)?;
        Ok(PoolPages {
            file,
            draining: true,
        })
    }

    /// Returns every debugfs figure of the driver that is a short text.
    pub fn debug_figures(&self) -> Json {
        let mut all = Json::object();
        let folder = format!(
            "/sys/kernel/debug/{}/{}",
            self.kind.module(),
            self.kind.disk()
        );
        let Ok(entries) = fs::read_dir(folder) else {
            return all;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // One line a slot: far too long.
            if name == "block_state" {
                continue;
            }
            if let Ok(text) = fs::read_to_string(entry.path()) {
                all.put(&name, text.chars().take(4000).collect::<String>());
            }
        }
        all
    }

    /// Returns the values of the module parameters that can be read.
    fn parameters_now(&self) -> Json {
        let mut all = Json::object();
        let folder = format!("/sys/module/{}/parameters", self.kind.module());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Ok(value) = fs::read_to_string(entry.path()) {
                all.put(&entry.file_name().to_string_lossy(), value.trim());
            }
        }
        all
    }

    /// Returns what was proved, for the line of results.
    pub fn premises(&self) -> Json {
        let shape = self.shape.as_ref();
        Json::object()
            .with("module", self.kind.module())
            .with("parameters", self.parameters.as_str())
            .with("parameters_now", self.parameters_now())
            .with("codec", shape.map_or("", |shape| &shape.codec))
            .with("disk_bytes", shape.map_or(0, |shape| shape.bytes))
    }
}

/// An open file that says how many pages the pool has.
pub struct PoolPages {
    file: File,
    /// Whether reading it makes the driver free what is pending.
    pub draining: bool,
}

impl PoolPages {
    /// Reads the figure.
    pub fn read(&self) -> Result<u64> {
        let mut buffer = [0; 256];
        let length = self.file.read_at(&mut buffer, 0).doing("pool pages")?;
        let text = String::from_utf8_lossy(&buffer[..length]);
        let field = if self.draining { 2 } else { 0 };
        let number = text
            .split_whitespace()
            .nth(field)
            .and_then(|word| word.parse::<u64>().ok());
        match number {
            Some(bytes) if self.draining => Ok(bytes / PAGE as u64),
            Some(pages) => Ok(pages),
            None => failed("the pool's size cannot be read"),
        }
    }
}
