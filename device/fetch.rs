// SPDX-License-Identifier: GPL-2.0

//! Reading what was written back.
//!
//! ```text
//! slot held:   the block is noted as being read, nothing else
//! submitter:   direct   a page of the request, a block that holds a page: read in place
//!              deferred a request in pieces, or a block that holds an object: read to a page of ours
//! interrupt:   direct   the page is done          deferred: handed to the decoder
//! decoder:     deferred the page is copied, or the object decompressed, and done
//! ```
//!
//! A request that has any such page ends when the last of them is done, in whatever context that is.
//! The submitter waits for none of them: it could not, as a request submitted from `submit_bio`
//! starts when that has returned.
//!
//! # Who may run with whom
//!
//! Reads of different pages run beside each other, those of one request too. Its [`Joint`] is what
//! they share: the last one to let it go counts a failure, if there was any, and ends the request.
//!
//! # Memory
//!
//! A direct read takes a few bytes for the joint, once a request, and a request of the pool's
//! reserve. A deferred one takes a page and a note. All are allocated without starting I/O.

use super::{
    backing::{Backing, Common, Reading},
    live::Codecs,
    seal::{self, Owner},
    slot::WrittenBack,
    stats::Counter, //
};
use crate::{
    kapi::{
        atomic::AtomicU32,
        bdev::{Done, IoPage},
        bio::{Bio, OwnedSegment, Status},
        bytes::{Dst, Pieces, Src},
        gfp::{NoIoScope, Policy},
        joint::JointBio,
        llist::{Entry, List},
        num::SECTORS_PER_PAGE,
        page::PageBuf,
        percpu::{self, Cpu},
        work::{Job, Worker, Workqueue}, //
    },
    zcomp::{Bounce, DecompressError}, //
};
use kernel::{prelude::*, sync::Arc};

/// Most pieces of one page: vectors are multiples of a sector.
// CAST: a small constant.
const MOST_PARTS: usize = SECTORS_PER_PAGE as usize;

/// Why a request failed.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Fault {
    Nothing = 0,
    Device = 1,
    Damaged = 2,
    /// Of the part of the request that is in memory; logged there.
    Elsewhere = 3,
}

/// What all reads for one request share.
pub(super) struct Joint {
    bio: Option<JointBio>,
    common: Arc<Common>,
    /// The last [`Fault`]; a mere note, ordered by the reference count.
    fault: AtomicU32,
}

impl Joint {
    fn fail(&self, fault: Fault) {
        // CAST: an enum discriminant.
        self.fault.store_relaxed(fault as u32);
    }

    /// Notes that another part of the request failed, which so counts once.
    pub(super) fn fail_elsewhere(&self) {
        self.fail(Fault::Elsewhere);
    }
}

impl Drop for Joint {
    /// Ends the request's common share.
    ///
    /// # Context
    ///
    /// Any, interrupts included.
    fn drop(&mut self) {
        // ORDERING: relaxed: the last reference sees what the others did, by their count.
        let fault = self.fault.load_relaxed();
        // CAST: enum discriminants.
        if fault == Fault::Device as u32 {
            self.common.log("the backing device could not be read");
        } else if fault == Fault::Damaged as u32 {
            self.common.log("data from the backing device is damaged");
        }
        // CAST: as above.
        if fault != Fault::Nothing as u32 {
            self.common.stats.add(Counter::FailedReads, 1);
        }
        if let Some(bio) = self.bio.take() {
            // What failed has its own share of the request, and ended that with its status.
            bio.end(Status::Ok);
        }
    }
}

/// The pieces of one page of a request, in order.
pub(super) type Parts = [Option<OwnedSegment>; MOST_PARTS];

/// Where a page's bytes go.
pub(super) enum Target {
    /// A page of the request.
    Whole(OwnedSegment),
    /// Its pieces, in order.
    Parts(Parts),
}

impl Target {
    /// Ends the page with a status.
    fn end(self, status: Status) {
        match self {
            Self::Whole(segment) => segment.end(status),
            Self::Parts(parts) => parts
                .into_iter()
                .flatten()
                .for_each(|part| part.end(status)),
        }
    }

    /// Fills the page.
    fn fill(&mut self, page: &[u8]) {
        let parts = match self {
            Self::Whole(segment) => {
                segment.dst().copy_from(page);
                return;
            }
            Self::Parts(parts) => parts,
        };
        let mut rest = page;
        for part in parts.iter_mut().flatten() {
            let (now, later) = rest.split_at_checked(part.len()).unwrap_or((rest, &[]));
            part.dst().copy_from(now);
            rest = later;
        }
    }
}

/// A block that a slot refers to, found while the slot was held.
pub(super) struct Found {
    reading: Reading,
    /// The object in it and whose it is; nothing if it holds a page.
    object: Option<Sealed>,
}

/// An object in a block.
#[derive(Clone, Copy)]
struct Sealed {
    len: usize,
    owner: Owner,
}

impl Found {
    /// Notes a block as being read. The caller holds the slot.
    pub(super) fn new(
        backing: &Backing,
        index: u32,
        number: u64,
        object: Option<WrittenBack>,
    ) -> Self {
        let object = object.filter(|_| backing.is_compressed);
        Self {
            reading: backing.begin_read(number),
            object: object.map(|WrittenBack { len, priority }| Sealed {
                len,
                owner: Owner { index, priority },
            }),
        }
    }
}

/// A read that cannot end where the device ends it.
pub(super) struct Deferred {
    found: Found,
    target: Target,
    joint: Arc<Joint>,
    page: Option<PageBuf>,
    status: Status,
}

/// The pages of one request that are on the backing device.
pub(super) struct Fetch<'a> {
    bio: &'a Bio,
    joint: Option<Arc<Joint>>,
}

impl<'a> Fetch<'a> {
    /// Returns the reads for a request, none so far.
    pub(super) fn new(bio: &'a Bio) -> Self {
        Self { bio, joint: None }
    }

    /// Returns what reads share, if there was one.
    pub(super) fn joint(&self) -> Option<&Joint> {
        self.joint.as_deref()
    }

    /// Returns what reads share, made at the first one.
    fn share(&mut self, backing: &Backing) -> Result<Arc<Joint>> {
        if let Some(joint) = &self.joint {
            return Ok(joint.clone());
        }
        let _scope = NoIoScope::enter();
        let room = kernel::sync::UniqueArc::<Joint>::new_uninit(GFP_KERNEL | __GFP_NOWARN)?;
        let joint = Joint {
            bio: Some(JointBio::new(self.bio.fork_accounted())),
            common: backing.common.clone(),
            // CAST: an enum discriminant.
            fault: AtomicU32::new(Fault::Nothing as u32),
        };
        let joint: Arc<Joint> = room.write(joint).into();
        Ok(self.joint.insert(joint).clone())
    }

    /// Reads a page; it ends by itself.
    ///
    /// # Context
    ///
    /// `submit_bio`, no slot held. May sleep for memory, but starts no I/O for it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing was submitted, and the page's share of the request has failed.
    pub(super) fn read(&mut self, backing: &Backing, found: Found, target: Target) -> Result {
        let joint = self.share(backing)?;
        backing.common.stats.add(Counter::BlockReads, 1);
        let number = found.reading.number();
        let (memory, client) = match (target, found.object) {
            (Target::Whole(segment), None) => {
                let reading = found.reading;
                let direct = Fetched::Direct { reading, joint };
                (IoPage::Request(segment), direct)
            }
            (target, object) => {
                let page = PageBuf::alloc(Policy::NoIo)?;
                let found = Found { object, ..found };
                let _scope = NoIoScope::enter();
                let read = Deferred {
                    found,
                    target,
                    joint,
                    page: None,
                    status: Status::IoError,
                };
                let read = KBox::new(Entry::new(read), GFP_KERNEL | __GFP_NOWARN)?;
                let decoder = backing.decoder.clone();
                (IoPage::Own(page), Fetched::Deferred { read, decoder })
            }
        };
        backing.reads.read(number, memory, client);
        Ok(())
    }
}

/// What ends when a block was read.
pub(super) enum Fetched {
    /// The page itself.
    Direct {
        /// The block.
        reading: Reading,
        /// The request.
        joint: Arc<Joint>,
    },
    /// The first half of the way.
    Deferred {
        /// The second half.
        read: KBox<Entry<Deferred>>,
        /// Who goes it.
        decoder: Arc<Worker<Decoder>>,
    },
}

impl Done for Fetched {
    type Memory = IoPage;

    fn done(self, memory: IoPage, status: Status) {
        match (self, memory) {
            (Self::Direct { reading, joint }, IoPage::Request(segment)) => {
                drop(reading);
                if status != Status::Ok {
                    joint.fail(Fault::Device);
                }
                segment.end(status);
            }
            (Self::Deferred { mut read, decoder }, IoPage::Own(page)) => {
                read.value.page = Some(page);
                read.value.status = status;
                decoder.waiting.push(read);
                Decoder::start(&decoder);
            }
            // Never submitted so; what is dropped fails its request.
            _ => {}
        }
    }
}

/// What decompresses objects that were read, and puts split requests together.
pub(super) struct Decoder {
    codecs: Arc<Codecs>,
    /// Work items: any of them takes all that waits.
    items: usize,
    waiting: List<KBox<Entry<Deferred>>>,
}

impl Decoder {
    /// Returns an initializer for a decoder with nothing to do.
    ///
    /// # Context
    ///
    /// The initializer may sleep; it allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        queue: Arc<Workqueue>,
        codecs: Arc<Codecs>,
    ) -> impl PinInit<Worker<Self>, Error> {
        let items = percpu::nr_online().max(1);
        let decoder = Self {
            codecs,
            items,
            waiting: List::new(),
        };
        Worker::new(queue, items, decoder)
    }

    /// Does what the device's answer asks for, and ends the page.
    fn finish(&self, read: Deferred) {
        let Deferred {
            found,
            mut target,
            joint,
            page,
            status,
        } = read;
        let Found { reading, object } = found;
        // The bytes are in our page: the block may go.
        drop(reading);
        let status = match (status, page) {
            (Status::Ok, Some(page)) => self.deliver(&page, object, &mut target, &joint),
            (status, _) => {
                joint.fail(Fault::Device);
                status
            }
        };
        target.end(status);
    }

    fn deliver(
        &self,
        page: &PageBuf,
        object: Option<Sealed>,
        target: &mut Target,
        joint: &Joint,
    ) -> Status {
        let Some(object) = object else {
            target.fill(page);
            return Status::Ok;
        };
        let done = match target {
            Target::Whole(segment) => self.decompress(page, object, segment.dst()),
            Target::Parts(_) => {
                let Ok(mut whole) = PageBuf::alloc(Policy::NoIo) else {
                    joint.fail(Fault::Device);
                    return Status::Resource;
                };
                let done = self.decompress(page, object, whole.dst());
                target.fill(&whole);
                done
            }
        };
        match done {
            Ok(()) => Status::Ok,
            Err(_) => {
                joint.fail(Fault::Damaged);
                Status::IoError
            }
        }
    }

    /// Decompresses the object at the start of a page that may hold anything.
    fn decompress(
        &self,
        page: &PageBuf,
        object: Sealed,
        dst: Dst<'_>,
    ) -> Result<(), DecompressError> {
        let Sealed { len, owner } = object;
        if !seal::is_intact(page, len, owner) {
            return Err(DecompressError::Damaged);
        }
        let codec = self.codecs.get(usize::from(owner.priority));
        let codec = codec.and_then(Option::as_ref);
        let codec = codec.ok_or(DecompressError::Damaged)?;
        let bytes = page.get(..len).ok_or(DecompressError::Damaged)?;
        let object = Pieces::One(Src::from_slice(bytes));
        match codec.begin_long_read() {
            Some(mut stream) => {
                stream.load(object)?;
                stream.finish(dst)
            }
            None => codec.decompress(object, dst, &mut Bounce::refused()),
        }
    }
}

impl Decoder {
    /// Has one of the decoder's items run: another one for each CPU, so that several can help.
    fn start(this: &Worker<Self>) {
        let item = Cpu::current().as_usize().checked_rem(this.items);
        this.queue(item.unwrap_or(0));
    }
}

impl Job for Decoder {
    fn run(this: &Worker<Self>, _item: usize) {
        for read in this.waiting.take_all().reversed() {
            this.finish(KBox::into_inner(read).value);
        }
    }
}
