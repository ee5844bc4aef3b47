// SPDX-License-Identifier: GPL-2.0

//! `writeback`: moves slots to the backing device.
//!
//! For each chosen slot, see `chosen.rs`, none of it with two things held:
//!
//! 1. the page is read, or its object copied, its slot held for no longer than any read;
//! 2. a block is taken and paid for, and the page submitted; several are in flight at once;
//! 3. when the device has answered, the slot is held again. If it is still selected it takes the
//!    block, and its object is freed. If it was used meanwhile the block goes back, and so does what
//!    was paid: who uses a page wants it in memory.
//!
//! Freeing and overwriting so always win, and need not know of a pass.
//!
//! # Failures
//!
//! The object in memory is good until the device has said that its copy is. A slot that cannot be
//! read, or whose block cannot be written, is left as it is; the pass goes on, and its last such
//! error is reported at the end. A full device and a spent budget end the pass. However it ends, it
//! waits for the pages in flight, which are the device's until then.

use super::{
    backing::{Backing, Common},
    budget::{Charge, Settings},
    chosen::{self, Chosen, Turn},
    live::Live,
    post::{Ended, Pass},
    slot_word::{Mark, SlotCell},
    stats::Counter,
    sysfs,
    targets::{targets, Target},
    Device, //
};
use crate::{
    kapi::{
        bdev::Done,
        bio::Status,
        disk::LiveDisk,
        gfp::Policy,
        llist::{Entry, List},
        page::PageBuf,
        waitq::WaitQueue, //
    },
    zcomp::Bounce, //
};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::Arc, //
};

/// What may be written.
const WORDS: &str = "idle, huge, huge_idle or incompressible, also as type=; page_index=N, \
                     page_indexes=LOW-HIGH, below the disk's number of pages";

/// Runs a pass.
///
/// # Context
///
/// May sleep; has the device's turn throughout, and the device lock for a moment only.
///
/// # Errors
///
/// `EAGAIN` beside another pass; `EINVAL` on a device without a size, `ENODEV` on one without a
/// backing device, `ENOMEM` if there is no memory for a single page; `EINVAL` and `ERANGE` for the
/// text, before anything is written. `ENOSPC` if the backing device is full, `EIO` if the budget is
/// spent, `EINTR` if the task is killed or the device reset; what was written stays so then. Else the
/// error of the last slot that could not be read or written.
pub(super) fn store(disk: &LiveDisk<Device>, text: &[u8]) -> Result {
    let pass = Pass::begin(disk)?;
    let live = pass.live();
    let backing = live.backing.as_ref().ok_or(ENODEV)?;
    let slots = live.table.slots();
    for target in targets(text, slots) {
        target.map_err(sysfs::errno).inspect_err(|_| {
            disk.refuse("writeback", text, WORDS);
        })?;
    }
    let ended = run(&pass, backing, &disk.settings, |chosen| {
        targets(text, slots)
            .flatten()
            .try_for_each(|Target { first, end, rule }| {
                chosen.choose(first, end, |word| rule.wants(word))
            })
    })?;
    if ended.slots.is_err() {
        disk.log_io_error("writeback: a page could not be written, and stays in memory");
    }
    ended.result()
}

/// Runs a pass over the slots that `choose` chooses.
///
/// # Context
///
/// May sleep.
///
/// # Errors
///
/// `ENOMEM` if there is no memory to begin; the rest is in the answer.
pub(super) fn run(
    pass: &Pass<'_>,
    backing: &Backing,
    settings: &Settings,
    choose: impl FnOnce(&mut Chosen<'_>) -> Result,
) -> Result<Ended> {
    let mut chosen = Chosen::new(pass)?;
    let chose = choose(&mut chosen);
    if chosen.is_empty() {
        return Ok(Ended {
            pass: chose,
            slots: Ok(()),
        });
    }
    let begun = Run::new(pass.live(), backing, settings);
    let mut run = begun.inspect_err(|_| chosen.give_up())?;
    let ended = chose.and_then(|()| {
        chosen.each(&mut |index, cell| {
            run.submit(index, cell)?;
            Ok(Turn::Next)
        })
    });
    run.wait_for_all();
    if ended.is_err() {
        chosen.give_up();
    }
    Ok(Ended {
        pass: ended,
        slots: run.trouble,
    })
}

/// A page in flight, or one that may be.
pub(super) struct Ticket {
    page: Option<PageBuf>,
    index: u32,
    block: u64,
    charge: Option<Charge>,
    status: Status,
}

type TicketBox = KBox<Entry<Ticket>>;

/// Where tickets come back to.
#[pin_data]
pub(super) struct Outbox {
    back: List<TicketBox>,
    #[pin]
    arrival: WaitQueue,
}

/// What ends when a block was written.
pub(super) struct Written {
    ticket: TicketBox,
    outbox: Arc<Outbox>,
}

impl Done for Written {
    type Memory = PageBuf;

    fn done(self, memory: PageBuf, status: Status) {
        let Self { mut ticket, outbox } = self;
        ticket.value.page = Some(memory);
        ticket.value.status = status;
        outbox.back.push(ticket);
        outbox.arrival.wake_one();
    }
}

/// A pass and what it works with.
struct Run<'a> {
    live: &'a Live,
    backing: &'a Backing,
    common: &'a Common,
    settings: &'a Settings,
    outbox: Arc<Outbox>,
    /// Tickets that are not in flight.
    idle: KVec<TicketBox>,
    in_flight: usize,
    bounce: Bounce,
    /// The last error that did not end the pass.
    trouble: Result,
}

impl<'a> Run<'a> {
    /// Makes as many tickets as the user allows and memory gives.
    fn new(live: &'a Live, backing: &'a Backing, settings: &'a Settings) -> Result<Self> {
        let outbox = Arc::pin_init(
            pin_init!(Outbox {
                back: List::new(),
                arrival <- WaitQueue::new(c"rzram_writeback", static_lock_class!()),
            }),
            GFP_KERNEL,
        )?;
        let mut idle = KVec::new();
        for _ in 0..settings.batch_pages() {
            if let Err(e) = Self::add_ticket(&mut idle) {
                if idle.is_empty() {
                    return Err(e);
                }
                break;
            }
        }
        Ok(Self {
            live,
            backing,
            common: &backing.common,
            settings,
            outbox,
            idle,
            in_flight: 0,
            bounce: Bounce::new(),
            trouble: Ok(()),
        })
    }

    fn add_ticket(idle: &mut KVec<TicketBox>) -> Result {
        let ticket = Ticket {
            page: Some(PageBuf::alloc(Policy::NoIo)?),
            index: 0,
            block: 0,
            charge: None,
            status: Status::Ok,
        };
        let ticket = KBox::new(Entry::new(ticket), GFP_KERNEL | __GFP_NOWARN)?;
        Ok(idle.push(ticket, GFP_KERNEL | __GFP_NOWARN)?)
    }

    /// Has a slot written, or leaves it alone.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if no block is free, `EIO` if the budget is spent: reasons to end the pass.
    fn submit(&mut self, index: u32, cell: &SlotCell) -> Result {
        let mut ticket = self.next_ticket();
        let Some(mut page) = ticket.value.page.take() else {
            return Ok(());
        };
        match self.load(index, cell, &mut page) {
            Ok(true) => {}
            left_alone => {
                if left_alone.is_err() {
                    self.trouble = Err(EIO);
                    chosen::settle(self.live, cell, |word| word);
                }
                ticket.value.page = Some(page);
                self.put(ticket);
                return Ok(());
            }
        }
        let Some(block) = self.common.reserve() else {
            return Err(ENOSPC);
        };
        let Some(charge) = self.settings.charge() else {
            self.common.release(block);
            return Err(EIO);
        };
        ticket.value.index = index;
        ticket.value.block = block;
        ticket.value.charge = Some(charge);
        self.in_flight = self.in_flight.saturating_add(1);
        let outbox = self.outbox.clone();
        let client = Written { ticket, outbox };
        self.backing.writes.write(block, page, client);
        Ok(())
    }

    /// Puts what is to be written into a page; returns whether the slot is still wanted.
    fn load(&mut self, index: u32, cell: &SlotCell, page: &mut PageBuf) -> Result<bool> {
        let live = self.live;
        let loaded = if self.backing.is_compressed {
            chosen::copy(live, index, cell, page)
        } else {
            chosen::load(live, cell, page, &mut self.bounce, |word| word).map(|w| w.is_some())
        };
        loaded.map_err(|_| EIO)
    }

    /// Returns a ticket that is not in flight, the first that comes back if there is none.
    fn next_ticket(&mut self) -> TicketBox {
        loop {
            // Early, so that memory is given back while others are in flight.
            self.take_back();
            if let Some(ticket) = self.idle.pop() {
                return ticket;
            }
            self.wait();
        }
    }

    fn put(&mut self, ticket: TicketBox) {
        // There was room for all of them from the beginning.
        let _ = self.idle.push_within_capacity(ticket);
    }

    /// Waits until some ticket is back.
    fn wait(&self) {
        let outbox = &*self.outbox;
        outbox.arrival.wait(|| !outbox.back.is_empty());
    }

    /// Ends the turns of those that are back.
    fn take_back(&mut self) {
        for ticket in self.outbox.back.take_all().reversed() {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.finish(&ticket.value);
            self.put(ticket);
        }
    }

    fn wait_for_all(&mut self) {
        while self.in_flight != 0 {
            self.wait();
            self.take_back();
        }
    }

    /// Ends the turn of a slot whose page the device has answered.
    fn finish(&mut self, ticket: &Ticket) {
        let live = self.live;
        let Some(cell) = live.table.cell(ticket.index) else {
            return;
        };
        match ticket.status.to_result() {
            Ok(()) => {
                live.stats.add(Counter::BlockWrites, 1);
                let guard = live.lock(cell);
                if guard.stored().word.has(Mark::Selected) {
                    return guard.write_back(ticket.block);
                }
            }
            Err(e) => {
                self.trouble = Err(e);
                chosen::settle(live, cell, |word| word);
            }
        }
        self.common.release(ticket.block);
        if let Some(charge) = ticket.charge {
            self.settings.refund(charge);
        }
    }
}
