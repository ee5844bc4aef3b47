// SPDX-License-Identifier: GPL-2.0

//! Words that a user wrote, made safe for the log.
//!
//! Pure text: any context, nothing sleeps, nothing fails but the formatter.

use core::fmt::Write;
use kernel::fmt;

/// Bytes that a user wrote, shown safely: one line, printable, cut after [`Self::MAX_BYTES`].
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl Quoted<'_> {
    /// Longest text that is shown in full, in bytes.
    pub(crate) const MAX_BYTES: usize = 64;
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.strip_suffix(b"\n").unwrap_or(self.0);
        let shown = text.get(..Self::MAX_BYTES).unwrap_or(text);
        for byte in shown {
            for shown in byte.escape_ascii() {
                out.write_char(char::from(shown))?;
            }
        }
        if shown.len() < text.len() {
            out.write_str("...")?;
        }
        Ok(())
    }
}
