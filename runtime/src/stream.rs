//! Streams and events: work that goes on while the host does something else.

use crate::{
    device::{CudaEvent, Device, Kind},
    error::Error,
    queue::Queue,
};
use std::sync::Arc;

/// A queue of work on a device: launches on one stream run one after another, those on different streams may overlap.
///
/// Launches that share a buffer need no events between their streams: one waits for another as their borrows say, a
/// reader for the last writer, a writer for everyone. On the simulator a launch has ended when the call returns.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    pub(crate) left: u32,
    pub(crate) queue: Arc<Queue>,
}

impl Stream {
    /// A new stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(device: &Device) -> Result<Self, Error> {
        let queue = match device.kind() {
            Kind::Sim(_) => Queue::simulated(),
            Kind::Cuda(cuda) => Queue::new(Some(cuda.new_queue()?)),
        };
        Ok(Self::on(device, queue))
    }

    /// A stream that works through a queue of its own.
    pub(crate) fn on(device: &Device, queue: Queue) -> Self {
        Stream { device: device.clone(), left: 0, queue: Arc::new(queue) }
    }

    /// The stream on which [`Scheduled::run`](crate::Scheduled::run) works.
    pub fn default_of(device: &Device) -> Self {
        Stream { device: device.clone(), left: 0, queue: device.inner.queue.clone() }
    }

    /// The same stream, on which kernels whose CTAs take tile after tile (`persistent`) leave so many multiprocessors to others: to a
    /// collective of another stream, which runs beside them then ([`World::with_ctas`](crate::World::with_ctas) says how many it takes).
    /// At least one stays. Other kernels are as they are.
    pub fn leaving(self, multiprocessors: u32) -> Self {
        Stream { left: multiprocessors, ..self }
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits for all its work.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when some of it failed, with the launches that may have been it; [`Error::RankLost`].
    pub fn sync(&self) -> Result<(), Error> {
        self.queue.sync()
    }

    /// An event after the work so far.
    ///
    /// # Errors
    /// The driver's.
    pub fn record(&self) -> Result<Event, Error> {
        let cuda = self.queue.cuda.as_ref().map(|cuda| cuda.record(false)).transpose()?;
        Ok(Event { queue: self.queue.clone(), cuda })
    }

    /// The time at which the work so far ends.
    ///
    /// # Errors
    /// The driver's.
    pub fn timestamp(&self) -> Result<Timestamp, Error> {
        let cuda = self.queue.cuda.as_ref().map(|cuda| cuda.record(true)).transpose()?;
        Ok(Timestamp { event: Event { queue: self.queue.clone(), cuda } })
    }

    /// Makes later work wait for an event, which may be another stream's. Only work that shares no buffer needs it.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        match (&self.queue.cuda, &event.cuda) {
            (Some(cuda), Some(event)) => cuda.wait_event(event),
            (None, Some(_)) => event.sync(),
            (_, None) => Ok(()),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("device", &self.device).finish_non_exhaustive()
    }
}

/// A point in a stream's work.
pub struct Event {
    queue: Arc<Queue>,
    /// `None` on the simulator, where the work has ended.
    cuda: Option<CudaEvent>,
}

impl Event {
    /// Whether the work before it has ended.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when it failed.
    pub fn is_done(&self) -> Result<bool, Error> {
        let Some(event) = &self.cuda else { return Ok(true) };
        let done = event.is_done().map_err(|e| self.queue.failed(e))?;
        self.queue.check().map(|()| done)
    }

    /// Waits for the work before it.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when it failed.
    pub fn sync(&self) -> Result<(), Error> {
        let Some(event) = &self.cuda else { return Ok(()) };
        event.wait().map_err(|e| self.queue.failed(e))?;
        self.queue.check()
    }
}

/// A point in a stream's work whose time is taken.
pub struct Timestamp {
    event: Event,
}

impl Timestamp {
    /// Milliseconds from `start`, which is of the same device, to here; waits for the work before both. `None` on the
    /// simulator, which claims no time.
    ///
    /// # Errors
    /// [`Error::Asynchronous`] when the work failed; the driver's.
    pub fn ms_since(&self, start: &Timestamp) -> Result<Option<f64>, Error> {
        let (Some(end), Some(from)) = (&self.event.cuda, &start.event.cuda) else { return Ok(None) };
        start.event.sync()?;
        self.event.sync()?;
        end.ms_since(from).map(Some)
    }
}
