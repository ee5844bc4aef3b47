// SPDX-License-Identifier: GPL-2.0

//! Threads that read, write and discard one device at once, each page checked.
//!
//! The first half of the span is shared: anybody writes any page, and a reader must find some
//! writer's whole page, or zeroes if somebody may have made them. In the second half page `n`
//! belongs to thread `n % threads`, so neighboring slots have different owners and each owner
//! knows exactly what its page must hold. Thread `n` runs on CPU `n % CPUs`: two threads a CPU
//! preempt each other, threads of different CPUs truly meet.

use std::thread;

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

const PAGE: u64 = PAGE_BYTES as u64;

/// What a run does.
pub struct Plan {
    /// Number of threads.
    pub threads: u32,
    /// Requests of each thread.
    pub ops: u64,
    /// Pages used, from the device's start.
    pub span: u64,
    /// Whole pages at page borders only.
    pub aligned: bool,
    /// Discards too.
    pub discard: bool,
    /// Seed of the run.
    pub seed: u64,
}

/// Runs the plan and reads everything once more at the end.
///
/// # Errors
///
/// The first wrong sector of the first thread that found one, or a plan that does not fit.
pub fn run(disk: &Disk, plan: &Plan) -> Result<String, String> {
    if plan.threads == 0 || plan.span < 4 * u64::from(plan.threads) || disk.pages()? < plan.span {
        return Err("the span does not fit the threads or the device".to_owned());
    }
    disk.erase(Erase::Discard, 0, plan.span * PAGE)?;
    let verified: Result<Vec<u64>, String> = thread::scope(|scope| {
        let worker = |number| move || Worker::new(disk, plan, number).run();
        let handles: Vec<_> = (0..plan.threads).map(|n| scope.spawn(worker(n))).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, _>| handle.join().expect("no panic");
        handles.into_iter().map(join).collect()
    });
    let pages: u64 = verified?.iter().sum();
    let mut last = Worker::new(disk, plan, 0);
    (0..plan.span / 2).try_for_each(|page| last.read_shared(page, 1))?;
    Ok(format!("{} pages verified", pages + last.verified))
}

struct Worker<'a> {
    disk: &'a Disk,
    plan: &'a Plan,
    number: u32,
    rng: Rng,
    generation: u32,
    arena: Arena,
    own: Vec<(u64, Tag)>,
    verified: u64,
}

impl<'a> Worker<'a> {
    fn new(disk: &'a Disk, plan: &'a Plan, number: u32) -> Self {
        let threads = u64::from(plan.threads);
        let mine = |page: &u64| page % threads == u64::from(number);
        let zero = |page| Tag {
            page,
            writer: 0,
            generation: 0,
            kind: Kind::Zero,
        };
        let own = (plan.span / 2..plan.span).filter(mine);
        Self {
            disk,
            plan,
            number,
            rng: Rng::new(plan.seed).fork(u64::from(number)),
            generation: 0,
            arena: Arena::new(PAGE_BYTES),
            own: own.map(|page| (page, zero(page))).collect(),
            verified: 0,
        }
    }

    fn run(mut self) -> Result<u64, String> {
        pin(self.number);
        for _ in 0..self.plan.ops {
            let step = if self.rng.chance(1, 2) {
                self.shared()
            } else {
                self.owned()
            };
            step.map_err(|message| format!("thread {}: {message}", self.number))?;
        }
        (0..self.own.len()).try_for_each(|at| self.read_own(at))?;
        Ok(self.verified)
    }

    fn shared(&mut self) -> Result<(), String> {
        let half = usize::try_from(self.plan.span / 2).unwrap();
        let pages = 1 + self.rng.below(8.min(half));
        let page = self.rng.below(half - pages + 1) as u64;
        match self.rng.below(20) {
            0 if self.plan.discard => {
                let how = if self.rng.chance(1, 2) {
                    Erase::Discard
                } else {
                    Erase::Zeroout
                };
                self.disk.erase(how, page * PAGE, pages as u64 * PAGE)
            }
            0..10 => {
                let tags: Vec<_> = (page..)
                    .take(pages)
                    .map(|page| self.next_tag(page))
                    .collect();
                self.write(&tags)
            }
            _ => self.read_shared(page, pages),
        }
    }

    fn owned(&mut self) -> Result<(), String> {
        let at = self.rng.below(self.own.len());
        let page = self.own[at].0;
        match self.rng.below(20) {
            0 if self.plan.discard => {
                self.own[at].1.kind = Kind::Zero;
                self.disk.erase(Erase::Discard, page * PAGE, PAGE)
            }
            0..10 => {
                let tag = self.next_tag(page);
                self.own[at].1 = tag;
                self.write(&[tag])
            }
            _ => self.read_own(at),
        }
    }

    fn next_tag(&mut self, page: u64) -> Tag {
        self.generation += 1;
        let kind = Kind::any(&mut self.rng);
        Tag {
            page,
            writer: self.number + 1,
            generation: self.generation,
            kind,
        }
    }

    fn layout(&mut self, pages: usize) -> Layout {
        let shapes = [Shape::One, Shape::Pages, Shape::Mixed];
        let shape = shapes[self.rng.below(shapes.len())];
        let offset = 512 * self.rng.below(8);
        Layout::new(
            shape,
            offset,
            pages * PAGE_BYTES,
            self.plan.aligned,
            &mut self.rng,
        )
    }

    fn write(&mut self, tags: &[Tag]) -> Result<(), String> {
        let mut data = vec![0; tags.len() * PAGE_BYTES];
        let pages = data.chunks_mut(PAGE_BYTES);
        tags.iter()
            .zip(pages)
            .for_each(|(tag, page)| tag.fill(page));
        let layout = self.layout(tags.len());
        self.arena.guard(&layout);
        self.arena.scatter(&layout, &data);
        self.disk.write(&self.arena, &layout, tags[0].page * PAGE)
    }

    fn read(&mut self, page: u64, pages: usize) -> Result<Vec<u8>, String> {
        let layout = self.layout(pages);
        self.arena.guard(&layout);
        self.disk.read(&mut self.arena, &layout, page * PAGE)?;
        self.arena.check_guards(&layout)?;
        self.verified += pages as u64;
        Ok(self.arena.gather(&layout))
    }

    fn read_shared(&mut self, page: u64, pages: usize) -> Result<(), String> {
        let data = self.read(page, pages)?;
        for (number, bytes) in (page..).zip(data.chunks(PAGE_BYTES)) {
            Tag::verify(bytes, number)?;
        }
        Ok(())
    }

    fn read_own(&mut self, at: usize) -> Result<(), String> {
        let (page, tag) = self.own[at];
        let data = self.read(page, 1)?;
        compare(&tag.make(), &data, page * PAGE_SECTORS)
    }
}

/// Keeps the calling thread on CPU `number % CPUs`; where that is not possible it floats.
fn pin(number: u32) {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let cpu = usize::try_from(number).unwrap_or(0) % cpus;
    // SAFETY: A zeroed set is an empty one; `cpu` is below the size of a set; the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
