//! A compiled kernel with its arguments: parameters, copies to padded rows, what is cleared first.

use crate::{
    arguments::{Scalars, Tensors},
    cache::PtxCache,
    compile::Compiled,
    device::{CudaDevice, Loaded, SimTensor, encode},
    element,
    error::Error,
    geometry::Layout,
    parameters::Parameters,
    plan::{Plan, Word},
    row_copy::RowCopy,
    tensor_map::{MapShape, Padded, Rows, TensorMap},
};
use ptx_sim::{Counters, Finding, Trace};
use smallvec::SmallVec;
use std::sync::Arc;
use tile_dsl::{
    program::Variant,
    tile::{Outside, evaluate::Inputs},
};

/// What the simulator tells of a run.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Counters.
    pub counters: Counters,
    /// What it found wrong.
    pub findings: Vec<Finding>,
    /// Values in indices that lead beyond the end of their tensor.
    pub outside: Vec<Outside>,
    /// What the first CTA did, where [`SimOptions::trace`](crate::SimOptions::trace) asks for it.
    pub trace: Option<Trace>,
}

/// A launch whose arguments were checked, or a problem of a group.
pub(crate) struct Call<'c, 'a> {
    pub(crate) plan: &'c Arc<Plan>,
    pub(crate) variant: Variant,
    pub(crate) compiled: &'c Compiled,
    /// As loaded into the GPU; `None` on the simulator.
    pub(crate) loaded: Option<Loaded>,
    /// CTAs that it has scratch memory for, more than 0: those of the launch, or as many as the problem has tiles.
    pub(crate) ctas: u32,
    pub(crate) values: &'c [i64],
    /// Address of each tensor, which on the simulator is relative to its memory.
    pub(crate) bases: &'c [u64],
    pub(crate) tensors: &'c Tensors<'a>,
    pub(crate) scalars: &'c Scalars,
}

/// A piece of a launch on a GPU.
#[derive(Debug, PartialEq)]
pub(crate) enum Step<P> {
    /// Zeros.
    Clear { pointer: u64, bytes: usize },

    /// A kernel: the launch's own, or one that copies rows.
    Kernel { loaded: Loaded, ctas: u32, parameters: P },
}

impl Step<Parameters> {
    /// Becomes another step, if it is another one: it then takes the parameters in exchange for its own. Returns whether it was.
    pub(crate) fn replace(&mut self, step: Step<&mut Parameters>) -> bool {
        match (&mut *self, step) {
            (
                Step::Kernel { loaded, ctas, parameters },
                Step::Kernel { loaded: other, ctas: count, parameters: values },
            ) => {
                if loaded == &other && *ctas == count && parameters == values {
                    return false;
                }
                (*loaded, *ctas) = (other, count);
                std::mem::swap(parameters, values);
            }
            (Step::Clear { pointer, bytes }, Step::Clear { pointer: other, bytes: count })
                if (*pointer, *bytes) == (other, count) =>
            {
                return false;
            }
            (this, step) => *this = step.owned(),
        }
        true
    }
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

/// Copies of tensors to padded rows, with their addresses. Most launches have none, and nothing is allocated for none.
pub(crate) type Placed = Vec<(Padded, u64)>;

impl Call<'_, '_> {
    /// Values in indices that lead beyond the end of their tensor, as far as arguments tell that are integers or bools and read alone.
    pub(crate) fn outside(&self) -> Vec<Outside> {
        let nest = &self.plan.program.nest;
        if nest.accesses.iter().all(|access| access.by.is_empty() && access.gathered.is_empty()) {
            return Vec::new();
        }
        let mut inputs = Inputs::default();
        inputs.dims.extend(self.plan.dims(self.values).map(|(name, n)| (name.to_string(), n)));
        let scalars = self.scalars.iter();
        inputs.scalars.extend(scalars.filter_map(|(name, value)| Some((name.to_string(), value.exact()?))));
        for ((name, tensor), param) in self.tensors.iter().zip(&self.plan.tensors) {
            let dtype = tensor.raw().dtype;
            if let (false, false, Layout::RowMajor) = (dtype.is_float(), param.mutable, param.layout)
                && let Some(bytes) = tensor.raw().on_host()
            {
                inputs.tensors.insert(name.to_string(), element::elements(dtype, &bytes));
            }
        }
        tile_dsl::tile::outside(&nest.kernel, &inputs)
    }

    /// Words of the parameters, each with its value in the low bytes, for these addresses of tensors and scratch buffers.
    pub(crate) fn words(&self, tensors: &[u64], scratch: &[u64]) -> impl ExactSizeIterator<Item = u64> {
        let word = |word: &Word| match *word {
            Word::Tensor(n) => tensors[n],
            Word::Dim(n) => u64::from(self.values[n] as u32),
            Word::Scalar(n) => self.scalars[n].1.to_word(),
            Word::Scratch(n) => scratch[n],
            // The driver and the simulator put the map in its place.
            Word::Map(_) => 0,
        };
        self.compiled.words.iter().map(word)
    }

    /// Copies of tensors that the kernel's maps cannot address, where these are the addresses of tensors.
    pub(crate) fn padded(&self, tensors: &[u64]) -> Vec<Padded> {
        let mut found: Vec<Padded> = Vec::new();
        for shape in &self.compiled.maps {
            let raw = self.tensors[shape.tensor].1.raw();
            if found.iter().all(|p| p.tensor != shape.tensor) {
                found.extend(Padded::of(shape, tensors[shape.tensor], raw.dtype, &raw.geometry));
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
    pub(crate) fn parameters(
        &self,
        scratch: &[u64],
        padded: &[(Padded, u64)],
        into: &mut Parameters,
    ) -> Result<(), Error> {
        into.clear();
        into.words.extend(self.words(self.bases, scratch));
        if !self.compiled.maps.is_empty() {
            for map in self.maps(self.bases, padded)? {
                into.maps.push(encode(&map)?);
            }
            // Maps are numbered in the order of their parameters.
            let words = self.compiled.words.iter().enumerate();
            into.places.extend(words.filter(|(_, w)| matches!(w, Word::Map(_))).map(|(place, _)| place));
        }
        Ok(())
    }

    /// Calls `f` with what comes before the kernel: copies to padded rows, what is cleared.
    pub(crate) fn before(
        &self,
        device: &CudaDevice,
        padded: &[(Padded, u64)],
        f: &mut impl FnMut(Step<&mut Parameters>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (copy, to) in padded.iter().filter(|(copy, _)| !copy.stored) {
            let raw = self.tensors[copy.tensor].1.raw();
            let (rows, cache) = (copy.rows(&raw.geometry, raw.dtype), &raw.memory.device.cache);
            copy_rows(device, cache, &rows, [self.bases[copy.tensor], *to], f)?;
        }
        self.compiled.cleared.iter().try_for_each(|&tensor| self.clear(tensor as usize, f))
    }

    /// Calls `f` with what comes after it: copies back.
    pub(crate) fn after(
        &self,
        device: &CudaDevice,
        padded: &[(Padded, u64)],
        f: &mut impl FnMut(Step<&mut Parameters>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (copy, from) in padded.iter().filter(|(copy, _)| copy.stored) {
            let raw = self.tensors[copy.tensor].1.raw();
            let rows = copy.rows(&raw.geometry, raw.dtype).back();
            copy_rows(device, &raw.memory.device.cache, &rows, [*from, self.bases[copy.tensor]], f)?;
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

/// Calls `f` with the kernel that copies rows, if there are any.
fn copy_rows(
    device: &CudaDevice,
    cache: &PtxCache,
    rows: &Rows,
    [from, to]: [u64; 2],
    f: &mut impl FnMut(Step<&mut Parameters>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(mut copy) = RowCopy::new(rows, from, to)? else { return Ok(()) };
    let loaded = device.row_copy(copy.granule, cache)?;
    f(Step::Kernel { loaded, ctas: copy.ctas, parameters: &mut copy.parameters })
}
