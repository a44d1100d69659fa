//! Kernels under schedules on the simulator: what directives make of them, and that the results are right.

#![allow(missing_docs, reason = "tests")]

mod atomics;
mod bools;
mod bounds;
mod cluster_split;
mod columns;
mod counted;
mod dependent;
mod f8;
mod freeze;
mod gathered;
mod grouped;
mod hopper;
mod integers;
mod joined;
mod legal;
mod limits;
mod lookback;
mod multiple;
mod narrow;
mod online;
mod operands;
mod private;
#[path = "../../examples/matmul/kernel.rs"]
#[allow(dead_code, reason = "an example's")]
mod product;
#[path = "../support/products.rs"]
mod products;
mod ragged;
#[path = "../support/random.rs"]
mod random;
#[path = "../../examples/softmax/kernel.rs"]
#[allow(dead_code, reason = "an example's")]
mod rows;
mod segments;
mod semantics;
mod skew;
mod sound;
mod split_k;
#[path = "../support/mod.rs"]
mod support;
mod tf32;
mod tiles;
mod tuples;
mod twice;
mod values;
mod views;
