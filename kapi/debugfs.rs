// SPDX-License-Identifier: GPL-2.0

//! Directories and read-only files in debugfs, each removed with its owner.
//!
//! The kernel crate does the work; added here are a box that owns a file without naming the type of
//! its data, so that a struct can hold a list of them, and files that are read by record instead of
//! by byte, so that a report of any length needs no buffer of its length.
//!
//! Without CONFIG_DEBUG_FS everything succeeds and shows nothing.
//!
//! # Context
//!
//! Creating and dropping may sleep; dropping waits for running readers, so it must not happen under
//! a lock that a reader takes. Readers run in task context and may sleep.
//!
//! # Errors
//!
//! ENOMEM. As is the custom for debugfs, a name that is taken is not an error: the file is missing.

use core::fmt;
use kernel::{
    debugfs::{
        BinaryWriter,
        File, //
    },
    fs::file::Offset,
    prelude::*,
    sync::Arc,
    uaccess::UserSliceWriter, //
};

/// A directory; it goes when the last handle and the last file in it are gone.
#[derive(Clone)]
pub(crate) struct Dir(kernel::debugfs::Dir);

impl Dir {
    /// Creates a directory at the root of debugfs.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    pub(crate) fn new(name: &CStr) -> Self {
        Self(kernel::debugfs::Dir::new(name))
    }

    /// Creates a directory in this one.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    pub(crate) fn subdir(&self, name: &CStr) -> Self {
        Self(self.0.subdir(name))
    }

    /// Creates a file, mode 0400, that prints `data` by `print` whenever it is opened and read.
    ///
    /// The whole text is collected before any of it is read. It may have any length.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn text<T, F>(&self, name: &CStr, data: Arc<T>, print: &'static F) -> Result<Entry>
    where
        T: Send + Sync + 'static,
        F: Fn(&Arc<T>, &mut fmt::Formatter<'_>) -> fmt::Result + Send + Sync,
    {
        let file = KBox::pin_init(self.0.read_callback_file(name, data, print), GFP_KERNEL)?;
        Entry::new(file)
    }

    /// Creates a file, mode 0400, that is read record by record.
    ///
    /// # Context
    ///
    /// May sleep and allocates.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn records<T: Records>(&self, name: &CStr, data: Arc<T>) -> Result<Entry> {
        let file = KBox::pin_init(self.0.read_binary_file(name, RecordFile(data)), GFP_KERNEL)?;
        Entry::new(file)
    }
}

/// A report that is read by record: the file position counts records, not bytes.
pub(crate) trait Records: Send + Sync + 'static {
    /// Prints whole records from number `position` on, and moves it to the first not printed.
    ///
    /// Printing nothing means the end. What does not fit into `out` any more must not be counted.
    ///
    /// # Context
    ///
    /// May sleep. Several readers may be here at once.
    ///
    /// # Errors
    ///
    /// Any errno makes `read(2)` fail with it.
    fn print(&self, out: &mut UserOut<'_>, position: &mut u64) -> Result;
}

/// The reader's buffer.
pub(crate) struct UserOut<'a> {
    writer: &'a mut UserSliceWriter,
    written: usize,
}

impl UserOut<'_> {
    /// Returns how many bytes still fit.
    pub(crate) fn room(&self) -> usize {
        self.writer.len()
    }

    /// Appends one record and says whether it fitted; one that does not leaves no trace.
    ///
    /// # Context
    ///
    /// May sleep for the reader's memory.
    ///
    /// # Errors
    ///
    /// EFAULT if the reader's buffer is not writable.
    pub(crate) fn write(&mut self, record: &[u8]) -> Result<bool> {
        if record.len() > self.room() {
            return Ok(false);
        }
        self.writer.write_slice(record)?;
        self.written = self.written.saturating_add(record.len());
        Ok(true)
    }
}

/// The data of a file that is read by record.
struct RecordFile<T>(Arc<T>);

impl<T: Records> BinaryWriter for RecordFile<T> {
    fn write_to_slice(&self, writer: &mut UserSliceWriter, offset: &mut Offset) -> Result<usize> {
        let mut position = u64::try_from(*offset)?;
        let mut out = UserOut { writer, written: 0 };
        self.0.print(&mut out, &mut position)?;
        *offset = Offset::try_from(position)?;
        Ok(out.written)
    }
}

/// A file of any kind; dropping it removes the file and waits for its readers.
pub(crate) struct Entry {
    _file: KBox<dyn Owned>,
}

/// Anything that ends by being dropped.
trait Owned: Send + Sync {}

/// A pinned file, which may be moved as a whole.
struct Pinned<T: 'static> {
    _file: Pin<KBox<File<T>>>,
}

impl<T: Send + Sync> Owned for Pinned<T> {}

impl Entry {
    fn new<T: Send + Sync + 'static>(file: Pin<KBox<File<T>>>) -> Result<Self> {
        let file: KBox<dyn Owned> = KBox::new(Pinned { _file: file }, GFP_KERNEL)?;
        Ok(Self { _file: file })
    }
}
