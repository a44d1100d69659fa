//! CUDA streams and events.

use super::{CudaMemory, Loaded, Pool, failed};
use crate::{error::Error, parameters::Parameters};
use cudarc::driver::{
    CudaContext, CudaStream,
    result::{self, DriverError},
    sys,
};
use std::{
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A stream, with what an allocation for its work needs.
pub(crate) struct CudaQueue {
    pub(crate) stream: Arc<CudaStream>,
    pool: Arc<Pool>,
    /// Others know the stream, and may be capturing what it is given.
    shared: AtomicBool,
}

impl CudaQueue {
    pub(super) fn new(stream: Arc<CudaStream>, pool: Arc<Pool>) -> Self {
        CudaQueue { stream, pool, shared: AtomicBool::new(false) }
    }

    /// The stream, for others.
    pub(crate) fn share(&self) -> Arc<CudaStream> {
        self.shared.store(true, Ordering::Relaxed);
        self.stream.clone()
    }

    /// Whether others may be capturing what the stream is given.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    pub(super) fn bind(&self) -> Result<(), Error> {
        self.context().bind_to_thread().map_err(failed("making the device current"))
    }

    /// Memory without a value, for what is queued here from now on; it is freed in the same order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<CudaMemory, Error> {
        self.pool.allocate(bytes, &self.stream)
    }

    /// Frees memory when the work so far has ended.
    pub(crate) fn free(&self, mut memory: CudaMemory) {
        memory.free_on(&self.stream);
    }

    /// Waits for all its work.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.stream.synchronize().map_err(failed("waiting for a stream"))
    }

    /// Makes later work wait for what `other` has been given.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn wait_for(&self, other: &CudaQueue) -> Result<(), Error> {
        // The driver remembers what was recorded: the event may go at once.
        self.wait_event(&other.record(false)?)
    }

    /// Makes later work wait for an event.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn wait_event(&self, event: &CudaEvent) -> Result<(), Error> {
        self.bind()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are live.
        unsafe { result::stream::wait_event(self.stream.cu_stream(), event.raw, flags) }
            .map_err(failed("waiting for an event"))
    }

    /// An event after the work so far.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn record(&self, timed: bool) -> Result<CudaEvent, Error> {
        self.bind()?;
        let event = CudaEvent::new(self.context(), timed)?;
        // SAFETY: both are live, and of one context.
        unsafe { result::event::record(event.raw, self.stream.cu_stream()) }
            .map_err(failed("recording an event"))?;
        Ok(event)
    }

    /// Fills memory.
    ///
    /// # Safety
    /// The memory is live until the work has ended, and no one else uses it meanwhile.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn fill(&self, pointer: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller's.
        unsafe { result::memset_d8_async(pointer, byte, bytes, self.stream.cu_stream()) }
            .map_err(failed("filling memory"))
    }

    /// Does nothing for so long.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn rest(&self, rest: Duration) -> Result<(), Error> {
        unsafe extern "C" fn sleep(rest: *mut c_void) {
            // SAFETY: what was leaked below, once.
            std::thread::sleep(*unsafe { Box::from_raw(rest.cast::<Duration>()) });
        }
        if rest.is_zero() {
            return Ok(());
        }
        self.bind()?;
        let rest = Box::into_raw(Box::new(rest)).cast::<c_void>();
        // SAFETY: the function calls no one of the driver's, and takes what it is given.
        unsafe { result::stream::launch_host_function(self.stream.cu_stream(), sleep, rest) }
            .map_err(failed("queueing a rest"))
    }

    /// Overwrites memory from the host's.
    ///
    /// # Safety
    /// As [`CudaQueue::fill`]; the memory is as large as `data`, which is pageable, or stays as it is until the work has
    /// ended. (The driver stages pageable memory before it returns: CUDA driver API, "API synchronization behavior".)
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn upload(&self, pointer: u64, data: &[u8]) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller's.
        unsafe { result::memcpy_htod_async(pointer, data, self.stream.cu_stream()) }
            .map_err(failed("copying to the device"))
    }

    /// Overwrites the host's memory.
    ///
    /// # Safety
    /// As [`CudaQueue::copy`]; both are live and used by no one else until the work has ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn download(&self, data: &mut [u8], pointer: u64) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller's.
        unsafe { result::memcpy_dtoh_async(data, pointer, self.stream.cu_stream()) }
            .map_err(failed("copying from the device"))
    }

    /// Copies memory of this device.
    ///
    /// # Safety
    /// Both ranges are live until the work has ended, and no one else writes them, or reads the one that is written.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller's.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.cu_stream()) }
            .map_err(failed("copying memory"))
    }

    /// Copies memory of a GPU to memory of this or another one, from offsets on.
    ///
    /// # Safety
    /// As [`CudaQueue::copy`]; both ranges lie inside of their allocations.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn copy_from(
        &self,
        to: &CudaMemory,
        at: usize,
        from: &CudaMemory,
        source: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let (target, origin) = (to.pointer() + at as u64, from.pointer() + source as u64);
        if to.context().cu_ctx() == from.context().cu_ctx() {
            // SAFETY: the caller's.
            return unsafe { self.copy(target, origin, bytes) };
        }
        if bytes == 0 {
            return Ok(());
        }
        to.share_with(from.context())?;
        from.share_with(to.context())?;
        self.bind()?;
        let (ours, theirs, stream) =
            (to.context().cu_ctx(), from.context().cu_ctx(), self.stream.cu_stream());
        // SAFETY: the caller's; each pointer is of its context.
        unsafe { sys::cuMemcpyPeerAsync(target, ours, origin, theirs, bytes, stream) }
            .result()
            .map_err(failed("copying from another device"))
    }

    /// Launches a kernel with these parameters.
    ///
    /// # Safety
    /// The parameters match the entry's parameters, and the kernel touches memory only through pointers to allocations
    /// that live, and that no one else uses, until it has ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn launch(
        &self,
        loaded: &Loaded,
        ctas: u32,
        parameters: &mut Parameters,
    ) -> Result<(), Error> {
        self.bind()?;
        let mut pointers = parameters.pointers();
        if loaded.dependent {
            // SAFETY: the caller's.
            return unsafe { self.launch_early(loaded, ctas, &mut pointers) };
        }
        let (grid, block) = ((ctas, 1, 1), (loaded.threads, 1, 1));
        let (shared, stream) = (loaded.dynamic_shared, self.stream.cu_stream());
        // SAFETY: the function is this context's, the grid and the block have no zero dimension, and the caller
        // vouches for the arguments.
        unsafe { result::launch_kernel(loaded.function, grid, block, shared, stream, &mut pointers) }
            .map_err(failed("launching"))
    }

    /// A programmatic dependent launch. It concerns the kernel that the stream runs before this one, if that lets it begin,
    /// and that kernel alone: behind a copy, what clears memory, or a wait for another stream it begins as any other.
    ///
    /// # Safety
    /// As [`CudaQueue::launch`], where the kernel waits for earlier grids before it touches memory.
    unsafe fn launch_early(
        &self,
        loaded: &Loaded,
        ctas: u32,
        pointers: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let mut early = sys::CUlaunchAttribute_st {
            id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue_union { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig_st {
            gridDimX: ctas,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: loaded.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: loaded.dynamic_shared,
            hStream: self.stream.cu_stream(),
            attrs: &raw mut early,
            numAttrs: 1,
        };
        // SAFETY: as in `launch`; the description lives as long as the call.
        unsafe {
            sys::cuLaunchKernelEx(&config, loaded.function, pointers.as_mut_ptr(), std::ptr::null_mut())
        }
        .result()
        .map_err(failed("launching"))
    }
}

/// A point in a stream's work.
pub(crate) struct CudaEvent {
    context: Arc<CudaContext>,
    raw: sys::CUevent,
}

// SAFETY: event handles are process-wide; the driver may be called from any thread.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl CudaEvent {
    fn new(context: &Arc<CudaContext>, timed: bool) -> Result<Self, Error> {
        let flags = match timed {
            true => sys::CUevent_flags::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let raw = result::event::create(flags).map_err(failed("creating an event"))?;
        Ok(CudaEvent { context: context.clone(), raw })
    }

    /// Whether the work before it has ended.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        self.context.bind_to_thread().map_err(failed("making the device current"))?;
        // SAFETY: the event is live.
        match unsafe { result::event::query(self.raw) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            other => other.map(|()| true).map_err(failed("asking for an event")),
        }
    }

    /// Waits for the work before it.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(failed("making the device current"))?;
        // SAFETY: the event is live.
        unsafe { result::event::synchronize(self.raw) }.map_err(failed("waiting for an event"))
    }

    /// Milliseconds from `start` to this event; both record times and have passed.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn ms_since(&self, start: &CudaEvent) -> Result<f64, Error> {
        self.context.bind_to_thread().map_err(failed("making the device current"))?;
        // SAFETY: both events are live.
        let ms = unsafe { result::event::elapsed(start.raw, self.raw) };
        Ok(ms.map_err(failed("timing work"))?.into())
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: created once, destroyed once.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
