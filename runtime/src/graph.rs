//! Graphs: launches that the driver queues together, in one call.

use crate::{
    device::{CudaGraph, Device, Loaded, Scratch},
    error::Error,
    execute::{Call, Simulated},
    launch::{Launched, Scheduled},
    memory::Memory,
    parameters::Parameters,
    plan::Plan,
    queue::Queue,
    stream::Stream,
};
use smallvec::SmallVec;
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
    device: Device,
    nodes: Vec<Node>,
    /// As many nodes as there were when it was made. `None` on the simulator, and before the first replay.
    cuda: Option<CudaGraph>,
    /// The last replay.
    last: Option<(Arc<Queue>, u64)>,
}

/// A launch of the graph.
struct Node {
    loaded: Loaded,
    ctas: u32,
    parameters: Parameters,
    /// Its own: launches that wait in the graph must not lose theirs to one that needs more.
    scratch: Scratch,
}

/// Takes the launches of one replay.
pub struct Recorder<'g> {
    graph: &'g mut Graph,
    stream: &'g Stream,
    /// Launches so far that have something to do.
    launches: SmallVec<[(Arc<Plan>, Variant); 24]>,
    uses: SmallVec<[(Arc<Memory>, bool); 64]>,
    changed: usize,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Launches that had something to do.
    pub launches: usize,
    /// Of those, how many were given other arguments or another kernel than in the replay before.
    pub changed: usize,
    /// Whether the graph was made anew: in the first replay, and when the number of launches changes.
    pub made: bool,
}

impl Graph {
    /// An empty graph.
    pub fn new(device: &Device) -> Self {
        Graph { device: device.clone(), nodes: Vec::new(), cuda: None, last: None }
    }

    /// Records what `launches` adds, and puts it on the stream; on a GPU it has not ended then.
    ///
    /// Nothing runs before `launches` returns. The buffers may be dropped meanwhile; reading them, or passing them to
    /// launches that are not recorded, is [`Error::Recorded`]. On the simulator a launch has ended when it is added.
    ///
    /// # Errors
    /// Those of `launches`, and then nothing is queued; [`Error::StreamMismatch`]; the driver's.
    pub fn replay(
        &mut self,
        stream: &Stream,
        launches: impl FnOnce(&mut Recorder<'_>) -> Result<(), Error>,
    ) -> Result<Replayed, Error> {
        if !self.device.same_as(stream.device()) {
            let (found, expected) = Device::apart(stream.device(), &self.device);
            return Err(Error::StreamMismatch { found, expected });
        }
        let mut recorder =
            Recorder { graph: self, stream, launches: SmallVec::new(), uses: SmallVec::new(), changed: 0 };
        let recorded = launches(&mut recorder);
        recorder.release();
        recorded?;
        recorder.queue()
    }
}

impl Recorder<'_> {
    /// Checks a launch as [`Scheduled::enqueue`] does, and records it. What was asked of it for timing does not count.
    ///
    /// # Errors
    /// As [`Scheduled::enqueue`]; [`Error::NotRecordable`].
    pub fn add(&mut self, launch: Scheduled<'_>) -> Result<Launched, Error> {
        let stream = self.stream;
        launch.submit(stream, |call| self.record(call))
    }

    fn record(&mut self, call: &Call<'_, '_>) -> Result<Option<Simulated>, Error> {
        let queue = &self.stream.queue;
        let simulated = match (&call.loaded, &queue.cuda) {
            (Some(loaded), Some(cuda)) => {
                if !call.compiled.cleared.is_empty() {
                    return Err(Error::NotRecordable {
                        schedule: call.plan.schedule.to_string(),
                        why: "adds up its result in place (`split_k(..; atomic)`): choose `split_k` without `atomic`",
                    });
                }
                if !call.padded(call.bases).is_empty() {
                    return Err(Error::NotRecordable {
                        schedule: call.plan.schedule.to_string(),
                        why: "copies a tensor to padded rows first, which no tensor map addresses: pad its rows to multiples of 16 bytes",
                    });
                }
                let (at, wanted) = (self.launches.len(), call.compiled.wanted(call.ctas));
                // Where a node needs more scratch memory, what it had is freed when this stream has no more work.
                let elsewhere = |(last, _): &(Arc<Queue>, u64)| !Arc::ptr_eq(last, queue);
                if !wanted.is_empty() && self.graph.last.as_ref().is_some_and(elsewhere) {
                    self.graph.finish();
                }
                let Graph { nodes, cuda: made, last, .. } = &mut *self.graph;
                let mut new = nodes.len() <= at;
                if new {
                    let (parameters, scratch) = (Parameters::default(), Scratch::default());
                    nodes.push(Node { loaded: *loaded, ctas: call.ctas, parameters, scratch });
                }
                let node = &mut nodes[at];
                let scratch = node.scratch.reserve(cuda, &wanted)?;
                if !wanted.is_empty() {
                    // What was allocated is this stream's, even where nothing is replayed.
                    *last = Some((queue.clone(), queue.ticket()));
                }
                let parameters = call.parameters(&scratch, &[])?;
                new |= !node.loaded.is(loaded) || node.ctas != call.ctas || node.parameters != parameters;
                if new {
                    (node.loaded, node.ctas, node.parameters) = (*loaded, call.ctas, parameters);
                    self.changed += 1;
                    if let Some(made) = made.as_mut().filter(|made| at < made.len()) {
                        // SAFETY: the values follow the parameters from which the entry was compiled.
                        unsafe { made.set(at, loaded, call.ctas, &mut node.parameters)? };
                    }
                }
                None
            }
            _ => call.simulate(self.stream.device().kind())?,
        };
        self.launches.push((call.plan.clone(), call.variant));
        for (memory, writes) in call.memories() {
            memory.record();
            self.uses.push((memory.clone(), writes));
        }
        Ok(simulated)
    }

    /// Lets others use the memory again.
    fn release(&self) {
        self.uses.iter().for_each(|(memory, _)| memory.recorded());
    }

    fn queue(self) -> Result<Replayed, Error> {
        let Recorder { graph, stream, launches, uses, changed } = self;
        let mut replayed = Replayed { launches: launches.len(), changed, made: false };
        let queue = &stream.queue;
        let Some(cuda) = queue.cuda.as_ref().filter(|_| !launches.is_empty()) else { return Ok(replayed) };
        if graph.cuda.as_ref().is_none_or(|made| made.len() != launches.len()) {
            graph.finish();
            graph.nodes.truncate(launches.len());
            let mut made = CudaGraph::new(cuda)?;
            for node in &mut graph.nodes {
                // SAFETY: the values follow the parameters from which the entry was compiled.
                unsafe { made.add(&node.loaded, node.ctas, &mut node.parameters)? };
            }
            made.instantiate()?;
            (graph.cuda, replayed.made) = (Some(made), true);
        }
        let Some(made) = &graph.cuda else { return Ok(replayed) };
        for (memory, writes) in &uses {
            memory.order(queue, *writes)?;
        }
        // SAFETY: the tensors were checked to be as large as the kernels of proved schedules reach, and are freed and
        // overwritten only after this work, which `used` notes below; other queues wait, which `order` saw to. Scratch
        // memory is the nodes', which the graph keeps until its last replay has ended.
        let ticket = queue.launch_together(&launches, || unsafe { made.launch(cuda) })?;
        for (memory, writes) in &uses {
            memory.used(queue, ticket, *writes);
        }
        graph.last = Some((queue.clone(), ticket));
        Ok(replayed)
    }
}

impl Graph {
    /// Waits for the last replay: what it uses may go then.
    fn finish(&mut self) {
        if let Some((queue, ticket)) = self.last.take() {
            // After a failure the GPU runs nothing any more.
            let _ = queue.wait(ticket);
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.finish();
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph").field("device", &self.device).field("launches", &self.nodes.len()).finish()
    }
}
