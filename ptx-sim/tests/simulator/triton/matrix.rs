//! Matrix products and attention.

use super::harness::{Arg, Element, assert_close, random, run, run_allowing};
use ptx_sim::{Finding, FindingKind, RaceKind};

pub const NAMES: &[&str] = &[
    "attention",
    "attention_full",
    "matmul_bf16",
    "matmul_f16",
    "matmul_f32",
    "matmul_i8",
    "matmul_persistent",
    "matmul_split_k",
    "matmul_tf32",
    "matmul_tf32x3",
    "matmul_tma",
    "matmul_tma_ws",
];

fn product(a: &[f64], b: &[f64], m: usize, n: usize, k: usize) -> Vec<f64> {
    (0..m * n).map(|i| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum()).collect()
}

const M: usize = 100;
const N: usize = 144;
const K: usize = 80;

/// `steps`: accumulated rounding of the inputs to the type of the tensor core, relative to 1.
fn matmul(name: &str, grid: [u32; 3], from: Element, to: Element, steps: f64) {
    let scale = if from == Element::I8 { 100.0 } else { 1.0 };
    let scaled = |seed, n| from.rounded(&random(seed, n).iter().map(|x| x * scale).collect::<Vec<_>>());
    let (a, b) = (scaled(1, M * K), scaled(2, K * N));
    let want = product(&a, &b, M, N, K);
    let args = [
        Arg::Buffer(from.bytes(&a)),
        Arg::Buffer(from.bytes(&b)),
        Arg::Buffer(to.bytes(&vec![0.0; M * N])),
        Arg::I32(M as i32),
        Arg::I32(N as i32),
        Arg::I32(K as i32),
    ];
    let rel = if to == Element::F16 { 1.0 / 2048.0 } else { 1e-6 };
    run(name, grid, &args, |what, out| assert_close(what, &to.values(&out[2]), &want, rel, steps));
}

#[test]
fn matmul_f16() {
    matmul("matmul_f16", [6, 1, 1], Element::F16, Element::F16, 1e-4);
}

#[test]
fn matmul_bf16() {
    matmul("matmul_bf16", [6, 1, 1], Element::BF16, Element::F32, 1e-4);
}

#[test]
fn matmul_f32() {
    matmul("matmul_f32", [20, 1, 1], Element::F32, Element::F32, 1e-5);
}

#[test]
fn matmul_tf32() {
    // 80 products of inputs truncated to 11 bits.
    matmul("matmul_tf32", [6, 1, 1], Element::F32, Element::F32, 2e-2);
}

#[test]
fn matmul_tf32x3() {
    matmul("matmul_tf32x3", [6, 1, 1], Element::F32, Element::F32, 1e-4);
}

#[test]
fn matmul_i8() {
    matmul("matmul_i8", [6, 1, 1], Element::I8, Element::I32, 0.0);
}

#[test]
fn matmul_persistent() {
    matmul("matmul_persistent", [4, 1, 1], Element::F16, Element::F16, 1e-4);
}

#[test]
fn matmul_split_k() {
    matmul("matmul_split_k", [4, 5, 4], Element::F16, Element::F32, 1e-4);
}

fn matmul_descriptors(name: &str, allowed: fn(&[Finding]) -> bool) {
    let e = Element::F16;
    let (m, n, k) = (M, N, 160);
    let (a, b) = (e.rounded(&random(3, m * k)), e.rounded(&random(4, k * n)));
    let want = product(&a, &b, m, n, k);
    let args = [
        Arg::Matrix(e.bytes(&a), m as u64, k as u64),
        Arg::Matrix(e.bytes(&b), k as u64, n as u64),
        Arg::Matrix(e.bytes(&vec![0.0; m * n]), m as u64, n as u64),
        Arg::I32(m as i32),
        Arg::I32(n as i32),
        Arg::I32(k as i32),
    ];
    run_allowing(name, [2, 1, 1], &args, allowed, |what, out| {
        assert_close(what, &e.values(&out[2]), &want, 1.0 / 2048.0, 1e-4);
    });
}

#[test]
fn matmul_tma() {
    matmul_descriptors("matmul_tma", |_| false);
}

/// Triton gives both consumer warpgroups the same tile, and both store it: a race of equal values, rightly found.
#[test]
fn matmul_tma_ws() {
    matmul_descriptors("matmul_tma_ws", |all| {
        all.iter().all(|f| {
            f.kind == FindingKind::GlobalRace(RaceKind::WriteWrite)
                && f.to_string().contains("the write by a bulk copy")
        })
    });
}

fn attention_of(name: &str, grid: [u32; 3], d: usize, causal: bool, to: Element) {
    let (heads, length, scale) = (2, 150, 0.3f32);
    let e = Element::F16;
    let [q, k, v] = [5, 6, 7].map(|s| e.rounded(&random(s, heads * length * d)));
    let mut want = vec![0.0; q.len()];
    for row in 0..heads * length {
        let (head, i) = (row / length, row % length);
        let keys = if causal { i + 1 } else { length };
        let at = |j: usize| (head * length + j) * d;
        let weights: Vec<f64> = (0..keys)
            .map(|j| (0..d).map(|c| q[row * d + c] * k[at(j) + c]).sum::<f64>() * scale as f64)
            .map(f64::exp)
            .collect();
        let total: f64 = weights.iter().sum();
        for c in 0..d {
            want[row * d + c] = (0..keys).map(|j| weights[j] * v[at(j) + c]).sum::<f64>() / total;
        }
    }
    let args = [
        Arg::Buffer(e.bytes(&q)),
        Arg::Buffer(e.bytes(&k)),
        Arg::Buffer(e.bytes(&v)),
        Arg::Buffer(to.bytes(&vec![0.0; q.len()])),
        Arg::I32(length as i32),
        Arg::F32(scale),
    ];
    // The probabilities are rounded to f16.
    run(name, grid, &args, |what, out| assert_close(what, &to.values(&out[3]), &want, 1e-3, 1e-3));
}

#[test]
fn attention() {
    attention_of("attention", [3, 2, 1], 64, true, Element::F16);
}

#[test]
fn attention_full() {
    attention_of("attention_full", [2, 2, 1], 32, false, Element::F32);
}
