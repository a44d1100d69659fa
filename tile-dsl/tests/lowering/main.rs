//! Lowering, tested without LLVM: kernels run in the interpreter of the kernel IR.

mod agree;
mod build;
mod ladder;
mod random;
#[path = "../support/mod.rs"]
mod support;
