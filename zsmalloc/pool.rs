// SPDX-License-Identifier: GPL-2.0

//! The pool: storing, finding and freeing objects.
//!
//! # Who may run with whom
//!
//! | | `alloc` | `pieces` | `free` | `trim` | `compact` |
//! |---|---|---|---|---|---|
//! | `alloc` | class lock | - | class lock | class lock | class lock |
//! | `pieces` | - | - | not of one object | - | slot of the object |
//! | `free` | class lock | not of one object | class lock | class lock | class lock |
//! | `trim` | class lock | - | class lock | class lock | class lock |
//! | `compact` | class lock | slot of the object | class lock | class lock | one a pool |
//!
//! "-" is no lock: `pieces` reads addresses that do not change while its object lives. "Not of one
//! object": a slot forgets an id before it frees it, and its holder is the one who reads.
//!
//! # Memory first, lock second
//!
//! `alloc` looks for a place under the class lock. If there is none it lets go, gets what the class
//! says it needs, takes the lock again and looks again: another CPU may have grown the class or
//! freed an object meanwhile, and then what was brought is given back, after the lock.

#![deny(unsafe_code)]

use super::{
    class::{
        Class,
        Look,
        Need,
        Put,
        Supply, //
    },
    drain::{
        self,
        Deferred,
        DrainCause, //
    },
    geometry::{
        class_of,
        CLASSES,
        MAX_LEN,
        SHAPES, //
    },
    mem::{
        later_pages,
        OwnedZspage,
        Place,
        Zs, //
    },
    object::{
        ObjectId,
        OWNER_LIMIT, //
    },
    stats::PoolStats,
    HoldsOwner, //
};
use crate::kapi::{
    atomic::{
        AtomicBool,
        AtomicU64, //
    },
    bytes::{
        Pieces,
        Src, //
    },
    gfp::Policy,
    num::{
        usize_to_u64,
        PAGE_SIZE, //
    },
    page::{
        Pages,
        MAX_RUN, //
    },
    work::{
        Worker,
        Workqueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Class number in the descriptors of raw pages, which belong to no class.
const RAW: usize = CLASSES;

/// How a pool is to work.
#[derive(Clone)]
pub(crate) struct PoolConfig {
    /// Ask for pages in a row first.
    pub(crate) linear: bool,
    /// Have batches for deferred frees; without them [`Worker::free_later`] frees at once.
    pub(crate) batches: bool,
    /// Runs the drains.
    pub(crate) queue: Arc<Workqueue>,
}

/// Why an object could not be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AllocError {
    /// No memory under the policy given.
    NoMemory,
    /// The length is zero or more than a page, or the owner is not below
    /// [`OWNER_LIMIT`](super::OWNER_LIMIT).
    Invalid,
}

/// A pool with its work items, pinned.
pub(crate) type PoolBox = Pin<KBox<Worker<Pool>>>;

/// A pool of objects.
///
/// Its owner frees every object before dropping it; see [`Drop`]. The work items, which belong to
/// the [`Worker`] around it, are stopped before that.
pub(crate) struct Pool {
    classes: KVec<Pin<KBox<Class>>>,
    raw_pages: AtomicU64,
    /// A compaction runs.
    pub(super) compacting: AtomicBool,
    /// The item that looks for classes at rest is queued.
    resting: AtomicBool,
    linear: bool,
    deferred: Option<Deferred>,
    pub(super) stats: Arc<PoolStats>,
}

impl Pool {
    /// Makes an empty pool that counts in `stats`.
    ///
    /// # Context
    ///
    /// May sleep; allocates with [`Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(stats: Arc<PoolStats>, config: PoolConfig) -> Result<PoolBox> {
        let mut classes = KVec::with_capacity(CLASSES, GFP_KERNEL)?;
        for (number, shape) in (0..).zip(&SHAPES) {
            classes.push(
                KBox::pin_init(Class::new(shape, number), GFP_KERNEL)?,
                GFP_KERNEL,
            )?;
        }
        let pool = Self {
            classes,
            raw_pages: AtomicU64::new(0),
            compacting: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            linear: config.linear,
            deferred: match config.batches {
                true => Some(Deferred::new()?),
                false => None,
            },
            stats,
        };
        KBox::pin_init(Worker::new(config.queue, drain::items(), pool), GFP_KERNEL)
    }

    /// Returns the smallest length that is stored raw: its place would be as large as a page.
    pub(crate) fn raw_threshold(&self) -> usize {
        MAX_LEN + 1
    }

    /// Returns the number of the size class that objects of `len` bytes go to.
    ///
    /// Classes ascend with the size; raw pages come behind the last one.
    pub(crate) fn class_index(len: usize) -> usize {
        class_of(len).unwrap_or(RAW)
    }

    /// Returns how many pages the pool holds.
    pub(crate) fn total_pages(&self) -> u64 {
        self.stats.total_pages()
    }

    /// Returns how many raw pages it holds.
    pub(crate) fn raw_pages(&self) -> u64 {
        self.raw_pages.load_relaxed()
    }

    /// Returns the size classes.
    pub(super) fn classes(&self) -> impl DoubleEndedIterator<Item = &Class> + '_ {
        self.classes.iter().map(|class| &**class)
    }

    pub(super) fn class(&self, number: usize) -> Option<&Class> {
        self.classes.get(number).map(|class| &**class)
    }

    /// Gets what a class needs to grow: all its missing pages in a row, or one.
    fn supply(
        &self,
        class: &Class,
        need: Need,
        policy: Policy,
        node: Option<u32>,
    ) -> Option<Supply> {
        let pages = self.pages(need, policy, node)?;
        let single = pages.count() < need.pages;
        if need.is_new {
            let usable = class.shape.places_in(pages.count());
            let mut zspage = OwnedZspage::new(class.number, pages, usable, policy)?;
            zspage.state_mut().single = single;
            return Some(Supply::Zspage(zspage));
        }
        let later = match need.has_later {
            true => None,
            false => Some(later_pages(policy)?),
        };
        Some(Supply::Pages(pages, later))
    }

    fn pages(&self, need: Need, policy: Policy, node: Option<u32>) -> Option<Pages> {
        let run = need.pages.min(MAX_RUN);
        if run > 1 && self.linear && !need.single {
            let pages = Pages::alloc(run, Policy::Comfort, node);
            self.stats.add_linear(pages.is_some());
            if pages.is_some() {
                return pages;
            }
        }
        Pages::alloc(1, policy, node)
    }

    fn alloc_raw(&self, policy: Policy, node: Option<u32>) -> Result<Place, AllocError> {
        let zspage = Pages::alloc(1, policy, node)
            .and_then(|pages| OwnedZspage::new(RAW_NUMBER, pages, 1, policy))
            .ok_or(AllocError::NoMemory)?;
        self.raw_pages.fetch_add_relaxed(1);
        self.stats.add_pages(1);
        Ok(zspage.into_place())
    }

    /// Returns the first `len` bytes of a stored object, in one or two pieces.
    ///
    /// `held` is the guard of the slot that has `id`, and `len` the length it has for it; both are
    /// the caller's to get right. The object stays where it is as long as the slot is held.
    ///
    /// # Context
    ///
    /// Any; takes no lock and touches nothing that others write.
    pub(crate) fn pieces<'a>(
        &'a self,
        id: ObjectId,
        len: usize,
        _held: &'a impl HoldsOwner,
    ) -> Pieces<'a> {
        let Some(zs) = Zs::of(id) else {
            return Pieces::One(Src::from_slice(&[]));
        };
        match self.class(zs.class().into()) {
            Some(class) => {
                let (offset, room) = class.shape.bytes_of(id.index());
                zs.pieces(offset, len.min(room))
            }
            None => zs.pieces(0, len.min(PAGE_SIZE)),
        }
    }

    /// Frees an object that no slot holds any more.
    ///
    /// # Context
    ///
    /// Any but a hard or soft interrupt, interrupts on or off. Takes the class lock for short; a
    /// zspage that this empties goes back to the page allocator after it.
    pub(crate) fn free(&self, id: ObjectId) {
        self.free_one(id);
    }

    /// As [`Pool::free`]; returns how many pages that gave back.
    ///
    /// # Context
    ///
    /// As [`Pool::free`].
    pub(super) fn free_one(&self, id: ObjectId) -> u64 {
        let Some(zs) = Zs::of(id) else {
            return 0;
        };
        let put = match self.class(zs.class().into()) {
            Some(class) => class.inner.lock().put(zs, id.index()),
            None => {
                self.raw_pages.fetch_sub_relaxed(1);
                Put::Emptied(OwnedZspage::from_zs(zs))
            }
        };
        match put {
            Put::Kept => 0,
            Put::Emptied(zspage) => self.give_back(zspage),
            Put::Missing => {
                pr_err!("an object was freed twice\n");
                0
            }
        }
    }

    /// Returns the batches for deferred frees, if there are any.
    pub(super) fn deferred(&self) -> Option<&Deferred> {
        self.deferred.as_ref()
    }

    /// Frees a zspage and counts its pages out.
    ///
    /// # Context
    ///
    /// Any, but not under a class lock.
    pub(super) fn give_back(&self, mut zspage: OwnedZspage) -> u64 {
        let pages = zspage.pages();
        drop(zspage);
        self.stats.sub_pages(pages);
        usize_to_u64(pages)
    }

    /// Takes back the pages that the youngest zspages do not need yet; returns how many.
    ///
    /// Each class gets pages back as soon as it stores one object more. So this is for a pool at
    /// rest, for memory pressure, and before exact figures are shown.
    ///
    /// # Context
    ///
    /// Any; takes each class lock in turn, for short.
    pub(crate) fn trim(&self) -> u64 {
        self.classes().map(|class| self.trim_class(class)).sum()
    }

    /// Takes the unneeded pages of classes at rest; returns whether other classes have some.
    ///
    /// # Context
    ///
    /// As [`Pool::trim`].
    pub(super) fn trim_resting(&self) -> bool {
        let mut has_more = false;
        for class in self.classes() {
            let look = class.inner.lock().look();
            match look {
                Look::Compact => {}
                Look::Growing => has_more = true,
                Look::Resting => {
                    self.trim_class(class);
                }
            }
        }
        has_more
    }

    /// Returns whether the look for classes at rest is to be queued.
    pub(super) fn start_rest(&self) -> bool {
        // ORDERING: relaxed looks are enough: a class grew before this, and whoever cleared the
        // flag looks at all classes, under their locks, after that.
        !self.resting.load_relaxed() && !self.resting.swap_full(true)
    }

    /// Notes that it is not queued any more.
    pub(super) fn end_rest(&self) {
        // ORDERING: full, before the classes are looked at; pairs with `start_rest`.
        self.resting.swap_full(false);
    }

    /// Takes the unneeded pages of one class; returns how many.
    ///
    /// # Context
    ///
    /// Any; takes the class lock once a run of pages, which goes back after it.
    pub(super) fn trim_class(&self, class: &Class) -> u64 {
        let mut total = 0u64;
        loop {
            let pages = class.inner.lock().trim();
            let Some(pages) = pages else {
                return total;
            };
            let count = pages.count();
            drop(pages);
            self.stats.sub_pages(count);
            self.stats.add_trimmed(count);
            total = total.saturating_add(usize_to_u64(count));
        }
    }
}

impl Worker<Pool> {
    /// Makes room for an object of `len` bytes that the slot `owner` will hold.
    ///
    /// Lengths from [`Pool::raw_threshold`] on get a page of their own and are best given as
    /// `PAGE_SIZE`, as only a raw page can hold one. New pages come from near `node` if it can be.
    ///
    /// # Context
    ///
    /// As `policy` says; in atomic context with one that does not sleep, interrupts on or off.
    /// Takes the class lock for short; under it, memory is neither taken nor given back. Pages in a
    /// row are asked for with [`Policy::Comfort`], only a single page with `policy`. A policy that
    /// sleeps frees pending objects before it takes pages.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing has changed.
    pub(crate) fn alloc(
        &self,
        len: usize,
        owner: u32,
        policy: Policy,
        node: Option<u32>,
    ) -> Result<NewObject<'_>, AllocError> {
        if len == 0 || len > PAGE_SIZE || owner == OWNER_LIMIT {
            return Err(AllocError::Invalid);
        }
        let place = match class_of(len).and_then(|number| self.class(number)) {
            Some(class) => self.alloc_in(class, owner, policy, node)?,
            None => self.alloc_raw(policy, node)?,
        };
        Ok(NewObject {
            pool: self,
            place: Some(place),
        })
    }

    fn alloc_in(
        &self,
        class: &Class,
        owner: u32,
        policy: Policy,
        node: Option<u32>,
    ) -> Result<Place, AllocError> {
        let mut has_drained = !policy.may_sleep() || self.stats.pending() == 0;
        // Ends: a turn that brings nothing means that another CPU stored or freed an object.
        loop {
            let need = match class.inner.lock().take(owner) {
                Ok(place) => return Ok(place),
                Err(need) => need,
            };
            if !has_drained {
                has_drained = true;
                self.drain_some(drain::ALLOC_OBJECTS, DrainCause::Allocation);
                continue;
            }
            let supply = self
                .supply(class, need, policy, node)
                .ok_or(AllocError::NoMemory)?;
            let mut inner = class.inner.lock();
            let (pages, leftover) = inner.grow(supply);
            let place = inner.take(owner);
            drop(inner);
            drop(leftover);
            self.stats.add_pages(pages);
            if pages > 1 {
                self.rest_soon();
            }
            if let Ok(place) = place {
                return Ok(place);
            }
        }
    }
}

/// [`RAW`] as descriptors have it.
const RAW_NUMBER: u16 = {
    assert!(RAW < 1 << 16);
    // CAST: asserted to fit.
    RAW as u16
};

impl Drop for Pool {
    /// Frees what is pending, and complains about pages that are left then.
    ///
    /// Objects are freed by who owns them: the pool could give their pages back, but not correct
    /// the owner's figures, and a missing free is a fault to be seen.
    fn drop(&mut self) {
        self.drain_all(DrainCause::Reset);
        let pages: u64 = self.classes().map(|c| c.inner.lock().counts().pages).sum();
        let raw = self.raw_pages();
        if pages != 0 || raw != 0 {
            pr_err!("a pool is dropped that holds {pages} pages and {raw} raw pages\n");
        }
    }
}

/// An object that is not in a slot yet. Freed when dropped.
#[must_use = "the object is freed when this is dropped; `into_id` keeps it"]
pub(crate) struct NewObject<'a> {
    pool: &'a Pool,
    place: Option<Place>,
}

impl NewObject<'_> {
    /// Copies the front of `from` to the object's start, as much as there is room for.
    ///
    /// # Context
    ///
    /// Any; takes no lock. Nobody else has the place.
    pub(crate) fn write(&mut self, from: Src<'_>) {
        self.write_pieces(Pieces::One(from));
    }

    /// As [`NewObject::write`], from a stored object.
    pub(crate) fn write_pieces(&mut self, from: Pieces<'_>) {
        if let Some(place) = &mut self.place {
            place.write(0, from);
        }
    }

    /// Gives the object to its slot: whoever stores the id owns the object from now on.
    pub(crate) fn into_id(mut self) -> ObjectId {
        self.pool.stats.note_peak();
        match self.place.take() {
            Some(place) => place.id(),
            // Not reached: the place is there until now.
            None => ObjectId::from_bits(0),
        }
    }
}

impl Drop for NewObject<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.pool.free(place.id());
        }
    }
}
