//! What few kernels have is drawn often enough to be tested.

use tile_dsl::{
    machine::Via,
    nest::{CopyId, Nest, leaves},
};
use tile_fuzz::{
    check::{check, program},
    lookback::carries,
    make::{Id, make},
    program::multiplies,
};

/// That so many cases of some ids have something. No more are made than it takes.
fn drawn(enough: usize, ids: impl Iterator<Item = Id>, has: impl Fn(&Nest) -> bool) {
    let programs = ids.filter_map(|id| program(&make(id, 1).case?).ok());
    let found = programs.filter(|program| has(&program.nest)).take(enough).count();
    assert_eq!(found, enough);
}

#[test]
fn ctas_keep_parts_of_their_own_of_what_values_are_combined_with() {
    let ids = (0..300).map(|n| Id::numbered(1, n));
    drawn(4, ids, |nest| !nest.private.is_empty());
}

#[test]
fn values_move_boxes_of_tensor_maps() {
    // Of what a tensor map copies.
    let wishes = ["stage-tma+tile", "stage-tma+multiple", "stage-tma+f32"];
    let ids = wishes.iter().flat_map(|wish| (0..150).map(move |n| format!("{n}.0:{wish}").parse().unwrap()));
    drawn(2, ids, |nest| {
        let copies = (0u16..).zip(&nest.copies).filter(|(_, copy)| copy.via == Via::Tma);
        let mut placed = copies.map(|(n, _)| CopyId(n)).filter(|copy| !nest.bodies(*copy).is_empty());
        placed.any(|copy| nest.copied_accesses(copy).iter().any(|a| !a.gathered.is_empty()))
    });
}

#[test]
fn warpgroups_multiply_rows_that_lanes_compute() {
    let ids = (0..400).map(|n| Id::numbered(2, n));
    drawn(4, ids, |nest| {
        let mut computed = false;
        leaves(&nest.body, &mut |path, leaf| {
            let product = nest.product(path, leaf).filter(|p| p.atom.row().descriptors);
            computed |= product.is_some_and(|p| p.factors.iter().any(|f| f.element().is_none()));
        });
        computed
    });
}

#[test]
fn products_are_a_step_ahead() {
    let wishes = ["skew+tile", "skew+persistent", "skew+cluster"];
    let ids = wishes.iter().flat_map(|wish| (0..20).map(move |n| format!("{n}.0:{wish}").parse().unwrap()));
    drawn(30, ids, |nest| !nest.ahead.is_empty());
    // Unasked, too, for kernels of products.
    let ids =
        (0..).map(|n| Id::numbered(3, n)).filter(|id| id.wish.is_none() && multiplies(id.program)).take(400);
    drawn(8, ids, |nest| !nest.ahead.is_empty());
}

#[test]
fn running_maxima_stay() {
    let ids = (0..500).map(|n| Id::numbered(3, n));
    drawn(6, ids, |nest| !nest.frozen.is_empty());
}

/// Cases in which CTAs look back are drawn, and pass.
#[test]
fn ctas_look_back_at_steps_before_theirs() {
    let ids = (0..).map(|n| Id::numbered(4, n)).filter(|id| id.wish.is_none() && carries(id.program));
    let (mut drawn, mut wrong) = (0, Vec::new());
    for id in ids.take(24) {
        let Some(case) = make(id, 4).case else { continue };
        drawn += usize::from(program(&case).is_ok_and(|program| program.nest.lookback.is_some()));
        if let (_, Some(failure)) = check(&case, usize::MAX) {
            wrong.push(format!("{id}: {failure}"));
        }
    }
    // What was caught on the way has silenced panics.
    wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    assert!(wrong.is_empty());
    assert!(drawn >= 16, "{drawn}");
}
