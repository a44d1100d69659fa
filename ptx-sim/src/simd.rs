//! The one place with `unsafe`: picks the vector build of the arithmetic loops at run time.
//!
//! Everything else is compiled with `forbid(unsafe_code)`; here it is what calls functions that need CPU features, after
//! they were found.
//!
//! `f32::mul_add` compiles to a library call unless FMA is enabled, which a default x86-64 build does not do.

#![allow(unsafe_code)]

use crate::alu::exec::{self, Regs};
use crate::counters::PcCount;
use crate::kernel::Kernel;
use crate::op::Op;
use crate::race::{Shadow, Who};
use crate::tensor_core::{Adder, Block, CHUNK, COLS, Portable, Row};

/// Runs register-only instructions from a first pc until another kind, or the second pc, comes; returns where it
/// stopped. The last number is the mask of lanes.
pub(crate) type RunFn = fn(&Kernel, &mut Regs, u32, u32, u32, &mut [PcCount]) -> u32;

/// Checks and records an access to a row of shared memory: its offset, bytes a lane and lanes; `false` if that needs the
/// careful path.
pub(crate) type RowFn = fn(&mut Shadow, (u32, u32, u32), &Who) -> bool;

/// Checks and records reads of some bytes at the offsets of some lanes; gives the lanes that need the careful path.
pub(crate) type EachFn = fn(&mut Shadow, &[u32; 32], u32, u32, &Who) -> u32;

/// Runs a block product of the tensor cores.
pub(crate) type BlockFn = fn(&Block<'_>, &mut [[u32; COLS]]);

/// The builds to use on this machine.
#[derive(Clone, Copy)]
pub(crate) struct Simd {
    pub run: RunFn,
    pub read_row: RowFn,
    pub write_row: RowFn,
    pub read_each: EachFn,
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
                    // SAFETY: the features that the functions enable were just found.
                    run: |k, r, pc, stop, mask, c| unsafe { run_avx2(k, r, pc, stop, mask, c) },
                    // SAFETY: as above.
                    read_row: |s, row, who| unsafe { read_row_avx2(s, row, who) },
                    // SAFETY: as above.
                    write_row: |s, row, who| unsafe { write_row_avx2(s, row, who) },
                    // SAFETY: as above.
                    read_each: |s, off, bytes, ok, who| unsafe { read_each_avx2(s, off, bytes, ok, who) },
                    // SAFETY: as above.
                    block: |b, c| unsafe { block_avx2(b, c) },
                };
            }
        }
        let (read_row, write_row): (RowFn, RowFn) = (
            |s, (off, bytes, lanes), who| s.read_row(off, bytes, lanes, who),
            |s, (off, bytes, lanes), who| s.write_row(off, bytes, lanes, who),
        );
        let read_each: EachFn = |s, off, bytes, ok, who| s.read_each(off, bytes, ok, who);
        Simd { run, read_row, write_row, read_each, block: |b, c| b.run::<Portable>(c) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn run_avx2(k: &Kernel, r: &mut Regs, pc: u32, stop: u32, mask: u32, c: &mut [PcCount]) -> u32 {
    run(k, r, pc, stop, mask, c)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn read_row_avx2(s: &mut Shadow, (off, bytes, lanes): (u32, u32, u32), who: &Who) -> bool {
    s.read_row(off, bytes, lanes, who)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn write_row_avx2(s: &mut Shadow, (off, bytes, lanes): (u32, u32, u32), who: &Who) -> bool {
    s.write_row(off, bytes, lanes, who)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn read_each_avx2(s: &mut Shadow, off: &[u32; 32], bytes: u32, ok: u32, who: &Who) -> u32 {
    s.read_each(off, bytes, ok, who)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn block_avx2(b: &Block<'_>, c: &mut [[u32; COLS]]) {
    b.run::<Avx2>(c)
}

/// Eight columns in one register. Only [`block_avx2`] names it.
#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Adder for Avx2 {
    #[inline(always)]
    fn add(row: &Row<'_>) -> Result<[u32; COLS], ([f64; COLS], [i32; COLS])> {
        // SAFETY: `block_avx2`, the only caller, runs where AVX2 was found.
        unsafe { add_avx2(row) }
    }
}

/// [`Portable::add`] with AVX2; the comments are there.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,popcnt")]
fn add_avx2(row: &Row<'_>) -> Result<[u32; COLS], ([f64; COLS], [i32; COLS])> {
    use std::arch::x86_64::*;
    // SAFETY: the array has the 32 bytes that are read, or written.
    let load = |v: &[i32; COLS]| unsafe { _mm256_loadu_si256(v.as_ptr().cast()) };
    let store = |v: &mut [i32; COLS], x: __m256i| unsafe { _mm256_storeu_si256(v.as_mut_ptr().cast(), x) };
    let ce = load(&row.ce);
    let mut top = ce;
    for (a, e) in row.ae.iter().zip(row.be) {
        top = _mm256_max_epi32(top, _mm256_add_epi32(_mm256_set1_epi32(*a), load(e)));
    }
    top = _mm256_add_epi32(top, _mm256_set1_epi32(row.sum.cut));
    let most = _mm256_set1_epi32(31);
    let aligned = |q: __m256i, right: __m256i| {
        let t = _mm256_srlv_epi32(_mm256_abs_epi32(q), _mm256_min_epi32(right, most));
        _mm256_sign_epi32(t, q)
    };
    let wide = |v: __m256i| {
        let (lo, hi) = (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
        (_mm256_cvtepi32_pd(lo), _mm256_cvtepi32_pd(hi))
    };
    let (mut lo, mut hi) = wide(aligned(load(&row.cm), _mm256_sub_epi32(top, ce)));
    let n = row.am.len().min(row.ae.len()).min(row.bm.len()).min(row.be.len());
    let (am, ae, bm, be) = (&row.am[..n], &row.ae[..n], &row.bm[..n], &row.be[..n]);
    for k in (0..n).step_by(CHUNK) {
        let mut sum = _mm256_setzero_si256();
        for k in k..n.min(k + CHUNK) {
            let right = _mm256_sub_epi32(_mm256_sub_epi32(top, _mm256_set1_epi32(ae[k])), load(&be[k]));
            let q = _mm256_mullo_epi32(_mm256_set1_epi32(am[k] << 5), load(&bm[k]));
            sum = _mm256_add_epi32(sum, aligned(q, right));
        }
        let (l, h) = wide(sum);
        (lo, hi) = (_mm256_add_pd(lo, l), _mm256_add_pd(hi, h));
    }
    let mut odd = _mm256_setzero_si256();
    let mut narrow = |total: __m256d, top: __m128i| {
        let bits = _mm256_castpd_si256(total);
        let exp = _mm256_and_si256(_mm256_srli_epi64::<52>(bits), _mm256_set1_epi64x(0x7ff));
        let e = _mm256_add_epi64(
            _mm256_add_epi64(exp, _mm256_cvtepi32_epi64(top)),
            _mm256_set1_epi64x(-1023 + 127 - 25),
        );
        let zero = _mm256_cmpeq_epi64(_mm256_slli_epi64::<1>(bits), _mm256_setzero_si256());
        let outside = _mm256_or_si256(
            _mm256_cmpgt_epi64(_mm256_set1_epi64x(1), e),
            _mm256_cmpgt_epi64(e, _mm256_set1_epi64x(254)),
        );
        odd = _mm256_or_si256(odd, _mm256_andnot_si256(zero, outside));
        let sign = _mm256_and_si256(_mm256_srli_epi64::<32>(bits), _mm256_set1_epi64x(1 << 31));
        let frac = _mm256_and_si256(_mm256_srli_epi64::<29>(bits), _mm256_set1_epi64x(0x7f_ffff));
        let v = _mm256_or_si256(_mm256_or_si256(sign, frac), _mm256_slli_epi64::<23>(e));
        // The low halves of the four.
        let even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
        _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_andnot_si256(zero, v), even))
    };
    let l = narrow(lo, _mm256_castsi256_si128(top));
    let h = narrow(hi, _mm256_extracti128_si256::<1>(top));
    let mut out = [0i32; COLS];
    if !row.sum.half && _mm256_testz_si256(odd, odd) != 0 {
        store(&mut out, _mm256_set_m128i(h, l));
        return Ok(out.map(|v| v as u32));
    }
    store(&mut out, top);
    let mut total = [0f64; COLS];
    // SAFETY: each half of the array has the 32 bytes that are written.
    unsafe {
        _mm256_storeu_pd(total.as_mut_ptr(), lo);
        _mm256_storeu_pd(total.as_mut_ptr().add(4), hi);
    }
    Err((total, out))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Ty;

    /// Both builds agree bit for bit, subnormal and special values included.
    #[test]
    fn blocks_agree_between_builds() {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 16) as u32
        };
        let simd = Simd::detect();
        let types = [(Ty::F16, 16), (Ty::BF16, 16), (Ty::TF32, 8), (Ty::E4M3, 32), (Ty::E5M2, 32)];
        for round in 0..400 {
            let (ty, k) = types[round % 5];
            // Now and then values of all magnitudes, mostly moderate ones.
            let mask = if round % 3 == 0 { !0 } else { 0x3fff_3f3f };
            let a: Vec<u32> = (0..16 * k).map(|_| next() & mask).collect();
            let b: Vec<[u32; COLS]> = (0..k).map(|_| [(); COLS].map(|_| next() & mask)).collect();
            let c: Vec<[u32; COLS]> = (0..16).map(|_| [(); COLS].map(|_| next() & mask)).collect();
            let (neg_a, neg_b) = (round % 7 == 0, round % 11 == 0);
            let (pairs, coarse, half) =
                (k == 32 && round % 2 == 0, k == 32 && round % 2 != 0, round % 13 < 4);
            let block = Block { k, a: &a, b: &b, a_ty: ty, b_ty: ty, neg_a, neg_b, pairs, coarse, half };
            let c = if half { c.into_iter().map(|r| r.map(|v| v & 0xffff)).collect() } else { c };
            let (mut p, mut q) = (c.clone(), c);
            (simd.block)(&block, &mut p);
            block.run::<Portable>(&mut q);
            assert_eq!(p, q, "{ty:?} {round}");
        }
    }
}
