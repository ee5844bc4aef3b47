// SPDX-License-Identifier: GPL-2.0

//! What may be written to the control files, and what can be made of it.
//!
//! `@backing`, `@dict` and `@disk` in a word stand for paths that the caller knows.

use crate::rng::Rng;

/// A control file that can be written, and words that it takes in some state.
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub words: &'static [&'static str],
}

const fn file(name: &'static str, words: &'static [&'static str]) -> File {
    File { name, words }
}

/// The files of a disk.
pub const OF_DISK: &[File] = &[
    file(
        "disksize",
        &[
            "64M", "1M\n", "4096", "0x100000", "1G", "100G", "16T", "5Tfoo",
        ],
    ),
    file("reset", &["1", "1\n", "65535"]),
    file("compact", &["1", "anything\n"]),
    file(
        "mem_limit",
        &["0", "1M", "64M\n", "512k", "18446744073709551615"],
    ),
    file("mem_used_max", &["0", "0\n"]),
    file("mem_threshold", &["0", "64k", "1M\n", "16M"]),
    file(
        "comp_algorithm",
        &["lz4", "zstd\n", "lzo-rle", "lzo", "lz4hc", "deflate", "842"],
    ),
    file(
        "recomp_algorithm",
        &[
            "algo=zstd",
            "algo=deflate priority=2",
            "priority=3 algo=lzo",
            "algo=lz4hc\n",
            "algo=\"842\" priority=1",
        ],
    ),
    file(
        "algorithm_params",
        &[
            "level=3",
            "priority=1 level=9",
            "algo=zstd level=1",
            "dict=@dict",
            "level=-131072",
            "algo=lz4 dict=\"@dict\"\n",
            "deflate.winbits=-13 level=9",
            "level=-2147483648",
            "priority=2 deflate.winbits=15",
            "algo=zstd level=19 dict=@dict",
            " \n",
        ],
    ),
    file("idle", &["all", "all\n", "0", "1", "0x10", "3600"]),
    file(
        "recompress",
        &[
            "type=idle",
            "type=huge",
            "type=huge_idle max_pages=10",
            "priority=1\n",
            "priority=2",
            "algo=zstd threshold=3000",
            "max_pages=5",
            "type=\"huge\" priority=3",
            "max_pages=0",
        ],
    ),
    file(
        "backing_dev",
        &["@backing", "@backing\n", "@disk", "/dev/null", "@dict"],
    ),
    file(
        "writeback",
        &[
            "idle",
            "huge\n",
            "huge_idle",
            "incompressible",
            "type=idle",
            "page_index=7",
            "page_indexes=0-63",
            "page_indexes=1000-1099 type=huge",
            "page_index=1 page_index=1",
        ],
    ),
    file(
        "writeback_limit",
        &["0", "1", "100\n", "18446744073709551615"],
    ),
    file("writeback_limit_enable", &["0", "1\n"]),
    file("writeback_batch_size", &["1", "32\n", "+7", "4294967295"]),
    file("compressed_writeback", &["0", "1\n", "yes", "off"]),
    file("auto_idle_seconds", &["0", "1", "2\n", "4294967295"]),
    file("auto_recompress", &["0", "1\n"]),
    file("auto_writeback", &["0", "1\n"]),
    file("max_comp_streams", &["1", "4\n"]),
];

/// The files of the control class, but for `hot_add`, which is read.
pub const OF_CLASS: &[File] = &[file("hot_remove", &["0", "1\n", "2", "3", "4", "5"])];

/// What is put into a word.
const PIECES: [&str; 24] = [
    "0",
    "1",
    "3",
    "4095",
    "65536",
    "2147483648",
    "4294967295",
    "18446744073709551616",
    "0x",
    "-",
    "+",
    " ",
    "\n",
    "\t",
    "\0",
    "\"",
    "=",
    "K",
    "e",
    "all",
    "type=",
    "priority=",
    "algo=",
    "level=",
];

/// Longest text: three pages, of which one call takes the first.
const LONGEST: usize = 3 * 4096;

/// Returns a text for a file that takes these words: one of them, or what is near, or not.
pub fn text(rng: &mut Rng, words: &[&str]) -> Vec<u8> {
    let mut text = words[rng.below(words.len())].as_bytes().to_vec();
    match rng.below(12) {
        0..=4 => {}
        5 => {
            text.push(b' ');
            text.extend_from_slice(words[rng.below(words.len())].as_bytes());
        }
        6 => text = any(rng, 64),
        7 if rng.chance(1, 8) => text = any(rng, LONGEST),
        8 if rng.chance(1, 8) => text.resize(1 + rng.below(LONGEST), b' '),
        _ => {
            for _ in 0..=rng.below(3) {
                damage(&mut text, rng);
            }
        }
    }
    text
}

fn any(rng: &mut Rng, most: usize) -> Vec<u8> {
    let mut text = vec![0; rng.below(most + 1)];
    rng.fill(&mut text);
    text
}

/// Changes a text at one place.
fn damage(text: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(text.len() + 1);
    let end = (at + 1 + rng.below(4)).min(text.len());
    match rng.below(6) {
        0 | 1 => {
            let piece = PIECES[rng.below(PIECES.len())].as_bytes();
            text.splice(at..at, piece.iter().copied());
        }
        2 if at < end => rng.fill(&mut text[at..=at]),
        3 => text.truncate(at),
        4 => text.extend_from_within(at..end),
        _ => drop(text.drain(at..end)),
    }
}
