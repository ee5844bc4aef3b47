// SPDX-License-Identifier: GPL-2.0

//! Free batches on their way: CPUs that fill them, the worker that takes the list, the flush that
//! takes what is open, and the end of the pool.
//!
//! The list is the driver's own (`kapi/llist.rs`). Around it stand the steps of `zsmalloc/drain.rs`
//! with a mutex for the batch lock, and batches of two. Bound: three threads, three preemptions;
//! some seconds on one core.

use std::ptr::NonNull;

use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering;
use loom::sync::Arc;
use loom::sync::Mutex;
use loom::thread;

use super::explore;
use crate::kapi::llist::Entry;
use crate::kapi::llist::Link;
use crate::kapi::llist::Linked;
use crate::kapi::llist::List;

const BATCH: usize = 2;
const OBJECTS: usize = 6;

type Batch = Vec<usize>;

struct Node(Box<Entry<Batch>>);

// SAFETY: the box keeps its address while it is a raw pointer; the link is the entry's first field.
unsafe impl Linked for Node {
    fn into_link(self) -> NonNull<Link> {
        NonNull::new(Box::into_raw(self.0)).unwrap().cast()
    }

    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: by the caller's promise the pointer came from `into_link`.
        Self(unsafe { Box::from_raw(link.as_ptr().cast()) })
    }
}

/// One CPU's batches, how often its worker is queued, and how often each object was freed.
struct World {
    open: Mutex<Option<Node>>,
    full: List<Node>,
    queued: AtomicUsize,
    freed: [AtomicUsize; OBJECTS],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::new(None),
            full: List::new(),
            queued: AtomicUsize::new(0),
            freed: std::array::from_fn(|_| AtomicUsize::new(0)),
        })
    }

    fn free_later(&self, object: usize) {
        let mut open = self.open.lock().unwrap();
        let mut node = open
            .take()
            .unwrap_or_else(|| Node(Box::new(Entry::new(Batch::new()))));
        node.0.value.push(object);
        if node.0.value.len() < BATCH {
            *open = Some(node);
            return;
        }
        drop(open);
        self.full.push(node);
        self.queued.swap(1, Ordering::SeqCst);
    }

    fn free(&self, node: &Node) {
        for &object in &node.0.value {
            self.freed[object].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The worker of full batches: as often as it is queued.
    fn work(&self) {
        while self.queued.swap(0, Ordering::SeqCst) != 0 {
            for node in self.full.take_all() {
                self.free(&node);
            }
        }
    }

    /// The flush, and every drain of all there is.
    fn flush(&self) {
        for node in self.full.take_all() {
            self.free(&node);
        }
        let open = self.open.lock().unwrap().take();
        if let Some(node) = open {
            self.free(&node);
        }
    }

    fn each_freed_once(&self, objects: usize) {
        for (object, freed) in self.freed.iter().enumerate() {
            let wanted = usize::from(object < objects);
            assert_eq!(freed.load(Ordering::Relaxed), wanted, "object {object}");
        }
    }
}

fn spawn(world: &Arc<World>, work: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

#[test]
fn two_pushers_and_the_worker_free_each_object_once() {
    explore(3, || {
        let world = World::new();
        let other = spawn(&world, |world| {
            world.free_later(0);
            world.free_later(1);
        });
        let worker = spawn(&world, World::work);
        world.free_later(2);
        world.free_later(3);
        other.join().unwrap();
        worker.join().unwrap();
        // A batch that went onto the list has its worker queued, whoever took the list meanwhile.
        world.work();
        assert!(world.full.is_empty(), "a full batch without a worker");
        world.flush();
        world.each_freed_once(4);
    });
}

#[test]
fn a_flush_leaves_what_is_pushed_after_it_and_nothing_else() {
    explore(3, || {
        let world = World::new();
        world.free_later(0);
        let flush = spawn(&world, World::flush);
        world.free_later(1);
        world.free_later(2);
        flush.join().unwrap();
        world.flush();
        world.each_freed_once(3);
    });
}

/// The end of a pool: nobody pushes any more, the worker is stopped, then all is drained.
#[test]
fn the_end_finds_what_the_worker_left() {
    explore(3, || {
        let world = World::new();
        let pusher = spawn(&world, |world| {
            (0..3).for_each(|object| world.free_later(object))
        });
        let worker = spawn(&world, World::work);
        pusher.join().unwrap();
        worker.join().unwrap();
        world.flush();
        world.each_freed_once(3);
    });
}

/// A list that ends with nodes in it drops them, and the others that were taken are dropped once.
#[test]
fn a_dropped_list_drops_its_nodes() {
    explore(3, || {
        let list = Arc::new(List::<Node>::new());
        let taker = {
            let list = Arc::clone(&list);
            thread::spawn(move || list.take_all().count())
        };
        list.push(Node(Box::new(Entry::new(vec![0]))));
        list.push(Node(Box::new(Entry::new(vec![1]))));
        let taken = taker.join().unwrap();
        assert_eq!(taken + list.take_all().count(), 2);
        list.push(Node(Box::new(Entry::new(vec![2]))));
    });
}
