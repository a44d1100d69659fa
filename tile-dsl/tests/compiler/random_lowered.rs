//! Random legal schedules, lowered, in the interpreter of the kernel IR, against the reference evaluator.
//! `TILEWRIGHT_SEEDS` asks for more of them.

use crate::support::*;
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine::{self, testing::Random},
    index::AxisId,
    kernel::interpret::{Launch, interpret},
    lower::{Given, Strided, admit, assumptions_strided, lower_given, stride},
    nest::Nest,
    program::{Program, Variant},
    tile::{
        ElemType, Kernel, TensorId,
        evaluate::{Elements, Inputs, evaluate},
    },
};

/// Where the elements of a tensor lie.
struct Place {
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Place {
    /// With gaps of `gap` elements between the rows, and between the matrices of rows, and so on.
    fn new(shape: Vec<i64>, column_major: bool, gap: i64) -> Self {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if !column_major {
            order.reverse();
        }
        let (mut strides, mut stride) = (vec![1; shape.len()], 1);
        for d in order {
            strides[d] = stride;
            stride = stride * shape[d] + gap;
        }
        Place { shape, strides }
    }

    /// Position in memory of each element, row-major.
    fn positions(&self) -> Vec<usize> {
        let count: i64 = self.shape.iter().product();
        let position = |n: i64| {
            let mut rest = n;
            let digits = self.shape.iter().zip(&self.strides).rev().map(|(size, stride)| {
                let digit = rest % size;
                rest /= size;
                digit * stride
            });
            digits.sum::<i64>() as usize
        };
        (0..count).map(position).collect()
    }

    /// Row-major elements in memory order; what lies between them is not a number.
    fn store(&self, elements: impl Iterator<Item = f32>) -> Vec<f32> {
        let positions = self.positions();
        let mut memory = vec![f32::NAN; positions.iter().max().map_or(0, |n| n + 1)];
        positions.into_iter().zip(elements).for_each(|(at, x)| memory[at] = x);
        memory
    }

    /// The elements, row-major; what lies between them is as it was.
    fn load(&self, memory: &[f32], cleared: bool) -> Vec<f32> {
        let positions = self.positions();
        let gaps = memory.len() - positions.len();
        let found = positions.iter().map(|at| memory[*at]).collect();
        let kept = (0..memory.len()).filter(|at| !positions.contains(at) && memory[*at].is_nan()).count();
        assert!(kept == gaps || cleared, "{kept} of {gaps} numbers between the elements were kept");
        found
    }
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
    admit(nest, &mut dims);
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
        // Gaps that leave vectors aligned, and gaps that do not.
        let gap = if round { 16 } else { 3 };
        let some: Strided =
            (0..kernel.tensors.len() as u16).filter(|_| random.below(2) == 0).map(TensorId).collect();
        let cases = [(Strided::new(), true), (some, false)].into_iter().flat_map(|(strided, dense)| {
            let variants = [Variant::Exact, Variant::Aligned, Variant::General].into_iter().enumerate();
            variants.map(move |(n, variant)| (strided.clone(), dense, n, variant))
        });
        for (strided, dense, n, variant) in cases {
            let place = |n: usize| {
                let id = TensorId(n as u16);
                let gap = if strided.contains(&id) { gap } else { 0 };
                Place::new(shape(kernel, n, &dims), nest.column_major.contains(&id), gap)
            };
            let mut dims = dims.clone();
            for (n, tensor) in kernel.tensors.iter().enumerate().filter(|_| !dense) {
                for (d, size) in place(n).strides.into_iter().enumerate() {
                    dims.insert(stride(tensor, d), size);
                }
            }
            let bases = vec![256; kernel.tensors.len()];
            let assumed = assumptions_strided(&program, variant, &strided);
            let holds = assumed.iter().all(|a| a.holds(&dims, &bases));
            let (names, values): (Vec<&String>, Vec<i64>) = dims.iter().map(|(n, v)| (n, *v)).unzip();
            let position = |name: &str| names.iter().position(|n| *n == name).unwrap();
            for a in &assumed {
                assert_eq!(a.at(position).holds(&values, &bases), a.holds(&dims, &bases), "{a}");
            }
            if !holds {
                continue;
            }
            ran[n] += usize::from(dense);
            let what = || {
                let text: Vec<String> = schedule.directives.iter().map(ToString::to_string).collect();
                format!(
                    "{} seed {seed}, {variant}, {dims:?}, {dtype:?} {{ {} }}\n{nest}",
                    kernel.name,
                    text.join("; ")
                )
            };
            // The interpreter runs a grouped kernel as a group of one.
            let given = Given { strided: strided.clone(), grouped: random.below(3) == 0 };
            let lowered =
                lower_given(&program, variant, &given).unwrap_or_else(|e| panic!("{e}: {}", what()));
            assert_eq!(lowered.shared_bytes(), engine::shared_bytes(nest), "{}", what());
            let mut launch = Launch { dims: dims.clone(), ..Launch::default() };
            for (n, tensor) in kernel.tensors.iter().enumerate() {
                let elements = inputs.tensors[&tensor.name].to_f64().into_iter().map(|x| x as f32);
                launch.tensors.insert(tensor.name.clone(), place(n).store(elements));
            }
            interpret(&lowered, &mut launch).unwrap_or_else(|e| panic!("{e}: {}", what()));
            for (n, tensor) in kernel.tensors.iter().enumerate().filter(|(_, t)| t.mutable) {
                let cleared = lowered.cleared.contains(&(n as u32));
                let found = place(n).load(&launch.tensors[&tensor.name], cleared);
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
fn tensors_read_in_several_ways() {
    agree(GRAM);
    agree(NORM);
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
