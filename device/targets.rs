// SPDX-License-Identifier: GPL-2.0

//! Which slots a write to `writeback` means.
//!
//! Pure: needs `core`, the grammars and the slot word only.
//!
//! The words are taken from left to right. Each page range means its slots, whatever they hold. A
//! type ends the list: what comes after it is not even read. It is applied to the last range before
//! it, if there was one, and otherwise to the whole disk; after a range it so adds nothing.

use super::{
    parse::{self, Args, ParseError},
    word::{Kind, Mark, SlotWord}, //
};

/// Which slots of a range are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Those of these pages, whatever they hold.
    Any,
    /// Those not used lately.
    Idle,
    /// Those stored raw.
    Raw,
    /// Those that are both.
    RawIdle,
    /// Those that no codec makes smaller.
    Incompressible,
}

impl Rule {
    /// Returns the rule of a type's name.
    fn named(name: &[u8]) -> Result<Self, ParseError> {
        match name {
            b"idle" => Ok(Self::Idle),
            b"huge" => Ok(Self::Raw),
            b"huge_idle" => Ok(Self::RawIdle),
            b"incompressible" => Ok(Self::Incompressible),
            _ => Err(ParseError::Malformed),
        }
    }

    /// Returns whether a slot with this word is to be written back.
    pub(crate) fn wants(self, word: SlotWord) -> bool {
        let is_raw = match word.kind() {
            Ok(Kind::Object) => false,
            Ok(Kind::Raw) => true,
            _ => return false,
        };
        let is_meant = match self {
            Self::Any => true,
            Self::Idle => word.has(Mark::Idle),
            Self::Raw => is_raw,
            Self::RawIdle => is_raw && word.has(Mark::Idle),
            Self::Incompressible => word.has(Mark::Incompressible),
        };
        is_meant && !word.is_pending()
    }
}

/// A range of slots and which of them are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// Index of the first slot.
    pub(crate) first: u32,
    /// Index after the last slot.
    pub(crate) end: u32,
    /// Which of them.
    pub(crate) rule: Rule,
}

/// Returns what a text means on a disk of `slots` slots. Ends after the first error.
pub(crate) fn targets(text: &[u8], slots: u32) -> Targets<'_> {
    Targets {
        args: Some(parse::args(text)),
        slots,
        last: (0, slots),
    }
}

/// Iterator of [`targets`].
#[derive(Clone, Debug)]
pub(crate) struct Targets<'a> {
    args: Option<Args<'a>>,
    slots: u32,
    /// The last range, which a type is applied to.
    last: (u32, u32),
}

impl Targets<'_> {
    fn index(&self, text: &[u8]) -> Result<u32, ParseError> {
        let number = parse::dec(text, u64::MAX)?;
        match u32::try_from(number) {
            Ok(index) if index < self.slots => Ok(index),
            _ => Err(ParseError::OutOfRange),
        }
    }

    /// Returns the range of `low-high`, both included.
    fn range(&self, text: &[u8]) -> Result<(u32, u32), ParseError> {
        let dash = text.iter().position(|&b| b == b'-');
        let dash = dash.ok_or(ParseError::Malformed)?;
        let (low, high) = text.split_at_checked(dash).unwrap_or_default();
        let low = self.index(low)?;
        let high = self.index(high.get(1..).unwrap_or_default())?;
        if low > high {
            return Err(ParseError::OutOfRange);
        }
        Ok((low, high.saturating_add(1)))
    }

    /// Returns the next target; `None` at the end.
    fn step(&mut self) -> Result<Option<Target>, ParseError> {
        while let Some(arg) = self.args.as_mut().and_then(Iterator::next) {
            let rule = match (arg.key, arg.value) {
                (b"page_index", Some(value)) => {
                    let index = self.index(value)?;
                    self.last = (index, index.saturating_add(1));
                    Rule::Any
                }
                (b"page_indexes", Some(value)) => {
                    self.last = self.range(value)?;
                    Rule::Any
                }
                (b"type", Some(name)) | (name, None) => {
                    self.args = None;
                    Rule::named(name)?
                }
                _ => continue,
            };
            let (first, end) = self.last;
            return Ok(Some(Target { first, end, rule }));
        }
        Ok(None)
    }
}

impl Iterator for Targets<'_> {
    type Item = Result<Target, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.step();
        if found.is_err() {
            self.args = None;
        }
        found.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<(u32, u32, Rule)>, ParseError> {
        let plain = |t: Target| (t.first, t.end, t.rule);
        targets(text.as_bytes(), 100)
            .map(|t| t.map(plain))
            .collect()
    }

    #[test]
    fn types_have_two_forms_and_end_the_list() {
        assert_eq!(all("idle\n"), Ok(vec![(0, 100, Rule::Idle)]));
        assert_eq!(all("type=huge page_index=x"), Ok(vec![(0, 100, Rule::Raw)]));
        assert_eq!(all("huge_idle bogus"), Ok(vec![(0, 100, Rule::RawIdle)]));
        assert_eq!(
            all(" incompressible"),
            Ok(vec![(0, 100, Rule::Incompressible)])
        );
        assert_eq!(
            all("page_index=7 page_indexes=9-12 type=idle huge"),
            Ok(vec![
                (7, 8, Rule::Any),
                (9, 13, Rule::Any),
                (9, 13, Rule::Idle)
            ])
        );
    }

    #[test]
    fn nothing_and_unknown_keys_mean_nothing() {
        for text in ["", " \n", "typ=idle", "max_pages=3"] {
            assert_eq!(all(text), Ok(vec![]), "{text:?}");
        }
    }

    #[test]
    fn bad_words_are_refused_as_the_abi_says() {
        for bad in [
            "bogus",
            "type=",
            "type=all",
            "page_index=",
            "page_index",
            "page_index=x",
            "page_index=-1",
            "page_index=1-2",
            "page_indexes=5",
            "page_indexes=5-",
            "page_indexes=-5",
            "page_indexes=1-2-3",
            "page_index=1 bogus",
        ] {
            assert_eq!(all(bad), Err(ParseError::Malformed), "{bad}");
        }
        for large in [
            "page_index=100",
            "page_index=99999999999999999999",
            "page_indexes=100-100",
            "page_indexes=0-100",
            "page_indexes=2-1",
            "page_indexes=100-",
            "page_indexes=0-4294967296",
            "page_index=1 page_index=100 idle",
        ] {
            assert_eq!(all(large), Err(ParseError::OutOfRange), "{large}");
        }
        assert_eq!(all("page_indexes=0-99"), Ok(vec![(0, 100, Rule::Any)]));
        assert_eq!(all("page_indexes=99-99"), Ok(vec![(99, 100, Rule::Any)]));
    }

    #[test]
    fn only_objects_in_memory_are_wanted() {
        let raw = SlotWord::new(Kind::Raw, 4096, 0, 1);
        let object = SlotWord::new(Kind::Object, 99, 1, 1);
        for rule in [
            Rule::Any,
            Rule::Idle,
            Rule::Raw,
            Rule::RawIdle,
            Rule::Incompressible,
        ] {
            for kind in [Kind::Empty, Kind::Fill, Kind::Block] {
                let word = SlotWord::new(kind, 4096, 0, 1)
                    .with(Mark::Idle)
                    .with(Mark::Incompressible)
                    .with(Mark::WasRaw);
                assert!(!rule.wants(word), "{rule:?} {kind:?}");
            }
        }
        assert!(Rule::Any.wants(raw) && Rule::Any.wants(object));
        assert!(Rule::Raw.wants(raw) && !Rule::Raw.wants(object));
        assert!(!Rule::Idle.wants(raw) && Rule::Idle.wants(object.with(Mark::Idle)));
        assert!(Rule::RawIdle.wants(raw.with(Mark::Idle)));
        assert!(!Rule::RawIdle.wants(object.with(Mark::Idle)) && !Rule::RawIdle.wants(raw));
        assert!(Rule::Incompressible.wants(raw.with(Mark::Incompressible)));
        assert!(!Rule::Incompressible.wants(raw));
    }
}
