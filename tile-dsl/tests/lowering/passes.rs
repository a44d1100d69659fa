//! What `--emit passes` shows.

use crate::{
    agree::{SMALL, programs},
    support,
};
use tile_dsl::{engine, lower::lower, passes::passes, program::Variant};

#[test]
fn the_last_of_each_is_what_the_program_has() {
    for (kernel, schedule) in [
        (support::MATMUL, support::rung(&SMALL, "best")),
        (support::SOFTMAX, support::schedule(support::SOFTMAX_LONG)),
        (support::CONV3, support::schedule(support::CONV3_STAGED)),
    ] {
        for program in programs(kernel, &schedule) {
            let phases = engine::phases(&program).unwrap();
            assert_eq!(phases.last().unwrap().nest, program.nest);
            let text = passes(&program, Variant::General).unwrap();
            let kernel = lower(&program, Variant::General).unwrap().to_string();
            let added = text.split("== kernel, ").nth(2).unwrap().lines().skip(1);
            let lost = added.filter(|line| !kernel.lines().any(|l| l == *line) && !line.is_empty());
            assert_eq!(lost.collect::<Vec<_>>(), Vec::<&str>::new(), "{text}");
            assert!(text.ends_with("== kernel, verify: what code generation takes for granted\nunchanged\n"));
        }
    }
}

/// A pass that adds lines shows these.
#[test]
fn passes_show_what_they_add() {
    let schedule = support::schedule("tile(i = 9, j = 9, k = 5); bind(j -> thread.x); stage(b at k: shared)");
    let program = &programs(support::MATMUL, &schedule)[1];
    let text = passes(program, Variant::General).unwrap();
    let halves = text.split("== kernel, halves").nth(1).unwrap().split("\n\n").next().unwrap();
    let added: Vec<&str> = halves.lines().filter(|l| l.starts_with("+ ")).map(|l| l[2..].trim()).collect();
    assert!(added[0].starts_with("for %"), "{text}");
    assert!(added.ends_with(&["}", "barrier"]), "{text}");
}
