// SPDX-License-Identifier: GPL-2.0

//! Properties of the pool's pure files: packed words, places in a chain, batches.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::batch::*;
use super::geometry::*;
use super::object::*;
use super::places::MAX_PLACES;
use crate::kapi::num::PAGE_SIZE;
use crate::tests::holds;

const PLACES: std::ops::Range<u8> = 0..MAX_PLACES as u8;

/// Descriptor addresses: aligned, anywhere.
fn address() -> impl Strategy<Value = u64> {
    let bits = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0..1u64 << 20];
    bits.prop_map(|bits| bits & !63)
}

#[test]
fn ids_round_trip_and_differ() {
    let place = || (address(), PLACES);
    holds((place(), place()), |(one, other)| {
        let [id, next] = [one, other].map(|(address, index)| ObjectId::new(address, index));
        prop_assert_eq!((id.address(), id.index()), one);
        prop_assert!(ObjectId::from_bits(id.to_bits()) == id);
        prop_assert_eq!(id == next, one == other);
        Ok(())
    });
}

#[test]
fn places_of_a_chain_do_not_overlap_nor_end_outside() {
    for shape in &SHAPES {
        let mut end = 0;
        for index in 0..shape.objects {
            let header = shape.offset(index);
            let (start, bytes) = shape.bytes_of(index);
            assert!(
                header >= end && start >= header + HEADER_BYTES,
                "{shape:?} {index}"
            );
            let in_one_page = header / PAGE_SIZE == (header + HEADER_BYTES - 1) / PAGE_SIZE;
            assert!(
                in_one_page && header % HEADER_BYTES == 0,
                "{shape:?} {index}"
            );
            end = start + bytes;
        }
        assert!(end <= shape.chain() * PAGE_SIZE, "{shape:?}");
    }
}

#[test]
fn a_class_holds_its_length_and_wastes_little() {
    let mut wasted = 0;
    let mut stored = 0;
    for len in 1..=PAGE_SIZE {
        let Some(class) = class_of(len) else {
            assert!(len > MAX_LEN);
            continue;
        };
        let (_, bytes) = SHAPES[class].bytes_of(0);
        assert!(bytes >= len, "length {len} does not fit its class");
        if len >= 512 {
            wasted += bytes - len;
            stored += len;
        }
    }
    assert!(
        wasted * 100 < stored,
        "rounding wastes {wasted} bytes of {stored}"
    );
}

#[test]
fn a_batch_gives_each_object_back_once_class_by_class() {
    let object = (0..6u64, PLACES);
    let objects = prop::collection::vec(object, 0..=BATCH);
    holds((objects, 1..=BATCH), |(objects, most)| {
        let class = |id: ObjectId| u16::try_from(id.address() / 64 % 3).unwrap();
        let mut batch = FreeBatch::new();
        let mut wanted = BTreeMap::new();
        for (zspage, index) in objects {
            let id = ObjectId::new(zspage * 64, index);
            *wanted.entry(id.to_bits()).or_insert(0) += 1;
            prop_assert!(batch.push(id).is_ok());
        }
        let mut classes = Vec::new();
        for run in batch.take_grouped(class).runs(most) {
            prop_assert!((1..=most).contains(&run.len()));
            classes.push(run[0].class());
            for entry in run {
                prop_assert_eq!(entry.class(), run[0].class());
                *wanted.entry(entry.id().to_bits()).or_insert(0) -= 1;
            }
        }
        prop_assert!(wanted.values().all(|left| *left == 0));
        prop_assert!(classes.is_sorted() && batch.is_empty());
        Ok(())
    });
}
