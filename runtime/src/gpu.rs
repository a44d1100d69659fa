//! What a GPU is, and what a kernel occupies of it.

/// Facts about a GPU, as its driver tells them.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuInfo {
    /// Name: `NVIDIA H200`.
    pub name: String,
    /// Compute capability times ten.
    pub sm: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of the L2 cache.
    pub l2_bytes: u64,
    /// Highest clock of the multiprocessors, in MHz.
    pub max_clock_mhz: f64,
    /// Rate of device memory, in GB/s: its clock, both edges, by the width of its bus. 0 where the driver does not tell.
    pub memory_gbps: f64,
    /// Newest CUDA version that the driver speaks: major, minor.
    pub cuda_version: (u32, u32),
    /// PCI bus id, by which `nvidia-smi -i` knows it: `0000:3B:00.0`.
    pub pci_bus_id: String,
}

/// What a loaded kernel occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: spilled registers, and arrays indexed by values known only at run time.
    pub local_bytes: u32,
    /// CTAs that fit on a multiprocessor at once.
    pub ctas_per_multiprocessor: u32,
    /// Clusters that the GPU holds at once, of a kernel whose clusters take tile after tile; `None` of others.
    pub clusters: Option<u32>,
}
