// SPDX-License-Identifier: GPL-2.0

//! The plan: one job a line, `key=value` words separated by blanks.

use std::str::FromStr;

use crate::error::Error;
use crate::error::Result;

/// One job: one measurement of one driver.
pub struct Job {
    words: Vec<(String, String)>,
}

impl Job {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self> {
        let words = line.split_whitespace().map(|word| {
            let pair = word.split_once('=');
            pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
                .ok_or_else(|| Error::Failed(format!("bad word in the plan: {word}")))
        });
        Ok(Self {
            words: words.collect::<Result<_>>()?,
        })
    }

    /// Returns the value of a key.
    pub fn find(&self, key: &str) -> Option<&str> {
        let mut words = self.words.iter();
        words
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the value of a key that must be there.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.find(key)
            .ok_or_else(|| Error::Failed(format!("the plan lacks {key}=")))
    }

    /// Returns a number that must be there.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<T> {
        let text = self.text(key)?;
        text.parse()
            .map_err(|_| Error::Failed(format!("the plan has {key}={text}")))
    }

    /// Returns a number, or `default` if the plan is silent.
    pub fn number_or<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.find(key) {
            Some(_) => self.number(key),
            None => Ok(default),
        }
    }
}
