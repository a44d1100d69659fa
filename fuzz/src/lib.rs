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
//! | [`text`] | that the text of a case reads back as it |
//! | [`shrink`] | a failing case made small |
//! | [`wish`], [`make`] | the case of an id, with a pair of directives that it is to have |
//! | [`plan`] | which pair when: the rarest so far |
//! | [`survey`] | which pairs can be scheduled at all |
//! | [`run`], [`outcome`] | many cases, and the table |
//! | [`pairs`], [`impossible`] | which pairs of directives were run, and which no schedule can have |
//! | [`export`] | cases with PTX and results, to be run again where there is no LLVM but a GPU |
//! | [`digest`] | a line for each kernel, to compare two builds of the compiler |
//! | [`replay`] | such cases in processes of their own, which a launch may break |

pub mod case;
pub mod check;
pub mod chosen;
pub mod data;
pub mod digest;
pub mod exact;
pub mod export;

pub mod impossible;
pub mod launch;
pub mod lookback;
pub mod make;
pub mod outcome;
pub mod pairs;
pub mod plan;
pub mod program;
pub mod replay;
pub mod run;
pub mod shrink;
pub mod sizes;
pub mod survey;
pub mod text;
pub mod wish;

/// Of every program that links this crate, tests among them: the compiler makes many small allocations on many threads, and is a
/// tenth faster than with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
