//! What `--emit passes` and `--emit plan` show.

use super::{
    agree::{SMALL, programs},
    support,
};
use tile_dsl::{
    engine,
    lower::lower,
    passes::{passes, plan},
    program::Variant,
};

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
            let walk = text.split("== kernel, ").find(|pass| pass.starts_with("walk:")).unwrap();
            let added = walk.lines().skip(1);
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
    let zeros = text.split("== kernel, zeros").nth(1).unwrap().split("\n\n").next().unwrap();
    let added: Vec<&str> = zeros.lines().filter(|l| l.starts_with("+ ")).map(|l| l[2..].trim()).collect();
    assert!(added[0].starts_with("for %"), "{text}");
    assert!(added.ends_with(&["}", "barrier"]), "{text}");
}

/// The channels of a matrix product under a schedule, in one of its types.
fn channels_in(dtype: usize, directives: &str) -> Vec<String> {
    let mut schedule = support::schedule(&format!("tile(i = 16, j = 16); bind(j -> thread.x); {directives}"));
    schedule.target.sm = 90;
    let text = plan(&programs(support::MATMUL, &schedule)[dtype]).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("channel ")).map(str::to_string).collect()
}

/// The same in f32.
fn channels(directives: &str) -> Vec<String> {
    channels_in(0, directives)
}

/// `cp.async` copies no single element of 2 bytes: where vectors are not aligned, all of a copy is plain.
#[test]
fn a_channel_says_what_is_different_without_vectors() {
    let how =
        "bind(i -> thread.y); tile(k = 16); stage(a, b at k: shared, cp_async, vector(8)); pipeline(k, 2)";
    let full = "full at a group of cp.async and a barrier, free at that barrier";
    let ends = |dtype: usize| channels_in(dtype, how)[0].split("; ").nth(1).unwrap().to_string();
    assert_eq!(ends(0), full, "4 bytes are copied alone");
    assert_eq!(ends(1), format!("{full}, without vectors full and free at a barrier"));
}

#[test]
fn a_channel_says_who_fills_it_and_what_completes_it() {
    let piped = |how: &str| channels(&format!("bind(i -> thread.y); tile(k = 16); {how}"));
    for (how, expected) in [
        ("stage(a, b at k: shared)", "`a`, `b`: 1 stage, filled by all threads; full and free at a barrier"),
        (
            "stage(a, b at k: shared); pipeline(k, 2)",
            "`a`, `b` at `k.o`: 2 stages, filled by all threads 1 ahead; full and free at a barrier",
        ),
        (
            "stage(a at k: shared); stage(b at k: shared, cp_async, vector(4)); pipeline(k, 3)",
            "`a`, `b` at `k.o`: 3 stages, filled by all threads 2 ahead; full at a group of cp.async and a barrier, free at that barrier",
        ),
        (
            "stage(a, b at k: shared, tma); pipeline(k, 4)",
            "`a`, `b` at `k.o`: 4 stages, filled by one thread 3 ahead; full at an mbarrier, free at a barrier; reads fenced",
        ),
        (
            "stage(a, b at k: shared, tma); pipeline(k, 4); produce(k: warp)",
            "`a`, `b` at `k.o`: 4 stages, filled by a warp as stages become free; full at an mbarrier, free at an mbarrier; reads fenced",
        ),
    ] {
        assert_eq!(piped(how), [expected], "{how}");
    }
}

/// Registers are prefetched across the iterations of a ring where they can be, and the line says why where they cannot.
#[test]
fn a_pipeline_of_registers_is_prefetched_across_iterations_or_says_why_not() {
    for (how, why) in [
        ("tile(k = 16); fragment(a, b at k.t); pipeline(k.t, 2)", None),
        (
            "tile(k = 15); fragment(a, b at k.t); pipeline(k.t, 2)",
            Some(
                "it has 15 steps, no multiple of its 2 sets: its first step would find its registers in another set each time",
            ),
        ),
        (
            "tile(k = 16); fragment(a, b at k.t); pipeline(k.t, 3)",
            Some(
                "it has 3 sets of registers, not 2: more would be loaded ahead of the barrier before its last step",
            ),
        ),
        (
            "tile(k = 16); fragment(a at k.t); pipeline(k.t, 2)",
            Some("`b` is read from its stage in its last step, too, when that is filled again"),
        ),
        (
            "tile(k = 16); split(k.t -> kr, ks: 4); fragment(a, b at ks); pipeline(ks, 2)",
            Some(
                "`kr` stands between, which is not bound to a unit: each of its steps starts the registers anew",
            ),
        ),
    ] {
        let lines =
            channels(&format!("{how}; stage(a, b at k: shared); pipeline(k, 2); bind(i -> thread.y)"));
        let expected = match why {
            None => "; the registers of `k.t` are prefetched across iterations, copies issued over 1/4 of its steps, plain ones stored from 1/2 on".to_string(),
            Some(why) => format!("; registers inside are not prefetched across iterations: {why}"),
        };
        assert!(lines[0].ends_with(&expected), "{how}: {lines:?}");
        assert!(lines[1].contains("filled by each thread"), "{how}: {lines:?}");
    }
    let lines = channels(
        "tile(k = 16); fragment(a, b at k.t); pipeline(k.t, 2); stage(a, b at k: shared, tma); pipeline(k, 2); \
         bind(i -> thread.y)",
    );
    assert!(
        lines[0].ends_with(
            "; registers inside are not prefetched across iterations: `a`, `b` are copied by tensor maps, which one thread issues: no copies are left to spread over its steps"
        ),
        "{lines:?}"
    );
}
