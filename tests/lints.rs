//! What is predicted of every example under every schedule is what the simulator counts in the same launch.

#[path = "support/examples.rs"]
#[allow(dead_code, reason = "each kernel has its sizes here")]
mod examples;
mod support;

use examples::{attention, batched, conv1d, conv2d, eight, linear, product, softmax, vector_add};
use std::collections::BTreeMap;
use support::Case;
use tile_dsl::{
    lower::{lower, promises},
    program::Program,
};
use tilewright::{
    AnySchedule, DType, Kernel, LaunchReport, Variant,
    lints::traffic::{Form, Launch, Traffic, traffic},
    sim,
};

/// Requests, sectors or wavefronts, and bytes; of shared memory also the wavefronts that are needed.
type Counts = BTreeMap<(String, &'static str), [u64; 4]>;

fn add(to: &mut Counts, at: (String, &'static str), counts: [u64; 4]) {
    let sum = to.entry(at).or_default();
    sum.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
}

/// What was predicted: by tensor and direction, and of shared memory by the kind of instruction.
fn predicted(traffic: &Traffic) -> Counts {
    let mut counts = Counts::new();
    for access in &traffic.accesses {
        let c = access.count;
        let (place, least) = match access.shared {
            true => ("(shared)".to_string(), c.least),
            false => (access.buffer.clone(), 0),
        };
        let form = match (access.form, access.shared) {
            (Form::Load, _) | (Form::Copy, false) => "load",
            (Form::Store, _) => "store",
            (Form::Atomic, _) => "atomic",
            (Form::Copy, true) => "copy",
            (Form::LoadMatrices, _) => "ldmatrix",
            (Form::StoreMatrices, _) => "stmatrix",
        };
        add(&mut counts, (place, form), [c.requests, c.units, c.bytes, least]);
    }
    counts
}

/// What was counted, without boxes of tensor maps; how many instructions moved these.
fn counted(report: &LaunchReport) -> (Counts, usize) {
    let (mut counts, mut boxes) = (Counts::new(), 0);
    for site in &report.counters.as_ref().expect("the simulator counts").sites {
        if site.instruction.starts_with("cp.async.bulk") {
            boxes += 1;
            continue;
        }
        for buffer in &site.global {
            let form = match buffer.access {
                sim::Access::Load => "load",
                sim::Access::Store => "store",
                sim::Access::Atomic => "atomic",
            };
            let c = buffer.count;
            add(&mut counts, (buffer.buffer.clone(), form), [c.requests, c.sectors, c.bytes, 0]);
        }
        if let Some(c) = site.shared {
            let form = match &site.instruction {
                i if i.starts_with("ldmatrix") => "ldmatrix",
                i if i.starts_with("stmatrix") => "stmatrix",
                i if i.starts_with("cp.async") => "copy",
                i if i.starts_with("st") => "store",
                i if i.starts_with("ld") => "load",
                other => panic!("{other} in shared memory"),
            };
            let counted = [c.requests, c.wavefronts, c.bytes, c.wavefronts - c.bank_conflicts];
            add(&mut counts, ("(shared)".into(), form), counted);
        }
    }
    (counts, boxes)
}

/// Whether launches of a size keep what a schedule asserts of them.
fn takes(program: &Program, dims: &[(&str, i64)]) -> bool {
    let dims = dims.iter().map(|(dim, n)| (dim.to_string(), *n)).collect();
    promises(&program.nest).iter().all(|promise| promise.assumption.holds(&dims, &[]))
}

#[derive(Default)]
struct Tally {
    schedules: usize,
    cases: usize,
    launches: usize,
    equal: usize,
}

fn compare<K: Kernel>(encoded: &[u8], schedules: &[&dyn AnySchedule], sizes: &[&[(&str, i64)]]) {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for schedule in schedules.iter().filter(|s| s.kernel() == K::NAME) {
        tally.schedules += 1;
        let mut types: Vec<Option<DType>> = schedule.dtypes().iter().copied().map(Some).collect();
        if types.is_empty() {
            types.push(None);
        }
        let sixteen = types.iter().position(|t| t.is_some_and(|t| t.bytes() == 2));
        let types: Vec<_> =
            types.iter().enumerate().filter(|(n, t)| t.is_none_or(|t| t.bytes() != 2) || Some(*n) == sixteen).map(|(_, t)| *t).collect();
        for dtype in types {
            let mut ran = 0;
            for dims in sizes {
                let program = Program::from_bytes(schedule.program(dtype).unwrap()).unwrap();
                if !takes(&program, dims) {
                    continue;
                }
                let case = Case::new(encoded, dtype, dims, 3);
                for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
                    let Some((report, _)) = case.launch::<K>(*schedule, variant) else { continue };
                    let kernel = lower(&program, variant).unwrap();
                    let ctas = u64::from(report.ctas);
                    let launch = Launch { dims: &report.dims, ctas, looked_at: 0..ctas };
                    let what = format!("{} {dtype:?} {dims:?} {variant}", schedule.name());
                    let traffic = traffic(&kernel, &launch).unwrap_or_else(|e| panic!("{what}: {e}"));
                    let ((counted, boxes), predicted) = (counted(&report), predicted(&traffic));
                    tally.launches += 1;
                    ran += 1;
                    let says = |t: &str| traffic.left_out.iter().any(|l| l.reason.contains(t));
                    assert_eq!(boxes > 0, says("whole boxes"), "{what}");
                    if counted == predicted {
                        tally.equal += 1;
                        continue;
                    }
                    let mut text = what;
                    for key in counted.keys().chain(predicted.keys()).collect::<std::collections::BTreeSet<_>>() {
                        let (a, b) = (predicted.get(key), counted.get(key));
                        if a != b {
                            text += &format!("\n    {key:?}: predicted {a:?}, counted {b:?}");
                        }
                    }
                    wrong.push(text);
                }
            }
            tally.cases += 1;
            assert!(ran > 0, "{}: no size", schedule.name());
        }
    }
    println!(
        "{}: {} schedules, {} with types, {} launches, {} equal",
        K::NAME, tally.schedules, tally.cases, tally.launches, tally.equal
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

const PRODUCTS: &[&[(&str, i64)]] =
    &[&[("M", 256), ("N", 256), ("K", 128)], &[("M", 130), ("N", 70), ("K", 36)]];

#[test]
fn matmul() {
    compare::<product::matmul>(product::matmul::KERNEL, product::SCHEDULES, PRODUCTS);
}

#[test]
fn matmul_by_size() {
    compare::<product::matmul>(product::matmul::KERNEL, product::BY_SIZE, PRODUCTS);
}

#[test]
fn matmul_tf32() {
    compare::<product::matmul_tf32>(product::matmul_tf32::KERNEL, product::TF32, PRODUCTS);
}

#[test]
fn matmul_f8() {
    compare::<eight::matmul_f8>(eight::matmul_f8::KERNEL, eight::F8, PRODUCTS);
}

#[test]
fn linear_layer() {
    compare::<linear::linear>(linear::linear::KERNEL, linear::SCHEDULES, PRODUCTS);
}

#[test]
fn batched_products() {
    let sizes: &[&[(&str, i64)]] = &[
        &[("B", 2), ("M", 128), ("N", 128), ("K", 64)],
        &[("B", 3), ("M", 33), ("N", 65), ("K", 17)],
    ];
    compare::<batched::batched>(batched::batched::KERNEL, batched::SCHEDULES, sizes);
    compare::<batched::batched_nt>(batched::batched_nt::KERNEL, batched::SCHEDULES, sizes);
}

#[test]
fn vectors() {
    let sizes: &[&[(&str, i64)]] = &[&[("N", 4096)], &[("N", 4099)]];
    compare::<vector_add::vector_add>(vector_add::vector_add::KERNEL, vector_add::SCHEDULES, sizes);
}

#[test]
fn softmax_rows() {
    let sizes: &[&[(&str, i64)]] = &[&[("R", 8), ("N", 1024)], &[("R", 5), ("N", 127)], &[("R", 2), ("N", 2050)]];
    compare::<softmax::softmax>(softmax::softmax::KERNEL, softmax::SCHEDULES, sizes);
}

#[test]
fn convolutions() {
    let sizes: &[&[(&str, i64)]] = &[&[("N", 4096)], &[("N", 1000)]];
    compare::<conv1d::conv1d>(conv1d::conv1d::KERNEL, conv1d::SCHEDULES, sizes);
    let size = |[b, p, q, c, f, r, s]: [i64; 7]| [("B", b), ("P", p), ("Q", q), ("C", c), ("F", f), ("R", r), ("S", s)];
    let sizes = [size([2, 9, 17, 33, 20, 3, 3]), size([1, 8, 16, 32, 128, 1, 2])];
    compare::<conv2d::conv2d>(conv2d::conv2d::KERNEL, conv2d::SCHEDULES, &[&sizes[0], &sizes[1]]);
}

#[test]
fn attention_heads() {
    let size = |[m, n, d]: [i64; 3]| [("B", 1), ("H", 2), ("M", m), ("N", n), ("D", d)];
    let sizes = [size([128, 128, 64]), size([33, 17, 20])];
    compare::<attention::attention>(attention::attention::KERNEL, attention::SCHEDULES, &[&sizes[0], &sizes[1]]);
}
