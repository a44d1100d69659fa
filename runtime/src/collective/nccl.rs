//! Communicators of NCCL: those of one process, and that of a rank among processes.
//!
//! Of a rank among processes nothing blocks (`ncclConfig_t`, `blocking`): a call that goes on is asked about until it has ended or a rank
//! is lost. NCCL does not notice the end of a process on the same machine, whose kernels would wait for ever. The connections between
//! the ranks do ([`Links`]); then a thread aborts the communicator, which ends its kernels.

mod api;

use super::part::{Call, Part, Turns};
use crate::{
    device::{Device, Kind},
    error::Error,
    memory::lock,
    ranks::{Health, Links, World},
    reduction::Reduction,
};
use api::Api;
use cudarc::{
    driver::sys::CUstream,
    nccl::sys::{
        cudaStream_t, ncclComm_t, ncclConfig_t, ncclConfig_v21700, ncclDataType_t, ncclRedOp_t, ncclResult_t,
        ncclUniqueId,
    },
};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    mem::take,
    ptr::{null, null_mut},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const WHAT: &str = "a collective";
const MAKING: &str = "making a communicator";
/// Between two questions whether a call has ended: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_micros(5), Duration::from_millis(1)];
/// Between two questions whether NCCL has found something wrong.
const LOOK: Duration = Duration::from_millis(100);
/// How long a call that failed waits for the abort. Where graphs hold the communicator it may take until they are gone; their replays
/// need nothing of the host.
const ABORT: Duration = Duration::from_secs(5);
/// How long a communicator that is done may take to become quiet: until other ranks have what this one sent.
const FAREWELL: Duration = Duration::from_secs(30);

/// A communicator of NCCL for each device of this process.
pub(super) struct Nccl {
    api: &'static Api,
    communicators: Arc<Mutex<Communicators>>,
    devices: Vec<Device>,
    among: Option<Among>,
}

/// The other processes.
struct Among {
    links: Links,
    closing: Arc<AtomicBool>,
    /// The watcher has nothing more to do: after an abort, or at the end.
    over: Arc<(Mutex<bool>, Condvar)>,
    watcher: Option<JoinHandle<()>>,
}

/// One a device of this process; none any more after an abort.
struct Communicators(Vec<ncclComm_t>);

// SAFETY: a communicator may be used from any thread, though by one at a time.
unsafe impl Send for Communicators {}

impl Nccl {
    /// Of the devices of this process.
    ///
    /// # Errors
    /// [`Error::NoNccl`], NCCL's.
    pub(super) fn new(devices: &[Device]) -> Result<Self, Error> {
        let api = Api::get()?;
        let ordinals = devices.iter().filter_map(|device| match device.kind() {
            Kind::Cuda(cuda) => Some(cuda.context.ordinal() as c_int),
            Kind::Sim(_) => None,
        });
        let ordinals: Vec<c_int> = ordinals.collect();
        let mut communicators = vec![null_mut(); ordinals.len()];
        // SAFETY: both arrays are as long as it is told.
        let result =
            unsafe { (api.init_all)(communicators.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr()) };
        api.check(MAKING, result)?;
        // NCCL reads the others' buffers directly where the machine can do that.
        for device in devices {
            for peer in devices {
                if let (Kind::Cuda(device), Kind::Cuda(peer)) = (device.kind(), peer.kind()) {
                    device.pool().share_with(&peer.context)?;
                }
            }
        }
        let communicators = Arc::new(Mutex::new(Communicators(communicators)));
        Ok(Nccl { api, communicators, devices: devices.to_vec(), among: None })
    }

    /// An id for ranks that are to meet, from the first of them.
    ///
    /// # Errors
    /// [`Error::NoNccl`], NCCL's.
    pub(super) fn id() -> Result<Vec<u8>, Error> {
        let api = Api::get()?;
        let mut id = ncclUniqueId { internal: [0; 128] };
        // SAFETY: it writes one id.
        api.check("making an id", unsafe { (api.unique_id)(&mut id) })?;
        Ok(id.internal.map(|byte| byte as u8).to_vec())
    }

    /// Whether the library is there.
    ///
    /// # Errors
    /// [`Error::NoNccl`].
    pub(super) fn present() -> Result<(), Error> {
        Api::get().map(drop)
    }

    /// Of a device among those of other processes, which have met.
    ///
    /// # Errors
    /// [`Error::RankLost`], also where not all come in time; NCCL's.
    pub(super) fn join(device: &Device, id: &[u8], links: Links, world: &World) -> Result<Self, Error> {
        let api = Api::get()?;
        let Ok(id) = <[u8; 128]>::try_from(id) else {
            let what = "rank 0 has told no id of NCCL".into();
            return Err(Error::Collective { what });
        };
        let id = ncclUniqueId { internal: id.map(|byte| byte as c_char) };
        if let Kind::Cuda(cuda) = device.kind() {
            cuda.bind()?;
        }
        let mut config = config(world.ctas());
        let mut communicator = null_mut();
        // SAFETY: it writes a communicator, and copies the configuration. The device is current.
        let begun = unsafe {
            let (ranks, rank) = (links.ranks() as c_int, links.rank() as c_int);
            (api.init_rank)(&mut communicator, ranks, id, rank, &mut config)
        };
        let deadline = Instant::now() + world.timeout();
        let made = api.check_begun(MAKING, begun).and_then(|()| {
            ended(api, MAKING, communicator, &mut || match Instant::now() >= deadline {
                true => {
                    links.give_up(format!("NCCL has not come up on rank {} in time", links.rank()));
                    links.check()
                }
                false => links.health().check(),
            })
        });
        if let Err(error) = made {
            if !communicator.is_null() {
                // SAFETY: made above, and not used any more.
                let _ = unsafe { (api.abort)(communicator) };
            }
            links.give_up(format!("NCCL has failed on rank {}: {error}", links.rank()));
            return Err(error);
        }
        let communicators = Arc::new(Mutex::new(Communicators(vec![communicator])));
        let closing = Arc::new(AtomicBool::new(false));
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let watcher = match watch(api, &communicators, &links, (&closing, &over)) {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                abort(api, &communicators);
                let what = format!("no thread to watch the ranks: {error}");
                return Err(Error::Collective { what });
            }
        };
        let among = Among { links, closing, over, watcher };
        Ok(Nccl { api, communicators, devices: vec![device.clone()], among: Some(among) })
    }

    /// Whether all ranks are there.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    fn check(&self) -> Result<(), Error> {
        self.among.as_ref().map_or(Ok(()), |among| among.links.check())
    }

    /// Notes that work is about to be queued.
    ///
    /// # Errors
    /// [`Error::RankLost`].
    pub(super) fn begin(&self, turns: &Turns) -> Result<(), Error> {
        self.among.as_ref().map_or(Ok(()), |among| turns.begin(&among.links))
    }

    pub(super) fn health(&self) -> Option<Arc<Health>> {
        self.among.as_ref().map(|among| among.links.health().clone())
    }

    /// A collective, queued on each stream, or captured by it.
    ///
    /// # Safety
    /// As [`Part::queue`].
    ///
    /// # Errors
    /// NCCL's; [`Error::RankLost`].
    pub(super) unsafe fn queue(&self, parts: &[&Part], streams: &[CUstream]) -> Result<(), Error> {
        let result = {
            let Communicators(communicators) = &*lock(&self.communicators);
            match communicators.is_empty() {
                true => Err(Error::Collective { what: "the communicator was aborted".into() }),
                // SAFETY: the caller's.
                false => unsafe { self.group(communicators, parts, streams) },
            }
        };
        if let (Err(error @ Error::Cuda { .. }), Some(among)) = (&result, &self.among) {
            // A communicator that failed does nothing more: the others are not to wait for it.
            among.links.give_up(format!("NCCL has failed on rank {}: {error}", among.links.rank()));
        }
        // Not under the lock, which the watcher needs for an abort. A thread of NCCL may still be launching on these streams: they have to
        // be there until the abort has ended it.
        if let (Err(_), Some(among)) = (&result, &self.among) {
            among.await_abort();
        }
        result.and_then(|()| self.check()).or_else(|error| self.check().and(Err(error)))
    }

    /// # Safety
    /// As [`Part::queue`].
    ///
    /// # Errors
    /// As [`Nccl::queue`].
    unsafe fn group(
        &self,
        communicators: &[ncclComm_t],
        parts: &[&Part],
        streams: &[CUstream],
    ) -> Result<(), Error> {
        let begun = |result| match self.among {
            Some(_) => self.api.check_begun(WHAT, result),
            None => self.api.check(WHAT, result),
        };
        // SAFETY: no arguments.
        begun(unsafe { (self.api.group_start)() })?;
        let each = parts.iter().zip(streams).try_for_each(|(part, stream)| {
            let communicator = communicators[part.place];
            let mut calls = part.calls.iter();
            // SAFETY: the caller's.
            calls.try_for_each(|call| begun(unsafe { one(self.api, call, communicator, stream.cast()) }))
        });
        // SAFETY: no arguments; a group that was started is ended.
        let ended_group = begun(unsafe { (self.api.group_end)() });
        each.and(ended_group)?;
        match &self.among {
            // Only then has the stream, or the graph, got the work.
            Some(among) => {
                let mut alive = || among.links.health().check();
                communicators.iter().try_for_each(|one| ended(self.api, WHAT, *one, &mut alive))
            }
            None => Ok(()),
        }
    }
}

/// # Safety
/// The memory is as [`Part::queue`] wants it, and the communicator is live.
unsafe fn one(api: &Api, call: &Call, communicator: ncclComm_t, stream: cudaStream_t) -> ncclResult_t {
    let pointer = |at: u64| std::ptr::without_provenance_mut::<c_void>(at as usize);
    let bytes_type = ncclDataType_t::ncclUint8 as c_uint;
    // `Reducible` has no other types.
    let code = |dtype: tile_dsl::dtype::DType| dtype.format().nccl.unwrap_or(bytes_type);
    let by = |reduction| match reduction {
        Reduction::Sum => ncclRedOp_t::ncclSum,
        Reduction::Max => ncclRedOp_t::ncclMax,
        Reduction::Min => ncclRedOp_t::ncclMin,
    };
    // SAFETY: the caller's.
    unsafe {
        match *call {
            Call::AllReduce { at, count, dtype, reduction } => {
                let at = pointer(at);
                (api.all_reduce)(at, at, count, code(dtype), by(reduction), communicator, stream)
            }
            Call::ReduceScatter { from, to, count, dtype, reduction } => {
                let (from, to) = (pointer(from), pointer(to));
                (api.reduce_scatter)(from, to, count, code(dtype), by(reduction), communicator, stream)
            }
            Call::AllGather { from, to, bytes } => {
                (api.all_gather)(pointer(from), pointer(to), bytes, bytes_type, communicator, stream)
            }
            Call::Broadcast { at, bytes, root } => {
                let at = pointer(at);
                (api.broadcast)(at, at, bytes, bytes_type, root as c_int, communicator, stream)
            }
            Call::Send { at, bytes, peer } => {
                (api.send)(pointer(at), bytes, bytes_type, peer as c_int, communicator, stream)
            }
            Call::Receive { at, bytes, peer } => {
                (api.receive)(pointer(at), bytes, bytes_type, peer as c_int, communicator, stream)
            }
        }
    }
}

/// `NCCL_CONFIG_INITIALIZER` of the version whose types these are, but that nothing blocks, and with the most CTAs. A newer library reads as much as `size` says.
fn config(most: Option<u32>) -> ncclConfig_t {
    const UNDEFINED: c_int = c_int::MIN;
    ncclConfig_v21700 {
        size: size_of::<ncclConfig_v21700>(),
        magic: 0xcafe_beef,
        version: 22_400,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: most.map_or(UNDEFINED, |most| most.min(32) as c_int),
        netName: null(),
        splitShare: UNDEFINED,
    }
}

/// Waits until what was begun on a communicator that does not block has ended, for as long as `alive` lets it.
///
/// # Errors
/// NCCL's, and those of `alive`.
fn ended(
    api: &Api,
    what: &'static str,
    communicator: ncclComm_t,
    alive: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let [mut pause, longest] = PAUSE;
    loop {
        let mut state = ncclResult_t::ncclInProgress;
        // SAFETY: the communicator is live, and this writes one number.
        api.check_begun(what, unsafe { (api.async_error)(communicator, &mut state) })?;
        if state != ncclResult_t::ncclInProgress {
            return api.check(what, state);
        }
        alive()?;
        thread::sleep(pause);
        pause = (2 * pause).min(longest);
    }
}

/// Ends what runs, once.
fn abort(api: &Api, communicators: &Mutex<Communicators>) {
    // Not under the lock: it may take until graphs that hold them are gone.
    let gone = take(&mut lock(communicators).0);
    for communicator in gone {
        // SAFETY: no one else has it any more. A failure leaves it to the end of the process.
        let _ = unsafe { (api.abort)(communicator) };
    }
}

/// A thread that aborts the communicator when a rank is lost, and tells the others when NCCL has found something wrong.
fn watch(
    api: &'static Api,
    communicators: &Arc<Mutex<Communicators>>,
    links: &Links,
    (closing, over): (&Arc<AtomicBool>, &Arc<(Mutex<bool>, Condvar)>),
) -> std::io::Result<JoinHandle<()>> {
    let (watch, communicators) = (links.watch(), communicators.clone());
    let (closing, over) = (closing.clone(), over.clone());
    let looks = move || {
        while !closing.load(Ordering::Acquire) {
            if watch.lost_within(LOOK) {
                return abort(api, &communicators);
            }
            // Who has it asks itself.
            let Ok(held) = communicators.try_lock() else { continue };
            for communicator in &held.0 {
                let mut state = ncclResult_t::ncclSuccess;
                // SAFETY: it is live while it is held, and this writes one number.
                let asked = unsafe { (api.async_error)(*communicator, &mut state) };
                let found = api.check_begun(WHAT, asked).and_then(|()| api.check_begun(WHAT, state));
                if let Err(error) = found {
                    watch.give_up(&error);
                }
            }
        }
    };
    let work = move || {
        looks();
        *lock(&over.0) = true;
        over.1.notify_all();
    };
    thread::Builder::new().name("tilewright nccl".into()).spawn(work)
}

impl Among {
    /// Waits until the watcher has aborted the communicator, for [`ABORT`] at most.
    fn await_abort(&self) {
        let ended = lock(&self.over.0);
        let _ = self.over.1.wait_timeout_while(ended, ABORT, |over| !*over);
    }

    /// Lets the watcher end, which may be aborting.
    fn close(&mut self) {
        self.closing.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        for device in &self.devices {
            if let Kind::Cuda(cuda) = device.kind() {
                // After a failure the GPU runs nothing any more. A rank that is lost meanwhile does not hold this up: the watcher aborts.
                let _ = cuda.synchronize();
            }
        }
        if let Some(among) = &mut self.among {
            among.close();
            if among.links.health().check().is_err() {
                return abort(self.api, &self.communicators);
            }
            let deadline = Instant::now() + FAREWELL;
            let mut alive = || match Instant::now() >= deadline {
                true => Err(Error::Collective { what: "the communicator does not become quiet".into() }),
                false => among.links.health().check(),
            };
            let quiet = lock(&self.communicators).0.iter().try_for_each(|one| {
                // SAFETY: it is live.
                self.api.check_begun(WHAT, unsafe { (self.api.finalize)(*one) })?;
                ended(self.api, WHAT, *one, &mut alive)
            });
            if quiet.is_err() {
                return abort(self.api, &self.communicators);
            }
        }
        for communicator in take(&mut lock(&self.communicators).0) {
            // SAFETY: made once, destroyed once, and its work has ended. A failure leaves it to the end of the process.
            let _ = unsafe { (self.api.destroy)(communicator) };
        }
    }
}
