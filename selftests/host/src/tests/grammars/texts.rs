// SPDX-License-Identifier: GPL-2.0

//! Texts near a grammar: some of its words, whole or damaged, and now and then any bytes at all.
//!
//! Made for speed: ten million of them are tried in the long form. One draw of proptest's generator
//! decides a text; a failing one is made shorter byte by byte.

use std::fmt;

use proptest::prelude::*;
use proptest::strategy::NewTree;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// What is put into words: borders of numbers, signs, radixes and suffixes, blanks, quotes, ends.
const PIECES: [&str; 40] = [
    "0",
    "1",
    "3",
    "4",
    "99",
    "100",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709547520",
    "18446744073709551615",
    "18446744073709551616",
    "0x",
    "0X1f",
    "0x8000000000000000",
    "017",
    "08",
    "+",
    "-",
    "k",
    "M",
    "E",
    " ",
    "\t",
    "\n",
    "\n\n",
    "\u{b}",
    "\0",
    "\"",
    "=",
    "==",
    "\"a b\"",
    ",",
    "#",
    "all",
    "x",
];

/// Longest text, a page, and what is made of words stays below.
const LONGEST: usize = 4096;

/// The texts near these words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts(pub(super) &'static [&'static str]);

/// A text; it shows as C would write it.
#[derive(Clone)]
pub(super) struct Text(pub(super) Vec<u8>);

impl fmt::Debug for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{}\"", self.0.escape_ascii())
    }
}

/// A generator that is cheaper than proptest's: splitmix64.
struct Rng(u64);

impl Rng {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a number below `end`, which is small and not 0.
    fn below(&mut self, end: usize) -> usize {
        // CAST: the upper half times a small number, and of that the upper half.
        (((self.bits() >> 32) * end as u64) >> 32) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a [u8] {
        of[self.below(of.len())].as_bytes()
    }

    /// Returns any bytes: few as a rule, up to a page now and then.
    fn any(&mut self) -> Vec<u8> {
        let most = if self.below(512) == 0 { LONGEST } else { 32 };
        let mut text = vec![0; self.below(most + 1)];
        for piece in text.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            piece.copy_from_slice(&bits[..piece.len()]);
        }
        text
    }
}

impl Texts {
    fn make(self, rng: &mut Rng) -> Vec<u8> {
        match rng.below(16) {
            0 | 1 => rng.any(),
            2 | 3 => self.whole(rng),
            4..=7 => self.joined(rng),
            8 => {
                let mut text = self.joined(rng);
                damage(&mut text, rng);
                text
            }
            _ => {
                let mut text = self.whole(rng);
                for _ in 0..=rng.below(3) {
                    damage(&mut text, rng);
                }
                text
            }
        }
    }

    /// Returns a word, and perhaps the newline that `echo` adds.
    fn whole(self, rng: &mut Rng) -> Vec<u8> {
        let mut text = rng.one(self.0).to_vec();
        if rng.below(2) == 0 {
            text.push(b'\n');
        }
        text
    }

    /// Returns several words with blanks or other pieces between.
    fn joined(self, rng: &mut Rng) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..=rng.below(4) {
            text.extend_from_slice(rng.one(self.0));
            match rng.below(8) {
                0 => text.extend_from_slice(rng.one(&PIECES)),
                1 => text.extend_from_slice(b" \n"),
                _ => text.push(b' '),
            }
        }
        text
    }
}

/// Changes a text at one place.
fn damage(text: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(text.len() + 1);
    let end = (at + rng.below(4) + 1).min(text.len());
    match rng.below(10) {
        0..=2 => drop(text.splice(at..at, rng.one(&PIECES).iter().copied())),
        3 => drop(text.drain(at..end)),
        4 if at < end => text[at] = rng.bits().to_le_bytes()[0],
        5 if at < end => text[at] ^= 1 << rng.below(8),
        6 => text.extend_from_within(at..end),
        7 => text.truncate(at),
        // A blank to the kernel, and no character to others.
        8 if at < end => text[at] = 0xa0,
        // A number in the place of another.
        _ => {
            if let Some(first) = text.iter().position(u8::is_ascii_digit) {
                let digits = text[first..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit());
                let end = first + digits.count();
                text.splice(first..end, rng.one(&PIECES[..16]).iter().copied());
            }
        }
    }
}

impl Strategy for Texts {
    type Tree = Shorter;
    type Value = Text;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let mut rng = Rng(runner.rng().next_u64());
        Ok(Shorter {
            text: self.make(&mut rng),
            at: 0,
            taken: None,
        })
    }
}

/// A text that is made shorter as long as it fails: one byte after the other is left out, and put back
/// if that made it pass.
pub(super) struct Shorter {
    text: Vec<u8>,
    /// The byte to leave out next.
    at: usize,
    /// The byte that was left out at `at`.
    taken: Option<u8>,
}

impl ValueTree for Shorter {
    type Value = Text;

    fn current(&self) -> Text {
        Text(self.text.clone())
    }

    fn simplify(&mut self) -> bool {
        if self.at >= self.text.len() {
            return false;
        }
        self.taken = Some(self.text.remove(self.at));
        true
    }

    fn complicate(&mut self) -> bool {
        let Some(byte) = self.taken.take() else {
            return false;
        };
        self.text.insert(self.at, byte);
        self.at += 1;
        true
    }
}
