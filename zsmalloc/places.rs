// SPDX-License-Identifier: GPL-2.0

//! Which places of a zspage hold an object: one word, one bit a place.
//!
//! Pure arithmetic. Nothing here sleeps, locks or fails.
//!
//! The road not taken is a list through the free places themselves. It needs no word, and knows no
//! limit of 64, but every free writes to the memory of a dead object, which is a cache miss that
//! nothing else needs, and every store reads it back. The word is in the descriptor, which a free
//! has to touch anyway; and it tells which pages at a zspage's end are not needed.

/// Most places a zspage can have.
pub(super) const MAX_PLACES: usize = 64;

/// The places of a zspage that hold an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Places(u64);

impl Places {
    /// No place holds an object.
    pub(super) const NONE: Self = Self(0);

    /// Takes the lowest place below `usable` that is free, so that the end stays free longest.
    pub(super) fn take(&mut self, usable: u8) -> Option<u8> {
        // CAST: a bit number, at most 64.
        let index = self.0.trailing_ones() as u8;
        if index >= usable {
            return None;
        }
        self.0 |= bit(index);
        Some(index)
    }

    /// Frees a place; returns whether it held an object.
    pub(super) fn put(&mut self, index: u8) -> bool {
        let was = self.has(index);
        self.0 &= !bit(index);
        was
    }

    /// Returns whether a place holds an object.
    pub(super) const fn has(self, index: u8) -> bool {
        self.0 & bit(index) != 0
    }

    /// Returns how many places hold an object.
    pub(super) const fn used(self) -> u8 {
        // CAST: at most 64.
        self.0.count_ones() as u8
    }

    /// Returns one more than the last place that holds an object; 0 if none does.
    pub(super) const fn end(self) -> u8 {
        // CAST: at most 64.
        (u64::BITS - self.0.leading_zeros()) as u8
    }

    /// Returns whether no place holds an object.
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Returns the bit of a place; none for a number that no place has.
const fn bit(index: u8) -> u64 {
    // CAST: u8 to u32 widens.
    match 1u64.checked_shl(index as u32) {
        Some(bit) => bit,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_lowest_free_place_up_to_the_limit() {
        for usable in [0, 1, 2, 63, 64] {
            let mut places = Places::NONE;
            for index in 0..usable {
                assert_eq!(places.take(usable), Some(index));
                assert_eq!((places.used(), places.end()), (index + 1, index + 1));
            }
            assert_eq!(places.take(usable), None);
            if usable > 2 {
                assert!(places.put(0) && places.put(usable - 1));
                assert_eq!(places.end(), usable - 1);
                assert_eq!(places.take(usable), Some(0));
                assert_eq!(places.take(usable), Some(usable - 1));
            }
        }
    }

    #[test]
    fn a_place_is_freed_once() {
        let mut places = Places::NONE;
        assert!(!places.put(0) && !places.put(63) && !places.put(64) && !places.put(255));
        assert_eq!(places.take(64), Some(0));
        assert!(places.has(0) && !places.has(1) && !places.has(64));
        assert!(places.put(0) && !places.put(0));
        assert!(places.is_empty() && places == Places::NONE);
        assert_eq!(places.end(), 0);
    }

    #[test]
    fn agrees_with_a_set() {
        let mut places = Places::NONE;
        let mut model = std::collections::BTreeSet::new();
        let mut random = 7u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            let usable = (random >> 40) as u8 % 65;
            let index = (random >> 50) as u8 % 64;
            if random >> 63 == 0 {
                let free = (0..usable).find(|i| !model.contains(i));
                assert_eq!(places.take(usable), free);
                model.extend(free);
            } else {
                assert_eq!(places.put(index), model.remove(&index));
            }
            assert_eq!(usize::from(places.used()), model.len());
            assert_eq!(places.end(), model.last().map_or(0, |last| last + 1));
        }
    }
}
