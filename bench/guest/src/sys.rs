// SPDX-License-Identifier: GPL-2.0

//! System calls that the standard library lacks; the only file with `unsafe` beside `clock`, `aio`
//! and `team`.

use std::ffi::CString;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;

/// The page size; the bench compares drivers at 4 KiB pages only.
pub const PAGE: usize = 4096;

const BLKDISCARD: libc::c_ulong = 0x1277;
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const MADV_PAGEOUT: libc::c_int = 21;
const PAGE_IN_SWAP: u64 = 1 << 62;

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn clock_ns(id: libc::clockid_t, resolution: bool) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    unsafe {
        if resolution {
            libc::clock_getres(id, &mut time);
        } else {
            libc::clock_gettime(id, &mut time);
        }
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the monotonic clock.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC, false)
}

/// Returns the processor time of the calling thread, exact to the moment.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID, false)
}

/// Returns the length of the kernel's tick.
pub fn tick_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE, true)
}

/// Returns the memory that is free in the whole guest, in bytes.
pub fn free_bytes() -> u64 {
    // SAFETY: All-zero is a valid value of this plain C structure.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid place for the result.
    unsafe { libc::sysinfo(&mut info) };
    info.freeram * u64::from(info.mem_unit)
}

/// Anonymous or shared memory, unmapped when dropped.
pub struct Map {
    start: *mut u8,
    length: usize,
}

// SAFETY: A mapping is plain memory; it is reached through borrows only.
unsafe impl Send for Map {}
// SAFETY: As above.
unsafe impl Sync for Map {}

impl Map {
    fn new(length: usize, kind: libc::c_int) -> io::Result<Self> {
        // SAFETY: A new mapping at an address of the kernel's choice harms nobody.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: start.cast(),
            length,
        })
    }

    /// Maps private memory that can be paged out.
    pub fn private(length: usize) -> io::Result<Self> {
        Self::new(length, libc::MAP_PRIVATE)
    }

    /// Maps memory that children share.
    pub fn shared(length: usize) -> io::Result<Self> {
        Self::new(length, libc::MAP_SHARED)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: The mapping lives as long as `self`, and zeroes are valid bytes.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    /// Returns the bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: As in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// Reads the first word of page `index`, for real.
    pub fn touch(&self, index: usize) -> u64 {
        let at = index % (self.length / PAGE) * PAGE;
        // SAFETY: `at` is a page border inside the mapping, so the word is inside and aligned.
        unsafe { self.start.add(at).cast::<u64>().read_volatile() }
    }

    /// Writes the first word of page `index`, for real.
    pub fn store(&mut self, index: usize, value: u64) {
        let at = index % (self.length / PAGE) * PAGE;
        // SAFETY: As in `touch`, and `self` is borrowed exclusively.
        unsafe { self.start.add(at).cast::<u64>().write_volatile(value) }
    }

    /// Asks the kernel to page out `pages` pages from page `first` on.
    pub fn page_out(&self, first: usize, pages: usize) -> io::Result<()> {
        let at = first * PAGE;
        let length = (pages * PAGE).min(self.length.saturating_sub(at));
        // SAFETY: The range lies in the mapping; paging out does not change its content.
        check(unsafe { libc::madvise(self.start.add(at).cast(), length, MADV_PAGEOUT) })
    }

    /// Returns how many of the pages are in swap and not in memory, by the page table.
    pub fn pages_out(&self) -> io::Result<usize> {
        let file = File::open("/proc/self/pagemap")?;
        let pages = self.length / PAGE;
        let mut entries = vec![0; pages * 8];
        file.read_exact_at(&mut entries, (self.start as usize / PAGE * 8) as u64)?;
        let words = entries.chunks_exact(8).map(|word| {
            u64::from_ne_bytes([
                word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
            ])
        });
        Ok(words.filter(|word| word & PAGE_IN_SWAP != 0).count())
    }

    /// Unmaps it now and says whether that worked.
    pub fn unmap(self) -> io::Result<()> {
        let (start, length) = (self.start, self.length);
        std::mem::forget(self);
        // SAFETY: The mapping is ours and nothing borrows it any more.
        check(unsafe { libc::munmap(start.cast(), length) })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: The mapping is ours and nothing borrows it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// Sets the nice value of the calling process.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: Takes numbers only.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// Makes the calling process run only where nobody else wants the CPU.
pub fn set_idle_policy() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` is valid; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) })
}

/// Binds the calling thread to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: All-zero is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: The macro checks the number against the set's size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is valid and its size is given.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) })
}

/// Sets or clears a file's `O_DIRECT` at opening: reads and writes go to the driver at once.
pub fn open_direct(path: &str) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

/// Returns the size of a block device in bytes.
pub fn device_bytes(file: &File) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: The request writes one 64-bit number to the given place.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &mut bytes) })?;
    Ok(bytes)
}

/// Discards a range of a block device.
pub fn discard(file: &File, start: u64, length: u64) -> io::Result<()> {
    let range = [start, length];
    // SAFETY: The request reads two 64-bit numbers from the given place.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) })
}

fn c_path(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(io::Error::other)
}

/// Makes a device a swap area in use.
pub fn swap_on(path: &str) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: The path is a valid C string.
    check(unsafe { libc::swapon(path.as_ptr(), 0) })
}

/// Takes a swap area out of use.
pub fn swap_off(path: &str) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: The path is a valid C string.
    check(unsafe { libc::swapoff(path.as_ptr()) })
}

/// Sleeps; unlike the library's, one system call and no loop.
pub fn sleep_us(us: u64) {
    let time = libc::timespec {
        tv_sec: (us / 1_000_000) as libc::time_t,
        tv_nsec: (us % 1_000_000 * 1000) as libc::c_long,
    };
    // SAFETY: The time is valid and no remainder is asked for.
    unsafe { libc::nanosleep(&time, ptr::null_mut()) };
}

/// Returns the number of CPUs that are online.
pub fn cpus() -> usize {
    // SAFETY: Takes a number only.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(1).max(1)
}

/// Returns the major part of a device number.
pub fn major(device: u64) -> u64 {
    ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff)
}

/// What bench/kmod takes and gives back.
#[repr(C)]
struct BareCodec {
    codec: u64,
    pages: *const u8,
    count: u64,
    compress_ns: u64,
    decompress_ns: u64,
    compressed_bytes: u64,
}

/// `_IOWR('z', 1, struct)`.
const BARE_CODEC: libc::c_ulong =
    (3 << 30) | ((size_of::<BareCodec>() as libc::c_ulong) << 16) | 0x7a01;

/// Has the codec module compress and decompress whole pages; returns nanoseconds for each, and the
/// compressed bytes.
pub fn bare_codec(node: &str, codec: u64, bytes: &[u8]) -> io::Result<[u64; 3]> {
    let file = OpenOptions::new().read(true).write(true).open(node)?;
    let mut call = BareCodec {
        codec,
        pages: bytes.as_ptr(),
        count: (bytes.len() / PAGE) as u64,
        compress_ns: 0,
        decompress_ns: 0,
        compressed_bytes: 0,
    };
    // SAFETY: The request reads and writes `call`, and reads as many pages as `call` says.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BARE_CODEC as _, &mut call) })?;
    Ok([call.compress_ns, call.decompress_ns, call.compressed_bytes])
}
