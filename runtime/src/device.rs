//! Devices: where buffers live and kernels run.

use std::{fmt, sync::Arc};

/// A device: the simulator or a GPU. Cheap to clone; clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Sim,
}

impl Device {
    /// The simulator, which executes the same PTX on the CPU and reports counters and findings.
    pub fn sim() -> Self {
        Device(Arc::new(Kind::Sim))
    }

    /// Name for reports.
    pub fn name(&self) -> String {
        match &*self.0 {
            Kind::Sim => "simulator".into(),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name()).finish()
    }
}
