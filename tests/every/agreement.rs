//! The executors agree: f64 reference of the tile IR, interpreter of the nest, simulator on the PTX.

use crate::{
    examples::{
        attention, batched, conv1d, conv2d, linear, packed_attention, product, softmax, triangular,
        vector_add,
    },
    random::mixed_schedules,
    support::{Case, of_kernel},
};
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    directive::{self, DirectiveKind},
    engine::testing::Random,
    lower::{admit, promises},
    program::Program,
};
use tilewright::{AnySchedule, DType, Kernel};

const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];

/// M×N×K: single elements, primes, ragged and whole tiles, thin and empty ones.
const PRODUCTS: [[i64; 3]; 8] = [
    [1, 1, 1],
    [33, 65, 17],
    [127, 129, 130],
    [128, 128, 128],
    [256, 192, 320],
    [1, 1000, 3],
    [257, 1, 255],
    [64, 64, 0],
];

/// The largest extent of a dim that a program admits, if it says.
fn bound(program: &[u8], dim: &str) -> Option<usize> {
    let program = Program::from_bytes(program).expect("encoded above");
    program.schedule.directives.iter().find_map(|d| match &d.kind {
        DirectiveKind::Fits(directive::Fits { dim: bounded, max }) if bounded == dim => Some(*max as usize),
        _ => None,
    })
}

/// Whether launches of a size keep what a schedule asserts of them.
fn takes(schedule: &dyn AnySchedule, dtype: Option<DType>, dims: &[(&str, i64)]) -> bool {
    let program = schedule.program(dtype).expect("a type that it admits");
    let nest = Program::from_bytes(program).expect("embedded").nest;
    let dims = dims.iter().map(|(dim, n)| (dim.to_string(), *n)).collect();
    promises(&nest).iter().all(|promise| promise.assumption.holds(&dims, &[]))
}

/// Above so many points, a schedule is run in one of its types a size.
const LARGE: i64 = 1_000_000;
/// Above so many points, the simulator alone runs: the interpreter of nests takes steps of one element.
const HUGE: i64 = 4_000_000;

/// Every schedule, type and size on both executors; each schedule takes one of the sizes.
///
/// Of large sizes a Latin square: each schedule meets each of them, in one of its types after the other.
fn named<K: Kernel>(encoded: &[u8], schedules: &[&dyn AnySchedule], sizes: &[Vec<(&str, i64)>]) {
    let mut types: Vec<Option<DType>> = Vec::new();
    for schedule in schedules {
        let own = schedule.dtypes().iter().copied().map(Some);
        let own: Vec<_> = if schedule.dtypes().is_empty() { vec![None] } else { own.collect() };
        types.extend(own.into_iter().filter(|t| !types.contains(t)).collect::<Vec<_>>());
    }
    let (mut taken, mut large) = (BTreeSet::new(), 0);
    for dims in sizes {
        let points: i64 = dims.iter().map(|(_, n)| n).product();
        let is_large = points > LARGE;
        for dtype in types.iter().copied() {
            let turn = |at: usize, schedule: &dyn AnySchedule| {
                let own: Vec<_> = types.iter().filter(|t| schedule.admits(**t)).collect();
                own.iter()
                    .position(|t| **t == dtype)
                    .is_some_and(|t| (at + large + t).is_multiple_of(own.len()))
            };
            let admitted = schedules.iter().copied().enumerate().filter(|(_, s)| s.admits(dtype));
            let chosen: Vec<&dyn AnySchedule> = admitted
                .filter(|(at, s)| (!is_large || turn(*at, *s)) && takes(*s, dtype, dims))
                .map(|(_, s)| s)
                .collect();
            if chosen.is_empty() {
                continue;
            }
            // Attention takes positive scales, and no other kernel here has scalars.
            let case = Case::new(encoded, dtype, dims, 11).positive();
            for schedule in chosen {
                if points <= HUGE {
                    case.check_nest(schedule);
                }
                case.check_simulator::<K>(schedule);
                taken.insert(schedule.name());
            }
        }
        large += usize::from(is_large);
    }
    for schedule in schedules {
        assert!(taken.contains(schedule.name()), "no size for `{}`", schedule.name());
    }
}

/// Random legal schedules, each at its own random size: evaluator, interpreters of nest and kernel, simulator.
/// `TILEWRIGHT_RANDOM` and `TILEWRIGHT_SEED` set their number and the first seed.
fn seeded<K: Kernel>(encoded: &[u8], dtypes: &'static [DType], largest: &[(&str, usize)]) {
    let asked = |name: &str| std::env::var(name).ok().map(|s| s.parse().expect("a number"));
    let (seed, count) =
        (asked("TILEWRIGHT_SEED").unwrap_or(20_260_101), asked("TILEWRIGHT_RANDOM").unwrap_or(24));
    let extents = largest.iter().map(|(dim, n)| (dim.to_string(), *n as i64)).collect();
    let (mut tally, mut lowered) = (BTreeMap::<String, usize>::new(), 0);
    for (i, schedule) in mixed_schedules(K::NAME, encoded, dtypes, count, seed, &extents).iter().enumerate() {
        let mut numbers = Random::new(seed ^ i as u64);
        let (dtype, program) = schedule.programs[0];
        let most = |dim: &str, n: usize| bound(program, dim).map_or(n, |bound| n.min(bound));
        let mut dims =
            largest.iter().map(|(d, n)| (d.to_string(), 1 + numbers.below(most(d, *n)) as i64)).collect();
        admit(&Program::from_bytes(program).expect("encoded above").nest, &mut dims);
        let size: Vec<(&str, i64)> = largest.iter().map(|(d, _)| (*d, dims[*d])).collect();
        let case = Case::new(encoded, dtype, &size, seed).positive();
        case.check_nest(schedule);
        lowered += case.check_kernel(schedule);
        case.check_simulator::<K>(schedule);
        for directive in kinds(program) {
            *tally.entry(directive).or_default() += 1;
        }
    }
    println!("{} from seed {seed}: {count} schedules, {lowered} kernels; {tally:?}", K::NAME);
}

/// The directives that a program's schedule has, each once.
fn kinds(program: &[u8]) -> BTreeSet<String> {
    let directives = Program::from_bytes(program).expect("encoded above").schedule.directives;
    directives.iter().map(|d| d.kind.name().to_string()).collect()
}

fn products() -> Vec<Vec<(&'static str, i64)>> {
    PRODUCTS.iter().map(|[m, n, k]| vec![("M", *m), ("N", *n), ("K", *k)]).collect()
}

#[test]
fn matmul_named() {
    named::<product::matmul>(product::matmul::KERNEL, product::SCHEDULES, &products());
}

#[test]
fn matmul_by_size_named() {
    named::<product::matmul>(product::matmul::KERNEL, product::BY_SIZE, &products());
}

#[test]
fn matmul_tf32_named() {
    named::<product::matmul_tf32>(product::matmul_tf32::KERNEL, product::TF32, &products());
}

#[test]
fn matmul_tf32_random() {
    seeded::<product::matmul_tf32>(product::matmul_tf32::KERNEL, FLOATS, &[("M", 80), ("N", 80), ("K", 80)]);
}

#[test]
fn matmul_random() {
    seeded::<product::matmul>(product::matmul::KERNEL, FLOATS, &[("M", 80), ("N", 80), ("K", 80)]);
}

#[test]
fn linear_named() {
    named::<linear::linear>(linear::linear::KERNEL, linear::SCHEDULES, &products());
}

#[test]
fn linear_random() {
    seeded::<linear::linear>(linear::linear::KERNEL, FLOATS, &[("M", 80), ("N", 80), ("K", 80)]);
}

/// A batch of products.
fn batches() -> Vec<Vec<(&'static str, i64)>> {
    [(1, 1, 1, 1), (3, 33, 65, 17), (2, 128, 130, 31), (2, 5, 128, 64), (3, 64, 7, 0), (0, 4, 4, 4)]
        .map(|(b, m, n, k)| vec![("B", b), ("M", m), ("N", n), ("K", k)])
        .into()
}

#[test]
fn batched_named() {
    let of = |kernel: &str| -> Vec<&dyn AnySchedule> {
        batched::SCHEDULES.iter().filter(|s| s.kernel() == kernel).copied().collect()
    };
    named::<batched::batched>(batched::batched::KERNEL, &of("batched"), &batches());
    named::<batched::batched_nt>(batched::batched_nt::KERNEL, &of("batched_nt"), &batches());
}

#[test]
fn batched_random() {
    let largest = [("B", 3), ("M", 50), ("N", 50), ("K", 50)];
    seeded::<batched::batched>(batched::batched::KERNEL, FLOATS, &largest);
    seeded::<batched::batched_nt>(batched::batched_nt::KERNEL, FLOATS, &largest);
}

#[test]
fn conv2d_random() {
    let largest = [("B", 2), ("P", 5), ("Q", 9), ("C", 17), ("F", 20), ("R", 2), ("S", 3)];
    seeded::<conv2d::conv2d>(conv2d::conv2d::KERNEL, FLOATS, &largest);
}

#[test]
fn conv2d_named() {
    // Windows of one pixel and of none, tails of lines, columns, channels and filters, no channels, no images.
    let sizes: Vec<_> = [
        [1, 1, 1, 1, 1, 1, 1],
        [2, 9, 17, 33, 20, 3, 3],
        [1, 8, 16, 32, 128, 1, 2],
        [2, 3, 18, 24, 68, 2, 3],
        [1, 3, 33, 8, 129, 2, 5],
        [2, 4, 5, 0, 6, 3, 3],
        [1, 4, 5, 3, 6, 0, 1],
        [0, 4, 5, 3, 6, 1, 1],
    ]
    .map(|[b, p, q, c, f, r, s]| vec![("B", b), ("P", p), ("Q", q), ("C", c), ("F", f), ("R", r), ("S", s)])
    .into();
    named::<conv2d::conv2d>(conv2d::conv2d::KERNEL, conv2d::SCHEDULES, &sizes);
}

#[test]
fn vector_add_named() {
    let sizes: Vec<_> = [0, 1, 3, 4, 255, 1024, 4099].map(|n| vec![("N", n)]).into();
    named::<vector_add::vector_add>(vector_add::vector_add::KERNEL, vector_add::SCHEDULES, &sizes);
}

#[test]
fn vector_add_random() {
    seeded::<vector_add::vector_add>(vector_add::vector_add::KERNEL, FLOATS, &[("N", 3000)]);
}

#[test]
fn softmax_named() {
    let sizes: Vec<_> = [(1, 1), (4, 128), (5, 127), (3, 1000), (2, 1024), (0, 7)]
        .map(|(r, n)| vec![("R", r), ("N", n)])
        .into();
    named::<softmax::softmax>(softmax::softmax::KERNEL, softmax::SCHEDULES, &sizes);
}

#[test]
fn softmax_of_long_rows() {
    let long = softmax::SCHEDULES.iter().filter(|s| s.name() == "long").copied().collect::<Vec<_>>();
    let sizes: Vec<_> = [(2, 1025), (1, 5000)].map(|(r, n)| vec![("R", r), ("N", n)]).into();
    named::<softmax::softmax>(softmax::softmax::KERNEL, &long, &sizes);
}

mod places {
    use super::softmax::softmax;
    use tilewright::prelude::*;

    schedule! {
        /// The loops inside the copies stand in another order in `e.max` than in `y`: a fragment is all rows' there, one row's here.
        pub fragments for softmax {
            layout(x: col);
            tile(r = 32, n = 5);
            recompute(v, e);
            fuse(v at n);
            fuse(e at r);
            reorder(n.t, r.t);
            reorder(r.t, n.t in v);
            stage(x at n.o: shared, vector(4));
            pad(x: 4);
            fragment(x at n.t);
            bind(r.t -> thread.x);
        }
    }
}

#[test]
fn softmax_of_copies_at_several_places() {
    let sizes: Vec<_> = [(33, 41), (32, 5), (1, 1)].map(|(r, n)| vec![("R", r), ("N", n)]).into();
    named::<softmax::softmax>(softmax::softmax::KERNEL, &[&places::fragments], &sizes);
}

#[test]
fn softmax_random() {
    seeded::<softmax::softmax>(softmax::softmax::KERNEL, &[], &[("R", 60), ("N", 60)]);
}

#[test]
fn attention_named() {
    // Queries, keys, head: tails of tiles and heads, one key, none.
    let sizes: Vec<_> =
        [(1, 1, 1), (33, 17, 20), (64, 64, 64), (130, 15, 32), (7, 33, 63), (3, 0, 8), (0, 4, 8)]
            .map(|(m, n, d)| vec![("B", 1), ("H", 2), ("M", m), ("N", n), ("D", d)])
            .into();
    let [looped, plain] = ["attention", "attention_plain"].map(|name| of_kernel(attention::SCHEDULES, name));
    named::<attention::attention>(attention::attention::KERNEL, &looped, &sizes);
    named::<attention::attention_plain>(attention::attention_plain::KERNEL, &plain, &sizes);
}

#[test]
fn attention_of_wide_heads() {
    let wide = of_kernel(attention::SCHEDULES, "attention")
        .into_iter()
        .filter(|s| !["lanes", "mma_narrow", "wgmma_narrow", "wgmma_narrow3"].contains(&s.name()))
        .collect::<Vec<_>>();
    let sizes: Vec<_> = [(70, 20, 128), (5, 9, 65)]
        .map(|(m, n, d)| vec![("B", 2), ("H", 1), ("M", m), ("N", n), ("D", d)])
        .into();
    named::<attention::attention>(attention::attention::KERNEL, &wide, &sizes);
}

#[test]
fn products_of_triangles_named() {
    let sizes: Vec<_> = [(150, 40, 150), (33, 130, 70), (64, 64, 200)]
        .map(|(m, n, k)| vec![("M", m), ("N", n), ("K", k)])
        .into();
    named::<triangular::triangular>(triangular::triangular::KERNEL, triangular::SCHEDULES, &sizes);
}

/// Where sequences begin is random here: near the first token, some before it.
#[test]
fn attention_of_packed_sequences_named() {
    let sizes: Vec<_> =
        [(70, 64), (130, 40)].map(|(s, d)| vec![("H", 1), ("S", s), ("L", s + 3), ("D", d)]).into();
    named::<packed_attention::packed>(packed_attention::packed::KERNEL, packed_attention::SCHEDULES, &sizes);
}

#[test]
fn attention_random() {
    let largest = [("B", 1), ("H", 2), ("M", 40), ("N", 40), ("D", 40)];
    seeded::<attention::attention>(attention::attention::KERNEL, FLOATS, &largest);
}

mod one_head {
    use tilewright::prelude::*;

    /// Attention of one head: few axes, so that random schedules are quick.
    #[tile_kernel]
    pub fn head<T: Float>(
        q: &Tensor<T, M, D>,
        k: &Tensor<T, N, D>,
        v: &Tensor<T, N, D>,
        o: &mut Tensor<T, M, D>,
    ) {
        let i = program_tile(M);
        let d = whole(D);
        let e = whole(D);
        let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
        let mut l = zeros::<f32>([i]);
        let mut acc = zeros::<f32>([i, e]);
        for j in tiles(N) {
            let s = dot(load(q, [i, d]), load(k, [j, d]), zeros::<f32>([i, j])) * 0.25;
            let top = max(m, max(s, j));
            let p = exp(s - top);
            let alpha = exp(m - top);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [j, e]), acc * alpha);
            m = top;
        }
        store(o, [i, e], (acc / l).cast::<T>());
    }
}

#[test]
fn attention_of_one_head_random() {
    seeded::<one_head::head>(one_head::head::KERNEL, FLOATS, &[("M", 40), ("N", 40), ("D", 40)]);
}

#[test]
fn conv1d_named() {
    let sizes: Vec<_> = [0, 1, 2, 255, 256, 257, 5000].map(|n| vec![("N", n)]).into();
    named::<conv1d::conv1d>(conv1d::conv1d::KERNEL, conv1d::SCHEDULES, &sizes);
}

#[test]
fn conv1d_random() {
    seeded::<conv1d::conv1d>(conv1d::conv1d::KERNEL, &[], &[("N", 3000)]);
}
