//! What other libraries queue, as part of a graph.

use super::{CudaQueue, driver_version, failed};
use crate::error::Error;
use cudarc::driver::{CudaContext, sys};
use smallvec::SmallVec;
use std::{
    ptr::{null, null_mut},
    sync::Arc,
};

/// The first version of the driver that tells and takes what a capture waits for with the kinds of its edges.
const EDGES: i32 = 12_030;

/// A stream of its own, and the graph that it makes of what it is given.
pub(super) struct Capture {
    context: Arc<CudaContext>,
    stream: sys::CUstream,
    capturing: bool,
}

// SAFETY: stream handles are process-wide; what uses the capture takes it by `&mut`.
unsafe impl Send for Capture {}

impl Capture {
    /// Begins; nodes may be added to the graph meanwhile.
    ///
    /// # Errors
    /// [`Error::Collective`] where the driver is too old; the driver's.
    pub(super) fn begin(queue: &CudaQueue) -> Result<(Self, sys::CUgraph), Error> {
        if driver_version()? < EDGES {
            let what = "a graph holds one from driver 12.3 on: queue it on streams".into();
            return Err(Error::Collective { what });
        }
        queue.bind()?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: it writes one handle.
        unsafe { sys::cuStreamCreate(&mut stream, flags) }.result().map_err(failed("opening a stream"))?;
        let mut capture = Capture { context: queue.context().clone(), stream, capturing: false };
        // NCCL may allocate meanwhile, which the other modes forbid.
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is live, and no one else knows it.
        unsafe { sys::cuStreamBeginCapture_v2(stream, mode) }
            .result()
            .map_err(failed("beginning a capture"))?;
        capture.capturing = true;
        let (graph, _) = capture.state()?;
        Ok((capture, graph))
    }

    /// The stream, for work that waits for these nodes.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn after(&mut self, nodes: &mut [sys::CUgraphNode]) -> Result<sys::CUstream, Error> {
        let set =
            sys::CUstreamUpdateCaptureDependencies_flags_enum::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        // SAFETY: the stream is capturing, and the nodes are of its graph; edges without data are plain ones.
        unsafe {
            sys::cuStreamUpdateCaptureDependencies_v2(
                self.stream,
                nodes.first_mut().map_or(null_mut(), std::ptr::from_mut),
                null(),
                nodes.len(),
                set,
            )
        }
        .result()
        .map_err(failed("capturing"))?;
        Ok(self.stream)
    }

    /// The nodes that come last of what the stream was given.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn last(&mut self) -> Result<SmallVec<[sys::CUgraphNode; 1]>, Error> {
        Ok(self.state()?.1)
    }

    /// The graph, and what the next work would wait for.
    fn state(&self) -> Result<(sys::CUgraph, SmallVec<[sys::CUgraphNode; 1]>), Error> {
        let mut status = sys::CUstreamCaptureStatus_enum::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut graph, mut nodes, mut edges, mut count) = (null_mut(), null(), null(), 0);
        // SAFETY: it writes these values; the lists are the driver's, and live until the stream's next call.
        unsafe {
            sys::cuStreamGetCaptureInfo_v3(
                self.stream,
                &mut status,
                null_mut(),
                &mut graph,
                &mut nodes,
                &mut edges,
                &mut count,
            )
        }
        .result()
        .map_err(failed("asking for a capture"))?;
        let nodes = match count {
            0 => SmallVec::new(),
            // SAFETY: as above.
            _ => unsafe { std::slice::from_raw_parts(nodes, count) }.into(),
        };
        Ok((graph, nodes))
    }

    /// Ends behind these nodes, after which all others are; the graph is the caller's.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn end(mut self, nodes: &mut [sys::CUgraphNode]) -> Result<(), Error> {
        self.after(nodes)?;
        self.capturing = false;
        let mut graph = null_mut();
        // SAFETY: the stream is capturing. The graph is the one that it began.
        unsafe { sys::cuStreamEndCapture(self.stream, &mut graph) }
            .result()
            .map_err(failed("ending a capture"))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        // SAFETY: the stream was made once and is destroyed once. What was not ended has failed: its graph goes here.
        unsafe {
            if self.capturing {
                let mut graph = null_mut();
                let _ = sys::cuStreamEndCapture(self.stream, &mut graph);
                if !graph.is_null() {
                    let _ = sys::cuGraphDestroy(graph);
                }
            }
            let _ = sys::cuStreamDestroy_v2(self.stream);
        }
    }
}
