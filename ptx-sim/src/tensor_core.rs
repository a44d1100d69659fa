//! Numerics of the tensor cores, bit for bit as recorded on an H200.
//!
//! One instruction is one fused sum: the exact products, and the accumulator, are aligned to the largest exponent
//! E among them (that of a product being the sum of its factors', and nothing being normalised: a subnormal has the
//! exponent of the smallest normal number), each truncated toward zero at 2^(E−25), and added exactly. The sum is truncated
//! to f32, or rounded to the nearest f16.
//!
//! 8-bit floats: `wgmma` truncates at 2^(E−13), and an f32 result to 13 bits of fraction. `mma` is two sums of f16 products
//! over byte pairs {0,1} and {2,3} from zero, then a rounded addition of the accumulator. A NaN is always the one with all
//! bits but the sign.

use crate::alu::float;
use crate::op::Rnd;
use crate::types::Ty;

/// Exponent of zero: below everything.
const LOW: i32 = -4000;
/// Exponents at and above this mark infinities and NaN.
const SPECIAL: i32 = 2000;

/// Columns computed at once.
pub(crate) const COLS: usize = 8;
/// Most elements of a row of A, and rows of A.
pub(crate) const MAX_K: usize = 32;
pub(crate) const MAX_ROWS: usize = 16;
/// Products whose aligned sum fits 32 bits.
pub(crate) const CHUNK: usize = 16;

/// Splits an element into a signed mantissa with the unit at 2^10, and an exponent. `FN`: no infinities, and the
/// one NaN has all bits set. `NORM`: subnormals are normalised.
#[inline(always)]
fn split<const MAN: u32, const EXP: u32, const FN: bool, const NORM: bool>(
    v: u32,
    negate: u32,
) -> (i32, i32) {
    let bias = (1 << (EXP - 1)) - 1;
    let man = v & ((1 << MAN) - 1);
    let exp = (v >> MAN & ((1 << EXP) - 1)) as i32;
    let lead = (exp != 0) as u32;
    let (m, e) = ((man | lead << MAN) << (10 - MAN), exp.max(1) - bias);
    let (m, e) = if NORM && exp == 0 {
        // The conversion to f32 finds the leading bit.
        let g = (man as i32 as f32).to_bits();
        (((g & 0x7f_ffff) | 0x80_0000) >> 13, (g >> 23) as i32 - 127 - MAN as i32 + e)
    } else {
        (m, e)
    };
    let (m, e) = if exp == 0 && man == 0 { (0, LOW) } else { (m, e) };
    let top = exp == (1 << EXP) - 1;
    let special = if FN { top && man == (1 << MAN) - 1 } else { top };
    let (m, e) = if special { ((!FN && man == 0) as u32, SPECIAL) } else { (m, e) };
    let sign = ((v >> (MAN + EXP) & 1) ^ negate).wrapping_neg() as i32;
    ((m as i32 ^ sign).wrapping_sub(sign), e)
}

/// Splits elements; `true` if one is infinite or NaN.
#[inline(always)]
fn split_all(ty: Ty, pairs: bool, negate: bool, v: &[u32], m: &mut [i32], e: &mut [i32]) -> bool {
    macro_rules! each {
        ($f:expr) => {
            for ((v, m), e) in v.iter().zip(m.iter_mut()).zip(e.iter_mut()) {
                (*m, *e) = $f(*v);
            }
        };
    }
    let n = negate as u32;
    match ty {
        Ty::F16 => each!(|v| split::<10, 5, false, false>(v, n)),
        Ty::BF16 => each!(|v| split::<7, 8, false, false>(v, n)),
        Ty::TF32 => each!(|v: u32| split::<10, 8, false, false>(v >> 13, n)),
        // What `mma` converts to f16.
        Ty::E4M3 if pairs => each!(|v| split::<3, 4, true, true>(v, n)),
        Ty::E4M3 => each!(|v| split::<3, 4, true, false>(v, n)),
        _ => each!(|v| split::<2, 5, false, false>(v, n)),
    }
    e.iter().fold(false, |s, e| s | (*e >= SPECIAL))
}

/// How sums are cut and what they become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Bits that are cut off above 2^(E−25).
    pub cut: i32,
    /// The accumulators are f16, not f32.
    pub half: bool,
}

/// One row of A and eight columns of B, split, with the exponents and mantissas (unit at 2^25) of C.
pub(crate) struct Row<'a> {
    pub sum: Sum,
    pub am: &'a [i32],
    pub ae: &'a [i32],
    pub bm: &'a [[i32; COLS]],
    pub be: &'a [[i32; COLS]],
    pub cm: [i32; COLS],
    pub ce: [i32; COLS],
}

/// How a machine adds up a row.
pub(crate) trait Adder {
    /// The fused sums as f32 bits; `Err`, in units of 2^(exponent − 25), if one is not a normal number or f16 is wanted.
    fn add(row: &Row<'_>) -> Result<[u32; COLS], ([f64; COLS], [i32; COLS])>;
}

/// Any machine.
pub(crate) struct Portable;

impl Adder for Portable {
    #[inline(always)]
    fn add(row: &Row<'_>) -> Result<[u32; COLS], ([f64; COLS], [i32; COLS])> {
        let mut top = row.ce;
        for (a, e) in row.ae.iter().zip(row.be) {
            for j in 0..COLS {
                top[j] = top[j].max(a.wrapping_add(e[j]));
            }
        }
        for top in &mut top {
            *top += row.sum.cut;
        }
        let aligned = |q: i32, right: i32| {
            let sign = q >> 31;
            let t = ((q ^ sign).wrapping_sub(sign) as u32).wrapping_shr(right.min(31) as u32) as i32;
            (t ^ sign).wrapping_sub(sign)
        };
        let mut total = [0f64; COLS];
        for j in 0..COLS {
            total[j] = aligned(row.cm[j], top[j].wrapping_sub(row.ce[j])) as f64;
        }
        for k in (0..row.am.len()).step_by(CHUNK) {
            let mut sum = [0i32; COLS];
            for k in k..row.am.len().min(k + CHUNK) {
                for j in 0..COLS {
                    // p · 2^(e−20) = (p << 5) · 2^(e−25).
                    let right = top[j].wrapping_sub(row.ae[k]).wrapping_sub(row.be[k][j]);
                    sum[j] = sum[j].wrapping_add(aligned((row.am[k] << 5).wrapping_mul(row.bm[k][j]), right));
                }
            }
            // Exact: fewer than 53 bits.
            for j in 0..COLS {
                total[j] += sum[j] as f64;
            }
        }
        let (mut out, mut odd) = ([0u32; COLS], row.sum.half);
        for j in 0..COLS {
            let bits = total[j].to_bits();
            let e = (bits >> 52 & 0x7ff) as i32 - 1023 + 127 + top[j] - 25;
            let zero = bits << 1 == 0;
            let normal = (bits >> 32) as u32 & 1 << 31 | (e as u32) << 23 | (bits >> 29) as u32 & 0x7f_ffff;
            out[j] = if zero { 0 } else { normal };
            odd |= !zero & !(1..=254).contains(&e);
        }
        if odd { Err((total, top)) } else { Ok(out) }
    }
}

/// One row of A times eight columns of B plus `c`: the fused sum of one instruction.
#[inline(always)]
fn fused<A: Adder>(
    sum: Sum,
    am: &[i32],
    ae: &[i32],
    bm: &[[i32; COLS]],
    be: &[[i32; COLS]],
    c: [u32; COLS],
    special: bool,
) -> [u32; COLS] {
    let (mut cm, mut ce) = ([0i32; COLS], [0i32; COLS]);
    let mut special = special;
    let (mantissa, top, bias) = if sum.half { (10, 31, 15) } else { (23, 255, 127) };
    let at = |c: u32| (c >> mantissa & top, c & ((1 << mantissa) - 1));
    for j in 0..COLS {
        let (exp, frac) = at(c[j]);
        let m = ((frac | ((exp != 0) as u32) << mantissa) << (25 - mantissa)) as i32;
        let negative = c[j] >> if sum.half { 15 } else { 31 } != 0;
        cm[j] = if negative { -m } else { m };
        ce[j] = if m == 0 { LOW } else { exp.max(1) as i32 - bias };
        special |= exp == top;
    }
    let mut out = match A::add(&Row { sum, am, ae, bm, be, cm, ce }) {
        Ok(out) => out,
        Err((total, top)) if sum.half => core::array::from_fn(|j| nearest(total[j], top[j] - 25)),
        Err((total, top)) => core::array::from_fn(|j| truncate(total[j] as i64, top[j] - 25)),
    };
    if sum.cut != 0 && !sum.half {
        out = out.map(|v| v & !0x3ff);
    }
    if special {
        for j in 0..COLS {
            let here = ae.iter().chain(be.iter().map(|e| &e[j])).any(|e| *e >= SPECIAL);
            if here || at(c[j]).0 == top {
                let c = if sum.half { float::F16.decode(c[j]) } else { f32::from_bits(c[j]) as f64 };
                let value = ieee(am, ae, bm, be, c, j);
                out[j] = if sum.half {
                    float::F16.encode(value, Rnd::Near)
                } else {
                    float::F32.encode(value, Rnd::Zero)
                };
            }
        }
    }
    out
}

/// s · 2^e, rounded to f16.
#[inline(never)]
fn nearest(s: f64, e: i32) -> u32 {
    if s == 0.0 { 0 } else { float::F16.encode(s * 2f64.powi(e), Rnd::Near) }
}

/// s · 2^e, truncated to f32.
#[inline(never)]
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
fn ieee(am: &[i32], ae: &[i32], bm: &[[i32; COLS]], be: &[[i32; COLS]], c: f64, j: usize) -> f64 {
    let value = |m: i32, e: i32| match (e == SPECIAL, m) {
        (true, 0) => f64::NAN,
        (true, _) => m as f64 * f64::INFINITY,
        _ => m as f64 * 2f64.powi((e - 10).max(-1000)),
    };
    // Finite sums stay finite in f64.
    (0..am.len()).fold(c, |sum, k| sum + value(am[k], ae[k]) * value(bm[k][j], be[k][j]))
}

/// A rounded sum of two f16: exact in f64.
fn add16(a: u32, b: u32) -> u32 {
    float::F16.encode(float::F16.decode(a) + float::F16.decode(b), Rnd::Near)
}

/// A block product: rows of A (each `k` elements) by eight columns of B, as bits.
pub(crate) struct Block<'a> {
    pub k: usize,
    pub a: &'a [u32],
    pub b: &'a [[u32; COLS]],
    pub a_ty: Ty,
    pub b_ty: Ty,
    pub neg_a: bool,
    pub neg_b: bool,
    /// 8-bit floats of `mma`: two passes over byte pairs.
    pub pairs: bool,
    /// 8-bit floats of `wgmma`: fewer bits.
    pub coarse: bool,
    /// The accumulators are f16, not f32.
    pub half: bool,
}

impl Block<'_> {
    /// D = A·B + C for each row.
    #[inline(always)]
    pub fn run<A: Adder>(&self, c: &mut [[u32; COLS]]) {
        let (n, k) = (self.a.len(), self.k);
        let sum = Sum { cut: if self.coarse { 12 } else { 0 }, half: self.half };
        let (mut am, mut ae) = ([0i32; MAX_ROWS * MAX_K], [0i32; MAX_ROWS * MAX_K]);
        let (mut bm, mut be) = ([[0i32; COLS]; MAX_K], [[0i32; COLS]; MAX_K]);
        let mut special = split_all(self.a_ty, self.pairs, self.neg_a, self.a, &mut am[..n], &mut ae[..n]);
        let (fm, fe) = (bm[..k].as_flattened_mut(), be[..k].as_flattened_mut());
        special |= split_all(self.b_ty, self.pairs, self.neg_b, self.b.as_flattened(), fm, fe);
        let rows = am[..n].chunks_exact(k).zip(ae[..n].chunks_exact(k));
        for ((m, e), c) in rows.zip(c) {
            if !self.pairs {
                *c = fused::<A>(sum, m, e, &bm[..k], &be[..k], *c, special);
                continue;
            }
            let half = |which: usize, acc: [u32; COLS]| {
                let (mut hm, mut he) = ([0; MAX_K / 2], [0; MAX_K / 2]);
                let (mut gm, mut ge) = ([[0; COLS]; MAX_K / 2], [[0; COLS]; MAX_K / 2]);
                for (to, i) in (0..k).filter(|i| i / 2 % 2 == which).enumerate() {
                    (hm[to], he[to], gm[to], ge[to]) = (m[i], e[i], bm[i], be[i]);
                }
                let h = k / 2;
                fused::<A>(sum, &hm[..h], &he[..h], &gm[..h], &ge[..h], acc, special)
            };
            let s = half(1, half(0, [0; COLS]));
            for j in 0..COLS {
                c[j] = if self.half { add16(s[j], c[j]) } else { float::add32::<false>(s[j], c[j]) };
            }
        }
    }
}
