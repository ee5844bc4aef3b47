// SPDX-License-Identifier: GPL-2.0

//! Who wants to know when a CPU comes and goes.
//!
//! One dynamic state of the kernel's hotplug machine serves all clients; each client is an
//! instance.
//!
//! # Protocol
//!
//! - Registering calls [`HotplugClient::cpu_up`] for every CPU that is online, before it returns.
//! - A CPU that comes up later is announced before it runs anything, a CPU that went down after it
//!   stopped, each by a task on some other CPU, under the kernel's hotplug lock.
//! - Unregistering makes no calls, waits for calls that run, and then there are none.
//!
//! The callbacks return nothing: a CPU that comes up is not refused for our sake. They must not
//! wait for memory, load modules or register other clients, all of which may need the hotplug lock;
//! what takes time is handed to a work item.
//!
//! # Who may run with whom
//!
//! Calls of one client never overlap. They overlap with everything else of the client.

use super::percpu::Cpu;
use core::mem::transmute;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// Somebody who keeps something for each CPU.
pub(crate) trait HotplugClient: Send + Sync + 'static {
    /// The CPU is online now or about to be.
    ///
    /// # Context
    ///
    /// May sleep, under the CPU-hotplug lock; allocates nothing that waits.
    fn cpu_up(&self, cpu: Cpu);

    /// The CPU is gone.
    ///
    /// # Context
    ///
    /// As [`Self::cpu_up`].
    fn cpu_dead(&self, cpu: Cpu);
}

/// The state's number with the kernel; removed when the last user is gone.
struct State(bindings::cpuhp_state);

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: set up in `HotplugState::new`; instances keep the state alive, so none is left.
        unsafe { bindings::__cpuhp_remove_state(self.0, false) };
    }
}

/// A state of the hotplug machine that clients register with.
///
/// It stays until its last [`HotplugInstance`] is gone.
pub(crate) struct HotplugState(Arc<State>);

impl HotplugState {
    /// Sets up the state under `name`, which users see in `/sys/devices/system/cpu/hotplug/states`.
    ///
    /// # Context
    ///
    /// May sleep; takes the CPU-hotplug lock.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the kernel has no dynamic state left, `ENOMEM`.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        // Room first: what the kernel keeps must not be left behind by a failed allocation.
        let room = kernel::sync::UniqueArc::<State>::new_uninit(GFP_KERNEL)?;
        // SAFETY:
        // - The name lives for ever.
        // - A state with instances calls its functions with the instance as second argument; the C
        //   interface takes them by the one-argument type.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
                name.as_char_ptr(),
                false,
                Some(transmute::<InstanceCallback, Callback>(cpu_up)),
                Some(transmute::<InstanceCallback, Callback>(cpu_dead)),
                true,
            )
        };
        to_result(state)?;
        let number = bindings::cpuhp_state::try_from(state).map_err(|_| EINVAL)?;
        Ok(Self(room.write(State(number)).into()))
    }
}

/// What the hotplug machine keeps in its list.
#[repr(C)]
struct Node {
    /// First, so that the node's address is this struct's.
    link: bindings::hlist_node,
    client: Arc<dyn HotplugClient>,
}

/// A registered client.
///
/// # Invariants
///
/// `node` is in the state's list.
pub(crate) struct HotplugInstance {
    node: KBox<core::cell::UnsafeCell<Node>>,
    state: Arc<State>,
}

// SAFETY: the node is the hotplug machine's; the client is `Send` and `Sync`.
unsafe impl Send for HotplugInstance {}
// SAFETY: a shared reference gives nothing out.
unsafe impl Sync for HotplugInstance {}

impl HotplugInstance {
    /// Registers `client`, which is told of all online CPUs before this returns.
    ///
    /// # Context
    ///
    /// May sleep; takes the CPU-hotplug lock. Allocates as [`super::gfp::Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register<T: HotplugClient>(state: &HotplugState, client: Arc<T>) -> Result<Self> {
        let node = KBox::new(
            core::cell::UnsafeCell::new(Node {
                link: pin_init::zeroed(),
                client,
            }),
            GFP_KERNEL,
        )?;
        let state = state.0.clone();
        // SAFETY: the state is set up; the node is boxed, and the box stays until `drop` took the
        // node out of the list.
        to_result(unsafe {
            bindings::__cpuhp_state_add_instance(state.0, node.get().cast(), true)
        })?;
        // INVARIANT: added just now.
        Ok(Self { node, state })
    }
}

impl Drop for HotplugInstance {
    /// Unregisters the client.
    ///
    /// # Context
    ///
    /// May sleep; takes the CPU-hotplug lock.
    fn drop(&mut self) {
        // SAFETY: the invariant. No call is running or comes after this returns.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state.0, self.node.get().cast(), false)
        };
    }
}

type Callback = unsafe extern "C" fn(c_uint) -> c_int;
type InstanceCallback = unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int;

/// Passes on that a CPU comes up; never refuses.
///
/// # Safety
///
/// Called by the hotplug machine with a possible CPU and a node of its list.
unsafe extern "C" fn cpu_up(cpu: c_uint, link: *mut bindings::hlist_node) -> c_int {
    // SAFETY: the link is the first field of a registered node, whose client stays until the node
    // is taken out; the machine changes the link only.
    let client = unsafe { &(*link.cast::<Node>()).client };
    if let Some(cpu) = Cpu::from_u32(cpu) {
        client.cpu_up(cpu);
    }
    0
}

/// Passes on that a CPU is gone.
///
/// # Safety
///
/// As [`cpu_up`].
unsafe extern "C" fn cpu_dead(cpu: c_uint, link: *mut bindings::hlist_node) -> c_int {
    // SAFETY: as in `cpu_up`.
    let client = unsafe { &(*link.cast::<Node>()).client };
    if let Some(cpu) = Cpu::from_u32(cpu) {
        client.cpu_dead(cpu);
    }
    0
}
