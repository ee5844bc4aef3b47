// SPDX-License-Identifier: GPL-2.0

//! Direct I/O on a block device, checked against a model.
//!
//!     rzio sweep   DEV [--aligned]                   all offsets, lengths and shapes of memory
//!     rzio random  DEV --seed N --ops N --span PAGES [--aligned]
//!     rzio classes DEV                               a page of every stored length, several times
//!     rzio race    DEV --seed N --ops N --threads N --span PAGES [--aligned] [--discard]
//!     rzio put     DEV KIND PAGE COUNT [--generation N]
//!     rzio check   DEV KIND PAGE COUNT [--generation N]
//!     rzio discard DEV PAGE COUNT
//!     rzio zeroout DEV PAGE COUNT
//!
//! `--aligned` keeps to whole pages at page borders, which is all that C zram can do. Prints one
//! line with what was verified and exits 0, or names the first wrong sector and exits 1; 2 means
//! that it was called wrongly.

use std::process::ExitCode;

use rzram_selftests::args::Args;
use rzram_selftests::disk::Disk;
use rzram_selftests::disk::Erase;
use rzram_selftests::memory::Arena;
use rzram_selftests::memory::Layout;
use rzram_selftests::memory::Shape;
use rzram_selftests::model::Model;
use rzram_selftests::pattern::compare;
use rzram_selftests::pattern::Kind;
use rzram_selftests::pattern::Tag;
use rzram_selftests::pattern::PAGE_BYTES;
use rzram_selftests::pattern::PAGE_SECTORS;
use rzram_selftests::race;
use rzram_selftests::rng::Rng;

/// Lengths of the sweep: one page to 1 MiB, powers of two and not.
const SWEEP_PAGES: [usize; 8] = [1, 2, 3, 5, 16, 33, 128, 256];

fn main() -> ExitCode {
    let args = match Args::from_env(&["aligned", "discard"]) {
        Ok(args) => args,
        Err(message) => return failed(2, &message),
    };
    let prepared = prepare(&args);
    match prepared.and_then(|disk| command(&args, disk)) {
        Err(message) => failed(2, &message),
        Ok(Err(message)) => failed(1, &message),
        Ok(Ok(summary)) => {
            println!("rzio: {summary}");
            ExitCode::SUCCESS
        }
    }
}

fn failed(code: u8, message: &str) -> ExitCode {
    eprintln!("rzio: {message}");
    ExitCode::from(code)
}

fn prepare(args: &Args) -> Result<Disk, String> {
    args.word(0, "command")?;
    Disk::open(args.word(1, "device")?)
}

/// The outer error is a wrong call, the inner one a wrong device.
type Outcome = Result<Result<String, String>, String>;

fn command(args: &Args, disk: Disk) -> Outcome {
    let aligned = args.has("aligned");
    let span = args.option("span", 1024)?;
    let seed = args.option("seed", 1)?;
    let ops = args.option("ops", 1000)?;
    Ok(match args.word(0, "command")? {
        "sweep" => sweep(Model::new(disk, 512, aligned)?),
        "random" => random(Model::new(disk, span, aligned)?, ops, Rng::new(seed)),
        "classes" => classes(&disk),
        "race" => race::run(
            &disk,
            &race::Plan {
                threads: args.option("threads", 4)?,
                ops,
                span: u64::try_from(span).map_err(|_| "--span: too large")?,
                aligned,
                discard: args.has("discard"),
                seed,
            },
        ),
        "put" => put(&disk, &Range::read(args)?),
        "check" => check(&disk, &Range::read(args)?),
        "discard" => erase(&disk, args, Erase::Discard)?,
        "zeroout" => erase(&disk, args, Erase::Zeroout)?,
        other => return Err(format!("unknown command {other}")),
    })
}

/// Writes from and reads into memory at every 512-byte offset, in every length and shape.
fn sweep(mut model: Model) -> Result<String, String> {
    let mut rng = Rng::new(7);
    let mut requests = 0;
    let shapes = [Shape::One, Shape::Pages, Shape::Small, Shape::Mixed];
    for offset in (0..PAGE_BYTES).step_by(512) {
        for pages in SWEEP_PAGES {
            for shape in shapes {
                let page = rng.below(model.span() - pages + 1);
                model.write(page, pages, shape, offset, &mut rng)?;
                // A different offset on the way back, so that an error can't cancel itself out.
                let back = (offset + 512 * (1 + rng.below(7))) % PAGE_BYTES;
                model.read(page, pages, shape, back, &mut rng)?;
                model.read(page, pages, shapes[rng.below(4)], offset, &mut rng)?;
                requests += 3;
            }
        }
    }
    model.read_all()?;
    Ok(format!("{requests} requests verified"))
}

/// Does random requests, then reads everything back.
fn random(mut model: Model, ops: u64, mut rng: Rng) -> Result<String, String> {
    let shapes = [
        Shape::One,
        Shape::One,
        Shape::Pages,
        Shape::Small,
        Shape::Mixed,
    ];
    for done in 0..ops {
        let most = if rng.chance(1, 4) { 256 } else { 8 };
        let pages = 1 + rng.below(most.min(model.span()));
        let page = rng.below(model.span() - pages + 1);
        let shape = shapes[rng.below(shapes.len())];
        let offset = 512 * rng.below(8);
        let step = match rng.below(16) {
            0 => model.erase(Erase::Discard, page, pages),
            1 => model.erase(Erase::Zeroout, page, pages),
            2..9 => model.write(page, pages, shape, offset, &mut rng),
            _ => model.read(page, pages, shape, offset, &mut rng),
        };
        step.map_err(|message| format!("request {done}: {message}"))?;
    }
    model.read_all()?;
    Ok(format!("{ops} requests verified"))
}

/// Stores a page of every length that a codec can be brought to, in an order that mixes classes,
/// replaces each by another length, discards every third, and checks all of it each time.
fn classes(disk: &Disk) -> Result<String, String> {
    const STEP: usize = 4;
    let count = (PAGE_BYTES - 32) / STEP;
    let kind = |page: usize, turn: usize| {
        // 13 is prime to the count, so each turn is a permutation of all lengths.
        Kind::Sized(u16::try_from(32 + STEP * ((page * 13 + turn * 401) % count)).unwrap())
    };
    for turn in 0..3 {
        for page in 0..count {
            write_page(disk, &tag(page, turn, kind(page, turn)))?;
        }
        for page in (0..count).rev() {
            check_page(disk, &tag(page, turn, kind(page, turn)))?;
        }
        for page in (turn..count).step_by(3) {
            disk.erase(Erase::Discard, byte(page), PAGE_BYTES as u64)?;
            check_page(disk, &tag(page, turn, Kind::Zero))?;
        }
    }
    Ok(format!("{} pages of {count} lengths verified", 3 * count))
}

struct Range {
    kind: Kind,
    page: usize,
    count: usize,
    generation: usize,
}

impl Range {
    fn read(args: &Args) -> Result<Self, String> {
        Ok(Self {
            kind: args.number(2, "kind")?,
            page: args.number(3, "page")?,
            count: args.number(4, "count")?,
            generation: args.option("generation", 0)?,
        })
    }

    fn tags(&self) -> impl Iterator<Item = Tag> + '_ {
        (self.page..self.page + self.count).map(|page| tag(page, self.generation, self.kind))
    }
}

fn put(disk: &Disk, range: &Range) -> Result<String, String> {
    range.tags().try_for_each(|tag| write_page(disk, &tag))?;
    Ok(format!("{} pages written", range.count))
}

fn check(disk: &Disk, range: &Range) -> Result<String, String> {
    range.tags().try_for_each(|tag| check_page(disk, &tag))?;
    Ok(format!("{} pages verified", range.count))
}

fn erase(disk: &Disk, args: &Args, how: Erase) -> Outcome {
    let page = args.number(2, "page")?;
    let count: u64 = args.number(3, "count")?;
    let done = disk.erase(how, byte(page), count * PAGE_BYTES as u64);
    Ok(done.map(|()| format!("{count} pages erased")))
}

fn tag(page: usize, generation: usize, kind: Kind) -> Tag {
    Tag {
        page: page as u64,
        writer: 1,
        generation: u32::try_from(generation).unwrap_or(u32::MAX),
        kind,
    }
}

fn byte(page: usize) -> u64 {
    page as u64 * PAGE_BYTES as u64
}

fn one_page() -> (Arena, Layout) {
    let layout = Layout::new(Shape::One, 0, PAGE_BYTES, true, &mut Rng::new(0));
    let mut arena = Arena::new(layout.arena_bytes());
    arena.guard(&layout);
    (arena, layout)
}

fn write_page(disk: &Disk, tag: &Tag) -> Result<(), String> {
    let (mut arena, layout) = one_page();
    arena.scatter(&layout, &tag.make());
    disk.write(&arena, &layout, tag.page * PAGE_BYTES as u64)
}

fn check_page(disk: &Disk, tag: &Tag) -> Result<(), String> {
    let (mut arena, layout) = one_page();
    disk.read(&mut arena, &layout, tag.page * PAGE_BYTES as u64)?;
    compare(&tag.make(), &arena.gather(&layout), tag.page * PAGE_SECTORS)
}
