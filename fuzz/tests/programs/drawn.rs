//! What few kernels have is drawn often enough to be tested.

use tile_dsl::machine::Via;
use tile_fuzz::{
    case::Case,
    check::program,
    make::{Id, make},
};

/// Cases, of which some are sought.
const CASES: u64 = 300;

/// How many cases of a seed have something.
fn drawn(seed: u64, has: impl Fn(&tile_dsl::nest::Nest, &Case) -> bool) -> usize {
    let cases = (0..CASES).filter_map(|n| make(Id::numbered(seed, n), 1).case);
    let sought = |case: &Case| program(case).is_ok_and(|program| has(&program.nest, case));
    cases.filter(sought).count()
}

#[test]
fn ctas_keep_parts_of_their_own_of_what_values_are_combined_with() {
    let found = drawn(1, |nest, _| !nest.private.is_empty());
    assert!(found >= 5, "{found} of {CASES}");
}

#[test]
fn values_move_boxes_of_tensor_maps() {
    let found = drawn(2, |nest, _| {
        let copies = (0u16..).zip(&nest.copies).filter(|(_, copy)| copy.via == Via::Tma);
        let mut placed = copies.filter(|(n, _)| !nest.bodies(tile_dsl::nest::CopyId(*n)).is_empty());
        placed.any(|(n, _)| !nest.copied_access(tile_dsl::nest::CopyId(n)).gathered.is_empty())
    });
    assert!(found >= 1, "{found} of {CASES}");
}
