// SPDX-License-Identifier: GPL-2.0

//! The kernel's own parsing functions, statement by statement from C: the models of the grammars.
//!
//! `lib/kstrtox.c`, `lib/vsprintf.c`, `lib/cmdline.c`, `lib/string_helpers.c`, `lib/ctype.c`. A string
//! is a slice that has a NUL in it, as [`string`] makes one, and a position is a slice from there on.

use crate::device::parse::ParseError;

/// Returns what a handler in C gets: the bytes as written and a NUL.
pub(super) fn string(text: &[u8]) -> Vec<u8> {
    let mut string = text.to_vec();
    string.push(0);
    string
}

/// Returns the bytes before the NUL: what `strcmp()` and `strlen()` see.
pub(super) fn bytes(s: &[u8]) -> &[u8] {
    let mut len = 0;
    while s[len] != 0 {
        len += 1;
    }
    &s[..len]
}

fn tolower(c: u8) -> u8 {
    c | 0x20
}

/// `_parse_integer_fixup_radix()`.
fn fixup_radix(mut s: &[u8], mut base: u64) -> (&[u8], u64) {
    if base == 0 {
        base = if s[0] == b'0' {
            if tolower(s[1]) == b'x' && s[2].is_ascii_hexdigit() {
                16
            } else {
                8
            }
        } else {
            10
        };
    }
    if base == 16 && s[0] == b'0' && tolower(s[1]) == b'x' {
        s = &s[2..];
    }
    (s, base)
}

/// What `_parse_integer()` returns: the value, how many characters it took, and the overflow bit.
struct Integer {
    value: u64,
    taken: usize,
    overflows: bool,
}

/// `_parse_integer()`.
fn parse_integer(s: &[u8], base: u64) -> Integer {
    let (mut value, mut taken, mut overflows) = (0u64, 0, false);
    loop {
        let c = s[taken];
        let digit = if c.is_ascii_digit() {
            u64::from(c - b'0')
        } else if (b'a'..=b'f').contains(&tolower(c)) {
            u64::from(tolower(c) - b'a') + 10
        } else {
            break;
        };
        if digit >= base {
            break;
        }
        let wide = u128::from(value) * u128::from(base) + u128::from(digit);
        value = u64::try_from(wide).unwrap_or_else(|_| {
            overflows = true;
            u64::MAX
        });
        taken += 1;
    }
    Integer {
        value,
        taken,
        overflows,
    }
}

/// `_kstrtoull()`: without a sign.
fn kstrtoull_unsigned(s: &[u8], base: u64) -> Result<u64, ParseError> {
    let (s, base) = fixup_radix(s, base);
    let number = parse_integer(s, base);
    if number.overflows {
        return Err(ParseError::OutOfRange);
    }
    if number.taken == 0 {
        return Err(ParseError::Malformed);
    }
    let mut s = &s[number.taken..];
    if s[0] == b'\n' {
        s = &s[1..];
    }
    if s[0] != 0 {
        return Err(ParseError::Malformed);
    }
    Ok(number.value)
}

/// `kstrtoull()`.
pub(super) fn kstrtoull(mut s: &[u8], base: u64) -> Result<u64, ParseError> {
    if s[0] == b'+' {
        s = &s[1..];
    }
    kstrtoull_unsigned(s, base)
}

/// `kstrtouint()`, `kstrtou16()`: as narrow as `T`.
pub(super) fn kstrtou<T: TryFrom<u64>>(s: &[u8], base: u64) -> Result<T, ParseError> {
    T::try_from(kstrtoull(s, base)?).map_err(|_| ParseError::OutOfRange)
}

/// `kstrtoll()`.
fn kstrtoll(s: &[u8], base: u64) -> Result<i64, ParseError> {
    if s[0] == b'-' {
        let magnitude = kstrtoull_unsigned(&s[1..], base)?;
        // CAST: C's conversion keeps the bits.
        let value = magnitude.wrapping_neg() as i64;
        if value > 0 {
            return Err(ParseError::OutOfRange);
        }
        return Ok(value);
    }
    // CAST: as above.
    let value = kstrtoull(s, base)? as i64;
    if value < 0 {
        return Err(ParseError::OutOfRange);
    }
    Ok(value)
}

/// `kstrtoint()`.
pub(super) fn kstrtoint(s: &[u8], base: u64) -> Result<i32, ParseError> {
    i32::try_from(kstrtoll(s, base)?).map_err(|_| ParseError::OutOfRange)
}

/// `kstrtobool()`.
pub(super) fn kstrtobool(s: &[u8]) -> Result<bool, ParseError> {
    if b"eEyYtT1".contains(&s[0]) {
        return Ok(true);
    }
    if b"dDnNfF0".contains(&s[0]) {
        return Ok(false);
    }
    if s[0] == b'o' || s[0] == b'O' {
        if b"nN".contains(&s[1]) {
            return Ok(true);
        }
        if b"fF".contains(&s[1]) {
            return Ok(false);
        }
    }
    Err(ParseError::Malformed)
}

/// `memparse()`: the value, and how many characters of the number there were.
pub(super) fn memparse(s: &[u8]) -> (u64, usize) {
    // simple_strtoull() of any radix.
    let (digits, base) = fixup_radix(s, 0);
    let number = parse_integer(digits, base);
    let end = s.len() - digits.len() + number.taken;
    let place = b"kmgtpe".iter().position(|suffix| *suffix == s[end] | 0x20);
    let shift = match place {
        Some(place) if end != 0 => 10 * (place + 1),
        _ => 0,
    };
    let shifted = u128::from(number.value) << shift;
    (u64::try_from(shifted).unwrap_or(u64::MAX), end)
}

/// `sysfs_streq()`, the second string without a NUL.
pub(super) fn sysfs_streq(s: &[u8], other: &[u8]) -> bool {
    let other = string(other);
    let mut at = 0;
    while s[at] != 0 && s[at] == other[at] {
        at += 1;
    }
    s[at] == other[at]
        || (s[at] == 0 && other[at] == b'\n' && other[at + 1] == 0)
        || (s[at] == b'\n' && s[at + 1] == 0 && other[at] == 0)
}

fn isspace(c: u8) -> bool {
    matches!(c, 9..=13 | 32 | 160)
}

/// A parameter and its value, if it has one that is not empty.
pub(super) type Item = (Vec<u8>, Option<Vec<u8>>);

/// The parameters of a line, as `skip_spaces()` and `next_arg()` find them one after the other.
pub(super) struct Line {
    line: Vec<u8>,
    at: usize,
}

impl Line {
    /// Begins at a text's first parameter.
    pub(super) fn new(text: &[u8]) -> Self {
        let mut line = Self {
            line: string(text),
            at: 0,
        };
        line.skip_spaces();
        line
    }

    fn skip_spaces(&mut self) {
        while isspace(self.line[self.at]) {
            self.at += 1;
        }
    }
}

impl Iterator for Line {
    type Item = Item;

    /// `next_arg()`.
    fn next(&mut self) -> Option<Item> {
        if self.line[self.at] == 0 {
            return None;
        }
        let quoted = self.line[self.at] == b'"';
        self.at += usize::from(quoted);
        let args = &mut self.line[self.at..];
        let (mut i, mut equals, mut in_quote) = (0, 0, quoted);
        while args[i] != 0 {
            if isspace(args[i]) && !in_quote {
                break;
            }
            if equals == 0 && args[i] == b'=' {
                equals = i;
            }
            if args[i] == b'"' {
                in_quote = !in_quote;
            }
            i += 1;
        }
        let mut value = None;
        if equals != 0 {
            args[equals] = 0;
            let mut from = equals + 1;
            if args[from] == b'"' {
                from += 1;
                if args[i - 1] == b'"' {
                    args[i - 1] = 0;
                }
            }
            value = Some(from);
        }
        if quoted && i > 0 && args[i - 1] == b'"' {
            args[i - 1] = 0;
        }
        let step = i + usize::from(args[i] != 0);
        args[i] = 0;
        let item = (
            bytes(args).to_vec(),
            value
                .map(|from| bytes(&args[from..]).to_vec())
                .filter(|value| !value.is_empty()),
        );
        self.at += step;
        self.skip_spaces();
        Some(item)
    }
}
