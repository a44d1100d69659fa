//! Programs of the fuzzer and those of hand: what they draw, find and replay. All but the pairs are launched.

#[cfg(any(feature = "jit", feature = "static-llvm"))]
mod corpus;
mod drawn;
#[cfg(any(feature = "jit", feature = "static-llvm"))]
mod operands;
mod pairs;
#[cfg(any(feature = "jit", feature = "static-llvm"))]
mod replay;
#[cfg(any(feature = "jit", feature = "static-llvm"))]
mod tensor_core;
#[cfg(any(feature = "jit", feature = "static-llvm"))]
mod tool;
