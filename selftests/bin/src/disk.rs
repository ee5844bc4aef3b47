// SPDX-License-Identifier: GPL-2.0

//! Direct I/O on a block device, whole requests only.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::memory::Arena;
use crate::memory::Layout;
use crate::pattern::PAGE_BYTES;

const BLKDISCARD: u64 = 0x1277;
const BLKZEROOUT: u64 = 0x127f;
const BLKGETSIZE64: u64 = 0x8008_1272;

/// A block device opened for direct I/O.
pub struct Disk {
    file: File,
    path: String,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erase {
    /// `BLKDISCARD`.
    Discard,
    /// `BLKZEROOUT`.
    Zeroout,
}

impl Disk {
    /// Opens the device at `path` for reading and writing.
    ///
    /// # Errors
    ///
    /// The system's, with the path.
    pub fn open(path: &str) -> Result<Self, String> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        let file = options
            .open(path)
            .map_err(|error| format!("open {path}: {error}"))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Returns how many whole pages the device has.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn pages(&self) -> Result<u64, String> {
        let mut bytes = 0u64;
        // SAFETY: The descriptor is open; the kernel writes one `u64` to a place that is one.
        let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) };
        self.outcome("size", 0, rc == 0)?;
        Ok(bytes / PAGE_BYTES as u64)
    }

    /// Writes the pieces of `layout` to the place `start` bytes into the device, in one call.
    ///
    /// # Errors
    ///
    /// The system's, or a short transfer.
    pub fn write(&self, arena: &Arena, layout: &Layout, start: u64) -> Result<(), String> {
        let (vectors, bytes) = vectors(arena, layout);
        let count = libc::c_int::try_from(vectors.len()).unwrap();
        let at = libc::off_t::try_from(start).unwrap();
        // SAFETY: The vectors lie inside the arena, which is borrowed; the kernel only reads them.
        let done = unsafe {
            match vectors.as_slice() {
                [one] => libc::pwrite(self.file.as_raw_fd(), one.iov_base, one.iov_len, at),
                many => libc::pwritev(self.file.as_raw_fd(), many.as_ptr(), count, at),
            }
        };
        self.outcome("write", start, usize::try_from(done) == Ok(bytes))
    }

    /// Reads into the pieces of `layout` from the place `start` bytes into the device, in one call.
    ///
    /// # Errors
    ///
    /// The system's, or a short transfer.
    pub fn read(&self, arena: &mut Arena, layout: &Layout, start: u64) -> Result<(), String> {
        let (vectors, bytes) = vectors(arena, layout);
        let count = libc::c_int::try_from(vectors.len()).unwrap();
        let at = libc::off_t::try_from(start).unwrap();
        // SAFETY: The vectors lie inside the arena, which is borrowed exclusively.
        let done = unsafe {
            match vectors.as_slice() {
                [one] => libc::pread(self.file.as_raw_fd(), one.iov_base, one.iov_len, at),
                many => libc::preadv(self.file.as_raw_fd(), many.as_ptr(), count, at),
            }
        };
        self.outcome("read", start, usize::try_from(done) == Ok(bytes))
    }

    /// Discards or zeroes `bytes` bytes from `start` on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn erase(&self, how: Erase, start: u64, bytes: u64) -> Result<(), String> {
        let range = [start, bytes];
        let request = match how {
            Erase::Discard => BLKDISCARD,
            Erase::Zeroout => BLKZEROOUT,
        };
        // SAFETY: The descriptor is open; both requests read two `u64` from the pointer.
        let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), request, range.as_ptr()) };
        self.outcome("erase", start, rc == 0)
    }

    fn outcome(&self, what: &str, start: u64, good: bool) -> Result<(), String> {
        if good {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        let sector = start / 512;
        Err(format!(
            "{what} of {} at sector {sector}: {error} or short transfer",
            self.path
        ))
    }
}

fn vectors(arena: &Arena, layout: &Layout) -> (Vec<libc::iovec>, usize) {
    let piece = |range: &std::ops::Range<usize>| libc::iovec {
        iov_base: arena.bytes()[range.clone()].as_ptr().cast_mut().cast(),
        iov_len: range.len(),
    };
    let vectors: Vec<_> = layout.pieces().iter().map(piece).collect();
    let bytes = vectors.iter().map(|vector| vector.iov_len).sum();
    (vectors, bytes)
}
