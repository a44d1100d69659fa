//! CUDA graphs of launches in a row.

use super::{CudaQueue, Loaded, capture::Capture, failed};
use crate::{error::Error, execute::Step, parameters::Parameters};
use cudarc::driver::{CudaContext, sys};
use smallvec::SmallVec;
use std::{
    ffi::c_void,
    ptr::{null, null_mut},
    sync::Arc,
};

/// A graph in which each step waits for the end of the one before it. Of two dependent launches in a row the second may begin as soon
/// as the first lets it (CUDA Driver API, `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`).
pub(crate) struct CudaGraph {
    context: Arc<CudaContext>,
    /// Null where a capture that failed has it.
    graph: sys::CUgraph,
    /// In order, with the kind of each; null for those of another library.
    nodes: Vec<(sys::CUgraphNode, Kind)>,
    /// What the next step waits for.
    last: SmallVec<[sys::CUgraphNode; 1]>,
    /// What makes the graph, until it is instantiated, if another library adds to it.
    capture: Option<Capture>,
    /// Whether the driver knows edges that let a kernel begin early.
    early: bool,
    /// Null until [`CudaGraph::instantiate`].
    executable: sys::CUgraphExec,
}

/// What a node is. It cannot become one of another kind: edges stay as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Clear,
    Kernel,
    /// It waits by itself for the end of what was before it.
    Dependent,
    /// Another library's.
    Captured,
}

impl Kind {
    fn of<P>(step: &Step<P>) -> Self {
        match step {
            Step::Clear { .. } => Kind::Clear,
            Step::Kernel { loaded, .. } if loaded.is_dependent() => Kind::Dependent,
            Step::Kernel { .. } => Kind::Kernel,
        }
    }
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

/// The first version of the driver that has them.
const PROGRAMMATIC_EDGES: i32 = 12_030;

/// What a node that clears bytes, at least one, is told.
fn zeros(pointer: u64, bytes: usize) -> sys::CUDA_MEMSET_NODE_PARAMS {
    sys::CUDA_MEMSET_NODE_PARAMS { dst: pointer, pitch: 0, value: 0, elementSize: 1, width: bytes, height: 1 }
}

impl CudaGraph {
    /// No steps yet. `captures`: [`CudaGraph::fork`] may be called.
    ///
    /// # Errors
    /// The driver's; those of [`Capture::begin`].
    pub(crate) fn new(queue: &CudaQueue, captures: bool) -> Result<Self, Error> {
        queue.bind()?;
        let (capture, graph) = if captures {
            let (capture, graph) = Capture::begin(queue)?;
            (Some(capture), graph)
        } else {
            let mut graph = null_mut();
            // SAFETY: it writes one handle.
            unsafe { sys::cuGraphCreate(&mut graph, 0) }.result().map_err(failed("making a graph"))?;
            (None, graph)
        };
        let context = queue.context().clone();
        let early = super::driver_version().is_ok_and(|version| version >= PROGRAMMATIC_EDGES);
        let (nodes, last) = (Vec::new(), SmallVec::new());
        Ok(CudaGraph { context, graph, nodes, last, capture, early, executable: null_mut() })
    }

    /// A stream on which another library queues the next step; [`CudaGraph::join`] follows.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// For a graph that was made without captures.
    pub(crate) fn fork(&mut self) -> Result<sys::CUstream, Error> {
        self.bind()?;
        self.capture.as_mut().expect("a graph with captures").after(&mut self.last)
    }

    /// Takes what was queued there as a step.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// As [`CudaGraph::fork`].
    pub(crate) fn join(&mut self) -> Result<(), Error> {
        self.last = self.capture.as_mut().expect("a graph with captures").last()?;
        self.nodes.push((null_mut(), Kind::Captured));
        Ok(())
    }

    fn bind(&self) -> Result<(), Error> {
        self.context.bind_to_thread().map_err(failed("making the device current"))
    }

    /// Adds a step after the others; the driver copies the values.
    ///
    /// # Safety
    /// The values of a kernel match the entry's parameters.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn add(&mut self, step: &mut Step<Parameters>) -> Result<(), Error> {
        self.bind()?;
        let kind = Kind::of(step);
        let early = match self.nodes.last() {
            Some((before, Kind::Dependent)) if kind == Kind::Dependent && self.early => Some(*before),
            _ => None,
        };
        let plain = if early.is_some() { &[] } else { &self.last[..] };
        let after = plain.first().map_or(null(), std::ptr::from_ref);
        let (before, context) = (plain.len(), self.context.cu_ctx());
        let mut node = null_mut();
        // SAFETY: graph and the node before are live, the descriptions live as long as the calls, and the caller vouches for
        // the values.
        let status = unsafe {
            match step {
                Step::Kernel { loaded, ctas, parameters: values } => {
                    let mut pointers = SmallVec::new();
                    let parameters = parameters(loaded, *ctas, values, &mut pointers);
                    sys::cuGraphAddKernelNode_v2(&mut node, self.graph, after, before, &parameters)
                }
                Step::Clear { pointer, bytes } => {
                    let zeros = zeros(*pointer, *bytes);
                    sys::cuGraphAddMemsetNode(&mut node, self.graph, after, before, &zeros, context)
                }
            }
        };
        status.result().map_err(failed("adding to a graph"))?;
        if let Some(before) = early {
            let edge = sys::CUgraphEdgeData {
                from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
                to_port: 0,
                type_: sys::CUgraphDependencyType_enum::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
                reserved: [0; 5],
            };
            // SAFETY: both nodes are live and of this graph, and kernels that wait for the end of earlier ones before they touch memory.
            unsafe { sys::cuGraphAddDependencies_v2(self.graph, &before, &node, &edge, 1) }
                .result()
                .map_err(failed("adding to a graph"))?;
        }
        self.nodes.push((node, kind));
        self.last = SmallVec::from_buf([node]);
        Ok(())
    }

    /// Makes it ready to be launched.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn instantiate(&mut self) -> Result<(), Error> {
        self.bind()?;
        if let Some(capture) = self.capture.take() {
            let graph = std::mem::replace(&mut self.graph, null_mut());
            capture.end(&mut self.last)?;
            self.graph = graph;
        }
        // SAFETY: the graph is live, and has no executable yet.
        unsafe { sys::cuGraphInstantiateWithFlags(&mut self.executable, self.graph, 0) }
            .result()
            .map_err(failed("instantiating a graph"))
    }

    /// Has the driver allocate now what the first launch would: by then another device may be waiting for this one.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn upload(&self, queue: &CudaQueue) -> Result<(), Error> {
        queue.bind()?;
        // SAFETY: it was instantiated, and the stream is live.
        unsafe { sys::cuGraphUpload(self.executable, queue.stream.cu_stream()) }
            .result()
            .map_err(failed("uploading a graph"))
    }

    /// Changes a step for later launches of the graph; returns whether that can be done: the node is of its kind.
    ///
    /// # Safety
    /// As [`CudaGraph::add`]; `at` is a node of the graph.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) unsafe fn set(&mut self, at: usize, step: &mut Step<Parameters>) -> Result<bool, Error> {
        let (node, kind) = self.nodes[at];
        if kind != Kind::of(step) {
            return Ok(false);
        }
        self.bind()?;
        // SAFETY: the executable is live, the node is of its graph and of this kind, the descriptions live as long as the calls,
        // and the caller vouches for the values.
        let status = unsafe {
            match step {
                Step::Kernel { loaded, ctas, parameters: values } => {
                    let mut pointers = SmallVec::new();
                    let parameters = parameters(loaded, *ctas, values, &mut pointers);
                    sys::cuGraphExecKernelNodeSetParams_v2(self.executable, node, &parameters)
                }
                Step::Clear { pointer, bytes } => {
                    let zeros = zeros(*pointer, *bytes);
                    sys::cuGraphExecMemsetNodeSetParams(self.executable, node, &zeros, self.context.cu_ctx())
                }
            }
        };
        status.result().map_err(failed("changing a graph")).map(|()| true)
    }

    /// Queues all steps.
    ///
    /// # Safety
    /// It was instantiated, and the steps touch memory only through pointers to allocations that live, and that no one
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
            // Of a capture that has not ended, the graph is the capture's.
            if self.capture.is_none() && !self.graph.is_null() {
                let _ = sys::cuGraphDestroy(self.graph);
            }
        }
    }
}
