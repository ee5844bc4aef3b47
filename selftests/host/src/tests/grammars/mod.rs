// SPDX-License-Identifier: GPL-2.0

//! Every attribute's grammar against a model: what the kernel's own functions make of the same text
//! in the C driver, see `kernel.rs`. The parser must take what the model takes, refuse what it refuses,
//! with the same errno, and read the same value.
//!
//! One million texts in all, see `texts.rs`; ten million with `RZRAM_TIER=full`. Where rzram means to
//! differ from C, the model says so.

mod kernel;
mod texts;

use std::cell::Cell;
use std::fmt::Debug;

use proptest::prelude::*;

use self::kernel::kstrtobool;
use self::kernel::kstrtoint;
use self::kernel::kstrtou;
use self::kernel::kstrtoull;
use self::kernel::memparse;
use self::kernel::string;
use self::kernel::sysfs_streq;
use self::kernel::Item;
use self::kernel::Line;
use self::texts::Texts;
use super::holds_for;
use crate::device::candidates;
use crate::device::parse::*;
use crate::device::request;
use crate::device::targets;

/// Texts for one grammar in the short form.
const TEXTS: u32 = 50_000;

type Outcome<T> = Result<T, ParseError>;

/// Tries texts near `words`; one in twenty at least must be right, or the test tests little.
fn agree<T: PartialEq + Debug>(
    words: &'static [&'static str],
    parser: fn(&[u8]) -> Outcome<T>,
    model: fn(&[u8]) -> Outcome<T>,
) {
    let (tried, taken) = (Cell::new(0u32), Cell::new(0u32));
    holds_for(TEXTS, Texts(words), |text| {
        let found = parser(&text.0);
        tried.set(tried.get() + 1);
        taken.set(taken.get() + u32::from(found.is_ok()));
        prop_assert_eq!(found, model(&text.0));
        Ok(())
    });
    let (tried, taken) = (tried.get(), taken.get());
    assert!(
        taken >= tried / 20,
        "only {taken} of {tried} texts were right"
    );
    println!("{taken} of {tried} texts were right");
}

/// Makes a test of each grammar, of which there must be enough.
macro_rules! grammars {
    ($($name:ident: $words:expr, $parser:expr, $model:expr;)*) => {
        $(
            #[test]
            fn $name() {
                agree($words, $parser, $model);
            }
        )*
        // CAST: a small number.
        const _: () = assert!([$(stringify!($name)),*].len() as u32 * TEXTS >= 1_000_000);
    };
}

const SIZES: &[&str] = &[
    "1M",
    "512m",
    "4096",
    "4097",
    "0x10K",
    "010",
    "1Mfoo",
    "16E",
    "15E",
    "1t",
    "3G\n",
    "2P",
    "0",
    "0x10000",
    "0X10k",
    "1048577foo",
    "18446744073709551615",
    "0777g",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "+7",
    "32",
    "1000",
    "65535",
    "4294967295",
    "007",
];
const ARGUMENTS: &[&str] = &[
    "algo=zstd",
    "dict=\"/a b\"",
    "idle",
    "=x",
    "k=",
    "\"a=b c\"",
    "a=\"b\"",
    "a==b",
    "a=b=c",
    "\"\"",
    "\"k\"=v",
    "a=b\"c d\"",
];
const SECONDARIES: &[&str] = &[
    "algo=zstd",
    "algo=lz4 priority=2",
    "priority=3",
    "priority=1 algo=842",
    "algo=\"lzo-rle\"",
    "level=3",
    "priority=+1",
    "algo=deflate priority=\"2\"",
];
const PARAMS: &[&str] = &[
    "level=3",
    "priority=1",
    "algo=zstd",
    "dict=/etc/dict",
    "deflate.winbits=-13",
    "level=-7",
    "priority=0 level=9",
    "algo=lz4 dict=\"/a b\"",
    "level=\"4\"",
    "other=1",
    "level=-2147483648",
];
const PASSES: &[&str] = &[
    "type=idle",
    "type=huge",
    "type=huge_idle",
    "priority=1",
    "algo=zstd",
    "threshold=3000",
    "max_pages=10",
    "type=\"huge\"",
    "threshold=4294967295",
    "max_pages=0",
    "other=1",
];
const TARGETS: &[&str] = &[
    "page_index=7",
    "page_indexes=1-5",
    "page_index=99",
    "page_indexes=0-99",
    "type=huge",
    "idle",
    "huge_idle",
    "incompressible",
    "type=idle",
    "page_indexes=5-5",
    "page_index=\"3\"",
    "typ=idle",
    "page_indexes=100-1",
];

grammars! {
    sizes: SIZES, |t| Ok((mem(t), has_number(t))), |t| {
        let (value, digits) = memparse(&string(t));
        Ok((value, digits != 0))
    };
    disksize: SIZES, request::disk_bytes, disk_bytes;
    mem_limit: SIZES, request::limit_pages, limit_pages;
    mem_used_max: &["0", "+0", "00", "0\n", "1"], request::zero, |t| match kstrtoull(&string(t), 10) {
        Ok(0) => Ok(()),
        _ => Err(ParseError::Malformed),
    };
    reset: NUMBERS, request::reset, |t| match kstrtou::<u16>(&string(t), 10)? {
        0 => Err(ParseError::Malformed),
        _ => Ok(()),
    };
    hot_remove: NUMBERS, request::disk_number, |t| match kstrtoint(&string(t), 10)? {
        number @ 0.. => Ok(number.unsigned_abs()),
        _ => Err(ParseError::Malformed),
    };
    writeback_limit: NUMBERS, |t| dec(t, u64::MAX), |t| kstrtoull(&string(t), 10);
    writeback_batch_size: NUMBERS, request::batch_pages, |t| match kstrtou(&string(t), 10) {
        Ok(pages @ 1..) => Ok(pages),
        _ => Err(ParseError::Malformed),
    };
    auto_idle_seconds: NUMBERS, |t| request::number(t, u32::MAX), |t| {
        kstrtou(&string(t), 10).map_err(|_| ParseError::Malformed)
    };
    auto_recompress: &["0", "1", "+1", "01"], |t| request::number(t, 1), |t| {
        kstrtoull(&string(t), 10).ok().filter(|on| *on < 2)
            .map_or(Err(ParseError::Malformed), |on| Ok(u32::from(on != 0)))
    };
    max_comp_streams: &["1", "-1", "+4", "-2147483648", "0"], dec_i32, |t| kstrtoint(&string(t), 10);
    compressed_writeback: &["1", "0", "yes", "no", "on", "off", "True", "d", "e"], boolean,
        |t| kstrtobool(&string(t));
    idle: &["all", "0", "3600", "0x10", "0777", "all\n", "4294967295"], request::idle, idle_age;
    comp_algorithm: CODECS, codec_of, codec_model;
    backing_dev: &["/dev/loop0", "/dev/vg/a b", ""], |t| Ok(name(t).to_vec()), |t| {
        // backing_dev_store(): strscpy(), then without a newline at the end.
        let text = string(t);
        let path = kernel::bytes(&text);
        Ok(path.strip_suffix(b"\n").unwrap_or(path).to_vec())
    };
    arguments: ARGUMENTS, |t| Ok(args(t).map(owned).collect::<Vec<_>>()),
        |t| Ok(Line::new(t).collect());
    recomp_algorithm: SECONDARIES, |t| {
        request::Secondary::parse(t).map(|asked| (asked.name.to_vec(), asked.priority))
    }, secondary;
    algorithm_params: PARAMS, |t| request::Params::parse(t).map(ParamsOwned::from), params;
    recompress: PASSES, |t| candidates::Request::parse(t).map(PassOwned::from), pass;
    writeback: TARGETS, |t| written_back(t, 100), |t| targets_of(t, 100);
    writeback_of_a_large_disk: TARGETS, |t| written_back(t, u32::MAX), |t| targets_of(t, u32::MAX);
}

/// `disksize_store()`, but that what wraps is refused, as what is 0 is.
fn disk_bytes(text: &[u8]) -> Outcome<u64> {
    let (bytes, _) = memparse(&string(text));
    let aligned = (u128::from(bytes) + 4095) & !4095;
    match u64::try_from(aligned) {
        Ok(aligned @ 1..) => Ok(aligned),
        _ => Err(ParseError::Malformed),
    }
}

/// `mem_limit_store()`, but that what wraps is the largest multiple (SE-13).
fn limit_pages(text: &[u8]) -> Outcome<u64> {
    let (bytes, digits) = memparse(&string(text));
    if digits == 0 {
        return Err(ParseError::Malformed);
    }
    let aligned = (u128::from(bytes) + 4095) & !4095;
    Ok(u64::try_from(aligned).unwrap_or(u64::MAX) >> 12)
}

/// `idle_store()`.
fn idle_age(text: &[u8]) -> Outcome<request::Idle> {
    let text = string(text);
    if sysfs_streq(&text, b"all") {
        return Ok(request::Idle::All);
    }
    kstrtou(&text, 0)
        .map(request::Idle::Seconds)
        .map_err(|_| ParseError::Malformed)
}

const CODECS: &[&str] = &["lzo-rle", "lzo", "lz4", "lz4hc", "zstd", "deflate", "842"];

/// What a codec's name means: one of the list by its place, or none for what is too long.
fn codec_of(text: &[u8]) -> Outcome<Option<usize>> {
    let Some(name) = request::codec_name(text) else {
        return Ok(None);
    };
    let place = CODECS.iter().position(|codec| codec.as_bytes() == name);
    place.map(Some).ok_or(ParseError::Malformed)
}

/// `__comp_algorithm_store()`.
fn codec_model(text: &[u8]) -> Outcome<Option<usize>> {
    let text = string(text);
    if kernel::bytes(&text).len() >= 128 {
        return Ok(None);
    }
    let place = CODECS
        .iter()
        .position(|codec| sysfs_streq(&text, codec.as_bytes()));
    place.map(Some).ok_or(ParseError::Malformed)
}

fn owned(arg: Arg<'_>) -> Item {
    (arg.key.to_vec(), arg.value.map(<[u8]>::to_vec))
}

/// A number in C's base ten.
fn number(value: &[u8]) -> Outcome<i32> {
    kstrtoint(&string(value), 10)
}

/// `recomp_algorithm_store()`.
fn secondary(text: &[u8]) -> Outcome<(Vec<u8>, usize)> {
    let (mut name, mut priority) = (None, 1);
    for (key, value) in Line::new(text) {
        let value = value.ok_or(ParseError::Malformed)?;
        if key == b"algo" {
            name = Some(value);
        } else if key == b"priority" {
            priority = number(&value)?;
        }
    }
    match (name, priority) {
        (Some(name), 1) => Ok((name, 1)),
        (Some(name), 2) => Ok((name, 2)),
        (Some(name), 3) => Ok((name, 3)),
        _ => Err(ParseError::Malformed),
    }
}

/// What is written to `algorithm_params`.
#[derive(PartialEq, Debug, Default)]
struct ParamsOwned {
    priority: Option<i32>,
    name: Option<Vec<u8>>,
    dict: Option<Vec<u8>>,
    level: Option<i32>,
    winbits: Option<i32>,
}

impl From<request::Params<'_>> for ParamsOwned {
    fn from(params: request::Params<'_>) -> Self {
        Self {
            priority: params.priority,
            name: params.name.map(<[u8]>::to_vec),
            dict: params.dict.map(<[u8]>::to_vec),
            level: params.level,
            winbits: params.winbits,
        }
    }
}

/// `algorithm_params_store()`, up to where it takes the device lock.
fn params(text: &[u8]) -> Outcome<ParamsOwned> {
    let mut params = ParamsOwned::default();
    for (key, value) in Line::new(text) {
        let value = value.ok_or(ParseError::Malformed)?;
        match key.as_slice() {
            b"priority" => params.priority = Some(number(&value)?),
            b"level" => params.level = Some(number(&value)?),
            b"deflate.winbits" => params.winbits = Some(number(&value)?),
            b"algo" => params.name = Some(value),
            b"dict" => params.dict = Some(value),
            _ => {}
        }
    }
    Ok(params)
}

/// What is written to `recompress`.
#[derive(PartialEq, Debug)]
struct PassOwned {
    is_idle: bool,
    is_raw: bool,
    priority: Option<i32>,
    name: Option<Vec<u8>>,
    threshold: u32,
    most: u64,
}

impl From<candidates::Request<'_>> for PassOwned {
    fn from(request: candidates::Request<'_>) -> Self {
        Self {
            is_idle: request.idle,
            is_raw: request.raw,
            priority: request.priority,
            name: request.codec.map(<[u8]>::to_vec),
            threshold: request.threshold_bytes,
            most: request.max_slots,
        }
    }
}

/// `recompress_store()`, up to the threshold's check, but that each type is checked (SE-39).
fn pass(text: &[u8]) -> Outcome<PassOwned> {
    const IDLE: u32 = 1;
    const HUGE: u32 = 2;
    let (mut mode, mut priority, mut name) = (0, None, None);
    let (mut threshold, mut most) = (0, u64::MAX);
    for (key, value) in Line::new(text) {
        let value = value.ok_or(ParseError::Malformed)?;
        if key == b"type" {
            mode = match value.as_slice() {
                b"idle" => IDLE,
                b"huge" => HUGE,
                b"huge_idle" => IDLE | HUGE,
                _ => return Err(ParseError::Malformed),
            };
        } else if key == b"max_pages" {
            most = kstrtoull(&string(&value), 10)?;
        } else if key == b"threshold" {
            threshold = kstrtou(&string(&value), 10)?;
        } else if key == b"algo" {
            name = Some(value);
        } else if key == b"priority" {
            priority = Some(number(&value)?);
        }
    }
    Ok(PassOwned {
        is_idle: mode & IDLE != 0,
        is_raw: mode & HUGE != 0,
        priority,
        name,
        threshold,
        most,
    })
}

/// A range of pages and the type asked for, if any: first page, page after the last, type.
type Range = (u64, u64, Option<Vec<u8>>);

fn written_back(text: &[u8], slots: u32) -> Outcome<Vec<Range>> {
    use targets::Rule;
    let plain = |target: targets::Target| {
        let rule: Option<&[u8]> = match target.rule {
            Rule::Any => None,
            Rule::Idle => Some(b"idle"),
            Rule::Raw => Some(b"huge"),
            Rule::RawIdle => Some(b"huge_idle"),
            Rule::Incompressible => Some(b"incompressible"),
        };
        let (first, end) = (u64::from(target.first), u64::from(target.end));
        (first, end, rule.map(<[u8]>::to_vec))
    };
    targets::targets(text, slots)
        .map(|target| target.map(plain))
        .collect()
}

/// `parse_page_index()` and `parse_page_indexes()`.
fn page_range(key: &[u8], value: &[u8], pages: u64) -> Outcome<(u64, u64)> {
    let index = |text: &[u8]| match kstrtoull(&string(text), 10)? {
        index if index >= pages => Err(ParseError::OutOfRange),
        index => Ok(index),
    };
    if key == b"page_index" {
        return index(value).map(|at| (at, at + 1));
    }
    let mut ends = value.splitn(2, |byte| *byte == b'-');
    let low = ends.next().unwrap_or_default();
    let high = ends.next().ok_or(ParseError::Malformed)?;
    let (low, high) = (index(low)?, index(high)?);
    if low > high {
        return Err(ParseError::OutOfRange);
    }
    Ok((low, high + 1))
}

/// `writeback_store()`: the calls of `scan_slots_for_writeback()`.
fn targets_of(text: &[u8], slots: u32) -> Outcome<Vec<Range>> {
    let pages = u64::from(slots);
    let (mut low, mut high) = (0, pages);
    let mut calls = Vec::new();
    for (key, value) in Line::new(text) {
        let mode = match value {
            None => key,
            Some(value) if key == b"type" => value,
            Some(value) if key == b"page_index" || key == b"page_indexes" => {
                (low, high) = page_range(&key, &value, pages)?;
                calls.push((low, high, None));
                continue;
            }
            Some(_) => continue,
        };
        let modes: [&[u8]; 4] = [b"idle", b"huge", b"huge_idle", b"incompressible"];
        if !modes.contains(&mode.as_slice()) {
            return Err(ParseError::Malformed);
        }
        calls.push((low, high, Some(mode)));
        break;
    }
    Ok(calls)
}
