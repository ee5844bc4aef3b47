// SPDX-License-Identifier: GPL-2.0

//! One size class: its zspages, and the lock that protects them.
//!
//! # The class lock
//!
//! - Protects: the lists, `growing`, the counts, and in each zspage of the class the state, the
//!   links and the headers. Freed and added pages change hands under it.
//! - Does not protect: the bytes of objects (their slot, or their [`Place`], does), the way from an
//!   object to its page (see `mem.rs`), the pool's totals.
//! - Held for: a constant number of steps, none of which depends on how much is stored. Headers of
//!   objects are touched, so a step may miss the cache.
//! - Under it nobody sleeps, takes pages or gives them back, or takes another lock. What a step
//!   needs is brought along, and what it leaves over is handed out, both as values.
//! - Taken in task and work context only, never from a hard or soft interrupt; a caller may have
//!   interrupts off. So a plain spin lock is right: a CPU that holds it is not asked for it again
//!   before it has let go, whether the second request is an allocation or a free.
//!
//! # Growing
//!
//! A class first asks its zspages for a free place, the fullest first. When there is none it grows:
//!
//! 1. If its youngest zspage lacks pages of its chain, they are added there.
//! 2. Else a new zspage is made.
//!
//! Either way all missing pages are asked for in one block, and if the page allocator has none for
//! nothing, a single page is taken. The unused pages of the youngest zspage are taken away again by
//! [`Inner::trim`] when the class rests, for each class has one and together they would weigh more
//! than all rounding (see `geometry.rs`). The next object of the class then adds pages, and that
//! zspage is scattered from there on.

#![deny(unsafe_code)]

use super::{
    fullness::Group,
    geometry::Shape,
    list::Lists,
    mem::{
        LaterPages,
        OwnedZspage,
        Place,
        Token,
        Zs, //
    },
    places::Places,
    zspage, //
};
use crate::kapi::{
    num::usize_to_u64,
    page::Pages, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

/// A size class of a pool.
#[pin_data]
pub(super) struct Class {
    /// Its place size and chain.
    pub(super) shape: &'static Shape,
    /// Its number, which the descriptors of its zspages carry.
    pub(super) number: u16,
    /// What the class lock protects.
    #[pin]
    pub(super) inner: SpinLock<Inner>,
}

impl Class {
    /// Returns an initializer for an empty class.
    pub(super) fn new(shape: &'static Shape, number: u16) -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock!(Inner::new(shape, number), "rzram_class"),
            shape,
            number,
        })
    }
}

/// Counts of a class, for statistics and for deciding whether compaction pays.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Objects stored.
    pub(super) used: u64,
    /// Places in the pages held.
    pub(super) usable: u64,
    /// Pages held.
    pub(super) pages: u64,
    /// Zspages whose pages follow each other.
    pub(super) linear: u64,
    /// The other zspages.
    pub(super) scattered: u64,
}

impl Counts {
    /// Adds the counts of another class.
    pub(super) fn add(&mut self, other: &Self) {
        self.used = self.used.wrapping_add(other.used);
        self.usable = self.usable.wrapping_add(other.usable);
        self.pages = self.pages.wrapping_add(other.pages);
        self.linear = self.linear.wrapping_add(other.linear);
        self.scattered = self.scattered.wrapping_add(other.scattered);
    }

    /// Returns the number of zspages.
    pub(super) fn zspages(&self) -> u64 {
        self.linear.wrapping_add(self.scattered)
    }

    /// Returns how many whole zspages the free places amount to.
    pub(super) fn surplus(&self, shape: &Shape) -> u64 {
        self.usable.saturating_sub(self.used) / u64::from(shape.objects.max(1))
    }
}

/// What a class without a free place asks for.
#[derive(Clone, Copy)]
pub(super) struct Need {
    /// Pages of one chain that are missing.
    pub(super) pages: usize,
    /// They are for a new zspage; else for the one that grows.
    pub(super) is_new: bool,
    /// The last time there was no block of pages.
    pub(super) single: bool,
    /// The zspage that grows can note them already.
    pub(super) has_later: bool,
}

/// What a class gets to grow.
pub(super) enum Supply {
    /// A new zspage with its first pages.
    Zspage(OwnedZspage),
    /// More pages for the one that grows, and room to note them.
    Pages(Pages, Option<KBox<LaterPages>>),
}

/// What is left of a [`Supply`], to be dropped after the class lock.
#[must_use = "dropping gives pages back: only after the class lock"]
#[derive(Default)]
pub(super) struct Leftover {
    _supply: Option<Supply>,
    _pages: Option<Pages>,
    _later: Option<KBox<LaterPages>>,
}

/// How a class is doing, as [`Inner::look`] sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It needs all its pages.
    Compact,
    /// It has pages it does not need yet, and takes more and more of them.
    Growing,
    /// It has such pages and takes none.
    Resting,
}

/// Outcome of [`Inner::put`].
pub(super) enum Put {
    /// The object is gone, its zspage stays.
    Kept,
    /// It was the last one: the zspage is handed out, to be dropped after the class lock.
    Emptied(OwnedZspage),
    /// There was no object.
    Missing,
}

/// What the class lock protects.
///
/// # Invariants
///
/// - A zspage that holds an object is on the list of its group, or isolated.
/// - `counts` are the sums over all zspages, isolated ones included.
/// - Pages are missing in `growing` only, but for zspages that were isolated while growing: those
///   stay as short as they are.
pub(super) struct Inner {
    shape: &'static Shape,
    token: Token,
    lists: Lists,
    growing: Option<Zs>,
    /// Places taken of the zspage that grows, when somebody last looked whether the class rests.
    seen: Places,
    counts: Counts,
}

impl Inner {
    fn new(shape: &'static Shape, number: u16) -> Self {
        Self {
            shape,
            token: Token::new(number),
            lists: Lists::new(),
            growing: None,
            seen: Places::NONE,
            counts: Counts::default(),
        }
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of zspages in a group.
    pub(super) fn zspages_in(&self, group: Group) -> u32 {
        self.lists.len(group)
    }

    /// Takes a place for an object of `owner` in the fullest zspage that has one.
    ///
    /// # Errors
    ///
    /// No place is free; what to bring.
    pub(super) fn take(&mut self, owner: u32) -> Result<Place, Need> {
        for group in Group::with_room() {
            let Some(zs) = self.lists.first(group) else {
                continue;
            };
            if let Some(place) = zspage::take(zs, self.shape, owner, &mut self.token) {
                self.counts.used = self.counts.used.wrapping_add(1);
                self.regroup(zs);
                return Ok(place);
            }
        }
        Err(self.need())
    }

    fn need(&self) -> Need {
        if let Some(zs) = self.growing {
            let pages = zspage::missing(zs, self.shape, &self.token);
            if pages > 0 {
                return Need {
                    pages,
                    is_new: false,
                    single: zs.state(&self.token).single,
                    has_later: zs.has_later(),
                };
            }
        }
        Need {
            pages: self.shape.chain(),
            is_new: true,
            single: false,
            has_later: false,
        }
    }

    /// Grows by what was brought, unless that is no longer of use.
    ///
    /// Returns how many pages the class has more, and what is left over.
    pub(super) fn grow(&mut self, supply: Supply) -> (usize, Leftover) {
        let need = self.need();
        let unused = |supply| Leftover {
            _supply: Some(supply),
            ..Leftover::default()
        };
        if Group::with_room().any(|group| self.lists.first(group).is_some()) {
            return (0, unused(supply));
        }
        match (supply, self.growing) {
            (Supply::Zspage(new), _) if need.is_new => (self.add(new), Leftover::default()),
            (Supply::Pages(pages, later), Some(zs)) if !need.is_new => {
                self.extend(zs, pages, later)
            }
            (supply, _) => (0, unused(supply)),
        }
    }

    /// Adds a new zspage, which is the one that grows from now on.
    fn add(&mut self, new: OwnedZspage) -> usize {
        let zs = new.into_zs();
        self.lists.push_front(zs, &mut self.token);
        self.growing = Some(zs);
        self.recount(zs)
    }

    /// Adds pages to the zspage that grows.
    fn extend(
        &mut self,
        zs: Zs,
        pages: Pages,
        mut later: Option<KBox<LaterPages>>,
    ) -> (usize, Leftover) {
        let before = self.uncount(zs);
        let rest = zspage::grow(zs, self.shape, pages, &mut later, &mut self.token);
        let after = self.recount(zs);
        let leftover = Leftover {
            _pages: rest,
            _later: later,
            ..Leftover::default()
        };
        (after.saturating_sub(before), leftover)
    }

    /// Takes away pages that the zspage that grows does not need now; one run of them a call.
    pub(super) fn trim(&mut self) -> Option<Pages> {
        let zs = self.growing?;
        self.uncount(zs);
        let pages = zspage::trim(zs, self.shape, &mut self.token);
        self.recount(zs);
        pages
    }

    /// Returns how many pages [`Self::trim`] would take away.
    pub(super) fn unneeded_pages(&self) -> u64 {
        self.growing.map_or(0, |zs| {
            let needed = zspage::needed(zs, self.shape, &self.token);
            usize_to_u64(usize::from(zs.state(&self.token).pages).saturating_sub(needed))
        })
    }

    /// Returns whether pages are not needed yet, and if so, whether none was put to use since the
    /// last look: then the class rests.
    pub(super) fn look(&mut self) -> Look {
        if self.unneeded_pages() == 0 {
            return Look::Compact;
        }
        let now = self
            .growing
            .map_or(Places::NONE, |zs| zs.state(&self.token).places);
        match core::mem::replace(&mut self.seen, now) == now {
            true => Look::Resting,
            false => Look::Growing,
        }
    }

    /// Frees the object in a place.
    pub(super) fn put(&mut self, zs: Zs, index: u8) -> Put {
        if !zspage::put(zs, index, &mut self.token) {
            return Put::Missing;
        }
        self.counts.used = self.counts.used.wrapping_sub(1);
        let state = zs.state(&self.token);
        if !state.places.is_empty() || state.isolated {
            self.regroup(zs);
            return Put::Kept;
        }
        self.lists.remove(zs, &mut self.token);
        Put::Emptied(self.forget(zs))
    }

    /// Takes an empty zspage, on no list, out of the class.
    fn forget(&mut self, zs: Zs) -> OwnedZspage {
        self.uncount(zs);
        if self.growing == Some(zs) {
            self.growing = None;
        }
        OwnedZspage::from_zs(zs)
    }

    /// Takes the emptiest zspage that holds an object off its list, for the compaction.
    ///
    /// Nobody takes places in it or frees it until [`Self::restore`].
    pub(super) fn isolate_emptiest(&mut self) -> Option<Zs> {
        let zs = Group::partial().find_map(|group| self.lists.first(group))?;
        self.lists.remove(zs, &mut self.token);
        zs.state_mut(&mut self.token).isolated = true;
        if self.growing == Some(zs) {
            self.growing = None;
        }
        Some(zs)
    }

    /// Ends the isolation of a zspage; it is handed out if it holds no object any more.
    ///
    /// One that does goes to the end of its list, so that another is tried next.
    pub(super) fn restore(&mut self, zs: Zs) -> Option<OwnedZspage> {
        let state = zs.state_mut(&mut self.token);
        state.isolated = false;
        if state.places.is_empty() {
            return Some(self.forget(zs));
        }
        state.group = Group::of(state.places.used(), state.usable);
        self.lists.push_back(zs, &mut self.token);
        None
    }

    /// Returns which places of a zspage hold an object.
    pub(super) fn places(&self, zs: Zs) -> Places {
        zs.state(&self.token).places
    }

    /// Returns the owner of the object in a place, if there is one.
    pub(super) fn owner(&self, zs: Zs, index: u8) -> Option<u32> {
        zspage::owner(zs, self.shape, index, &self.token)
    }

    /// Moves a zspage to the list of its group, if that has changed.
    fn regroup(&mut self, zs: Zs) {
        let state = zs.state(&self.token);
        let group = Group::of(state.places.used(), state.usable);
        if group == state.group || state.isolated {
            return;
        }
        self.lists.remove(zs, &mut self.token);
        zs.state_mut(&mut self.token).group = group;
        self.lists.push_front(zs, &mut self.token);
    }

    /// Takes a zspage's pages and places out of the counts; returns its pages.
    fn uncount(&mut self, zs: Zs) -> usize {
        self.count(zs, -1)
    }

    /// Puts a zspage's pages and places back into the counts and regroups it; returns its pages.
    fn recount(&mut self, zs: Zs) -> usize {
        let pages = self.count(zs, 1);
        self.regroup(zs);
        pages
    }

    /// Adds a zspage, its pages and its places to the counts, or subtracts them.
    fn count(&mut self, zs: Zs, sign: i64) -> usize {
        let state = zs.state(&self.token);
        let times = |n: i64| n.wrapping_mul(sign);
        let counts = &mut self.counts;
        counts.pages = counts.pages.wrapping_add_signed(times(state.pages.into()));
        counts.usable = counts
            .usable
            .wrapping_add_signed(times(state.usable.into()));
        let kind = match zs.is_linear(&self.token) {
            true => &mut counts.linear,
            false => &mut counts.scattered,
        };
        *kind = kind.wrapping_add_signed(sign);
        state.pages.into()
    }
}
