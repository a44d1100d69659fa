//! The compiler core: tile IR, schedules, rewrite engine, nest IR, kernel IR, reference evaluator, diagnostics.
//!
//! It knows neither LLVM nor CUDA nor `syn`. The stations of a program, in order:
//! [`tile`] (what the user wrote) → [`nest`] (loops over axis digits, rewritten by [`schedule`] directives)
//! → [`kernel`] (threads, shared memory, barriers) → PTX, in another crate.

mod assume;
pub mod diagnostic;
pub mod directive;
pub mod dtype;
pub mod engine;
pub mod f8;
pub mod index;
pub mod kernel;
pub mod lower;
pub mod machine;
pub mod nest;
pub mod op;
pub mod passes;
mod plan;
pub mod program;
mod random;
pub mod schedule;
mod shared;
pub mod span;
#[doc(hidden)]
pub mod testing;
pub mod tile;

/// Names everything that decides what kernel a program is lowered to, for cache keys: this crate's version, and a fingerprint
/// of its source.
pub const VERSION: &str = concat!("tile-dsl ", env!("CARGO_PKG_VERSION"), " ", env!("SOURCE_FINGERPRINT"));
