// SPDX-License-Identifier: GPL-2.0

//! Named allocation policies.
//!
//! The room that allocates says what it may do while it waits, never raw bits. Nobody asks for
//! movable or high memory: pool pages cannot move and are reached by their address.
//!
//! | policy | sleeps | starts I/O | wakes kswapd | reserves | for |
//! |---|---|---|---|---|---|
//! | `Comfort` | no | no | no | never | what has a fallback: linear zspages, bounce buffers |
//! | `NoReclaim` | no | no | yes | if the task may | page-out, where the task is reclaim itself |
//! | `Atomic` | no | no | yes | some | contexts that may not sleep and rarely allocate |
//! | `NoIo` | yes | no | yes | if the task may | the slow path of a plain writer |
//! | `Sleep` | yes | yes | yes | no | creation, control files |
//!
//! "If the task may": the kernel gives a task that is reclaiming memory the right to eat reserves.
//! `Comfort` renounces it, so that page-out does not spend the last pages on convenience.

use kernel::{
    alloc::flags,
    bindings,
    task::Task, //
};

/// Returns the flag with this bit number.
const fn bit(number: bindings::_bindgen_ty_5) -> bindings::gfp_t {
    1 << number
}

const NOWARN: bindings::gfp_t = bindings::__GFP_NOWARN;
const NORETRY: bindings::gfp_t = bit(bindings::___GFP_NORETRY_BIT);
const NOMEMALLOC: bindings::gfp_t = bit(bindings::___GFP_NOMEMALLOC_BIT);
const RECLAIM: bindings::gfp_t =
    bit(bindings::___GFP_DIRECT_RECLAIM_BIT) | bit(bindings::___GFP_KSWAPD_RECLAIM_BIT);

/// What an allocation may do to get its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    /// Does not sleep; may take from the reserve for atomic contexts. Fails quietly.
    Atomic,
    /// Does not sleep; wakes the background reclaim. Fails quietly.
    NoReclaim,
    /// Takes only what is there for nothing. Fails quietly and often.
    Comfort,
    /// May sleep and reclaim, but starts no I/O, so it cannot wait for this very disk. Fails
    /// quietly.
    NoIo,
    /// May sleep, reclaim and start I/O.
    Sleep,
}

impl Policy {
    /// Returns the page allocator's flags.
    pub(super) const fn bits(self) -> bindings::gfp_t {
        match self {
            Self::Atomic => bindings::GFP_ATOMIC | NOWARN,
            Self::NoReclaim => bindings::GFP_NOWAIT | NOWARN,
            Self::Comfort => NOWARN | NORETRY | NOMEMALLOC,
            Self::NoIo => RECLAIM | NOWARN,
            Self::Sleep => bindings::GFP_KERNEL,
        }
    }

    /// Returns whether an allocation under this policy may sleep.
    pub(crate) const fn may_sleep(self) -> bool {
        matches!(self, Self::NoIo | Self::Sleep)
    }

    /// Returns the nearest flags of the kernel crate, for its boxes and vectors.
    ///
    /// The crate has no set without I/O. Use [`NoIoScope`] around a `Sleep` allocation instead; a
    /// `NoIo` policy gives the flags that do not sleep.
    pub(crate) fn crate_flags(self) -> kernel::alloc::Flags {
        match self {
            Self::Atomic => flags::GFP_ATOMIC | flags::__GFP_NOWARN,
            Self::NoReclaim | Self::Comfort | Self::NoIo => flags::GFP_NOWAIT | flags::__GFP_NOWARN,
            Self::Sleep => flags::GFP_KERNEL,
        }
    }
}

/// A scope in which no allocation of this thread starts I/O, whatever its policy says.
///
/// Scopes nest. The guard stays on its thread.
///
/// # Context
///
/// Task context only. Does not sleep itself.
///
/// C counterpart: `memalloc_noio_save()`, `include/linux/sched/mm.h`.
#[must_use = "the scope ends when the guard is dropped"]
pub(crate) struct NoIoScope {
    before: u32,
    _thread: kernel::types::NotThreadSafe,
}

impl NoIoScope {
    /// Begins the scope.
    pub(crate) fn enter() -> Self {
        let task = Task::current_raw();
        // SAFETY: the current task is alive, and only the task itself writes its flags.
        let before = unsafe {
            let flags = &raw mut (*task).flags;
            let before = *flags & bindings::PF_MEMALLOC_NOIO;
            *flags |= bindings::PF_MEMALLOC_NOIO;
            before
        };
        Self {
            before,
            _thread: kernel::types::NotThreadSafe,
        }
    }
}

impl Drop for NoIoScope {
    fn drop(&mut self) {
        let task = Task::current_raw();
        // SAFETY: the guard never leaves its thread, so this is the same task as in `enter`, and
        // only the task itself writes its flags.
        unsafe {
            let flags = &raw mut (*task).flags;
            *flags = (*flags & !bindings::PF_MEMALLOC_NOIO) | self.before;
        }
    }
}
