// SPDX-License-Identifier: GPL-2.0

//! The block map against an oracle of sets.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::holds;
use crate::device::blocks::*;

#[derive(Clone, Debug)]
enum Step {
    Reserve,
    Release(usize),
    Begin(usize),
    End(usize),
}

fn steps() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let step = prop_oneof![
        3 => Just(Step::Reserve),
        1 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Begin),
        1 => any::<usize>().prop_map(Step::End),
    ];
    (0..200u64, prop::collection::vec(step, 0..400))
}

/// What a map should be: owned blocks, and reads of blocks that may be owned no more.
#[derive(Default)]
struct Oracle {
    owned: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
    reads: BTreeMap<u64, u32>,
}

impl Oracle {
    fn is_read(&self, half: u64) -> bool {
        self.reads.keys().any(|block| block / 32 == half)
    }

    fn end(&mut self, block: u64) {
        let left = self.reads.get_mut(&block).unwrap();
        *left -= 1;
        if *left == 0 {
            self.reads.remove(&block);
        }
        if !self.is_read(block / 32) {
            self.waiting.retain(|other| other / 32 != block / 32);
        }
    }
}

fn pick(set: impl ExactSizeIterator<Item = u64>, nth: usize) -> Option<u64> {
    let len = set.len();
    let mut set = set;
    (len != 0).then(|| set.nth(nth % len).unwrap())
}

#[test]
fn a_block_has_one_owner_and_no_reader_of_the_last_one() {
    holds(steps(), |(blocks, steps)| {
        let groups: Vec<_> = (0..groups_for(blocks)).map(|_| Group::new()).collect();
        let map = BlockMap::new(groups, blocks);
        let mut oracle = Oracle::default();
        for step in steps {
            match step {
                Step::Reserve => {
                    let used = oracle.owned.len() + oracle.waiting.len();
                    match map.reserve() {
                        Some(block) => {
                            prop_assert!(block < blocks);
                            prop_assert!(!oracle.waiting.contains(&block));
                            prop_assert!(!oracle.reads.contains_key(&block));
                            prop_assert!(oracle.owned.insert(block));
                        }
                        None => prop_assert_eq!(used as u64, blocks),
                    }
                }
                Step::Release(nth) => {
                    if let Some(block) = pick(oracle.owned.iter().copied(), nth) {
                        map.release(block);
                        oracle.owned.remove(&block);
                        if oracle.is_read(block / 32) {
                            oracle.waiting.insert(block);
                        }
                    }
                }
                Step::Begin(nth) => {
                    if let Some(block) = pick(oracle.owned.iter().copied(), nth) {
                        map.begin_read(block);
                        *oracle.reads.entry(block).or_default() += 1;
                    }
                }
                Step::End(nth) => {
                    if let Some(block) = pick(oracle.reads.keys().copied(), nth) {
                        map.end_read(block);
                        oracle.end(block);
                    }
                }
            }
        }
        while let Some(block) = oracle.reads.keys().next().copied() {
            map.end_read(block);
            oracle.end(block);
        }
        let free = std::iter::from_fn(|| map.reserve()).count();
        prop_assert_eq!((free + oracle.owned.len()) as u64, blocks);
        Ok(())
    });
}
