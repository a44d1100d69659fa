//! Runs a compiled kernel on a device: argument bytes, grid, result.

use crate::{
    buffer::Storage,
    compile::Compiled,
    device::{Device, Kind, SimData, SimTensor, Wanted, Work},
    dims::Dims,
    element::ScalarValue,
    error::Error,
    gpu::Resources,
    launch::TensorArg,
};
use ptx_sim::{Counters, Finding};
use tile_dsl::kernel::{GridAxis, Param};

/// What a run tells.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) time_ms: Option<f64>,
    pub(crate) resources: Option<Resources>,
    pub(crate) counters: Option<Counters>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) scratch_bytes: u64,
}

/// CTAs of a launch: the product of ⌈extent / tile⌉, 0 when an extent is 0.
///
/// # Errors
/// [`Error::TooLarge`] above 2³¹ − 1, the limit of a grid's first dimension.
pub(crate) fn ctas(grid: &[GridAxis], dims: &Dims) -> Result<u32, Error> {
    let mut count = 1i128;
    for axis in grid {
        let extent = axis.extent.eval(dims).unwrap_or(0).max(0);
        count *= (i128::from(extent) + i128::from(axis.tile) - 1) / i128::from(axis.tile);
    }
    u32::try_from(count).ok().filter(|&n| n <= i32::MAX as u32).ok_or(Error::TooLarge {
        what: "the number of CTAs".into(),
        value: count,
        max: i32::MAX.into(),
    })
}

/// Runs a kernel on `ctas` > 0 CTAs.
///
/// Tensors and scalars come in the order of the parameters of their kind; that they match was checked before.
/// `cold` overwrites a GPU's L2 cache first.
pub(crate) fn run(
    device: &Device,
    kernel: &Compiled,
    ctas: u32,
    dims: &Dims,
    tensors: &mut [(&str, TensorArg<'_>)],
    scalars: &[ScalarValue],
    cold: bool,
) -> Result<Outcome, Error> {
    let (ptx, params) = (&kernel.ptx, &kernel.params);
    let scratch = wanted(params, ctas);
    // Tensors are the first parameters.
    let is_cleared = |n: usize| kernel.cleared.contains(&(n as u32));
    let scratch_bytes = scratch.iter().map(|w| w.bytes).sum();
    let outcome = match &*device.kind {
        Kind::Sim(sim) => {
            let tensors = tensors
                .iter_mut()
                .enumerate()
                .map(|(n, (name, argument))| {
                    let data = match argument {
                        TensorArg::In(buffer) => match &buffer.raw().storage {
                            Storage::Host(data) => SimData::Read(data),
                            Storage::Cuda(_) => return Err(elsewhere(name, device)),
                        },
                        TensorArg::Out(buffer) => match &mut buffer.raw_mut().storage {
                            Storage::Host(data) => {
                                if is_cleared(n) {
                                    data.fill(0);
                                }
                                SimData::Write(data)
                            }
                            Storage::Cuda(_) => return Err(elsewhere(name, device)),
                        },
                    };
                    Ok(SimTensor { name, data })
                })
                .collect::<Result<Vec<_>, Error>>()?;
            sim.run(ptx, ctas, tensors, &scratch, |addresses, scratch| {
                arguments(params, addresses, dims, scalars, scratch)
            })?
        }
        Kind::Cuda(cuda) => {
            let addresses = tensors
                .iter()
                .map(|(name, argument)| match &argument.raw().storage {
                    Storage::Cuda(memory) => Ok(memory.pointer()),
                    Storage::Host(_) => Err(elsewhere(name, device)),
                })
                .collect::<Result<Vec<_>, Error>>()?;
            let cleared: Vec<(u64, usize)> = (0..)
                .zip(tensors.iter())
                .filter(|(n, _)| is_cleared(*n))
                .filter_map(|(_, (_, argument))| match &argument.raw().storage {
                    Storage::Cuda(memory) => Some((memory.pointer(), memory.bytes())),
                    Storage::Host(_) => None,
                })
                .collect();
            let arguments = |scratch: &[u64]| arguments(params, &addresses, dims, scalars, scratch);
            let work = Work { ctas, arguments: &arguments, scratch: &scratch, cleared: &cleared, cold };
            // SAFETY: the arguments follow `params`, from which the entry was compiled. The tensors are borrowed for
            // the call, mutably where the kernel writes, and a kernel of a proved schedule stays inside them.
            let run = unsafe { cuda.run(ptx, &work)? };
            Outcome { time_ms: Some(run.time_ms), resources: Some(run.resources), ..Outcome::default() }
        }
    };
    Ok(Outcome { scratch_bytes, ..outcome })
}

/// The scratch buffers of a launch, in the order of their parameters.
fn wanted(params: &[Param], ctas: u32) -> Vec<Wanted> {
    params
        .iter()
        .filter_map(|param| match param {
            Param::Scratch { dtype, elems, zeroed, .. } => {
                let bytes = u64::from(ctas) * u64::from(*elems) * u64::from(dtype.bytes());
                Some(Wanted { bytes, zeroed: *zeroed })
            }
            Param::Tensor { .. } | Param::Dim(_) | Param::Scalar { .. } => None,
        })
        .collect()
}

fn elsewhere(name: &str, device: &Device) -> Error {
    let found = if device.is_gpu() { "the simulator" } else { "a GPU" };
    Error::DeviceMismatch { name: name.into(), found: found.into(), expected: device.name() }
}

/// Bytes of each parameter, in order.
fn arguments(
    params: &[Param],
    addresses: &[u64],
    dims: &Dims,
    scalars: &[ScalarValue],
    scratch: &[u64],
) -> Vec<Vec<u8>> {
    let (mut addresses, mut scalars, mut scratch) = (addresses.iter(), scalars.iter(), scratch.iter());
    let bytes = |address: Option<&u64>| address.copied().unwrap_or_default().to_le_bytes().to_vec();
    params
        .iter()
        .map(|param| match param {
            Param::Tensor { .. } => bytes(addresses.next()),
            Param::Scratch { .. } => bytes(scratch.next()),
            Param::Dim(name) => (dims.get(name).copied().unwrap_or_default() as i32).to_le_bytes().to_vec(),
            Param::Scalar { .. } => scalars.next().map(|s| s.to_le_bytes()).unwrap_or_default(),
        })
        .collect()
}
