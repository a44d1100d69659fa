//! Kernels of kinds that the library has few of. Tests read them from this file, which is not compiled.

#[tile_kernel]
fn bias_gelu<T: Float>(x: &Tensor<T, M, N>, b: &Tensor<T, N>, y: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let v = load(x, [i, j]).cast::<f32>() + load(b, [j]).cast::<f32>();
    store(y, [i, j], (0.5 * v * (1.0 + tanh(0.7978845608 * (v + 0.044715 * v * v * v)))).cast::<T>());
}

#[tile_kernel]
fn pairs_turned(
    x: &Tensor<f32, S, H, { 2 * D }>,
    cos: &Tensor<f32, S, D>,
    sin: &Tensor<f32, S, D>,
    y: &mut Tensor<f32, S, H, { 2 * D }>,
) {
    let (s, h, d) = program_tile(S, H, D);
    let p = whole(2);
    let a = load(x, [s, h, 2 * d]);
    let b = load(x, [s, h, 2 * d + 1]);
    let c = load(cos, [s, d]);
    let t = load(sin, [s, d]);
    store(y, [s, h, 2 * d + p], select(p == 0, a * c - b * t, a * t + b * c));
}

#[tile_kernel]
fn row_sums(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], sum(load(x, [r, n]), n));
}

#[tile_kernel]
fn log_sum_exp(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut m = full::<f32>(-3.0e38, [r]);
    let mut l = zeros::<f32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]);
        let top = max(m, max(v, n));
        l = l * exp(m - top) + sum(exp(v - top), n);
        m = top;
    }
    store(y, [r], m + log(l));
}

#[tile_kernel]
fn weight_gradients(
    x: &Tensor<f32, R, N>,
    dy: &Tensor<f32, R, N>,
    mean: &Tensor<f32, R>,
    rstd: &Tensor<f32, R>,
    dw: &mut Tensor<f32, N>,
    db: &mut Tensor<f32, N>,
) {
    let n = program_tile(N);
    let mut gw = zeros::<f32>([n]);
    let mut gb = zeros::<f32>([n]);
    for r in tiles(R) {
        let g = load(dy, [r, n]);
        gw += sum(g * (load(x, [r, n]) - load(mean, [r])) * load(rstd, [r]), r);
        gb += sum(g, r);
    }
    store(dw, [n], gw);
    store(db, [n], gb);
}

#[tile_kernel]
fn total(x: &Tensor<f32, N>, y: &mut Tensor<f32, 1>) {
    let mut s = zeros::<f32>([]);
    for n in tiles(N) {
        s += sum(load(x, [n]), n);
    }
    store(y, [0], s);
}

#[tile_kernel]
fn permute<T: Float>(x: &Tensor<T, B, S, H, E>, y: &mut Tensor<T, B, H, S, E>) {
    let (b, s, h, e) = program_tile(B, S, H, E);
    store(y, [b, h, s, e], load(x, [b, s, h, e]));
}

#[tile_kernel]
fn jacobi(u: &Tensor<f32, M, N>, rhs: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let around = load(u, [i - 1, j]) + load(u, [i + 1, j]) + load(u, [i, j - 1]) + load(u, [i, j + 1]);
    store(y, [i, j], 0.25 * (around + load(rhs, [i, j])));
}

#[tile_kernel]
fn matrix_vector<T: Float>(a: &Tensor<T, B, M, K>, x: &Tensor<T, B, K>, y: &mut Tensor<f32, B, M>) {
    let (b, i) = program_tile(B, M);
    let mut s = zeros::<f32>([b, i]);
    for k in tiles(K) {
        s = dot(load(a, [b, i, k]), load(x, [b, k]), s);
    }
    store(y, [b, i], s);
}

#[tile_kernel]
fn vector_matrix<T: Float>(x: &Tensor<T, K>, b: &Tensor<T, K, N>, y: &mut Tensor<f32, N>) {
    let j = program_tile(N);
    let mut s = zeros::<f32>([j]);
    for k in tiles(K) {
        s = dot(load(x, [k]), load(b, [k, j]), s);
    }
    store(y, [j], s);
}

#[tile_kernel]
fn decayed(x: &Tensor<f32, R, N>, a: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut s = zeros::<f32>([r]);
    for n in tiles(N) {
        s = s * max(load(a, [r, n]), n) + sum(load(x, [r, n]), n);
    }
    store(y, [r], s);
}
