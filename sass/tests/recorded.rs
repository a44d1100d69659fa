//! What ptxas 13.0.88 and nvdisasm 13.2.51 printed of the matmul example's schedule `shared` for sm_90.

use tile_sass::{Listing, PtxasLog, Resources};

const SASS: &str = include_str!("data/shared.sm_90.sass");
const LOG: &str = include_str!("data/shared.sm_90.log");

#[test]
fn the_hot_loop_of_a_real_listing() {
    let hot = Listing::parse(SASS).hot_loop();
    // Thirty-two steps of k, unrolled: one multiply-add each.
    assert_eq!((hot.is_loop, hot.fma, hot.instructions), (true, 32, 85));
    let widths: Vec<String> = hot.widths.iter().map(ToString::to_string).collect();
    assert_eq!(widths, ["LDG.32×2", "LDS.32×32", "LDS.128×8", "STS.32×2"]);
}

#[test]
fn the_report_of_a_real_log() {
    let resources = Resources::new("sm_90", &PtxasLog::parse(LOG), Listing::parse(SASS).hot_loop(), 1024, 0);
    assert_eq!((resources.registers, resources.spills, resources.shared), (32, 0, 8192));
    // The driver's own occupancy query says two as well.
    assert_eq!(resources.occupancy.map(|o| (o.ctas, o.warps)), Some((2, 64)));
    assert!(resources.remarks.is_empty());
}
