//! Graphs of the driver, made of what was recorded, and queued.

use super::{
    recorder::Recording,
    state::{Graph, Node, Replayed},
};
use crate::{
    collective::Part,
    device::{CudaGraph, CudaQueue},
    error::Error,
};
use smallvec::SmallVec;

/// Queues the replays of several graphs, each on its stream.
///
/// # Errors
/// The driver's and NCCL's; [`Error::RankLost`].
pub(super) fn queue(mut recordings: SmallVec<[Recording<'_>; 1]>) -> Result<SmallVec<[Replayed; 1]>, Error> {
    let made = recordings.iter().any(Recording::is_stale);
    let one = |recording: &Recording<'_>| {
        let made = made && recording.cuda().is_some();
        Replayed { launches: recording.launches, changed: recording.changed, made }
    };
    let replayed = recordings.iter().map(one).collect();
    if made {
        make(&mut recordings)?;
    }
    let work = || recordings.iter().filter(|recording| recording.cuda().is_some());
    for recording in work() {
        for (memory, writes) in &recording.graph.uses {
            memory.order(&recording.stream.queue, *writes)?;
        }
    }
    work().try_for_each(Recording::begin)?;
    recordings.iter_mut().try_for_each(Recording::launch)?;
    Ok(replayed)
}

/// Makes all graphs anew: a collective is captured by all at once.
fn make(recordings: &mut [Recording<'_>]) -> Result<(), Error> {
    let mut all: SmallVec<[Making<'_>; 1]> = SmallVec::new();
    for recording in recordings {
        let (launches, nodes) = (recording.launches, recording.nodes);
        let Some(cuda) = recording.stream.queue.cuda.as_ref().filter(|_| nodes > 0) else { continue };
        let graph = &mut *recording.graph;
        graph.finish();
        graph.stale = true;
        graph.nodes.truncate(nodes);
        graph.scratch.truncate(launches);
        graph.launches.truncate(launches);
        let captures = graph.nodes.iter().any(|node| matches!(node, Node::Part(_)));
        all.push(Making { made: CudaGraph::new(cuda, captures)?, graph, cuda, at: 0 });
    }
    loop {
        let places = all.iter_mut().filter_map(|making| making.next_part().transpose());
        let places: SmallVec<[usize; 8]> = places.collect::<Result<_, _>>()?;
        if places.is_empty() {
            break;
        }
        let streams = all.iter_mut().map(|making| making.made.fork());
        let streams: SmallVec<[_; 8]> = streams.collect::<Result<_, _>>()?;
        let parts: Vec<&Part> = all.iter().zip(&places).filter_map(|(m, at)| m.part(*at)).collect();
        // SAFETY: a communicator puts the parts of a collective in all recorders of a replay, in their order, so these are of one; the
        // buffers were checked then, and are noted whenever the graph is queued.
        unsafe { Part::queue(&parts, &streams)? };
        all.iter_mut().try_for_each(|making| making.made.join())?;
    }
    let several = all.len() > 1;
    for Making { made, cuda, .. } in &mut all {
        made.instantiate()?;
        if several {
            made.upload(cuda)?;
        }
    }
    for Making { made, graph, .. } in all {
        (graph.cuda, graph.stale) = (Some(made), false);
    }
    Ok(())
}

/// A graph that is being made.
struct Making<'g> {
    made: CudaGraph,
    graph: &'g mut Graph,
    cuda: &'g CudaQueue,
    /// Nodes that it has.
    at: usize,
}

impl Making<'_> {
    /// Adds the steps before the next collective, and returns the place of that.
    fn next_part(&mut self) -> Result<Option<usize>, Error> {
        while let Some(node) = self.graph.nodes.get_mut(self.at) {
            self.at += 1;
            match node {
                // SAFETY: the values follow the parameters from which the entry was compiled.
                Node::Step(step) => unsafe { self.made.add(step)? },
                Node::Part(_) => return Ok(Some(self.at - 1)),
            }
        }
        Ok(None)
    }

    fn part(&self, at: usize) -> Option<&Part> {
        match &self.graph.nodes[at] {
            Node::Part(part) => Some(part),
            Node::Step(_) => None,
        }
    }
}

impl Recording<'_> {
    /// The queue of a GPU, where something was recorded for it.
    fn cuda(&self) -> Option<&CudaQueue> {
        self.stream.queue.cuda.as_ref().filter(|_| self.nodes > 0)
    }

    /// Whether there is no graph of what was recorded.
    fn is_stale(&self) -> bool {
        let graph = &self.graph;
        self.cuda().is_some() && (graph.stale || graph.cuda.is_none() || graph.nodes.len() != self.nodes)
    }

    /// Notes the collectives that are about to run.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    fn begin(&self) -> Result<(), Error> {
        self.graph.nodes[..self.nodes].iter().try_for_each(|node| match node {
            Node::Part(part) => {
                part.begin()?;
                self.stream.queue.needs(part.health());
                Ok(())
            }
            Node::Step(_) => Ok(()),
        })
    }

    /// Queues the graph.
    fn launch(&mut self) -> Result<(), Error> {
        let queue = &self.stream.queue;
        let (Some(cuda), Some(made)) = (self.cuda(), &self.graph.cuda) else { return Ok(()) };
        // SAFETY: the tensors were checked to be as large as the kernels of proved schedules reach, and are freed and
        // overwritten only after this work, which `used` notes below; other queues wait, which `order` saw to. Scratch
        // memory is the nodes', which the graph keeps until its last replay has ended.
        let ticket =
            queue.launch_together(&self.graph.launches[..self.launches], || unsafe { made.launch(cuda) })?;
        for (memory, writes) in &self.graph.uses {
            memory.used(queue, ticket, *writes);
        }
        self.graph.last = Some((queue.clone(), ticket));
        Ok(())
    }
}
