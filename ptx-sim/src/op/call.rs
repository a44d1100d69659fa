//! Calls of functions, of the module and of the CUDA runtime.

use super::Slot;
use crate::kernel::Passed;

/// What a `call` goes to: a function of the kernel, or what a register pair holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    Direct(u32),
    Indirect(Slot),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub target: Target,
    pub args: Vec<Passed>,
    pub results: Vec<Passed>,
}

/// `vprintf`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Printf {
    pub format: Passed,
    pub args: Passed,
    pub result: Option<Passed>,
}
