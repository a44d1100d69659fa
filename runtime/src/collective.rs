//! Collectives: what several devices compute together, of one process or of many.

mod calls;
mod check;
mod exchange;
mod host;
#[cfg_attr(not(feature = "nccl"), path = "collective/without.rs")]
mod nccl;
mod part;
mod rank;

use crate::{
    device::{Device, Kind},
    error::Error,
    ranks::{Id, Links, World},
};
pub use exchange::Counts;
use nccl::Nccl;
pub(crate) use part::Part;
pub use rank::Rank;
pub(crate) use rank::sealed;
use std::sync::{Arc, OnceLock};

/// Names under which NCCL's library is looked for: that of the wheel first, which has no other.
pub(crate) const NCCL: &[&str] = &["libnccl.so.2", "libnccl.so"];

/// Devices that work together: GPUs by NCCL, which is loaded when the first communicator of several is made, or simulators,
/// whose host computes the same. One device alone needs neither.
///
/// Each has a rank, a number from 0 on. [`Communicator::new`] is of devices of one process, which are called from one thread.
/// [`Communicator::from_env`] and [`Communicator::from_id`] are of a device in each of several processes; every process makes the same calls.
/// Collectives take a buffer and a stream for each device *of this process*, so that the same text does for both.
///
/// Collectives are queued on one stream a device and are in order with launches as those are with each other: a collective waits, on the
/// GPU, for the work that its buffers' contents depend on, and work on them waits for it. Simulators of several processes wait in the call.
///
/// Where a process dies, the next call of each other is [`Error::RankLost`], and so is a wait for work that it was a part of.
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
    /// Rank of the first device here, and how many there are in all.
    rank: usize,
    ranks: usize,
    between: Between,
}

/// What carries what between ranks.
enum Between {
    /// The host, for simulators of this process.
    Host,
    /// Nothing, but that a GPU alone may send to itself: then NCCL is loaded.
    Alone(OnceLock<Arc<Nccl>>),
    Nccl(Arc<Nccl>),
    /// Connections, for simulators of several processes.
    Links(Links),
}

impl Communicator {
    /// Devices of this process that work together, each once.
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
        let between = match first.kind() {
            Kind::Cuda(_) if devices.len() > 1 => Between::Nccl(Arc::new(Nccl::new(devices)?)),
            Kind::Cuda(_) => Between::Alone(OnceLock::new()),
            Kind::Sim(_) => Between::Host,
        };
        Ok(Communicator { devices: devices.to_vec(), rank: 0, ranks: devices.len(), between })
    }

    /// The rank of this process as torchrun started it, on the GPU of its local rank, or on the simulator where there is no GPU:
    /// [`World::from_env`], [`World::device`], [`Communicator::join`].
    ///
    /// ```no_run
    /// # use tile_runtime::{Buffer, Communicator, Error, Stream};
    /// # fn main() -> Result<(), Error> {
    /// // torchrun --no-python --nproc-per-node 2 program
    /// let all = Communicator::from_env()?;
    /// let device = &all.devices()[0];
    /// let mut x = Buffer::from_slice(device, &[1.0f32 + all.rank() as f32], &[1])?;
    /// all.all_reduce(&mut [&mut x], &[Stream::new(device)?])?;
    /// assert_eq!(x.to_vec()?, [3.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the three.
    pub fn from_env() -> Result<Self, Error> {
        let world = World::from_env()?;
        Self::join(&world, &world.device()?)
    }

    /// One of so many ranks, with its device, where the program carries the id itself: [`World::from_id`], [`Communicator::join`].
    ///
    /// # Errors
    /// Those of both.
    pub fn from_id(id: &Id, rank: usize, ranks: usize, device: &Device) -> Result<Self, Error> {
        Self::join(&World::from_id(id, rank, ranks)?, device)
    }

    /// A rank with its device. Waits until all are there: GPUs, each another, or simulators.
    ///
    /// # Errors
    /// [`Error::Rendezvous`], which names the ranks that did not come in time, or what they disagree about; [`Error::NoNccl`] where GPUs
    /// need it; NCCL's, and [`Error::RankLost`] where a rank dies meanwhile.
    pub fn join(world: &World, device: &Device) -> Result<Self, Error> {
        let gpu = device.is_gpu();
        if gpu && world.ranks() > 1 {
            Nccl::present()?;
        }
        let id = || if gpu { Nccl::id() } else { Ok(Vec::new()) };
        let joined = world.meet(gpu, id)?;
        let between = match (joined.links, gpu) {
            (None, true) => Between::Alone(OnceLock::new()),
            (None, false) => Between::Host,
            (Some(links), false) => Between::Links(links),
            (Some(links), true) => Between::Nccl(Arc::new(Nccl::join(device, &joined.nccl, links, world)?)),
        };
        Ok(Communicator { devices: vec![device.clone()], rank: world.rank(), ranks: world.ranks(), between })
    }

    /// The devices of this process, in the order in which buffers and streams are given.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The rank of this process's first device; those of its others follow.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are, in all processes.
    pub fn ranks(&self) -> usize {
        self.ranks
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator")
            .field("devices", &self.devices)
            .field("rank", &self.rank)
            .field("ranks", &self.ranks)
            .finish_non_exhaustive()
    }
}
