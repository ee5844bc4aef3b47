// SPDX-License-Identifier: GPL-2.0

//! Anonymous memory of its own mapping, so that it can be pushed out to swap and unmapped.

use std::io;
use std::ptr;

/// A private anonymous mapping; unmapped when dropped.
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` bytes, asking for huge pages or for none.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(bytes: usize, huge: bool) -> Result<Self, String> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: A new mapping at a place of the kernel's choice touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(format!("mmap: {}", io::Error::last_os_error()));
        }
        let mapping = Self {
            start: start.cast(),
            bytes,
        };
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        // A kernel without huge pages refuses both; then there are none.
        let _ = mapping.advise(advice);
        Ok(mapping)
    }

    /// Asks the kernel to write all pages to swap now; it may leave some.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn page_out(&self) -> Result<(), String> {
        self.advise(libc::MADV_PAGEOUT)
    }

    fn advise(&self, advice: libc::c_int) -> Result<(), String> {
        // SAFETY: The range is this mapping; none of the advice used here changes its content.
        match unsafe { libc::madvise(self.start.cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(format!("madvise: {}", io::Error::last_os_error())),
        }
    }

    /// Returns the memory.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: Mapped readable and writable, zeroed by the kernel, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The range is this mapping and nothing borrows it any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
