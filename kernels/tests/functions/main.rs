//! Each function against float64: small, odd and empty sizes, every element type, every schedule of products and attention.
//!
//! On the simulator, or with `TILEWRIGHT_DEVICE=cuda` on the first GPU, for which `wgmma` needs an H100 or H200.

mod ahead;
mod attention;
mod columns;
mod counts;
mod elements;
mod errors;
mod experts;
mod fused;
mod graphs;
mod heads;
mod linear;
mod packed;
mod paged;
mod rows;
mod scans;
mod schedules;
mod support;
mod tokens;
mod train;
