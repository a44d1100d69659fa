//! The simulator, on PTX of every origin.

mod approx;
mod async_copies;
#[cfg(feature = "cli")]
mod cli;
mod common;
mod compiled;
mod cutlass;
mod execution;
mod findings;
mod functions;
mod fuzz;
mod grid;
#[cfg(feature = "cli")]
mod json;
mod lanes;
mod llvm;
mod memory_access;
mod model;
mod mutation;
mod nvcc;
mod recorded;
mod semantics;
mod tensor_core;
mod trace;
mod triton;
mod wgmma;
