//! Indices that are values: gathers, scatters and stores under conditions, in every variant on the simulator, at sizes that no
//! tile divides, with indices beside the tensor.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// Rows of a table.
    #[tile_kernel]
    pub fn embed<T: Float>(ids: &Tensor<i32, S>, table: &Tensor<T, V, D>, y: &mut Tensor<T, S, D>) {
        let (s, d) = program_tile(S, D);
        store(y, [s, d], load(table, [load(ids, [s]), d]));
    }

    /// Rows put where slots say.
    #[tile_kernel]
    pub fn append<T: Float>(k: &Tensor<T, S, H, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<T, L, H, D>) {
        let (s, h, d) = program_tile(S, H, D);
        store(cache, [unique(load(slot, [s])), h, d], load(k, [s, h, d]));
    }

    /// The loss of each row, and 0 where the label is -100.
    #[tile_kernel]
    pub fn cross_entropy<T: Float>(x: &Tensor<T, S, V>, label: &Tensor<i32, S>, y: &mut Tensor<f32, S>) {
        let s = program_tile(S);
        let n = whole(V);
        let v = load(x, [s, n]).cast::<f32>();
        let m = max(v, n);
        let t = load(label, [s]);
        let hit = load(x, [s, t]).cast::<f32>();
        store(y, [s], select(t == -100, 0.0, m + log(sum(exp(v - m), n)) - hit));
    }

    /// Columns in another order, the first of them further on by a scalar.
    #[tile_kernel]
    pub fn permuted(x: &Tensor<f32, M, N>, at: &Tensor<i32, N>, first: i32, y: &mut Tensor<f32, M, N>) {
        let (i, j) = program_tile(M, N);
        store(y, [i, j], load(x, [i, load(at, [j]) + first - 1]));
    }

    /// Elements that are large enough, of a window that begins where a value says.
    #[tile_kernel]
    pub fn large(x: &Tensor<f32, M, N>, first: &Tensor<i32, M>, y: &mut Tensor<f32, M, 7>) {
        let i = program_tile(M);
        let n = whole(7);
        let v = load(x, [i, n + load(first, [i])]);
        if v > 0.25 {
            store(y, [i, n], v * 2.0);
        }
    }

    /// Where each of the eight greatest of a row is, and how great; equal ones in their order.
    #[tile_kernel]
    pub fn top(x: &Tensor<f32, S, E>, w: &mut Tensor<f32, S, 8>, at: &mut Tensor<i32, S, 8>) {
        let s = program_tile(S);
        let (e, f) = whole(E, E);
        let rank = sum(
            select(
                load(x, [s, f]) > load(x, [s, e]),
                1,
                select((load(x, [s, f]) == load(x, [s, e])) & (f < e), 1i32, 0i32),
            ),
            f,
        );
        if rank < 8 {
            store(w, [s, unique(rank)], load(x, [s, e]));
            store(at, [s, unique(rank)], e);
        }
    }

    /// Where the greatest and the smallest element of each row are.
    #[tile_kernel]
    pub fn extremes<T: Float>(x: &Tensor<T, S, N>, top: &mut Tensor<i32, S>, low: &mut Tensor<i32, S>) {
        let s = program_tile(S);
        let n = whole(N);
        store(top, [s], argmax(load(x, [s, n]), n));
        store(low, [s], argmin(load(x, [s, n]), n));
    }

    /// Sums, maxima and minima of integers; those of nothing, too.
    #[tile_kernel]
    pub fn integers(
        x: &Tensor<i32, S, N>,
        sums: &mut Tensor<i32, S>,
        most: &mut Tensor<i32, S>,
        least: &mut Tensor<i32, S>,
    ) {
        let s = program_tile(S);
        let mut total = zeros::<i32>([s]);
        for n in tiles(N) {
            total += sum(load(x, [s, n]), n);
        }
        store(sums, [s], total);
        let m = whole(N);
        store(most, [s], max(load(x, [s, m]), m));
        store(least, [s], min(load(x, [s, m]), m));
    }

    /// Rounded to the nearest whole number, as a float and as an integer.
    #[tile_kernel]
    pub fn whole_numbers<T: Float>(x: &Tensor<T, N>, y: &mut Tensor<T, N>, z: &mut Tensor<i32, N>) {
        let i = program_tile(N);
        store(y, [i], round(load(x, [i])));
        store(z, [i], round(load(x, [i]) * 4.0).cast::<i32>());
    }

    /// What is read before a store and used behind it; the index is of what is stored.
    #[tile_kernel]
    pub fn read_before(table: &Tensor<f32, V>, y: &mut Tensor<i32, S>, z: &mut Tensor<f32, S>) {
        let s = program_tile(S);
        let t = load(table, [load(y, [s])]);
        store(y, [s], zeros::<i32>([s]));
        store(z, [s], t);
    }

    /// Follows a chain of places, and weighs what was at each before it went on.
    #[tile_kernel]
    pub fn chased(
        next: &Tensor<i32, N>,
        w: &Tensor<f32, N>,
        c: &Tensor<f32, K>,
        first: &Tensor<i32, S>,
        y: &mut Tensor<f32, S>,
    ) {
        let s = program_tile(S);
        let mut p = load(first, [s]);
        let mut acc = zeros::<f32>([s]);
        for k in tiles(K) {
            let t = load(w, [p]);
            p = load(next, [p]);
            acc = acc * sum(load(c, [k]), k) + t;
        }
        store(y, [s], acc);
    }

    /// Starts at a number that f32 does not have.
    #[tile_kernel]
    pub fn counted(x: &Tensor<i32, S, K>, y: &mut Tensor<i32, S>, z: &mut Tensor<i32, S>) {
        let s = program_tile(S);
        let mut n = full::<i32>(16777217, [s]);
        let mut last = full::<i32>(-2147483648, [s]);
        for k in tiles(K) {
            n += sum(load(x, [s, k]), k);
            last = select(last < 16777217, max(load(x, [s, k]), k), last);
        }
        store(y, [s], n);
        store(z, [s], select(last > i32::MIN, last, 16777219));
    }

    /// Slots that are computed, and so held in a register.
    #[tile_kernel]
    pub fn shifted(
        k: &Tensor<f32, S, 24>,
        slot: &Tensor<i32, S>,
        base: i32,
        cache: &mut Tensor<f32, L, 24>,
        kept: &mut Tensor<f32, S, 24>,
    ) {
        let s = program_tile(S);
        let d = whole(24);
        let row = load(slot, [s]) - base;
        store(cache, [unique(row), d], load(k, [s, d]));
        if row > 3 {
            store(kept, [s, d], load(k, [s, d]) + 1.0);
        }
    }

    /// A condition on what its own stores change.
    #[tile_kernel]
    pub fn positive(x: &mut Tensor<f32, N>, was: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        if load(x, [i]) < 0.0 {
            store(x, [i], 0.0 - load(x, [i]));
            store(was, [i], 1.0 + zeros::<f32>([i]));
        }
    }

    /// The same with one store.
    #[tile_kernel]
    pub fn magnitude(x: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        if load(x, [i]) < 0.0 {
            store(x, [i], 0.0 - load(x, [i]));
        }
    }

    schedule! {
        pub magnitudes for magnitude { tile(i = 16); bind(i -> thread.x); }
        pub before for read_before { tile(s = 2); bind(s -> thread.x); }
        pub before_units for read_before { tile(s = 4); split(s -> so, si: 2); bind(si -> thread.x); }
        pub chasing for chased { tile(s = 2, k = 1); bind(s -> thread.x); }
        pub chasing_tiles for chased { tile(s = 4, k = 3); bind(s -> thread.x); }
        pub counting for counted { tile(s = 2, k = 4); bind(s -> thread.x); }
        pub shifting for shifted { tile(s = 2); bind(s -> thread.x); split(d -> dd, dv: 4); vectorize(dv); }
        pub shifting_lanes for shifted { tile(s = 2); bind(s -> thread.y); split(d -> dd, dv: 4); bind(dd -> thread.x); vectorize(dv); }
        pub positives for positive { tile(i = 16); bind(i -> thread.x); }
        pub extreme_rows for extremes<f32 | bf16> { tile(s = 2); bind(s -> thread.x); }
        pub extreme_lanes for extremes<f32 | bf16> {
            tile(s = 2); split(n -> no, nl: 32); bind(s -> warp.x, nl -> lane.x); reduce(top.max, top.min, low.min, low.min.2: lane);
        }
        pub integer_rows for integers { tile(s = 3, n = 8); bind(s -> thread.x); }
        pub integer_lanes for integers {
            tile(s = 2, n = 32); split(m -> mo, ml: 32); bind(s -> warp.x, n.t -> lane.x, ml -> lane.x);
            reduce(total, most.max, least.min: lane);
        }
        pub integer_cta for integers {
            tile(s = 1, n = 64); split(m -> mo, ml: 64); bind(n.t -> thread.x, ml -> thread.x); reduce(total, most.max, least.min: cta);
        }
        pub wholes for whole_numbers<f32 | f16 | bf16> { tile(i = 8); bind(i -> thread.x); }
        pub embed_plain for embed<f32 | f16> { tile(s = 3, d = 8); bind(d -> thread.x, s -> thread.y); }
        pub embed_wide = embed_plain { tile(d = 64); drop(bind(s, d)); split(d -> dt, dv: 4); bind(dt -> thread.x, s -> thread.y); vectorize(dv); }
        pub embed_loop for embed<f32 | f16> { tile(s = 2, d = 16); bind(s -> thread.x); unroll(d); }
        pub append_plain for append<f32 | bf16> { tile(s = 2, h = 1, d = 8); bind(d -> thread.x, s -> thread.y); }
        pub append_wide for append<f32 | bf16> { tile(s = 4, h = 2, d = 16); split(d -> dt, dv: 4); bind(dt -> thread.x, h -> thread.y, s -> thread.z); vectorize(dv); }
        pub loss_rows for cross_entropy<f32 | f16> { tile(s = 2); recompute(v); fuse(v at n); bind(s -> thread.x); }
        pub loss_lanes for cross_entropy<f32 | f16> { tile(s = 2); split(n -> no, nl: 32); bind(s -> warp.x, nl -> lane.x); recompute(v); fuse(v at n); reduce(m, y.sum: lane); }
        pub permuted_plain for permuted { tile(i = 2, j = 16); bind(j -> thread.x, i -> thread.y); }
        pub permuted_rows for permuted { tile(i = 4, j = 8); bind(j -> thread.x); unroll(i); }
        pub large_rows for large { tile(i = 8); bind(i -> thread.x); }
        pub large_lanes for large { tile(i = 2); bind(n -> thread.x, i -> thread.y); }
        pub top_rows for top { tile(s = 4); bind(s -> thread.x); recompute(rank); fuse(rank at e); }
        pub top_threads for top { fits(E <= 32); tile(s = 2); bind(s -> thread.y); split(e -> eo, et: 8); bind(et -> thread.x); unroll(eo); unroll(f); }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, Buffer, DType, Device, Stream};

/// Places in a dimension, and beside it: none, one behind its end, and as far as 32 bits reach.
fn places(n: i64, extent: i64) -> Vec<f64> {
    let beside = [-1, extent, extent + 1, i64::from(i32::MAX), i64::from(i32::MIN)];
    (0..n)
        .map(|i| if i % 4 == 3 { beside[(i / 4 % 5) as usize] } else { i * 5 % extent.max(1) } as f64)
        .collect()
}

/// Distinct ones.
fn slots(n: i64, extent: i64) -> Vec<f64> {
    (0..n).map(|i| if i % 5 == 4 { -1 - i } else { (i * 7 + 3) % (extent | 1).max(n | 1) } as f64).collect()
}

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

#[test]
fn rows_of_a_table() {
    for dtype in [DType::F32, DType::F16] {
        for (s, v, d) in [(13, 11, 21), (64, 50, 128), (1, 1, 4)] {
            let dims = [("S", s), ("V", v), ("D", d)];
            let case = Case::with(k::embed::KERNEL, Some(dtype), &dims, &[("ids", places(s, v))]);
            check::<k::embed>(&case, &[&k::embed_plain, &k::embed_wide, &k::embed_loop]);
        }
    }
}

#[test]
fn rows_put_into_slots() {
    for dtype in [DType::F32, DType::BF16] {
        for (s, l, h, d) in [(13, 29, 3, 5), (8, 64, 2, 16)] {
            let dims = [("S", s), ("L", l), ("H", h), ("D", d)];
            let case = Case::with(k::append::KERNEL, Some(dtype), &dims, &[("slot", slots(s, l))]);
            check::<k::append>(&case, &[&k::append_plain, &k::append_wide]);
        }
    }
}

#[test]
fn labels_that_are_left_out() {
    for dtype in [DType::F32, DType::F16] {
        for (s, v) in [(9, 37), (4, 64)] {
            let labels = (0..s).map(|i| if i % 3 == 1 { -100.0 } else { (i * 5 % v) as f64 }).collect();
            let case = Case::with(
                k::cross_entropy::KERNEL,
                Some(dtype),
                &[("S", s), ("V", v)],
                &[("label", labels)],
            );
            check::<k::cross_entropy>(&case, &[&k::loss_rows, &k::loss_lanes]);
        }
    }
}

#[test]
fn columns_in_another_order() {
    for (m, n) in [(5, 19), (4, 16)] {
        let case = Case::with(k::permuted::KERNEL, None, &[("M", m), ("N", n)], &[("at", places(n, n))]);
        check::<k::permuted>(&case, &[&k::permuted_plain, &k::permuted_rows]);
    }
}

#[test]
fn what_is_large_of_a_window() {
    for (m, n) in [(11, 19), (8, 3)] {
        let first = (0..m).map(|i| (i * 3 - 4) as f64).collect();
        let case = Case::with(k::large::KERNEL, None, &[("M", m), ("N", n)], &[("first", first)]);
        check::<k::large>(&case, &[&k::large_rows, &k::large_lanes]);
    }
}

#[test]
fn the_greatest_of_short_rows() {
    for (s, e) in [(5, 19), (4, 8), (3, 5)] {
        let x = (0..s * e).map(|i| (i * 7 % 11) as f64).collect();
        let case = Case::with(k::top::KERNEL, None, &[("S", s), ("E", e)], &[("x", x)]);
        check::<k::top>(&case, &[&k::top_rows, &k::top_threads]);
    }
}

#[test]
fn places_of_extremes() {
    let nan = f64::NAN;
    for dtype in [DType::F32, DType::BF16] {
        for n in [0, 1, 5, 37, 64] {
            // Equal ones, a NaN, nothing but NaN, infinities, zeros of both signs.
            let x = (0..5 * n).map(|at| match (at / n, at % n) {
                (0, at) => f64::from((at * 7 % 5) as u32),
                (1, at) => {
                    if at == n / 2 {
                        nan
                    } else {
                        -1.0
                    }
                }
                (2, _) => nan,
                (3, at) => {
                    if at % 3 == 2 {
                        f64::NEG_INFINITY
                    } else {
                        f64::INFINITY
                    }
                }
                (_, at) => {
                    if at % 2 == 0 {
                        -0.0
                    } else {
                        0.0
                    }
                }
            });
            let dims = [("S", 5), ("N", n as i64)];
            let case = Case::with(k::extremes::KERNEL, Some(dtype), &dims, &[("x", x.collect())]);
            check::<k::extremes>(&case, &[&k::extreme_rows, &k::extreme_lanes]);
        }
    }
}

#[test]
fn integers_wrap_around() {
    for n in [0, 1, 19, 64, 100] {
        // Numbers that all executors carry exactly, and sums that wrap.
        let x = (0..7 * n).map(|at| f64::from((1 << 24) - at * 3) * if at % 3 == 0 { 64.0 } else { -32.0 });
        let dims = [("S", 7), ("N", i64::from(n))];
        let case = Case::with(k::integers::KERNEL, None, &dims, &[("x", x.collect())]);
        for schedule in [&k::integer_rows as &dyn AnySchedule, &k::integer_lanes, &k::integer_cta] {
            case.check_nest(schedule);
            case.check_simulator::<k::integers>(schedule);
        }
    }
}

#[test]
fn nearest_whole_numbers() {
    let halves = (-12..12).map(|n| f64::from(n) / 2.0);
    let far = [
        0.49999997,
        -0.49999997,
        8388607.5,
        8388609.0,
        -1e20,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -0.0,
    ];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x: Vec<f64> = halves.clone().chain(far.map(|x| dtype.round_f64(x))).collect();
        let case = Case::with(k::whole_numbers::KERNEL, Some(dtype), &[("N", x.len() as i64)], &[("x", x)]);
        check::<k::whole_numbers>(&case, &[&k::wholes]);
    }
}

/// What the simulator tells of indices that lead beyond the end, and of a promise that is broken.
#[test]
fn mistakes_in_the_arguments_are_told() {
    let device = Device::sim();
    let table = Buffer::from_slice(&device, &[1.0f32; 4 * 8], &[4, 8]).unwrap();
    let embedded = |ids: &[i32]| {
        let ids = Buffer::from_slice(&device, ids, &[ids.len()]).unwrap();
        let mut y = Buffer::<f32>::poisoned(&device, &[ids.shape()[0], 8]).unwrap();
        let report = k::embed(&ids, &table, &mut y).schedule(k::embed_plain).run().unwrap();
        assert!(report.findings.is_empty());
        report.outside.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(embedded(&[0, 3, -1, -100]).is_empty());
    let beyond = "dimension 0 of `table` has 4 points, and `load(ids, [s])` is";
    assert_eq!(embedded(&[0, 1, 4]), [format!("{beyond} 4 at s = 2")]);
    assert_eq!(
        embedded(&[7, 0, 100, 3, 4]),
        [format!("{beyond} 7 at s = 0, and beyond the end at 2 other points")]
    );

    let rows = Buffer::from_slice(&device, &[1.0f32; 3 * 8], &[3, 1, 8]).unwrap();
    let appended = |slots: [i32; 3]| {
        let slots = Buffer::from_slice(&device, &slots, &[3]).unwrap();
        let mut cache = Buffer::<f32>::poisoned(&device, &[5, 1, 8]).unwrap();
        k::append(&rows, &slots, &mut cache).schedule(k::append_plain).run().unwrap()
    };
    assert!(appended([4, -1, 0]).findings.is_empty());
    let report = appended([4, 1, 4]);
    assert!(!report.findings.is_empty() && report.outside.is_empty(), "{report:?}");
    assert!(report.findings.iter().all(|f| f.to_string().contains("race")), "{:?}", report.findings);
}

#[test]
fn what_was_read_stays_what_it_was() {
    let case = Case::with(k::read_before::KERNEL, None, &[("V", 9), ("S", 7)], &[("y", places(7, 9))]);
    check::<k::read_before>(&case, &[&k::before, &k::before_units]);
    let next = (0..11).map(|n| f64::from(n * 4 % 11)).collect();
    let data = [("next", next), ("first", places(6, 11))];
    let case = Case::with(k::chased::KERNEL, None, &[("N", 11), ("K", 5), ("S", 6)], &data);
    check::<k::chased>(&case, &[&k::chasing, &k::chasing_tiles]);
}

#[test]
fn integers_start_at_any_number() {
    for k in [0, 1, 9] {
        let x = (0..5 * k).map(|n| f64::from(n - 3)).collect();
        let case = Case::with(k::counted::KERNEL, None, &[("S", 5), ("K", i64::from(k))], &[("x", x)]);
        case.check_nest(&k::counting);
        case.check_simulator::<k::counted>(&k::counting);
    }
}

#[test]
fn vectors_at_places_in_registers() {
    for s in [5, 8] {
        let slot = slots(s, 16);
        let case = Case::with(k::shifted::KERNEL, None, &[("S", s), ("L", 16)], &[("slot", slot)]);
        check::<k::shifted>(&case, &[&k::shifting, &k::shifting_lanes]);
    }
}

#[test]
fn conditions_are_read_before_their_stores() {
    let case = Case::with(k::positive::KERNEL, None, &[("N", 37)], &[]);
    check::<k::positive>(&case, &[&k::positives]);
    let case = Case::with(k::magnitude::KERNEL, None, &[("N", 37)], &[]);
    check::<k::magnitude>(&case, &[&k::magnitudes]);
}

/// A recorded launch has read its indices when the next one is recorded.
#[test]
fn launches_with_indices_are_recorded() {
    let device = Device::sim();
    let table = Buffer::from_slice(&device, &[1.0f32; 4 * 8], &[4, 8]).unwrap();
    let ids = Buffer::from_slice(&device, &[1, 2, 3], &[3]).unwrap();
    let mut y = Buffer::<f32>::poisoned(&device, &[3, 8]).unwrap();
    let mut z = Buffer::<f32>::poisoned(&device, &[3, 8]).unwrap();
    let stream = Stream::new(&device).unwrap();
    let mut graph = tilewright::Graph::new(&device);
    graph
        .replay(&stream, |r| {
            r.add(k::embed(&ids, &table, &mut y).schedule(k::embed_plain))?;
            r.add(k::embed(&ids, &table, &mut z).schedule(k::embed_plain)).map(drop)
        })
        .unwrap();
    assert_eq!((y.to_vec().unwrap(), z.to_vec().unwrap()), (vec![1.0; 24], vec![1.0; 24]));
}
