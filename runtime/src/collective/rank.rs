//! Where the parts of a collective go.

use super::Part;
use crate::{buffer::RawBuffer, error::Error, stream::Stream};

/// What takes a device's part of a collective: a [`Stream`], or the [`Recorder`](crate::Recorder) of a graph that is being replayed.
///
/// A collective takes the recorders of one replay, all of them: [`Graph::replay_together`](crate::Graph::replay_together).
pub trait Rank: sealed::Sealed {}

pub(crate) mod sealed {
    use super::*;

    pub trait Sealed: Sized {
        fn stream(&self) -> &Stream;

        /// # Errors
        /// [`Error::Collective`] for what does not belong together.
        fn check(on: &[Self]) -> Result<(), Error>;

        /// Makes what is put here wait for what uses the buffer in its way.
        ///
        /// # Errors
        /// [`Error::Recorded`]; the driver's.
        fn order(&self, buffer: &RawBuffer, writes: bool) -> Result<(), Error>;

        /// Puts a part each.
        ///
        /// # Safety
        /// Those of [`Part::queue`], and that the buffers are noted as used.
        ///
        /// # Errors
        /// NCCL's; [`Error::RankLost`].
        unsafe fn put(on: &[Self], parts: Vec<Part>) -> Result<(), Error>;

        /// Notes that the buffer is used by what was put here.
        fn used(&self, buffer: &RawBuffer, writes: bool);
    }
}

impl Rank for Stream {}

impl sealed::Sealed for Stream {
    fn stream(&self) -> &Stream {
        self
    }

    fn check(_: &[Self]) -> Result<(), Error> {
        Ok(())
    }

    fn order(&self, buffer: &RawBuffer, writes: bool) -> Result<(), Error> {
        buffer.memory.order(&self.queue, writes)
    }

    unsafe fn put(on: &[Self], parts: Vec<Part>) -> Result<(), Error> {
        let streams = on.iter().filter_map(|stream| stream.queue.cuda.as_ref());
        let streams: Vec<_> = streams.map(|cuda| cuda.stream.cu_stream()).collect();
        parts.iter().try_for_each(Part::begin)?;
        // So that a wait knows whether the work can have ended well.
        on.iter().zip(&parts).for_each(|(on, part)| on.queue.needs(part.health()));
        // SAFETY: the caller's.
        unsafe { Part::queue(&parts.iter().collect::<Vec<_>>(), &streams) }
    }

    fn used(&self, buffer: &RawBuffer, writes: bool) {
        buffer.memory.used(&self.queue, self.queue.ticket(), writes);
    }
}
