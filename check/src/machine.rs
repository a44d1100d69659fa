//! What lints know of a GPU.

use tile_runtime::roofline::Gpu;
use tile_sass::Limits;

/// A GPU.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Name.
    pub name: &'static str,
    /// Its architecture: what a multiprocessor holds follows from it.
    pub arch: &'static str,
    /// Its rates.
    pub gpu: Gpu,
    /// Nanoseconds that a load from device memory takes where nothing else waits.
    pub latency_ns: f64,
    /// Where the numbers are from.
    pub source: &'static str,
}

impl Machine {
    /// An H200: the rates of its data sheet ([`Gpu::H200`]); the latency of an H100 of the same chip, 346 ns, which
    /// `scripts/record-latency.py` measured (`docs/measurements/h100-latency.json`).
    pub const H200: Machine = Machine {
        name: "NVIDIA H200",
        arch: "sm_90",
        gpu: Gpu::H200,
        latency_ns: 346.0,
        source: "4.8 TB/s of the H200's data sheet, 346 ns measured on an H100 (docs/measurements/h100-latency.json)",
    };

    /// Multiprocessors.
    pub fn multiprocessors(&self) -> u64 {
        self.gpu.multiprocessors as u64
    }

    /// Bytes that have to be on their way to a multiprocessor so that its share of the bandwidth is used: Little's law.
    pub fn bytes_in_flight(&self) -> f64 {
        self.latency_ns * 1e-9 * self.gpu.dram / self.gpu.multiprocessors
    }

    /// What a multiprocessor holds.
    pub(crate) fn limits(&self) -> Option<Limits> {
        Limits::of(self.arch)
    }
}
