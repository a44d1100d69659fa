//! What the functions launch: kernels and their schedules, in the language of `tilewright`.
//!
//! The functions of this crate need none of it.
//! Reach for it to record launches in a graph, to prepare them, to time schedules against each other, or to compile them ahead of
//! time; [`choose`](crate::choose) has the schedule that a function takes.

pub mod adamw;
pub mod attention;
pub mod decode;
pub mod embedding;
pub mod gated;
pub mod greedy;
pub mod kv_append;
pub mod linear;
pub mod loss;
pub mod norm;
pub mod pointwise;
pub mod rope;
pub mod softmax;
