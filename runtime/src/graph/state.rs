//! What a graph is between replays.

use crate::{
    collective::Part,
    device::{CudaGraph, Device, Scratch},
    error::Error,
    execute::Step,
    memory::Memory,
    parameters::Parameters,
    plan::Plan,
    queue::Queue,
};
use std::sync::Arc;
use tile_dsl::program::Variant;

/// A sequence of launches that is replayed: the host's part of many small kernels in one call of the driver.
///
/// Each replay says anew what is launched on what, as it would be queued on a stream. The first one makes a CUDA graph of
/// it; later ones give it the pointers, sizes and scalars that have changed. So buffers are borrowed for one replay, and
/// checked as in every launch. The launches run one after another.
///
/// ```text
/// let mut graph = Graph::new(&device);
/// for batch in batches {
///     graph.replay(&stream, |launches| {
///         launches.add(linear(&batch, &w1, &mut hidden).prepared(&first))?;
///         launches.add(linear(&hidden, &w2, &mut out).prepared(&second))?;
///         Ok(())
///     })?;
/// }
/// ```
pub struct Graph {
    pub(super) device: Device,
    /// Scratch memory of each launch, its own: launches that wait in the graph must not lose theirs to one that needs more.
    pub(super) scratch: Vec<Scratch>,
    /// What `cuda` has, or will have.
    pub(super) nodes: Vec<Node>,
    /// Room for a launch's.
    pub(super) parameters: Parameters,
    /// Launches of the last replay that had something to do: most are the same in the next.
    pub(super) launches: Vec<(Arc<Plan>, Variant)>,
    /// Memory of the launches that are being recorded.
    pub(super) uses: Vec<(Arc<Memory>, bool)>,
    /// What the last replay wrote to scratch memory, in order.
    written: Vec<(u64, Vec<u8>)>,
    /// `None` on the simulator, and before the first replay.
    pub(super) cuda: Option<CudaGraph>,
    /// Whether `cuda` does not have the `nodes`.
    pub(super) stale: bool,
    /// The last replay.
    pub(super) last: Option<(Arc<Queue>, u64)>,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Launches that had something to do.
    pub launches: usize,
    /// Of those, how many were given other arguments or another kernel than in the replay before.
    pub changed: usize,
    /// Whether the graph was made anew: in the first replay, and when the number of launches changes, or of what is done for
    /// them: what is cleared, and copied to padded rows; also where a collective changes, or a graph that is replayed with this one.
    pub made: bool,
}

/// A node, or a few.
pub(super) enum Node {
    Step(Step<Parameters>),
    /// The device's part of a collective.
    Part(Part),
}

impl Graph {
    /// An empty graph.
    pub fn new(device: &Device) -> Self {
        Graph {
            device: device.clone(),
            scratch: Vec::new(),
            nodes: Vec::new(),
            parameters: Parameters::default(),
            launches: Vec::new(),
            uses: Vec::new(),
            written: Vec::new(),
            cuda: None,
            stale: false,
            last: None,
        }
    }

    /// Sets a step for the next replay, in the graph too where it has one in its place that can become this; returns whether
    /// it is another than in the replay before.
    ///
    /// # Safety
    /// The values of a kernel match its parameters.
    ///
    /// # Errors
    /// The driver's.
    pub(super) unsafe fn put(&mut self, at: usize, step: Step<&mut Parameters>) -> Result<bool, Error> {
        let Some(Node::Step(place)) = self.nodes.get_mut(at) else {
            self.set(at, Node::Step(step.owned()));
            return Ok(true);
        };
        if !place.replace(step) {
            return Ok(false);
        }
        let made = self.cuda.as_mut().filter(|_| !self.stale);
        // Until the driver has it.
        self.stale = true;
        if let Some(made) = made {
            // SAFETY: the caller's; the graph has as many nodes as there were.
            self.stale = !unsafe { made.set(at, place)? };
        }
        Ok(true)
    }

    /// Sets a part of a collective, which the driver cannot change in a graph.
    pub(super) fn put_part(&mut self, at: usize, part: Part) {
        match self.nodes.get(at) {
            Some(Node::Part(before)) if *before == part => {}
            _ => self.set(at, Node::Part(part)),
        }
    }

    /// Sets a node of a graph that is to be made.
    fn set(&mut self, at: usize, node: Node) {
        self.stale = true;
        match self.nodes.get_mut(at) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
    }

    /// Notes what is written to scratch memory; returns whether it is something else than in the replay before.
    pub(super) fn note(&mut self, at: usize, written: (u64, Vec<u8>)) -> bool {
        match self.written.get_mut(at) {
            Some(before) => std::mem::replace(before, written) != self.written[at],
            None => {
                self.written.push(written);
                true
            }
        }
    }

    /// Waits for the last replay: what it uses may go then.
    pub(super) fn finish(&mut self) {
        if let Some((queue, ticket)) = self.last.take() {
            // After a failure the GPU runs nothing any more.
            let _ = queue.wait(ticket);
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.finish();
        // Before the communicators of its nodes.
        self.cuda = None;
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("device", &self.device).field("launches", &self.scratch.len()).finish()
    }
}
