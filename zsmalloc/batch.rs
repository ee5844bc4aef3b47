// SPDX-License-Identifier: GPL-2.0

//! Free batches: objects that are to be freed, put in an order that makes freeing them cheap.
//!
//! Pure: an array and a sort. Nothing here sleeps, locks, allocates or fails; a batch has one owner
//! at a time.
//!
//! Freeing one object costs a lock, two cache lines of its zspage and one of its own. Freed in the
//! order of a batch, objects of one class share the lock and those of one zspage its cache lines.

use super::object::ObjectId;

/// Objects in a batch.
///
/// 64 as in the kernel's published patch: a page-sized swap cluster of 512 slots makes eight, which
/// is often enough to start a worker while a task still unmaps, and one is freed in some
/// microseconds. Debug builds make it tiny, so that full batches and lack of batches happen.
pub(super) const BATCH: usize = if cfg!(rzram_debug) { 4 } else { 64 };

/// An object to be freed.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    id: ObjectId,
    /// Number of its class; known once the batch is grouped.
    class: u16,
}

impl Entry {
    /// Returns the object.
    pub(super) fn id(&self) -> ObjectId {
        self.id
    }

    fn key(&self) -> (u16, u64) {
        (self.class, self.id.to_bits())
    }

    /// Returns the number of the object's class.
    pub(super) fn class(&self) -> u16 {
        self.class
    }
}

/// Up to [`BATCH`] objects to be freed, which no slot has any more.
///
/// # Invariants
///
/// `len <= BATCH`; the entries below `len` are the objects.
pub(crate) struct FreeBatch {
    entries: [Entry; BATCH],
    len: usize,
}

impl FreeBatch {
    /// Returns an empty batch.
    pub(crate) const fn new() -> Self {
        Self {
            entries: [Entry {
                id: ObjectId::NONE,
                class: 0,
            }; BATCH],
            len: 0,
        }
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether no more fit.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= BATCH
    }

    /// Adds an object.
    ///
    /// # Errors
    ///
    /// Gives the object back if the batch is full.
    pub(crate) fn push(&mut self, id: ObjectId) -> Result<(), ObjectId> {
        let Some(entry) = self.entries.get_mut(self.len) else {
            return Err(id);
        };
        // INVARIANT: one entry more is an object.
        *entry = Entry { id, class: 0 };
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Takes all objects out, class by class, and within one zspage by zspage.
    ///
    /// `class_of` says which class an object belongs to.
    pub(super) fn take_grouped(&mut self, class_of: impl Fn(ObjectId) -> u16) -> Grouped<'_> {
        let len = core::mem::take(&mut self.len);
        let entries = self.entries.get_mut(..len).unwrap_or_default();
        for entry in entries.iter_mut() {
            entry.class = class_of(entry.id);
        }
        sort(entries);
        Grouped { entries }
    }
}

/// Sorts entries by class and id. An id begins with its zspage's address, so that objects of one
/// zspage become neighbors.
///
/// By insertion, each at a place found by halving: some 400 comparisons for 64 entries. The sorts
/// of `core` are no faster for so few, and bring kilobytes of code and a panic.
fn sort(entries: &mut [Entry]) {
    for end in 1..=entries.len() {
        let Some((last, sorted)) = entries.get(..end).and_then(<[_]>::split_last) else {
            continue;
        };
        let at = sorted.partition_point(|entry| entry.key() <= last.key());
        if let Some(tail) = entries.get_mut(at..end) {
            tail.rotate_right(1);
        }
    }
}

/// The objects of a batch in the order to free them.
pub(super) struct Grouped<'a> {
    entries: &'a [Entry],
}

impl<'a> Grouped<'a> {
    /// Returns runs of objects of one class, each of at most `most`.
    pub(super) fn runs(&self, most: usize) -> impl Iterator<Item = &'a [Entry]> {
        self.entries
            .chunk_by(|a, b| a.class == b.class)
            .flat_map(move |class| class.chunks(most.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(zspage: u64, index: u8) -> ObjectId {
        ObjectId::new(0xffff_8880_0000_0000 + zspage * 64, index)
    }

    /// Zspages 0, 3, 6 .. are of class 0, and so on.
    fn class_of(id: ObjectId) -> u16 {
        ((id.address() >> 6) % 3) as u16
    }

    #[test]
    fn takes_no_more_than_fit_and_gives_the_rest_back() {
        let mut batch = FreeBatch::new();
        for i in 0..BATCH {
            assert!(!batch.is_full() && batch.len() == i);
            assert!(batch.push(id(0, i as u8)).is_ok());
        }
        assert!(batch.is_full());
        assert!(batch.push(id(1, 7)) == Err(id(1, 7)));
        assert_eq!(batch.len(), BATCH);
        let grouped = batch.take_grouped(class_of);
        assert_eq!(grouped.runs(BATCH).map(<[_]>::len).sum::<usize>(), BATCH);
        assert!(batch.is_empty());
        assert_eq!(batch.take_grouped(class_of).runs(1).count(), 0);
    }

    #[test]
    fn groups_are_complete_ordered_and_bounded() {
        for len in [0, 1, 2, BATCH - 1, BATCH] {
            for most in [1, 3, BATCH] {
                let mut batch = FreeBatch::new();
                let mut given = Vec::new();
                let mut random = 1u64;
                for _ in 0..len {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let one = id((random >> 33) % 7, ((random >> 50) % 64) as u8);
                    given.push(one.to_bits());
                    batch.push(one).unwrap_or_else(|_| panic!("full"));
                }
                let mut got = Vec::new();
                let mut last = (0, 0);
                for run in batch.take_grouped(class_of).runs(most) {
                    assert!(!run.is_empty() && run.len() <= most);
                    for entry in run {
                        assert_eq!(entry.class(), run[0].class());
                        assert_eq!(entry.class(), class_of(entry.id()));
                        let key = (entry.class(), entry.id().to_bits());
                        assert!(key >= last, "out of order");
                        last = key;
                        got.push(entry.id().to_bits());
                    }
                }
                got.sort_unstable();
                given.sort_unstable();
                assert_eq!(got, given);
            }
        }
    }
}
