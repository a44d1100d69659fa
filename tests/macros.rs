//! `#[tile_kernel]`: what the supported language is read as, and the launch surface.

use tilewright::prelude::*;

/// Element by element.
#[tile_kernel]
pub fn vector_add(a: &Tensor<f32, N>, b: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(c, [i], load(a, [i]) + load(b, [i]));
}

/// C = A·B.
#[tile_kernel]
pub fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

#[tile_kernel]
fn softmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let e = exp(v - max(v, n));
    store(y, [r, n], e / sum(e, n));
}

#[tile_kernel]
fn conv1d(x: &Tensor<f32, { 2 * N + 1 }>, w: &Tensor<f32, 3>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let r = whole(3);
    store(y, [i], sum(load(x, [2 * i + r - 1]) * load(w, [r]), r));
}

/// Y = relu(α·X·W + bias), and how often the ReLU cut.
#[tile_kernel]
pub(crate) fn linear<T: Float>(
    x: &Tensor<T, M, K>,
    w: &Tensor<T, K, N>,
    bias: &Tensor<f32, N>,
    y: &mut Tensor<T, M, N>,
    cut: &mut Tensor<f32, M, N>,
    alpha: f32,
) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, k]), load(w, [k, j]), acc);
    }
    acc *= alpha;
    acc = acc + load(bias, [j]);
    store(y, [i, j], max(acc, 0.0).cast::<T>());
    store(cut, [i, j], select(acc < 0.0, 1.0, full::<f32>(0.0, [i, j])));
}

/// Every operation once, with the names that Rust would shadow.
#[tile_kernel]
fn everything(x: &Tensor<f16, M, N, 4>, y: &mut Tensor<bf16, M, N, 4>, shift: i32, scale: f32) {
    let (i, j, r) = program_tile(M, N, 4);
    let v = load(x, [i, j, r]).cast::<f32>();
    let v = -v + abs(v) * sqrt(abs(v)) - rsqrt(1.0 + v * v) / 2.5f32;
    let w = tanh(v) + log(exp(v) + 1e-3);
    let inside = (i + shift <= j * 2) & !(r == 3) | (j % 2 != 0);
    let x = select(inside, min(v, w), f32::NEG_INFINITY);
    let x = x + (M - i).cast::<f32>() * scale;
    store(y, [i, j, r], x.cast::<bf16>());
}

fn text(bytes: &[u8]) -> String {
    tile_dsl::tile::Kernel::from_bytes(bytes).unwrap().to_string()
}

#[test]
fn kernels_are_read_as_written() {
    assert_eq!(
        text(matmul::KERNEL),
        "\
kernel matmul<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}
"
    );
    assert!(text(vector_add::KERNEL).contains("store(c, [i], load(a, [i]) + load(b, [i]));"));
    assert!(text(softmax::KERNEL).contains("let e = exp(v - max(v, n));"));
    assert!(text(conv1d::KERNEL).contains("x: &[f32; 2*N + 1], w: &[f32; 3]"));
    assert!(text(conv1d::KERNEL).contains("sum(load(x, [2*i + r - 1]) * load(w, [r]), r)"));
}

#[test]
fn assigning_after_a_loop_binds_again() {
    let text = text(linear::KERNEL);
    assert!(
        text.contains("let mut acc.2 = acc * alpha;\n    let mut acc.3 = acc.2 + load(bias, [j]);"),
        "{text}"
    );
    assert!(text.contains("store(y, [i, j], max(acc.3, 0.0).cast::<T>());"), "{text}");
    assert!(text.contains("select(acc.3 < 0.0, 1.0, full::<f32>(0.0, [i, j]))"), "{text}");
}

#[test]
fn every_operation_is_read() {
    let text = text(everything::KERNEL);
    for line in [
        "let v = load(x, [i, j, r]).cast::<f32>();",
        "let v.2 = -v + abs(v) * sqrt(abs(v)) - rsqrt(1.0 + v * v) / 2.5_f32;",
        "let w = tanh(v.2) + log(exp(v.2) + 0.001);",
        "let inside = or(and(iota(i) + shift <= iota(j) * 2.0, not(iota(r) == 3.0)), iota(j) % 2.0 != 0.0);",
        "let x.2 = select(inside, min(v.2, w), -inf_f32);",
        "let x.3 = x.2 + (dim(M) - iota(i)).cast::<f32>() * scale;",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}

#[test]
fn calling_a_kernel_makes_a_launch() -> Result<(), tilewright::Error> {
    let device = Device::sim();
    let a = Buffer::<f16>::zeros(&device, &[4, 8])?;
    let b = Buffer::<f16>::zeros(&device, &[8, 2])?;
    let mut c = Buffer::<f16>::zeros(&device, &[4, 2])?;
    let launch: Launch<'_, matmul> = matmul(&a, &b, &mut c);
    drop(launch);
    let bias = Buffer::<f32>::zeros(&device, &[2])?;
    let mut cut = Buffer::<f32>::zeros(&device, &[4, 2])?;
    let launch: Launch<'_, linear> = linear(&a, &b, &bias, &mut c, &mut cut, 0.5);
    drop(launch);
    Ok(())
}
