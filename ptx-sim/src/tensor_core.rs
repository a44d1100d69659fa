//! Numerics of the tensor cores, bit for bit as recorded on an H200.
//!
//! One instruction is one fused sum: the exact products, and the accumulator, are aligned to the largest exponent
//! E among them (that of a product being the sum of its factors', unnormalised), each truncated toward zero at
//! 2^(E−25), added exactly, and the sum is truncated to f32. 8-bit `mma` is two such sums over byte pairs {0,1}
//! and {2,3} from zero, then a rounded addition of the accumulator. Infinities and NaN follow IEEE; they are not
//! in the recorded data, and neither are f16 accumulators, which are rounded to nearest here.

use crate::alu::float::{self, BF16, E4M3, E5M2, F16, NAN32};
use crate::op::Rnd;
use crate::types::Ty;

/// Exponent of zero: below everything.
const LOW: i32 = -4000;
/// Exponents at and above this mark infinities and NaN.
const SPECIAL: i32 = 2000;

/// A factor: signed mantissa with the leading bit at 2^10, and exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Factor {
    pub m: i32,
    pub e: i32,
}

/// Splits one element of an operand.
pub(crate) fn factor(ty: Ty, bits: u32) -> Factor {
    let x = match ty {
        Ty::F16 => F16.decode(bits & 0xffff),
        Ty::BF16 => BF16.decode(bits & 0xffff),
        Ty::TF32 => f32::from_bits(bits & 0xffff_e000) as f64,
        Ty::E4M3 => E4M3.decode(bits & 0xff),
        _ => E5M2.decode(bits & 0xff),
    };
    if x == 0.0 {
        return Factor { m: 0, e: LOW };
    }
    if !x.is_finite() {
        return Factor { m: if x.is_nan() { 0 } else { x.signum() as i32 }, e: SPECIAL };
    }
    let b = x.abs().to_bits();
    let e = (b >> 52) as i32 - 1023;
    let m = ((b & ((1 << 52) - 1)) | 1 << 52) >> 42;
    Factor { m: if x < 0.0 { -(m as i32) } else { m as i32 }, e }
}

/// Columns computed at once.
pub(crate) const COLS: usize = 8;

/// One row of A times eight columns of B plus `c`: the fused sum of one instruction.
#[inline(always)]
pub(crate) fn fused(a: &[Factor], bm: &[[i32; COLS]], be: &[[i32; COLS]], c: [u32; COLS]) -> [u32; COLS] {
    let mut top = [LOW * 2; COLS];
    for (f, e) in a.iter().zip(be) {
        for j in 0..COLS {
            top[j] = top[j].max(f.e + e[j]);
        }
    }
    let (mut cm, mut ce) = ([0i32; COLS], [LOW; COLS]);
    for j in 0..COLS {
        let (exp, frac) = ((c[j] >> 23 & 0xff) as i32, (c[j] & 0x7f_ffff) as i32);
        let (m, e) = if exp == 0 {
            // A subnormal accumulator: normalise.
            let shift = (frac as u32).leading_zeros() as i32 - 8;
            if frac == 0 { (0, LOW) } else { (frac << shift, -126 - shift) }
        } else if exp == 255 {
            (1, SPECIAL)
        } else {
            (frac | 1 << 23, exp - 127)
        };
        cm[j] = if c[j] >> 31 != 0 { -m } else { m };
        ce[j] = e;
        top[j] = top[j].max(e);
    }
    let mut special = false;
    for j in 0..COLS {
        // A product of zero and infinity hides below SPECIAL.
        special |= top[j] > 600;
    }
    if special || a.iter().any(|f| f.e >= SPECIAL) {
        return core::array::from_fn(|j| ieee(a, bm, be, c[j], j));
    }
    let mut sum = [0i64; COLS];
    for (k, f) in a.iter().enumerate() {
        for j in 0..COLS {
            let p = f.m * bm[k][j];
            // p · 2^(e−20) in units of 2^(top−25).
            let right = (top[j] - f.e - be[k][j]).min(36) - 5;
            let left = p << (-right).clamp(0, 5);
            let s = right.clamp(0, 31);
            let t = left.wrapping_add((left >> 31) & ((1i64 << s) - 1) as i32) >> s;
            sum[j] += t as i64;
        }
    }
    let mut out = [0; COLS];
    for j in 0..COLS {
        let right = (top[j] - ce[j]).min(40) - 2;
        let left = (cm[j] as i64) << (-right).clamp(0, 2);
        let s = right.clamp(0, 40);
        sum[j] += (left + ((left >> 63) & ((1i64 << s) - 1))) >> s;
        out[j] = truncate(sum[j], top[j] - 25);
    }
    out
}

/// s · 2^e, truncated to f32.
#[inline(always)]
fn truncate(s: i64, e: i32) -> u32 {
    if s == 0 {
        return 0;
    }
    let sign = if s < 0 { 1u32 << 31 } else { 0 };
    let m = s.unsigned_abs();
    let len = 64 - m.leading_zeros() as i32;
    let exp = e + len - 1;
    if exp > 127 {
        return sign | 0x7f80_0000;
    }
    // Bits below the last place, which lies higher for subnormal results.
    let drop = len - 24 + (-126 - exp).max(0);
    let kept = if drop >= 64 {
        0
    } else if drop >= 0 {
        m >> drop
    } else {
        m << -drop
    } as u32;
    sign | if exp < -126 { kept } else { (((exp + 127) as u32) << 23) | (kept & 0x7f_ffff) }
}

/// Infinities and NaN: only their presence and signs matter.
#[cold]
fn ieee(a: &[Factor], bm: &[[i32; COLS]], be: &[[i32; COLS]], c: u32, j: usize) -> u32 {
    let (mut plus, mut minus) = (false, false);
    let mut add = |v: f64| {
        plus |= v == f64::INFINITY;
        minus |= v == f64::NEG_INFINITY;
        v.is_nan()
    };
    let value = |m: i32, e: i32| {
        if e == SPECIAL {
            if m == 0 { f64::NAN } else { m as f64 * f64::INFINITY }
        } else {
            m as f64 * 2f64.powi((e - 10).max(-1000))
        }
    };
    let mut sum = f32::from_bits(c) as f64;
    let mut nan = add(sum);
    for (k, f) in a.iter().enumerate() {
        let p = value(f.m, f.e) * value(bm[k][j], be[k][j]);
        nan |= add(p);
        sum += p;
    }
    match (nan || (plus && minus), plus, minus) {
        (true, _, _) => NAN32,
        (_, true, _) => 0x7f80_0000,
        (_, _, true) => 0xff80_0000,
        _ => float::F32.encode(sum, Rnd::Zero),
    }
}

/// A block product: `rows` of A (each `k` factors) by eight columns of B.
pub(crate) struct Block<'a> {
    pub a: &'a [Factor],
    pub k: usize,
    pub bm: &'a [[i32; COLS]],
    pub be: &'a [[i32; COLS]],
    /// 8-bit operands of `mma`: two passes over byte pairs.
    pub pairs: bool,
}

impl Block<'_> {
    /// D = A·B + C for each row.
    #[inline(always)]
    pub fn run(&self, c: &mut [[u32; COLS]]) {
        for (row, c) in self.a.chunks_exact(self.k).zip(c) {
            if !self.pairs {
                *c = fused(row, self.bm, self.be, *c);
                continue;
            }
            let half = |which: usize, acc: [u32; COLS]| {
                let pick = |i: &usize| (i / 2) % 2 == which;
                let ks: Vec<usize> = (0..self.k).filter(pick).collect();
                let a: Vec<Factor> = ks.iter().map(|i| row[*i]).collect();
                let bm: Vec<_> = ks.iter().map(|i| self.bm[*i]).collect();
                let be: Vec<_> = ks.iter().map(|i| self.be[*i]).collect();
                fused(&a, &bm, &be, acc)
            };
            let s = half(1, half(0, [0; COLS]));
            for j in 0..COLS {
                c[j] = float::add32::<false>(s[j], c[j]);
            }
        }
    }
}
