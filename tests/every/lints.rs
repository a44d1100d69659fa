//! What is predicted of every example under every schedule is what the simulator counts in the same launch.

use crate::{
    examples::{attention, batched, conv1d, conv2d, eight, linear, product, softmax, vector_add},
    support::{Case, of_kernel},
};
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    kernel::{Kernel as KernelIr, Param},
    lower::{lower, promises},
    program::Program,
};
use tilewright::{
    AnySchedule, Checked, DType, Kernel, LaunchReport, Lint, Variant, check,
    lints::traffic::{Form, Launch, Traffic, traffic},
    pages, sim,
};

/// Requests, sectors or wavefronts, and bytes; of shared memory also the wavefronts that are needed.
type Counts = BTreeMap<(String, &'static str), [u64; 4]>;

fn add(to: &mut Counts, at: (String, &'static str), counts: [u64; 4]) {
    let sum = to.entry(at).or_default();
    sum.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
}

/// What was predicted: by tensor and direction, and of shared memory by the kind of instruction.
/// The simulator calls all scratch buffers by one name.
fn predicted(kernel: &KernelIr, traffic: &Traffic) -> Counts {
    let mut counts = Counts::new();
    for access in &traffic.accesses {
        let c = access.count;
        let (place, least) = match access.shared {
            true => ("(shared)".to_string(), c.least),
            false
                if kernel
                    .params
                    .iter()
                    .any(|p| matches!(p, Param::Scratch { name, .. } if *name == access.buffer)) =>
            {
                ("scratch".to_string(), 0)
            }
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
                i if i.starts_with("red") => "atomic",
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

/// Where LLVM changes accesses on the way to PTX in a way that is not predicted.
struct Exception {
    kernel: &'static str,
    schedule: &'static str,
    /// Buffer or memory, and direction or instruction.
    at: (&'static str, &'static str),
    why: &'static Why,
}

/// Why LLVM's requests differ from those predicted, and in what they may.
struct Why {
    reason: &'static str,
    /// Of what is predicted and counted: requests, units, bytes.
    may: fn([u64; 4], [u64; 4]) -> bool,
}

/// In the PTX of `best` there is one `st.shared.v4` for the first four of 128 stores of the tile that is combined.
static STORES: Why = Why {
    reason: "LLVM joins stores of neighbours to a vector, four of many",
    // As many bytes by fewer requests.
    may: |predicted, counted| counted[2] == predicted[2] && counted[0] < predicted[0],
};

/// A load whose value one guarded store needs.
static SUNK: Why = Why {
    reason: "LLVM moves loads behind the guard of the store that needs them: lanes beyond the end load nothing",
    // Less of everything.
    may: |predicted, counted| {
        counted.iter().zip(&predicted).all(|(c, p)| c <= p) && counted[2] < predicted[2]
    },
};
/// In the PTX of a general variant, for f16.
static APART: Why = Why {
    reason: "as many bytes by more requests: where copies are guarded, lanes of a warp reach loads apart",
    may: |predicted, counted| counted[2] == predicted[2] && counted[0] > predicted[0],
};

const EXCEPTIONS: &[Exception] = &[
    exception("conv1d", "staged", ("(shared)", "load"), &SUNK),
    exception("matmul", "small_split4", ("scratch", "load"), &SUNK),
    exception("matmul", "small_split16", ("scratch", "load"), &SUNK),
    exception("matmul", "small_split64", ("scratch", "load"), &SUNK),
    exception("matmul", "flat_split16", ("scratch", "load"), &SUNK),
    exception("matmul", "ragged_split4", ("scratch", "load"), &SUNK),
    exception("matmul", "best", ("(shared)", "store"), &STORES),
    exception("matmul", "narrow", ("(shared)", "store"), &STORES),
    exception("matmul", "narrow_split4", ("(shared)", "store"), &STORES),
    exception("matmul", "narrow_added4", ("(shared)", "store"), &STORES),
    exception("matmul", "narrow_added16", ("(shared)", "store"), &STORES),
    exception("linear", "best", ("(shared)", "store"), &STORES),
    exception("matmul", "double_buffered", ("(shared)", "load"), &APART),
    exception("attention", "wgmma_frozen", ("(shared)", "load"), &APART),
    exception("attention", "wgmma_narrow3", ("(shared)", "load"), &APART),
    exception("attention_plain", "plain_frozen", ("(shared)", "load"), &APART),
    exception("attention", "wgmma_wide_frozen", ("(shared)", "store"), &APART),
];

const fn exception(
    kernel: &'static str,
    schedule: &'static str,
    at: (&'static str, &'static str),
    why: &'static Why,
) -> Exception {
    Exception { kernel, schedule, at, why }
}

#[derive(Default)]
struct Tally {
    schedules: usize,
    cases: usize,
    launches: usize,
    equal: usize,
    /// Equal but for an [`Exception`].
    explained: usize,
}

fn compare<K: Kernel>(encoded: &[u8], schedules: &[&dyn AnySchedule], sizes: &[&[(&str, i64)]]) {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    let mut met = BTreeSet::new();
    for schedule in schedules.iter().filter(|s| s.kernel() == K::NAME) {
        tally.schedules += 1;
        let mut types: Vec<Option<DType>> = schedule.dtypes().iter().copied().map(Some).collect();
        if types.is_empty() {
            types.push(None);
        }
        let sixteen = types.iter().position(|t| t.is_some_and(|t| t.bytes() == 2));
        let types: Vec<_> = types
            .iter()
            .enumerate()
            .filter(|(n, t)| t.is_none_or(|t| t.bytes() != 2) || Some(*n) == sixteen)
            .map(|(_, t)| *t)
            .collect();
        for dtype in types {
            let mut ran = 0;
            for dims in sizes {
                let program = Program::from_bytes(schedule.program(dtype).unwrap()).unwrap();
                if !takes(&program, dims) {
                    continue;
                }
                // Attention takes a positive scale, and a small one: where weights overflow, tiles are computed again.
                let case = Case::new(encoded, dtype, dims, 3).positive().scalar("scale", 0.125);
                for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
                    let Some((report, _)) = case.launch::<K>(*schedule, variant) else { continue };
                    let kernel = lower(&program, variant).unwrap();
                    let ctas = u64::from(report.ctas);
                    let launch = Launch { dims: &report.dims, ctas, looked_at: 0..ctas };
                    let what = format!("{} {dtype:?} {dims:?} {variant}", schedule.name());
                    let traffic = traffic(&kernel, &launch).unwrap_or_else(|e| panic!("{what}: {e}"));
                    let ((counted, boxes), predicted) = (counted(&report), predicted(&kernel, &traffic));
                    tally.launches += 1;
                    ran += 1;
                    let says = |t: &str| traffic.left_out.iter().any(|l| l.reason.contains(t));
                    assert_eq!(boxes > 0, says("whole boxes"), "{what}");
                    if counted == predicted {
                        tally.equal += 1;
                        continue;
                    }
                    let keys: BTreeSet<_> = counted.keys().chain(predicted.keys()).collect();
                    let differ = keys.into_iter().filter(|key| counted.get(*key) != predicted.get(*key));
                    let mut text = what;
                    let mut explained = true;
                    for key in differ {
                        let (a, b) = (predicted.get(key), counted.get(key));
                        let exception = EXCEPTIONS.iter().position(|e| {
                            (e.kernel, e.schedule) == (K::NAME, schedule.name())
                                && e.at == (&*key.0, key.1)
                                && a.zip(b).is_some_and(|(a, b)| (e.why.may)(*a, *b))
                        });
                        explained &= exception.is_some();
                        met.extend(exception);
                        let reason = exception.map_or("", |n| EXCEPTIONS[n].why.reason);
                        text += &format!("\n    {key:?}: predicted {a:?}, counted {b:?} {reason}");
                    }
                    if explained {
                        println!("{text}");
                        tally.explained += 1;
                        continue;
                    }
                    wrong.push(text);
                }
            }
            tally.cases += 1;
            assert!(ran > 0, "{}: no size", schedule.name());
        }
    }
    println!(
        "{}: {} schedules, {} with types, {} launches, {} equal, {} but for an exception",
        K::NAME,
        tally.schedules,
        tally.cases,
        tally.launches,
        tally.equal,
        tally.explained
    );
    for (n, e) in EXCEPTIONS.iter().enumerate() {
        let here = schedules.iter().any(|s| (s.kernel(), s.name()) == (e.kernel, e.schedule));
        assert!(!here || met.contains(&n), "{} of {}: {:?} is as predicted", e.schedule, e.kernel, e.at);
    }
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
    let sizes: &[&[(&str, i64)]] =
        &[&[("B", 2), ("M", 128), ("N", 128), ("K", 64)], &[("B", 3), ("M", 33), ("N", 65), ("K", 17)]];
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
    let sizes: &[&[(&str, i64)]] =
        &[&[("R", 8), ("N", 1024)], &[("R", 5), ("N", 127)], &[("R", 2), ("N", 2050)]];
    compare::<softmax::softmax>(softmax::softmax::KERNEL, softmax::SCHEDULES, sizes);
}

#[test]
fn convolutions() {
    let sizes: &[&[(&str, i64)]] = &[&[("N", 4096)], &[("N", 1000)]];
    compare::<conv1d::conv1d>(conv1d::conv1d::KERNEL, conv1d::SCHEDULES, sizes);
    let size = |[b, p, q, c, f, r, s]: [i64; 7]| {
        [("B", b), ("P", p), ("Q", q), ("C", c), ("F", f), ("R", r), ("S", s)]
    };
    let sizes = [size([2, 9, 17, 33, 20, 3, 3]), size([1, 8, 16, 32, 128, 1, 2])];
    compare::<conv2d::conv2d>(conv2d::conv2d::KERNEL, conv2d::SCHEDULES, &[&sizes[0], &sizes[1]]);
}

#[test]
fn attention_heads() {
    let size = |[m, n, d]: [i64; 3]| [("B", 1), ("H", 2), ("M", m), ("N", n), ("D", d)];
    let sizes = [size([128, 128, 64]), size([33, 17, 20])];
    let [looped, plain] = ["attention", "attention_plain"].map(|name| of_kernel(attention::SCHEDULES, name));
    let sizes: &[&[(&str, i64)]] = &[&sizes[0], &sizes[1]];
    compare::<attention::attention>(attention::attention::KERNEL, &looped, sizes);
    compare::<attention::attention_plain>(attention::attention_plain::KERNEL, &plain, sizes);
}

/// Schedules with a fault that is known.
mod faults {
    use crate::examples::product;
    use product::matmul;
    use tilewright::prelude::*;

    schedule! {
        /// Lanes read a column of A: rows of 32 words begin in one bank.
        pub columns for matmul<f32> = product::naive {
            tile(k = 32);
            stage(a, b at k: shared);
        }
        /// Stages of 2 KB, one ahead.
        pub short = columns {
            tile(k = 8);
            pipeline(k, 2);
        }
    }
}

const SMALL: &[(&str, i64)] = &[("M", 64), ("N", 64), ("K", 64)];

fn sizes(dims: &[(&'static str, i64)]) -> Vec<(&'static str, usize)> {
    dims.iter().map(|(dim, n)| (*dim, *n as usize)).collect()
}

/// The counters of a small product.
fn run(schedule: &dyn AnySchedule, dims: &[(&'static str, i64)]) -> LaunchReport {
    let case = Case::new(product::matmul::KERNEL, Some(DType::F32), dims, 3);
    let (report, _) = case.launch::<product::matmul>(schedule, Variant::General).expect("any size");
    assert!(report.findings.is_empty());
    report
}

/// A schedule with the directives of a help.
fn helped(schedule: &dyn AnySchedule, lint: &Lint) -> (f64, pages::Extended) {
    let help = lint.help.as_ref().unwrap_or_else(|| panic!("help: {lint}"));
    match pages::extended(schedule, Some(DType::F32), &help.directives) {
        Ok(pages::Outcome::Legal(extended)) => (help.predicted, extended),
        _ => panic!("a help is legal: {lint}"),
    }
}

fn found<'a>(checked: &'a Checked, rule: &str, place: &str) -> &'a Lint {
    let found = checked.lints.iter().find(|l| (l.rule, &*l.place) == (rule, place));
    found.unwrap_or_else(|| panic!("{rule} of {place}:\n{checked}"))
}

#[test]
fn a_conflict_is_found_and_its_help_removes_it() {
    let checked = check(&faults::columns, Some(DType::F32), &sizes(SMALL)).unwrap();
    let lint = found(&checked, "bank-conflicts", "a");
    assert_eq!((lint.figures.predicted, lint.figures.bound), (32.0, 1.0), "{lint}");
    let counters = run(&faults::columns, SMALL).counters.unwrap();
    // Of two loads a step one conflicts.
    assert_eq!(counters.shared_load.wavefronts_per_request(), f64::midpoint(lint.figures.predicted, 1.0));
    let (predicted, mended) = helped(&faults::columns, lint);
    assert_eq!(predicted, 1.0, "{lint}");
    let counters = run(&mended, SMALL).counters.unwrap();
    assert_eq!(
        (counters.shared_load.bank_conflicts, counters.shared_load.wavefronts_per_request()),
        (0, 1.0)
    );
    let checked = check(&mended, Some(DType::F32), &sizes(SMALL)).unwrap();
    assert!(checked.lints.iter().all(|l| l.rule != "bank-conflicts" || l.place != "a"), "{checked}");
}

#[test]
fn scattered_loads_are_found_and_their_help_mends_them() {
    let checked = check(&product::naive, Some(DType::F32), &sizes(SMALL)).unwrap();
    for (place, access) in [("a", sim::Access::Load), ("c", sim::Access::Store)] {
        let lint = found(&checked, "uncoalesced", place);
        let each = |schedule: &dyn AnySchedule| {
            run(schedule, SMALL).counters.unwrap().buffer(place, access).sectors_per_request()
        };
        assert_eq!(each(&product::naive), lint.figures.predicted, "{lint}");
        let (predicted, mended) = helped(&product::naive, lint);
        assert_eq!(each(&mended), predicted, "{lint}");
        assert!(predicted < lint.figures.predicted);
    }
    let coalesced = check(&product::coalesced, Some(DType::F32), &sizes(SMALL)).unwrap();
    assert!(coalesced.lints.iter().all(|l| l.rule != "uncoalesced"), "{coalesced}");
}

#[test]
fn tails_and_waves_follow_from_the_sizes() {
    let dims = [("M", 33), ("N", 64), ("K", 32)];
    let checked = check(&product::naive, Some(DType::F32), &sizes(&dims)).unwrap();
    let lint = found(&checked, "tails", "i");
    assert_eq!(lint.figures.predicted, 31.0 / 32.0);
    assert_eq!(checked.ctas, u64::from(run(&product::naive, &dims).ctas));
    assert!(checked.lints.iter().all(|l| l.place != "j"), "{checked}");
    // CTAs of 1024 threads: two a multiprocessor, 264 at once.
    let rows =
        |tiles: usize| check(&product::naive, Some(DType::F32), &[("M", 32 * tiles), ("N", 32), ("K", 8)]);
    let checked = rows(265).unwrap();
    assert_eq!(found(&checked, "waves", "the grid").figures.predicted, 1.0 / 264.0);
    assert!(rows(264).unwrap().lints.iter().all(|l| l.rule != "waves"));
    assert!(rows(500).unwrap().lints.iter().all(|l| l.rule != "waves"), "the last wave is nearly full");
}

#[test]
fn a_short_pipeline_is_found() {
    let dims = sizes(&[("M", 1024), ("N", 1024), ("K", 64)]);
    let checked = check(&faults::short, Some(DType::F32), &dims).unwrap();
    let lint = found(&checked, "pipeline", "k.o");
    // One stage of 2 KB ahead, two CTAs of 1024 threads a multiprocessor.
    assert_eq!(lint.figures.predicted, 4096.0, "{lint}");
    let (predicted, mended) = helped(&faults::short, lint);
    assert!(predicted >= lint.figures.bound, "{lint}");
    let checked = check(&mended, Some(DType::F32), &dims).unwrap();
    assert!(checked.lints.iter().all(|l| l.rule != "pipeline"), "{checked}");
}

#[test]
fn shared_memory_that_limits_ctas_is_found() {
    let dims = [("M", 256), ("N", 256), ("K", 64)];
    let checked = check(&product::best, Some(DType::F32), &sizes(&dims)).unwrap();
    let lint = found(&checked, "occupancy", "the CTA");
    assert_eq!(lint.figures.predicted, 1.0, "{lint}");
    let bytes = run(&product::best, &dims).shared_bytes;
    assert!(lint.message.contains(&format!("{bytes} bytes of shared memory")), "{lint}: {bytes}");
}

#[test]
fn what_cannot_be_checked_is_said() {
    let error = check(&product::naive, Some(DType::F32), &[("M", 1)]).unwrap_err();
    assert_eq!(error.to_string(), "the sizes lack one of K, N");
    let error = check(&product::naive, None, &[]).unwrap_err();
    assert_eq!(error.to_string(), "`naive` has no program for a kernel without an element type");
}
