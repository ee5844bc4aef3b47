// SPDX-License-Identifier: GPL-2.0

//! Child processes that start their measured part together.
//!
//! Each child prepares itself, says ready, waits for go, works, and sends words back through a pipe
//! of its own. Children die with the program, and those still running are killed when the team is
//! dropped: spinners and background load never end by themselves.

use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;

use crate::error::failed;
use crate::error::Doing;
use crate::error::Error;
use crate::error::Result;

const READY: u8 = b'r';
const BROKEN: u8 = b'e';
const WORDS: u8 = b'w';

fn pipe() -> Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error()).doing("pipe");
    }
    // SAFETY: Both descriptors are new and owned by nobody else.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

/// A child's side of the team.
pub struct Member {
    /// The child's number in the team.
    pub index: usize,
    ready: File,
    go: File,
}

impl Member {
    /// Says that the preparation is done and waits until all may start.
    pub fn ready_and_wait(&mut self) -> Result<()> {
        self.ready.write_all(&[READY]).doing("ready pipe")?;
        self.go.read_exact(&mut [0]).doing("go pipe")
    }
}

struct Child {
    pid: libc::pid_t,
    output: File,
}

/// Children at work.
pub struct Team {
    children: Vec<Child>,
    ready: File,
    go: File,
}

impl Team {
    /// Starts `count` children that run `work`.
    pub fn start(count: usize, work: impl Fn(&mut Member) -> Result<Vec<u64>>) -> Result<Self> {
        let (ready, ready_in) = pipe()?;
        let (go_out, go) = pipe()?;
        let mut team = Self {
            children: Vec::new(),
            ready,
            go,
        };
        for index in 0..count {
            let (output, input) = pipe()?;
            let mut member = Member {
                index,
                ready: ready_in.try_clone().doing("ready pipe")?,
                go: go_out.try_clone().doing("go pipe")?,
            };
            // SAFETY: The program has one thread, so the child may do anything.
            match unsafe { libc::fork() } {
                0 => run_child(&mut member, input, &work),
                pid if pid > 0 => team.children.push(Child { pid, output }),
                _ => return Err(io::Error::last_os_error()).doing("fork"),
            }
        }
        Ok(team)
    }

    /// Waits until every child is ready.
    pub fn wait_ready(&mut self) -> Result<()> {
        for _ in 0..self.children.len() {
            let mut word = [0];
            self.ready.read_exact(&mut word).doing("a child died")?;
            if word != [READY] {
                return self.first_error();
            }
        }
        Ok(())
    }

    /// Lets all children start.
    pub fn go(&mut self) -> Result<()> {
        self.go
            .write_all(&vec![1; self.children.len()])
            .doing("go pipe")
    }

    /// Returns what the children sent, in order.
    pub fn collect(mut self) -> Result<Vec<Vec<u64>>> {
        self.children.iter_mut().map(Child::words).collect()
    }

    fn first_error(&mut self) -> Result<()> {
        // Only the broken one has sent anything; the others wait for go.
        for child in &mut self.children {
            let mut poll = libc::pollfd {
                fd: child.output.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: One valid entry is given, and its count.
            if unsafe { libc::poll(&mut poll, 1, 0) } > 0 {
                child.words()?;
            }
        }
        failed("a child broke without a word")
    }
}

impl Child {
    fn words(&mut self) -> Result<Vec<u64>> {
        let mut bytes = Vec::new();
        self.output
            .read_to_end(&mut bytes)
            .doing("a child's pipe")?;
        let Some((tag, rest)) = bytes.split_first() else {
            return failed("a child ended without a result");
        };
        let text = || String::from_utf8_lossy(rest).into_owned();
        match *tag {
            WORDS => Ok(rest
                .chunks_exact(8)
                .map(|b| u64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
                .collect()),
            b'a' => Err(Error::Absent(text())),
            b'p' => Err(Error::Premise(text())),
            _ => failed(text()),
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for child in &self.children {
            // SAFETY: The child was not waited for yet, so its number is still its own.
            unsafe { libc::kill(child.pid, libc::SIGKILL) };
        }
        for child in &self.children {
            // SAFETY: As above; the state is not asked for.
            unsafe { libc::waitpid(child.pid, std::ptr::null_mut(), 0) };
        }
    }
}

fn run_child(
    member: &mut Member,
    mut output: File,
    work: impl Fn(&mut Member) -> Result<Vec<u64>>,
) -> ! {
    // SAFETY: Takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let bytes = match work(member) {
        Ok(words) => {
            let words = words.into_iter().flat_map(u64::to_ne_bytes);
            std::iter::once(WORDS).chain(words).collect()
        }
        Err(error) => {
            // The parent may be waiting for this one to get ready.
            let mut bytes = vec![error.word().as_bytes()[0]];
            bytes.extend_from_slice(error.to_string().as_bytes());
            bytes
        }
    };
    let broken = bytes.first() != Some(&WORDS);
    let _ = output.write_all(&bytes);
    drop(output);
    if broken {
        let _ = member.ready.write_all(&[BROKEN]);
    }
    // SAFETY: Ends the child at once; the parent's buffers must not be written twice.
    unsafe { libc::_exit(0) }
}
