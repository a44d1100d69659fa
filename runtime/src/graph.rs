//! Graphs: launches that the driver queues together, in one call.

use crate::{
    device::{CudaGraph, Device, Kind, Scratch},
    error::Error,
    execute::{Call, Simulated, Step},
    job::{Job, Piece},
    launch::{Launched, Scheduled},
    memory::Memory,
    parameters::Parameters,
    plan::Plan,
    queue::Queue,
    stream::Stream,
};
use std::{cell::RefCell, sync::Arc};
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
    /// Scratch memory of each launch, its own: launches that wait in the graph must not lose theirs to one that needs more.
    scratch: Vec<Scratch>,
    steps: Vec<Step<Parameters>>,
    /// Room for a launch's.
    parameters: Parameters,
    /// Launches of the last replay that had something to do: most are the same in the next.
    launches: Vec<(Arc<Plan>, Variant)>,
    /// Memory of the launches that are being recorded.
    uses: Vec<(Arc<Memory>, bool)>,
    /// What the last replay wrote to scratch memory, in order.
    written: Vec<(u64, Vec<u8>)>,
    /// `None` on the simulator, and before the first replay.
    cuda: Option<CudaGraph>,
    /// Whether `cuda` does not have the `steps`.
    stale: bool,
    /// The last replay.
    last: Option<(Arc<Queue>, u64)>,
}

/// Takes the launches of one replay.
pub struct Recorder<'g> {
    stream: &'g Stream,
    recording: RefCell<Recording<'g>>,
}

/// What a recorder has so far.
struct Recording<'g> {
    graph: &'g mut Graph,
    /// Launches so far that have something to do.
    launches: usize,
    /// Pieces that these are.
    steps: usize,
    /// Writes to scratch memory.
    writes: usize,
    changed: usize,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Launches that had something to do.
    pub launches: usize,
    /// Of those, how many were given other arguments or another kernel than in the replay before.
    pub changed: usize,
    /// Whether the graph was made anew: in the first replay, and when the number of launches changes, or of what is done for
    /// them: what is cleared, and copied to padded rows.
    pub made: bool,
}

impl Graph {
    /// An empty graph.
    pub fn new(device: &Device) -> Self {
        Graph {
            device: device.clone(),
            scratch: Vec::new(),
            steps: Vec::new(),
            parameters: Parameters::default(),
            launches: Vec::new(),
            uses: Vec::new(),
            written: Vec::new(),
            cuda: None,
            stale: false,
            last: None,
        }
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
        launches: impl FnOnce(&Recorder<'_>) -> Result<(), Error>,
    ) -> Result<Replayed, Error> {
        if !self.device.same_as(stream.device()) {
            let (found, expected) = Device::apart(stream.device(), &self.device);
            return Err(Error::StreamMismatch { found, expected });
        }
        let recording = Recording { graph: self, launches: 0, steps: 0, writes: 0, changed: 0 };
        let recorder = Recorder { stream, recording: RefCell::new(recording) };
        let recorded = launches(&recorder);
        let recording = recorder.recording.into_inner();
        recording.release();
        let queued = recorded.and_then(|()| recording.queue(stream));
        // What was dropped meanwhile is freed behind the replay.
        self.uses.clear();
        queued
    }
}

impl Recorder<'_> {
    /// Checks a launch as [`Scheduled::enqueue`] does, and records it. What was asked of it for timing does not count.
    ///
    /// # Errors
    /// As [`Scheduled::enqueue`].
    pub fn add(&self, launch: Scheduled<'_>) -> Result<Launched, Error> {
        launch.submit(self.stream, |job| self.recording.borrow_mut().record(self.stream, job))
    }

    /// The device of the launches.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }
}

impl Recording<'_> {
    fn record(&mut self, stream: &Stream, job: &Job<'_, '_>) -> Result<Option<Box<Simulated>>, Error> {
        let queue = &stream.queue;
        let simulated = match (stream.device().kind(), &queue.cuda) {
            (Kind::Cuda(device), Some(cuda)) => {
                let (graph, at, needs) = (&mut *self.graph, self.launches, job.needs());
                // What used the scratch memory on another stream ends before it is used, or freed, on this one.
                let elsewhere = |(last, _): &(Arc<Queue>, u64)| !Arc::ptr_eq(last, queue);
                if !needs.wanted.is_empty() && graph.last.as_ref().is_some_and(elsewhere) {
                    graph.finish();
                }
                if graph.scratch.len() <= at {
                    graph.scratch.push(Scratch::default());
                }
                let scratch = graph.scratch[at].reserve(cuda, &needs.wanted)?;
                if !needs.wanted.is_empty() {
                    // What was allocated is this stream's, even where nothing is replayed.
                    graph.last = Some((queue.clone(), queue.ticket()));
                }
                let mut changed = false;
                let mut parameters = std::mem::take(&mut graph.parameters);
                let pieces = job.pieces(device, needs, &scratch, &mut parameters, |piece| {
                    match piece {
                        // Now: a node would read the host's memory when it runs.
                        Piece::Write { pointer, bytes } => {
                            // SAFETY: the memory is this launch's own, and its last replay ends before this on the stream;
                            // what is written lies in pageable memory.
                            unsafe { cuda.upload(pointer, &bytes)? };
                            changed |= graph.note(self.writes, (pointer, bytes));
                            self.writes += 1;
                        }
                        Piece::Step(step) => {
                            // SAFETY: the values follow the parameters from which the entry was compiled.
                            changed |= unsafe { graph.put(self.steps, step)? };
                            self.steps += 1;
                        }
                    }
                    Ok(())
                });
                graph.parameters = parameters;
                pieces?;
                self.changed += usize::from(changed);
                None
            }
            (kind, _) => job.simulate(kind)?,
        };
        let Call { plan, variant, .. } = job.first();
        match self.graph.launches.get_mut(self.launches) {
            Some((before, ran)) if Arc::ptr_eq(before, plan) => *ran = *variant,
            Some(before) => *before = (Arc::clone(plan), *variant),
            None => self.graph.launches.push((Arc::clone(plan), *variant)),
        }
        self.launches += 1;
        for (memory, writes) in job.memories() {
            memory.record();
            self.graph.uses.push((memory.clone(), writes));
        }
        Ok(simulated)
    }

    /// Lets others use the memory again.
    fn release(&self) {
        self.graph.uses.iter().for_each(|(memory, _)| memory.recorded());
    }

    fn queue(self, stream: &Stream) -> Result<Replayed, Error> {
        let Recording { graph, launches, steps, changed, .. } = self;
        let mut replayed = Replayed { launches, changed, made: false };
        let queue = &stream.queue;
        let Some(cuda) = queue.cuda.as_ref().filter(|_| launches > 0) else { return Ok(replayed) };
        graph.stale |= graph.steps.len() != steps;
        if graph.stale || graph.cuda.is_none() {
            graph.finish();
            graph.steps.truncate(steps);
            graph.scratch.truncate(launches);
            graph.launches.truncate(launches);
            let mut made = CudaGraph::new(cuda)?;
            for step in &mut graph.steps {
                // SAFETY: the values follow the parameters from which the entry was compiled.
                unsafe { made.add(step)? };
            }
            made.instantiate()?;
            (graph.cuda, graph.stale, replayed.made) = (Some(made), false, true);
        }
        let Some(made) = &graph.cuda else { return Ok(replayed) };
        for (memory, writes) in &graph.uses {
            memory.order(queue, *writes)?;
        }
        // SAFETY: the tensors were checked to be as large as the kernels of proved schedules reach, and are freed and
        // overwritten only after this work, which `used` notes below; other queues wait, which `order` saw to. Scratch
        // memory is the nodes', which the graph keeps until its last replay has ended.
        let ticket = queue.launch_together(&graph.launches[..launches], || unsafe { made.launch(cuda) })?;
        for (memory, writes) in &graph.uses {
            memory.used(queue, ticket, *writes);
        }
        graph.last = Some((queue.clone(), ticket));
        Ok(replayed)
    }
}

impl Graph {
    /// Sets a step for the next replay, in the graph too where it has one in its place that can become this; returns whether
    /// it is another than in the replay before.
    ///
    /// # Safety
    /// The values of a kernel match its parameters.
    ///
    /// # Errors
    /// The driver's.
    unsafe fn put(&mut self, at: usize, step: Step<&mut Parameters>) -> Result<bool, Error> {
        let Some(place) = self.steps.get_mut(at) else {
            self.steps.push(step.owned());
            self.stale = true;
            return Ok(true);
        };
        if !place.replace(step) {
            return Ok(false);
        }
        let made = self.cuda.as_mut().filter(|_| !self.stale);
        // Until the driver has it.
        self.stale = true;
        if let Some(made) = made {
            // SAFETY: the caller's; the graph has as many nodes as there were steps.
            self.stale = !unsafe { made.set(at, place)? };
        }
        Ok(true)
    }

    /// Notes what is written to scratch memory; returns whether it is something else than in the replay before.
    fn note(&mut self, at: usize, written: (u64, Vec<u8>)) -> bool {
        match self.written.get_mut(at) {
            Some(before) => std::mem::replace(before, written) != self.written[at],
            None => {
                self.written.push(written);
                true
            }
        }
    }

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
        f.debug_struct("Graph").field("device", &self.device).field("launches", &self.scratch.len()).finish()
    }
}
