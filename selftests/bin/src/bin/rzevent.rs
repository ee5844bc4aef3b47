// SPDX-License-Identifier: GPL-2.0

//! `rzevent SECONDS`
//!
//! Prints the events that the kernel sends to user space, one a line, its words in the order they
//! came in, until the time is over. The first line is `listening`: what happens after it is seen.

use std::io;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use rzram_selftests::args::Args;

/// The group of kernel events.
const KERNEL_EVENTS: u32 = 1;

/// More than any event has.
const EVENT_BYTES: usize = 8192;

fn main() -> ExitCode {
    let outcome = Args::from_env(&[])
        .and_then(|args| args.number(0, "seconds"))
        .and_then(|seconds| listen(seconds).map_err(|e| e.to_string()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rzevent: {message}");
            ExitCode::from(2)
        }
    }
}

fn listen(seconds: u64) -> io::Result<()> {
    let socket = open()?;
    println!("listening");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut event = vec![0u8; EVENT_BYTES];
    while Instant::now() < end {
        // SAFETY: the buffer has the length that is passed.
        let len = unsafe { libc::recv(socket, event.as_mut_ptr().cast(), event.len(), 0) };
        let Ok(len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => continue,
                _ => return Err(error),
            }
        };
        let words = event[..len].split(|&byte| byte == 0);
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        println!("{}", words.join(" ").trim_end());
        io::stdout().flush()?;
    }
    Ok(())
}

/// Returns a socket that kernel events come to, and that waits for one at most 200 ms.
fn open() -> io::Result<i32> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_KOBJECT_UEVENT) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is an address of this type.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = KERNEL_EVENTS;
    let wait = libc::timeval {
        tv_sec: 0,
        tv_usec: 200_000,
    };
    // SAFETY: both structures live during the calls, and the lengths are theirs.
    let failed = unsafe {
        libc::bind(
            socket,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_nl>() as libc::socklen_t,
        ) != 0
            || libc::setsockopt(
                socket,
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const wait).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            ) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}
