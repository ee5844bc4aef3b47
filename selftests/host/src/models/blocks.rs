// SPDX-License-Identifier: GPL-2.0

//! A block that is read, freed and given away at the same time.
//!
//! The block's content is a cell that loom watches: the device reads it from the beginning to the
//! end of a read, and whoever reserves the block writes it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::explore;
use crate::device::blocks::*;

struct World {
    map: BlockMap<Vec<Group>>,
    content: [UnsafeCell<u64>; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let map = BlockMap::new(vec![Group::new()], 2);
        assert_eq!((map.reserve(), map.reserve()), (Some(0), Some(1)));
        Arc::new(Self {
            map,
            content: std::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    /// The device's read of a block whose read was noted before.
    fn read(&self, block: u64) {
        let cell = &self.content[usize::try_from(block).unwrap()];
        // SAFETY: Loom fails the model if anybody writes the cell meanwhile.
        cell.with(|content| unsafe {
            let _ = *content;
        });
        self.map.end_read(block);
    }

    /// Writes a block that is free, if there is one.
    fn write(&self) -> Option<u64> {
        let block = self.map.reserve()?;
        let cell = &self.content[usize::try_from(block).unwrap()];
        // SAFETY: As in `read`.
        cell.with_mut(|content| unsafe { *content += 1 });
        Some(block)
    }
}

#[test]
fn a_freed_block_is_not_written_while_it_is_read() {
    explore(3, || {
        let world = World::new();
        world.map.begin_read(0);
        let threads = [
            thread::spawn({
                let world = world.clone();
                move || world.read(0)
            }),
            thread::spawn({
                let world = world.clone();
                move || {
                    world.map.release(0);
                }
            }),
        ];
        let early = world.write();
        for thread in threads {
            thread.join().unwrap();
        }
        // Neither lost nor given twice.
        let late = world.write();
        assert_eq!([early, late].iter().flatten().count(), 1);
    });
}

#[test]
fn two_readers_and_a_neighbor_leave_nothing_behind() {
    explore(2, || {
        let world = World::new();
        world.map.begin_read(0);
        world.map.begin_read(1);
        let threads = [0, 1].map(|block| {
            let world = world.clone();
            thread::spawn(move || world.read(block))
        });
        world.map.release(0);
        world.map.release(1);
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(world.write().is_some() && world.write().is_some());
        assert_eq!(world.write(), None);
    });
}
