// SPDX-License-Identifier: GPL-2.0

//! Command lines of the form `WORD... [--name VALUE]... [--flag]...`.

use std::str::FromStr;

/// A command line that is being read.
pub struct Args {
    words: Vec<String>,
    options: Vec<(String, String)>,
    flags: Vec<String>,
}

impl Args {
    /// Reads the program's arguments; names in `flags` take no value.
    ///
    /// # Errors
    ///
    /// An option without its value.
    pub fn from_env(flags: &[&str]) -> Result<Self, String> {
        let mut read = Self {
            words: Vec::new(),
            options: Vec::new(),
            flags: Vec::new(),
        };
        let mut rest = std::env::args().skip(1);
        while let Some(word) = rest.next() {
            match word.strip_prefix("--") {
                None => read.words.push(word),
                Some(name) if flags.contains(&name) => read.flags.push(name.to_owned()),
                Some(name) => {
                    let value = rest.next().ok_or(format!("--{name} needs a value"))?;
                    read.options.push((name.to_owned(), value));
                }
            }
        }
        Ok(read)
    }

    /// Returns the plain word number `index`.
    ///
    /// # Errors
    ///
    /// There is none; `what` names it in the message.
    pub fn word(&self, index: usize, what: &str) -> Result<&str, String> {
        let word = self.words.get(index).ok_or(format!("missing {what}"))?;
        Ok(word)
    }

    /// Returns the number in the plain word number `index`.
    ///
    /// # Errors
    ///
    /// As [`Args::word`], or no number.
    pub fn number<T: FromStr>(&self, index: usize, what: &str) -> Result<T, String> {
        let word = self.word(index, what)?;
        word.parse()
            .map_err(|_| format!("{what}: bad value {word}"))
    }

    /// Returns the value of option `name`, or `default`.
    ///
    /// # Errors
    ///
    /// A value of the wrong form.
    pub fn option<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.options.iter().rfind(|(key, _)| key == name) {
            None => Ok(default),
            Some((_, value)) => value
                .parse()
                .map_err(|_| format!("--{name}: bad value {value}")),
        }
    }

    /// Returns whether flag `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }
}
