//! `multiple`: what a launch keeps to is guarded nowhere, and a launch that does not is refused.

use crate::{product, rows, support};

use product::matmul;
use rows::softmax;
use tile_dsl::{lower::chosen, program::Program};
use tilewright::{AnySchedule, DType, Variant, prelude::*};

schedule! {
    guarded for matmul<f32 | f16> {
        tile(i = 16, j = 32, k = 16);
        split(j -> jt, jv: 4);
        bind(i -> thread.y, jt -> thread.x);
        stage(a, b at k: shared);
        vectorize(jv in c);
    }
    /// No row of C is cut, K may be anything.
    rows_and_columns = guarded { multiple(M: 16, N: 32); }
    /// Nothing is cut.
    whole = rows_and_columns { multiple(K: 16); }
    /// Rows of C are whole vectors, tiles are not.
    vectors = rows_and_columns { multiple(N: 8); drop(multiple(M)); }
}

schedule! {
    any for softmax {
        tile(r = 1);
        split(n -> no, nt: 32);
        recompute(v, e);
        fuse(v, e at n);
        reduce(e.max, y.sum: cta);
        bind(nt -> thread.x);
    }
    whole_rows = any { multiple(N: 32); }
}

fn program(schedule: &dyn AnySchedule, dtype: Option<DType>) -> Program {
    Program::from_bytes(schedule.program(dtype).expect("a type that it admits")).expect("embedded")
}

/// Comparisons in the PTX of a variant: loops and guards.
fn comparisons(schedule: &dyn AnySchedule, dtype: Option<DType>, variant: Variant) -> usize {
    tilewright::ptx(schedule, dtype, variant).expect("it compiles").text.matches("setp.").count()
}

#[test]
fn guards_of_what_is_whole_are_gone() {
    for dtype in [DType::F32, DType::F16].map(Some) {
        let of = |schedule: &dyn AnySchedule| comparisons(schedule, dtype, Variant::Aligned);
        let exact = comparisons(&guarded, dtype, Variant::Exact);
        assert_eq!(of(&guarded), of(&vectors), "tiles may be cut");
        assert!(of(&guarded) > of(&rows_and_columns));
        assert!(of(&rows_and_columns) > of(&whole));
        assert_eq!(of(&whole), exact);
        assert_eq!(comparisons(&whole, dtype, Variant::General), exact, "without vectors, but whole, too");
    }
    let of = |schedule: &dyn AnySchedule| comparisons(schedule, None, Variant::General);
    assert!(of(&whole_rows) < of(&any));
}

#[test]
fn a_variant_that_is_never_chosen_is_not_offered() {
    const ALL: [Variant; 3] = [Variant::Exact, Variant::Aligned, Variant::General];
    let of =
        |schedule: &dyn AnySchedule| chosen(&program(schedule, Some(DType::F16)), &ALL, &Default::default());
    assert_eq!(of(&guarded), ALL);
    assert_eq!(of(&rows_and_columns), ALL);
    assert_eq!(of(&whole), [Variant::Exact, Variant::General]);
}

#[test]
fn a_child_replaces_the_number() {
    let multiples = program(&vectors, Some(DType::F32)).nest.multiples;
    assert_eq!(multiples.into_iter().collect::<Vec<_>>(), [("N".to_string(), 8)]);
}

#[test]
fn results_are_right() {
    let schedules: [&dyn AnySchedule; 4] = [&guarded, &rows_and_columns, &vectors, &whole];
    for dtype in [DType::F32, DType::F16].map(Some) {
        for [m, n, k] in [[16, 32, 16], [48, 96, 32], [0, 64, 16], [32, 64, 0]] {
            let case = support::Case::new(matmul::KERNEL, dtype, &[("M", m), ("N", n), ("K", k)], 3);
            for schedule in schedules {
                case.check_nest(schedule);
                assert!(case.check_kernel(schedule) > 0);
                case.check_simulator::<matmul>(schedule);
            }
        }
        let case = support::Case::new(matmul::KERNEL, dtype, &[("M", 17), ("N", 40), ("K", 9)], 3);
        case.check_simulator::<matmul>(&vectors);
    }
    for (r, n) in [(1, 64), (6, 64), (3, 0)] {
        let case = support::Case::new(softmax::KERNEL, None, &[("R", r), ("N", n)], 3);
        case.check_simulator::<softmax>(&whole_rows);
    }
}

#[test]
fn a_launch_that_breaks_it_is_refused() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &[1.0f32; 2 * 48], &[2, 48]).unwrap();
    let mut y = Buffer::from_slice(&device, &[7.0f32; 2 * 48], &[2, 48]).unwrap();
    let error = softmax(&x, &mut y).schedule(whole_rows).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "schedule `whole_rows` guards no tail under the assertion N % 32 == 0, and here N = 48: \
         use a schedule without `multiple(N: 32)`"
    );
    assert_eq!(y.to_vec().unwrap(), [7.0; 96], "nothing was written");
    softmax(&x, &mut y).schedule(any).run().unwrap();
}

/// What follows from it is not asked again.
#[test]
fn assumptions_that_follow_are_not_checked() {
    let device = Device::sim();
    let buffer = |shape: [usize; 2]| {
        Buffer::from_slice(&device, &vec![f16::from_f32(1.0); shape[0] * shape[1]], &shape).unwrap()
    };
    let (a, b, mut c) = (buffer([16, 7]), buffer([7, 64]), buffer([16, 64]));
    let mut assumed = |schedule: &dyn AnySchedule| {
        let report = matmul(&a, &b, &mut c).schedule_dyn(schedule).run().unwrap();
        assert_eq!(report.variant, Some(Variant::Aligned), "{:?}", report.assumptions);
        report.assumptions.iter().filter(|text| text.contains('%')).cloned().collect::<Vec<_>>()
    };
    assert_eq!(assumed(&guarded), ["N % 4 == 0"]);
    assert_eq!(assumed(&rows_and_columns), ["M % 16 == 0", "N % 32 == 0"]);
}
