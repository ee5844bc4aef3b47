// SPDX-License-Identifier: GPL-2.0

//! Which disks exist: the control class, device numbers, hot add and remove.
//!
//! # Locks
//!
//! The registry's mutex is the outermost of all. It protects the list of disks; what a disk holds
//! is the device lock's. Adding and removing keep it throughout, so that both are one at a time, as
//! users of zram know it. No attribute handler of a disk takes it, so waiting for those handlers
//! under it ends.
//!
//! # Context
//!
//! May sleep everywhere.

#![deny(unsafe_code)]

use crate::{
    device::{self, request, DebugFiles, Device, Refusals, Shared},
    kapi::{
        class::{Class, Row},
        debugfs::Dir,
        disk::{Disk, Major},
        num::usize_to_u64,
        sysfs::Emit, //
    }, //
};
use core::fmt::Write;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex}, //
};

/// The disks and what is needed to make more.
#[pin_data]
pub(crate) struct Registry {
    prefix: &'static str,
    shared: Arc<Shared>,
    /// Sorted by number.
    #[pin]
    disks: Mutex<KVec<Entry>>,
    debug: Dir,
    #[pin]
    refusals: Refusals,
    /// Goes last: waits until the kernel has freed every disk.
    major: Major,
}

/// A disk and its files in debugfs, which go first.
struct Entry {
    files: DebugFiles,
    disk: Disk<Device>,
}

impl Entry {
    /// Removes the disk, unless it is open.
    fn remove(self) -> Result<(), Self> {
        let Self { files, disk } = self;
        match disk.close() {
            Ok(closing) => {
                // Removing the files waits for their handlers, and a pass may take minutes.
                closing.stop();
                drop(files);
                Device::finish(&closing.delete());
                Ok(())
            }
            Err(disk) => Err(Self { files, disk }),
        }
    }
}

impl Registry {
    /// Returns a registry of disks named `prefix` and a number.
    ///
    /// # Context
    ///
    /// May sleep; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` if there is no free major number.
    pub(crate) fn new(
        prefix: &'static str,
        major_name: &'static CStr,
        debug_name: &CStr,
        shared: Arc<Shared>,
    ) -> Result<Arc<Self>> {
        let major = Major::new(major_name)?;
        let registry = Arc::pin_init(
            pin_init!(Self {
                refusals <- Refusals::new(prefix, None),
                prefix,
                shared,
                disks <- new_mutex!(KVec::new()),
                debug: Dir::new(debug_name),
                major,
            }),
            GFP_KERNEL,
        )?;
        Ok(registry)
    }

    /// Creates a disk with the lowest free number and returns the number.
    ///
    /// # Context
    ///
    /// May sleep; takes the registry lock; allocates.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the block layer says; nothing is left behind.
    pub(crate) fn add(&self) -> Result<u32> {
        let mut disks = self.disks.lock();
        // Memory first: nothing after the disk's creation may fail.
        disks.reserve(1, GFP_KERNEL)?;
        let at = disks
            .iter()
            .enumerate()
            .position(|(at, entry)| u64::from(entry.disk.number()) != usize_to_u64(at))
            .unwrap_or(disks.len());
        let number = u32::try_from(at).map_err(|_| ENOSPC)?;
        let disk = Device::create(&self.major, self.prefix, number, self.shared.clone())?;
        let files = DebugFiles::new(&self.debug, disk.disk().name(), disk.ops())?;
        let entry = Entry { files, disk };
        disks
            .insert_within_capacity(at, entry)
            .map_err(|_| ENOMEM)?;
        Ok(number)
    }

    /// Removes disk `number` with everything in it.
    ///
    /// # Context
    ///
    /// May sleep; takes the registry lock, and in it waits for handlers of the disk's files, a
    /// reset that is under way included.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none, `EBUSY` if it is open.
    pub(crate) fn remove(&self, number: u32) -> Result {
        let mut disks = self.disks.lock();
        let at = disks
            .iter()
            .position(|entry| entry.disk.number() == number)
            .ok_or(ENODEV)?;
        let entry = disks.remove(at).map_err(|_| ENODEV)?;
        let Err(entry) = entry.remove() else {
            return Ok(());
        };
        // Its place is still free, and the list never shrinks its memory.
        disks
            .insert_within_capacity(at, entry)
            .map_err(|_| ENOMEM)?;
        Err(EBUSY)
    }

    /// Removes every disk. For unload, which the kernel allows only with none of them open.
    ///
    /// # Context
    ///
    /// May sleep; takes the registry lock.
    pub(crate) fn clear(&self) {
        let mut disks = self.disks.lock();
        while let Some(entry) = disks.pop() {
            // A kernel user that holds the disk without the module: dropping it removes it anyway.
            drop(entry.remove());
        }
    }
}

/// The files of the control class.
const CONTROL: [Row<Registry>; 3] = [
    Row::private_ro(c"hot_add", show_hot_add),
    Row::wo(c"hot_remove", store_hot_remove),
    Row::ro(c"last_error", show_last_error),
];

/// Registers the control class under `name`.
///
/// # Context
///
/// May sleep; allocates.
///
/// # Errors
///
/// `ENOMEM`, `EEXIST` if the name is taken.
pub(crate) fn control(name: &'static CStr, registry: Arc<Registry>) -> Result<Class<Registry>> {
    Class::new(name, registry, &CONTROL)
}

/// Reading the file creates a disk, as users of zram know it.
fn show_hot_add(registry: &Registry, out: &mut Emit<'_>) -> Result {
    let number = registry.add()?;
    writeln!(out, "{number}").map_err(|_| ENOSPC)
}

fn store_hot_remove(registry: &Registry, text: &[u8]) -> Result {
    let file = "hot_remove";
    let number = request::disk_number(text).map_err(device::errno);
    number
        .inspect_err(|_| registry.refusals.refuse(file, text, "the number of a disk"))
        .and_then(|number| registry.remove(number))
        .inspect_err(|e| registry.refusals.settle(file, text, *e))
}

fn show_last_error(registry: &Registry, out: &mut Emit<'_>) -> Result {
    registry.refusals.show(out)
}
