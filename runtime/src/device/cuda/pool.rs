//! The driver's stream-ordered allocator: a pool of a GPU's memory.

use super::{CudaMemory, failed};
use crate::{error::Error, memory::lock, usage::MemoryUse};
use cudarc::driver::{
    CudaContext, CudaStream,
    result::{self, DriverError, mem_pool},
    sys,
};
use std::sync::{Arc, Mutex};

/// A pool of its own, so that what other libraries of the process agreed on for the device's default one stays.
pub(crate) struct Pool {
    context: Arc<CudaContext>,
    /// Name of the device.
    device: Arc<str>,
    raw: sys::CUmemoryPool,
    /// Ordinals of the devices that may access it directly, or cannot.
    peers: Mutex<Vec<usize>>,
}

// SAFETY: pool handles are process-wide; the driver may be called from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// An empty pool that keeps what is freed until it is trimmed.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn new(context: &Arc<CudaContext>, device: Arc<str>) -> Result<Self, Error> {
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
        let pool = Pool { context: context.clone(), device, raw, peers: Mutex::default() };
        pool.keep(u64::MAX)?;
        Ok(pool)
    }

    /// Lets the pool keep so many bytes that are not in use whenever the host waits for the device.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn keep(&self, mut bytes: u64) -> Result<(), Error> {
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the pool is live, and this attribute is 64 bits.
        unsafe { mem_pool::set_attribute(self.raw, threshold, (&raw mut bytes).cast()) }
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
            // SAFETY: pool and stream are live.
            unsafe { mem_pool::alloc_async(self.raw, bytes, stream.cu_stream()) }
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

    /// How much of the device's memory is taken.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn usage(&self) -> Result<MemoryUse, Error> {
        use sys::CUmemPool_attribute as Attribute;
        let what = "asking for free memory";
        self.context.bind_to_thread().map_err(failed(what))?;
        let get = |attribute| {
            let mut bytes = 0u64;
            // SAFETY: the pool is live, and these attributes are 64 bits.
            unsafe { mem_pool::get_attribute(self.raw, attribute, (&raw mut bytes).cast()) }
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
        // SAFETY: the pool is live.
        unsafe { mem_pool::trim_to(self.raw, 0) }.map_err(failed("trimming a memory pool"))
    }

    /// Lets another GPU access the memory directly, if the machine can do that: pools have no part in what contexts
    /// allow each other.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn share_with(&self, peer: &CudaContext) -> Result<(), Error> {
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
            unsafe { sys::cuMemPoolSetAccess(self.raw, &access, 1) }.result().map_err(failed(what))?;
        }
        peers.push(peer.ordinal());
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: made once, destroyed once; the driver waits for what is still to be freed. A failure leaves it to
            // the end of the process.
            let _ = unsafe { mem_pool::destroy(self.raw) };
        }
    }
}
