// SPDX-License-Identifier: GPL-2.0

//! Which codecs a device uses and with which parameters: `comp_algorithm`, `recomp_algorithm` and
//! `algorithm_params`.
//!
//! A write is parsed completely before the device lock is taken, so that a mistake in it changes
//! nothing, and a dictionary is read before the old parameters go.

use super::{
    live::PRIORITIES,
    request::{self, Params, Secondary},
    sysfs::errno,
    Device, //
};
use crate::{
    kapi::{
        disk::LiveDisk,
        file,
        sysfs::Emit, //
    },
    zcomp::{self, CodecId, CodecParams, Dict}, //
};
use core::fmt::Write;
use kernel::{
    fmt,
    prelude::*, //
};

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
    let name = request::codec_name(name).ok_or(E2BIG)?;
    let codec = zcomp::lookup(name).ok_or(EINVAL);
    codec.inspect_err(|_| disk.refuse(file, text, CodecNames))
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
    let codec = look_up(disk, "comp_algorithm", text, text)?;
    choose(disk, 0, codec)
}

/// # Errors
///
/// In this order: `EINVAL`/`ERANGE` of a number, `EINVAL` for a word without value, no `algo` or a
/// priority outside of 1 to 3, `E2BIG`, `EINVAL` for an unknown name, `EBUSY`.
pub(super) fn store_recomp_algorithm(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let asked = Secondary::parse(text).map_err(errno);
    let asked = asked.inspect_err(|_| disk.refuse("recomp_algorithm", text, RECOMP_WORDS))?;
    let codec = look_up(disk, "recomp_algorithm", text, asked.name)?;
    choose(disk, asked.priority, codec)
}

/// Returns the priority whose parameters are meant: the given one, the lowest that has the named
/// codec, or the first.
fn target(asked: &Params<'_>, choices: &Choices) -> Result<usize> {
    let has = |choice: &Option<Choice>, name: &[u8]| {
        choice
            .as_ref()
            .is_some_and(|c| c.codec.name().as_bytes() == name)
    };
    let given = match asked.priority {
        None => None,
        Some(0) => Some(0),
        Some(priority) => Some(request::secondary(priority).map_err(errno)?),
    };
    match (given, asked.name) {
        (None, None) => Ok(0),
        (Some(at), None) => Ok(at),
        (None, Some(name)) => choices.iter().position(|c| has(c, name)).ok_or(EINVAL),
        (Some(at), Some(name)) => {
            let agrees = choices.get(at).is_some_and(|c| has(c, name));
            agrees.then_some(at).ok_or(EINVAL)
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
    let asked = Params::parse(text).map_err(errno).map_err(refuse)?;
    let mut params = CodecParams {
        level: asked.level,
        dict: None,
        winbits: asked.winbits,
    };
    if let Some(path) = asked.dict {
        // Not worth reading for a device that will refuse it.
        let config = disk.config.read();
        if disk.live.get(&config).is_some() {
            return Err(EBUSY);
        }
        target(&asked, &config.choices).map_err(refuse)?;
        drop(config);
        params.dict = Some(Dict::new(file::read_whole(path)?)?);
    }
    let mut config = disk.config.write();
    if disk.live.get(&config).is_some() {
        return Err(EBUSY);
    }
    let at = target(&asked, &config.choices).map_err(refuse)?;
    match config.choices.get_mut(at).ok_or(EINVAL)? {
        Some(choice) => choice.params = params,
        // Parameters of a priority without codec: choosing one resets them, so none are kept.
        None => {}
    }
    Ok(())
}
