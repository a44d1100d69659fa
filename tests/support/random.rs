//! Random legal schedules, as values.

use tile_dsl::{
    engine::testing::{Extents, random_schedule, random_schedule_at, wild_schedule_at},
    schedule::Schedule,
    tile::Kernel as TileKernel,
};
use tilewright::{AnySchedule, DType};

/// A schedule made while the test runs.
pub struct Made {
    pub kernel: &'static str,
    pub dtypes: &'static [DType],
    pub programs: Vec<(Option<DType>, &'static [u8])>,
}

impl AnySchedule for Made {
    fn kernel(&self) -> &'static str {
        self.kernel
    }
    fn name(&self) -> &'static str {
        "made"
    }
    fn doc(&self) -> &'static str {
        ""
    }
    fn dtypes(&self) -> &'static [DType] {
        self.dtypes
    }
    fn program(&self, dtype: Option<DType>) -> Option<&'static [u8]> {
        self.programs.iter().find(|(d, _)| *d == dtype).map(|(_, program)| *program)
    }
}

/// The element types, one after the other, or none.
fn types(dtypes: &[DType]) -> Vec<Option<DType>> {
    if dtypes.is_empty() { vec![None] } else { dtypes.iter().copied().map(Some).collect() }
}

fn made(
    name: &'static str,
    kernel: &TileKernel,
    dtypes: &'static [DType],
    schedule: &Schedule,
    dtype: Option<DType>,
) -> Made {
    let program = tile_dsl::engine::schedule(kernel, schedule, dtype).expect("it was proved");
    Made { kernel: name, dtypes, programs: vec![(dtype, program.to_bytes().leak())] }
}

/// `count` schedules of a kernel, seeded, each proved for every type given.
#[allow(dead_code)] // each test uses its part
pub fn random_schedules(
    name: &'static str,
    encoded: &[u8],
    dtypes: &'static [DType],
    count: u64,
    seed: u64,
) -> Vec<Made> {
    let kernel = TileKernel::from_bytes(encoded).expect("an embedded kernel");
    let types = types(dtypes);
    (0..count)
        .map(|i| {
            let schedule = random_schedule(&kernel, seed + i);
            // One type a schedule, in turn: the types differ in vector widths, not in the rewrites.
            made(name, &kernel, dtypes, &schedule, types[i as usize % types.len()])
        })
        .collect()
}

/// Steps of a warp that a schedule of [`mixed_schedules`] may take, roughly.
#[allow(dead_code)] // each test uses its part
const MOST_WORK: u64 = 1 << 18;

/// `count` schedules of a kernel, seeded, for launches of at most these extents: a third as [`random_schedules`], the others
/// of one element type and from all directives, instructions on tensor cores first where there are any for it.
#[allow(dead_code)] // each test uses its part
pub fn mixed_schedules(
    name: &'static str,
    encoded: &[u8],
    dtypes: &'static [DType],
    count: u64,
    seed: u64,
    extents: &Extents,
) -> Vec<Made> {
    let kernel = TileKernel::from_bytes(encoded).expect("an embedded kernel");
    let types = types(dtypes);
    (0..count)
        .map(|i| {
            let dtype = types[i as usize % types.len()];
            let wild = |attempt: u64| {
                let seed = seed.wrapping_add(i) ^ attempt << 40;
                wild_schedule_at(&kernel, dtype, seed, MOST_WORK, extents).schedule
            };
            let common = (i / types.len() as u64).is_multiple_of(3);
            let found = if common { None } else { (0..4).find_map(wild) };
            let schedule = found.unwrap_or_else(|| random_schedule_at(&kernel, seed + i, extents));
            made(name, &kernel, dtypes, &schedule, dtype)
        })
        .collect()
}
