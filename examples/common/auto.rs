//! `--schedule auto`: the schedule that a launch without one is given.

use super::example::Dims;
use std::collections::BTreeSet;
use tile_auto::{Chosen, Wanted, choose};
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, Device, Error};

/// What `--schedule` calls it.
pub const AUTO: &str = "auto";

/// A schedule that was chosen.
struct Auto {
    kernel: &'static str,
    dtypes: &'static [DType],
    program: &'static [u8],
}

impl AnySchedule for Auto {
    fn kernel(&self) -> &'static str {
        self.kernel
    }
    fn name(&self) -> &'static str {
        AUTO
    }
    fn doc(&self) -> &'static str {
        "Chosen from what the kernel does, the sizes and the GPU."
    }
    fn dtypes(&self) -> &'static [DType] {
        self.dtypes
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        (dtype == self.dtypes.first().copied()).then_some(self.program)
    }
}

/// The choice for the kernel of a schedule.
///
/// # Errors
/// Nothing was chosen; a program of another version; the driver's.
pub fn chosen(
    of: &dyn AnySchedule,
    dtype: Option<DType>,
    dims: &Dims,
    device: &Device,
) -> Result<(&'static dyn AnySchedule, Chosen), Error> {
    let dtype = dtype.filter(|_| !of.dtypes().is_empty());
    let program = Program::from_bytes(of.program(dtype).unwrap_or_default())
        .map_err(|source| Error::Program { schedule: of.name().into(), source })?;
    let sizes = dims.iter().map(|(name, n)| (name.to_string(), *n as i64)).collect();
    let column_major = BTreeSet::new();
    let kernel = program.nest.source();
    let found =
        choose(&Wanted { kernel, dtype, sizes: &sizes, column_major: &column_major, gpu: &device.model()? })
            .map_err(|why| Error::NoSchedule { kernel: of.kernel().into(), why: Box::new(why) })?;
    // A schedule lives as long as the process.
    let dtypes = Vec::leak(dtype.into_iter().collect());
    let auto = Auto { kernel: of.kernel(), dtypes, program: Vec::leak(found.program.to_bytes()) };
    Ok((Box::leak(Box::new(auto)), found))
}
