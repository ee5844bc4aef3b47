// SPDX-License-Identifier: GPL-2.0

//! The grammars of the control files: what a user may write, byte by byte.
//!
//! Pure: needs `core` only. The names are those of the ABI: MEM, DEC, BOOL, NAME, ARGS.
//! Every parser takes the bytes as written and never looks past them.

/// Why a text was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParseError {
    /// Not of the grammar: `EINVAL`.
    Malformed,
    /// Of the grammar, but the number does not fit: `ERANGE`.
    OutOfRange,
}

/// Returns the text without one trailing newline.
pub(crate) fn trim_newline(text: &[u8]) -> &[u8] {
    match text {
        [head @ .., b'\n'] => head,
        _ => text,
    }
}

/// Returns the text up to its first NUL byte: what a C string would hold.
pub(crate) fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&b| b == 0).next().unwrap_or(text)
}

fn digit(byte: u8, radix: u64) -> Option<u64> {
    let value = match byte {
        b'0'..=b'9' => byte.wrapping_sub(b'0'),
        b'a'..=b'f' => byte.wrapping_sub(b'a').wrapping_add(10),
        b'A'..=b'F' => byte.wrapping_sub(b'A').wrapping_add(10),
        _ => return None,
    };
    Some(u64::from(value)).filter(|&value| value < radix)
}

/// Splits a radix prefix off: `0x` and a hex digit, or `0` for octal.
fn radix_of(text: &[u8]) -> (u64, &[u8]) {
    match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(|&b| digit(b, 16).is_some()) => {
            (16, rest)
        }
        [b'0', ..] => (8, text),
        _ => (10, text),
    }
}

/// Returns the number at the start of `text`, saturating, and what follows it.
fn leading_number(text: &[u8]) -> (u64, &[u8]) {
    let (radix, mut rest) = radix_of(text);
    let mut value = 0u64;
    while let [first, tail @ ..] = rest {
        let Some(d) = digit(*first, radix) else {
            break;
        };
        value = value.saturating_mul(radix).saturating_add(d);
        rest = tail;
    }
    (value, rest)
}

/// Returns a size in bytes: MEM. Nothing is malformed; a text without a number is 0.
///
/// A number with automatic radix and one optional suffix out of `KMGTPE` in either case, each step
/// 1024 times. What follows is ignored, and everything saturates.
pub(crate) fn mem(text: &[u8]) -> u64 {
    let (value, rest) = leading_number(text);
    if rest.len() == text.len() {
        return 0;
    }
    let steps = match rest.first().map(u8::to_ascii_uppercase) {
        Some(b'K') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(b'P') => 5,
        Some(b'E') => 6,
        _ => 0,
    };
    (0..steps).fold(value, |value, _| value.saturating_mul(1024))
}

/// Returns whether a MEM text holds a number at all.
pub(crate) fn has_number(text: &[u8]) -> bool {
    text.first().is_some_and(|&b| digit(b, 10).is_some())
}

fn strict_number(text: &[u8], radix: u64) -> Result<u64, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Malformed);
    }
    // The first fault decides: digits that do not fit before junk are out of range.
    text.iter().try_fold(0u64, |value, &byte| {
        let d = digit(byte, radix).ok_or(ParseError::Malformed)?;
        value
            .checked_mul(radix)
            .and_then(|value| value.checked_add(d))
            .ok_or(ParseError::OutOfRange)
    })
}

fn unsigned(text: &[u8], auto_radix: bool) -> Result<u64, ParseError> {
    let text = trim_newline(until_nul(text));
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let (radix, text) = if auto_radix {
        radix_of(text)
    } else {
        (10, text)
    };
    strict_number(text, radix)
}

/// Returns an unsigned decimal number: DEC. One leading `+` and one trailing newline are allowed.
///
/// # Errors
///
/// [`ParseError::Malformed`] or, above `max`, [`ParseError::OutOfRange`].
pub(crate) fn dec(text: &[u8], max: u64) -> Result<u64, ParseError> {
    unsigned(text, false).and_then(|v| {
        if v > max {
            Err(ParseError::OutOfRange)
        } else {
            Ok(v)
        }
    })
}

/// As [`dec`], with automatic radix: AUTO.
///
/// # Errors
///
/// As [`dec`].
pub(crate) fn auto(text: &[u8], max: u64) -> Result<u64, ParseError> {
    unsigned(text, true).and_then(|v| {
        if v > max {
            Err(ParseError::OutOfRange)
        } else {
            Ok(v)
        }
    })
}

/// Returns a signed 32-bit decimal number: DEC with an optional sign.
///
/// # Errors
///
/// As [`dec`].
pub(crate) fn dec_i32(text: &[u8]) -> Result<i32, ParseError> {
    let text = until_nul(text);
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, strict_number(trim_newline(rest), 10)?),
        _ => (false, unsigned(text, false)?),
    };
    let magnitude = i64::try_from(magnitude).map_err(|_| ParseError::OutOfRange)?;
    let value = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    i32::try_from(value).map_err(|_| ParseError::OutOfRange)
}

/// Returns a truth value by its first character: BOOL.
///
/// # Errors
///
/// [`ParseError::Malformed`].
pub(crate) fn boolean(text: &[u8]) -> Result<bool, ParseError> {
    match text {
        [b'y' | b'Y' | b't' | b'T' | b'1' | b'e' | b'E', ..] => Ok(true),
        [b'n' | b'N' | b'f' | b'F' | b'0' | b'd' | b'D', ..] => Ok(false),
        [b'o' | b'O', b'n' | b'N', ..] => Ok(true),
        [b'o' | b'O', b'f' | b'F', ..] => Ok(false),
        _ => Err(ParseError::Malformed),
    }
}

/// Returns a name: the text without one trailing newline, up to a NUL byte. NAME.
pub(crate) fn name(text: &[u8]) -> &[u8] {
    trim_newline(until_nul(text))
}

/// One item of an ARGS text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arg<'a> {
    /// What stands before the first `=` that is not the first character.
    pub(crate) key: &'a [u8],
    /// What stands after it, without quotes; `None` if there is nothing.
    pub(crate) value: Option<&'a [u8]>,
}

/// Returns the items of an ARGS text: `key=value`, separated by white space.
///
/// Double quotes protect white space and are taken off around a value or a whole item.
pub(crate) fn args(text: &[u8]) -> Args<'_> {
    Args {
        rest: until_nul(text),
    }
}

/// Iterator of [`args`].
#[derive(Clone, Debug)]
pub(crate) struct Args<'a> {
    rest: &'a [u8],
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | 0xa0)
}

/// Returns the text without one quote at its end.
fn without_end_quote(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\"").unwrap_or(text)
}

/// Splits an item into key and value, and takes its quotes off.
fn split_item(item: &[u8]) -> Arg<'_> {
    let body = item.strip_prefix(b"\"");
    let (body, is_quoted) = (body.unwrap_or(item), body.is_some());
    // A `=` in front of everything is part of the key.
    let equals = body.iter().skip(1).position(|&b| b == b'=');
    let Some(key_len) = equals.map(|at| at.saturating_add(1)) else {
        let key = if is_quoted {
            without_end_quote(body)
        } else {
            body
        };
        return Arg { key, value: None };
    };
    let (key, rest) = body.split_at_checked(key_len).unwrap_or((body, &[]));
    let value = rest.get(1..).unwrap_or_default();
    let value = match value.strip_prefix(b"\"") {
        Some(inner) => without_end_quote(inner),
        None if is_quoted => without_end_quote(value),
        None => value,
    };
    Arg {
        key,
        value: Some(value).filter(|value| !value.is_empty()),
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = Arg<'a>;

    fn next(&mut self) -> Option<Arg<'a>> {
        let start = self.rest.iter().position(|&b| !is_space(b))?;
        let text = self.rest.get(start..)?;
        let mut in_quotes = false;
        let end = text.iter().position(|&byte| {
            in_quotes ^= byte == b'"';
            is_space(byte) && !in_quotes
        });
        let (item, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
        self.rest = rest;
        Some(split_item(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_takes_what_memparse_takes() {
        for (text, want) in [
            ("1M", 1 << 20),
            ("1Mfoo", 1 << 20),
            ("1048577foo", 1048577),
            ("0x10k", 16 << 10),
            ("010", 8),
            ("08", 0),
            ("", 0),
            (" 1", 0),
            ("-1", 0),
            ("k", 0),
            ("18446744073709551616", u64::MAX),
            ("16e", u64::MAX),
            ("0x", 0),
        ] {
            assert_eq!(mem(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn dec_is_strict() {
        assert_eq!(dec(b"+5\n", 9), Ok(5));
        assert_eq!(dec(b"65535", 65535), Ok(65535));
        assert_eq!(dec(b"65536", 65535), Err(ParseError::OutOfRange));
        for bad in ["", "\n", "5\n\n", " 5", "5 ", "0x5", "-5", "++5", "5k"] {
            assert_eq!(
                dec(bad.as_bytes(), 9),
                Err(ParseError::Malformed),
                "{bad:?}"
            );
        }
        assert_eq!(
            dec(b"99999999999999999999", u64::MAX),
            Err(ParseError::OutOfRange)
        );
        assert_eq!(dec_i32(b"-5\n"), Ok(-5));
        assert_eq!(dec_i32(b"-2147483648"), Ok(i32::MIN));
        assert_eq!(dec_i32(b"2147483648"), Err(ParseError::OutOfRange));
    }

    #[test]
    fn args_split_like_a_command_line() {
        let all: Vec<_> = args(b"  algo=zstd  dict=\"/a b\" idle =x k= \n").collect();
        let pairs: Vec<_> = all.iter().map(|a| (a.key, a.value)).collect();
        assert_eq!(
            pairs,
            [
                (&b"algo"[..], Some(&b"zstd"[..])),
                (b"dict", Some(b"/a b")),
                (b"idle", None),
                (b"=x", None),
                (b"k", None),
            ]
        );
    }
}
