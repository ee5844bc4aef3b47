// SPDX-License-Identifier: GPL-2.0

//! What is written to the devices: patterns, and pages taken from real memory.

use std::fs::File;
use std::io::Read;

use crate::error::Doing;
use crate::error::Error;
use crate::error::Result;
use crate::sys::Map;
use crate::sys::PAGE;

/// Where the runner keeps the pages that `collect` gathered from real memory.
pub const REAL_PAGES: &str = "/mnt/host/pages.bin";

/// fio's `buffer_compress_chunk`.
const CHUNK: usize = 512;

/// A small generator with a seed, so that every run writes the same.
pub struct Rng(u64);

impl Rng {
    /// Starts a sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// Fills memory with pages that compress to a fifth or so, no two alike in length and start.
///
/// Page `i` begins with 106 + 8 (`i` mod 16) words of a multiplicative sequence, the rest is zero:
/// 16 compressed sizes, and no page is one repeated word. With `own`, the first word is the page's
/// number.
pub fn fill_swap_pages(bytes: &mut [u8], own: bool) {
    for (index, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
        let words = 106 + index % 16 * 8;
        for (at, word) in page.chunks_exact_mut(8).take(words).enumerate() {
            let value = (at as u64 * 8).wrapping_mul(2_654_435_761);
            word.copy_from_slice(&value.to_ne_bytes());
        }
        if own {
            if let Some(word) = page.get_mut(..8) {
                word.copy_from_slice(&(index as u64 + 1).to_ne_bytes());
            }
        }
    }
}

/// Data that a device is filled with, in memory that children share.
pub struct Dataset {
    /// The name in the plan.
    pub name: String,
    map: Map,
}

fn compressible(bytes: &mut [u8], per_cent: usize) {
    let mut rng = Rng::new(0x5eed);
    for chunk in bytes.chunks_exact_mut(CHUNK) {
        let random = CHUNK - CHUNK * per_cent / 100;
        for word in chunk[..random].chunks_mut(8) {
            let value = rng.next().to_ne_bytes();
            let length = word.len();
            word.copy_from_slice(&value[..length]);
        }
    }
}

impl Dataset {
    /// Makes `mb` MiB of the data called `name`.
    ///
    /// `const` is a 5-byte pattern repeated (fio's `buffer_pattern=0xbadc0ffee0`), `c11` and `c60`
    /// are compressible by that many per cent as fio does it, `real` comes from [`REAL_PAGES`].
    pub fn new(name: &str, mb: usize) -> Result<Self> {
        let mut map = Map::shared(mb << 20).doing("memory for the data")?;
        let bytes = map.bytes_mut();
        match name {
            "const" => {
                let pattern = [0xba, 0xdc, 0x0f, 0xfe, 0xe0];
                for (byte, value) in bytes.iter_mut().zip(pattern.iter().cycle()) {
                    *byte = *value;
                }
            }
            "c11" => compressible(bytes, 11),
            "c60" => compressible(bytes, 60),
            "real" => {
                let mut file = File::open(REAL_PAGES).doing("the real pages")?;
                file.read_exact(bytes).doing("the real pages")?;
            }
            other => return Err(Error::Failed(format!("no data called {other}"))),
        }
        Ok(Self {
            name: name.to_owned(),
            map,
        })
    }

    /// Returns `length` bytes that belong at `offset` of a device that repeats the data.
    pub fn at(&self, offset: u64, length: usize) -> &[u8] {
        let bytes = self.map.bytes();
        let start = (offset % bytes.len() as u64) as usize;
        let start = if start + length > bytes.len() {
            0
        } else {
            start
        };
        &bytes[start..start + length]
    }
}
