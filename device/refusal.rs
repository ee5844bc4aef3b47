// SPDX-License-Identifier: GPL-2.0

//! What a control file refused: one line in the log, and the same line in `last_error`.
//!
//! A handler that knows what would have been right says so by [`Refusals::refuse`]. Every write that
//! failed, with such words or without, then comes to [`Refusals::settle`] with its errno; for those
//! without, the state of the disk is the reason, and the errno tells which.
//!
//! The line survives reset and later writes that succeed: it is there for whoever looks after a
//! script has failed, and goes with the disk.
//!
//! # Locks
//!
//! One mutex, which protects the kept line. It is innermost: nothing is taken under it.
//!
//! # Context
//!
//! Task context; may sleep.

use crate::kapi::{
    clock::RateLimit,
    log::Quoted,
    sched,
    sysfs::Emit, //
};
use core::fmt::Write;
use kernel::{
    fmt,
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// Longest line that is kept, in bytes: a quoted text in full, and the longest list of legal words.
const MAX_LINE_BYTES: usize = 512;

/// The last refusal of a disk or of the control class.
#[pin_data]
pub(crate) struct Refusals {
    prefix: &'static str,
    number: Option<u32>,
    #[pin]
    last: Mutex<Last>,
    /// For what a busy script may try again and again.
    state_lines: RateLimit,
}

/// A line, and who is told.
///
/// # Invariants
///
/// The first `len` bytes of `line` are text.
struct Last {
    line: [u8; MAX_LINE_BYTES],
    len: usize,
    error: Option<Error>,
    /// The task whose handler wrote the line and whose errno is still to come.
    task: Option<i32>,
}

impl Last {
    const NONE: Self = Self {
        line: [0; MAX_LINE_BYTES],
        len: 0,
        error: None,
        task: None,
    };

    fn note(&mut self, line: fmt::Arguments<'_>) {
        let mut out = Emit::new(&mut self.line);
        // What does not fit is cut.
        let _ = out.write_fmt(line);
        self.len = out.len();
        self.error = None;
        self.task = None;
    }

    fn as_str(&self) -> &str {
        let text = self.line.get(..self.len).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or("?")
    }
}

impl Refusals {
    /// Returns an initializer for a place that holds nothing yet.
    pub(crate) fn new(prefix: &'static str, number: Option<u32>) -> impl PinInit<Self> {
        pin_init!(Self {
            prefix,
            number,
            last <- new_mutex!(Last::NONE, "rzram last refusal"),
            state_lines: RateLimit::new(),
        })
    }

    /// Logs and keeps a text that a control file refuses, and what it would have taken.
    ///
    /// The caller is a handler that is about to fail.
    ///
    /// # Context
    ///
    /// May sleep; takes the refusal's mutex.
    pub(crate) fn refuse(&self, file: &str, text: &[u8], legal: impl fmt::Display) {
        let text = Quoted(text);
        let mut last = self.last.lock();
        last.note(fmt!("{}: '{}' refused, write {}", file, text, legal));
        last.task = Some(sched::task_id());
        self.log(&last);
    }

    /// Takes the errno of a write that failed; keeps a line of its own if the handler left none.
    ///
    /// # Context
    ///
    /// As [`Refusals::refuse`], and by the same task.
    pub(crate) fn settle(&self, file: &str, text: &[u8], error: Error) {
        let mut last = self.last.lock();
        if last.task == Some(sched::task_id()) {
            last.task = None;
            last.error = Some(error);
            return;
        }
        let (text, reason) = (Quoted(text), reason(file, error));
        last.note(fmt!("{}: '{}' refused, {}", file, text, reason));
        last.error = Some(error);
        if self.state_lines.allows() {
            self.log(&last);
        }
    }

    /// Prints the last refusal: errno, file, text and reason; `none` if there was none.
    ///
    /// # Context
    ///
    /// As [`Refusals::refuse`].
    pub(crate) fn show(&self, out: &mut Emit<'_>) -> Result {
        let last = self.last.lock();
        let line = last.as_str();
        let done = match last.error.map(|e| (e.name(), e.to_errno())) {
            _ if line.is_empty() => out.write_str("none\n"),
            None => out.write_fmt(fmt!("{}\n", line)),
            Some((Some(name), _)) => out.write_fmt(fmt!("{} {}\n", name, line)),
            Some((None, number)) => out.write_fmt(fmt!("{} {}\n", number, line)),
        };
        done.map_err(|_| ENOSPC)
    }

    fn log(&self, last: &Last) {
        match self.number {
            Some(number) => pr_warn!("{}{}: {}\n", self.prefix, number, last.as_str()),
            None => pr_warn!("{}: {}\n", self.prefix, last.as_str()),
        }
    }
}

/// Returns why a write that was right in itself failed.
fn reason(file: &str, error: Error) -> &'static str {
    match (file, error) {
        ("reset" | "hot_remove", EBUSY) => "the disk is open, or being reset",
        ("hot_remove", ENODEV) => "there is no disk of this number",
        ("disksize", EINVAL) => "a codec does not take its parameters, see algorithm_params",
        (_, EPERM) => "a path needs CAP_SYS_ADMIN",
        ("algorithm_params", EINVAL) => "the codec is not chosen, or the dictionary is no file",
        (_, EBUSY) => "the disk has a size, write 1 to reset first",
        (_, EINVAL) => "the disk has no size yet, write one to disksize first",
        (_, ENODEV) => "the disk has no backing device",
        (_, EAGAIN) => "another pass over the slots is under way",
        (_, EINTR) => "the writer was killed, or the disk reset or removed",
        (_, ENOMEM) => "there is not enough memory",
        (_, E2BIG) => "it is longer than any name",
        ("algorithm_params", _) => "the dictionary cannot be read",
        _ => "it could not be done",
    }
}
