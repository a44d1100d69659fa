//! Stores that combine: each point counts once, whatever the schedule makes of its loops, in every variant.

use crate::support;

mod kernels {
    use tilewright::prelude::*;

    /// How often each number occurs.
    #[tile_kernel]
    pub fn histogram(x: &Tensor<i32, N>, h: &mut Tensor<i32, B>) {
        let i = program_tile(N);
        atomic_add(h, [load(x, [i])], 1);
    }

    /// Rows added to those of a table that they came from.
    #[tile_kernel]
    pub fn gradient<T: Float>(ids: &Tensor<i64, S>, dy: &Tensor<T, S, D>, table: &mut Tensor<f32, V, D>) {
        let (s, d) = program_tile(S, D);
        atomic_add(table, [load(ids, [s]), d], load(dy, [s, d]).cast::<f32>());
    }

    /// Columns added up by all programs; the value has an axis that the index lacks.
    #[tile_kernel]
    pub fn columns(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, N>) {
        let (i, j) = program_tile(M, N);
        atomic_add(y, [j], load(x, [i, j]));
    }

    /// The same of each tile's sums, by a loop that carries nothing.
    #[tile_kernel]
    pub fn tiled_columns(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, N>) {
        let j = program_tile(N);
        for i in tiles(M) {
            atomic_add(y, [j], load(x, [i, j]) * 2.0);
        }
    }

    /// Extremes of each class, where something is in it.
    #[tile_kernel]
    pub fn extremes(
        x: &Tensor<i32, N>,
        class: &Tensor<u8, N>,
        most: &mut Tensor<i32, C>,
        least: &mut Tensor<i32, C>,
        bits: &mut Tensor<u32, C>,
    ) {
        let i = program_tile(N);
        let c = load(class, [i]);
        let v = load(x, [i]);
        atomic_max(most, [c], v);
        if v > -5 {
            atomic_min(least, [c], v);
        }
        atomic_max(bits, [c], v.cast::<u32>());
    }

    /// What several experts have for a token, weighted, added to its row.
    #[tile_kernel]
    pub fn gathered_back<T: Float>(
        h: &Tensor<T, Z, I, D>,
        gate: &Tensor<f32, Z, I>,
        token: &Tensor<i32, Z, I>,
        y: &mut Tensor<f32, S, D>,
    ) {
        let (z, i, d) = program_tile(Z, I, D);
        let v = load(h, [z, i, d]).cast::<f32>() * load(gate, [z, i]);
        atomic_add(y, [load(token, [z, i]), d], v);
    }

    /// The sum of all, and twice it: both points of a whole axis count.
    #[tile_kernel]
    pub fn total(x: &Tensor<i32, M, N>, y: &mut Tensor<i32, 2>) {
        let i = program_tile(M);
        let (n, two) = whole(N, 2);
        let rows = sum(load(x, [i, n]), n);
        atomic_add(y, [0], rows);
        atomic_add(y, [1], rows + 0 * two);
    }

    schedule! {
        pub histogram_plain for histogram { tile(i = 64); bind(i -> thread.x); }
        pub histogram_units for histogram { tile(i = 128); split(i -> io, il: 32); bind(io -> warp.x, il -> lane.x); }
        pub histogram_vectors for histogram { tile(i = 256); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv); persistent(4); }
        pub gradient_plain for gradient<f32 | f16> { tile(s = 3, d = 8); bind(d -> thread.x, s -> thread.y); }
        pub gradient_vectors for gradient<f32 | f16> { tile(s = 2, d = 64); split(d -> dt, dv: 4); bind(dt -> thread.x, s -> thread.y); vectorize(dv); }
        pub gradient_replicas for gradient<f32 | f16> { tile(s = 4, d = 16); bind(s -> thread.y); split(d -> dt, dv: 2); bind(dt -> thread.x); unroll(dv); }
        pub columns_plain for columns { tile(i = 4, j = 16); bind(j -> thread.x, i -> thread.y); }
        pub columns_vectors for columns { tile(i = 4, j = 32); split(j -> jt, jv: 4); bind(jt -> thread.x); vectorize(jv); unroll(i); }
        pub columns_across for columns { tile(i = 32, j = 4); split(i -> io, iv: 4); bind(io -> thread.x, j -> thread.y); unroll(iv); }
        pub columns_grid for columns { tile(i = 4, j = 16); bind(i -> thread.x); order(grouped(2) over j, i); }
        pub tiled_plain for tiled_columns { tile(j = 16, i = 4); bind(j -> thread.x); }
        pub tiled_across for tiled_columns { tile(j = 8, i = 8); bind(j -> thread.x, i.t -> thread.y); }
        pub extremes_plain for extremes { tile(i = 32); bind(i -> thread.x); }
        pub extremes_units for extremes { tile(i = 64); split(i -> io, ii: 2); bind(io -> lane.x); unroll(ii); }
        pub gathered_plain for gathered_back<f32 | bf16> { tile(z = 1, i = 2, d = 8); bind(d -> thread.x, i -> thread.y); }
        pub gathered_vectors for gathered_back<f32 | bf16> { tile(z = 2, i = 2, d = 32); split(d -> dt, dv: 4); bind(dt -> thread.x, i -> thread.y, z -> thread.z); vectorize(dv); }
        pub total_rows for total { tile(i = 4); bind(i -> thread.x); }
        pub total_lanes for total { tile(i = 2); split(n -> no, nl: 32); bind(i -> warp.x, nl -> lane.x); reduce(rows: lane); }
        pub total_two for total { tile(i = 8); bind(i -> thread.x, two -> thread.y); }
    }
}

use kernels as k;
use support::Case;
use tilewright::{AnySchedule, Buffer, DType, Device};

fn check<K: tilewright::Kernel>(case: &Case, schedules: &[&dyn AnySchedule]) {
    for schedule in schedules {
        case.check_nest(*schedule);
        case.check_kernel(*schedule);
        case.check_simulator::<K>(*schedule);
    }
}

/// Places, many of them alike, some beside the tensor.
fn places(n: i64, extent: i64) -> Vec<f64> {
    (0..n)
        .map(|i| (if i % 7 == 3 { [-1, extent][i as usize / 7 % 2] } else { i * i % extent }) as f64)
        .collect()
}

#[test]
fn numbers_are_counted() {
    for (n, b) in [(1, 1), (77, 5), (256, 16), (1000, 3)] {
        let case = Case::with(k::histogram::KERNEL, None, &[("N", n), ("B", b)], &[("x", places(n, b))]);
        check::<k::histogram>(&case, &[&k::histogram_plain, &k::histogram_units, &k::histogram_vectors]);
    }
}

#[test]
fn rows_are_added_to_a_table() {
    for dtype in [DType::F32, DType::F16] {
        for (s, v, d) in [(13, 4, 21), (16, 3, 128)] {
            let dims = [("S", s), ("V", v), ("D", d)];
            let case = Case::with(k::gradient::KERNEL, Some(dtype), &dims, &[("ids", places(s, v))]);
            check::<k::gradient>(&case, &[&k::gradient_plain, &k::gradient_vectors, &k::gradient_replicas]);
        }
    }
}

#[test]
fn axes_that_the_index_lacks_count() {
    for (m, n) in [(1, 1), (13, 37), (64, 32)] {
        let case = Case::with(k::columns::KERNEL, None, &[("M", m), ("N", n)], &[]);
        let all: [&dyn AnySchedule; 4] =
            [&k::columns_plain, &k::columns_vectors, &k::columns_across, &k::columns_grid];
        check::<k::columns>(&case, &all);
        let case = Case::with(k::tiled_columns::KERNEL, None, &[("M", m), ("N", n)], &[]);
        check::<k::tiled_columns>(&case, &[&k::tiled_plain, &k::tiled_across]);
    }
}

#[test]
fn extremes_of_classes() {
    for (n, c) in [(5, 2), (100, 7)] {
        let x = (0..n).map(|i| (i * 37 % 41 - 20) as f64).collect();
        let class = (0..n).map(|i| (i * i % (c + 1)) as f64).collect();
        let given = [("x", x), ("class", class)];
        let case = Case::with(k::extremes::KERNEL, None, &[("N", n), ("C", c)], &given);
        for schedule in [&k::extremes_plain as &dyn AnySchedule, &k::extremes_units] {
            case.check_nest(schedule);
            case.check_simulator::<k::extremes>(schedule);
        }
    }
}

#[test]
fn experts_add_to_their_tokens() {
    for dtype in [DType::F32, DType::BF16] {
        for (z, i, s, d) in [(3, 5, 7, 13), (2, 4, 4, 32)] {
            let dims = [("Z", z), ("I", i), ("S", s), ("D", d)];
            let case =
                Case::with(k::gathered_back::KERNEL, Some(dtype), &dims, &[("token", places(z * i, s))]);
            check::<k::gathered_back>(&case, &[&k::gathered_plain, &k::gathered_vectors]);
        }
    }
}

#[test]
fn whole_axes_count() {
    for (m, n) in [(1, 1), (9, 40)] {
        let case = Case::with(k::total::KERNEL, None, &[("M", m), ("N", n)], &[]);
        check::<k::total>(&case, &[&k::total_rows, &k::total_lanes, &k::total_two]);
    }
}

/// What the tensor held before counts, too, at each launch.
#[test]
fn launches_go_on_from_what_is_there() {
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &[0, 1, 1, 2, 1, 5, -1], &[7]).unwrap();
    let mut h = Buffer::from_slice(&device, &[10, 0, 0], &[3]).unwrap();
    for times in 1..4 {
        let report = k::histogram(&x, &mut h).schedule(k::histogram_plain).run().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!(h.to_vec().unwrap(), [10 + times, 3 * times, times]);
    }
}
