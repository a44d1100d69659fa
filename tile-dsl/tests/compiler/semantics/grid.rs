//! The order in which CTAs take tiles: each tile once, whatever axes bands go along.

use super::Case;

/// A batched product whose second factor all batches read: its tiles are shared along the batch.
#[test]
fn bands_go_along_any_two_axes() {
    let kernel = "\
kernel batched(a: &[f32; B, M, K], w: &[f32; K, N], c: &mut [f32; B, M, N]) {
    axis b in program_tile(B);
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [b, i, j]);
    for k {
        acc = dot(load(a, [b, i, k]), load(w, [k, j]), acc);
    }
    store(c, [b, i, j], acc);
}";
    let mut schedules = Vec::new();
    for order in ["grouped(2)", "serpentine(3)", "backwards(3)", "hilbert"] {
        for axes in ["b, j", "j, b", "b, i", "i, b", "i, j", "j, i"] {
            schedules.push(format!(
                "tile(i = 2, j = 4, k = 4); bind(i -> thread.y, j -> thread.x); order({order} over {axes})"
            ));
        }
    }
    schedules.push("tile(i = 2, j = 4, k = 4); unroll(i); segment(j: 6); order(grouped(2) over b, j)".into());
    schedules
        .push("tile(b = 4, i = 2, k = 4); unroll(b); persistent(1); order(serpentine(2) over b, i)".into());
    schedules.push("tile(i = 2, j = 4, k = 4); split_k(k, 2); order(grouped(3) over j, b)".into());
    let schedules: Vec<&str> = schedules.iter().map(String::as_str).collect();
    for (b, m, n, k) in [(5, 7, 9, 6), (1, 3, 21, 1), (4, 1, 5, 0), (3, 0, 4, 5)] {
        let whole = |count: i64, of: i64| (0..count).map(|x| (x % of - of / 2) as f64).collect();
        let dims = [("B", b), ("M", m), ("N", n), ("K", k)];
        let tensors = [("a", whole(b * m * k, 5)), ("w", whole(k * n, 7))];
        Case { kernel, dtype: None, dims: &dims, tensors: &tensors, scalars: &[] }.agree(&schedules);
    }
}
