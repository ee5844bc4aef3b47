// SPDX-License-Identifier: GPL-2.0

//! How full a zspage is, as one of twelve groups.
//!
//! Pure arithmetic. Nothing here sleeps, locks or fails.
//!
//! The pool allocates from the fullest zspage that has room, so that the emptier ones run dry and
//! can be given back; compaction moves from the emptiest. An exact order would cost a search on
//! every change, two groups would not tell a nearly full zspage from a nearly empty one. Ten steps
//! of ten per cent are what C uses; a zspage changes its list once in about a tenth of its
//! objects, and users know the columns from C's `classes` file.

/// Number of groups: empty, ten steps, full.
pub(super) const GROUPS: usize = 12;

/// A fullness group, `0..GROUPS`.
///
/// | value | used of usable places |
/// |---|---|
/// | 0 | none |
/// | 1..=10 | `floor(100 * used / usable) / 10 + 1` |
/// | 11 | all |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Group(u8);

impl Group {
    /// No object is stored.
    pub(super) const EMPTY: Self = Self(0);
    /// Every usable place holds an object.
    pub(super) const FULL: Self = Self(11);

    /// Returns the group of a zspage with `used` of `usable` places taken.
    ///
    /// `used` above `usable` counts as full.
    pub(super) const fn of(used: u8, usable: u8) -> Self {
        if used == 0 {
            return Self::EMPTY;
        }
        if used >= usable {
            return Self::FULL;
        }
        // CAST: u8 to u32 is lossless. OVERFLOW: 100 times a u8 fits; `usable` is not zero here.
        let percent = 100 * used as u32 / usable as u32;
        // CAST: `percent` is below 100, so the group is at most 10.
        Self((percent / 10 + 1) as u8)
    }

    /// Returns the group as an array index.
    pub(super) const fn index(self) -> usize {
        // CAST: u8 to usize is lossless; `From` is not const.
        self.0 as usize
    }

    /// Returns all groups, emptiest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..=Self::FULL.0).map(Self)
    }

    /// Returns the groups with room, fullest first.
    pub(super) fn with_room() -> impl Iterator<Item = Self> {
        (0..Self::FULL.0).rev().map(Self)
    }

    /// Returns the groups that are neither empty nor full, emptiest first.
    pub(super) fn partial() -> impl Iterator<Item = Self> {
        (1..Self::FULL.0).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries() {
        for (used, usable, group) in [
            (0, 100, 0),
            (0, 0, 0),
            (1, 100, 1),
            (9, 100, 1),
            (10, 100, 2),
            (89, 100, 9),
            (90, 100, 10),
            (99, 100, 10),
            (100, 100, 11),
            (1, 1, 11),
            (1, 2, 6),
            (1, 255, 1),
            (254, 255, 10),
            (255, 255, 11),
            (255, 64, 11),
        ] {
            assert_eq!(Group::of(used, usable).index(), group, "{used}/{usable}");
        }
    }

    #[test]
    fn never_falls_as_objects_are_added() {
        for usable in 1..=u8::MAX {
            let mut last = Group::EMPTY;
            for used in 0..=usable {
                let group = Group::of(used, usable);
                assert!(group >= last && group.index() < GROUPS);
                assert_eq!(group == Group::EMPTY, used == 0);
                assert_eq!(group == Group::FULL, used == usable);
                last = group;
            }
        }
    }

    #[test]
    fn search_orders() {
        let room: Vec<_> = Group::with_room().map(Group::index).collect();
        assert_eq!(room, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        let partial: Vec<_> = Group::partial().map(Group::index).collect();
        assert_eq!(partial, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
}
