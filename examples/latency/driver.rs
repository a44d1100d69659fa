//! The driver's own calls for the same kernel: what a launch cannot be faster than.

use std::{
    ffi::{CString, c_void},
    ptr::null_mut,
    sync::Arc,
};
use tilewright::interop::cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

/// A kernel of one pointer and one extent, loaded a second time, on a stream of its own.
pub struct Driver {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    function: sys::CUfunction,
    pointer: u64,
    extent: i32,
}

/// A graph that can be launched.
#[derive(Clone, Copy)]
pub struct Captured(sys::CUgraphExec);

impl Driver {
    /// The only entry of the text, for a tensor at an address.
    pub fn new(ptx: &str, pointer: u64, extent: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let context = CudaContext::new(0)?;
        context.bind_to_thread()?;
        let entry = ptx.split(".entry ").nth(1).and_then(|rest| rest.split('(').next()).ok_or("no entry")?;
        let (text, entry) = (CString::new(ptx)?, CString::new(entry.trim())?);
        // SAFETY: the text ends with a zero and is a module with that entry.
        let function =
            unsafe { result::module::get_function(result::module::load_data(text.as_ptr().cast())?, entry)? };
        Ok(Driver { stream: context.new_stream()?, context, function, pointer, extent: extent as i32 })
    }

    /// `cuLaunchKernel`.
    pub fn launch(&mut self) {
        let mut parameters: [*mut c_void; 2] =
            [(&raw mut self.pointer).cast(), (&raw mut self.extent).cast()];
        let (grid, block) = ((self.extent as u32 / 128, 1, 1), (128, 1, 1));
        // SAFETY: the parameters are those of the kernel, and the tensor is as large.
        unsafe {
            result::launch_kernel(self.function, grid, block, 0, self.stream.cu_stream(), &mut parameters)
        }
        .expect("it fits");
    }

    /// `cuCtxGetCurrent`, and `cuCtxSetCurrent` where it is another's.
    pub fn make_current(&self) {
        self.context.bind_to_thread().expect("it is open");
    }

    /// A graph of so many launches.
    pub fn capture(&mut self, launches: usize) -> Result<Captured, DriverError> {
        let (stream, mut executable) = (self.stream.cu_stream(), null_mut());
        // SAFETY: the stream is live, and its capture is ended before anything else; what was captured is live until the
        // process ends.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            result::stream::begin_capture(stream, mode)?;
            (0..launches).for_each(|_| self.launch());
            let graph = result::stream::end_capture(stream)?;
            sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0).result()?;
        }
        Ok(Captured(executable))
    }

    /// `cuGraphLaunch`.
    pub fn replay(&self, graph: Captured) {
        // SAFETY: the graph was captured from this stream, and the tensor is live.
        unsafe { sys::cuGraphLaunch(graph.0, self.stream.cu_stream()) }.result().expect("it fits");
    }

    /// Waits for all of it.
    pub fn wait(&self) {
        self.stream.synchronize().expect("the kernels are right");
    }
}
