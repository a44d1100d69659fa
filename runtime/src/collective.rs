//! Collectives: what several devices compute together.

#[cfg(feature = "nccl")]
mod nccl;

use crate::{
    buffer::{Buffer, RawBuffer},
    device::{Device, Kind},
    element::Float,
    error::Error,
    stream::Stream,
};

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
    #[cfg(feature = "nccl")]
    nccl: Option<nccl::Nccl>,
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
        Ok(Communicator {
            #[cfg(feature = "nccl")]
            nccl: match first.kind() {
                Kind::Cuda(_) if devices.len() > 1 => Some(nccl::Nccl::new(devices)?),
                _ => None,
            },
            #[cfg(not(feature = "nccl"))]
            devices: match first.kind() {
                Kind::Cuda(_) if devices.len() > 1 => {
                    return Err(Error::NoNccl { why: "this build lacks the feature `nccl`" });
                }
                _ => devices.to_vec(),
            },
            #[cfg(feature = "nccl")]
            devices: devices.to_vec(),
        })
    }

    /// The devices, in the order in which buffers and streams are given.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Replaces each element of each buffer by the sum of those at its place in all of them. `buffers` and `streams` have one a
    /// device, in the devices' order.
    ///
    /// The simulator adds in f32 in that order and rounds once; NCCL decides order and rounding itself.
    ///
    /// # Errors
    /// [`Error::Collective`] for another number of them; [`Error::Shape`] when shapes or layouts differ, [`Error::Gaps`];
    /// [`Error::DeviceMismatch`], [`Error::StreamMismatch`], [`Error::Recorded`]: nothing is queued then. NCCL's.
    pub fn all_reduce<T: Float>(
        &self,
        buffers: &mut [&mut Buffer<T>],
        streams: &[Stream],
    ) -> Result<(), Error> {
        let raws: Vec<&RawBuffer> = buffers.iter().map(|buffer| &buffer.raw).collect();
        self.check(&raws, streams)?;
        for (raw, stream) in raws.iter().zip(streams) {
            raw.memory.order(&stream.queue, true)?;
        }
        let gpus = self.devices[0].is_gpu();
        let result = match raws[0].geometry.count() {
            0 => Ok(()),
            _ if self.devices.len() == 1 => Ok(()),
            _ if gpus => self.reduce_on_gpus(&raws, streams),
            _ => return reduce_on_host(buffers),
        };
        // Also after a failure: some of it may have been queued.
        for (raw, stream) in raws.iter().zip(streams) {
            raw.memory.used(&stream.queue, stream.queue.ticket(), true);
        }
        result
    }

    #[cfg(feature = "nccl")]
    fn reduce_on_gpus(&self, raws: &[&RawBuffer], streams: &[Stream]) -> Result<(), Error> {
        let nccl = self.nccl.as_ref().expect("made for several GPUs");
        // SAFETY: the buffers are without gaps and as long as each other, each on its device; they are freed and overwritten only
        // after this work, which the caller notes; what else uses them waits, which `order` saw to.
        unsafe { nccl.all_reduce(raws, streams) }
    }

    #[cfg(not(feature = "nccl"))]
    fn reduce_on_gpus(&self, _: &[&RawBuffer], _: &[Stream]) -> Result<(), Error> {
        unreachable!("there is no communicator of several GPUs")
    }

    fn check(&self, raws: &[&RawBuffer], streams: &[Stream]) -> Result<(), Error> {
        let count = self.devices.len();
        if (raws.len(), streams.len()) != (count, count) {
            let (buffers, streams) = (raws.len(), streams.len());
            let what = format!("{count} devices were given {buffers} buffers and {streams} streams");
            return Err(Error::Collective { what });
        }
        let first = &raws[0].geometry;
        for (n, ((raw, stream), device)) in raws.iter().zip(streams).zip(&self.devices).enumerate() {
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
        Ok(())
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator").field("devices", &self.devices).finish_non_exhaustive()
    }
}

/// The sums, computed by the host.
fn reduce_on_host<T: Float>(buffers: &mut [&mut Buffer<T>]) -> Result<(), Error> {
    let mut sums: Vec<f32> = vec![-0.0; buffers[0].raw.geometry.count()];
    for buffer in buffers.iter() {
        sums.iter_mut().zip(buffer.to_vec()?).for_each(|(sum, x)| *sum += x.to_f64() as f32);
    }
    let sums: Vec<T> = sums.into_iter().map(|sum| T::from_f64(sum.into())).collect();
    buffers.iter_mut().try_for_each(|buffer| buffer.copy_from(&sums))
}
