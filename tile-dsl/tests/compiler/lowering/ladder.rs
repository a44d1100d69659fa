//! The rungs of a matmul ladder as nests, scaled down.

use super::build::*;
use std::collections::BTreeSet;
use tile_dsl::{
    dtype::DType,
    kernel::{Kernel, Stmt, Var, interpret::Counts},
    lower::lower,
    nest::*,
    program::{Program, Variant},
    schedule::Via,
};

/// `(for grid (let acc (for around (stages (for red red))) (for put put)))`.
pub struct Rung<'a> {
    pub grid: &'a [(&'a str, LoopKind)],
    pub around: &'a [(&'a str, LoopKind)],
    pub stages: &'a [CopyOf],
    pub red: &'a [(&'a str, LoopKind)],
    pub put: &'a [(&'a str, LoopKind)],
}

impl Rung<'_> {
    pub fn build(&self, dtype: DType, name: &str) -> Program {
        let Matmul { mut table, acc, red, put, dtype } = matmul(dtype);
        let red = table.loops(self.red, red);
        let red = table.stages(self.stages, red);
        let first = table.loops(self.around, red);
        let rest = table.loops(self.put, put);
        let body = table.loops(self.grid, let_(acc, first, rest));
        table.program(body, Some(dtype), name)
    }
}

pub fn naive(dtype: DType) -> Program {
    let tile = [("i.1.8", TX), ("j.1.8", TY)];
    Rung {
        grid: &[("i.8", BLOCK), ("j.8", BLOCK)],
        around: &[],
        stages: &[],
        red: &[tile[0], tile[1], ("k.1", SEQ)],
        put: &tile,
    }
    .build(dtype, "naive")
}

pub fn shared(dtype: DType) -> Program {
    let tile = [("j.1.8", TX), ("i.1.8", TY)];
    Rung {
        grid: &[("i.8", BLOCK), ("j.8", BLOCK)],
        around: &[("k.8", SEQ)],
        stages: &[copy("a"), copy("b")],
        red: &[tile[1], tile[0], ("k.1.8", SEQ)],
        put: &tile,
    }
    .build(dtype, "shared")
}

/// A register tile of 8×8 over 4×4 threads.
pub fn blocktile_2d(dtype: DType) -> Program {
    let (threads, tile) = ([("j.8.4", TX), ("i.8.4", TY)], [("i.1.8", UNROLL), ("j.1.8", UNROLL)]);
    Rung {
        grid: &[("i.32", BLOCK), ("j.32", BLOCK)],
        around: &[("k.4", SEQ)],
        stages: &[copy("a"), copy("b")],
        red: &[threads[0], threads[1], ("k.1.4", SEQ), tile[0], tile[1]],
        put: &[threads[0], threads[1], tile[0], tile[1]],
    }
    .build(dtype, "blocktile_2d")
}

/// As [`blocktile_2d`], with vectors of `lanes` elements everywhere and A transposed in shared memory.
pub fn vectorized(dtype: DType, lanes: u32) -> Program {
    let (iv, jv) = (format!("i.1.{lanes}"), format!("j.1.{lanes}"));
    let (ir, jr) = (format!("i.{lanes}.{}", 8 / lanes), format!("j.{lanes}.{}", 8 / lanes));
    let threads = [("j.8.4", TX), ("i.8.4", TY)];
    let wide = |c: CopyOf| CopyOf { vector: Some(lanes * dtype.bytes()), ..c };
    Rung {
        grid: &[("i.32", BLOCK), ("j.32", BLOCK)],
        around: &[("k.8", SEQ)],
        stages: &[wide(CopyOf { transposed: true, pad: 16, ..copy("a") }), wide(copy("b"))],
        red: &[threads[0], threads[1], ("k.1.8", SEQ), (&ir, UNROLL), (&iv, VEC), (&jr, UNROLL), (&jv, VEC)],
        put: &[threads[0], threads[1], (&ir, UNROLL), (&iv, UNROLL), (&jr, UNROLL), (&jv, VEC)],
    }
    .build(dtype, "vectorized")
}

/// Warps of 4×8 lanes, each lane 2×2 sub-tiles of 2×4.
pub fn warptile(dtype: DType, depth: u32, via: Via) -> Program {
    let units = [
        ("i.32.2", WARP_Y),
        ("j.64.2", WARP),
        ("i.16.2", UNROLL),
        ("j.32.2", UNROLL),
        ("i.4.4", LANE_Y),
        ("j.4.8", LANE),
    ];
    let tile = [("i.1.4", UNROLL), ("j.1.4", VEC)];
    let vector = if via == Via::CpAsync { Some(4.max(2 * dtype.bytes())) } else { None };
    let at = if depth > 1 { LoopKind::Pipe(depth) } else { SEQ };
    let units: Vec<_> = units.into_iter().collect();
    let mut red = units[..2].to_vec();
    red.extend(&units[4..]);
    red.push(("k.1.4", UNROLL));
    red.extend(&units[2..4]);
    red.extend(&tile);
    let mut put = units.clone();
    put.extend(&tile);
    Rung {
        grid: &[("i.64", BLOCK), ("j.128", BLOCK)],
        around: &[("k.4", at)],
        stages: &[CopyOf { via, vector, ..copy("a") }, CopyOf { via, vector: Some(8), ..copy("b") }],
        red: &red,
        put: &put,
    }
    .build(dtype, &format!("warptile_{depth}"))
}

#[test]
fn every_rung_computes_the_product() {
    let sizes = [(33, 31, 35), (16, 16, 0), (64, 128, 8)];
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let rungs = [
            naive(dtype),
            shared(dtype),
            blocktile_2d(dtype),
            vectorized(dtype, 4),
            vectorized(dtype, 2),
            warptile(dtype, 1, Via::Plain),
            warptile(dtype, 2, Via::Plain),
            warptile(dtype, 3, Via::Plain),
            warptile(dtype, 2, Via::CpAsync),
            warptile(dtype, 4, Via::CpAsync),
        ];
        for program in &rungs {
            let kernels = Kernels::of(program);
            let run = sizes.iter().flat_map(|(m, n, k)| kernels.check_matmul(program, *m, *n, *k));
            let variants: BTreeSet<_> = run.map(|(variant, _)| variant).collect();
            assert_eq!(variants.len(), 3, "{}: the sizes cover all variants", program.schedule.name);
        }
    }
}

/// The counts of one run of the exact variant.
fn counts(program: &Program, m: usize, n: usize, k: usize) -> Counts {
    let runs = Kernels::of(program).check_matmul(program, m, n, k);
    runs.into_iter().find(|(variant, _)| *variant == Variant::Exact).expect("the size is exact").1
}

/// How much more there is at twice the K: what the steps of the k loop do, without prologue and epilogue.
fn per_k(program: &Program, m: usize, n: usize, k: usize) -> Counts {
    let (one, two) = (counts(program, m, n, k), counts(program, m, n, 2 * k));
    Counts {
        barriers: two.barriers - one.barriers,
        global_loads: two.global_loads - one.global_loads,
        global_stores: two.global_stores - one.global_stores,
        shared_loads: two.shared_loads - one.shared_loads,
        shared_stores: two.shared_stores - one.shared_stores,
        async_copies: two.async_copies - one.async_copies,
        fma: two.fma - one.fma,
    }
}

#[test]
fn a_register_tile_loads_each_fragment_once() {
    // 16 threads, 8×8 each; a k tile has 4 steps.
    let c = per_k(&blocktile_2d(DType::F32), 32, 32, 4);
    assert_eq!(c.fma, 32 * 32 * 4);
    assert_eq!(c.shared_loads, 16 * 4 * (8 + 8));
    assert_eq!(c.global_loads, 2 * 32 * 4);
    // In vectors of 4: 2 + 2 a step; 8 steps a k tile.
    let c = per_k(&vectorized(DType::F32, 4), 32, 32, 8);
    assert_eq!(c.fma, 32 * 32 * 8);
    assert_eq!(c.shared_loads, 16 * 8 * (2 + 2));
    assert_eq!(c.global_loads, 2 * 32 * 8 / 4);
    // B is stored as vectors; A is transposed on its way and is not.
    assert_eq!(c.shared_stores, 32 * 8 + 32 * 8 / 4);
}

#[test]
fn two_barriers_a_k_tile_or_one_when_pipelined() {
    let per_tile = |program: Program, m, n, k| per_k(&program, m, n, k).barriers;
    assert_eq!(per_tile(naive(DType::F32), 8, 8, 8), 0);
    assert_eq!(per_tile(shared(DType::F32), 8, 8, 8), 2);
    assert_eq!(per_tile(blocktile_2d(DType::F32), 32, 32, 4), 2);
    assert_eq!(per_tile(warptile(DType::F32, 1, Via::Plain), 64, 128, 4), 2);
    for depth in [2, 3, 4] {
        assert_eq!(per_tile(warptile(DType::F32, depth, Via::Plain), 64, 128, 4), 1);
        assert_eq!(per_tile(warptile(DType::F32, depth, Via::CpAsync), 64, 128, 4), 1);
    }
}

#[test]
fn exact_kernels_have_no_guards_and_narrow_offsets() {
    let wide = |kernel: &Kernel| kernel.vars.contains(&DType::I64);
    for program in [naive(DType::F32), vectorized(DType::F32, 4), warptile(DType::BF16, 1, Via::Plain)] {
        let [exact, aligned, general] = VARIANTS.map(|v| lower(&program, v).unwrap());
        assert!(!exact.to_string().contains(" if "), "{exact}");
        assert!(aligned.to_string().contains(" if ") && general.to_string().contains(" if "));
        assert_eq!([wide(&exact), wide(&aligned), wide(&general)], [false, false, true]);
        // The sum over k needs no guard: both factors are zero outside. What is selected are limits.
        for kernel in [&aligned, &general] {
            let text = kernel.to_string();
            let mut selects = text.lines().filter(|line| line.contains("select"));
            assert!(selects.all(|line| line.contains(": i32 = select(")), "{kernel}");
        }
    }
}

/// Conditions that are defined outside of the loops over k and used inside.
fn conditions_kept(kernel: &Kernel) -> usize {
    let (mut defined, mut kept): (Vec<Var>, usize) = (Vec::new(), 0);
    for stmt in &kernel.body {
        match stmt {
            Stmt::Let(var, _) if kernel.vars[var.0 as usize] == DType::Bool => defined.push(*var),
            Stmt::For { body, .. } => {
                let text = format!("{body:?}");
                kept += defined.iter().filter(|v| text.contains(&format!("Var({v:?})"))).count();
            }
            _ => {}
        }
    }
    kept
}

#[test]
fn the_guards_of_a_copy_keep_limits_through_the_loop_and_no_conditions() {
    // Of A, 16 rows lie apart in the tile; of B, the columns are divided among the rounds.
    for (depth, via) in [(1, Via::Plain), (2, Via::Plain), (3, Via::CpAsync)] {
        for variant in [Variant::Aligned, Variant::General] {
            let kernel = lower(&warptile(DType::F32, depth, via), variant).unwrap();
            let guarded = kernel.to_string().matches(" if ").count();
            assert!(guarded > 8, "{kernel}");
            assert_eq!(conditions_kept(&kernel), 0, "{kernel}");
        }
    }
}
