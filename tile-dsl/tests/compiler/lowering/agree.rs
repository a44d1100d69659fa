//! Kernels lowered from proved schedules agree with the reference evaluator.

use super::build::{self, Kernels, VARIANTS, data};
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine,
    kernel::{
        interpret::{Counts, Launch},
        parse::parse,
    },
    lower::lower,
    nest::{Arithmetic, interpret},
    program::{Program, Variant},
    schedule::Schedule,
    tile::{
        self,
        evaluate::{Elements, Inputs, reference},
    },
};

use super::support;

/// γ of the error bound: reductions in another order, and `exp`.
const GAMMA: f64 = 4.0;

/// Runs a program in every variant that the dims admit and compares all tensors stored to.
pub fn check(program: &Program, kernels: &Kernels, dims: &[(&str, i64)]) -> Vec<(Variant, Counts)> {
    let kernel = &program.nest.kernel;
    let dims = build::dims(dims);
    let mut inputs = Inputs { dims: dims.clone(), tiles: program.nest.tiles(), ..Inputs::default() };
    let mut launch = Launch { dims: dims.clone(), ..Launch::default() };
    for (n, t) in kernel.tensors.iter().enumerate() {
        let len: i64 = t.dims.iter().map(|d| d.eval(&dims).unwrap()).product();
        let tile::ElemType::Fixed(dtype) = t.elem else { panic!("instantiated") };
        let values = data(n as u64 + 7, len as usize);
        let start = if t.mutable { vec![f32::NAN; values.len()] } else { values.clone() };
        inputs.tensors.insert(t.name.clone(), Elements::from_f64(dtype, values.into_iter().map(f64::from)));
        launch.tensors.insert(t.name.clone(), memory_order(program, &t.name, start, &dims));
    }
    for s in &kernel.scalars {
        inputs.scalars.insert(s.name.clone(), 0.5);
        launch.scalars.insert(s.name.clone(), 0.5);
    }
    let expected = reference(kernel, &inputs).unwrap();
    let verify = |executor: &str, name: &str, found: Vec<f64>| {
        let comparison = expected[name].compare(&Elements::from_f64(expected[name].dtype, found), GAMMA);
        let schedule = &program.schedule.name;
        assert!(comparison.verified(), "{schedule} {executor} {dims:?}: `{name}`: {comparison:?}");
    };
    let nest = interpret(&program.nest, &inputs, Arithmetic::Exact, 3)
        .unwrap_or_else(|e| panic!("{dims:?}: {e}\n{}", program.nest));
    for name in expected.keys() {
        verify("nest", name, nest[name].clone());
    }
    let mut done = Vec::new();
    for (variant, launch, counts) in kernels.run(program, &launch) {
        for name in expected.keys() {
            let found = row_major(program, name, &launch.tensors[name], &dims);
            verify(&variant.to_string(), name, found.into_iter().map(f64::from).collect());
        }
        done.push((variant, counts));
    }
    done
}

/// Reverses the order of the elements of a column-major tensor; both ways.
fn reorder(
    program: &Program,
    name: &str,
    elements: &[f32],
    dims: &BTreeMap<String, i64>,
    back: bool,
) -> Vec<f32> {
    let nest = &program.nest;
    let at = nest.kernel.tensors.iter().position(|t| t.name == name).unwrap();
    if !nest.column_major.contains(&tile::TensorId(at as u16)) {
        return elements.to_vec();
    }
    let shape = nest.kernel.tensors[at].dims.iter().map(|d| d.eval(dims).unwrap() as usize);
    let [rows, columns] = shape.collect::<Vec<_>>()[..] else { panic!("a matrix") };
    let mut out = vec![0.0; elements.len()];
    for i in 0..rows {
        for j in 0..columns {
            let (row_major, column_major) = (i * columns + j, j * rows + i);
            let (from, to) = if back { (column_major, row_major) } else { (row_major, column_major) };
            out[to] = elements[from];
        }
    }
    out
}

fn memory_order(program: &Program, name: &str, elements: Vec<f32>, dims: &BTreeMap<String, i64>) -> Vec<f32> {
    reorder(program, name, &elements, dims, false)
}

fn row_major(program: &Program, name: &str, elements: &[f32], dims: &BTreeMap<String, i64>) -> Vec<f32> {
    reorder(program, name, elements, dims, true)
}

/// Proves a schedule for every element type of a kernel.
pub fn programs(kernel: &str, schedule: &Schedule) -> Vec<Program> {
    let kernel = support::kernel(kernel);
    support::dtypes(&kernel).into_iter().map(|dtype| prove(&kernel, schedule, dtype)).collect()
}

pub fn prove(kernel: &tile::Kernel, schedule: &Schedule, dtype: Option<DType>) -> Program {
    engine::schedule(kernel, schedule, dtype)
        .unwrap_or_else(|e| panic!("{} {dtype:?}: {e:#?}", schedule.name))
}

/// The matmul ladder of the examples, scaled down so that an interpreter gets through it.
pub const SMALL: [(&str, &str, &str); 10] = [
    ("naive", "", "tile(i = 8, j = 8); bind(i -> thread.x, j -> thread.y)"),
    ("coalesced", "naive", "bind(j -> thread.x, i -> thread.y)"),
    ("shared", "coalesced", "tile(k = 8); stage(a, b at k: shared)"),
    (
        "blocktile_1d",
        "shared",
        "tile(i = 16, j = 8, k = 4); drop(bind(i)); split(i -> it, ir: 4); bind(it -> thread.y); \
         reorder(k, ir); unroll(k)",
    ),
    (
        "blocktile_2d",
        "blocktile_1d",
        "tile(i = 32, j = 32); drop(bind(j)); split(i -> it, ir: 8); split(j -> jr, jt: 4); bind(jt -> thread.x); \
         reorder(k, ir, jr)",
    ),
    (
        "vectorized",
        "blocktile_2d",
        "stage(a at k: shared, transposed, vector(8)); stage(b at k: shared, vector(8)); \
         split(i -> ih, it, ir: 4, 4); split(j -> jh, jt, jr: 4, 4); reorder(k, ih, ir, jh, jr); \
         vectorize(jr); vectorize(ir in acc)",
    ),
    (
        "warptile",
        "vectorized",
        "tile(i = 64, j = 128, k = 8); drop(bind(it)); drop(bind(jt)); \
         split(i -> iw, ih, il, ir: 2, 4, 4); split(j -> jw, jh, jl, jr: 2, 8, 4); \
         bind(iw -> warp.y, jw -> warp.x, il -> lane.y, jl -> lane.x)",
    ),
    ("double_buffered", "warptile", "stage(b at k: shared, cp_async, vector(8)); pipeline(k, 2)"),
    (
        "fragments",
        "double_buffered",
        "drop(unroll(k)); drop(vectorize(ir in acc)); fragment(a, b at k.t); pipeline(k.t, 2)",
    ),
    (
        "best",
        "fragments",
        "split(jl -> jlo, jli: 2); drop(bind(il)); drop(bind(jl)); drop(vectorize(jr)); \
         bind(il -> lane.x, jli -> lane.y, jlo -> lane.z ^ lane.x); pipeline(k, 3); \
         reorder(k, jh, jr, ih, ir); serpentine(jh, jr, ih, ir in acc); stage(acc: shared); vectorize(jr in c); \
         unroll(jh, ih, ir in c); order(grouped(2)); assemble(1)",
    ),
];

#[test]
fn matmul_ladder() {
    let sizes = [(33, 65, 17), (64, 128, 8), (1, 1, 1), (65, 1, 12), (64, 128, 0), (36, 68, 20)];
    for (name, _, _) in SMALL {
        let schedule = support::rung(&SMALL, name);
        for program in programs(support::MATMUL, &schedule) {
            let kernels = Kernels::of(&program);
            // The element type changes widths only: the first sizes admit all variants.
            let count = if program.dtype == Some(DType::F32) { sizes.len() } else { 2 };
            for (m, n, k) in sizes.into_iter().take(count) {
                check(&program, &kernels, &[("M", m), ("N", n), ("K", k)]);
            }
        }
        for program in programs(support::LINEAR, &schedule) {
            check(&program, &Kernels::of(&program), &[("M", 33), ("N", 36), ("K", 12)]);
        }
    }
}

/// Kernel, schedule, dims of each launch.
type Case<'a> = (&'a str, &'a str, &'a [&'a [(&'a str, i64)]]);

#[test]
fn other_kernels() {
    let cases: [Case<'_>; 7] = [
        (
            support::VECTOR_ADD,
            support::VECTOR_ADD_SCHEDULE,
            &[&[("N", 1)], &[("N", 1028)], &[("N", 2048)], &[("N", 0)]],
        ),
        (
            support::SOFTMAX,
            support::SOFTMAX_SHORT,
            &[
                &[("R", 1), ("N", 1)],
                &[("R", 5), ("N", 260)],
                &[("R", 4), ("N", 1024)],
                &[("R", 3), ("N", 17)],
            ],
        ),
        (
            support::SOFTMAX,
            support::SOFTMAX_LONG,
            &[
                &[("R", 1), ("N", 1)],
                &[("R", 3), ("N", 1500)],
                &[("R", 2), ("N", 2048)],
                &[("R", 1), ("N", 1023)],
            ],
        ),
        (support::CONV1D, support::CONV_DIRECT, &[&[("N", 256), ("R", 3)], &[("N", 77), ("R", 7)]]),
        (support::CONV1D, support::CONV_STAGED, &[&[("N", 256), ("R", 3)], &[("N", 300), ("R", 64)]]),
        (support::CONV3, support::CONV_DIRECT, &[&[("N", 256)], &[("N", 300)]]),
        (support::CONV3, support::CONV3_STAGED, &[&[("N", 256)], &[("N", 300)], &[("N", 1)]]),
    ];
    for (kernel, schedule, sizes) in cases {
        for program in programs(kernel, &support::schedule(schedule)) {
            let kernels = Kernels::of(&program);
            for dims in sizes {
                check(&program, &kernels, dims);
            }
        }
    }
}

#[test]
fn the_full_ladder_lowers() {
    for (name, _, _) in support::LADDER {
        let schedule = support::rung(&support::LADDER, name);
        for program in
            programs(support::MATMUL, &schedule).iter().chain(&programs(support::LINEAR, &schedule))
        {
            for variant in VARIANTS {
                let kernel = lower(program, variant).unwrap_or_else(|e| panic!("{name} {variant}: {e}"));
                // The text form carries everything.
                let text = kernel.to_string();
                assert_eq!(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), kernel);
            }
        }
    }
}
