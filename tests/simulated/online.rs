//! `online`: plain texts of several passes, scheduled as one, agree with what the text says on every executor.

use crate::support;
use tile_dsl::program::{Program, Variant};
use tilewright::{
    AnySchedule, DType, Kernel, Stage, emit_program, explain, lints::proof::replay, prelude::*,
};

mod kernels {
    use tilewright::prelude::*;

    /// Softmax of each row.
    #[tile_kernel]
    pub fn softmax<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]).cast::<f32>();
        let e = exp(v - max(v, n));
        store(y, [r, n], (e / sum(e, n)).cast::<T>());
    }

    /// Cross-entropy.
    #[tile_kernel]
    pub fn cross_entropy<T: Float>(
        x: &Tensor<T, S, V>,
        label: &Tensor<i32, S>,
        loss: &mut Tensor<f32, S>,
        ignore_index: i32,
    ) {
        let s = program_tile(S);
        let n = whole(V);
        let v = load(x, [s, n]).cast::<f32>();
        let m = max(v, n);
        let l = sum(exp(v - m), n);
        let t = load(label, [s]);
        let known = select((t >= 0) & (t < V), m + log(l) - load(x, [s, t]).cast::<f32>(), f32::INFINITY);
        store(loss, [s], select(t == ignore_index, 0.0, known));
    }

    /// Attention.
    #[tile_kernel]
    pub fn attention<T: Float>(
        q: &Tensor<T, H, M, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        o: &mut Tensor<T, H, M, D>,
        scale: f32,
    ) {
        let (h, i) = program_tile(H, M);
        let (d, e) = whole(D, D);
        let j = whole(N);
        let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j])) * (scale * 1.442695);
        let m = max(s, j);
        let p = exp2(s - m);
        let l = sum(p, j);
        let acc = dot(p.cast::<T>(), load(v, [h, j, e]), zeros::<f32>([h, i, e]));
        store(o, [h, i, e], (acc / l).cast::<T>());
    }

    /// The loop that `online(j)` makes of it, by hand.
    #[tile_kernel]
    pub fn looped<T: Float>(
        q: &Tensor<T, H, M, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        o: &mut Tensor<T, H, M, D>,
        scale: f32,
    ) {
        let (h, i) = program_tile(H, M);
        let (d, e) = whole(D, D);
        let mut m = full::<f32>(f32::NEG_INFINITY, [h, i]);
        let mut l = zeros::<f32>([h, i]);
        let mut acc = zeros::<f32>([h, i, e]);
        for j in tiles(N) {
            let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j])) * (scale * 1.442695);
            let top = max(s, j);
            let next = max(m, top);
            let frame = select(next == f32::NEG_INFINITY, 0.0, next);
            let p = exp2(s - frame);
            let alpha = exp2(m - frame);
            l = l * alpha + sum(p, j);
            acc = dot(p.cast::<T>(), load(v, [h, j, e]), acc * alpha);
            m = next;
        }
        let l = select((m == f32::NEG_INFINITY) & (0 < N), m - m, l);
        let acc = select((m == f32::NEG_INFINITY) & (0 < N), m - m, acc);
        store(o, [h, i, e], (acc / l).cast::<T>());
    }

    /// Each query sees the keys up to its own place, but for the first ones.
    #[tile_kernel]
    pub fn windowed<T: Float>(
        q: &Tensor<T, H, N, D>,
        k: &Tensor<T, H, N, D>,
        v: &Tensor<T, H, N, D>,
        first: &Tensor<i32, N>,
        o: &mut Tensor<T, H, N, D>,
    ) {
        let (h, i) = program_tile(H, N);
        let (d, e) = whole(D, D);
        let j = whole(N).between(load(first, [i]), i + 1);
        let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j]));
        let m = max(s, j);
        let p = exp(s - m);
        let l = sum(p, j);
        let acc = dot((p / l).cast::<T>(), load(v, [h, j, e]), zeros::<f32>([h, i, e]));
        store(o, [h, i, e], acc.cast::<T>());
    }

    /// Where the greatest element is, and its share of the row.
    #[tile_kernel]
    pub fn likely(x: &Tensor<f32, R, N>, at: &mut Tensor<i32, R>, share: &mut Tensor<f32, R>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]);
        let place = argmax(v, n);
        let m = max(v, n);
        let l = sum(exp(v - m), n);
        store(at, [r], place);
        store(share, [r], 1.0 / l);
    }

    /// Layer norm.
    #[tile_kernel]
    pub fn layer_norm<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
        let r = program_tile(R);
        let n = whole(N);
        let v = load(x, [r, n]).cast::<f32>();
        let mean = sum(v, n) / N.cast::<f32>();
        let d = v - mean;
        let variance = sum(d * d, n) / N.cast::<f32>();
        store(y, [r, n], (d * rsqrt(variance + 0.00001)).cast::<T>());
    }

    schedule! {
        pub likely_serial for likely { online(n = 4); tile(r = 8); bind(r -> thread.x); }
        pub likely_cta for likely {
            online(n = 256);
            tile(r = 1);
            split(n.t -> no, nt: 64);
            reduce(place.max.max, place.min, m.max, l.sum: cta);
            bind(nt -> thread.x);
        }
    }
    schedule! {
        pub norm_serial for layer_norm<f32 | f16> { online(n = 4); tile(r = 8); bind(r -> thread.x); }
        pub norm_lanes for layer_norm<f32 | f16> {
            online(n = 128);
            tile(r = 4);
            split(n.t -> no, nl, nv: 32, 4);
            split(n2 -> mo, ml, mv: 32, 4);
            reduce(mean.sum, variance.sum.mean.sum, variance.sum.off: lane);
            bind(r -> warp.x, nl -> lane.x, ml -> lane.x);
            vectorize(nv, mv);
        }
    }
    schedule! {
        pub softmax_serial for softmax<f32 | f16> { online(n = 4); tile(r = 8); bind(r -> thread.x); }
        pub softmax_lanes for softmax<f32 | f16> {
            online(n = 128);
            tile(r = 4);
            split(n.t -> no, nl, nv: 32, 4);
            split(n2 -> mo, ml, mv: 32, 4);
            reduce(e.max.max, y.sum.sum: lane);
            bind(r -> warp.x, nl -> lane.x, ml -> lane.x);
            vectorize(nv, mv);
        }
    }
    schedule! {
        pub loss_serial for cross_entropy<f32 | f16> { online(n = 4); tile(s = 8); bind(s -> thread.x); }
        pub loss_cta for cross_entropy<f32 | f16> {
            online(n = 512);
            tile(s = 1);
            split(n.t -> no, nt, nv: 64, 4);
            reduce(m.max, l.sum: cta);
            bind(nt -> thread.x);
            unroll(no);
            vectorize(nv);
        }
    }
    schedule! {
        pub serial for attention<f32 | f16> {
            fits(D <= 16);
            online(j = 4);
            tile(i = 8);
            bind(i -> thread.x);
        }
        pub lanes for attention<f32> {
            fits(D <= 32);
            online(j = 16);
            tile(i = 16);
            split(i -> iw, il, ir: 4, 2);
            split(d -> dh, dl, dv: 8, 4);
            split(e -> eh, el, ev: 8, 4);
            reorder(dh, dl, dv, iw, il, ir, j in s.dot);
            reorder(j, iw, il, ir, eh, el, ev in acc);
            stage(k, v at j: shared, cp_async, vector(16));
            fragment(q at i.o);
            pipeline(j, 2);
            reduce(s.dot: lane);
            bind(iw -> warp.x, il -> lane.y, dl -> lane.x, el -> lane.x);
            vectorize(dv, ev);
        }
        pub mma for attention<f16 | bf16> {
            fits(D <= 64);
            online(j = 32);
            tile(i = 64);
            split(i -> iw, im: 32);
            tensor_core(s.dot: mma);
            tensor_core(acc: mma);
            reorder(iw, d.atom, j.atom, im in s.dot);
            reorder(iw, j.acc, e.atom, im in acc);
            stage(q at i: shared, vector(16));
            stage(k, v at j: shared, cp_async, vector(16));
            pad(q: 16, k: 16, v: 16);
            pipeline(j, 2);
            bind(iw -> warp.x);
            vectorize(e.pair in o);
        }
    }
    pub mod by_hand {
        use super::looped;
        use tilewright::prelude::*;

        schedule! {
            pub serial for looped<f32 | f16> {
                fits(D <= 16);
                tile(i = 8, j = 4);
                bind(i -> thread.x);
            }
            pub lanes for looped<f32> {
                fits(D <= 32);
                tile(i = 16, j = 16);
                split(i -> iw, il, ir: 4, 2);
                split(d -> dh, dl, dv: 8, 4);
                split(e -> eh, el, ev: 8, 4);
                reorder(dh, dl, dv, iw, il, ir, j in s.dot);
                reorder(j, iw, il, ir, eh, el, ev in acc);
                stage(k, v at j: shared, cp_async, vector(16));
                fragment(q at i.o);
                pipeline(j, 2);
                reduce(s.dot: lane);
                bind(iw -> warp.x, il -> lane.y, dl -> lane.x, el -> lane.x);
                vectorize(dv, ev);
            }
            pub mma for looped<f16 | bf16> {
                fits(D <= 64);
                tile(i = 64, j = 32);
                split(i -> iw, im: 32);
                tensor_core(s.dot: mma);
                tensor_core(acc: mma);
                reorder(iw, d.atom, j.atom, im in s.dot);
                reorder(iw, j.acc, e.atom, im in acc);
                stage(q at i: shared, vector(16));
                stage(k, v at j: shared, cp_async, vector(16));
                pad(q: 16, k: 16, v: 16);
                pipeline(j, 2);
                bind(iw -> warp.x);
                vectorize(e.pair in o);
            }
        }
    }
    pub mod limited {
        use super::windowed;
        use tilewright::prelude::*;

        schedule! {
            pub serial for windowed<f32 | f16> {
                fits(D <= 16);
                online(j = 4);
                tile(i = 8);
                bind(i -> thread.x);
            }
        }
    }
}
use kernels::*;

/// Compares all executors.
fn agree<K: Kernel>(case: &support::Case, schedule: &dyn AnySchedule) {
    case.check_nest(schedule);
    assert!(case.check_kernel(schedule) > 0, "{}", schedule.name());
    case.check_simulator::<K>(schedule);
}

#[test]
fn softmax_agrees() {
    for dtype in [DType::F32, DType::F16] {
        for (rows, columns) in [(1, 1), (9, 5), (3, 128), (5, 300), (2, 131), (4, 0), (0, 7)] {
            let case = support::Case::new(softmax::KERNEL, Some(dtype), &[("R", rows), ("N", columns)], 3);
            for schedule in schedules![softmax_serial, softmax_lanes] {
                agree::<softmax>(&case, *schedule);
            }
        }
    }
}

#[test]
fn places_agree() {
    for (rows, columns) in [(1, 1), (9, 5), (3, 256), (2, 700)] {
        // Several elements are the greatest.
        let x = (0..rows * columns).map(|n| (n * 7 % 13) as f64 / 4.0).collect();
        let dims = [("R", rows), ("N", columns)];
        let case = support::Case::with(likely::KERNEL, None, &dims, &[("x", x)]);
        for schedule in schedules![likely_serial, likely_cta] {
            agree::<likely>(&case, *schedule);
        }
    }
}

#[test]
fn layer_norm_agrees() {
    for dtype in [DType::F32, DType::F16] {
        for (rows, columns) in [(1, 1), (9, 5), (3, 128), (5, 300), (2, 131), (4, 0)] {
            let dims = [("R", rows), ("N", columns)];
            let case = support::Case::new(layer_norm::KERNEL, Some(dtype), &dims, 3);
            for schedule in schedules![norm_serial, norm_lanes] {
                agree::<layer_norm>(&case, *schedule);
            }
        }
    }
}

#[test]
fn cross_entropy_agrees() {
    for dtype in [DType::F32, DType::F16] {
        for (rows, columns) in [(1, 1), (9, 5), (3, 512), (2, 1300), (3, 515)] {
            let label: Vec<f64> = (0..rows).map(|s| f64::from(s * 7 % (columns + 1) as i32 - 1)).collect();
            let dims = [("S", i64::from(rows)), ("V", columns)];
            let case = support::Case::with(cross_entropy::KERNEL, Some(dtype), &dims, &[("label", label)]);
            let case = case.scalar("ignore_index", -1.0);
            for schedule in schedules![loss_serial, loss_cta] {
                agree::<cross_entropy>(&case, *schedule);
            }
        }
    }
}

#[test]
fn attention_agrees() {
    for sizes in [[1, 1, 1, 1], [2, 9, 5, 3], [1, 8, 4, 8], [1, 17, 33, 16], [1, 3, 0, 4]] {
        let dims: Vec<(&str, i64)> = ["H", "M", "N", "D"].into_iter().zip(sizes).collect();
        for dtype in [DType::F32, DType::F16] {
            let case = support::Case::new(attention::KERNEL, Some(dtype), &dims, 3).scalar("scale", 0.4);
            agree::<attention>(&case, &serial);
        }
    }
    for sizes in [[1, 1, 1, 8], [2, 33, 35, 32], [1, 64, 64, 16]] {
        let dims: Vec<(&str, i64)> = ["H", "M", "N", "D"].into_iter().zip(sizes).collect();
        let case = support::Case::new(attention::KERNEL, Some(DType::F32), &dims, 3).scalar("scale", 0.4);
        case.check_nest(&lanes);
        case.check_simulator::<attention>(&lanes);
        let case = support::Case::new(attention::KERNEL, Some(DType::F16), &dims, 3).scalar("scale", 0.4);
        case.check_nest(&mma);
        case.check_simulator::<attention>(&mma);
    }
}

/// Queries without keys, with one, with tiles in part.
#[test]
fn limits_are_kept() {
    for (n, d) in [(1, 1), (5, 3), (17, 8), (33, 4)] {
        let first: Vec<f64> = (0..n).map(|i| (i * 3 % 11 - 2) as f64).collect();
        let dims = [("H", 2), ("N", n), ("D", d)];
        for dtype in [DType::F32, DType::F16] {
            let case = support::Case::with(windowed::KERNEL, Some(dtype), &dims, &[("first", first.clone())]);
            agree::<windowed>(&case, &limited::serial);
        }
    }
}

/// Rows that grow, that are −∞ in part or as a whole, that have NaN or ∞.
#[test]
fn rows_of_all_kinds_agree() {
    let infinity = f64::INFINITY;
    let element = |r: usize, n: usize| match r {
        0 => n as f64 * 7000.0,
        1 => n as f64 * -7000.0,
        2 if !n.is_multiple_of(5) => -infinity,
        3 if n < 9 => -infinity,
        4 => -infinity,
        5 if n == 6 => f64::NAN,
        6 if n == 1 => infinity,
        7 if n > 1 => -infinity,
        _ => (r * 5 + n * 7 % 13) as f64 / 8.0,
    };
    for columns in [1, 2, 5, 9, 37, 200] {
        let x: Vec<f64> = (0..9).flat_map(|r| (0..columns).map(move |n| element(r, n))).collect();
        let dims = [("R", 9), ("N", columns as i64)];
        let case = support::Case::with(softmax::KERNEL, Some(DType::F32), &dims, &[("x", x.clone())]);
        for schedule in schedules![softmax_serial, softmax_lanes] {
            agree::<softmax>(&case, *schedule);
        }
        let dims = [("S", 9), ("V", columns as i64)];
        let label = (0..9).map(|s| (s % columns) as f64).collect();
        let tensors = [("x", x), ("label", label)];
        let case = support::Case::with(cross_entropy::KERNEL, Some(DType::F32), &dims, &tensors)
            .scalar("ignore_index", -1.0);
        for schedule in schedules![loss_serial, loss_cta] {
            agree::<cross_entropy>(&case, *schedule);
        }
    }
}

/// The code of a schedule, with one name for all kernels.
fn code(schedule: &dyn AnySchedule, dtype: DType, variant: Variant) -> String {
    let mut program = Program::from_bytes(schedule.program(Some(dtype)).unwrap()).unwrap();
    program.nest.kernel.name = "kernel".into();
    emit_program(&program, variant, Stage::Ptx).unwrap()
}

/// What `online` makes of the text has the code of the same loop written by hand.
#[test]
fn the_code_is_that_of_the_loop_by_hand() {
    let pairs: [(&dyn AnySchedule, &dyn AnySchedule, DType); 4] = [
        (&serial, &by_hand::serial, DType::F32),
        (&serial, &by_hand::serial, DType::F16),
        (&lanes, &by_hand::lanes, DType::F32),
        (&mma, &by_hand::mma, DType::F16),
    ];
    for (derived, written, dtype) in pairs {
        for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
            let [a, b] = [derived, written].map(|schedule| code(schedule, dtype, variant));
            assert_eq!(a, b, "{} {dtype} {variant}", derived.name());
        }
    }
}

/// Derivations start from the text as written, and the printed text is the one with the loop.
#[test]
fn derivations_start_from_the_text() {
    let schedules: [(&dyn AnySchedule, &str); 4] = [
        (&softmax_lanes, "n = 128"),
        (&loss_cta, "n = 512"),
        (&norm_serial, "n = 4"),
        (&limited::serial, "j = 4"),
    ];
    for (schedule, sizes) in schedules {
        let certificate = explain(schedule, Some(DType::F32)).unwrap();
        let program = Program::from_bytes(schedule.program(Some(DType::F32)).unwrap()).unwrap();
        assert_eq!(*certificate.last(), program.nest, "{}", schedule.name());
        assert_eq!(certificate.first.kernel, *program.nest.source(), "{}", schedule.name());
        replay(&certificate).unwrap_or_else(|wrong| panic!("{}: {wrong}", schedule.name()));
        let [text, passes] = [Stage::Tile, Stage::Passes]
            .map(|stage| emit_program(&program, Variant::General, stage).unwrap());
        assert!(text.contains("in tiles(") && text.contains("let mut"), "{text}");
        assert!(passes.contains(&format!("== nest, text: online({sizes})")), "{passes}");
    }
}
