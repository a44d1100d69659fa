//! Differential fuzzer: random tile programs under random legal schedules, on every executor.
//!
//! Reference evaluator = nest interpreter = simulator on the PTX of each variant, under two orders of warps, with no finding,
//! and no error after a schedule was proved. Everything follows from a seed; a failure is made small and printed as
//! a [`case::Case`], which the corpus keeps.
//!
//! | module | |
//! |---|---|
//! | [`program`] | random kernels in the tile IR |
//! | `tile_dsl::engine::testing` | random legal schedules |
//! | [`sizes`], [`data`] | what they are launched with |
//! | [`exact`] | which results must agree bit for bit |
//! | [`check`] | one case on every executor |
//! | [`shrink`] | a failing case made small |
//! | [`run`] | many cases, and the table |
//! | [`export`] | cases with PTX and results, to be run again where there is no LLVM but a GPU |

pub mod case;
pub mod check;
pub mod data;
pub mod exact;
pub mod export;
pub mod launch;
pub mod program;
pub mod run;
pub mod shrink;
pub mod sizes;
