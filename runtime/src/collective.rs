//! Collectives: what several devices compute together.

#[cfg_attr(not(feature = "nccl"), path = "collective/without.rs")]
mod nccl;
mod part;
mod rank;

use crate::{
    buffer::{Buffer, RawBuffer},
    device::{Device, Kind},
    element::{Element, Float},
    error::Error,
};
use nccl::Nccl;
pub(crate) use part::Part;
use part::Work;
pub use rank::Rank;
pub(crate) use rank::sealed;
use std::sync::Arc;

/// Names under which NCCL's library is looked for: that of the wheel first, which has no other.
pub(crate) const NCCL: &[&str] = &["libnccl.so.2", "libnccl.so"];

/// Devices that work together: GPUs by NCCL, which is loaded when the first communicator of several is made, or simulators,
/// whose host computes the same. One device alone needs neither.
///
/// Devices of one process, called from one thread. Collectives are queued on one stream a device and are in order with launches
/// as those are with each other: a collective waits, on the GPU, for the work that its buffers' contents depend on, and work on
/// them waits for it.
///
/// ```
/// # use tile_runtime::{Buffer, Communicator, Device, Error, Stream};
/// # fn main() -> Result<(), Error> {
/// let devices = [Device::sim(), Device::sim()];
/// let all = Communicator::new(&devices)?;
/// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
/// let mut x = Buffer::from_slice(&devices[0], &[1.0f32, 2.0], &[2])?;
/// let mut y = Buffer::from_slice(&devices[1], &[10.0f32, 20.0], &[2])?;
/// all.all_reduce(&mut [&mut x, &mut y], &streams)?;
/// assert_eq!((x.to_vec()?, y.to_vec()?), (vec![11.0, 22.0], vec![11.0, 22.0]));
/// # Ok(())
/// # }
/// ```
pub struct Communicator {
    devices: Vec<Device>,
    /// Of several GPUs.
    nccl: Option<Arc<Nccl>>,
}

impl Communicator {
    /// Devices that work together, each once.
    ///
    /// # Errors
    /// [`Error::Collective`] for no devices, the same one twice, or GPUs beside simulators; [`Error::NoNccl`] where several GPUs
    /// need it; the driver's and NCCL's.
    pub fn new(devices: &[Device]) -> Result<Self, Error> {
        let wrong = |what: String| Err(Error::Collective { what });
        let Some(first) = devices.first() else { return wrong("there are no devices".into()) };
        for (n, device) in devices.iter().enumerate() {
            if device.is_gpu() != first.is_gpu() {
                return wrong(format!("{} and {} cannot work together", first.label(), device.label()));
            }
            let same = |other: &&Device| match (other.kind(), device.kind()) {
                (Kind::Cuda(a), Kind::Cuda(b)) => a.context.ordinal() == b.context.ordinal(),
                _ => other.same_as(device),
            };
            if let Some(other) = devices[..n].iter().find(same) {
                return wrong(format!("{} is there twice", other.label()));
            }
        }
        let nccl = match first.kind() {
            Kind::Cuda(_) if devices.len() > 1 => Some(Arc::new(Nccl::new(devices)?)),
            _ => None,
        };
        Ok(Communicator { devices: devices.to_vec(), nccl })
    }

    /// The devices, in the order in which buffers and streams are given.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Replaces each element of each buffer by the sum of those at its place in all of them. `buffers` and `on` have one a device, in the
    /// devices' order: streams on which the sum is queued, or recorders of graphs, which have it then ([`Graph::replay_together`]).
    ///
    /// The simulator adds in f32 in that order and rounds once; NCCL decides order and rounding itself. All devices get the same bits.
    ///
    /// # Errors
    /// [`Error::Collective`] for another number of them, or recorders of several replays; [`Error::Shape`] when shapes or layouts differ,
    /// [`Error::Gaps`]; [`Error::DeviceMismatch`], [`Error::StreamMismatch`], [`Error::Recorded`]: nothing is queued then. NCCL's.
    ///
    /// [`Graph::replay_together`]: crate::Graph::replay_together
    pub fn all_reduce<T: Float>(
        &self,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        self.queue(buffers, on, Work::Sum, sum_on_host::<T>)
    }

    /// Gives each device what all have: of each buffer, cut into as many equal parts as there are devices, the n-th part becomes that of
    /// the n-th device's buffer, bit for bit. `buffers` and `on` are as in [`Communicator::all_reduce`].
    ///
    /// ```
    /// # use tile_runtime::{Buffer, Communicator, Device, Error, Stream};
    /// # fn main() -> Result<(), Error> {
    /// let devices = [Device::sim(), Device::sim()];
    /// let streams: Vec<Stream> = devices.iter().map(Stream::new).collect::<Result<_, _>>()?;
    /// let mut x = Buffer::from_slice(&devices[0], &[1, 2, 0, 0], &[4])?;
    /// let mut y = Buffer::from_slice(&devices[1], &[0, 0, 3, 4], &[4])?;
    /// Communicator::new(&devices)?.all_gather(&mut [&mut x, &mut y], &streams)?;
    /// assert_eq!((x.to_vec()?, y.to_vec()?), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Communicator::all_reduce`]; [`Error::Collective`] where there are no equal parts.
    pub fn all_gather<T: Element>(
        &self,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
    ) -> Result<(), Error> {
        let (devices, shape) = (self.devices.len(), buffers.first().map(|buffer| buffer.shape()));
        if let Some(shape) = shape.filter(|shape| shape.iter().product::<usize>() % devices != 0) {
            let what = format!("a tensor of shape {shape:?} has no {devices} equal parts, one a device");
            return Err(Error::Collective { what });
        }
        self.queue(buffers, on, Work::Gather, gather_on_host)
    }

    fn queue<T: Element>(
        &self,
        buffers: &mut [&mut Buffer<T>],
        on: &[impl Rank],
        work: Work,
        on_host: fn(&[&RawBuffer]),
    ) -> Result<(), Error> {
        let raws: Vec<&RawBuffer> = buffers.iter().map(|buffer| &buffer.raw).collect();
        self.check(&raws, on)?;
        raws.iter().zip(on).try_for_each(|(raw, on)| on.order(raw))?;
        let result = match &self.nccl {
            _ if raws[0].geometry.count() == 0 || self.devices.len() == 1 => return Ok(()),
            // SAFETY: the buffers are without gaps and as long as each other, each on its device; they are freed and overwritten only
            // after this work, which `used` notes; what else uses them waits, which `order` saw to.
            Some(nccl) => unsafe { sealed::Sealed::put(on, Part::each(nccl, work, &raws)) },
            None => {
                on_host(&raws);
                Ok(())
            }
        };
        // Also after a failure: some of it may have been queued.
        raws.iter().zip(on).for_each(|(raw, on)| on.used(raw));
        result
    }

    fn check<R: Rank>(&self, raws: &[&RawBuffer], on: &[R]) -> Result<(), Error> {
        let count = self.devices.len();
        if (raws.len(), on.len()) != (count, count) {
            let (buffers, streams) = (raws.len(), on.len());
            let what = format!("{count} devices were given {buffers} buffers and {streams} streams");
            return Err(Error::Collective { what });
        }
        let first = &raws[0].geometry;
        for (n, ((raw, on), device)) in raws.iter().zip(on).zip(&self.devices).enumerate() {
            let stream = on.stream();
            let (found, g) = (&raw.memory.device, &raw.geometry);
            if !found.same_as(device) {
                let (found, expected) = Device::apart(found, device);
                return Err(Error::DeviceMismatch { name: format!("buffer {n}"), found, expected });
            }
            if !stream.device().same_as(device) {
                let (found, expected) = Device::apart(stream.device(), device);
                return Err(Error::StreamMismatch { found, expected });
            }
            if g.shape != first.shape || g.layout != first.layout {
                return Err(Error::Shape(format!(
                    "buffer 0 of a collective is a {} tensor of shape {:?}, and buffer {n} is a {} one of shape {:?}",
                    first.layout.name(),
                    first.shape,
                    g.layout.name(),
                    g.shape
                )));
            }
            if !g.is_dense() {
                let (shape, strides) = (g.shape.to_vec(), g.strides.to_vec());
                return Err(Error::Gaps { shape, strides, what: "a collective" });
            }
        }
        R::check(on)
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator").field("devices", &self.devices).finish_non_exhaustive()
    }
}

/// The sums, computed by the host.
fn sum_on_host<T: Float>(raws: &[&RawBuffer]) {
    let mut sums: Vec<f32> = vec![-0.0; raws[0].geometry.count()];
    for part in raws.iter().filter_map(|raw| raw.on_host()) {
        sums.iter_mut().zip(T::from_bytes(&part)).for_each(|(sum, x)| *sum += x.to_f64() as f32);
    }
    let sums: Vec<T> = sums.into_iter().map(|sum| T::from_f64(sum.into())).collect();
    let bytes = T::bytes_of(&sums);
    raws.iter().for_each(|raw| raw.put_on_host(&bytes));
}

/// The parts side by side, put together by the host.
fn gather_on_host(raws: &[&RawBuffer]) {
    let parts = raws.iter().enumerate().filter_map(|(rank, raw)| {
        let all = raw.on_host()?;
        let length = all.len() / raws.len();
        Some(all[rank * length..(rank + 1) * length].to_vec())
    });
    let bytes: Vec<u8> = parts.flatten().collect();
    raws.iter().for_each(|raw| raw.put_on_host(&bytes));
}
