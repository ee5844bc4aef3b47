// SPDX-License-Identifier: GPL-2.0

//! `rzattr write PATH [TEXT]`, `each PATH TEXT...`, `read PATH`, `open-read PATH`, `open-write PATH`,
//! `ioctl discard|zeroout|secdiscard|rrpart|flush PATH [START BYTES]`
//!
//! Does one system call on an attribute or a device and prints its outcome in one word: `ok`, a
//! short count, or the name of the error, so that a script can compare errors, which a shell's
//! `echo` hides. `write` sends exactly TEXT, or all of standard input if there is none, in one
//! call. `each` does so with one TEXT after the other and prints a line for each. `read` prints the
//! content instead of `ok`. Exits 0 whatever the outcome was, 2 if it was called wrongly.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use rzram_selftests::args::Args;

/// The errors that the tests expect; any other shows as its number.
const NAMES: [(i32, &str); 24] = [
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::E2BIG, "E2BIG"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::ENOTBLK, "ENOTBLK"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::EISDIR, "EISDIR"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ERANGE, "ERANGE"),
    (libc::ENAMETOOLONG, "ENAMETOOLONG"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ENXIO, "ENXIO"),
    (libc::EOVERFLOW, "EOVERFLOW"),
    (libc::ETXTBSY, "ETXTBSY"),
];

fn main() -> ExitCode {
    match Args::from_env(&[]).and_then(|args| run(&args)) {
        Ok(outcome) => {
            println!("{}", outcome.unwrap_or_else(name));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("rzattr: {message}");
            ExitCode::from(2)
        }
    }
}

fn name(error: io::Error) -> String {
    let number = error.raw_os_error().unwrap_or(0);
    let known = NAMES.iter().find(|(code, _)| *code == number);
    known.map_or(number.to_string(), |(_, name)| (*name).to_owned())
}

fn run(args: &Args) -> Result<io::Result<String>, String> {
    let done = |()| "ok".to_owned();
    let path = |index| args.word(index, "path");
    match args.word(0, "command")? {
        "write" => Ok(write(path(1)?, args.word(2, "text").ok())),
        "each" => Ok(Ok(each(args)?.join("\n"))),
        "read" => Ok(read(path(1)?)),
        "open-read" => Ok(File::open(path(1)?).map(drop).map(done)),
        "open-write" => {
            let opened = OpenOptions::new().write(true).open(path(1)?);
            Ok(opened.map(drop).map(done))
        }
        "ioctl" => {
            let range = [
                args.number(3, "start").unwrap_or(0),
                args.number(4, "bytes").unwrap_or(4096),
            ];
            Ok(control(request(args.word(1, "request")?)?, path(2)?, range).map(done))
        }
        other => Err(format!("unknown command {other}")),
    }
}

fn write(path: &str, text: Option<&str>) -> io::Result<String> {
    let mut bytes = Vec::new();
    match text {
        Some(text) => bytes.extend_from_slice(text.as_bytes()),
        None => drop(io::stdin().read_to_end(&mut bytes)?),
    }
    let written = OpenOptions::new().write(true).open(path)?.write(&bytes)?;
    if written == bytes.len() {
        return Ok("ok".to_owned());
    }
    Ok(format!("short:{written}"))
}

fn each(args: &Args) -> Result<Vec<String>, String> {
    let path = args.word(1, "path")?;
    let texts = (2..).map_while(|index| args.word(index, "text").ok());
    Ok(texts
        .map(|text| write(path, Some(text)).unwrap_or_else(name))
        .collect())
}

fn read(path: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes)
        .trim_end_matches('\n')
        .to_owned())
}

fn request(name: &str) -> Result<u64, String> {
    match name {
        "discard" => Ok(0x1277),
        "secdiscard" => Ok(0x127d),
        "zeroout" => Ok(0x127f),
        "rrpart" => Ok(0x125f),
        "flush" => Ok(0x1261),
        _ => Err(format!("unknown request {name}")),
    }
}

fn control(request: u64, path: &str, range: [u64; 2]) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: The descriptor is open; the requests above read at most two `u64` from the pointer.
    match unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
