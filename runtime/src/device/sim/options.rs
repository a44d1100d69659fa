//! What a simulator may take, and what it checks.

/// How a simulator works: [`Device::sim_with`](crate::Device::sim_with).
///
/// ```
/// use tile_runtime::{Device, SimOptions};
/// let device = Device::sim_with(SimOptions { capacity: 64 << 30, ..SimOptions::default() });
/// assert_eq!(device.memory().unwrap().free, 64 << 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// The order of warps and CTAs: programs without races give the same bits for every seed.
    pub seed: u64,
    /// Asynchronous copies and products are complete as soon as they are issued; otherwise when a wait for them returns.
    pub early: bool,
    /// Bytes that live buffers may have in all, and the memory of the tensors of one launch. They take host memory as
    /// they are touched. 16 GiB by default.
    pub capacity: u64,
    /// Bytes of host memory that one launch may take: for copies of the parts of tensors that it uses, and for the race
    /// checks. `None`, the default: three quarters of what the system says is free.
    pub host_memory: Option<u64>,
    /// Look for races. They take 8 to 32 bytes of host memory for every element that is touched. On by default.
    pub race_check: bool,
    /// Record what the first CTA of a launch does: [`LaunchReport::trace`](crate::LaunchReport::trace). Off by default.
    pub trace: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            seed: 0,
            early: false,
            capacity: 16 << 30,
            host_memory: None,
            race_check: true,
            trace: false,
        }
    }
}
