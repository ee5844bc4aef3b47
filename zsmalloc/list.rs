// SPDX-License-Identifier: GPL-2.0

//! Lists of zspages, linked through their descriptors.
//!
//! A class has one a fullness group, all under its lock: every change takes the lock's [`Token`].
//! Nothing here sleeps, allocates or fails. The links are in the descriptors, so a zspage changes
//! its list without memory and without a search.

#![deny(unsafe_code)]

use super::{
    fullness::{
        Group,
        GROUPS, //
    },
    mem::{
        Links,
        Token,
        Zs, //
    }, //
};

/// The zspages of one fullness group.
///
/// # Invariants
///
/// Every element is live, of the token's class, and on no other list.
struct List {
    head: Option<Zs>,
    tail: Option<Zs>,
    len: u32,
}

impl List {
    /// Returns an empty list.
    const fn new() -> Self {
        Self {
            head: None,
            tail: None,
            len: 0,
        }
    }

    /// Puts a zspage that is on no list in front.
    fn push_front(&mut self, zs: Zs, token: &mut Token) {
        *zs.links_mut(token) = Links {
            next: self.head,
            prev: None,
        };
        match self.head {
            Some(head) => head.links_mut(token).prev = Some(zs),
            None => self.tail = Some(zs),
        }
        self.head = Some(zs);
        self.len = self.len.wrapping_add(1);
    }

    /// Puts a zspage that is on no list at the end.
    fn push_back(&mut self, zs: Zs, token: &mut Token) {
        *zs.links_mut(token) = Links {
            next: None,
            prev: self.tail,
        };
        match self.tail {
            Some(tail) => tail.links_mut(token).next = Some(zs),
            None => self.head = Some(zs),
        }
        self.tail = Some(zs);
        self.len = self.len.wrapping_add(1);
    }

    /// Takes a zspage off this list, which it is on.
    fn remove(&mut self, zs: Zs, token: &mut Token) {
        let (next, prev) = {
            let links = zs.links_mut(token);
            (links.next.take(), links.prev.take())
        };
        match prev {
            Some(prev) => prev.links_mut(token).next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => next.links_mut(token).prev = prev,
            None => self.tail = prev,
        }
        self.len = self.len.wrapping_sub(1);
    }
}

/// The lists of a class, one a fullness group.
pub(super) struct Lists([List; GROUPS]);

impl Lists {
    /// Returns empty lists.
    pub(super) const fn new() -> Self {
        Self([const { List::new() }; GROUPS])
    }

    /// Returns the first zspage of a group.
    pub(super) fn first(&self, group: Group) -> Option<Zs> {
        self.0.get(group.index())?.head
    }

    /// Returns the number of zspages in a group.
    pub(super) fn len(&self, group: Group) -> u32 {
        self.0.get(group.index()).map_or(0, |list| list.len)
    }

    /// Puts a zspage that is on no list in front of its group's.
    pub(super) fn push_front(&mut self, zs: Zs, token: &mut Token) {
        if let Some(list) = self.0.get_mut(zs.state(token).group.index()) {
            list.push_front(zs, token);
        }
    }

    /// Puts a zspage that is on no list at the end of its group's.
    pub(super) fn push_back(&mut self, zs: Zs, token: &mut Token) {
        if let Some(list) = self.0.get_mut(zs.state(token).group.index()) {
            list.push_back(zs, token);
        }
    }

    /// Takes a zspage off its group's list.
    pub(super) fn remove(&mut self, zs: Zs, token: &mut Token) {
        if let Some(list) = self.0.get_mut(zs.state(token).group.index()) {
            list.remove(zs, token);
        }
    }
}
