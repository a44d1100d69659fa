//! Memory on a GPU.

use super::{Pool, failed};
use crate::error::Error;
use cudarc::driver::{CudaContext, CudaStream, result, sys};
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
    /// This value, when the work of the stream so far has ended.
    Pool(Arc<Pool>, Arc<CudaStream>),
    /// Another, which is kept until then.
    Other(#[allow(dead_code, reason = "kept for its destructor")] Option<Box<dyn Any + Send + Sync>>),
}

impl CudaMemory {
    /// An allocation of a pool, which was made and is freed in the order of a stream.
    pub(super) fn pooled(pool: &Arc<Pool>, stream: &Arc<CudaStream>, pointer: u64, bytes: usize) -> Self {
        let owner = Owner::Pool(pool.clone(), stream.clone());
        CudaMemory { context: stream.context().clone(), pointer, bytes, owner }
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

    /// Whether it is freed in the order of a stream.
    pub(crate) fn is_pooled(&self) -> bool {
        matches!(self.owner, Owner::Pool(..))
    }

    /// Has it freed in the order of this stream.
    pub(super) fn free_on(&mut self, stream: &Arc<CudaStream>) {
        if let Owner::Pool(_, home) = &mut self.owner {
            *home = stream.clone();
        }
    }

    /// Lets another GPU access it directly, if the machine can do that and the memory is our own.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn share_with(&self, peer: &CudaContext) -> Result<(), Error> {
        match &self.owner {
            Owner::Pool(pool, _) => pool.share_with(peer),
            Owner::Other(_) => Ok(()),
        }
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
        if let Owner::Pool(pool, stream) = &self.owner
            && self.pointer != 0
        {
            // SAFETY: allocated from the pool, freed once, after the work that uses it in the order of the stream.
            unsafe { pool.free(self.pointer, self.bytes, stream) };
        }
    }
}
