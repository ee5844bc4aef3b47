// SPDX-License-Identifier: GPL-2.0

//! CPUs, one value for each of them, and counters that no two CPUs share.
//!
//! The kernel crate has CPU numbers and masks, but no per-CPU memory.
//!
//! # Whose value is it?
//!
//! A value belongs to a CPU by custom only. [`PerCpu::this`] asks where the thread runs and gives
//! out that CPU's value; the thread may move before it uses it. So values are `Sync`, and whoever
//! needs more (the CPU's own stream, say) takes a lock inside of the value. The gain is that CPUs
//! rarely meet on one cache line, not that they never do.
//!
//! Values exist for every *possible* CPU, from construction to drop, whether it is online or not.
//!
//! # Who may run with whom
//!
//! | | `of`, `this`, `iter` | `Counters::add` | `Counters::sum` | `Counters::reset` |
//! |---|---|---|---|---|
//! | `of`, `this`, `iter` | - | - | - | - |
//! | `Counters::add` | - | - | sum may miss it | the addition may be lost or kept |
//! | `Counters::sum` | - | sum may miss it | - | any mixture |
//!
//! "-" is no lock and no order needed. Construction and drop are exclusive and may sleep; all else
//! may run in any context with interrupts on or off.

use super::{
    atomic::AtomicU64,
    num::{
        clamped_u64,
        u32_to_usize, //
    }, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    cpumask::Cpumask,
    prelude::*, //
};

/// The number of a CPU that may ever run.
///
/// # Invariants
///
/// In the kernel's mask of possible CPUs, which never changes after boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cpu(u32);

impl Cpu {
    /// Returns the CPU that runs the caller; it may be another one right after.
    #[inline]
    pub(crate) fn current() -> Self {
        // INVARIANT: a CPU that runs is possible.
        Self(CpuId::current().as_u32())
    }

    /// Returns the CPU of this number, if there can be one.
    pub(crate) fn from_u32(number: u32) -> Option<Self> {
        // SAFETY: the mask exists for ever and never changes after boot.
        let mask = unsafe { Cpumask::from_raw(&raw const bindings::__cpu_possible_mask) };
        let id = CpuId::from_u32(number)?;
        // INVARIANT: tested here.
        mask.test(id).then_some(Self(number))
    }

    /// Returns the number.
    #[inline]
    pub(crate) const fn as_u32(self) -> u32 {
        self.0
    }

    /// Returns the number, to index with.
    #[inline]
    pub(crate) const fn as_usize(self) -> usize {
        u32_to_usize(self.0)
    }

    /// Returns the node whose memory is near this CPU, if the kernel has nodes and it is online.
    pub(crate) fn node(self) -> Option<u32> {
        #[cfg(all(CONFIG_NUMA, CONFIG_USE_PERCPU_NUMA_NODE_ID))]
        {
            // SAFETY: a per-CPU variable of the kernel, set when the CPU is brought up.
            let node = unsafe { of_cookie(&raw mut numa_node, self).read_volatile() };
            u32::try_from(node).ok().filter(|&n| node_is_online(n))
        }
        #[cfg(not(all(CONFIG_NUMA, CONFIG_USE_PERCPU_NUMA_NODE_ID)))]
        None
    }

    /// Returns the CPU's id in the kernel crate.
    fn id(self) -> Option<CpuId> {
        CpuId::from_u32(self.0)
    }
}

#[cfg(all(CONFIG_NUMA, CONFIG_USE_PERCPU_NUMA_NODE_ID))]
extern "C" {
    /// The kernel's per-CPU node number; exported, but in none of the kernel crate's headers.
    static mut numa_node: c_int;
}

/// Returns whether a node has memory to give; only then may the page allocator be asked for it.
#[cfg(all(CONFIG_NUMA, CONFIG_USE_PERCPU_NUMA_NODE_ID))]
fn node_is_online(node: u32) -> bool {
    let index = u32_to_usize(bindings::node_states_N_ONLINE);
    let (word, bit) = (node / u64::BITS, node % u64::BITS);
    // SAFETY: the kernel's masks of nodes, one a state; bits change one word at a time, and a stale
    // answer is fine because nodes do not go offline while a CPU of theirs runs.
    let bits = unsafe {
        let masks = (&raw const bindings::node_states).cast::<bindings::nodemask_t>();
        (*masks.add(index)).bits.get(u32_to_usize(word)).copied()
    };
    bits.is_some_and(|b| b & (1 << bit) != 0)
}

/// Returns all CPUs that may ever run, in order; the set is fixed at boot.
pub(crate) fn possible() -> impl Iterator<Item = Cpu> {
    (0..nr_cpu_ids()).filter_map(Cpu::from_u32)
}

/// Returns the CPUs that are online, in order, as of each step.
pub(crate) fn online() -> impl Iterator<Item = Cpu> {
    possible().filter(|&cpu| is_online(cpu))
}

/// Returns whether `cpu` is online, which may change at once.
#[inline]
pub(crate) fn is_online(cpu: Cpu) -> bool {
    // SAFETY: the mask exists for ever; its bits are changed one at a time.
    let mask = unsafe { Cpumask::from_raw(&raw const bindings::__cpu_online_mask) };
    cpu.id().is_some_and(|id| mask.test(id))
}

/// Returns how many CPUs are online; at least one.
pub(crate) fn nr_online() -> usize {
    online().count().max(1)
}

/// Returns the address of `cpu`'s copy of a per-CPU variable.
///
/// # Safety
///
/// `cookie` must name a per-CPU variable, static or allocated.
#[inline]
pub(super) unsafe fn of_cookie<T>(cookie: *mut T, cpu: Cpu) -> *mut T {
    #[cfg(CONFIG_SMP)]
    {
        // SAFETY: the table has an entry for each number below the bound that `Cpu` keeps.
        let offset = unsafe {
            (&raw const bindings::__per_cpu_offset)
                .cast::<usize>()
                .add(cpu.as_usize())
                .read()
        };
        at_offset(cookie, offset)
    }
    #[cfg(not(CONFIG_SMP))]
    {
        let _ = cpu;
        cookie
    }
}

/// Returns the address of the running CPU's copy of a per-CPU variable; it may move right after.
///
/// # Safety
///
/// As [`of_cookie`].
#[inline]
pub(super) unsafe fn this_cookie<T>(cookie: *mut T) -> *mut T {
    #[cfg(all(CONFIG_X86_64, CONFIG_SMP, not(CONFIG_UML)))]
    {
        let offset: usize;
        // SAFETY: reads this CPU's own offset, one load through the per-CPU segment.
        unsafe {
            core::arch::asm!(
                "mov {0}, gs:[rip + {1}]",
                out(reg) offset,
                sym bindings::this_cpu_off,
                options(nostack, preserves_flags, readonly)
            )
        };
        at_offset(cookie, offset)
    }
    #[cfg(not(all(CONFIG_X86_64, CONFIG_SMP, not(CONFIG_UML))))]
    {
        // SAFETY: the caller's promise.
        unsafe { of_cookie(cookie, Cpu::current()) }
    }
}

/// Adds a CPU's offset to a cookie.
///
/// The copy lies outside of the object that the compiler thinks the cookie points at, so the sum is
/// made of numbers, and passes through an empty piece of assembly that hides where it came from.
#[cfg(CONFIG_SMP)]
#[inline]
fn at_offset<T>(cookie: *mut T, offset: usize) -> *mut T {
    let mut address = cookie.expose_provenance().wrapping_add(offset);
    // SAFETY: no instruction at all.
    unsafe {
        core::arch::asm!(
            "/* {0} */",
            inout(reg) address,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    core::ptr::with_exposed_provenance_mut(address)
}

/// One `T` for each possible CPU.
///
/// Small values live in the kernel's per-CPU area. That area takes at most 32 KiB an object and is
/// scarce, so larger values are allocated one by one, near their CPU's other memory by chance only,
/// and the area holds their addresses.
///
/// # Invariants
///
/// For each possible CPU the cell of `cookie` is an initialized, pinned [`Cell`].
pub(crate) struct PerCpu<T> {
    cookie: NonNull<Cell<T>>,
    _values: PhantomData<T>,
}

/// What the per-CPU area holds for one CPU: the value itself, or the address of it.
#[repr(C)]
union Cell<T> {
    value: core::mem::ManuallyDrop<T>,
    boxed: *mut T,
}

// SAFETY: the values move with their owner; `T: Send` allows it.
unsafe impl<T: Send> Send for PerCpu<T> {}
// SAFETY: a shared reference gives out `&T` on any thread, which `T: Sync` allows.
unsafe impl<T: Sync> Sync for PerCpu<T> {}

impl<T> PerCpu<T> {
    /// Largest value that is kept in the per-CPU area itself, in bytes.
    ///
    /// The area's own limit is 32 KiB; far below it, one large object makes the area grow by a
    /// chunk that is multiplied by the number of CPUs.
    const MAX_DIRECT: usize = 4096;

    /// Whether values are allocated one by one.
    const BOXED: bool = size_of::<T>() > Self::MAX_DIRECT;

    /// Makes a value for each possible CPU by what `make` returns for it, in place.
    ///
    /// # Context
    ///
    /// May sleep; allocates as [`super::gfp::Policy::Sleep`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the first error of an initializer; the values made so far are dropped.
    pub(crate) fn new<I, E, F>(mut make: F) -> Result<Self>
    where
        F: FnMut(Cpu) -> I,
        I: PinInit<T, E>,
        Error: From<E>,
    {
        let (size, align) = if Self::BOXED {
            (size_of::<*mut T>(), align_of::<*mut T>())
        } else {
            // The allocator refuses zero bytes.
            (size_of::<T>().max(1), align_of::<T>())
        };
        // SAFETY: size and alignment are those of the cell's used variant; a failure gives null.
        let cookie =
            unsafe { bindings::pcpu_alloc_noprof(size, align, false, bindings::GFP_KERNEL) };
        let cookie = NonNull::new(cookie.cast::<Cell<T>>()).ok_or(ENOMEM)?;
        let mut partial = Partial { cookie, made: 0 };
        for cpu in possible() {
            let init = make(cpu);
            // SAFETY: a possible CPU's cell of memory we just allocated, not initialized before.
            unsafe { Self::init_cell(of_cookie(cookie.as_ptr(), cpu), init)? };
            partial.made = partial.made.wrapping_add(1);
        }
        core::mem::forget(partial);
        // INVARIANT: every possible CPU's cell was initialized.
        Ok(Self {
            cookie,
            _values: PhantomData,
        })
    }

    /// Initializes one cell.
    ///
    /// # Safety
    ///
    /// `cell` must be memory for the used variant of a cell, exclusively ours.
    unsafe fn init_cell<E>(cell: *mut Cell<T>, init: impl PinInit<T, E>) -> Result
    where
        Error: From<E>,
    {
        if Self::BOXED {
            // SAFETY: the memory is passed on unchanged, with the obligations that come with it.
            let init = unsafe {
                pin_init::pin_init_from_closure(|at| {
                    pin_init::raw_try_init(at, init).map_err(Error::from)
                })
            };
            let boxed = KBox::pin_init::<Error>(init, GFP_KERNEL)?;
            // SAFETY: the pointer is only used as pinned memory until it becomes a box again.
            let value = KBox::into_raw(unsafe { Pin::into_inner_unchecked(boxed) });
            // SAFETY: the caller's promise.
            unsafe { (&raw mut (*cell).boxed).write(value) };
        } else {
            // SAFETY: the caller's promise; the value never moves until it is dropped in place.
            unsafe { pin_init::raw_try_init(cell.cast::<T>(), init)? };
        }
        Ok(())
    }

    /// Returns the address of the value in a cell.
    ///
    /// # Safety
    ///
    /// `cell` must be initialized.
    #[inline]
    unsafe fn value(cell: *mut Cell<T>) -> *mut T {
        if Self::BOXED {
            // SAFETY: the caller's promise, and the used variant.
            unsafe { (*cell).boxed }
        } else {
            cell.cast()
        }
    }

    /// Returns the value of `cpu`.
    #[inline]
    pub(crate) fn of(&self, cpu: Cpu) -> &T {
        // SAFETY: the invariant; `cpu` is possible, and its cell lives as long as `self`.
        unsafe { &*Self::value(of_cookie(self.cookie.as_ptr(), cpu)) }
    }

    /// Returns the value of the CPU that runs the caller, which may move before it uses it.
    #[inline]
    pub(crate) fn this(&self) -> &T {
        // SAFETY: the invariant; the running CPU is possible, and its cell lives as long as `self`.
        unsafe { &*Self::value(this_cookie(self.cookie.as_ptr())) }
    }

    /// Returns each possible CPU with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Cpu, &T)> {
        possible().map(|cpu| (cpu, self.of(cpu)))
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        drop(Partial {
            cookie: self.cookie,
            made: usize::MAX,
        });
    }
}

/// The cells of the first `made` possible CPUs, and the area itself; both go on drop.
struct Partial<T> {
    cookie: NonNull<Cell<T>>,
    made: usize,
}

impl<T> Drop for Partial<T> {
    fn drop(&mut self) {
        for cpu in possible().take(self.made) {
            // SAFETY: the first `made` cells are initialized, ours, and not used again.
            unsafe {
                let value = PerCpu::<T>::value(of_cookie(self.cookie.as_ptr(), cpu));
                if PerCpu::<T>::BOXED {
                    drop(Pin::new_unchecked(KBox::from_raw(value)));
                } else {
                    value.drop_in_place();
                }
            }
        }
        // SAFETY: allocated in `PerCpu::new`; no reference is left.
        unsafe { bindings::free_percpu(self.cookie.as_ptr().cast()) };
    }
}

/// `N` counters that CPUs add to without meeting.
///
/// A CPU's share may be negative: what one CPU adds another may subtract. Only sums have a meaning.
///
/// # Context
///
/// [`Counters::add`] runs anywhere, interrupts on or off, and never fails or waits.
pub(crate) struct Counters<const N: usize> {
    cells: PerCpu<[AtomicU64; N]>,
}

impl<const N: usize> Counters<N> {
    /// Makes counters at zero.
    ///
    /// # Context
    ///
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            cells: PerCpu::new(|_| pin_init::init_zeroed())?,
        })
    }

    /// Adds `delta` to counter `index` on this CPU; an index past the end counts nothing.
    #[inline]
    pub(crate) fn add(&self, index: usize, delta: i64) {
        let delta = u64::from_ne_bytes(delta.to_ne_bytes());
        #[cfg(all(CONFIG_X86_64, CONFIG_SMP, not(CONFIG_UML)))]
        if index < N && !PerCpu::<[AtomicU64; N]>::BOXED {
            let cell = self.cells.cookie.as_ptr().cast::<u64>().wrapping_add(index);
            // One instruction cannot be cut by an interrupt or a move to another CPU, and no other
            // CPU adds here, so it needs no bus lock. `reset` may lose against it, as documented.
            // SAFETY: the cookie names this CPU's array of `N` words through the segment.
            unsafe {
                core::arch::asm!(
                    "add qword ptr gs:[{0}], {1}",
                    in(reg) cell,
                    in(reg) delta,
                    options(nostack)
                )
            };
            return;
        }
        if let Some(cell) = self.cells.this().get(index) {
            cell.fetch_add_relaxed(delta);
        }
    }

    /// Returns counter `index` over all CPUs; zero if it is negative just now or does not exist.
    pub(crate) fn sum(&self, index: usize) -> u64 {
        let mut sum = 0u64;
        for (_, cells) in self.cells.iter() {
            sum = sum.wrapping_add(cells.get(index).map_or(0, AtomicU64::load_relaxed));
        }
        clamped_u64(i64::from_ne_bytes(sum.to_ne_bytes()))
    }

    /// Sets all counters to zero; an addition at the same time may be lost or stay.
    pub(crate) fn reset(&self) {
        for (_, cells) in self.cells.iter() {
            for cell in cells {
                cell.store_relaxed(0);
            }
        }
    }
}
