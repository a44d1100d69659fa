//! The chapters on Hopper.

use super::multiply_bf16;
use crate::matmul::{light_barriers, producer_consumer, tma_wgmma, wgmma_best};
use tilewright::prelude::*;

// ANCHOR: solution_copies
schedule! {
    /// Two stages: the next boxes are on their way while these are multiplied.
    pub tma_two_stages = tma_wgmma { pipeline(k, 2); }
}
// ANCHOR_END: solution_copies

#[test]
fn two_stages() {
    let size = [64, 64, 192];
    let (one, two) = (multiply_bf16(&tma_wgmma, size), multiply_bf16(&tma_two_stages, size));
    assert!(two.shared_bytes >= 2 * 16384 && one.shared_bytes < 2 * 16384);
}

// ANCHOR: solution_roles
schedule! {
    /// Three stages of the ring instead of five: room for a second CTA on a multiprocessor.
    pub three_stages = producer_consumer { pipeline(k, 3); }
}
// ANCHOR_END: solution_roles

#[test]
fn a_shorter_ring() {
    let size = [128, 128, 256];
    let (five, three) = (multiply_bf16(&producer_consumer, size), multiply_bf16(&three_stages, size));
    let limit = 227 * 1024;
    assert!(2 * five.shared_bytes > limit && 2 * three.shared_bytes <= limit);
}

// ANCHOR: solution_top
schedule! {
    /// Segments of 320 columns: a tile of 192 and one of 128.
    pub segments_of_320 = wgmma_best { segment(j: 320); }
}
// ANCHOR_END: solution_top

#[test]
fn other_segments() {
    multiply_bf16(&segments_of_320, [128, 640, 128]);
    multiply_bf16(&light_barriers, [128, 256, 128]);
}
