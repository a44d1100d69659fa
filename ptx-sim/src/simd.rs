//! The one place with `unsafe`: picks the vector build of the arithmetic loops at run time.
//!
//! `f32::mul_add` compiles to a library call unless FMA is enabled, which a default x86-64 build does not do.

#![allow(unsafe_code)]

use crate::alu::exec::{self, Regs};
use crate::counters::PcCount;
use crate::kernel::Kernel;
use crate::op::Op;
use crate::race::{Shadow, Who};
use crate::tensor_core::{Block, COLS};

/// Runs register-only instructions from a first pc until another kind, or the second pc, comes; returns where it
/// stopped. The last number is the mask of lanes.
pub(crate) type RunFn = fn(&Kernel, &mut Regs, u32, u32, u32, &mut [PcCount]) -> u32;

/// Checks and records a read of 32 consecutive words, one a lane; `false` if that needs the careful path.
pub(crate) type RowFn = fn(&mut Shadow, usize, Who) -> bool;

/// Runs a block product of the tensor cores.
pub(crate) type BlockFn = fn(&Block<'_>, &mut [[u32; COLS]]);

/// The builds to use on this machine.
#[derive(Clone, Copy)]
pub(crate) struct Simd {
    pub run: RunFn,
    pub read_row: RowFn,
    pub block: BlockFn,
}

impl Simd {
    pub fn detect() -> Simd {
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2")
                && std::is_x86_feature_detected!("fma")
                && std::is_x86_feature_detected!("popcnt")
            {
                return Simd {
                    // SAFETY: the features that the two functions enable were just found.
                    run: |k, r, pc, stop, mask, c| unsafe { run_avx2(k, r, pc, stop, mask, c) },
                    // SAFETY: as above.
                    read_row: |s, word, who| unsafe { read_row_avx2(s, word, who) },
                    // SAFETY: as above.
                    block: |b, c| unsafe { block_avx2(b, c) },
                };
            }
        }
        Simd { run, read_row: |s, word, who| s.read_row(word, who), block: |b, c| b.run(c) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn run_avx2(k: &Kernel, r: &mut Regs, pc: u32, stop: u32, mask: u32, c: &mut [PcCount]) -> u32 {
    run(k, r, pc, stop, mask, c)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn read_row_avx2(s: &mut Shadow, word: usize, who: Who) -> bool {
    s.read_row(word, who)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn block_avx2(b: &Block<'_>, c: &mut [[u32; COLS]]) {
    b.run(c)
}

#[inline(always)]
fn run(k: &Kernel, r: &mut Regs, mut pc: u32, stop: u32, mask: u32, counts: &mut [PcCount]) -> u32 {
    while pc != stop {
        let inst = &k.insts[pc as usize];
        let m = mask & inst.guard.lanes(&r.p);
        match &inst.op {
            Op::Alu { k, d, a, b, c, e } => exec::alu(r, *k, *d, *a, *b, *c, *e, m),
            Op::Setp { cmp, ty, ftz, d, q, a, b, bop, c, has_c } => {
                let t = exec::compare(r, *cmp, *ty, *ftz, *a, *b);
                exec::setp(r, t, *bop, *c, *has_c, *d, *q, m);
            }
            Op::Selp { slots, d, a, b, p } => exec::selp(r, *slots, *d, *a, *b, *p, m),
            Op::PredLogic { op, d, a, b } => exec::pred_op(r, *op, *d, *a, *b, m),
            _ => return pc,
        }
        let n = &mut counts[pc as usize];
        n.warps += 1;
        n.threads += m.count_ones() as u64;
        pc += 1;
    }
    pc
}
