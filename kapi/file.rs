// SPDX-License-Identifier: GPL-2.0

//! Files by their path: reading one that a user named, and whether there is one, in the user's own
//! context.
//!
//! # Context
//!
//! May sleep; allocates; opens the path with the credentials of the calling thread.

use super::num::u32_to_usize;
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*,
    str::CString, //
};

/// Longest file that is read, in bytes: what a dictionary may be, and more than any codec uses.
const MAX_BYTES: usize = u32_to_usize(i32::MAX.unsigned_abs());

/// The buffer that the kernel allocates for a file; freed when dropped.
struct FileBuffer {
    ptr: *mut c_void,
    len: usize,
}

impl Drop for FileBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `kernel_read_file_from_path`, which asks its callers to free it with
        // a function for vmalloc memory; null is allowed.
        unsafe { bindings::kvfree(self.ptr) };
    }
}

/// Returns whether the calling thread may have the kernel open paths that it names: a root without
/// this right may be confined to a part of the file system.
///
/// # Context
///
/// Task context; does not sleep.
pub(crate) fn may_name_paths() -> bool {
    // CAST: a small constant.
    const ADMIN: c_int = bindings::CAP_SYS_ADMIN as c_int;
    // SAFETY: no preconditions beyond the context above.
    unsafe { bindings::capable(ADMIN) }
}

/// Returns whether something is at `path` that can be opened.
///
/// # Context
///
/// As the module.
pub(crate) fn exists(path: &CStr) -> bool {
    // SAFETY: the path is a C string; opened for reading, which is flag 0.
    match from_err_ptr(unsafe { bindings::filp_open(path.as_char_ptr(), 0, 0) }) {
        Ok(file) => {
            // SAFETY: our reference; nothing was put into the file.
            unsafe { bindings::filp_close(file, core::ptr::null_mut()) };
            true
        }
        Err(_) => false,
    }
}

/// Returns the content of the regular file at `path`.
///
/// # Context
///
/// As the module.
///
/// # Errors
///
/// `EPERM` without the right to administer the system; what `open(2)` says; `EINVAL` for an empty file and for what is no regular file; `EFBIG` from
/// 2 GiB on; `ETXTBSY` for one that is open for writing; `ENOMEM`.
pub(crate) fn read_whole(path: &[u8]) -> Result<KVVec<u8>> {
    if !may_name_paths() {
        return Err(EPERM);
    }
    let mut name = KVec::with_capacity(path.len().saturating_add(1), GFP_KERNEL)?;
    name.extend_from_slice(path, GFP_KERNEL)?;
    name.push(0, GFP_KERNEL)?;
    let name = CStr::from_bytes_with_nul(&name).map_err(|_| EINVAL)?;
    let name = CString::try_from(name)?;
    let mut buffer = FileBuffer {
        ptr: core::ptr::null_mut(),
        len: 0,
    };
    // SAFETY:
    // - The path is a C string for the time of the call.
    // - A null buffer asks the kernel to allocate one, which `buffer` takes over, error or not.
    // - No file size is asked for.
    let read = unsafe {
        bindings::kernel_read_file_from_path(
            name.as_char_ptr(),
            0,
            &mut buffer.ptr,
            MAX_BYTES,
            core::ptr::null_mut(),
            bindings::kernel_read_file_id_READING_POLICY,
        )
    };
    if read < 0 {
        // An errno is small; what is not one does not occur.
        return Err(i32::try_from(read).map_or(EIO, Error::from_errno));
    }
    buffer.len = read.unsigned_abs();
    let mut bytes = KVVec::with_capacity(buffer.len, GFP_KERNEL)?;
    // SAFETY: the kernel has filled this many bytes of the buffer.
    let content = unsafe { core::slice::from_raw_parts(buffer.ptr.cast::<u8>(), buffer.len) };
    bytes.extend_from_slice(content, GFP_KERNEL)?;
    Ok(bytes)
}
