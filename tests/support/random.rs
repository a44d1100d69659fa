//! Random legal schedules, as values.

use tile_dsl::tile::Kernel as TileKernel;
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

/// `count` schedules of a kernel, seeded, each proved for every type given.
pub fn random_schedules(
    name: &'static str,
    encoded: &[u8],
    dtypes: &'static [DType],
    count: u64,
    seed: u64,
) -> Vec<Made> {
    let kernel = TileKernel::from_bytes(encoded).expect("an embedded kernel");
    let types: Vec<Option<DType>> =
        if dtypes.is_empty() { vec![None] } else { dtypes.iter().copied().map(Some).collect() };
    (0..count)
        .map(|i| {
            let schedule = tile_dsl::engine::testing::random_schedule(&kernel, seed + i);
            // One type a schedule, in turn: the types differ in vector widths, not in the rewrites.
            let dtype = types[i as usize % types.len()];
            let program = tile_dsl::engine::schedule(&kernel, &schedule, dtype).expect("it was proved");
            Made { kernel: name, dtypes, programs: vec![(dtype, program.to_bytes().leak())] }
        })
        .collect()
}
