//! Random legal schedules, lowered, in the interpreter of the kernel IR, against the reference evaluator.
//! `TILEWRIGHT_SEEDS` asks for more of them.

mod support;
use std::collections::BTreeMap;
use support::*;
use tile_dsl::{
    dtype::DType,
    engine::{self, testing::Random},
    index::AxisId,
    kernel::interpret::{Launch, interpret},
    lower::{assumptions, lower},
    nest::Nest,
    program::{Program, Variant},
    tile::{
        ElemType, Kernel, TensorId,
        evaluate::{Elements, Inputs, evaluate},
    },
};

/// Row-major to first dimension fastest, or back.
fn transposed(shape: &[i64], data: &[f32], back: bool) -> Vec<f32> {
    let mut out = vec![0.0; data.len()];
    for at in 0..data.len() {
        let (mut rest, mut weight, mut other) = (at, data.len(), 0);
        for n in shape.iter().rev().map(|n| *n as usize) {
            weight /= n;
            other += rest % n * weight;
            rest /= n;
        }
        let (from, to) = if back { (other, at) } else { (at, other) };
        out[to] = data[from];
    }
    out
}

fn shape(kernel: &Kernel, tensor: usize, dims: &BTreeMap<String, i64>) -> Vec<i64> {
    kernel.tensors[tensor].dims.iter().map(|d| d.eval(dims).unwrap()).collect()
}

fn dims(kernel: &Kernel, nest: &Nest, random: &mut Random, round: bool) -> BTreeMap<String, i64> {
    let mut dims = BTreeMap::new();
    for (n, axis) in kernel.axes.iter().enumerate() {
        for dim in axis.extent.dims.keys() {
            let most = nest.bounds.get(&AxisId(n as u16)).map_or(34, |b| i64::from(*b).min(34));
            let size = 1 + random.below(most as usize) as i64;
            let size = if round { ((size + 7) / 8 * 8).min(most) } else { size };
            let entry = dims.entry(dim.clone()).or_insert(size);
            *entry = size.min(*entry);
        }
    }
    dims
}

fn run(generic: &Kernel, seed: u64) -> [usize; 3] {
    let mut random = Random::new(seed);
    let schedule = engine::random_schedule(generic, seed);
    let dtype = generic.generic.as_ref().map(|_| *random.pick(&[DType::F32, DType::F16, DType::BF16]));
    let program: Program = engine::schedule(generic, &schedule, dtype).unwrap();
    let (kernel, nest) = (&program.nest.kernel, &program.nest);
    let mut ran = [0; 3];
    for round in [true, false] {
        let dims = dims(kernel, nest, &mut random, round);
        let tensors: BTreeMap<String, Elements> = kernel
            .tensors
            .iter()
            .enumerate()
            .map(|(n, t)| {
                let len: i64 = shape(kernel, n, &dims).iter().product();
                let ElemType::Fixed(dtype) = t.elem else { panic!("instantiated") };
                (t.name.clone(), Elements::from_f64(dtype, (0..len).map(|_| random.below(5) as f64 - 2.0)))
            })
            .collect();
        let inputs = Inputs { dims: dims.clone(), tensors, tiles: nest.tiles(), ..Inputs::default() };
        let expected = evaluate(kernel, &inputs).unwrap();
        for (n, variant) in [Variant::Exact, Variant::Aligned, Variant::General].into_iter().enumerate() {
            let bases = vec![256; kernel.tensors.len()];
            if !assumptions(&program, variant).iter().all(|a| a.holds(&dims, &bases)) {
                continue;
            }
            ran[n] += 1;
            let what = || {
                let text: Vec<String> = schedule.directives.iter().map(ToString::to_string).collect();
                format!(
                    "{} seed {seed}, {variant}, {dims:?}, {dtype:?} {{ {} }}\n{nest}",
                    kernel.name,
                    text.join("; ")
                )
            };
            let lowered = lower(&program, variant).unwrap_or_else(|e| panic!("{e}: {}", what()));
            let column = |n: usize| nest.column_major.contains(&TensorId(n as u16));
            let mut launch = Launch { dims: dims.clone(), ..Launch::default() };
            for (n, tensor) in kernel.tensors.iter().enumerate() {
                let data: Vec<f32> =
                    inputs.tensors[&tensor.name].to_f64().iter().map(|x| *x as f32).collect();
                let data = if column(n) { transposed(&shape(kernel, n, &dims), &data, false) } else { data };
                launch.tensors.insert(tensor.name.clone(), data);
            }
            interpret(&lowered, &mut launch).unwrap_or_else(|e| panic!("{e}: {}", what()));
            for (n, tensor) in kernel.tensors.iter().enumerate().filter(|(_, t)| t.mutable) {
                let found = &launch.tensors[&tensor.name];
                let found =
                    if column(n) { transposed(&shape(kernel, n, &dims), found, true) } else { found.clone() };
                let wanted = expected[&tensor.name].to_f64();
                let differs = wanted.iter().zip(&found).position(|(a, b)| {
                    let (a, b) = (*a as f32, *b);
                    // Only exponentials and quotients round on small integers.
                    if kernel.name.starts_with("softmax") { (a - b).abs() > 1e-5 * a.abs() } else { a != b }
                });
                assert_eq!(differs, None, "{}: {}", tensor.name, what());
            }
        }
    }
    ran
}

fn agree(text: &str) {
    let kernel = kernel(text);
    let seeds = std::env::var("TILEWRIGHT_SEEDS").map_or(4, |n| n.parse().expect("a number"));
    let mut ran = [0; 3];
    for seed in 1000..1000 + seeds {
        let one = run(&kernel, seed);
        ran.iter_mut().zip(one).for_each(|(a, b)| *a += b);
    }
    println!("{}: exact {}, aligned {}, general {} runs", kernel.name, ran[0], ran[1], ran[2]);
    assert!(ran[2] > 0);
}

#[test]
fn matmul() {
    agree(MATMUL);
}
#[test]
fn linear() {
    agree(LINEAR);
}
#[test]
fn softmax() {
    agree(SOFTMAX);
}
#[test]
fn vector_add() {
    agree(VECTOR_ADD);
}
#[test]
fn recurrences() {
    agree(RECURRENCE);
    agree(NESTED);
}
#[test]
fn conv1d() {
    agree(CONV1D);
}
#[test]
fn conv3() {
    agree(CONV3);
}
