//! The simulator as a device.

mod options;
mod pages;

pub use options::SimOptions;

use crate::{
    compile::Compiled,
    device::HostMemory,
    error::Error,
    execute::{Call, Simulated},
    geometry::Geometry,
    job::Job,
    memory::{Memory as Bytes, Storage, lock},
    plan::Word,
    problems::{Rows, WIDTHS},
    tensor_map::TensorMap,
    usage::MemoryUse,
};
use pages::{NoRoom, Pages, Refused, Room};
use ptx_sim::{AsyncMode, Launch, LaunchError, Memory, Module, Swizzle, TensorElement};
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use tile_dsl::dtype::DType;

/// Multiprocessors that persistent CTAs are spread over.
pub(crate) const MULTIPROCESSORS: u32 = 4;

/// The simulator.
#[derive(Debug, Default)]
pub(crate) struct SimDevice {
    options: SimOptions,
    /// Bytes of live buffers.
    taken: Arc<AtomicU64>,
}

/// Room for a buffer, given back with the value.
pub(crate) struct Reserved {
    taken: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A tensor of a launch.
pub(crate) struct SimTensor<'a> {
    /// Name of the parameter, for reports.
    pub(crate) name: &'a str,
    pub(crate) memory: &'a Bytes,
    /// Address of its first element, from where `memory` would be if it were well aligned.
    pub(crate) base: u64,
    pub(crate) dtype: DType,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) geometry: &'a Geometry,
    /// What the kernel leaves is kept.
    pub(crate) written: bool,
    /// Zero before the launch.
    pub(crate) cleared: bool,
}

impl SimTensor<'_> {
    /// Whether both lie in one memory.
    fn beside(&self, other: &SimTensor<'_>) -> bool {
        std::ptr::eq(self.memory, other.memory)
    }

    /// Calls `f` with the bytes of each contiguous run.
    fn runs(&self, mut f: impl FnMut(std::ops::Range<usize>)) {
        self.geometry.runs(|at, count| f(at * self.size..(at + count) * self.size));
    }

    fn contents(&self) -> Result<MutexGuard<'_, HostMemory>, Error> {
        match &self.memory.storage {
            Storage::Host(data, _) => Ok(lock(data)),
            Storage::Cuda(_) => Err(Error::DeviceMismatch {
                name: self.name.into(),
                found: "a GPU".into(),
                expected: "simulator".into(),
            }),
        }
    }
}

impl SimDevice {
    pub(crate) fn new(options: SimOptions) -> Self {
        SimDevice { options, taken: Arc::default() }
    }

    /// Memory for a buffer, each byte with this value.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn allocate(&self, bytes: usize, byte: u8) -> Result<Storage, Error> {
        let full =
            || Error::OutOfMemory { device: "simulator".into(), bytes: bytes as u128, memory: self.usage() };
        let more = |taken: u64| taken.checked_add(bytes as u64).filter(|sum| *sum <= self.options.capacity);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| full())?;
        let reserved = Reserved { taken: self.taken.clone(), bytes: bytes as u64 };
        let memory = HostMemory::filled(bytes, byte).ok_or_else(full)?;
        Ok(Storage::Host(Mutex::new(memory), Some(reserved)))
    }

    pub(crate) fn usage(&self) -> MemoryUse {
        let taken = self.taken.load(Ordering::Relaxed);
        MemoryUse { in_use: taken, reserved: taken, free: self.options.capacity - taken }
    }

    /// Runs a kernel on copies of what its tensors have of the memory that they lie in, at the places where it is, so that
    /// a view has the alignment that it has on a GPU and what is written beside it is seen.
    pub(crate) fn run(&self, job: &Job<'_, '_>) -> Result<Simulated, Error> {
        let compiled = job.first().compiled;
        let ptx = &compiled.ptx;
        let refused =
            |reason: &dyn ToString| Error::Simulator { entry: ptx.entry.clone(), reason: reason.to_string() };
        let module = parsed(compiled).as_ref().map_err(|e| refused(e))?;
        let outside = job.calls.iter().flat_map(Call::outside).collect();
        let mut memory = Memory::with_capacity(self.options.capacity);
        let mut room = Room::new(self.options.host_memory.unwrap_or_else(ptx_sim::free_memory));
        let no_room = |NoRoom { limit }: NoRoom| {
            refused(&format!(
                "copies of what its tensors hold need more than {limit} bytes of host memory: use smaller tensors or views, \
                 or raise `host_memory` of the `SimOptions` (`Device::sim_with`)"
            ))
        };
        // Zeros, of which the host provides what is touched.
        let alloc = |memory: &mut Memory, name: &str, bytes: usize| {
            memory.alloc(name, bytes as u64).map_err(|_| Error::OutOfMemory {
                device: "simulator".into(),
                bytes: bytes as u128,
                memory: MemoryUse {
                    in_use: memory.used(),
                    reserved: memory.used(),
                    free: memory.capacity() - memory.used(),
                },
            })
        };
        // Bytes of the launch's own, twice while they are copied.
        let place = |memory: &mut Memory, room: &mut Room, name: &str, data: &[u8]| {
            room.take(data.len()).map_err(no_room)?;
            let address = alloc(memory, name, data.len())?;
            memory.write(address, data).map_err(|e| refused(&e))?;
            Ok::<u64, Error>(address)
        };
        // Those of all calls, one after the other.
        let tensors: Vec<SimTensor<'_>> = job.calls.iter().flat_map(Call::sim_tensors).collect();
        // Where each tensor's memory would be if it were well aligned.
        let mut placed: Vec<u64> = Vec::new();
        // What the memory of written tensors held, by the first tensor in it.
        let mut before: Vec<Option<pages::Before>> = Vec::new();
        for (n, tensor) in tensors.iter().enumerate() {
            if tensor.cleared {
                let mut contents = tensor.contents()?;
                tensor.runs(|run| contents[run].fill(0));
            }
            // Two parts of one memory, of which one is written, are one allocation, as on a GPU.
            let shared = tensors[..n]
                .iter()
                .position(|earlier| earlier.beside(tensor) && (earlier.written || tensor.written));
            let (address, held) = match shared {
                Some(earlier) => (placed[earlier], None),
                None => {
                    let contents = tensor.contents()?;
                    let mut pages = Pages::default();
                    for other in tensors.iter().filter(|other| other.beside(tensor)) {
                        pages.add(other.geometry, other.size, contents.len());
                    }
                    let written = tensors.iter().any(|other| other.beside(tensor) && other.written);
                    let skew = contents.skew();
                    let address = alloc(&mut memory, tensor.name, skew + contents.len())?;
                    let to = address + skew as u64;
                    let held = pages::copy_in(&mut memory, to, &contents, pages.sorted(), written, &mut room);
                    let held = held.map_err(|e| match e {
                        Refused::Memory(e) => refused(&e),
                        Refused::NoRoom(e) => no_room(e),
                    })?;
                    (address, Some(held).filter(|_| written))
                }
            };
            placed.push(address);
            before.push(held);
        }
        let addresses: Vec<u64> = tensors.iter().zip(&placed).map(|(t, at)| at + t.base).collect();
        let each = tensors.len() / job.calls.len();
        let mut padded = Vec::new();
        // Words and maps of each call.
        let mut params = Vec::new();
        for (n, call) in job.calls.iter().enumerate() {
            // Without a value: not a number, so that it is seen.
            let mut scratch = Vec::new();
            for wanted in compiled.wanted(call.ctas) {
                let byte = if wanted.zeroed { 0 } else { 0xff };
                let bytes = vec![byte; wanted.bytes as usize];
                scratch.push(place(&mut memory, &mut room, "scratch", &bytes)?);
            }
            let addresses = &addresses[n * each..][..each];
            let mut own = Vec::new();
            for copy in call.padded(addresses) {
                let tensor = &tensors[n * each + copy.tensor];
                let mut rows = vec![if copy.empty { 0 } else { 0xff }; copy.bytes as usize];
                if !copy.stored {
                    let contents = tensor.contents()?;
                    let (copied, first) =
                        (copy.rows(tensor.geometry, tensor.dtype), tensor.base as usize - contents.skew());
                    copied.each(|[from, to]| {
                        let from = first + from;
                        rows[to..to + copied.bytes].copy_from_slice(&contents[from..from + copied.bytes]);
                    });
                }
                let name = format!("{}, padded", tensor.name);
                let address = place(&mut memory, &mut room, &name, &rows)?;
                own.push((copy, address));
            }
            let maps = call.maps(addresses, &own)?;
            let maps = maps.iter().map(encoded).collect::<Result<Vec<_>, _>>().map_err(|e| refused(&e))?;
            params.push((call.words(addresses, &scratch).collect::<Vec<u64>>(), maps));
            padded.extend(own.into_iter().map(|(copy, at)| (n * each + copy.tensor, copy, at)));
        }
        let map_of = |maps: &[[u8; 128]], from: &Word| match from {
            Word::Map(n) => Some(maps[*n]),
            _ => None,
        };
        let params = match &compiled.grouped {
            None => {
                let (words, maps) = &params[0];
                let params = words.iter().zip(&compiled.widths).zip(&compiled.words);
                let params = params.map(|((word, width), from)| match map_of(maps, from) {
                    Some(map) => map.to_vec(),
                    None => word.to_le_bytes()[..usize::from(*width)].to_vec(),
                });
                params.collect()
            }
            Some(table) => {
                let mut rows = Rows::new(table, &compiled.widths);
                for (call, (words, maps)) in job.calls.iter().zip(&params) {
                    rows.push(words, |n| map_of(maps, &compiled.words[n]), call.ctas);
                }
                let (bytes, words) = rows.finish();
                let words = words(place(&mut memory, &mut room, "problems", &bytes)?);
                let params = words.iter().zip(WIDTHS);
                params.map(|(word, width)| word.to_le_bytes()[..usize::from(width)].to_vec()).collect()
            }
        };
        let launch = Launch {
            kernel: ptx.entry.clone(),
            grid: [job.ctas, 1, 1],
            block: [ptx.threads, 1, 1],
            dynamic_shared: ptx.dynamic_shared,
            params,
            seed: self.options.seed,
            async_mode: if self.options.early { AsyncMode::Early } else { AsyncMode::Late },
            race_check: self.options.race_check,
            check_memory: Some(room.left()),
            dependent: compiled.dependent,
            trace: self.options.trace,
            ..Launch::default()
        };
        let report = ptx_sim::launch(module, &mut memory, &launch).map_err(|e| match e {
            LaunchError::CheckMemory { limit } => refused(&format!(
                "the race checks need more than {limit} bytes of host memory: use smaller tensors, raise `host_memory` of the \
                 `SimOptions` (`Device::sim_with`), or leave the checks out (`race_check: false`)"
            )),
            e => refused(&e),
        })?;
        for (n, copy, from) in padded.iter().filter(|(_, copy, _)| copy.stored) {
            let tensor = &tensors[*n];
            let rows = copy.rows(tensor.geometry, tensor.dtype);
            let (mut row, mut moved) = (vec![0; rows.bytes], Ok(()));
            rows.each(|[to, at]| {
                let to = addresses[*n] + to as u64;
                let result = memory.read(from + at as u64, &mut row).and_then(|()| memory.write(to, &row));
                moved = std::mem::replace(&mut moved, Ok(())).and(result);
            });
            moved.map_err(|e| refused(&e))?;
        }
        for (n, tensor) in tensors.iter().enumerate() {
            if let Some(before) = &before[n] {
                let mut contents = tensor.contents()?;
                let from = placed[n] + contents.skew() as u64;
                pages::copy_out(&memory, from, &mut contents, before).map_err(|e| refused(&e))?;
            }
        }
        Ok(Simulated { counters: report.counters, findings: report.findings, outside, trace: report.trace })
    }
}

/// A tensor map as the simulator has it.
fn encoded(map: &TensorMap) -> Result<[u8; 128], ptx_sim::TensorMapError> {
    let code = map.dtype.format().tensor_map;
    let Some(element) = TensorElement::of_driver(code) else {
        unreachable!("the driver has no type {code}, which is {}", map.dtype)
    };
    let mut out = ptx_sim::TensorMap::new(map.address, element, &map.dims, &map.strides, &map.tile);
    out.swizzle = match map.swizzle {
        128 => Swizzle::B128,
        64 => Swizzle::B64,
        32 => Swizzle::B32,
        _ => Swizzle::None,
    };
    out.encode()
}

/// The module, parsed once in the life of the process.
fn parsed(compiled: &Compiled) -> &Result<Module, ptx_sim::ParseError> {
    compiled.parsed.get_or_init(|| Module::parse(&compiled.ptx.text))
}
