//! Graphs: launches that the driver queues together, in one call.

mod make;
mod recorder;
mod state;

use crate::{device::Device, error::Error, stream::Stream};
use make::queue;
pub use recorder::Recorder;
use recorder::{Recording, Together};
use smallvec::SmallVec;
pub use state::{Graph, Replayed};
use std::slice::{from_mut, from_ref};

impl Graph {
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
        let replayed = together(from_mut(self), from_ref(stream), |recorders| launches(&recorders[0]))?;
        Ok(replayed[0])
    }

    /// Records graphs of several devices at once, so that collectives may be among their launches, and puts each on its stream.
    ///
    /// ```
    /// # use tile_runtime::{Buffer, Communicator, Device, Error, Graph, Stream};
    /// # fn main() -> Result<(), Error> {
    /// let devices = [Device::sim(), Device::sim()];
    /// let all = Communicator::new(&devices)?;
    /// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    /// let mut graphs: Vec<Graph> = devices.iter().map(Graph::new).collect();
    /// let mut x = Buffer::from_slice(&devices[0], &[1.0f32], &[1])?;
    /// let mut y = Buffer::from_slice(&devices[1], &[2.0f32], &[1])?;
    /// for _ in 0..3 {
    ///     Graph::replay_together(&mut graphs, &streams, |on| {
    ///         // Launches on[0].add(..)?, on[1].add(..)?, then what their devices do together.
    ///         all.all_reduce(&mut [&mut x, &mut y], on)
    ///     })?;
    /// }
    /// assert_eq!((x.to_vec()?, y.to_vec()?), (vec![12.0], vec![12.0]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// All graphs are made before one is queued. If one has to be made anew, all are, since all capture a collective together.
    ///
    /// # Errors
    /// As [`Graph::replay`]; [`Error::Collective`] for no graphs, or another number of streams.
    pub fn replay_together(
        graphs: &mut [Graph],
        streams: &[Stream],
        launches: impl FnOnce(&[Recorder<'_>]) -> Result<(), Error>,
    ) -> Result<Vec<Replayed>, Error> {
        if graphs.is_empty() || graphs.len() != streams.len() {
            let what = format!("{} graphs were given {} streams", graphs.len(), streams.len());
            return Err(Error::Collective { what });
        }
        together(graphs, streams, launches).map(SmallVec::into_vec)
    }
}

/// One replay, of as many graphs as streams.
fn together(
    graphs: &mut [Graph],
    streams: &[Stream],
    launches: impl FnOnce(&[Recorder<'_>]) -> Result<(), Error>,
) -> Result<SmallVec<[Replayed; 1]>, Error> {
    for (graph, stream) in graphs.iter().zip(streams) {
        if !graph.device.same_as(stream.device()) {
            let (found, expected) = Device::apart(stream.device(), &graph.device);
            return Err(Error::StreamMismatch { found, expected });
        }
    }
    let together = Together { count: graphs.len() };
    let recorders = graphs.iter_mut().zip(streams).enumerate();
    let recorders: SmallVec<[Recorder<'_>; 1]> =
        recorders.map(|(at, (graph, stream))| Recorder::new(graph, stream, &together, at)).collect();
    let recorded = launches(&recorders);
    let recordings: SmallVec<[Recording<'_>; 1]> = recorders.into_iter().map(Recorder::end).collect();
    recordings.iter().for_each(Recording::release);
    let queued = recorded.and_then(|()| queue(recordings));
    // What was dropped meanwhile is freed behind the replay.
    graphs.iter_mut().for_each(|graph| graph.uses.clear());
    queued
}
