// SPDX-License-Identifier: GPL-2.0

//! Compressed RAM block device.
//!
//! The crate root: metadata, parameters, the rooms, and what lives from load to unload. Everything
//! else is in the rooms; `device/mod.rs` has the picture and the order of locks.

use kernel::{
    prelude::*,
    sync::Arc, //
};

mod backends;
mod device;
mod kapi;
mod registry;
mod zcomp;
mod zsmalloc;

use self::{
    device::{Deferral, Shared},
    kapi::{
        class::Class,
        cpuhp::HotplugState,
        file,
        params::module_parameters,
        preempt::Locks,
        work::Workqueue, //
    },
    registry::Registry,
    zcomp::Hold, //
};

module! {
    type: Rzram,
    name: "rzram",
    authors: ["The rzram developers"],
    description: "Compressed RAM block device",
    license: "GPL",
}

module_parameters! {
    /// Disks to create at load.
    static NUM_DEVICES: UintParam = UintParam::new(1, 0, 65536);
    as num_devices, HIDDEN, "Disks to create at load";

    /// When the memory of a freed swap slot is given back; see `device/notify.rs`.
    static DEFERRED_FREE: UintParam = UintParam::new(2, 0, 2);
    as deferred_free, READ_ONLY, "Free swap slots at once (0), in batches (1), by a worker (2)";

    /// How streams are held; see `zcomp/mod.rs`.
    static STREAM_HOLD: UintParam = UintParam::new(0, 0, 2);
    as stream_hold, READ_ONLY, "Hold streams by measured time (0), short (1), long (2)";

    /// Whether the pool asks for pages in a row first; see `zsmalloc/mod.rs`.
    static LINEAR: BoolParam = BoolParam::new(true);
    as linear, READ_ONLY, "Ask for contiguous pool pages first";

    /// Whether the disks carry zram's names, for tools that know no others.
    static ZRAM_COMPAT: BoolParam = BoolParam::new(false);
    as zram_compat, READ_ONLY, "Take zram's names, for tools that look for them";

    /// For tests: what a reader of a damaged object sees.
    static SPOIL_SLOT: UintParam = UintParam::new(0, 0, u32::MAX);
    as spoil_slot, WRITABLE, "Test: number plus one of the slot to store damaged, 0 for none";

    /// For tests: the way of a reader that finds no memory for a bounce buffer.
    static REFUSE_BOUNCE: BoolParam = BoolParam::new(false);
    as refuse_bounce, WRITABLE, "Test: refuse bounce buffers, so that readers take the fallback";
}

/// The names under which users find the module's parts.
struct Names {
    prefix: &'static str,
    major: &'static CStr,
    control: &'static CStr,
    debug: &'static CStr,
}

const NATIVE: Names = Names {
    prefix: "rzram",
    major: c"rzram",
    control: c"rzram-control",
    debug: c"rzram",
};

const COMPAT: Names = Names {
    prefix: "zram",
    major: c"zram",
    control: c"zram-control",
    debug: c"zram",
};

/// Returns the names to take.
///
/// # Errors
///
/// `EBUSY` if zram itself has them. Not `EEXIST`: modprobe takes that for success.
fn names() -> Result<&'static Names> {
    if !ZRAM_COMPAT.get() {
        return Ok(&NATIVE);
    }
    if file::exists(c"/sys/class/zram-control") {
        pr_err!("zram_compat=1: zram is there already, unload it first\n");
        return Err(EBUSY);
    }
    Ok(&COMPAT)
}

/// The disks of a loaded module; removes them when dropped.
struct Disks(Arc<Registry>);

impl Drop for Disks {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Everything that lives from load to unload, in drop order: first no new disks, then no disks,
/// then what they shared.
struct Rzram {
    _control: Class<Registry>,
    _disks: Disks,
    _locks: Locks,
}

fn deferral() -> Deferral {
    match DEFERRED_FREE.get() {
        0 => Deferral::Synchronous,
        1 => Deferral::Batches,
        _ => Deferral::Ranges,
    }
}

fn hold() -> Hold {
    match STREAM_HOLD.get() {
        1 => Hold::Short,
        2 => Hold::Long,
        _ => Hold::Auto,
    }
}

impl kernel::Module for Rzram {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        if zcomp::default_codec().is_none() {
            pr_err!("this kernel has none of the compression libraries\n");
            return Err(ENODEV);
        }
        let names = names()?;
        let locks = Locks::new()?;
        let shared = Shared {
            hotplug: HotplugState::new(c"rzram/zcomp:prepare")?,
            workqueue: Workqueue::new(c"rzram")?,
            deferral: deferral(),
            hold: hold(),
            linear: LINEAR.get(),
            is_compat: ZRAM_COMPAT.get(),
            spoil_slot: &SPOIL_SLOT,
            refuse_bounce: &REFUSE_BOUNCE,
        };
        let shared = Arc::new(shared, GFP_KERNEL)?;
        let registry = Registry::new(names.prefix, names.major, names.debug, shared)?;
        // From here on a failure removes what was made, in drop order.
        let disks = Disks(registry.clone());
        for _ in 0..NUM_DEVICES.get() {
            registry.add()?;
        }
        Ok(Self {
            _control: registry::control(names.control, registry)?,
            _disks: disks,
            _locks: locks,
        })
    }
}
