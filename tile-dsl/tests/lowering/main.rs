//! Lowering, tested without LLVM: kernels run in the interpreter of the kernel IR.

mod build;
mod ladder;
