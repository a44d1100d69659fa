//! Page-locked memory of the host.

use super::{CudaDevice, failed};
use crate::error::Error;
use cudarc::driver::{CudaContext, result, sys};
use std::{
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::Arc,
};

/// Bytes of the host that every GPU can copy from and to while the host does something else.
pub(crate) struct CudaPinned {
    context: Arc<CudaContext>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain bytes, which `&mut` alone changes.
unsafe impl Send for CudaPinned {}
// SAFETY: as above.
unsafe impl Sync for CudaPinned {}

impl CudaDevice {
    /// So many zeros, at least one.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn pinned(&self, bytes: usize) -> Result<CudaPinned, Error> {
        self.bind()?;
        let what = "allocating pinned memory";
        // SAFETY: a context is current.
        let start =
            unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) }.map_err(failed(what))?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| Error::Cuda { what, code: "no address".into() })?;
        // SAFETY: so many bytes were just allocated.
        unsafe { start.write_bytes(0, bytes) };
        Ok(CudaPinned { context: self.context.clone(), start, bytes })
    }
}

impl Deref for CudaPinned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are there, and have values.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for CudaPinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for CudaPinned {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `malloc_host`, freed once. A failure leaves it to the end of the process.
            let _ = unsafe { result::free_host(self.start.as_ptr().cast()) };
        }
    }
}
