//! What the model knows of a GPU: one table.
//!
//! Rates and sizes are those of data sheets. The constants below `reach` are what launches on an H100 were fitted to; other rows take
//! them over, since they stand for habits of the architecture, and only ratios between candidates matter.

use tile_dsl::schedule::Target;

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Name, as a driver's name of the device contains it.
    pub name: &'static str,
    /// Newest target that it runs.
    pub target: Target,
    /// Multiprocessors.
    pub multiprocessors: f64,
    /// Clock under load, cycles a microsecond.
    pub cycles: f64,
    /// Peak of device memory, bytes a microsecond.
    pub memory: f64,
    /// Share of that peak that a copy reaches.
    pub reach: f64,
    /// Microseconds that a launch takes by itself.
    pub launch: f64,
    /// Kilobytes that a multiprocessor has on their way at half of the rate.
    pub latency_kb: f64,
    /// Operations of tensor cores on 16-bit types, a multiprocessor and cycle.
    pub tensor: f64,
}

/// The rows, the newest first.
pub const TABLE: [Gpu; 4] = [H200, H100, A100, GENERIC];

/// NVIDIA H200 SXM.
pub const H200: Gpu = Gpu {
    name: "H200",
    target: Target::WARPGROUPS,
    multiprocessors: 132.0,
    cycles: 1755.0,
    memory: 4.8e6,
    reach: 0.88,
    launch: 3.0,
    latency_kb: 13.0,
    tensor: 4096.0,
};

/// NVIDIA H100 SXM.
pub const H100: Gpu = Gpu { name: "H100", memory: 3.35e6, latency_kb: 9.0, ..H200 };

/// NVIDIA A100 SXM, 80 GB.
pub const A100: Gpu = Gpu {
    name: "A100",
    target: Target::DEFAULT,
    multiprocessors: 108.0,
    cycles: 1410.0,
    memory: 2.04e6,
    reach: 0.88,
    launch: 3.5,
    latency_kb: 7.0,
    tensor: 2048.0,
};

/// Any other GPU: few instructions are taken for granted.
pub const GENERIC: Gpu = Gpu {
    name: "generic",
    target: Target::DEFAULT,
    multiprocessors: 64.0,
    cycles: 1500.0,
    memory: 0.7e6,
    reach: 0.85,
    launch: 4.0,
    latency_kb: 6.0,
    tensor: 1024.0,
};

impl Gpu {
    /// The row of a device by the name that its driver gives, its compute capability times ten and its multiprocessors.
    pub fn of(name: &str, sm: u32, multiprocessors: u32) -> Gpu {
        let row = TABLE.iter().find(|row| name.contains(row.name) && row.target.sm <= sm).unwrap_or(&GENERIC);
        let target = match sm {
            90 => Target::WARPGROUPS,
            91.. => Target::CLUSTERS,
            86 | 87 | 89 => Target { sm, specific: false },
            _ => Target::DEFAULT,
        };
        Gpu { multiprocessors: f64::from(multiprocessors.max(1)), target, ..row.clone() }
    }
}
