//! What a driver says of an H200.

use tile_runtime::GpuInfo;

pub fn h200() -> GpuInfo {
    GpuInfo {
        name: "NVIDIA H200".into(),
        sm: 90,
        multiprocessors: 132,
        l2_bytes: 60 << 20,
        max_clock_mhz: 1980.0,
        memory_gbps: 4917.0,
        cuda_version: (13, 0),
        pci_bus_id: "0000:01:00.0".into(),
    }
}
