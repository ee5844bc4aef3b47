// SPDX-License-Identifier: GPL-2.0

//! Many one-page requests in one system call (Linux AIO).
//!
//! A bio-based disk completes each request inside `io_submit`, so a batch shows the driver's own
//! time for scattered pages, with the system call's share divided by the batch.

use std::io;

const READ: u16 = 0;
const WRITE: u16 = 1;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// A request of a batch.
pub struct Request {
    /// Whether memory is written to the disk.
    pub write: bool,
    /// Where the memory begins. It must stay valid, and unborrowed for a read, until the batch ended.
    pub memory: *const u8,
    /// The length in bytes.
    pub bytes: usize,
    /// The place on the disk.
    pub offset: u64,
}

/// A kernel context for up to `room` requests at once.
pub struct Aio {
    context: u64,
    blocks: Vec<Iocb>,
    events: Vec<Event>,
}

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Aio {
    /// Makes a context.
    pub fn new(room: usize) -> io::Result<Self> {
        let mut context = 0_u64;
        // SAFETY: `context` is a valid place for the result and zero, as the call wants it.
        check(unsafe { libc::syscall(libc::SYS_io_setup, room, &mut context) })?;
        Ok(Self {
            context,
            blocks: vec![Iocb::default(); room],
            events: vec![Event::default(); room],
        })
    }

    /// Runs the requests on descriptor `fd` and waits until all have ended.
    ///
    /// # Safety
    ///
    /// The memory of each request is valid for its length, and for reads nothing else uses it.
    pub unsafe fn run(&mut self, fd: i32, requests: &[Request]) -> io::Result<()> {
        let count = requests.len().min(self.blocks.len());
        for (block, request) in self.blocks.iter_mut().zip(requests) {
            *block = Iocb {
                opcode: if request.write { WRITE } else { READ },
                fd: fd as u32,
                buffer: request.memory as u64,
                bytes: request.bytes as u64,
                offset: request.offset as i64,
                ..Iocb::default()
            };
        }
        let pointers: Vec<*const Iocb> = self.blocks.iter().map(std::ptr::from_ref).collect();
        let (mut sent, mut ended) = (0, 0);
        while sent < count {
            let rest = &pointers[sent..count];
            // SAFETY: The blocks outlive the call; the caller vouches for their memory.
            sent += check(unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, rest.len(), rest.as_ptr())
            })?;
        }
        while ended < count {
            let left = count - ended;
            // SAFETY: `events` has room for `left` results.
            let got = check(unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    left,
                    left,
                    self.events.as_mut_ptr(),
                    std::ptr::null::<libc::timespec>(),
                )
            })?;
            if let Some(event) = self.events[..got].iter().find(|event| event.result < 4096) {
                return Err(io::Error::other(format!(
                    "a request ended with {}",
                    event.result
                )));
            }
            ended += got;
        }
        Ok(())
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: The context is ours; no request is in flight after `run` returned.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
