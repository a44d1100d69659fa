//! `interleave`: where memory accesses stand among the computation on registers that are loaded ahead.

use super::{
    agree::{SMALL, check, programs},
    build::{Kernels, VARIANTS},
    support,
};
use tile_dsl::{lower::lower, program::Program, program::Variant};

/// The smallest `best` with one directive more, if any.
fn best(directive: &str) -> Vec<Program> {
    let ladder = [&SMALL[..], &[("spread", "best", directive)]].concat();
    programs(support::MATMUL, &support::rung(&ladder, "spread"))
}

/// The lines of the kernel's pipelined loop.
fn hot(directive: &str) -> Vec<String> {
    let kernel = lower(&best(directive)[0], Variant::Exact).unwrap().to_string();
    let from = kernel.lines().skip_while(|l| !l.trim_start().starts_with("for ")).skip(1);
    from.take_while(|l| l.trim() != "}").map(|l| l.trim().to_string()).collect()
}

#[test]
fn said_as_it_is_without_it_changes_nothing() {
    let said = best("interleave(k.t: loads(3/8), copies(1/4), stores(1/2))");
    for (said, silent) in said.iter().zip(best("")) {
        for variant in VARIANTS {
            assert_eq!(lower(said, variant).unwrap(), lower(&silent, variant).unwrap());
        }
    }
}

#[test]
fn accesses_stand_where_it_says() {
    let at = |lines: &[String], what: &str, last: bool| {
        let found = |l: &String| l.contains(what);
        let place = if last { lines.iter().rposition(found) } else { lines.iter().position(found) };
        place.unwrap_or_else(|| panic!("no `{what}` in\n{}", lines.join("\n")))
    };
    let early = hot("interleave(k.t: loads(1/8), copies(1/8), stores(1/8))");
    let late = hot("interleave(k.t: loads(1/1), copies(3/4), stores(3/4))");
    assert_eq!(early.len(), late.len());
    // Plain copies, and the group of the others.
    assert!(at(&early, "store ", false) < at(&late, "store ", false));
    assert!(at(&early, "commit", false) < at(&late, "commit", false));
    // The last loads for the step to come.
    assert!(at(&early, "load ", true) < at(&late, "load ", true));
    // All before the barrier that frees the stage, whatever is said.
    let whole = hot("interleave(k.t: copies(1/1), stores(1/1))");
    assert!(at(&whole, "store ", true) < at(&whole, "barrier", true));
    assert!(at(&whole, "commit", true) < at(&whole, "barrier", true));
}

#[test]
fn kernels_agree_wherever_accesses_stand() {
    for directive in [
        "interleave(k.t: loads(1/1), copies(1/1), stores(1/1))",
        "interleave(k.t: copies(1/8), stores(1/8))",
        "interleave(k.t: loads(1/16))",
    ] {
        let program = &best(directive)[0];
        let kernels = Kernels::of(program);
        for (m, n, k) in [(33, 65, 17), (64, 128, 8), (64, 128, 48)] {
            check(program, &kernels, &[("M", m), ("N", n), ("K", k)]);
        }
    }
}
