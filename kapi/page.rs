// SPDX-License-Identifier: GPL-2.0

//! Page memory: the pool's pages, single buffers, and large buffers for codec contexts.
//!
//! | type | memory | address | counted in `nr_zspages` |
//! |---|---|---|---|
//! | [`Pages`] | 1 to [`MAX_RUN`] pages in a row, each of order 0 | direct map | yes |
//! | [`PageBuf`] | one page | direct map | no |
//! | [`Buf`] | any number of bytes | direct map or vmalloc | no |
//!
//! # Invariants of a run
//!
//! The page allocator hands out powers of two. A run takes the next larger block, splits it into
//! order-0 pages, which gives each its own reference count, and returns the tail at once. So a run
//! wastes nothing, and each of its pages can be freed alone.
//!
//! # Who may run with whom
//!
//! Owners are exclusive; nothing here is shared. Freeing pages never sleeps and may happen with
//! interrupts off. Freeing a [`Buf`] may sleep.

#[cfg(CONFIG_ZSMALLOC)]
use super::ffi;
use super::{
    bytes::Dst,
    gfp::Policy,
    num::PAGE_SIZE,
    percpu::Cpu, //
};
use core::{
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull,
    slice, //
};
use kernel::{
    alloc::AllocError,
    bindings,
    ffi::c_long, //
};

/// Most pages in a run; the count less one is kept in the low bits of a page's descriptor address.
///
/// Those bits are free as far as descriptors are aligned. They form arrays that start at a cache
/// line at least, so what counts is their size: 64 bytes wherever memory is charged to groups.
pub(crate) const MAX_RUN: usize = if size_of::<bindings::page>() % 16 == 0 {
    16
} else {
    8
};

/// The low bits of a descriptor address, which hold the count less one.
const COUNT_MASK: usize = MAX_RUN - 1;

const _: () = assert!(MAX_RUN.is_power_of_two());
const _: () = assert!(size_of::<bindings::page>() % MAX_RUN == 0);

/// A run of pages in a row, exclusively owned and reached by its address in the direct map.
///
/// Eight bytes, and so is `Option<Pages>`: a descriptor of the pool may hold several.
///
/// # Invariants
///
/// `tagged` is the descriptor of the first page, with the number of pages less one in its low bits.
/// The run owns these pages; each is an order-0 page and counted in `nr_zspages`.
pub(crate) struct Pages {
    tagged: NonNull<u8>,
}

// SAFETY: a run is memory; any thread may use or free it.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives out an address and numbers only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates `count` pages in a row, with arbitrary contents; near `node` if one is given.
    ///
    /// Returns nothing if there is no memory under `policy` or `count` is not 1 to [`MAX_RUN`].
    /// `node` is a wish and must come from [`Pages::node`], [`Cpu::node`] or another page in use.
    ///
    /// # Context
    ///
    /// As `policy` says; takes no lock of ours. Interrupts may be off where the policy does not
    /// sleep.
    pub(crate) fn alloc(count: usize, policy: Policy, node: Option<u32>) -> Option<Self> {
        if count == 0 || count > MAX_RUN {
            return None;
        }
        let block = count.next_power_of_two();
        let first = alloc_block(block.trailing_zeros(), policy, node)?;
        if block > 1 {
            // SAFETY: `first` is a block of this order, just allocated, without a compound mark.
            unsafe { bindings::split_page(first.as_ptr(), block.trailing_zeros()) };
        }
        for i in count..block {
            // SAFETY:
            // - The descriptors of a block lie in a row, and `i` is below the block's size.
            // - After the split the page is an order-0 page of ours, and nobody else knows it.
            unsafe { bindings::__free_pages(first.as_ptr().add(i), 0) };
        }
        // CAST: at most `MAX_RUN`.
        // SAFETY: the pages are ours, and of one block.
        unsafe { account(first.as_ptr(), count as c_long) };
        let tagged = first.cast::<u8>().map_addr(|a| a | (count - 1));
        // INVARIANT: `count - 1` fits the free low bits; the pages are ours, split, and counted.
        Some(Self { tagged })
    }

    /// Takes the pages from number `at` on out of the run; nothing if that leaves or takes none.
    pub(crate) fn split_off(&mut self, at: usize) -> Option<Self> {
        let count = self.count();
        if at == 0 || at >= count {
            return None;
        }
        // SAFETY: the descriptors of a run lie in a row, and `at` is inside.
        let first = NonNull::new(unsafe { self.first().add(at) })?.cast::<u8>();
        self.tagged = NonNull::new(self.first())?
            .cast::<u8>()
            .map_addr(|a| a | (at - 1));
        // INVARIANT: both counts fit the free low bits, and together they own what `self` did.
        Some(Self {
            tagged: first.map_addr(|a| a | (count - at - 1)),
        })
    }

    /// Returns the descriptor of the first page.
    #[inline]
    fn first(&self) -> *mut bindings::page {
        self.tagged.as_ptr().map_addr(|a| a & !COUNT_MASK).cast()
    }

    /// Returns the address of the first byte; the run covers `count` pages from there.
    ///
    /// Valid as long as the run is owned.
    #[inline]
    pub(crate) fn addr(&self) -> *mut u8 {
        // SAFETY: the invariant: a descriptor of a page in use.
        unsafe { page_address(self.first()) }
    }

    /// Returns the number of pages.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        (self.tagged.addr().get() & COUNT_MASK).wrapping_add(1)
    }

    /// Returns the memory node of the first page.
    #[inline]
    pub(crate) fn node(&self) -> u32 {
        // SAFETY: the invariant: a descriptor of a page in use.
        unsafe { node_of(self.first()) }
    }
}

impl Drop for Pages {
    /// Gives every page back.
    ///
    /// # Context
    ///
    /// Does not sleep; interrupts may be off. On PREEMPT_RT the page allocator's locks sleep, so
    /// no raw spin lock may be held there.
    fn drop(&mut self) {
        let first = self.first();
        // CAST: at most `MAX_RUN`.
        // SAFETY: the invariant: pages of ours, of one block, each counted.
        unsafe { account(first, -(self.count() as c_long)) };
        for i in 0..self.count() {
            // SAFETY: the invariant: `count` order-0 pages of ours in a row.
            unsafe { bindings::__free_pages(first.add(i), 0) };
        }
    }
}

/// Allocates a block of `1 << order` pages that is not split yet.
fn alloc_block(order: u32, policy: Policy, node: Option<u32>) -> Option<NonNull<bindings::page>> {
    let page = match node.and_then(|n| i32::try_from(n).ok()) {
        // SAFETY: nodes come from memory or CPUs in use, so the node is online.
        Some(node) => unsafe { bindings::alloc_pages_node_noprof(node, policy.bits(), order) },
        // SAFETY: no preconditions.
        None => unsafe { bindings::alloc_pages(policy.bits(), order) },
    };
    NonNull::new(page)
}

/// Counts pages in or out of their zone's pool pages, beside those of the built-in allocator.
///
/// One call for a run, not one a page: the counter is changed with interrupts off, which costs more
/// than a page's allocation where that is slow.
///
/// # Safety
///
/// `page` must be a page in use, and all that are counted in its zone, as those of a block are.
#[inline]
unsafe fn account(page: *mut bindings::page, pages: c_long) {
    // The counter exists only where the kernel's own allocator is configured.
    #[cfg(CONFIG_ZSMALLOC)]
    // SAFETY: the caller's promise; may be called with interrupts on or off.
    unsafe {
        bindings::mod_zone_page_state(zone_of(page), bindings::zone_stat_item_NR_ZSPAGES, pages)
    };
    #[cfg(not(CONFIG_ZSMALLOC))]
    let _ = (page, pages);
}

/// Returns the zone of a page.
///
/// # Safety
///
/// `page` must be a page in use.
///
/// C counterpart: `page_zone()`, `include/linux/mm.h`.
#[cfg(CONFIG_ZSMALLOC)]
#[inline]
unsafe fn zone_of(page: *mut bindings::page) -> *mut bindings::zone {
    // SAFETY: the caller's promise: a page in use has its zone's number in its flags, and is of a
    // node that is online; `node_data` has an entry for each node.
    unsafe {
        let number = ((*page).flags.f >> ffi::ZONES_PGSHIFT) & ffi::ZONES_MASK;
        #[cfg(CONFIG_NUMA)]
        let node = {
            let nodes = (&raw const bindings::node_data).cast::<*mut bindings::pglist_data>();
            *nodes.add(super::num::u32_to_usize(node_of(page)))
        };
        #[cfg(not(CONFIG_NUMA))]
        let node = &raw mut bindings::contig_page_data;
        (&raw mut (*node).node_zones)
            .cast::<bindings::zone>()
            .add(number)
    }
}

/// Returns the address of a page in the direct map.
///
/// # Safety
///
/// `page` must be the descriptor of a page in use.
#[inline]
pub(super) unsafe fn page_address(page: *mut bindings::page) -> *mut u8 {
    #[cfg(all(CONFIG_X86_64, CONFIG_SPARSEMEM_VMEMMAP, not(CONFIG_UML)))]
    {
        // One subtraction, two shifts and an addition: descriptors are an array over all frames.
        // SAFETY: both bases are set at boot and constant since.
        let (descriptors, memory) = unsafe { (bindings::vmemmap_base, bindings::page_offset_base) };
        let frame = page.addr().wrapping_sub(descriptors) / size_of::<bindings::page>();
        let address = memory.wrapping_add(frame.wrapping_mul(PAGE_SIZE));
        core::ptr::with_exposed_provenance_mut(address)
    }
    #[cfg(not(all(CONFIG_X86_64, CONFIG_SPARSEMEM_VMEMMAP, not(CONFIG_UML))))]
    {
        // SAFETY: the caller's promise. Without high memory this maps nothing: it is the address
        // in the direct map, which needs no undoing.
        unsafe { bindings::kmap_local_page(page).cast() }
    }
}

/// Returns the memory node of a page.
///
/// # Safety
///
/// `page` must be the descriptor of a page in use.
#[inline]
pub(super) unsafe fn node_of(page: *const bindings::page) -> u32 {
    // SAFETY: the caller's promise.
    let node = unsafe { bindings::page_to_nid(page) };
    u32::try_from(node).unwrap_or(0)
}

/// One page of bytes.
///
/// # Invariants
///
/// `ptr` is the address of a page that this value owns.
pub(crate) struct PageBuf {
    ptr: NonNull<u8>,
}

// SAFETY: a buffer is memory; any thread may use or free it.
unsafe impl Send for PageBuf {}
// SAFETY: a shared reference reads only.
unsafe impl Sync for PageBuf {}

impl PageBuf {
    /// Allocates a page with arbitrary contents.
    ///
    /// # Context
    ///
    /// As `policy` says.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory under `policy`.
    pub(crate) fn alloc(policy: Policy) -> Result<Self, AllocError> {
        let page = alloc_block(0, policy, None).ok_or(AllocError)?;
        // SAFETY: just allocated.
        let ptr = unsafe { page_address(page.as_ptr()) };
        // INVARIANT: the page is ours.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(AllocError)?,
        })
    }

    /// Returns the page as a place to write to.
    #[inline]
    pub(crate) fn dst(&mut self) -> Dst<'_> {
        Dst::from_slice(self)
    }
}

impl Deref for PageBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the invariant makes the page readable; it was written before, if only by a former
        // owner, so each byte has a value. Borrowing `self` excludes writers.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr(), PAGE_SIZE) }
    }
}

impl DerefMut for PageBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the exclusive borrow excludes every other access.
        unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr(), PAGE_SIZE) }
    }
}

impl Drop for PageBuf {
    /// Gives the page back; does not sleep, interrupts may be off.
    fn drop(&mut self) {
        // SAFETY: the invariant: an order-0 page of ours, named by its direct-map address.
        unsafe { bindings::free_pages(self.ptr.addr().get(), 0) };
    }
}

/// A buffer of any size: codec contexts, dictionaries, tables of bytes.
///
/// # Invariants
///
/// `ptr` owns `len > 0` bytes from the kernel's kvmalloc family, each with a value.
pub(crate) struct Buf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a buffer is memory; any thread may use or free it.
unsafe impl Send for Buf {}
// SAFETY: a shared reference reads only.
unsafe impl Sync for Buf {}

impl Buf {
    /// Alignment of every buffer: a cache line, which is more than any codec asks for.
    pub(crate) const ALIGN: usize = 64;

    /// Allocates `len` zeroed bytes, near the memory of `cpu` if one is given.
    ///
    /// Falls back from the direct map to vmalloc by itself.
    ///
    /// # Context
    ///
    /// May sleep and allocates as [`Policy::Sleep`]; inside a [`super::gfp::NoIoScope`] it starts
    /// no I/O.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory, or `len` is zero.
    pub(crate) fn zeroed(len: usize, cpu: Option<Cpu>) -> Result<Self, AllocError> {
        kernel::task::might_sleep();
        if len == 0 {
            return Err(AllocError);
        }
        let node = cpu
            .and_then(Cpu::node)
            .and_then(|n| i32::try_from(n).ok())
            .unwrap_or(bindings::NUMA_NO_NODE);
        let flags = Policy::Sleep.bits() | bindings::__GFP_ZERO | bindings::__GFP_NOWARN;
        // SAFETY: a null pointer asks for a new block; the node is online or none.
        let ptr = unsafe {
            bindings::kvrealloc_node_align(core::ptr::null(), len, Self::ALIGN, flags, node)
        };
        // INVARIANT: `len` zeroed bytes, ours.
        Ok(Self {
            ptr: NonNull::new(ptr.cast()).ok_or(AllocError)?,
            len,
        })
    }

    /// Returns the address, for a codec's foreign call.
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Returns the address, for a codec's foreign call that only reads.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the invariant; borrowing `self` excludes writers.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the invariant; the exclusive borrow excludes every other access.
        unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    /// Gives the memory back.
    ///
    /// # Context
    ///
    /// May sleep where the buffer came from vmalloc.
    fn drop(&mut self) {
        // SAFETY: the invariant: from the kvmalloc family, and ours.
        unsafe { bindings::kvfree(self.ptr.as_ptr().cast()) };
    }
}
