//! Accesses of memory.

use ptx_sim::Access;
use serde::Serialize;

/// The accesses of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Instructions with one pattern, most costly first within global and shared memory.
    pub accesses: Vec<AccessView>,
    /// The simulator's sums over the whole launch: those of `accesses` add up to them.
    pub totals: Totals,
}

/// Instructions of the PTX that access one buffer in one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccessView {
    /// Direction.
    pub access: Access,
    /// The access is one of shared memory.
    pub shared: bool,
    /// Tensor, or buffer in shared memory.
    pub buffer: String,
    /// The instruction, without operands.
    pub instruction: String,
    /// The text of the first of them in the PTX.
    pub text: String,
    /// Their lines in the PTX.
    pub lines: Vec<u32>,
    /// Bytes of a lane.
    pub bytes: u32,
    /// Lanes are taken eight at a time, a row of a matrix each.
    pub matrices: bool,
    /// What the simulator counted, over all these instructions and all CTAs.
    pub counted: Counted,
    /// The first request of each warp of the first CTA by the first of these instructions; empty where no lanes ask, as for copies by
    /// tensor maps, and where the first CTA does not come here.
    pub warps: Vec<WarpLanes>,
    /// The requests of one instruction cost differently: what is drawn is one of several.
    pub uneven: bool,
}

/// The addresses of a warp's request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WarpLanes {
    /// Warp.
    pub warp: u32,
    /// Byte of the buffer by lane; null for lanes that ask for nothing.
    pub lanes: Vec<Option<u64>>,
    /// Sectors, or wavefronts, as the simulator counted this request.
    pub cost: u32,
    /// The least that so many bytes would cost.
    pub least: u32,
}

/// Counts of the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Requests: instructions of a warp with an active lane.
    pub requests: u64,
    /// Sectors in global memory, wavefronts in shared memory.
    pub units: u64,
    /// The least for as many bytes.
    pub least: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

/// Sums of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Requests to global memory.
    pub global_requests: u64,
    /// Sectors.
    pub sectors: u64,
    /// Requests to shared memory.
    pub shared_requests: u64,
    /// Wavefronts.
    pub wavefronts: u64,
    /// Wavefronts beyond those that the width alone needs.
    pub conflicts: u64,
}
