//! The rungs of a matmul ladder as nests, scaled down.

use crate::build::*;
use tile_dsl::{dtype::DType, nest::*, program::Program, schedule::Via};

/// `(for grid (let acc (for around (stages (for red red))) (for put put)))`.
pub struct Rung<'a> {
    pub grid: &'a [(&'a str, At)],
    pub around: &'a [(&'a str, At)],
    pub stages: &'a [CopyOf],
    pub red: &'a [(&'a str, At)],
    pub put: &'a [(&'a str, At)],
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
    let at = if depth > 1 { At::Pipe(depth) } else { SEQ };
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

const SIZES: [(usize, usize, usize); 7] =
    [(1, 1, 1), (9, 17, 5), (33, 31, 35), (32, 32, 32), (1, 70, 3), (65, 1, 64), (16, 16, 0)];

#[test]
fn every_rung_computes_the_product() {
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
            let mut variants = 0;
            for (m, n, k) in SIZES.into_iter().chain([(64, 128, 16), (64, 128, 8)]) {
                variants |= check_matmul(program, m, n, k).len();
            }
            assert_eq!(variants & 3, 3, "{}: a size must admit all three variants", program.schedule.name);
        }
    }
}
