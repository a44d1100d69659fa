//! "Tensor cores".

use super::multiply_bf16;
use crate::matmul::{mma, mma_pipelined};
use tilewright::prelude::*;

// ANCHOR: solution
schedule! {
    /// Warps of 32 by 64 elements of C, instead of 64 by 32.
    pub mma_wide_warps = mma {
        split(i -> iw, im: 32);
        split(j -> jw, jm: 64);
    }
}
// ANCHOR_END: solution

#[test]
fn wide_warps() {
    let size = [128, 128, 64];
    let (tall, wide) = (multiply_bf16(&mma, size), multiply_bf16(&mma_wide_warps, size));
    let matrices = |r: &tilewright::LaunchReport| r.counters.as_ref().expect("counts").shared_load.bytes;
    assert_eq!(matrices(&tall), matrices(&wide));
    multiply_bf16(&mma_pipelined, size);
}
