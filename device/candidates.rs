// SPDX-License-Identifier: GPL-2.0

//! Recompression's decisions: what a user asks for, which slots are meant, in which order.
//!
//! Pure: needs `core`, the grammars and the slot word only.
//!
//! # Order
//!
//! Largest objects first, in bands of 64 bytes; within a band the highest slot first. A list of all
//! candidates would take memory exactly when there is none, and a sorted window would have to be
//! filled again and again. Instead each candidate is selected by a mark in its own slot word, and
//! [`Bands`] remembers of each band where its first and last candidate are. One walk a band that has
//! any then finds them all, and its cost is small beside one compression a candidate.

use super::{
    parse::{self, ParseError},
    slot_word::{Kind, Mark, SlotWord}, //
};

/// Width of a band, in bytes.
const BAND_BYTES: u32 = 64;
/// Bands: stored lengths of 0 to a page of 4096 bytes; longer ones count with the longest.
pub(crate) const BANDS: usize = 4096 / 64 + 1;

/// What was written to `recompress`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request<'a> {
    /// Only idle slots.
    pub(crate) idle: bool,
    /// Only slots that are stored raw.
    pub(crate) raw: bool,
    /// The wanted priority, as written.
    pub(crate) priority: Option<i32>,
    /// The wanted codec's name.
    pub(crate) codec: Option<&'a [u8]>,
    /// Least stored length of a candidate, and length that the result stays below; 0 for any.
    pub(crate) threshold_bytes: u32,
    /// Most slots to try.
    pub(crate) max_slots: u64,
}

impl<'a> Request<'a> {
    /// Wants everything, without limits.
    pub(crate) const ALL: Self = Self {
        idle: false,
        raw: false,
        priority: None,
        codec: None,
        threshold_bytes: 0,
        max_slots: u64::MAX,
    };

    /// Reads `type=`, `priority=`, `algo=`, `threshold=` and `max_pages=`; others are ignored.
    ///
    /// # Errors
    ///
    /// [`ParseError`] for a word without value, a bad number or an unknown type.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, ParseError> {
        let mut request = Self::ALL;
        for arg in parse::args(text) {
            let value = arg.value.ok_or(ParseError::Malformed)?;
            match arg.key {
                b"type" => {
                    (request.idle, request.raw) = match value {
                        b"idle" => (true, false),
                        b"huge" => (false, true),
                        b"huge_idle" => (true, true),
                        _ => return Err(ParseError::Malformed),
                    }
                }
                b"priority" => request.priority = Some(parse::dec_i32(value)?),
                b"algo" => request.codec = Some(value),
                b"threshold" => {
                    let bytes = parse::dec(value, u64::from(u32::MAX))?;
                    request.threshold_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                }
                b"max_pages" => request.max_slots = parse::dec(value, u64::MAX)?,
                _ => {}
            }
        }
        Ok(request)
    }

    /// Returns whether a slot with this word may gain from the codec of `priority`.
    pub(crate) fn wants(&self, word: SlotWord, priority: u8) -> bool {
        let is_raw = match word.kind() {
            Ok(Kind::Object) => false,
            Ok(Kind::Raw) => true,
            _ => return false,
        };
        !word.is_pending()
            && (is_raw || !self.raw)
            && (word.has(Mark::Idle) || !self.idle)
            && word.size_bytes() >= self.threshold_bytes
            && word.priority() < priority
            && !word.is_tried(priority)
    }
}

/// Returns the band that a stored length belongs to.
pub(crate) fn band_of(size_bytes: u32) -> usize {
    // CAST: below 2^26.
    let band = (size_bytes / BAND_BYTES) as usize;
    band.min(BANDS - 1)
}

/// The slots from the first to the last that are selected in a band.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Index of the first.
    pub(crate) first: u32,
    /// Index of the last.
    pub(crate) last: u32,
}

/// Where the candidates of each band are.
#[derive(Debug)]
pub(crate) struct Bands([Option<Span>; BANDS]);

impl Bands {
    /// Returns bands without any candidate.
    pub(crate) const fn new() -> Self {
        Self([None; BANDS])
    }

    /// Notes a candidate.
    pub(crate) fn note(&mut self, size_bytes: u32, index: u32) {
        if let Some(place) = self.0.get_mut(band_of(size_bytes)) {
            *place = Some(match *place {
                None => Span {
                    first: index,
                    last: index,
                },
                Some(span) => Span {
                    first: span.first.min(index),
                    last: span.last.max(index),
                },
            });
        }
    }

    /// Returns the bands that have candidates, the largest objects first.
    pub(crate) fn descending(&self) -> impl Iterator<Item = (usize, Span)> + '_ {
        let bands = self.0.iter().enumerate().rev();
        bands.filter_map(|(band, span)| Some((band, (*span)?)))
    }
}

/// Places of one chunk's slots, taken from the highest down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Places([u64; 4]);

impl Places {
    /// Adds a place below 256.
    pub(crate) fn insert(&mut self, place: u32) {
        // CAST: a quotient of a small number.
        if let Some(word) = self.0.get_mut((place / 64) as usize) {
            *word |= 1 << (place % 64);
        }
    }

    /// Takes the highest place out.
    pub(crate) fn take_last(&mut self) -> Option<u32> {
        for (base, word) in [0u32, 64, 128, 192].into_iter().zip(&mut self.0).rev() {
            if let Some(bit) = word.checked_ilog2() {
                *word &= !(1 << bit);
                return Some(base | bit);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_the_abi_says() {
        let all = Request::parse(b" \n").unwrap();
        assert_eq!((all.idle, all.raw, all.priority), (false, false, None));
        assert_eq!((all.threshold_bytes, all.max_slots), (0, u64::MAX));
        let text = b"type=huge_idle algo=zstd priority=-3 threshold=3000 max_pages=10 other=1\n";
        let full = Request::parse(text).unwrap();
        assert!(full.idle && full.raw);
        assert_eq!(full.codec, Some(&b"zstd"[..]));
        assert_eq!((full.priority, full.max_slots), (Some(-3), 10));
        let last = Request::parse(b"type=idle type=huge threshold=1 threshold=2").unwrap();
        assert_eq!(
            (last.idle, last.raw, last.threshold_bytes),
            (false, true, 2)
        );
        for bad in [
            "type=foo",
            "type=idle type=foo",
            "type=foo type=idle",
            "idle",
            "type=",
            "algo=",
        ] {
            let found = Request::parse(bad.as_bytes());
            assert_eq!(found, Err(ParseError::Malformed), "{bad}");
        }
        for large in ["threshold=4294967296", "priority=2147483648"] {
            let found = Request::parse(large.as_bytes());
            assert_eq!(found, Err(ParseError::OutOfRange), "{large}");
        }
    }

    #[test]
    fn only_what_may_gain_is_wanted() {
        let any = Request::parse(b"").unwrap();
        let object = SlotWord::new(Kind::Object, 3000, 0, 1);
        assert!(any.wants(object, 1));
        assert!(!any.wants(SlotWord::new(Kind::Object, 3000, 1, 1), 1));
        assert!(any.wants(SlotWord::new(Kind::Object, 3000, 1, 1), 2));
        assert!(!any.wants(object.with_tried(1), 1) && any.wants(object.with_tried(1), 2));
        for kind in [Kind::Empty, Kind::Fill, Kind::Block] {
            assert!(!any.wants(SlotWord::new(kind, 3000, 0, 1), 1), "{kind:?}");
        }
        let raw = SlotWord::new(Kind::Raw, 4096, 0, 1);
        let huge_idle = Request::parse(b"type=huge_idle").unwrap();
        assert!(!huge_idle.wants(raw, 1) && huge_idle.wants(raw.with(Mark::Idle), 1));
        assert!(!huge_idle.wants(object.with(Mark::Idle), 1));
        let threshold = Request::parse(b"threshold=3000").unwrap();
        assert!(threshold.wants(object, 1));
        assert!(!threshold.wants(SlotWord::new(Kind::Object, 2999, 0, 1), 1));
    }

    #[test]
    fn bands_come_largest_first_and_span_their_candidates() {
        let mut bands = Bands::new();
        for (size, index) in [
            (64, 9),
            (127, 3),
            (128, 5),
            (4096, 1),
            (63, 7),
            (1 << 16, 8),
        ] {
            bands.note(size, index);
        }
        let found: Vec<_> = bands
            .descending()
            .map(|(b, s)| (b, s.first, s.last))
            .collect();
        assert_eq!(found, [(64, 1, 8), (2, 5, 5), (1, 3, 9), (0, 7, 7)]);
    }

    #[test]
    fn places_come_from_the_highest_down() {
        let mut places = Places::default();
        for place in [0, 63, 64, 200, 255, 64] {
            places.insert(place);
        }
        let found: Vec<_> = core::iter::from_fn(|| places.take_last()).collect();
        assert_eq!(found, [255, 200, 64, 63, 0]);
    }
}
