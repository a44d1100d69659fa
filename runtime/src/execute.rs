//! Puts a compiled kernel on a queue: parameters, scratch memory, what is cleared first.

use crate::{
    arguments::{Scalars, Tensors},
    compile::Compiled,
    device::{CudaDevice, CudaQueue, Kind, Loaded, SimTensor, Wanted, encode},
    error::Error,
    memory::Memory,
    parameters::Parameters,
    plan::{Plan, Word},
    queue::Queue,
    row_copy::RowCopy,
    tensor_map::{MapShape, Padded, Rows, TensorMap},
};
use ptx_sim::{Counters, Finding};
use smallvec::SmallVec;
use std::sync::Arc;
use tile_dsl::program::Variant;

/// What the simulator tells of a run.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Counters.
    pub counters: Counters,
    /// What it found wrong.
    pub findings: Vec<Finding>,
}

/// A launch whose arguments were checked.
pub(crate) struct Call<'c, 'a> {
    pub(crate) plan: &'c Arc<Plan>,
    pub(crate) variant: Variant,
    pub(crate) compiled: &'c Compiled,
    /// As loaded into the GPU; `None` on the simulator.
    pub(crate) loaded: Option<Loaded>,
    /// More than 0.
    pub(crate) ctas: u32,
    pub(crate) values: &'c [i64],
    /// Address of each tensor, which on the simulator is relative to its memory.
    pub(crate) bases: &'c [u64],
    pub(crate) tensors: &'c Tensors<'a>,
    pub(crate) scalars: &'c Scalars,
}

/// What a launch on a GPU needs beside its tensors.
pub(crate) struct Needs {
    padded: SmallVec<[Padded; 2]>,
    /// Scratch memory.
    pub(crate) wanted: SmallVec<[Wanted; 4]>,
}

/// A piece of a launch on a GPU.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<P> {
    /// Zeros.
    Clear { pointer: u64, bytes: usize },
    /// A kernel: the launch's own, or one that copies rows.
    Kernel { loaded: Loaded, ctas: u32, parameters: P },
}

impl Step<&mut Parameters> {
    /// The same, to be kept: takes the parameters away.
    pub(crate) fn owned(self) -> Step<Parameters> {
        match self {
            Step::Clear { pointer, bytes } => Step::Clear { pointer, bytes },
            Step::Kernel { loaded, ctas, parameters } => {
                Step::Kernel { loaded, ctas, parameters: std::mem::take(parameters) }
            }
        }
    }
}

/// Words of the parameters, each with its value in the low bytes.
pub(crate) type Words = SmallVec<[u64; 24]>;

impl Call<'_, '_> {
    /// The parameters, for these addresses of tensors and scratch buffers.
    pub(crate) fn words(&self, tensors: &[u64], scratch: &[u64]) -> Words {
        let word = |word: &Word| match *word {
            Word::Tensor(n) => tensors[n],
            Word::Dim(n) => u64::from(self.values[n] as u32),
            Word::Scalar(n) => self.scalars[n].1.to_word(),
            Word::Scratch(n) => scratch[n],
            // The driver and the simulator put the map in its place.
            Word::Map(_) => 0,
        };
        self.compiled.words.iter().map(word).collect()
    }

    /// Copies of tensors that the kernel's maps cannot address, where these are the addresses of tensors.
    pub(crate) fn padded(&self, tensors: &[u64]) -> SmallVec<[Padded; 2]> {
        let mut found = SmallVec::<[Padded; 2]>::new();
        for shape in &self.compiled.maps {
            let raw = self.tensors[shape.tensor].1.raw();
            if found.iter().all(|p| p.tensor != shape.tensor) {
                found.extend(Padded::of(shape.tensor, tensors[shape.tensor], raw.dtype, &raw.geometry));
            }
        }
        found
    }

    /// The tensor maps, for these addresses of tensors and of padded copies.
    ///
    /// # Errors
    /// [`Error::TensorMap`].
    pub(crate) fn maps(
        &self,
        tensors: &[u64],
        padded: &[(Padded, u64)],
    ) -> Result<SmallVec<[TensorMap; 4]>, Error> {
        let map = |shape: &MapShape| {
            let (name, argument) = &self.tensors[shape.tensor];
            let raw = argument.raw();
            match padded.iter().find(|(p, _)| p.tensor == shape.tensor) {
                Some((p, address)) => shape.of(name, *address, raw.dtype, &p.geometry),
                None => shape.of(name, tensors[shape.tensor], raw.dtype, &raw.geometry),
            }
        };
        self.compiled.maps.iter().map(map).collect()
    }

    /// The parameters as the driver takes them, for these addresses of scratch buffers and of padded copies.
    ///
    /// # Errors
    /// [`Error::TensorMap`].
    pub(crate) fn parameters(&self, scratch: &[u64], padded: &[(Padded, u64)]) -> Result<Parameters, Error> {
        let maps = self.maps(self.bases, padded)?;
        let place = |w: &Word| if let Word::Map(n) = w { Some(*n as u8) } else { None };
        Ok(Parameters {
            words: self.words(self.bases, scratch),
            maps: maps.iter().map(encode).collect::<Result<_, Error>>()?,
            places: self.compiled.words.iter().map(place).collect(),
        })
    }

    /// Queues the launch. On the simulator it has ended then.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] for scratch memory, [`Error::Simulator`], the driver's.
    pub(crate) fn queue(&self, kind: &Kind, queue: &Arc<Queue>) -> Result<Option<Simulated>, Error> {
        match (kind, &queue.cuda) {
            (Kind::Sim(_), _) => {
                self.memories().try_for_each(|(memory, writes)| memory.order(queue, writes))?;
                self.simulate(kind)
            }
            (Kind::Cuda(device), Some(cuda)) => self.queue_cuda(device, cuda, queue).map(|()| None),
            (Kind::Cuda(_), None) => unreachable!("the stream was checked to be the device's"),
        }
    }

    /// The memory of each tensor, and whether the launch writes it.
    pub(crate) fn memories(&self) -> impl Iterator<Item = (&Arc<Memory>, bool)> {
        self.tensors.iter().map(|(_, argument)| (&argument.raw().memory, argument.is_out()))
    }

    /// Runs the launch, if the device is the simulator.
    ///
    /// # Errors
    /// [`Error::Simulator`].
    pub(crate) fn simulate(&self, kind: &Kind) -> Result<Option<Simulated>, Error> {
        match kind {
            Kind::Sim(sim) => sim.run(self).map(Some),
            Kind::Cuda(_) => Ok(None),
        }
    }

    fn queue_cuda(&self, device: &CudaDevice, cuda: &CudaQueue, queue: &Arc<Queue>) -> Result<(), Error> {
        self.memories().try_for_each(|(memory, writes)| memory.order(queue, writes))?;
        let ticket = queue.launch(self.plan, self.variant, |state| {
            let needs = self.needs();
            let scratch = state.scratch.reserve(cuda, &needs.wanted)?;
            self.steps(device, needs, &scratch, |step| {
                // SAFETY: the words follow the parameters from which the entry was compiled, and each copy and its tensor are
                // as large as their geometries say. The tensors were checked to be as large as the kernel of a proved
                // schedule reaches; they are freed and overwritten only after this work, which `used` notes below, and no
                // other work writes them meanwhile: they are borrowed, mutably where the kernel writes, and other queues
                // wait, which `order` saw to.
                unsafe {
                    match step {
                        Step::Clear { pointer, bytes } => cuda.fill(pointer, 0, bytes),
                        Step::Kernel { loaded, ctas, parameters } => cuda.launch(&loaded, ctas, parameters),
                    }
                }
            })
        });
        // What was queued before the failure uses the memory too.
        let ticket = ticket.inspect_err(|_| cuda.synchronize().unwrap_or(()))?;
        self.memories().for_each(|(memory, writes)| memory.used(queue, ticket, writes));
        Ok(())
    }

    /// The scratch memory of the launch on a GPU, copies to padded rows last.
    pub(crate) fn needs(&self) -> Needs {
        let padded = self.padded(self.bases);
        let mut wanted = self.compiled.wanted(self.ctas);
        wanted.extend(
            padded
                .iter()
                .map(|p| Wanted { bytes: p.bytes, zeroed: p.empty && !self.tensors[p.tensor].1.is_out() }),
        );
        Needs { padded, wanted }
    }

    /// Calls `f` with all that the launch is on a GPU, in order: copies to padded rows, what is cleared, the kernel, copies
    /// back. `scratch` has the addresses of what it needs.
    ///
    /// # Errors
    /// [`Error::TensorMap`], [`Error::TooLarge`]; those of `f`; the driver's.
    pub(crate) fn steps(
        &self,
        device: &CudaDevice,
        needs: Needs,
        scratch: &[u64],
        mut f: impl FnMut(Step<&mut Parameters>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let loaded = self.loaded.expect("loaded for the GPU");
        let pads = scratch[scratch.len() - needs.padded.len()..].iter().copied();
        let padded: SmallVec<[(Padded, u64); 2]> = needs.padded.into_iter().zip(pads).collect();
        let copy_rows =
            |rows: &Rows, from, to, f: &mut dyn FnMut(Step<&mut Parameters>) -> Result<(), Error>| {
                let Some(mut copy) = RowCopy::new(rows, from, to)? else { return Ok(()) };
                let loaded = device.row_copy(copy.granule)?;
                f(Step::Kernel { loaded, ctas: copy.ctas, parameters: &mut copy.parameters })
            };
        for (copy, to) in &padded {
            let raw = self.tensors[copy.tensor].1.raw();
            copy_rows(&copy.rows(&raw.geometry, raw.dtype), self.bases[copy.tensor], *to, &mut f)?;
        }
        for &tensor in &self.compiled.cleared {
            self.clear(tensor as usize, &mut f)?;
        }
        let mut parameters = self.parameters(scratch, &padded)?;
        f(Step::Kernel { loaded, ctas: self.ctas, parameters: &mut parameters })?;
        for (copy, from) in padded.iter().filter(|(copy, _)| self.tensors[copy.tensor].1.is_out()) {
            let raw = self.tensors[copy.tensor].1.raw();
            let rows = copy.rows(&raw.geometry, raw.dtype).back();
            copy_rows(&rows, *from, self.bases[copy.tensor], &mut f)?;
        }
        Ok(())
    }

    fn clear(
        &self,
        tensor: usize,
        f: &mut impl FnMut(Step<&mut Parameters>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let raw = self.tensors[tensor].1.raw();
        let (size, mut result) = (raw.dtype.bytes() as usize, Ok(()));
        raw.geometry.runs(|at, count| {
            if result.is_ok() {
                let pointer = raw.memory.address() + (at * size) as u64;
                result = f(Step::Clear { pointer, bytes: count * size });
            }
        });
        result
    }

    /// The tensors as the simulator wants them.
    pub(crate) fn sim_tensors(&self) -> impl Iterator<Item = SimTensor<'_>> {
        self.tensors.iter().enumerate().map(|(n, (name, argument))| {
            let raw = argument.raw();
            SimTensor {
                name,
                memory: &raw.memory,
                base: self.bases[n],
                dtype: raw.dtype,
                size: raw.dtype.bytes() as usize,
                geometry: &raw.geometry,
                written: argument.is_out(),
                cleared: self.compiled.cleared.contains(&(n as u32)),
            }
        })
    }
}
