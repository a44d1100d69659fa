//! Registers of roles.

use tile_dsl::{machine::Target, nest::registers_at_launch};
#[test]
fn a_small_cta_shares_nothing_out() {
    let target = Target { sm: 90, specific: true };
    let each = [128, 256, 288, 384, 512, 1024].map(|threads| registers_at_launch(target, threads, 1));
    assert_eq!(each, [None, None, Some(224), Some(168), Some(128), Some(64)]);
    let each = [128, 256, 384, 512].map(|threads| registers_at_launch(target, threads, 2));
    assert_eq!(each, [None, Some(128), Some(80), Some(64)]);
}
