// SPDX-License-Identifier: GPL-2.0

//! Why a job gave no numbers.

use std::fmt;
use std::io;

/// The reasons are kept apart because the runner treats them apart: an absent thing is a finding,
/// a broken premise throws the round away, a failure stops the figure.
#[derive(Debug)]
pub enum Error {
    /// The driver lacks what the job needs.
    Absent(String),
    /// The round would have measured something else than it claims.
    Premise(String),
    /// Something broke.
    Failed(String),
}

/// A job's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the word that the runner knows the reason by.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Absent(_) => "absent",
            Self::Premise(_) => "premise",
            Self::Failed(_) => "error",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Absent(text) | Self::Premise(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

/// Makes an [`Error::Failed`].
pub fn failed<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Failed(text.into()))
}

/// Makes an [`Error::Premise`].
pub fn premise<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Premise(text.into()))
}

/// Names what was done when an operating system call failed.
pub trait Doing<T> {
    /// Turns the error into an [`Error::Failed`] that starts with `what`.
    fn doing(self, what: &str) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: &str) -> Result<T> {
        self.map_err(|cause| Error::Failed(format!("{what}: {cause}")))
    }
}
