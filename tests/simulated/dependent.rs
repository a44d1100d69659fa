//! Programmatic dependent launch: `launch(dependent)` puts the wait where it says, and changes nothing else.

use crate::product;

use tilewright::{AnySchedule, DType, Stage, Variant, emit, prelude::*};

/// y = x / sum(x) of each row.
#[tile_kernel]
fn normalise(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    store(y, [r, n], v / sum(v, n));
}

/// x + 1, in place.
#[tile_kernel]
fn increment(x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) + 1.0);
}

schedule! {
    by_row on sm_90 for normalise {
        fits(N <= 1024);
        tile(r = 1);
        split(n -> no, nl: 32);
        bind(nl -> lane.x);
        reduce(y.sum: lane);
    }
    by_row_early = by_row { launch(dependent); }
    plain on sm_90 for increment { tile(i = 64); bind(i -> thread.x); }
    early = plain { launch(dependent); }
    staged on sm_90 for product::matmul<f32> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared, cp_async);
        pipeline(k, 2);
    }
    staged_early = staged { launch(dependent); }
    summed = staged { split_k(k, 4); }
    summed_early = summed { launch(dependent); }
    added = staged { split_k(k, 4; atomic); }
    added_early = added { launch(dependent); }
    tma = product::tma_store {}
    tma_early = tma { launch(dependent); }
    together = product::cluster {}
    together_early = together { launch(dependent); }
}

/// Each with what it is without the directive.
const PAIRS: [[&dyn AnySchedule; 2]; 7] = [
    [&by_row, &by_row_early],
    [&plain, &early],
    [&staged, &staged_early],
    [&summed, &summed_early],
    [&added, &added_early],
    [&tma, &tma_early],
    [&together, &together_early],
];

const WAIT: &str = "griddepcontrol.wait;";
const SIGNAL: &str = "griddepcontrol.launch_dependents;";

/// The opcodes of a kernel, sorted, but for what moves values between registers.
fn opcodes(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.ends_with(';') && !line.starts_with('.'));
    let mut found: Vec<String> = lines
        .map(|line| {
            line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default().to_string()
        })
        .filter(|opcode| !opcode.starts_with("mov.") && !opcode.contains("griddepcontrol"))
        .collect();
    found.sort();
    found
}

/// Accesses to global memory.
fn is_global(line: &str) -> bool {
    let opcodes =
        ["ld.global", "st.global", "red.", "atom.", "cp.async.c", "cp.async.bulk.tensor", "cp.reduce"];
    let own = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    opcodes.iter().any(|opcode| own.starts_with(opcode))
}

#[test]
fn the_kernel_waits_before_it_touches_memory_and_is_the_same_otherwise() {
    for [without, with] in PAIRS {
        let dtype = with.dtypes().first().copied();
        for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
            let text = |schedule: &dyn AnySchedule| emit(schedule, dtype, variant, Stage::Ptx).unwrap();
            let (before, after) = (text(without), text(with));
            let name = format!("{} {variant}:\n{after}", with.name());
            assert!(!before.contains("griddepcontrol"), "{before}");
            assert_eq!((after.matches(WAIT).count(), after.matches(SIGNAL).count()), (1, 1), "{name}");
            let at = |what: &dyn Fn(&str) -> bool| after.lines().position(what).expect("it is there");
            let (wait, signal) = (at(&|line| line.contains(WAIT)), at(&|line| line.contains(SIGNAL)));
            assert!(wait < signal && signal < at(&is_global), "{name}");
            assert!(!after.contains("ld.global.nc"), "{name}");
            // Read-only loads are plain ones.
            let before: Vec<String> = opcodes(&before)
                .into_iter()
                .map(|opcode| opcode.replace("ld.global.nc", "ld.global"))
                .collect();
            let (mut before, after) = (before, opcodes(&after));
            before.sort();
            let missing = |from: &[String], other: &[String]| {
                let mut left = other.to_vec();
                let kept = |opcode: &&String| match left.iter().position(|other| other == *opcode) {
                    Some(at) => {
                        left.swap_remove(at);
                        false
                    }
                    None => true,
                };
                from.iter().filter(kept).cloned().collect::<Vec<_>>()
            };
            let changed = (missing(&before, &after), missing(&after, &before));
            assert_eq!(changed, (vec![], vec![]), "{name}");
        }
    }
}

/// What needs no memory of earlier grids comes before the wait.
#[test]
fn barriers_are_made_ready_before_the_wait() {
    let text = emit(&tma_early, Some(DType::BF16), Variant::Exact, Stage::Ptx).unwrap();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(at("mbarrier.init") < at(WAIT) && at(WAIT) < at("cp.async.bulk.tensor"), "{text}");
    let kernel = emit(&tma_early, Some(DType::BF16), Variant::Exact, Stage::Kernel).unwrap();
    assert!(kernel.lines().next().unwrap().contains(" dependent {"), "{kernel}");
    assert_eq!(kernel.lines().filter(|line| line.trim() == "dependency").count(), 1);
    let without = emit(&tma, Some(DType::BF16), Variant::Exact, Stage::Kernel).unwrap();
    assert!(!without.contains("depend"), "{without}");
}

#[test]
fn results_are_the_same_on_the_simulator() {
    let device = Device::sim();
    for n in [0, 1, 63, 64, 65, 1000] {
        let mut x = Buffer::from_slice(&device, &vec![1.0f32; n], &[n]).unwrap();
        for _ in 0..3 {
            let report = increment(&mut x).schedule(early).run().unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
        }
        assert!(x.to_vec().unwrap().iter().all(|x| *x == 4.0));
    }
    for (r, n) in [(0, 5), (1, 1), (3, 100), (7, 1024)] {
        let data: Vec<f32> = (0..r * n).map(|i| (i % 7 + 1) as f32).collect();
        let x = Buffer::from_slice(&device, &data, &[r, n]).unwrap();
        let run = |schedule: &dyn AnySchedule| {
            let mut y = Buffer::<f32>::poisoned(&device, &[r, n]).unwrap();
            let report = normalise(&x, &mut y).schedule_dyn(schedule).run().unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            y.to_vec().unwrap()
        };
        assert_eq!(run(&by_row), run(&by_row_early));
    }
    for (m, n, k) in [(16, 16, 64), (17, 31, 65), (1, 1, 0), (0, 5, 5)] {
        let filled = |rows: usize, columns: usize| {
            let data: Vec<f32> = (0..rows * columns).map(|i| (i % 5) as f32 - 2.0).collect();
            Buffer::from_slice(&device, &data, &[rows, columns]).unwrap()
        };
        let (a, b) = (filled(m, k), filled(k, n));
        let run = |schedule: &dyn AnySchedule| {
            let mut c = Buffer::<f32>::poisoned(&device, &[m, n]).unwrap();
            let report = product::matmul(&a, &b, &mut c).schedule_dyn(schedule).run().unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            c.to_vec().unwrap()
        };
        let expected = run(&staged);
        for schedule in [&staged_early as &dyn AnySchedule, &summed_early, &added_early] {
            assert_eq!(run(schedule), expected, "{}", schedule.name());
        }
    }
}
