//! Runs are reproducible, mutations of the results are noticed, and batches replay.

use tile_fuzz::{
    case::Case,
    check::{Class, Expected, check, program},
    make::{Id, make},
    run::{MOST_STATEMENTS, Options, run},
    shrink::shrink,
};
use tile_runtime::Device;

#[test]
fn a_seed_gives_the_same_cases_whatever_the_number_of_threads() {
    let summary = |jobs| {
        let options =
            Options { seed: 5, programs: 4, jobs, shrunk: 0, shrink_seconds: 0, ..Options::default() };
        let outcome = run(&options, &|_| {});
        (outcome.programs, outcome.schedules, outcome.done.launches, outcome.failures)
    };
    let one = summary(1);
    assert!(one.2 > 20, "{one:?}");
    assert_eq!(one, summary(3));
    for program in 0..6 {
        let text = |id| make(id, 3).case.map(|case| case.to_string());
        let id = Id { program, schedule: 1, wish: None };
        assert_eq!(text(id), text(id));
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}

const SCALE: &str = "\
kernel k<T>(x: &[T; N + 2], y: &mut [T; N], z: &mut [f32; N], s: f32) {
    axis i in program_tile(N);
    axis j in whole(3);
    let v = load(x, [i + 2]).cast::<f32>() * s;
    store(y, [i], v.cast::<T>());
    store(z, [i], sum(exp(load(x, [i + j]).cast::<f32>() * 0.25), j));
}
schedule sm_80 f16 {
    tile(i = 4);
    bind(i -> thread.x);
}
launch N = 5; data 7
launch N = 8; data 9
";

#[test]
fn one_wrong_element_is_noticed() {
    let case = Case::parse(SCALE).unwrap();
    let (done, failure) = check(&case, MOST_STATEMENTS);
    assert!(failure.is_none(), "{failure:?}");
    // Exact and aligned run for 8 alone; each under two orders of warps.
    assert!(done.launches >= 2 * 4 && done.variants[0] >= 2, "{done:?}");
    let program = program(&case).unwrap();
    let expected = Expected::of(&program, &case.launches[0]).unwrap().unwrap();
    assert_eq!((expected.exact["y"], expected.exact["z"]), (true, false));
    let device = Device::sim();
    let general = tile_dsl::program::Variant::General;
    let run = tile_fuzz::launch::run(&program, &expected.inputs, &device, general).unwrap();
    assert_eq!(expected.compare(&run.stored), Ok(()));
    for name in ["y", "z"] {
        let mut stored = run.stored.clone();
        let mut values = stored[name].to_f64();
        values[3] += if name == "y" { 1.0 } else { 1e-3 };
        let elements = tile_dsl::tile::evaluate::Elements::from_f64(stored[name].dtype(), values);
        stored.insert(name.into(), elements);
        let message = expected.compare(&stored).unwrap_err();
        assert!(message.contains(&format!("`{name}`")) && message.contains("at 3"), "{message}");
    }
}

/// A schedule that never was legal stands for a failure: it shrinks to the directive that fails and the statement it needs.
#[test]
fn a_failure_shrinks_to_what_it_takes() {
    let text = SCALE.replace("bind(i -> thread.x);", "unroll(j);\n    split(q -> d1, d2: 2);");
    let case = Case::parse(&text).unwrap();
    let (_, failure) = check(&case, MOST_STATEMENTS);
    let failure = failure.unwrap();
    assert_eq!(failure.class, Class::Engine);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let (small, failure) = shrink(&case, &failure, MOST_STATEMENTS, deadline);
    assert_eq!(failure.class, Class::Engine);
    assert_eq!(small.schedule.directives.len(), 1, "{small}");
    assert!(small.kernel.tensors.len() < case.kernel.tensors.len(), "{small}");
    assert_eq!(small.kernel.generic, None, "{small}");
}
