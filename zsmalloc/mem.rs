// SPDX-License-Identifier: GPL-2.0

//! The memory of the pool: zspage descriptors, their lists, and the bytes in their pages.
//!
//! The only unsafe file of the pool. It knows where bytes are, not which place is free: that is
//! `zspage.rs`. Nothing here sleeps or locks. Only [`OwnedZspage::new`] and [`later_pages`]
//! allocate, with the policy they are given; both are called before any lock is taken.
//!
//! # The descriptor
//!
//! ```text
//!  base  later  links.next  links.prev  run  class  state
//!    |     |    `-- class lock --'       |          `- class lock: places used, pages held, ...
//!    |     `-> [_, _, page, page, ..]    `- this many pages follow each other from `base`:
//!    `-> page page                          the first run; the others are found in `later`
//! ```
//!
//! 64 bytes, one cache line. A linear zspage has all pages in the first run and needs no more; the
//! array of the others is made when the first of them comes and lives as long as the zspage.
//!
//! # Who may touch what
//!
//! | what | reader | writer |
//! |---|---|---|
//! | `state`, `links`, headers | class lock | class lock |
//! | `base`, `class` | anybody who may use the [`Zs`] | nobody after creation |
//! | `run`, `later` | anybody, for a page that holds an object of his | class lock |
//! | bytes of an object | who holds the owner's slot | who has its [`Place`] |
//!
//! A reader's page number compares the same way with every value that `run` takes while his object
//! lives: pages are only added behind, and only taken away from behind, those that hold an object.
//! He sees those values because the object's id reached him through its slot, which was released
//! after they were written.
//!
//! # When a [`Zs`] is good
//!
//! A `Zs` is the address of a live descriptor, without a lifetime. It comes from three places, and
//! is used only as long as that place vouches for it: from a list or a field of the class, while
//! the class is locked; from the compaction, while it has the zspage isolated; from an object id,
//! while the object exists, that is while its slot is held, or until the id is freed.

use super::{
    fullness::Group,
    geometry::MAX_CHAIN,
    object::{
        ObjectId,
        DESCRIPTOR_ALIGN, //
    },
    places::Places, //
};
use crate::kapi::{
    atomic::{
        AtomicU32,
        AtomicUsize, //
    },
    bytes::{
        Pieces,
        Src, //
    },
    gfp::{
        NoIoScope,
        Policy, //
    },
    num::{
        u32_to_usize,
        u64_to_usize,
        usize_to_u64,
        PAGE_SIZE, //
    },
    page::Pages, //
};
use core::{
    cell::UnsafeCell,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    alloc::flags::GFP_KERNEL,
    prelude::*, //
};

/// Proof that a class is locked.
///
/// There is one a class, inside of what the class's lock protects, so a borrow of it is a borrow of
/// the lock's guard; an exclusive borrow lends the state of one zspage of the class at a time.
pub(super) struct Token {
    class: u16,
}

impl Token {
    /// Makes the token of a class. Called once a class, to put it under the class's lock.
    pub(super) const fn new(class: u16) -> Self {
        Self { class }
    }
}

/// What the class lock protects in a zspage.
///
/// # Invariants
///
/// `usable` places lie wholly in the `pages` pages held, and those of `places` are among them.
pub(super) struct State {
    /// Places that hold an object.
    pub(super) places: Places,
    /// The first run of pages.
    first: Option<Pages>,
    /// Places that lie wholly in the pages held.
    pub(super) usable: u8,
    /// Pages held, from the chain's first on.
    pub(super) pages: u8,
    /// The list of the class it is on, unless isolated.
    pub(super) group: Group,
    /// Taken off its list by the compaction.
    pub(super) isolated: bool,
    /// The page allocator had no contiguous pages the last time: take single ones.
    pub(super) single: bool,
}

/// A zspage's neighbors on the list it is on; the business of `list.rs`.
pub(super) struct Links {
    pub(super) next: Option<Zs>,
    pub(super) prev: Option<Zs>,
}

/// A zspage's descriptor; see the file's header.
#[repr(C, align(64))]
struct Zspage {
    base: NonNull<u8>,
    later: AtomicUsize,
    links: UnsafeCell<Links>,
    run: AtomicU32,
    class: u16,
    state: UnsafeCell<State>,
}

const _: () = {
    assert!(align_of::<Zspage>() == DESCRIPTOR_ALIGN);
    assert!(
        size_of::<Zspage>() == 64,
        "one cache line, or the metadata figures are wrong"
    );
};

/// The pages behind the first run, each at its number in the chain.
pub(super) struct LaterPages {
    /// Addresses, for readers without the class lock.
    addresses: [AtomicUsize; MAX_CHAIN],
    /// The runs themselves, each at the number of its first page; class lock.
    runs: UnsafeCell<[Option<Pages>; MAX_CHAIN]>,
}

/// Makes the array for pages behind the run.
///
/// # Context
///
/// As the policy says.
pub(super) fn later_pages(policy: Policy) -> Option<KBox<LaterPages>> {
    let later = LaterPages {
        addresses: [const { AtomicUsize::new(0) }; MAX_CHAIN],
        runs: UnsafeCell::new([const { None }; MAX_CHAIN]),
    };
    boxed(later, policy)
}

/// Puts a value in a box under a policy. The crate's flags have none without I/O, its scope does.
fn boxed<T>(value: T, policy: Policy) -> Option<KBox<T>> {
    if policy == Policy::NoIo {
        let _scope = NoIoScope::enter();
        return KBox::new(value, GFP_KERNEL).ok();
    }
    KBox::new(value, policy.crate_flags()).ok()
}

/// A zspage, by the address of its descriptor; see "When a `Zs` is good" in the file's header.
///
/// # Invariants
///
/// The address is that of a live descriptor as long as the value may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Zs(NonNull<Zspage>);

// SAFETY: an address; what it leads to is protected as the table in the file's header says.
unsafe impl Send for Zs {}

impl Zs {
    /// Returns the zspage of an object that exists.
    pub(super) fn of(id: ObjectId) -> Option<Self> {
        // INVARIANT: the pool made the id of a live descriptor's address, and an object that exists
        // keeps its descriptor.
        let address = ptr::with_exposed_provenance_mut(u64_to_usize(id.address()));
        NonNull::new(address).map(Self)
    }

    fn descriptor(&self) -> &Zspage {
        // SAFETY: live by the type's invariant; what is written behind a shared reference is
        // written through `UnsafeCell` or atomics.
        unsafe { self.0.as_ref() }
    }

    /// Returns the number of the zspage's class.
    pub(super) fn class(self) -> u16 {
        self.descriptor().class
    }

    /// Returns the id of one of its objects.
    pub(super) fn id(self, index: u8) -> ObjectId {
        ObjectId::new(usize_to_u64(self.0.as_ptr().expose_provenance()), index)
    }

    /// Returns the state.
    pub(super) fn state(self, token: &Token) -> &State {
        self.check(token);
        // SAFETY:
        // - Live by the type's invariant, for as long as the class stays locked.
        // - The token shows that the class is locked, and a shared borrow of it that nobody has an
        //   exclusive borrow of a state of this class.
        unsafe { &*self.0.as_ref().state.get() }
    }

    /// Returns the state, to change it.
    pub(super) fn state_mut(self, token: &mut Token) -> &mut State {
        self.check(token);
        // SAFETY: as `state`; the exclusive borrow of the token makes this the only borrow.
        unsafe { &mut *self.0.as_ref().state.get() }
    }

    /// Returns the links, to change them.
    pub(super) fn links_mut(self, token: &mut Token) -> &mut Links {
        self.check(token);
        // SAFETY: as `state_mut`.
        unsafe { &mut *self.0.as_ref().links.get() }
    }

    /// Complains about a zspage of another class, which the lock held does not protect.
    fn check(self, token: &Token) {
        if cfg!(rzram_debug) && self.descriptor().class != token.class {
            pr_err!(
                "zspage of class {} under the lock of {}\n",
                self.class(),
                token.class
            );
        }
    }

    /// Returns the owner in the header of a taken place, `offset` bytes from the zspage's start.
    pub(super) fn owner(self, offset: usize, _: &Token) -> u32 {
        // SAFETY:
        // - `header_at` gives an address inside of a page that the zspage holds, aligned.
        // - Headers are written under the class lock only, which the token shows to be held.
        unsafe { self.header_at(offset).read() }
    }

    /// Writes the owner into the header of a taken place.
    pub(super) fn set_owner(self, offset: usize, owner: u32, _: &mut Token) {
        // SAFETY: as `owner`.
        unsafe { self.header_at(offset).write(owner) };
    }

    /// Places start at multiples of at least four bytes, so a header lies in one page, aligned.
    fn header_at(self, offset: usize) -> *mut u32 {
        self.page(offset / PAGE_SIZE)
            .wrapping_add(offset % PAGE_SIZE)
            .cast()
    }

    /// Returns the address of a page, by its number in the chain; the zspage must hold it.
    fn page(self, number: usize) -> *mut u8 {
        let zspage = self.descriptor();
        // ORDERING: a value as old as the caller's object will do; see the file's header. The
        // object's id was published after it, in `device/slot_word.rs::release`.
        let run = u32_to_usize(zspage.run.load_relaxed());
        if number < run {
            return zspage.base.as_ptr().wrapping_add(number * PAGE_SIZE);
        }
        let address = self.later().and_then(|later| later.addresses.get(number));
        address.map_or(ptr::null_mut(), |address| {
            // ORDERING: as for the run.
            ptr::with_exposed_provenance_mut(address.load_relaxed())
        })
    }

    /// Returns the array of the pages behind the first run, if there is one.
    fn later(&self) -> Option<&LaterPages> {
        // ORDERING: as for the run in `page`.
        let address = self.descriptor().later.load_relaxed();
        let later: *const LaterPages = ptr::with_exposed_provenance(address);
        // SAFETY: null, or the array that `extend` published, which lives as long as the
        // descriptor; what is written behind a shared reference is atomic or in an `UnsafeCell`.
        unsafe { later.as_ref() }
    }

    /// Returns whether there is a place to note pages behind the first run.
    pub(super) fn has_later(self) -> bool {
        self.later().is_some()
    }

    /// Returns the runs behind the first one, if there is a place for them.
    fn later_runs(self, _: &mut Token) -> Option<&mut [Option<Pages>; MAX_CHAIN]> {
        let runs = self.later()?.runs.get();
        // SAFETY: they live as long as the descriptor, are accessed under the class lock only, and
        // through this function only; the exclusive borrow of the token makes this the only borrow.
        Some(unsafe { &mut *runs })
    }

    /// Returns the `len` bytes at `offset` from the zspage's start, in one or two pieces.
    ///
    /// They lie in pages the zspage holds and touch at most two of them. The caller holds the slot
    /// of the object they belong to, or its [`Place`], during `'a`.
    pub(super) fn pieces<'a>(self, offset: usize, len: usize) -> Pieces<'a> {
        let (number, within) = (offset / PAGE_SIZE, offset % PAGE_SIZE);
        let start = self.page(number).wrapping_add(within);
        let front = len.min(PAGE_SIZE - within);
        if front == len || self.page(number + 1) == self.page(number).wrapping_add(PAGE_SIZE) {
            // SAFETY:
            // - One page, or two that follow each other, held by the zspage while the object lives,
            //   which the caller's slot or place makes sure of during `'a`.
            return Pieces::One(unsafe { Src::from_raw(start, len) });
        }
        // SAFETY: as above, page by page.
        unsafe {
            Pieces::Two(
                Src::from_raw(start, front),
                Src::from_raw(self.page(number + 1), len - front),
            )
        }
    }

    /// Adds pages at the chain's end and returns those that `most` leaves over.
    ///
    /// Takes the array for later pages out of `later` if it needs one. Adds nothing if there is
    /// none. Counts the pages in the state; `usable` and the group are up to the caller.
    pub(super) fn extend(
        self,
        mut pages: Pages,
        most: usize,
        later: &mut Option<KBox<LaterPages>>,
        token: &mut Token,
    ) -> Option<Pages> {
        let have = usize::from(self.state(token).pages);
        let rest = pages.split_off(most);
        if self.later().is_none() {
            let Some(array) = later.take() else {
                return Some(pages);
            };
            let address = KBox::into_raw(array).expose_provenance();
            // ORDERING: with the addresses below, published by the release of the slot that gets
            // an object in these pages; partner `Zs::later`.
            self.descriptor().later.store_relaxed(address);
        }
        let (base, count) = (pages.addr(), pages.count());
        let slots = self
            .later()
            .map(|l| l.addresses.iter().skip(have).take(count));
        for (i, address) in slots.into_iter().flatten().enumerate() {
            let page = base.wrapping_add(i * PAGE_SIZE);
            // ORDERING: as above, partner `Zs::page`.
            address.store_relaxed(page.expose_provenance());
        }
        if let Some(run) = self.later_runs(token).and_then(|runs| runs.get_mut(have)) {
            *run = Some(pages);
        }
        self.state_mut(token).pages = page_count(have.saturating_add(count));
        rest
    }

    /// Takes pages off the chain's end, so that at least `keep` are left, and returns them.
    ///
    /// They follow each other, so a scattered zspage may need several calls. No place in them is
    /// used. Counts the pages in the state; `usable` and the group are up to the caller.
    pub(super) fn cut(self, keep: usize, token: &mut Token) -> Option<Pages> {
        let have = usize::from(self.state(token).pages);
        if keep == 0 || have <= keep {
            return None;
        }
        let runs = self.later_runs(token);
        let last = runs.and_then(|runs| {
            let (from, run) = runs
                .iter_mut()
                .enumerate()
                .rfind(|(_, run)| run.is_some())?;
            Some((from, run))
        });
        let (from, pages) = match last {
            Some((from, run)) if from >= keep => (from, run.take()),
            Some((from, run)) => (keep, run.as_mut()?.split_off(keep - from)),
            None => {
                // ORDERING: no object in the pages that go, so no reader's comparison changes;
                // partner `Zs::page`.
                self.descriptor().run.store_relaxed(page_count(keep).into());
                let first = self.state_mut(token).first.as_mut()?;
                (keep, first.split_off(keep))
            }
        };
        self.state_mut(token).pages = page_count(from);
        pages
    }

    /// Returns whether all pages follow each other.
    pub(super) fn is_linear(self, token: &Token) -> bool {
        u32_to_usize(self.descriptor().run.load_relaxed()) >= usize::from(self.state(token).pages)
    }
}

/// The exclusive right to the bytes of a place that holds an object nobody else knows of yet.
///
/// # Invariants
///
/// The place is taken in its zspage's state, and its id is in no slot.
pub(super) struct Place {
    zs: Zs,
    index: u8,
    /// Offset of the first byte behind the header, from the zspage's start.
    offset: usize,
    /// Bytes behind the header.
    room: usize,
}

impl Place {
    /// Stands for the place just taken: its bytes behind the header start at `offset`.
    pub(super) fn new(zs: Zs, index: u8, (offset, room): (usize, usize), _: &mut Token) -> Self {
        Self {
            zs,
            index,
            offset,
            room,
        }
    }

    /// Returns the zspage.
    pub(super) fn zs(&self) -> Zs {
        self.zs
    }

    /// Returns the number of the place in its zspage.
    pub(super) fn index(&self) -> u8 {
        self.index
    }

    /// Returns the id of the object in it.
    pub(super) fn id(&self) -> ObjectId {
        self.zs.id(self.index)
    }

    /// Copies `from` to the object's bytes, from byte `at` on; cut at the place's end.
    ///
    /// Returns how many bytes were copied.
    pub(super) fn write(&mut self, at: usize, from: Pieces<'_>) -> usize {
        let (one, two) = match from {
            Pieces::One(all) => (all, None),
            Pieces::Two(front, rest) => (front, Some(rest)),
        };
        let done = self.write_src(at, one);
        let more = two.map_or(0, |rest| self.write_src(at.saturating_add(done), rest));
        done.saturating_add(more)
    }

    fn write_src(&mut self, at: usize, from: Src<'_>) -> usize {
        let len = from.len().min(self.room.saturating_sub(at));
        let (one, two) = match self.zs.pieces(self.offset.saturating_add(at), len) {
            Pieces::One(all) => (all, None),
            Pieces::Two(front, rest) => (front, Some(rest)),
        };
        let done = copy_to_place(from, one);
        match (two, from.sub(done, len.saturating_sub(done))) {
            (Some(to), Some(rest)) => done.saturating_add(copy_to_place(rest, to)),
            _ => done,
        }
    }
}

/// Copies to bytes of a [`Place`], as many as both have.
fn copy_to_place(from: Src<'_>, to: Src<'_>) -> usize {
    let len = from.len().min(to.len());
    // SAFETY:
    // - `from` is readable for its length, at least `len`.
    // - `to` lies in pages the pool owns and in a place that is the caller's alone, by the
    //   invariant of `Place`; pool pages are mapped writable.
    // - They do not overlap: `from` is foreign memory, or an object in another place.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr().cast_mut(), len) };
    len
}

/// A zspage that is on no list and in nobody's use, with its pages. Freed when dropped.
///
/// # Context
///
/// Dropping gives pages back to the page allocator: not under a class lock. Atomic context is fine.
pub(super) struct OwnedZspage(Zs);

impl OwnedZspage {
    /// Makes a zspage of a class out of its first pages; all places are free.
    ///
    /// `usable` places lie wholly in them. `pages` are at most [`MAX_CHAIN`].
    ///
    /// # Context
    ///
    /// Allocates the descriptor as the policy says.
    pub(super) fn new(class: u16, pages: Pages, usable: u8, policy: Policy) -> Option<Self> {
        let count = page_count(pages.count());
        let zspage = Zspage {
            base: NonNull::new(pages.addr())?,
            later: AtomicUsize::new(0),
            links: UnsafeCell::new(Links {
                next: None,
                prev: None,
            }),
            run: AtomicU32::new(count.into()),
            class,
            state: UnsafeCell::new(State {
                places: Places::NONE,
                first: Some(pages),
                usable,
                pages: count,
                group: Group::EMPTY,
                isolated: false,
                single: false,
            }),
        };
        let descriptor = NonNull::new(KBox::into_raw(boxed(zspage, policy)?))?;
        // INVARIANT: just made, and freed by `drop` only.
        Some(Self(Zs(descriptor)))
    }

    /// Gives up ownership, to put the zspage on a list or its only object into a slot.
    pub(super) fn into_zs(self) -> Zs {
        let zs = self.0;
        core::mem::forget(self);
        zs
    }

    /// Takes ownership of a zspage that holds no object and is on no list.
    pub(super) fn from_zs(zs: Zs) -> Self {
        Self(zs)
    }

    /// Makes the zspage a raw page: its only place, all of it, without a header.
    pub(super) fn into_place(self) -> Place {
        Place {
            zs: self.into_zs(),
            index: 0,
            offset: 0,
            room: PAGE_SIZE,
        }
    }

    /// Changes the state; nobody else sees it.
    pub(super) fn state_mut(&mut self) -> &mut State {
        // SAFETY: on no list and in nobody's use, so the exclusive borrow of the owner is the only
        // access.
        unsafe { &mut *self.0 .0.as_ref().state.get() }
    }

    /// Returns how many pages it holds.
    pub(super) fn pages(&mut self) -> usize {
        self.state_mut().pages.into()
    }
}

impl Drop for OwnedZspage {
    fn drop(&mut self) {
        let address = self.0.descriptor().later.load_relaxed();
        let later: *mut LaterPages = ptr::with_exposed_provenance_mut(address);
        if !later.is_null() {
            // SAFETY: `extend` got the address from a box, and nobody uses the array any more.
            drop(unsafe { KBox::from_raw(later) });
        }
        // SAFETY: `new` got the address from a box; by the type's contract nobody else has it. The
        // first run of pages goes with it.
        drop(unsafe { KBox::from_raw(self.0 .0.as_ptr()) });
    }
}

/// Returns a number of pages of a chain as the state counts them.
fn page_count(pages: usize) -> u8 {
    // CAST: at most MAX_CHAIN, as asserted.
    pages.min(MAX_CHAIN) as u8
}

const _: () = assert!(MAX_CHAIN <= 255);
