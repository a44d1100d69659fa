//! The driver's stream-ordered allocator: a pool of a GPU's memory. Where the GPU has no pools
//! (`CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED` is 0, as for virtual GPUs and on Windows with older drivers), memory comes
//! from `cuMemAlloc` instead, with the same contract: the host waits for a stream before it frees what was used on it.

use super::{CudaMemory, failed};
use crate::{error::Error, memory::lock, usage::MemoryUse};
use cudarc::driver::{
    CudaContext, CudaStream,
    result::{self, DriverError, mem_pool},
    sys,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// A pool of its own, so that what other libraries of the process agreed on for the device's default one stays.
pub(crate) struct Pool {
    context: Arc<CudaContext>,
    /// Name of the device.
    device: Arc<str>,
    source: Source,
    /// Ordinals of the devices that may access it directly, or cannot.
    peers: Mutex<Vec<usize>>,
}

/// Where memory comes from.
enum Source {
    Pool(sys::CUmemoryPool),
    /// The driver's other allocator, with the bytes that were taken from it.
    Direct(AtomicU64),
}

// SAFETY: pool handles are process-wide; the driver may be called from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// An empty pool that keeps what is freed until it is trimmed, or what does for one where there are none.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new(context: &Arc<CudaContext>, device: Arc<str>) -> Result<Self, Error> {
        match context.has_async_alloc() {
            true => Self::pooled(context, device),
            false => Ok(Self::direct(context, device)),
        }
    }

    /// Without a pool.
    fn direct(context: &Arc<CudaContext>, device: Arc<str>) -> Self {
        let source = Source::Direct(AtomicU64::new(0));
        Pool { context: context.clone(), device, source, peers: Mutex::default() }
    }

    fn pooled(context: &Arc<CudaContext>, device: Arc<str>) -> Result<Self, Error> {
        let location = sys::CUmemLocation_st {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: context.cu_device(),
        };
        let properties = sys::CUmemPoolProps_st {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location,
            win32SecurityAttributes: std::ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        };
        // SAFETY: the description lives as long as the call.
        let raw = unsafe { mem_pool::create(&properties) }.map_err(failed("making a memory pool"))?;
        let pool =
            Pool { context: context.clone(), device, source: Source::Pool(raw), peers: Mutex::default() };
        pool.keep(u64::MAX)?;
        Ok(pool)
    }

    /// Lets the pool keep so many bytes that are not in use whenever the host waits for the device. Without pools nothing is
    /// kept.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn keep(&self, mut bytes: u64) -> Result<(), Error> {
        let Source::Pool(raw) = self.source else { return Ok(()) };
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the pool is live, and this attribute is 64 bits.
        unsafe { mem_pool::set_attribute(raw, threshold, (&raw mut bytes).cast()) }
            .map_err(failed("setting what a memory pool keeps"))
    }

    /// Memory without a value, for what is queued on `stream` from now on.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's.
    pub(super) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        stream: &Arc<CudaStream>,
    ) -> Result<CudaMemory, Error> {
        let allocate = || {
            self.context.bind_to_thread()?;
            match &self.source {
                // SAFETY: pool and stream are live.
                Source::Pool(raw) => unsafe { mem_pool::alloc_async(*raw, bytes, stream.cu_stream()) },
                Source::Direct(taken) => {
                    // SAFETY: it asks for memory without a value.
                    let pointer = unsafe { result::malloc_sync(bytes) }?;
                    taken.fetch_add(bytes as u64, Ordering::Relaxed);
                    Ok(pointer)
                }
            }
        };
        let full = |e: &DriverError| e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let pointer = match bytes {
            0 => 0,
            _ => match allocate() {
                Err(e) if full(&e) => {
                    // What is still to be freed, and pieces that are too small.
                    self.trim()?;
                    match allocate() {
                        Err(e) if full(&e) => {
                            let (device, bytes) = (self.device.to_string(), bytes as u128);
                            return Err(Error::OutOfMemory { device, bytes, memory: self.usage()? });
                        }
                        other => other,
                    }
                }
                other => other,
            }
            .map_err(failed("allocating memory"))?,
        };
        Ok(CudaMemory::pooled(self, stream, pointer, bytes))
    }

    /// Frees an allocation when the work of a stream so far has ended. Without pools the host waits for it. A failure leaves
    /// the memory to the end of the process.
    ///
    /// # Safety
    /// It is this pool's, is freed once, and work that uses it is in the order of the stream.
    pub(super) unsafe fn free(&self, pointer: u64, bytes: usize, stream: &CudaStream) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        match &self.source {
            Source::Pool(_) => {
                // SAFETY: the caller's.
                let _ = unsafe { result::free_async(pointer, stream.cu_stream()) };
            }
            Source::Direct(taken) => {
                // SAFETY: nothing uses it once the stream is empty.
                if stream.synchronize().is_ok() && unsafe { result::free_sync(pointer) }.is_ok() {
                    taken.fetch_sub(bytes as u64, Ordering::Relaxed);
                }
            }
        }
    }

    /// How much of the device's memory is taken.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn usage(&self) -> Result<MemoryUse, Error> {
        use sys::CUmemPool_attribute as Attribute;
        let what = "asking for free memory";
        self.context.bind_to_thread().map_err(failed(what))?;
        let get = |attribute| {
            let raw = match &self.source {
                Source::Pool(raw) => *raw,
                Source::Direct(taken) => return Ok(taken.load(Ordering::Relaxed)),
            };
            let mut bytes = 0u64;
            // SAFETY: the pool is live, and these attributes are 64 bits.
            unsafe { mem_pool::get_attribute(raw, attribute, (&raw mut bytes).cast()) }
                .map(|()| bytes)
                .map_err(failed(what))
        };
        let (free, _) = result::mem_get_info().map_err(failed(what))?;
        Ok(MemoryUse {
            in_use: get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
            reserved: get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            free: free as u64,
        })
    }

    /// Waits for the device and gives back what is not in use.
    ///
    /// # Errors
    /// Those of the work that was waited for, and the driver's.
    pub(crate) fn trim(&self) -> Result<(), Error> {
        self.context.synchronize().map_err(failed("waiting for the device"))?;
        let Source::Pool(raw) = self.source else { return Ok(()) };
        // SAFETY: the pool is live.
        unsafe { mem_pool::trim_to(raw, 0) }.map_err(failed("trimming a memory pool"))
    }

    /// Lets another GPU access the memory directly, if the machine can do that: pools have no part in what contexts
    /// allow each other. Other memory has, and copies between devices need neither.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn share_with(&self, peer: &CudaContext) -> Result<(), Error> {
        let Source::Pool(raw) = self.source else { return Ok(()) };
        let mut peers = lock(&self.peers);
        if peer.ordinal() == self.context.ordinal() || peers.contains(&peer.ordinal()) {
            return Ok(());
        }
        let what = "opening memory to another device";
        let mut able = 0;
        // SAFETY: it writes one integer.
        unsafe { sys::cuDeviceCanAccessPeer(&mut able, peer.cu_device(), self.context.cu_device()) }
            .result()
            .map_err(failed(what))?;
        if able != 0 {
            let access = sys::CUmemAccessDesc_st {
                location: sys::CUmemLocation_st {
                    type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                    id: peer.cu_device(),
                },
                flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            };
            // SAFETY: the pool is live, and the description lives as long as the call.
            unsafe { sys::cuMemPoolSetAccess(raw, &access, 1) }.result().map_err(failed(what))?;
        }
        peers.push(peer.ordinal());
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Source::Pool(raw) = self.source
            && self.context.bind_to_thread().is_ok()
        {
            // SAFETY: made once, destroyed once; the driver waits for what is still to be freed. A failure leaves it to
            // the end of the process.
            let _ = unsafe { mem_pool::destroy(raw) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::CudaQueue;

    /// What GPUs without pools do, on one that has them.
    #[test]
    fn memory_without_a_pool_is_freed_behind_its_work() {
        if !crate::device::driver_present() {
            eprintln!("skipped: no GPU");
            return;
        }
        let Ok(context) = CudaContext::new(0) else {
            eprintln!("skipped: no GPU");
            return;
        };
        let pool = Arc::new(Pool::direct(&context, "without pools".into()));
        let queue = CudaQueue::new(context.new_stream().unwrap(), pool.clone());
        pool.keep(0).unwrap();
        let bytes = 64 << 20;
        for round in 1..=20u8 {
            let memory = queue.allocate(bytes).unwrap();
            let (other, used) = (queue.allocate(1).unwrap(), bytes as u64 + 1);
            assert_eq!((pool.usage().unwrap().in_use, pool.usage().unwrap().reserved), (used, used));
            // SAFETY: it is as large, and no one else's.
            (0..8).for_each(|_| unsafe { queue.fill(memory.pointer(), round, bytes).unwrap() });
            drop(other);
            queue.free(memory);
            assert_eq!(pool.usage().unwrap().in_use, 0);
        }
        pool.trim().unwrap();
        let error = queue.allocate(1 << 60).map(drop).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        let empty = queue.allocate(0).unwrap();
        assert_eq!((empty.pointer(), pool.usage().unwrap().in_use), (0, 0));
    }
}
