//! `--schedule auto`: the schedule that a launch without one is given.

use super::example::Dims;
use std::collections::BTreeSet;
use tile_auto::{Chosen, Several, Wanted, several};
use tile_dsl::program::Program;
use tilewright::{AnySchedule, DType, Device, Error};

/// What `--schedule` calls it.
pub const AUTO: &str = "auto";

/// What `--schedule` calls the candidates that a tuned launch measures.
pub const CANDIDATES: &str = "candidates";

/// A schedule that was chosen.
struct Auto {
    name: &'static str,
    kernel: &'static str,
    dtypes: &'static [DType],
    program: &'static [u8],
}

impl AnySchedule for Auto {
    fn kernel(&self) -> &'static str {
        self.kernel
    }
    fn name(&self) -> &'static str {
        self.name
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

/// The choice for the kernel of a schedule, first, and other candidates of the templates: `most` in all. With them: why that choice.
///
/// # Errors
/// Nothing was chosen; a program of another version; the driver's.
pub fn chosen(
    of: &dyn AnySchedule,
    dtype: Option<DType>,
    dims: &Dims,
    device: &Device,
    most: usize,
) -> Result<(Vec<&'static dyn AnySchedule>, Chosen), Error> {
    let dtype = dtype.filter(|_| !of.dtypes().is_empty());
    let program = Program::from_bytes(of.program(dtype).unwrap_or_default())
        .map_err(|source| Error::Program { schedule: of.name().into(), source })?;
    let sizes = dims.iter().map(|(name, n)| (name.to_string(), *n as i64)).collect();
    let column_major = BTreeSet::new();
    let kernel = program.nest.source();
    let wanted = Wanted { kernel, dtype, sizes: &sizes, column_major: &column_major, gpu: &device.model()? };
    let Several { first, others } = several(&wanted, most)
        .map_err(|why| Error::NoSchedule { kernel: of.kernel().into(), why: Box::new(why) })?;
    // A schedule lives as long as the process.
    let dtypes: &[DType] = Vec::leak(dtype.into_iter().collect());
    let schedule = |name: String, program: &Program| -> &'static dyn AnySchedule {
        let program = Vec::leak(program.to_bytes());
        Box::leak(Box::new(Auto { name: name.leak(), kernel: of.kernel(), dtypes, program }))
    };
    let mut all = vec![schedule(AUTO.into(), &first.program)];
    all.extend(others.iter().zip(2..).map(|((_, program), n)| schedule(format!("{AUTO}_{n}"), program)));
    Ok((all, first))
}
