//! The compiler core, from its parts to whole kernels.

mod engine_errors;
mod engine_ladder;
mod engine_members;
mod engine_random;
mod engine_speed;
mod kernel_ir;
mod lowering;
mod modules;
mod multiple;
mod names;
mod numbers;
mod one_step;
mod online;
mod random_lowered;
mod semantics;
#[path = "../support/mod.rs"]
mod support;
mod tile_evaluate;
mod tile_types;
mod units;
