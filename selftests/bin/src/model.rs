// SPDX-License-Identifier: GPL-2.0

//! A device beside a model of its first bytes in plain memory: each read is compared.

use crate::disk::Disk;
use crate::disk::Erase;
use crate::memory::Arena;
use crate::memory::Layout;
use crate::memory::Shape;
use crate::pattern::compare;
use crate::pattern::Kind;
use crate::pattern::Tag;
use crate::pattern::PAGE_BYTES;
use crate::pattern::PAGE_SECTORS;
use crate::rng::Rng;

/// A device and what the first pages of it should hold.
///
/// # Invariants
///
/// `bytes` is a whole number of pages and no longer than the device.
pub struct Model {
    disk: Disk,
    bytes: Vec<u8>,
    arena: Arena,
    aligned: bool,
    generation: u32,
}

impl Model {
    /// Takes over the first `span` pages of `disk` and discards them.
    ///
    /// # Errors
    ///
    /// The device is too small or the discard failed.
    pub fn new(disk: Disk, span: usize, aligned: bool) -> Result<Self, String> {
        let have = disk.pages()?;
        if have < span as u64 || span == 0 {
            return Err(format!("the device has {have} pages, {span} are needed"));
        }
        let bytes = vec![0; span * PAGE_BYTES];
        disk.erase(Erase::Discard, 0, bytes.len() as u64)?;
        let arena = Arena::new(PAGE_BYTES);
        // INVARIANT: The length is `span` pages, checked against the device's above.
        Ok(Self {
            disk,
            bytes,
            arena,
            aligned,
            generation: 0,
        })
    }

    /// Returns the number of pages under test.
    pub fn span(&self) -> usize {
        self.bytes.len() / PAGE_BYTES
    }

    /// Writes `pages` new pages from memory of the given shape, in one request.
    ///
    /// # Errors
    ///
    /// The request failed.
    pub fn write(
        &mut self,
        page: usize,
        pages: usize,
        shape: Shape,
        offset: usize,
        rng: &mut Rng,
    ) -> Result<(), String> {
        self.generation += 1;
        let range = page * PAGE_BYTES..(page + pages) * PAGE_BYTES;
        for (number, bytes) in (page as u64..).zip(self.bytes[range.clone()].chunks_mut(PAGE_BYTES))
        {
            let kind = Kind::any(rng);
            let tag = Tag {
                page: number,
                writer: 1,
                generation: self.generation,
                kind,
            };
            tag.fill(bytes);
        }
        let layout = Layout::new(shape, offset, range.len(), self.aligned, rng);
        self.arena.guard(&layout);
        self.arena.scatter(&layout, &self.bytes[range.clone()]);
        self.disk.write(&self.arena, &layout, range.start as u64)
    }

    /// Reads `pages` pages into memory of the given shape, in one request, and checks them.
    ///
    /// # Errors
    ///
    /// The request failed, the data is wrong, or memory outside the request changed.
    pub fn read(
        &mut self,
        page: usize,
        pages: usize,
        shape: Shape,
        offset: usize,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let range = page * PAGE_BYTES..(page + pages) * PAGE_BYTES;
        let layout = Layout::new(shape, offset, range.len(), self.aligned, rng);
        self.arena.guard(&layout);
        self.disk
            .read(&mut self.arena, &layout, range.start as u64)?;
        let found = self.arena.gather(&layout);
        let context = |message| format!("{message} (read of {pages} pages, {shape:?} at {offset})");
        compare(&self.bytes[range], &found, page as u64 * PAGE_SECTORS).map_err(context)?;
        self.arena.check_guards(&layout).map_err(context)
    }

    /// Discards or zeroes `pages` pages.
    ///
    /// # Errors
    ///
    /// The request failed.
    pub fn erase(&mut self, how: Erase, page: usize, pages: usize) -> Result<(), String> {
        let range = page * PAGE_BYTES..(page + pages) * PAGE_BYTES;
        self.bytes[range.clone()].fill(0);
        self.disk.erase(how, range.start as u64, range.len() as u64)
    }

    /// Reads every page, one a request, and checks it.
    ///
    /// # Errors
    ///
    /// As [`Model::read`].
    pub fn read_all(&mut self) -> Result<(), String> {
        let mut rng = Rng::new(0);
        (0..self.span()).try_for_each(|page| self.read(page, 1, Shape::One, 0, &mut rng))
    }
}
