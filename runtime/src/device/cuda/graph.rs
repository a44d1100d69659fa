//! CUDA graphs of kernels in a row.

use super::{CudaQueue, Loaded, failed};
use crate::{error::Error, parameters::Parameters};
use cudarc::driver::{CudaContext, sys};
use smallvec::SmallVec;
use std::{ffi::c_void, ptr::null_mut, sync::Arc};

/// A graph in which each kernel waits for the one before it.
pub(crate) struct CudaGraph {
    context: Arc<CudaContext>,
    graph: sys::CUgraph,
    nodes: Vec<sys::CUgraphNode>,
    /// Null until [`CudaGraph::instantiate`].
    executable: sys::CUgraphExec,
}

// SAFETY: graph handles are process-wide; what changes a graph takes it by `&mut`.
unsafe impl Send for CudaGraph {}

/// What a node is told, whose pointers live as long as `values` and `pointers`.
fn parameters(
    loaded: &Loaded,
    ctas: u32,
    values: &mut Parameters,
    pointers: &mut SmallVec<[*mut c_void; 24]>,
) -> sys::CUDA_KERNEL_NODE_PARAMS {
    *pointers = values.pointers();
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: loaded.function,
        gridDimX: ctas,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: loaded.threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: loaded.dynamic_shared,
        kernelParams: pointers.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

impl CudaGraph {
    /// No kernels yet.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn new(queue: &CudaQueue) -> Result<Self, Error> {
        queue.bind()?;
        let mut graph = null_mut();
        // SAFETY: it writes one handle.
        unsafe { sys::cuGraphCreate(&mut graph, 0) }.result().map_err(failed("making a graph"))?;
        Ok(CudaGraph { context: queue.context().clone(), graph, nodes: Vec::new(), executable: null_mut() })
    }

    /// Kernels in it.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds a kernel after the others; the driver copies the values.
    ///
    /// # Safety
    /// The values match the entry's parameters.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn add(
        &mut self,
        loaded: &Loaded,
        ctas: u32,
        values: &mut Parameters,
    ) -> Result<(), Error> {
        let mut pointers = SmallVec::new();
        let parameters = parameters(loaded, ctas, values, &mut pointers);
        let after = self.nodes.last().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut node = null_mut();
        // SAFETY: graph, function and the node before are live, and the caller vouches for the values.
        let status = unsafe {
            sys::cuGraphAddKernelNode_v2(&mut node, self.graph, after, self.nodes.len().min(1), &parameters)
        };
        status.result().map_err(failed("adding a kernel to a graph"))?;
        self.nodes.push(node);
        Ok(())
    }

    /// Makes it ready to be launched.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn instantiate(&mut self) -> Result<(), Error> {
        // SAFETY: the graph is live, and has no executable yet.
        unsafe { sys::cuGraphInstantiateWithFlags(&mut self.executable, self.graph, 0) }
            .result()
            .map_err(failed("instantiating a graph"))
    }

    /// Changes a kernel and its parameters for later launches of the graph.
    ///
    /// # Safety
    /// As [`CudaGraph::add`]; `at` is a node of the graph.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn set(
        &mut self,
        at: usize,
        loaded: &Loaded,
        ctas: u32,
        values: &mut Parameters,
    ) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(failed("making the device current"))?;
        let mut pointers = SmallVec::new();
        let parameters = parameters(loaded, ctas, values, &mut pointers);
        // SAFETY: the executable is live, the node is of its graph, and the caller vouches for the values.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(self.executable, self.nodes[at], &parameters) }
            .result()
            .map_err(failed("changing a graph"))
    }

    /// Queues all kernels.
    ///
    /// # Safety
    /// It was instantiated, and the kernels touch memory only through pointers to allocations that live, and that no one
    /// else uses, until they have ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn launch(&self, queue: &CudaQueue) -> Result<(), Error> {
        queue.bind()?;
        // SAFETY: the caller's.
        unsafe { sys::cuGraphLaunch(self.executable, queue.stream.cu_stream()) }
            .result()
            .map_err(failed("launching a graph"))
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        // SAFETY: made once, destroyed once; the driver keeps what still runs. A failure leaves them to the end of the
        // process.
        unsafe {
            if !self.executable.is_null() {
                let _ = sys::cuGraphExecDestroy(self.executable);
            }
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}
