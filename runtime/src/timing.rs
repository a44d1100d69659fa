//! The time that queued work takes on a GPU.

use crate::{
    device::{Device, Kind},
    error::Error,
    queue::Queue,
};
use std::time::Duration;

/// What a GPU does right before work that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing in particular.
    Nothing,
    /// It overwrites the L2 cache, and does nothing for so long.
    Evict { rest: Duration },
    /// The same work.
    Same,
}

/// Queues `work` between two events and waits for it; returns the milliseconds between them, `None` on the simulator.
///
/// The host queues the work while the GPU is still at what comes before, so the time does not hold what the host takes
/// to launch; but where nothing does.
///
/// # Errors
/// Those of `work`; [`Error::Asynchronous`] when what it queued failed.
pub(crate) fn timed<R>(
    device: &Device,
    queue: &Queue,
    before: Before,
    work: impl Fn() -> Result<R, Error>,
) -> Result<(R, Option<f64>), Error> {
    let (Kind::Cuda(gpu), Some(cuda)) = (device.kind(), &queue.cuda) else { return Ok((work()?, None)) };
    match before {
        Before::Nothing => {}
        Before::Evict { rest } => {
            let evictor = gpu.evictor(cuda)?;
            // SAFETY: it lives as long as the device, and its contents are no one's.
            unsafe { cuda.fill(evictor.pointer(), 0, evictor.bytes())? };
            cuda.rest(rest)?;
        }
        Before::Same => drop(work()?),
    }
    let start = cuda.record(true)?;
    let result = work()?;
    let end = cuda.record(true)?;
    end.wait().map_err(|e| queue.failed(e))?;
    Ok((result, Some(end.ms_since(&start)?)))
}
