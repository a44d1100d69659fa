//! Numerics of the tensor cores, bit for bit as recorded on an H200.
//!
//! One instruction is one fused sum: the exact products, and the accumulator, are aligned to the largest exponent
//! E among them (that of a product being the sum of its factors', unnormalised), each truncated toward zero at
//! 2^(E−25), added exactly, and the sum is truncated to f32. 8-bit `mma` is two such sums over byte pairs {0,1}
//! and {2,3} from zero, then a rounded addition of the accumulator. Infinities and NaN follow IEEE; they are not
//! in the recorded data, and neither are f16 accumulators, which are rounded to nearest here.

use crate::alu::float::{self, NAN32};
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

/// Splits an element into a signed mantissa with the leading bit at 2^10, and an exponent. `FN`: no infinities, and the
/// one NaN has all bits set.
#[inline(always)]
fn split<const MAN: u32, const EXP: u32, const FN: bool>(v: u32, negate: u32) -> (i32, i32) {
    let bias = (1 << (EXP - 1)) - 1;
    let man = v & ((1 << MAN) - 1);
    let exp = (v >> MAN & ((1 << EXP) - 1)) as i32;
    // Subnormals: the conversion to f32 finds the leading bit.
    let g = (man as i32 as f32).to_bits();
    let sub = (((g & 0x7f_ffff) | 0x80_0000) >> 13, (g >> 23) as i32 - 127 - MAN as i32 + 1 - bias);
    let normal = ((man | 1 << MAN) << (10 - MAN), exp - bias);
    let (m, e) = if exp == 0 { sub } else { normal };
    let (m, e) = if exp == 0 && man == 0 { (0, LOW) } else { (m, e) };
    let top = exp == (1 << EXP) - 1;
    let special = if FN { top && man == (1 << MAN) - 1 } else { top };
    let (m, e) = if special { ((!FN && man == 0) as u32, SPECIAL) } else { (m, e) };
    let sign = ((v >> (MAN + EXP) & 1) ^ negate).wrapping_neg() as i32;
    ((m as i32 ^ sign).wrapping_sub(sign), e)
}

/// Splits elements; `true` if one is infinite or NaN.
#[inline(always)]
fn split_all(ty: Ty, negate: bool, v: &[u32], m: &mut [i32], e: &mut [i32]) -> bool {
    macro_rules! each {
        ($f:expr) => {
            for ((v, m), e) in v.iter().zip(m.iter_mut()).zip(e.iter_mut()) {
                (*m, *e) = $f(*v);
            }
        };
    }
    let n = negate as u32;
    match ty {
        Ty::F16 => each!(|v| split::<10, 5, false>(v, n)),
        Ty::BF16 => each!(|v| split::<7, 8, false>(v, n)),
        Ty::TF32 => each!(|v: u32| split::<10, 8, false>(v >> 13, n)),
        Ty::E4M3 => each!(|v| split::<3, 4, true>(v, n)),
        _ => each!(|v| split::<2, 5, false>(v, n)),
    }
    e.iter().fold(false, |s, e| s | (*e >= SPECIAL))
}

/// One row of A and eight columns of B, split, with the exponents and mantissas (leading bit at 2^25) of C.
pub(crate) struct Row<'a> {
    pub am: &'a [i32],
    pub ae: &'a [i32],
    pub bm: &'a [[i32; COLS]],
    pub be: &'a [[i32; COLS]],
    pub cm: [i32; COLS],
    pub ce: [i32; COLS],
}

/// How a machine adds up a row.
pub(crate) trait Adder {
    /// The fused sums as f32 bits; `Err`, in units of 2^(exponent − 25), if one is not a normal number.
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
        let (mut out, mut odd) = ([0u32; COLS], false);
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
    am: &[i32],
    ae: &[i32],
    bm: &[[i32; COLS]],
    be: &[[i32; COLS]],
    c: [u32; COLS],
    special: bool,
) -> [u32; COLS] {
    let (mut cm, mut ce) = ([0i32; COLS], [0i32; COLS]);
    let mut special = special;
    for j in 0..COLS {
        let (exp, frac) = ((c[j] >> 23 & 0xff) as i32, c[j] & 0x7f_ffff);
        // A subnormal accumulator is normalised.
        let shift = frac.leading_zeros() as i32 - 8;
        let sub = if frac == 0 { (0, LOW) } else { ((frac << (shift & 31)) as i32, -126 - shift) };
        let (m, e) = if exp == 0 { sub } else { ((frac | 1 << 23) as i32, exp - 127) };
        cm[j] = if c[j] >> 31 != 0 { -m } else { m } << 2;
        ce[j] = e;
        special |= exp == 255;
    }
    let mut out = match A::add(&Row { am, ae, bm, be, cm, ce }) {
        Ok(out) => out,
        Err((total, top)) => core::array::from_fn(|j| truncate(total[j] as i64, top[j] - 25)),
    };
    if special {
        for j in 0..COLS {
            let here = ae.iter().chain(be.iter().map(|e| &e[j])).any(|e| *e >= SPECIAL);
            if here || c[j] >> 23 & 0xff == 255 {
                out[j] = ieee(am, ae, bm, be, c[j], j);
            }
        }
    }
    out
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
fn ieee(am: &[i32], ae: &[i32], bm: &[[i32; COLS]], be: &[[i32; COLS]], c: u32, j: usize) -> u32 {
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
    for k in 0..am.len() {
        let p = value(am[k], ae[k]) * value(bm[k][j], be[k][j]);
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

/// A block product: rows of A (each `k` elements) by eight columns of B, as bits.
pub(crate) struct Block<'a> {
    pub k: usize,
    pub a: &'a [u32],
    pub b: &'a [[u32; COLS]],
    pub a_ty: Ty,
    pub b_ty: Ty,
    pub neg_a: bool,
    pub neg_b: bool,
    /// 8-bit operands of `mma`: two passes over byte pairs.
    pub pairs: bool,
}

impl Block<'_> {
    /// D = A·B + C for each row.
    #[inline(always)]
    pub fn run<A: Adder>(&self, c: &mut [[u32; COLS]]) {
        let (n, k) = (self.a.len(), self.k);
        let (mut am, mut ae) = ([0i32; MAX_ROWS * MAX_K], [0i32; MAX_ROWS * MAX_K]);
        let (mut bm, mut be) = ([[0i32; COLS]; MAX_K], [[0i32; COLS]; MAX_K]);
        let mut special = split_all(self.a_ty, self.neg_a, self.a, &mut am[..n], &mut ae[..n]);
        let (fm, fe) = (bm[..k].as_flattened_mut(), be[..k].as_flattened_mut());
        special |= split_all(self.b_ty, self.neg_b, self.b.as_flattened(), fm, fe);
        let rows = am[..n].chunks_exact(k).zip(ae[..n].chunks_exact(k));
        for ((m, e), c) in rows.zip(c) {
            if !self.pairs {
                *c = fused::<A>(m, e, &bm[..k], &be[..k], *c, special);
                continue;
            }
            let half = |which: usize, acc: [u32; COLS]| {
                let (mut hm, mut he) = ([0; MAX_K / 2], [0; MAX_K / 2]);
                let (mut gm, mut ge) = ([[0; COLS]; MAX_K / 2], [[0; COLS]; MAX_K / 2]);
                for (to, i) in (0..k).filter(|i| i / 2 % 2 == which).enumerate() {
                    (hm[to], he[to], gm[to], ge[to]) = (m[i], e[i], bm[i], be[i]);
                }
                let h = k / 2;
                fused::<A>(&hm[..h], &he[..h], &gm[..h], &ge[..h], acc, special)
            };
            let s = half(1, half(0, [0; COLS]));
            for j in 0..COLS {
                c[j] = float::add32::<false>(s[j], c[j]);
            }
        }
    }
}
