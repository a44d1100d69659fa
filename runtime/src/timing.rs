//! The time that queued work takes on a GPU.

use crate::{
    device::{Device, Kind},
    error::Error,
    queue::Queue,
};

/// Queues `work` between two events and waits for it; returns the milliseconds between them, `None` on the simulator.
///
/// `cold` overwrites the L2 cache first. The host queues the work while the GPU does that, so the time does not hold
/// what the host takes to launch.
///
/// # Errors
/// Those of `work`; [`Error::Asynchronous`] when what it queued failed.
pub(crate) fn timed<R>(
    device: &Device,
    queue: &Queue,
    cold: bool,
    work: impl FnOnce() -> Result<R, Error>,
) -> Result<(R, Option<f64>), Error> {
    let (Kind::Cuda(gpu), Some(cuda)) = (device.kind(), &queue.cuda) else { return Ok((work()?, None)) };
    if cold {
        let evictor = gpu.evictor()?;
        // SAFETY: it lives as long as the device, and its contents are no one's.
        unsafe { cuda.fill(evictor.pointer(), 0, evictor.bytes())? };
    }
    let start = cuda.record(true)?;
    let result = work()?;
    let end = cuda.record(true)?;
    end.wait().map_err(|e| queue.failed(e))?;
    Ok((result, Some(end.ms_since(&start)?)))
}
