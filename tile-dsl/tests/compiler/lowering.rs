//! Lowering, tested without LLVM: kernels run in the interpreter of the kernel IR.

mod agree;
mod barriers;
mod build;
mod golden;
mod interleave;
mod ladder;
mod overlay;
mod passes;
mod random;
mod recurrence;
mod scan;
use crate::support;
