//! Tensors of integers of all types: loaded, stored, compared, cast, computed with where they can be, and as indices.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// The loss of each row, by labels as PyTorch has them.
    #[tile_kernel]
    pub fn loss<T: Float>(x: &Tensor<T, S, V>, label: &Tensor<i64, S>, y: &mut Tensor<f32, S>) {
        let s = program_tile(S);
        let n = whole(V);
        let v = load(x, [s, n]).cast::<f32>();
        let m = max(v, n);
        let t = load(label, [s]);
        let hit = load(x, [s, t]).cast::<f32>();
        store(y, [s], select(t == -100, 0.0, m + log(sum(exp(v - m), n)) - hit));
    }

    /// Eight bits of sign and number, and their scale undone.
    #[tile_kernel]
    pub fn quantized(x: &Tensor<f32, N>, q: &mut Tensor<i8, N>, u: &mut Tensor<u8, N>) {
        let i = program_tile(N);
        let v = round(load(x, [i]) * 0.5);
        store(q, [i], v.cast::<i8>());
        store(u, [i], v.cast::<u8>());
    }

    /// The same back again.
    #[tile_kernel]
    pub fn widened<T: Float>(q: &Tensor<i8, N>, u: &Tensor<u8, N>, y: &mut Tensor<T, N>) {
        let i = program_tile(N);
        let both = load(q, [i]).cast::<i32>() * 3 - load(u, [i]).cast::<i32>();
        store(y, [i], both.cast::<T>());
    }

    /// Arithmetic without sign: scattered bits, quotients, the greatest of two.
    #[tile_kernel]
    pub fn hashed(
        x: &Tensor<u32, M, N>,
        y: &mut Tensor<u32, M, N>,
        sums: &mut Tensor<u32, M>,
        most: &mut Tensor<u32, M>,
    ) {
        let i = program_tile(M);
        let j = whole(N);
        let h = load(x, [i, j]) * 2654435769 + 1;
        let low = select(h > 2147483648, h / 7 - h % 5, max(h, 5));
        store(y, [i, j], low);
        store(sums, [i], sum(h, j));
        store(most, [i], max(h, j));
    }

    /// Bits of words: fields, moved by as many places as another tensor says, and put together again.
    #[tile_kernel]
    pub fn bits(
        x: &Tensor<u32, M, N>,
        by: &Tensor<i32, M, N>,
        left: &mut Tensor<u32, M, N>,
        right: &mut Tensor<i32, M, N>,
        mixed: &mut Tensor<u32, M, N>,
        parity: &mut Tensor<bool, M, N>,
    ) {
        let (i, j) = program_tile(M, N);
        let v = load(x, [i, j]);
        let n = load(by, [i, j]);
        store(left, [i, j], v << n | v >> n);
        store(right, [i, j], (v.cast::<i32>() >> n) ^ (n << 3u32 >> i));
        store(mixed, [i, j], (v << 13 | v >> 19) ^ (!v & 252645135));
        store(parity, [i, j], (v & 1 == 1) ^ (n < 0));
    }

    /// From every type to every other one.
    #[tile_kernel]
    pub fn cast(
        a: &Tensor<i64, N>,
        b: &Tensor<u32, N>,
        c: &Tensor<i8, N>,
        p: &mut Tensor<i32, N>,
        q: &mut Tensor<u8, N>,
        r: &mut Tensor<i64, N>,
        s: &mut Tensor<f32, N>,
    ) {
        let i = program_tile(N);
        store(p, [i], load(a, [i]).cast::<i32>());
        store(
            q,
            [i],
            select(
                load(a, [i]) < load(b, [i]).cast::<i64>(),
                load(b, [i]).cast::<u8>(),
                load(c, [i]).cast::<u8>(),
            ),
        );
        store(r, [i], select(load(c, [i]) > 3, load(a, [i]), load(c, [i]).cast::<i64>()));
        store(s, [i], load(b, [i]).cast::<f32>() + (load(c, [i]) >= -5).cast::<f32>());
    }

    /// Rows of a table by places of four types.
    #[tile_kernel]
    pub fn places(
        table: &Tensor<f32, V, D>,
        a: &Tensor<i64, S>,
        b: &Tensor<u32, S>,
        c: &Tensor<i8, S>,
        d: &Tensor<u8, S>,
        y: &mut Tensor<f32, S, D>,
    ) {
        let (s, j) = program_tile(S, D);
        let far = load(table, [load(a, [s]), j]) + load(table, [load(b, [s]) + 1, j]);
        store(y, [s, j], far + load(table, [load(c, [s]), j]) + load(table, [load(d, [s]), j]));
    }

    /// Rows put where 64 bits say.
    #[tile_kernel]
    pub fn scattered(k: &Tensor<i8, S, D>, slot: &Tensor<i64, S>, cache: &mut Tensor<i8, L, D>) {
        let (s, d) = program_tile(S, D);
        store(cache, [unique(load(slot, [s])), d], load(k, [s, d]));
    }

    /// The eight greatest of a row with their places, NaN before all: a stable order of floats.
    #[tile_kernel]
    pub fn route<T: Float>(x: &Tensor<T, S, E>, w: &mut Tensor<T, S, 8>, at: &mut Tensor<i32, S, 8>) {
        let s = program_tile(S);
        let (e, f) = whole(E, E);
        let a = order(load(x, [s, e]));
        let b = order(load(x, [s, f]));
        let before = (b > a) | ((b == a) & (f < e));
        let rank = sum(before.cast::<i32>(), f);
        if rank < 8 {
            store(w, [s, unique(rank)], load(x, [s, e]));
            store(at, [s, unique(rank)], e);
        }
    }

    /// Places of computed floats among others, and what is computed from them.
    #[tile_kernel]
    pub fn keyed<T: Float>(x: &Tensor<T, S, N>, y: &mut Tensor<i32, S>, z: &mut Tensor<f32, S>) {
        let s = program_tile(S);
        let n = whole(N);
        let top = max(load(x, [s, n]), n);
        store(y, [s], order(top) * 3 + 1);
        store(z, [s], select(order(top + top) > order(top), order(top).cast::<f32>(), 0.5));
    }

    schedule! {
        pub keyed_rows for keyed<f32 | bf16> { tile(s = 2); bind(s -> thread.x); }
        pub keyed_lanes for keyed<f32 | bf16> { tile(s = 2); split(n -> no, nl: 32); bind(s -> warp.x, nl -> lane.x); reduce(top: lane); }
        pub loss_rows for loss<f32 | bf16> { tile(s = 2); recompute(v); fuse(v at n); bind(s -> thread.x); }
        pub loss_lanes for loss<f32 | bf16> { tile(s = 2); split(n -> no, nl: 32); bind(s -> warp.x, nl -> lane.x); recompute(v); fuse(v at n); reduce(m, y.sum: lane); }
        pub quantized_plain for quantized { tile(i = 32); bind(i -> thread.x); }
        pub quantized_wide for quantized { tile(i = 128); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
        pub widened_plain for widened<f32 | f16> { tile(i = 32); bind(i -> thread.x); }
        pub widened_wide for widened<f32 | f16> { tile(i = 128); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); }
        pub hashed_rows for hashed { tile(i = 4); recompute(h); fuse(h at j); fuse(low at j); bind(i -> thread.x); }
        pub hashed_lanes for hashed { fits(N <= 64); tile(i = 2); split(j -> jo, jl: 32); bind(i -> warp.x, jl -> lane.x); reduce(sums.sum, most.max: lane); }
        pub bits_plain for bits { tile(i = 3, j = 8); bind(j -> thread.x, i -> thread.y); }
        pub bits_wide for bits { tile(i = 2, j = 32); split(j -> jt, jv: 4); bind(jt -> thread.x, i -> thread.y); vectorize(jv); }
        pub cast_plain for cast { tile(i = 32); bind(i -> thread.x); }
        pub cast_wide for cast { tile(i = 64); split(i -> it, iv: 2); bind(it -> thread.x); unroll(iv); }
        pub places_plain for places { tile(s = 3, j = 8); bind(j -> thread.x, s -> thread.y); }
        pub places_wide for places { tile(s = 2, j = 32); split(j -> jt, jv: 4); bind(jt -> thread.x, s -> thread.y); vectorize(jv); }
        pub scattered_plain for scattered { tile(s = 2, d = 8); bind(d -> thread.x, s -> thread.y); }
        pub scattered_wide for scattered { tile(s = 2, d = 64); split(d -> dt, dv: 16); bind(dt -> thread.x, s -> thread.y); vectorize(dv); }
        pub route_rows for route<f32 | f16> { fits(E <= 32); tile(s = 1); split(e -> eo, et: 32); bind(et -> thread.x); }
        pub route_any for route<f32 | f16> { tile(s = 4); recompute(rank); fuse(rank at e); recompute(before); fuse(before at f); recompute(a); fuse(a at e); recompute(b); fuse(b at f); bind(s -> thread.x); }
        pub route_lanes for route<f32 | f16> { fits(E <= 32); tile(s = 2); bind(s -> thread.y); split(e -> eo, et: 8); bind(et -> thread.x); }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, Buffer, DType, Device};

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// Numbers of a type, its extremes among them: as far as f64 holds them.
fn numbers(dtype: DType, n: i64) -> Vec<f64> {
    let [least, greatest] = [dtype.least(), dtype.greatest()].map(|n| n.clamp(-(1 << 53), 1 << 53));
    let edges = [least, greatest, 0, 1, least / 2, greatest / 2 + 1, 100, 5];
    (0..n)
        .map(|i| match i % 3 {
            0 => edges[(i / 3 % 8) as usize] as f64,
            _ => dtype.wrap(i * 40_503 * 65_537 - 77) as f64,
        })
        .map(|x| x.clamp(least as f64, greatest as f64))
        .collect()
}

/// Places in a dimension and beside it, as a type has them.
fn places(dtype: DType, n: i64, extent: i64) -> Vec<f64> {
    let far = [-1, extent, dtype.greatest(), dtype.least(), (1 << 32) + 1, -(1 << 32) + 1, 1 << 31];
    (0..n)
        .map(|i| if i % 4 == 3 { far[(i / 4 % 7) as usize] } else { i * 5 % extent })
        .map(|n| n.clamp(dtype.least(), dtype.greatest()).clamp(-(1 << 53), 1 << 53) as f64)
        .collect()
}

#[test]
fn labels_of_64_bits() {
    for dtype in [DType::F32, DType::BF16] {
        for (s, v) in [(9, 37), (4, 64), (31, 200)] {
            let mut labels = places(DType::I64, s, v);
            labels[1] = -100.0;
            let case = Case::with(k::loss::KERNEL, Some(dtype), &[("S", s), ("V", v)], &[("label", labels)]);
            check::<k::loss>(&case, &[&k::loss_rows, &k::loss_lanes]);
        }
    }
}

#[test]
fn numbers_of_eight_bits() {
    for n in [1, 37, 512, 1000] {
        let x = (0..n).map(|i| f64::from(i as f32 * 1.37 - 300.0)).chain([f64::NAN, f64::INFINITY, -1e30]);
        let x: Vec<f64> = x.skip(3).collect();
        let case = Case::with(k::quantized::KERNEL, None, &[("N", n)], &[("x", x)]);
        check::<k::quantized>(&case, &[&k::quantized_plain, &k::quantized_wide]);
        for dtype in [DType::F32, DType::F16] {
            let given = [("q", numbers(DType::I8, n)), ("u", numbers(DType::U8, n))];
            let case = Case::with(k::widened::KERNEL, Some(dtype), &[("N", n)], &given);
            check::<k::widened>(&case, &[&k::widened_plain, &k::widened_wide]);
        }
    }
}

#[test]
fn arithmetic_without_sign() {
    for (m, n) in [(1, 1), (5, 40), (4, 64)] {
        let dims = [("M", m), ("N", n)];
        let case = Case::with(k::hashed::KERNEL, None, &dims, &[("x", numbers(DType::U32, m * n))]);
        check::<k::hashed>(&case, &[&k::hashed_rows, &k::hashed_lanes]);
    }
}

#[test]
fn bits_of_words() {
    for (m, n) in [(1, 1), (5, 39), (4, 64)] {
        let places = [-1, 0, 1, 5, 31, 32, 33, i64::from(i32::MIN), i64::from(i32::MAX), 64];
        let by = (0..m * n).map(|i| places[i as usize % places.len()] as f64).collect();
        let given = [("x", numbers(DType::U32, m * n)), ("by", by)];
        let case = Case::with(k::bits::KERNEL, None, &[("M", m), ("N", n)], &given);
        check::<k::bits>(&case, &[&k::bits_plain, &k::bits_wide]);
    }
}

#[test]
fn casts_between_all_types() {
    for n in [1, 47, 128] {
        let given = [DType::I64, DType::U32, DType::I8].map(|dtype| numbers(dtype, n));
        let given: Vec<_> = ["a", "b", "c"].into_iter().zip(given).collect();
        let case = Case::with(k::cast::KERNEL, None, &[("N", n)], &given);
        check::<k::cast>(&case, &[&k::cast_plain, &k::cast_wide]);
    }
}

#[test]
fn places_of_all_types() {
    for (s, v, d) in [(29, 11, 21), (64, 100, 128), (40, 300, 4)] {
        let given = [DType::I64, DType::U32, DType::I8, DType::U8].map(|dtype| places(dtype, s, v));
        let given: Vec<_> = ["a", "b", "c", "d"].into_iter().zip(given).collect();
        let case = Case::with(k::places::KERNEL, None, &[("S", s), ("V", v), ("D", d)], &given);
        check::<k::places>(&case, &[&k::places_plain, &k::places_wide]);
    }
}

#[test]
fn slots_of_64_bits() {
    for (s, l, d) in [(13, 29, 5), (8, 64, 128)] {
        let slots = (0..s).map(|i| [i * 2, -1 - i, (1 << 40) + i][i as usize % 3] as f64).collect();
        let given = [("k", numbers(DType::I8, s * d)), ("slot", slots)];
        let case = Case::with(k::scattered::KERNEL, None, &[("S", s), ("L", l), ("D", d)], &given);
        check::<k::scattered>(&case, &[&k::scattered_plain, &k::scattered_wide]);
    }
}

#[test]
fn floats_have_one_order() {
    for dtype in [DType::F32, DType::F16] {
        for (s, e) in [(5, 32), (4, 9), (3, 8)] {
            let edges = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5, -1.5, 1.5];
            let x = (0..s * e)
                .map(|i| if i % 2 == 0 { edges[(i / 2 % 8) as usize] } else { (i * 7 % 23) as f64 - 11.0 });
            let case =
                Case::with(k::route::KERNEL, Some(dtype), &[("S", s), ("E", e)], &[("x", x.collect())]);
            check::<k::route>(&case, &[&k::route_rows, &k::route_any, &k::route_lanes]);
        }
    }
}

#[test]
fn computed_floats_have_keys() {
    for dtype in [DType::F32, DType::BF16] {
        for (s, n) in [(5, 33), (4, 1)] {
            let x = (0..s * n).map(|i| f64::from((i * 7 % 23) as i32 - 30) + 0.5).collect();
            let case = Case::with(k::keyed::KERNEL, Some(dtype), &[("S", s), ("N", n)], &[("x", x)]);
            check::<k::keyed>(&case, &[&k::keyed_rows, &k::keyed_lanes]);
        }
    }
}

/// A label that no 32 bits hold is told as it is.
#[test]
fn places_beyond_32_bits_are_told() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &[1.0f32; 3 * 8], &[3, 8]).unwrap();
    let label = Buffer::from_slice(&device, &[7i64, 5_000_000_000, -100], &[3]).unwrap();
    let mut y = Buffer::<f32>::poisoned(&device, &[3]).unwrap();
    let report = k::loss(&x, &label, &mut y).schedule(k::loss_rows).run().unwrap();
    let told: Vec<String> = report.outside.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["dimension 1 of `x` has 8 points, and `t` is 5000000000 at s = 1"]);
}

/// A number that is added to a value is a part of the index that is told.
#[test]
fn an_index_beyond_the_end_is_told_with_what_is_added() {
    let device = Device::sim();
    let table = Buffer::from_slice(&device, &[1.0f32; 4 * 8], &[4, 8]).unwrap();
    let a = Buffer::from_slice(&device, &[0i64, -1], &[2]).unwrap();
    let b = Buffer::from_slice(&device, &[2u32, 3], &[2]).unwrap();
    let c = Buffer::from_slice(&device, &[0i8, 3], &[2]).unwrap();
    let d = Buffer::from_slice(&device, &[3u8, 0], &[2]).unwrap();
    let mut y = Buffer::<f32>::poisoned(&device, &[2, 8]).unwrap();
    let report = k::places(&table, &a, &b, &c, &d, &mut y).schedule(k::places_plain).run().unwrap();
    let told: Vec<String> = report.outside.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["dimension 0 of `table` has 4 points, and `load(b, [s]) + 1` is 4 at s = 1"]);
}
