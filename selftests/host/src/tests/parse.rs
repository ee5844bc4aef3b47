// SPDX-License-Identifier: GPL-2.0

//! The grammars against independent oracles: 128-bit arithmetic for numbers, and for item lists
//! the rules of ABI-5 read one character at a time.

use proptest::prelude::*;

use super::holds;
use crate::device::parse::*;

/// Short texts over the characters that matter to a number.
fn numberish() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(&b"0123456789999abfxXkKmMgGtTpPeE+- \n\0z"[..]);
    prop::collection::vec(byte, 0..24)
}

fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// ABI-1 in 128 bits: digits of the radix, a suffix, the rest ignored.
fn mem_oracle(text: &[u8]) -> u64 {
    let text: Vec<u8> = text.iter().copied().take_while(|byte| *byte != 0).collect();
    let hex =
        text.len() > 2 && text[0] == b'0' && text[1] | 32 == b'x' && text[2].is_ascii_hexdigit();
    let (radix, body) = match text.first() {
        Some(b'0') if hex => (16, &text[2..]),
        Some(b'0') => (8, &text[..]),
        _ => (10, &text[..]),
    };
    let digits = body
        .iter()
        .take_while(|byte| char::from(**byte).is_digit(radix))
        .count();
    if digits == 0 {
        return 0;
    }
    let add = |value: u128, byte: &u8| {
        let digit = char::from(*byte).to_digit(radix).unwrap();
        u128::from(clamp(value * u128::from(radix) + u128::from(digit)))
    };
    let number = body[..digits].iter().fold(0, add);
    let steps = body
        .get(digits)
        .map_or(0, |byte| match byte.to_ascii_lowercase() {
            b'k' => 1,
            b'm' => 2,
            b'g' => 3,
            b't' => 4,
            b'p' => 5,
            b'e' => 6,
            _ => 0,
        });
    (0..steps).fold(clamp(number), |value, _| clamp(u128::from(value) * 1024))
}

/// ABI-2 in 128 bits.
fn dec_oracle(text: &[u8], max: u64) -> Result<u64, ParseError> {
    let text: Vec<u8> = text.iter().copied().take_while(|byte| *byte != 0).collect();
    let text = text.strip_prefix(b"+").unwrap_or(&text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err(ParseError::Malformed);
    }
    let number: u128 = std::str::from_utf8(&text[..digits])
        .unwrap()
        .parse()
        .unwrap();
    // The number is judged before what follows it, as kstrtoull() does.
    if number > u128::from(u64::MAX) {
        return Err(ParseError::OutOfRange);
    }
    match &text[digits..] {
        b"" | b"\n" if clamp(number) <= max => Ok(clamp(number)),
        b"" | b"\n" => Err(ParseError::OutOfRange),
        _ => Err(ParseError::Malformed),
    }
}

#[test]
fn sizes_agree_with_wide_arithmetic() {
    holds(numberish(), |text| {
        prop_assert_eq!(mem(&text), mem_oracle(&text));
        Ok(())
    });
}

#[test]
fn numbers_agree_with_wide_arithmetic() {
    let max = prop_oneof![
        Just(u64::MAX),
        Just(65535),
        Just(u64::from(u32::MAX)),
        any::<u64>()
    ];
    holds((numberish(), max), |(text, max)| {
        prop_assert_eq!(dec(&text, max), dec_oracle(&text, max));
        Ok(())
    });
}

#[test]
fn every_number_survives_being_printed() {
    holds((any::<u64>(), any::<i32>()), |(number, signed)| {
        prop_assert_eq!(mem(number.to_string().as_bytes()), number);
        prop_assert_eq!(mem(format!("{number:#x}").as_bytes()), number);
        prop_assert_eq!(dec(format!("{number}\n").as_bytes(), u64::MAX), Ok(number));
        prop_assert_eq!(
            auto(format!("{number:#x}").as_bytes(), u64::MAX),
            Ok(number)
        );
        prop_assert_eq!(
            auto(format!("0{number:o}\n").as_bytes(), u64::MAX),
            Ok(number)
        );
        prop_assert_eq!(dec_i32(signed.to_string().as_bytes()), Ok(signed));
        Ok(())
    });
}

#[test]
fn borders_of_each_width() {
    for (max, above) in [(65535u64, 65536u64), (u64::from(u32::MAX), 1 << 32)] {
        assert_eq!(dec(max.to_string().as_bytes(), max), Ok(max));
        assert_eq!(
            dec(above.to_string().as_bytes(), max),
            Err(ParseError::OutOfRange)
        );
    }
    for (text, value) in [
        ("-2147483648", Ok(i32::MIN)),
        ("-2147483649", Err(ParseError::OutOfRange)),
    ] {
        assert_eq!(dec_i32(text.as_bytes()), value);
    }
    // As kstrtoull() does: the overflow is met before what follows the number.
    let late = dec(b"99999999999999999999x", u64::MAX);
    assert_eq!(late, Err(ParseError::OutOfRange));
    assert_eq!(dec_i32(b"-"), Err(ParseError::Malformed));
    assert_eq!(dec_i32(b"+-1"), Err(ParseError::Malformed));
    assert_eq!(dec_i32(b"-+1"), Err(ParseError::Malformed));
}

#[test]
fn truth_values_are_those_of_the_table() {
    // ABI-3: the first character decides, `o` asks the second.
    for byte in 0..=255u8 {
        let wanted = match byte {
            b'y' | b'Y' | b't' | b'T' | b'1' | b'e' | b'E' => Ok(true),
            b'n' | b'N' | b'f' | b'F' | b'0' | b'd' | b'D' => Ok(false),
            _ => Err(ParseError::Malformed),
        };
        assert_eq!(boolean(&[byte]), wanted, "{byte:#x}");
        assert_eq!(boolean(&[byte, b'2']), wanted, "{byte:#x}");
        let second = match byte {
            b'n' | b'N' => Ok(true),
            b'f' | b'F' => Ok(false),
            _ => Err(ParseError::Malformed),
        };
        assert_eq!(boolean(&[b'o', byte]), second, "o{byte:#x}");
        assert_eq!(boolean(&[b'O', byte]), second, "O{byte:#x}");
    }
    assert_eq!(boolean(b""), Err(ParseError::Malformed));
}

#[test]
fn names_lose_one_newline_and_nothing_else() {
    // ABI-4.
    for (text, wanted) in [
        (&b"lz4"[..], &b"lz4"[..]),
        (b"lz4\n", b"lz4"),
        (b"lz4\n\n", b"lz4\n"),
        (b"lz4 \n", b"lz4 "),
        (b" lz4", b" lz4"),
        (b"lz4\0junk", b"lz4"),
        (b"\n", b""),
        (b"", b""),
    ] {
        assert_eq!(name(text), wanted, "{text:?}");
    }
}

type Item = (Vec<u8>, Option<Vec<u8>>);

fn space(byte: u8) -> bool {
    b" \t\n\x0b\x0c\r\xa0".contains(&byte)
}

/// ABI-5, read one character at a time. A quote at an item's start does not count as its first
/// character.
fn args_oracle(text: &[u8]) -> Vec<Item> {
    let mut rest: Vec<u8> = text.iter().copied().take_while(|byte| *byte != 0).collect();
    let mut items = Vec::new();
    loop {
        let blanks = rest.iter().take_while(|byte| space(**byte)).count();
        rest.drain(..blanks);
        if rest.is_empty() {
            return items;
        }
        let opened = rest[0] == b'"';
        let mut quoted = opened;
        let mut item = Vec::new();
        let mut from = usize::from(opened);
        while from < rest.len() && (quoted || !space(rest[from])) {
            quoted ^= rest[from] == b'"';
            item.push(rest[from]);
            from += 1;
        }
        rest.drain(..from);
        let equals = (1..item.len()).find(|at| item[*at] == b'=');
        let mut value = equals.map(|at| item.split_off(at)[1..].to_vec());
        let last = value.as_mut().unwrap_or(&mut item);
        let mut closes = opened;
        if equals.is_some() && last.first() == Some(&b'"') {
            last.remove(0);
            closes = true;
        }
        if closes && last.last() == Some(&b'"') {
            last.pop();
        }
        items.push((item, value.filter(|value| !value.is_empty())));
    }
}

fn owned(arg: Arg<'_>) -> Item {
    (arg.key.to_vec(), arg.value.map(<[u8]>::to_vec))
}

#[test]
fn items_agree_with_the_rules_of_the_grammar() {
    let byte = prop::sample::select(&b"ab=\" \t\nx1\0"[..]);
    holds(prop::collection::vec(byte, 0..16), |text| {
        let found: Vec<_> = args(&text).map(owned).collect();
        prop_assert_eq!(found, args_oracle(&text));
        Ok(())
    });
}

#[test]
fn items_written_plainly_come_back() {
    let word = "[a-z][a-z0-9_.]{0,8}";
    let items = prop::collection::vec((word, "[!#-<>-~]{1,12}", any::<bool>()), 0..6);
    holds(items, |items| {
        let text: Vec<String> = items
            .iter()
            .map(|(key, value, quoted)| {
                let quote = if *quoted { "\"" } else { "" };
                format!("{key}={quote}{value}{quote}")
            })
            .collect();
        let text = text.join(" \n");
        let found: Vec<_> = args(text.as_bytes()).map(owned).collect();
        let wanted: Vec<Item> = items
            .into_iter()
            .map(|(key, value, _)| (key.into_bytes(), Some(value.into_bytes())))
            .collect();
        prop_assert_eq!(found, wanted);
        Ok(())
    });
}

#[test]
fn no_text_makes_a_parser_fail_otherwise() {
    holds(prop::collection::vec(any::<u8>(), 0..64), |text| {
        let _ = (
            mem(&text),
            dec(&text, 9),
            auto(&text, 9),
            dec_i32(&text),
            boolean(&text),
        );
        prop_assert!(args(&text).count() <= text.len());
        prop_assert!(name(&text).len() <= text.len());
        Ok(())
    });
}
