//! What a replay adds to a graph.

use super::state::Graph;
use crate::{
    buffer::RawBuffer,
    collective::{Part, Rank, sealed},
    device::{Device, Kind, Scratch},
    error::Error,
    execute::{Call, Simulated},
    job::{Job, Piece},
    launch::{Launched, Scheduled},
    memory::Memory,
    queue::Queue,
    stream::Stream,
};
use std::{cell::RefCell, ptr, sync::Arc};

/// Takes the launches of one replay.
pub struct Recorder<'g> {
    recording: RefCell<Recording<'g>>,
    stream: &'g Stream,
    /// The replay that this is one of.
    together: &'g Together,
    at: usize,
}

/// The recorders of one replay.
pub(super) struct Together {
    pub(super) count: usize,
}

/// What a recorder has so far.
pub(super) struct Recording<'g> {
    pub(super) graph: &'g mut Graph,
    pub(super) stream: &'g Stream,
    /// Launches so far that have something to do.
    pub(super) launches: usize,
    /// Nodes that these and collectives are.
    pub(super) nodes: usize,
    /// Writes to scratch memory.
    writes: usize,
    pub(super) changed: usize,
}

impl<'g> Recorder<'g> {
    pub(super) fn new(graph: &'g mut Graph, stream: &'g Stream, together: &'g Together, at: usize) -> Self {
        let recording = Recording { graph, stream, launches: 0, nodes: 0, writes: 0, changed: 0 };
        Recorder { recording: RefCell::new(recording), stream, together, at }
    }

    pub(super) fn end(self) -> Recording<'g> {
        self.recording.into_inner()
    }

    /// Checks a launch as [`Scheduled::enqueue`] does, and records it. What was asked of it for timing does not count.
    ///
    /// # Errors
    /// As [`Scheduled::enqueue`].
    pub fn add(&self, launch: Scheduled<'_>) -> Result<Launched, Error> {
        launch.submit(self.stream, |job| self.recording.borrow_mut().record(job))
    }

    /// The device of the launches.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }
}

impl Rank for Recorder<'_> {}

impl sealed::Sealed for Recorder<'_> {
    fn stream(&self) -> &Stream {
        self.stream
    }

    fn check(on: &[Self]) -> Result<(), Error> {
        let one = |(n, recorder): (usize, &Self)| {
            recorder.at == n
                && recorder.together.count == on.len()
                && ptr::eq(recorder.together, on[0].together)
        };
        if on.iter().enumerate().all(one) {
            return Ok(());
        }
        Err(Error::Collective { what: "it takes all recorders of one replay, in their order".into() })
    }

    /// The graph waits when it is queued.
    fn order(&self, _: &RawBuffer, _: bool) -> Result<(), Error> {
        Ok(())
    }

    unsafe fn put(on: &[Self], parts: Vec<Part>) -> Result<(), Error> {
        on.iter().zip(parts).for_each(|(recorder, part)| recorder.recording.borrow_mut().part(part));
        Ok(())
    }

    fn used(&self, buffer: &RawBuffer, writes: bool) {
        self.recording.borrow_mut().uses(&buffer.memory, writes);
    }
}

impl Recording<'_> {
    fn record(&mut self, job: &Job<'_, '_>) -> Result<Option<Box<Simulated>>, Error> {
        let (stream, queue) = (self.stream, &self.stream.queue);
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
                            changed |= unsafe { graph.put(self.nodes, step)? };
                            self.nodes += 1;
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
        job.memories().for_each(|(memory, writes)| self.uses(memory, writes));
        Ok(simulated)
    }

    /// Notes memory that is taken until the replay is queued.
    fn uses(&mut self, memory: &Arc<Memory>, writes: bool) {
        memory.record();
        self.graph.uses.push((memory.clone(), writes));
    }

    /// Lets others use the memory again.
    pub(super) fn release(&self) {
        self.graph.uses.iter().for_each(|(memory, _)| memory.recorded());
    }

    /// Takes the device's part of a collective.
    fn part(&mut self, part: Part) {
        self.graph.put_part(self.nodes, part);
        self.nodes += 1;
    }
}
