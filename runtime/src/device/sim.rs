//! The simulator as a device.

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
use ptx_sim::{AsyncMode, Launch, Memory, Module, Swizzle, TensorElement};
use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use tile_dsl::dtype::DType;

/// Bytes that buffers may take, and the tensors of one launch.
pub(crate) const CAPACITY: u64 = 16 << 30;

/// Multiprocessors that persistent CTAs are spread over.
pub(crate) const MULTIPROCESSORS: u32 = 4;

/// The simulator.
#[derive(Debug, Default)]
pub(crate) struct SimDevice {
    seed: u64,
    mode: AsyncMode,
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
    pub(crate) fn new(seed: u64, mode: AsyncMode) -> Self {
        SimDevice { seed, mode, taken: Arc::default() }
    }

    /// Memory for a buffer, each byte with this value.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn allocate(&self, bytes: usize, byte: u8) -> Result<Storage, Error> {
        let full =
            || Error::OutOfMemory { device: "simulator".into(), bytes: bytes as u128, memory: self.usage() };
        let more = |taken: u64| taken.checked_add(bytes as u64).filter(|sum| *sum <= CAPACITY);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| full())?;
        let reserved = Reserved { taken: self.taken.clone(), bytes: bytes as u64 };
        let memory = HostMemory::filled(bytes, byte).ok_or_else(full)?;
        Ok(Storage::Host(Mutex::new(memory), Some(reserved)))
    }

    pub(crate) fn usage(&self) -> MemoryUse {
        let taken = self.taken.load(Ordering::Relaxed);
        MemoryUse { in_use: taken, reserved: taken, free: CAPACITY - taken }
    }

    /// Runs a kernel on copies of the memory that its tensors lie in, each as a whole, so that a view has the
    /// alignment that it has on a GPU and what is written beside it is seen.
    pub(crate) fn run(&self, job: &Job<'_, '_>) -> Result<Simulated, Error> {
        let compiled = job.first().compiled;
        let ptx = &compiled.ptx;
        let refused =
            |reason: &dyn ToString| Error::Simulator { entry: ptx.entry.clone(), reason: reason.to_string() };
        let module = parsed(compiled).as_ref().map_err(|e| refused(e))?;
        let mut memory = Memory::with_capacity(CAPACITY);
        // So many bytes beyond a well aligned place, whose address it returns.
        let mut place = |name: &str, skew: usize, data: &[u8]| {
            let address = memory.alloc(name, (skew + data.len()) as u64).map_err(|_| Error::OutOfMemory {
                device: "the simulator".into(),
                bytes: data.len() as u128,
                memory: MemoryUse {
                    in_use: memory.used(),
                    reserved: memory.used(),
                    free: memory.capacity() - memory.used(),
                },
            })?;
            memory.write(address + skew as u64, data).map_err(|e| refused(&e))?;
            Ok::<u64, Error>(address)
        };
        // Those of all calls, one after the other.
        let tensors: Vec<SimTensor<'_>> = job.calls.iter().flat_map(Call::sim_tensors).collect();
        // Where each tensor's memory would be if it were well aligned.
        let mut placed: Vec<u64> = Vec::new();
        // What the memory of written tensors held, by the first tensor in it.
        let mut before: Vec<Option<Vec<u8>>> = Vec::new();
        for (n, tensor) in tensors.iter().enumerate() {
            if tensor.cleared {
                let mut contents = tensor.contents()?;
                tensor.runs(|run| contents[run].fill(0));
            }
            // Two parts of one memory, of which one is written, are one allocation, as on a GPU.
            let shared = tensors[..n].iter().position(|earlier| {
                std::ptr::eq(earlier.memory, tensor.memory) && (earlier.written || tensor.written)
            });
            let (address, copy) = match shared {
                Some(earlier) => (placed[earlier], None),
                None => {
                    let contents = tensor.contents()?;
                    let copy = contents.to_vec();
                    (place(tensor.name, contents.skew(), &copy)?, Some(copy))
                }
            };
            placed.push(address);
            before.push(copy);
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
                scratch.push(place("scratch", 0, &vec![byte; wanted.bytes as usize])?);
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
                let address = place(&format!("{}, padded", tensor.name), 0, &rows)?;
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
                let words = words(place("problems", 0, &bytes)?);
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
            seed: self.seed,
            async_mode: self.mode,
            dependent: compiled.dependent,
            ..Launch::default()
        };
        let report = ptx_sim::launch(module, &mut memory, &launch).map_err(|e| refused(&e))?;
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
            let same = |other: &&SimTensor<'_>| std::ptr::eq(other.memory, tensor.memory);
            let written = tensors.iter().filter(same).any(|other| other.written);
            if let (Some(before), true) = (&before[n], written) {
                let mut after = vec![0; before.len()];
                let mut contents = tensor.contents()?;
                memory.read(placed[n] + contents.skew() as u64, &mut after).map_err(|e| refused(&e))?;
                // Only what changed: another launch may be at work on another part of the memory.
                let changed =
                    before.iter().zip(&after).enumerate().filter(|(_, (before, after))| before != after);
                changed.for_each(|(at, (_, after))| contents[at] = *after);
            }
        }
        Ok(Simulated { counters: report.counters, findings: report.findings })
    }
}

/// A tensor map as the simulator has it.
fn encoded(map: &TensorMap) -> Result<[u8; 128], ptx_sim::TensorMapError> {
    let element = match map.dtype {
        DType::F32 => TensorElement::F32,
        DType::F16 => TensorElement::F16,
        DType::BF16 => TensorElement::BF16,
        DType::I32 => TensorElement::U32,
        DType::F8 | DType::Bool => TensorElement::U8,
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
