// SPDX-License-Identifier: GPL-2.0

//! Which codecs a device uses and with which parameters: `comp_algorithm`, `recomp_algorithm` and
//! `algorithm_params`.
//!
//! A write is parsed completely before the device lock is taken, so that a mistake in it changes
//! nothing, and a dictionary is read before the old parameters go.

use super::{
    live::PRIORITIES,
    parse,
    sysfs::errno,
    Device, //
};
use crate::{
    kapi::{
        disk::LiveDisk,
        file,
        num::u32_to_usize,
        sysfs::Emit, //
    },
    zcomp::{self, CodecId, CodecParams, Dict}, //
};
use core::fmt::Write;
use kernel::{
    fmt,
    prelude::*, //
};

/// Longest name of a codec that is looked up, in bytes with its newline.
const MAX_NAME_BYTES: usize = 127;

/// What may be written to `algorithm_params`.
const PARAM_WORDS: &str = "priority= algo= level= dict= deflate.winbits=";

/// What may be written to `recomp_algorithm`.
const RECOMP_WORDS: &str = "algo=NAME and priority=1, 2 or 3";

/// A codec that the user chose for a priority, with its parameters.
#[derive(Clone)]
pub(crate) struct Choice {
    /// Which codec.
    pub(crate) codec: CodecId,
    /// Level, dictionary and the like.
    pub(crate) params: CodecParams,
}

/// The choices of a device, by priority. The first is always there.
pub(crate) type Choices = [Option<Choice>; PRIORITIES];

/// Returns what a new device uses.
pub(super) fn defaults() -> Choices {
    let mut choices = [const { None }; PRIORITIES];
    if let Some(primary) = choices.first_mut() {
        // Loading refuses a kernel without any codec, so there is a default.
        *primary = zcomp::default_codec().map(Choice::plain);
    }
    choices
}

impl Choice {
    fn plain(codec: CodecId) -> Self {
        Self {
            codec,
            params: CodecParams::default(),
        }
    }
}

/// Lists all codecs, the chosen one in brackets.
fn list(chosen: &Choice, out: &mut Emit<'_>) -> core::fmt::Result {
    for codec in zcomp::codecs() {
        let name = codec.name();
        if codec == chosen.codec {
            write!(out, "[{name}] ")?;
        } else {
            write!(out, "{name} ")?;
        }
    }
    writeln!(out)
}

pub(super) fn show_comp_algorithm(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    match config.choices.first() {
        Some(Some(primary)) => list(primary, out).map_err(|_| ENOSPC),
        _ => Ok(()),
    }
}

pub(super) fn show_recomp_algorithm(disk: &LiveDisk<Device>, out: &mut Emit<'_>) -> Result {
    let config = disk.config.read();
    for (priority, choice) in config.choices.iter().enumerate().skip(1) {
        if let Some(choice) = choice {
            write!(out, "#{priority}: ").map_err(|_| ENOSPC)?;
            list(choice, out).map_err(|_| ENOSPC)?;
        }
    }
    Ok(())
}

/// Prints the names of all codecs.
struct CodecNames;

impl fmt::Display for CodecNames {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut codecs = zcomp::codecs().peekable();
        while let Some(codec) = codecs.next() {
            let end = if codecs.peek().is_some() { ", " } else { "" };
            write!(out, "{}{end}", codec.name())?;
        }
        Ok(())
    }
}

fn look_up(disk: &LiveDisk<Device>, file: &str, text: &[u8], name: &[u8]) -> Result<CodecId> {
    zcomp::lookup(parse::name(name))
        .ok_or(EINVAL)
        .inspect_err(|_| {
            disk.refuse(file, text, CodecNames);
        })
}

/// Chooses a codec for a priority of a device that has no size yet.
fn choose(disk: &LiveDisk<Device>, priority: usize, codec: CodecId) -> Result {
    let mut config = disk.config.write();
    if disk.live.get(&config).is_some() {
        return Err(EBUSY);
    }
    *config.choices.get_mut(priority).ok_or(EINVAL)? = Some(Choice::plain(codec));
    Ok(())
}

/// # Errors
///
/// `E2BIG`, then `EINVAL` for an unknown name, then `EBUSY`.
pub(super) fn store_comp_algorithm(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    if text.len() > MAX_NAME_BYTES {
        return Err(E2BIG);
    }
    let codec = look_up(disk, "comp_algorithm", text, text)?;
    choose(disk, 0, codec)
}

/// # Errors
///
/// In this order: `EINVAL`/`ERANGE` of a number, `EINVAL` for a word without value, no `algo` or a
/// priority outside of 1 to 3, `E2BIG`, `EINVAL` for an unknown name, `EBUSY`.
pub(super) fn store_recomp_algorithm(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let refuse = |e: Error| {
        disk.refuse("recomp_algorithm", text, RECOMP_WORDS);
        e
    };
    let mut name = None;
    let mut priority = 1;
    for arg in parse::args(text) {
        let value = arg.value.ok_or(EINVAL).map_err(refuse)?;
        match arg.key {
            b"algo" => name = Some(value),
            b"priority" => priority = parse::dec_i32(value).map_err(errno).map_err(refuse)?,
            _ => {}
        }
    }
    let name = name.ok_or(EINVAL).map_err(refuse)?;
    let priority = secondary(priority).map_err(refuse)?;
    if name.len() > MAX_NAME_BYTES {
        return Err(E2BIG);
    }
    let codec = look_up(disk, "recomp_algorithm", text, name)?;
    choose(disk, priority, codec)
}

fn secondary(priority: i32) -> Result<usize> {
    match u32::try_from(priority).map(u32_to_usize) {
        Ok(at @ 1..PRIORITIES) => Ok(at),
        _ => Err(EINVAL),
    }
}

/// A write to `algorithm_params`, parsed.
struct Request<'a> {
    priority: Option<i32>,
    name: Option<&'a [u8]>,
    dict: Option<&'a [u8]>,
    params: CodecParams,
}

impl<'a> Request<'a> {
    fn parse(text: &'a [u8]) -> Result<Self> {
        let mut request = Self {
            priority: None,
            name: None,
            dict: None,
            params: CodecParams::default(),
        };
        for arg in parse::args(text) {
            let value = arg.value.ok_or(EINVAL)?;
            let number = || parse::dec_i32(value).map_err(errno);
            match arg.key {
                b"priority" => request.priority = Some(number()?),
                b"level" => request.params.level = Some(number()?),
                b"deflate.winbits" => request.params.winbits = Some(number()?),
                b"algo" => request.name = Some(value),
                b"dict" => request.dict = Some(value),
                _ => {}
            }
        }
        Ok(request)
    }

    /// Returns the priority that is meant: the given one, the lowest that has the named codec, or
    /// the first.
    fn target(&self, choices: &Choices) -> Result<usize> {
        let has = |choice: &Option<Choice>, name: &[u8]| {
            choice
                .as_ref()
                .is_some_and(|c| c.codec.name().as_bytes() == name)
        };
        let given = match self.priority {
            None => None,
            Some(0) => Some(0),
            Some(priority) => Some(secondary(priority)?),
        };
        match (given, self.name) {
            (None, None) => Ok(0),
            (Some(at), None) => Ok(at),
            (None, Some(name)) => choices.iter().position(|c| has(c, name)).ok_or(EINVAL),
            (Some(at), Some(name)) => {
                let agrees = choices.get(at).is_some_and(|c| has(c, name));
                agrees.then_some(at).ok_or(EINVAL)
            }
        }
    }
}

/// Replaces all parameters of one priority.
///
/// # Errors
///
/// `EINVAL` and `ERANGE` of the text, `EBUSY`, `EINVAL` for a target that does not exist, and what
/// reading the dictionary says. The old parameters stay in every case.
pub(super) fn store_algorithm_params(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let refuse = |e: Error| {
        disk.refuse("algorithm_params", text, PARAM_WORDS);
        e
    };
    let mut request = Request::parse(text).map_err(refuse)?;
    if let Some(path) = request.dict {
        // Not worth reading for a device that will refuse it.
        let config = disk.config.read();
        if disk.live.get(&config).is_some() {
            return Err(EBUSY);
        }
        drop(config);
        request.params.dict = Some(Dict::new(file::read_whole(path)?)?);
    }
    let mut config = disk.config.write();
    if disk.live.get(&config).is_some() {
        return Err(EBUSY);
    }
    let at = request.target(&config.choices).map_err(refuse)?;
    match config.choices.get_mut(at).ok_or(EINVAL)? {
        Some(choice) => choice.params = request.params,
        // Parameters of a priority without codec: choosing one resets them, so none are kept.
        None => {}
    }
    Ok(())
}
