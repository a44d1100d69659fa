//! What a launch must know of a kernel beside its code.

use super::{GridAxis, Kernel, Param};
use serde::{Deserialize, Serialize};

/// How a kernel is launched; kept with its PTX, so that who has both needs no kernel IR.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// As [`Kernel::params`].
    pub params: Vec<Param>,
    /// As [`Kernel::cleared`].
    pub cleared: Vec<u32>,
    /// As [`Kernel::grid`].
    pub grid: Vec<GridAxis>,
    /// As [`Kernel::persistent`].
    pub persistent: Option<u32>,
    /// As [`Kernel::cluster`].
    pub cluster: Option<u32>,
    /// As [`Kernel::dependent`].
    pub dependent: bool,
    /// As [`Kernel::grouped`].
    pub grouped: bool,
}

impl Kernel {
    /// What a launch must know of it.
    pub fn interface(&self) -> Interface {
        Interface {
            params: self.params.clone(),
            cleared: self.cleared.clone(),
            grid: self.grid.clone(),
            persistent: self.persistent,
            cluster: self.cluster,
            dependent: self.dependent,
            grouped: self.grouped,
        }
    }
}
