//! The gradients of attention: every schedule of each kernel agrees with the evaluator, and all of them together are the gradients of
//! softmax(q·kᵀ · scale) · v.

use crate::{examples::attention_backward as k, support::Case};
use tilewright::{AnySchedule, Buffer, DType, Device, Float, Kernel};

/// Queries, keys, head: single ones, tails of tiles and heads, tiles of one, two and three steps.
const SIZES: [[i64; 3]; 9] = [
    [1, 1, 1],
    [33, 17, 20],
    [64, 64, 64],
    [65, 130, 32],
    [200, 40, 24],
    [7, 33, 63],
    [130, 1, 8],
    [1, 129, 40],
    [128, 192, 24],
];
/// Without queries, or without keys.
const EMPTY: [[i64; 3]; 2] = [[3, 0, 8], [0, 4, 8]];
/// Heads that the schedules of narrow ones do not admit.
const WIDE: [[i64; 3]; 3] = [[70, 20, 128], [5, 9, 65], [64, 128, 72]];

/// The schedules of a kernel, by its name, in their own types; those of wide heads alone, or all.
fn agree<K: Kernel>(encoded: &[u8], name: &str, sizes: &[[i64; 3]], wide: bool) {
    for &[m, n, d] in sizes {
        let whole = m % 64 == 0 && n % 64 == 0;
        let of = |s: &&&dyn AnySchedule| {
            s.kernel() == name && !(wide && narrow(s.name())) && (whole || !s.name().ends_with("whole"))
        };
        let dims = [("B", 1), ("H", 2), ("M", m), ("N", n), ("D", d)];
        // The products of rows have no keys.
        let dims: Vec<_> =
            dims.into_iter().filter(|(dim, _)| *dim != "N" || name != "row_products").collect();
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let case = Case::new(encoded, Some(dtype), &dims, 17);
            // Logarithms are random here, and not those of the weights: small scores keep weights within f16.
            let case = match name {
                "row_products" => case,
                _ => case.scalar("scale", 0.25 / (d as f64).sqrt()),
            };
            for schedule in k::SCHEDULES.iter().filter(of).filter(|s| s.admits(Some(dtype))) {
                case.check_simulator::<K>(*schedule);
                // The interpreter of nests takes steps of one element.
                if dtype != DType::BF16 && m * n * d <= 1 << 17 {
                    case.check_nest(*schedule);
                }
            }
        }
    }
}

fn narrow(name: &str) -> bool {
    name.contains("narrow") || name.ends_with("naive") || name.ends_with("keys_lanes")
}

#[test]
fn rows_are_multiplied() {
    agree::<k::row_products>(k::row_products::KERNEL, "row_products", &SIZES, false);
    agree::<k::row_products>(k::row_products::KERNEL, "row_products", &WIDE, true);
}

#[test]
fn forward_passes_keep_logarithms() {
    let (name, causal) = ("attention_lse", "causal_attention_lse");
    agree::<k::attention_lse>(k::attention_lse::KERNEL, name, &SIZES, false);
    agree::<k::attention_lse>(k::attention_lse::KERNEL, name, &WIDE, true);
    // A row that sees no key has the logarithm of 0.
    let square = [[1, 1, 1], [33, 33, 20], [65, 130, 32], [40, 200, 64]];
    agree::<k::causal_attention_lse>(k::causal_attention_lse::KERNEL, causal, &square, false);
}

#[test]
fn gradients_of_keys() {
    let (encoded, name) = (k::key_gradients::KERNEL, "key_gradients");
    agree::<k::key_gradients>(encoded, name, &SIZES, false);
    agree::<k::key_gradients>(encoded, name, &EMPTY, false);
    agree::<k::key_gradients>(encoded, name, &WIDE, true);
}

#[test]
fn gradients_of_keys_that_some_queries_see() {
    let (encoded, name) = (k::causal_key_gradients::KERNEL, "causal_key_gradients");
    agree::<k::causal_key_gradients>(encoded, name, &SIZES, false);
    agree::<k::causal_key_gradients>(encoded, name, &EMPTY, false);
    agree::<k::causal_key_gradients>(encoded, name, &WIDE, true);
}

#[test]
fn gradients_of_queries() {
    let (encoded, name) = (k::query_gradients::KERNEL, "query_gradients");
    agree::<k::query_gradients>(encoded, name, &SIZES, false);
    agree::<k::query_gradients>(encoded, name, &EMPTY, false);
    agree::<k::query_gradients>(encoded, name, &WIDE, true);
}

#[test]
fn gradients_of_queries_that_see_some_keys() {
    let (encoded, name) = (k::causal_query_gradients::KERNEL, "causal_query_gradients");
    agree::<k::causal_query_gradients>(encoded, name, &SIZES, false);
    agree::<k::causal_query_gradients>(encoded, name, &EMPTY, false);
    agree::<k::causal_query_gradients>(encoded, name, &WIDE, true);
}

/// The gradients of Σ dout · softmax(q·kᵀ · scale) · v in float64: of q, k and v, by rows of one head of d.
fn gradients([m, n, d]: [usize; 3], scale: f64, causal: bool, [q, k, v, dout]: [&[f64]; 4]) -> [Vec<f64>; 3] {
    let dot = |a: &[f64], i: usize, b: &[f64], j: usize| -> f64 {
        (0..d).map(|e| a[i * d + e] * b[j * d + e]).sum()
    };
    let (mut dq, mut dk, mut dv) = (vec![0.0; m * d], vec![0.0; n * d], vec![0.0; n * d]);
    for i in 0..m {
        let seen = if causal { (i + 1 + n).saturating_sub(m) } else { n };
        let scores: Vec<f64> = (0..seen).map(|j| dot(q, i, k, j) * scale).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp() / total).collect();
        let of_weights: Vec<f64> = (0..seen).map(|j| dot(dout, i, v, j)).collect();
        let mean: f64 = weights.iter().zip(&of_weights).map(|(p, g)| p * g).sum();
        for j in 0..seen {
            let of_score = weights[j] * (of_weights[j] - mean) * scale;
            for e in 0..d {
                dq[i * d + e] += of_score * k[j * d + e];
                dk[j * d + e] += of_score * q[i * d + e];
                dv[j * d + e] += weights[j] * dout[i * d + e];
            }
        }
    }
    [dq, dk, dv]
}

/// All kernels of a pass in a row, each with what the ones before it made.
fn passes<T: Float>(dims: [usize; 3], causal: bool, schedules: [&dyn AnySchedule; 3], tolerance: f64) {
    let [m, n, d] = dims;
    let device = Device::sim();
    let scale = 1.0 / (d as f32).sqrt();
    let mut state = 7u32;
    let mut numbers = |len: usize| -> Vec<T> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            T::from_f64(f64::from(state >> 8) / f64::from(1 << 23) - 1.0)
        };
        (0..len).map(|_| next()).collect()
    };
    let data = [numbers(m * d), numbers(n * d), numbers(n * d), numbers(m * d)];
    let buffer = |x: &Vec<T>, rows: usize| Buffer::from_slice(&device, x, &[1, 1, rows, d]).unwrap();
    let (q, k, v, dout) =
        (buffer(&data[0], m), buffer(&data[1], n), buffer(&data[2], n), buffer(&data[3], m));
    let made = |rows: usize| Buffer::<T>::poisoned(&device, &[1, 1, rows, d]).unwrap();
    let (mut o, mut dq, mut dk, mut dv) = (made(m), made(m), made(n), made(n));
    let vector = || Buffer::<f32>::poisoned(&device, &[1, 1, m]).unwrap();
    let (mut lse, mut delta) = (vector(), vector());
    let [forward, keys, queries] = schedules;
    match causal {
        true => k::causal_attention_lse(&q, &k, &v, &mut o, &mut lse, scale).schedule_dyn(forward).run(),
        false => k::attention_lse(&q, &k, &v, &mut o, &mut lse, scale).schedule_dyn(forward).run(),
    }
    .unwrap();
    k::row_products(&o, &dout, &mut delta).schedule(k::rows_lanes).run().unwrap();
    match causal {
        true => k::causal_key_gradients(&q, &k, &v, &dout, &lse, &delta, &mut dk, &mut dv, scale)
            .schedule_dyn(keys)
            .run(),
        false => k::key_gradients(&q, &k, &v, &dout, &lse, &delta, &mut dk, &mut dv, scale)
            .schedule_dyn(keys)
            .run(),
    }
    .unwrap();
    match causal {
        true => k::causal_query_gradients(&q, &k, &v, &dout, &lse, &delta, &mut dq, scale)
            .schedule_dyn(queries)
            .run(),
        false => {
            k::query_gradients(&q, &k, &v, &dout, &lse, &delta, &mut dq, scale).schedule_dyn(queries).run()
        }
    }
    .unwrap();
    let wide: Vec<Vec<f64>> = data.iter().map(|x| x.iter().map(|x| x.to_f64()).collect()).collect();
    let expected = gradients(dims, f64::from(scale), causal, [&wide[0], &wide[1], &wide[2], &wide[3]]);
    for ((name, result), expected) in [("dq", &dq), ("dk", &dk), ("dv", &dv)].into_iter().zip(expected) {
        for (at, (x, y)) in result.to_vec().unwrap().iter().zip(expected).enumerate() {
            let off = (x.to_f64() - y).abs();
            assert!(
                off <= tolerance * (1.0 + y.abs()),
                "{name}[{at}] = {} and not {y}, under {} of {dims:?}",
                x.to_f64(),
                keys.name()
            );
        }
    }
}

#[test]
fn the_passes_in_a_row_are_the_gradients_of_attention() {
    use half::{bf16, f16};
    // The last ones have queries that see no key.
    for dims in [[1, 1, 8], [70, 70, 40], [33, 150, 64], [150, 33, 16]] {
        passes::<f32>(dims, false, [&k::forward_lanes, &k::keys_naive, &k::queries_naive], 1e-4);
        passes::<f16>(dims, false, [&k::forward_mma, &k::keys_mma, &k::queries_mma], 4e-3);
        passes::<f16>(
            dims,
            false,
            [&k::forward_wgmma_narrow, &k::keys_wgmma_narrow, &k::queries_wgmma_narrow],
            4e-3,
        );
        passes::<f32>(
            dims,
            true,
            [&k::causal_forward_lanes, &k::causal_keys_lanes, &k::causal_queries_naive],
            1e-4,
        );
        passes::<bf16>(
            dims,
            true,
            [&k::causal_forward_mma, &k::causal_keys_mma, &k::causal_queries_mma],
            3e-2,
        );
        passes::<f16>(
            dims,
            true,
            [&k::causal_forward_wgmma, &k::causal_keys_wgmma, &k::causal_queries_wgmma],
            4e-3,
        );
    }
}
