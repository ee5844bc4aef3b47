// SPDX-License-Identifier: GPL-2.0

//! What a write to a control file asks for, as its text alone tells.
//!
//! Pure: needs `core`, the grammars and the slot word only.
//!
//! One function or type a file, or for files that take the same. What depends on the state of the disk,
//! such as which codec a priority has, is left to the files' handlers. `recompress` and `writeback`
//! have `candidates.rs` and `targets.rs`.

use super::{
    parse::{self, ParseError},
    word::PRIORITIES, //
};
use crate::kapi::num::{u32_to_usize, usize_to_u64, PAGE_SIZE};

const PAGE_BYTES: u64 = usize_to_u64(PAGE_SIZE);

/// Longest name of a codec that is looked up, in bytes with its newline.
const MAX_NAME_BYTES: usize = 127;

/// Reads `disksize`: bytes, rounded up to whole pages.
///
/// # Errors
///
/// [`ParseError::Malformed`] for nothing and for what wraps.
pub(crate) fn disk_bytes(text: &[u8]) -> Result<u64, ParseError> {
    let bytes = parse::mem(text);
    match bytes.checked_next_multiple_of(PAGE_BYTES) {
        Some(rounded) if bytes != 0 => Ok(rounded),
        _ => Err(ParseError::Malformed),
    }
}

/// Reads `mem_limit` and `mem_threshold`: pages, rounded up; 0 is none.
///
/// Saturates at the largest multiple: a size near 2^64 must not wrap to "none".
///
/// # Errors
///
/// [`ParseError::Malformed`] for a text without a number.
pub(crate) fn limit_pages(text: &[u8]) -> Result<u64, ParseError> {
    if !parse::has_number(text) {
        return Err(ParseError::Malformed);
    }
    let pages = parse::mem(text).div_ceil(PAGE_BYTES);
    Ok(pages.min(u64::MAX / PAGE_BYTES))
}

/// Reads `mem_used_max`, which takes 0 only.
///
/// # Errors
///
/// [`ParseError::Malformed`] for all else.
pub(crate) fn zero(text: &[u8]) -> Result<(), ParseError> {
    match parse::dec(text, u64::MAX) {
        Ok(0) => Ok(()),
        _ => Err(ParseError::Malformed),
    }
}

/// Reads `reset`, which takes any number of 16 bits but 0.
///
/// # Errors
///
/// Those of [`parse::dec`]; [`ParseError::Malformed`] for 0.
pub(crate) fn reset(text: &[u8]) -> Result<(), ParseError> {
    match parse::dec(text, u64::from(u16::MAX))? {
        0 => Err(ParseError::Malformed),
        _ => Ok(()),
    }
}

/// Reads `hot_remove`: the number of a disk.
///
/// # Errors
///
/// Those of [`parse::dec_i32`]; [`ParseError::Malformed`] below 0.
pub(crate) fn disk_number(text: &[u8]) -> Result<u32, ParseError> {
    u32::try_from(parse::dec_i32(text)?).map_err(|_| ParseError::Malformed)
}

/// Reads a number up to `max`; a larger one is as wrong as any other text.
///
/// # Errors
///
/// [`ParseError::Malformed`].
pub(crate) fn number(text: &[u8], max: u32) -> Result<u32, ParseError> {
    let number = parse::dec(text, u64::from(max)).ok();
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or(ParseError::Malformed)
}

/// Reads `writeback_batch_size`: pages, at least one.
///
/// # Errors
///
/// [`ParseError::Malformed`].
pub(crate) fn batch_pages(text: &[u8]) -> Result<u32, ParseError> {
    match number(text, u32::MAX)? {
        0 => Err(ParseError::Malformed),
        pages => Ok(pages),
    }
}

/// What `idle` marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Idle {
    /// Everything.
    All,
    /// What was not used for so many seconds.
    Seconds(u32),
}

/// Reads `idle`: `all`, or a number of seconds.
///
/// # Errors
///
/// [`ParseError::Malformed`].
pub(crate) fn idle(text: &[u8]) -> Result<Idle, ParseError> {
    if parse::name(text) == b"all" {
        return Ok(Idle::All);
    }
    let seconds = parse::auto(text, u64::from(u32::MAX)).ok();
    seconds
        .and_then(|seconds| u32::try_from(seconds).ok())
        .map(Idle::Seconds)
        .ok_or(ParseError::Malformed)
}

/// Reads the name of a codec; `None` if it is longer than any.
pub(crate) fn codec_name(text: &[u8]) -> Option<&[u8]> {
    let text = parse::until_nul(text);
    (text.len() <= MAX_NAME_BYTES).then(|| parse::trim_newline(text))
}

/// Returns a priority that a secondary codec can have.
///
/// # Errors
///
/// [`ParseError::Malformed`] for any other number.
pub(crate) fn secondary(priority: i32) -> Result<usize, ParseError> {
    match u32::try_from(priority).map(u32_to_usize) {
        Ok(at @ 1..PRIORITIES) => Ok(at),
        _ => Err(ParseError::Malformed),
    }
}

/// A write to `recomp_algorithm`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Secondary<'a> {
    /// The codec's name as written.
    pub(crate) name: &'a [u8],
    /// For which priority, 1 to 3.
    pub(crate) priority: usize,
}

impl<'a> Secondary<'a> {
    /// Reads `algo=` and `priority=`; others are ignored.
    ///
    /// # Errors
    ///
    /// [`ParseError`] for a word without value, a bad number, no name, or another priority.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, ParseError> {
        let mut name = None;
        let mut priority = 1;
        for arg in parse::args(text) {
            let value = arg.value.ok_or(ParseError::Malformed)?;
            match arg.key {
                b"algo" => name = Some(value),
                b"priority" => priority = parse::dec_i32(value)?,
                _ => {}
            }
        }
        Ok(Self {
            name: name.ok_or(ParseError::Malformed)?,
            priority: secondary(priority)?,
        })
    }
}

/// A write to `algorithm_params`, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Params<'a> {
    /// Whose parameters, by priority.
    pub(crate) priority: Option<i32>,
    /// Whose parameters, by the codec's name.
    pub(crate) name: Option<&'a [u8]>,
    /// Path of the dictionary.
    pub(crate) dict: Option<&'a [u8]>,
    /// Level.
    pub(crate) level: Option<i32>,
    /// Window bits of deflate.
    pub(crate) winbits: Option<i32>,
}

impl<'a> Params<'a> {
    /// Reads `priority=`, `algo=`, `dict=`, `level=` and `deflate.winbits=`; others are ignored.
    ///
    /// # Errors
    ///
    /// [`ParseError`] for a word without value or a bad number.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, ParseError> {
        let mut params = Self::default();
        for arg in parse::args(text) {
            let value = arg.value.ok_or(ParseError::Malformed)?;
            match arg.key {
                b"priority" => params.priority = Some(parse::dec_i32(value)?),
                b"level" => params.level = Some(parse::dec_i32(value)?),
                b"deflate.winbits" => params.winbits = Some(parse::dec_i32(value)?),
                b"algo" => params.name = Some(value),
                b"dict" => params.dict = Some(value),
                _ => {}
            }
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_and_do_not_wrap() {
        for (text, bytes) in [("1", 4096), ("4096", 4096), ("4097", 8192)] {
            assert_eq!(disk_bytes(text.as_bytes()), Ok(bytes));
            assert_eq!(limit_pages(text.as_bytes()), Ok(bytes / 4096));
        }
        for text in ["0", "x", "18446744073709551615"] {
            assert_eq!(disk_bytes(text.as_bytes()), Err(ParseError::Malformed));
        }
        assert_eq!(limit_pages(b"0"), Ok(0));
        assert_eq!(limit_pages(b"18446744073709551615"), Ok((1 << 52) - 1));
        assert_eq!(limit_pages(b"K"), Err(ParseError::Malformed));
    }

    #[test]
    fn zero_and_large_numbers_are_refused_as_the_abi_says() {
        assert_eq!(reset(b"0"), Err(ParseError::Malformed));
        assert_eq!(reset(b"65535\n"), Ok(()));
        assert_eq!(reset(b"65536"), Err(ParseError::OutOfRange));
        assert_eq!(disk_number(b"-1"), Err(ParseError::Malformed));
        assert_eq!(disk_number(b"2147483648"), Err(ParseError::OutOfRange));
        for bad in ["0", "4294967296", "x"] {
            assert_eq!(batch_pages(bad.as_bytes()), Err(ParseError::Malformed));
        }
        assert_eq!(batch_pages(b"4294967295"), Ok(u32::MAX));
        assert_eq!(number(b"2", 1), Err(ParseError::Malformed));
    }

    #[test]
    fn a_name_ends_at_a_nul_and_counts_to_there() {
        let mut text = [b'x'; 200];
        assert_eq!(codec_name(&text), None);
        assert_eq!(codec_name(&text[..127]), Some(&text[..127]));
        assert_eq!(codec_name(&text[..128]), None);
        text[3] = b'\n';
        text[4] = 0;
        assert_eq!(codec_name(&text), Some(&b"xxx"[..]));
    }

    #[test]
    fn a_secondary_has_a_name_and_its_place() {
        let wanted = Secondary {
            name: b"zstd",
            priority: 1,
        };
        assert_eq!(Secondary::parse(b"algo=zstd"), Ok(wanted));
        for bad in [
            "",
            "priority=1",
            "algo=zstd priority=0",
            "algo=zstd priority=4",
        ] {
            let found = Secondary::parse(bad.as_bytes());
            assert_eq!(found, Err(ParseError::Malformed), "{bad}");
        }
    }
}
