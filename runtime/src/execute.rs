//! Runs a compiled kernel on a device: argument bytes, grid, result.

use crate::{
    buffer::Storage,
    compile::Compiled,
    device::{Device, Kind, SimData, SimTensor},
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
    match &*device.kind {
        Kind::Sim(sim) => {
            let tensors = tensors
                .iter_mut()
                .map(|(name, argument)| {
                    let data = match argument {
                        TensorArg::In(buffer) => match &buffer.raw().storage {
                            Storage::Host(data) => SimData::Read(data),
                            Storage::Cuda(_) => return Err(elsewhere(name, device)),
                        },
                        TensorArg::Out(buffer) => match &mut buffer.raw_mut().storage {
                            Storage::Host(data) => SimData::Write(data),
                            Storage::Cuda(_) => return Err(elsewhere(name, device)),
                        },
                    };
                    Ok(SimTensor { name, data })
                })
                .collect::<Result<Vec<_>, Error>>()?;
            sim.run(ptx, ctas, tensors, |addresses| arguments(params, addresses, dims, scalars))
        }
        Kind::Cuda(cuda) => {
            let addresses = tensors
                .iter()
                .map(|(name, argument)| match &argument.raw().storage {
                    Storage::Cuda(memory) => Ok(memory.pointer()),
                    Storage::Host(_) => Err(elsewhere(name, device)),
                })
                .collect::<Result<Vec<_>, Error>>()?;
            let arguments = arguments(params, &addresses, dims, scalars);
            // SAFETY: the arguments follow `params`, from which the entry was compiled. The tensors are borrowed for
            // the call, mutably where the kernel writes, and a kernel of a proved schedule stays inside them.
            let run = unsafe { cuda.run(ptx, ctas, &arguments, cold)? };
            Ok(Outcome { time_ms: Some(run.time_ms), resources: Some(run.resources), ..Outcome::default() })
        }
    }
}

fn elsewhere(name: &str, device: &Device) -> Error {
    let found = if device.is_gpu() { "the simulator" } else { "a GPU" };
    Error::DeviceMismatch { name: name.into(), found: found.into(), expected: device.name() }
}

/// Bytes of each parameter, in order.
fn arguments(params: &[Param], addresses: &[u64], dims: &Dims, scalars: &[ScalarValue]) -> Vec<Vec<u8>> {
    let (mut addresses, mut scalars) = (addresses.iter(), scalars.iter());
    params
        .iter()
        .map(|param| match param {
            Param::Tensor { .. } => addresses.next().copied().unwrap_or_default().to_le_bytes().to_vec(),
            Param::Dim(name) => (dims.get(name).copied().unwrap_or_default() as i32).to_le_bytes().to_vec(),
            Param::Scalar { .. } => scalars.next().map(|s| s.to_le_bytes()).unwrap_or_default(),
        })
        .collect()
}
