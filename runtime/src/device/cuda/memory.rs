//! Allocations on a GPU.

use super::failed;
use crate::error::Error;
use cudarc::driver::{
    CudaContext,
    result::{self, DriverError},
    sys,
};
use std::{any::Any, sync::Arc};

/// Memory on a GPU, freed with the value if it is our own.
pub(crate) struct CudaMemory {
    context: Arc<CudaContext>,
    /// 0 for an empty allocation, which the driver does not offer.
    pointer: sys::CUdeviceptr,
    bytes: usize,
    owner: Owner,
}

/// Who frees it.
enum Owner {
    /// This value.
    Own,
    /// Another, which is kept until then.
    Other(#[allow(dead_code, reason = "kept for its destructor")] Option<Box<dyn Any + Send + Sync>>),
}

impl CudaMemory {
    /// An allocation without a value.
    ///
    /// # Errors
    /// The driver's; [`Error::OutOfMemory`], naming `device`.
    pub(super) fn allocate(context: &Arc<CudaContext>, device: &str, bytes: usize) -> Result<Self, Error> {
        context.bind_to_thread().map_err(failed("making the device current"))?;
        let pointer = if bytes == 0 {
            0
        } else {
            // SAFETY: the context is current.
            match unsafe { result::malloc_sync(bytes) } {
                Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                    let (free, _) = result::mem_get_info().map_err(failed("asking for free memory"))?;
                    let (bytes, free) = (bytes as u128, free as u64);
                    return Err(Error::OutOfMemory { device: device.into(), bytes, free });
                }
                other => other.map_err(failed("allocating memory"))?,
            }
        };
        Ok(CudaMemory { context: context.clone(), pointer, bytes, owner: Owner::Own })
    }

    /// Memory that someone else frees, not before `keep` is dropped.
    pub(super) fn foreign(
        context: &Arc<CudaContext>,
        pointer: u64,
        bytes: usize,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        CudaMemory { context: context.clone(), pointer, bytes, owner: Owner::Other(keep) }
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Bytes from an offset on; what wrote them has ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn download(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, Error> {
        assert!(offset + bytes <= self.bytes, "a tensor inside the allocation");
        let mut data = vec![0; bytes];
        if !data.is_empty() {
            self.context.bind_to_thread().map_err(failed("making the device current"))?;
            // SAFETY: the range is inside, and what wrote it has ended.
            unsafe { result::memcpy_dtoh_sync(&mut data, self.pointer + offset as u64) }
                .map_err(failed("copying from the device"))?;
        }
        Ok(data)
    }

    /// Overwrites bytes from an offset on, and returns when they are there; what uses them has ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn upload(&self, offset: usize, data: &[u8]) -> Result<(), Error> {
        assert!(offset + data.len() <= self.bytes, "a tensor inside the allocation");
        if !data.is_empty() {
            self.context.bind_to_thread().map_err(failed("making the device current"))?;
            // SAFETY: the range is inside, and nothing uses it.
            unsafe { result::memcpy_htod_sync(self.pointer + offset as u64, data) }
                .map_err(failed("copying to the device"))?;
            // A small copy from pageable memory returns before it has arrived, and our streams do not wait for the
            // driver's.
            // SAFETY: the null stream always exists.
            unsafe { result::stream::synchronize(result::stream::null()) }
                .map_err(failed("copying to the device"))?;
        }
        Ok(())
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Own) && self.pointer != 0 && self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `malloc_sync`, freed once. A failure leaves it to the end of the process.
            let _ = unsafe { result::free_sync(self.pointer) };
        }
    }
}
