//! Vector loops of register-only instructions over 32 lanes.
//!
//! Everything here is `#[inline(always)]` and free of target assumptions: [`crate::simd`] instantiates it once
//! for the baseline and once with AVX2 and FMA enabled, where the loops become vector code.

use crate::alu::float::{self, BF16, F16, Format};
use crate::alu::{convert, int};
use crate::op::{Alu, BoolOp, Cmp, FOp, Fl, PSrc, Slot, W};
use crate::types::Ty;

/// An array over the lanes; a plain loop, so that it is compiled with the features of the function it is in.
macro_rules! lanes {
    ($i:ident => $e:expr) => {{
        let mut out = [0; 32];
        for $i in 0..32 {
            out[$i] = $e;
        }
        out
    }};
}

/// One 32-bit register of all lanes.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes(pub [u32; 32]);

impl Lanes {
    pub const ZERO: Lanes = Lanes([0; 32]);
}

/// The register file of one warp.
#[derive(Debug, Default)]
pub(crate) struct Regs {
    pub r: Vec<Lanes>,
    pub p: Vec<u32>,
}

impl Regs {
    #[inline(always)]
    fn get(&self, s: Slot) -> [u32; 32] {
        self.r[s as usize].0
    }

    /// A 64-bit register as whole values.
    #[inline(always)]
    pub fn get64(&self, s: Slot) -> [u64; 32] {
        let (lo, hi) = (&self.r[s as usize].0, &self.r[s as usize + 1].0);
        lanes!(i => lo[i] as u64 | (hi[i] as u64) << 32)
    }

    #[inline(always)]
    pub fn put(&mut self, d: Slot, v: &[u32; 32], mask: u32) {
        let dst = &mut self.r[d as usize].0;
        if mask == !0 {
            *dst = *v;
        } else {
            for i in 0..32 {
                dst[i] = if mask >> i & 1 != 0 { v[i] } else { dst[i] };
            }
        }
    }

    #[inline(always)]
    pub fn put64(&mut self, d: Slot, v: &[u64; 32], mask: u32) {
        self.put(d, &lanes!(i => v[i] as u32), mask);
        self.put(d + 1, &lanes!(i => (v[i] >> 32) as u32), mask);
    }

    #[inline(always)]
    fn m1(&mut self, d: Slot, a: Slot, mask: u32, f: impl Fn(u32) -> u32) {
        let x = self.get(a);
        self.put(d, &lanes!(i => f(x[i])), mask);
    }

    #[inline(always)]
    fn m2(&mut self, d: Slot, a: Slot, b: Slot, mask: u32, f: impl Fn(u32, u32) -> u32) {
        let (x, y) = (self.get(a), self.get(b));
        self.put(d, &lanes!(i => f(x[i], y[i])), mask);
    }

    #[inline(always)]
    fn m3(&mut self, d: Slot, a: Slot, b: Slot, c: Slot, mask: u32, f: impl Fn(u32, u32, u32) -> u32) {
        let (x, y, z) = (self.get(a), self.get(b), self.get(c));
        self.put(d, &lanes!(i => f(x[i], y[i], z[i])), mask);
    }

    #[inline(always)]
    fn w2(&mut self, d: Slot, a: Slot, b: Slot, mask: u32, f: impl Fn(u64, u64) -> u64) {
        let (x, y) = (self.get64(a), self.get64(b));
        self.put64(d, &lanes!(i => f(x[i], y[i])), mask);
    }

    /// 64-bit with a 32-bit second operand (shifts).
    #[inline(always)]
    fn w64_32(&mut self, d: Slot, a: Slot, b: Slot, mask: u32, f: impl Fn(u64, u32) -> u64) {
        let (x, y) = (self.get64(a), self.get(b));
        self.put64(d, &lanes!(i => f(x[i], y[i])), mask);
    }

    /// 32-bit sources, 64-bit result.
    #[inline(always)]
    fn wide2(&mut self, d: Slot, a: Slot, b: Slot, mask: u32, f: impl Fn(u32, u32) -> u64) {
        let (x, y) = (self.get(a), self.get(b));
        self.put64(d, &lanes!(i => f(x[i], y[i])), mask);
    }
}

/// How many bits the operands and the result of a lane-at-a-time operation have: (result, a, b, c) in slots.
fn shape(k: Alu) -> [u32; 4] {
    let w = |w: W| if w == W::W64 { 2 } else { 1 };
    match k {
        Alu::MulHi(x, _) | Alu::Div(x, _) | Alu::Rem(x, _) => [w(x); 4],
        Alu::MadHi(x, _) | Alu::Sad(x, _) => [w(x); 4],
        Alu::Cnot(x) | Alu::Brev(x) => [w(x), w(x), 0, 0],
        Alu::Bfe(x, _) => [w(x), w(x), 1, 1],
        Alu::Bfi(x) => [w(x), w(x), w(x), 1],
        Alu::Bfind(x, _, _) | Alu::Clz(x) | Alu::Popc(x) => [1, w(x), 0, 0],
        _ => [1; 4],
    }
}

/// Runs one arithmetic instruction for the lanes of `mask`.
#[inline(always)]
pub(crate) fn alu(r: &mut Regs, k: Alu, d: Slot, a: Slot, b: Slot, c: Slot, e: Slot, mask: u32) {
    use Alu::*;
    use W::*;
    match k {
        FmaF32(false) => r.m3(d, a, b, c, mask, float::fma32::<false>),
        FmaF32(true) => r.m3(d, a, b, c, mask, float::fma32::<true>),
        AddF32(false) => r.m2(d, a, b, mask, float::add32::<false>),
        AddF32(true) => r.m2(d, a, b, mask, float::add32::<true>),
        MulF32(false) => r.m2(d, a, b, mask, float::mul32::<false>),
        MulF32(true) => r.m2(d, a, b, mask, float::mul32::<true>),
        Mov32 => r.m1(d, a, mask, |x| x),
        Mov64 => {
            r.m1(d, a, mask, |x| x);
            r.m1(d + 1, a + 1, mask, |x| x);
        }
        Add(W32) => r.m2(d, a, b, mask, |x, y| x.wrapping_add(y)),
        Add(W16) => r.m2(d, a, b, mask, |x, y| x.wrapping_add(y) & 0xffff),
        Add(W64) => r.w2(d, a, b, mask, |x, y| x.wrapping_add(y)),
        Sub(W32) => r.m2(d, a, b, mask, |x, y| x.wrapping_sub(y)),
        Sub(W16) => r.m2(d, a, b, mask, |x, y| x.wrapping_sub(y) & 0xffff),
        Sub(W64) => r.w2(d, a, b, mask, |x, y| x.wrapping_sub(y)),
        MulLo(W32) => r.m2(d, a, b, mask, |x, y| x.wrapping_mul(y)),
        MulLo(W16) => r.m2(d, a, b, mask, |x, y| x.wrapping_mul(y) & 0xffff),
        MulLo(W64) => r.w2(d, a, b, mask, |x, y| x.wrapping_mul(y)),
        MulWide(W16, true) => {
            r.m2(d, a, b, mask, |x, y| (x as i16 as i32).wrapping_mul(y as i16 as i32) as u32)
        }
        MulWide(W16, false) => r.m2(d, a, b, mask, |x, y| (x & 0xffff).wrapping_mul(y & 0xffff)),
        MulWide(_, true) => r.wide2(d, a, b, mask, |x, y| (x as i32 as i64 * y as i32 as i64) as u64),
        MulWide(_, false) => r.wide2(d, a, b, mask, |x, y| x as u64 * y as u64),
        MadLo(W32) => r.m3(d, a, b, c, mask, |x, y, z| x.wrapping_mul(y).wrapping_add(z)),
        MadLo(W16) => r.m3(d, a, b, c, mask, |x, y, z| x.wrapping_mul(y).wrapping_add(z) & 0xffff),
        MadLo(W64) => {
            let (x, y, z) = (r.get64(a), r.get64(b), r.get64(c));
            r.put64(d, &lanes!(i => x[i].wrapping_mul(y[i]).wrapping_add(z[i])), mask);
        }
        MadWide(W16, s) => {
            if s {
                r.m3(d, a, b, c, mask, |x, y, z| {
                    (x as i16 as i32 * y as i16 as i32).wrapping_add(z as i32) as u32
                })
            } else {
                r.m3(d, a, b, c, mask, |x, y, z| ((x & 0xffff).wrapping_mul(y & 0xffff)).wrapping_add(z))
            }
        }
        MadWide(_, s) => {
            let (x, y, z) = (r.get(a), r.get(b), r.get64(c));
            let v: [u64; 32] = if s {
                lanes!(i => ((x[i] as i32 as i64 * y[i] as i32 as i64) as u64).wrapping_add(z[i]))
            } else {
                lanes!(i => (x[i] as u64 * y[i] as u64).wrapping_add(z[i]))
            };
            r.put64(d, &v, mask);
        }
        MinRelu => r.m2(d, a, b, mask, |x, y| (x as i32).min(y as i32).max(0) as u32),
        MaxRelu => r.m2(d, a, b, mask, |x, y| (x as i32).max(y as i32).max(0) as u32),
        Min(W32, true) => r.m2(d, a, b, mask, |x, y| (x as i32).min(y as i32) as u32),
        Min(W32, false) => r.m2(d, a, b, mask, |x, y| x.min(y)),
        Max(W32, true) => r.m2(d, a, b, mask, |x, y| (x as i32).max(y as i32) as u32),
        Max(W32, false) => r.m2(d, a, b, mask, |x, y| x.max(y)),
        Min(W16, s) | Max(W16, s) => {
            let min = matches!(k, Min(..));
            r.m2(d, a, b, mask, |x, y| {
                let less = if s { (x as i16) < y as i16 } else { x as u16 <= y as u16 };
                (if less == min { x } else { y }) & 0xffff
            })
        }
        Min(W64, true) => r.w2(d, a, b, mask, |x, y| (x as i64).min(y as i64) as u64),
        Min(W64, false) => r.w2(d, a, b, mask, |x, y| x.min(y)),
        Max(W64, true) => r.w2(d, a, b, mask, |x, y| (x as i64).max(y as i64) as u64),
        Max(W64, false) => r.w2(d, a, b, mask, |x, y| x.max(y)),
        Abs(W32) => r.m1(d, a, mask, |x| (x as i32).wrapping_abs() as u32),
        Abs(W16) => r.m1(d, a, mask, |x| (x as i16).wrapping_abs() as u16 as u32),
        Abs(W64) => r.w2(d, a, a, mask, |x, _| (x as i64).wrapping_abs() as u64),
        NegI(W32) => r.m1(d, a, mask, |x| x.wrapping_neg()),
        NegI(W16) => r.m1(d, a, mask, |x| x.wrapping_neg() & 0xffff),
        NegI(W64) => r.w2(d, a, a, mask, |x, _| x.wrapping_neg()),
        And(W64) => r.w2(d, a, b, mask, |x, y| x & y),
        And(_) => r.m2(d, a, b, mask, |x, y| x & y),
        Or(W64) => r.w2(d, a, b, mask, |x, y| x | y),
        Or(_) => r.m2(d, a, b, mask, |x, y| x | y),
        Xor(W64) => r.w2(d, a, b, mask, |x, y| x ^ y),
        Xor(_) => r.m2(d, a, b, mask, |x, y| x ^ y),
        Not(W64) => r.w2(d, a, a, mask, |x, _| !x),
        Not(W32) => r.m1(d, a, mask, |x| !x),
        Not(W16) => r.m1(d, a, mask, |x| !x & 0xffff),
        Shl(W32) => r.m2(d, a, b, mask, int::shl32),
        Shl(W16) => r.m2(d, a, b, mask, |x, n| int::shl32(x, n) & 0xffff),
        Shl(W64) => r.w64_32(d, a, b, mask, |x, n| if n < 64 { x << n } else { 0 }),
        Shr(W32, false) => r.m2(d, a, b, mask, int::shr32),
        Shr(W32, true) => r.m2(d, a, b, mask, int::sar32),
        Shr(W16, false) => r.m2(d, a, b, mask, |x, n| int::shr32(x & 0xffff, n)),
        Shr(W16, true) => r.m2(d, a, b, mask, |x, n| int::sar32(x as i16 as i32 as u32, n) & 0xffff),
        Shr(W64, false) => r.w64_32(d, a, b, mask, |x, n| if n < 64 { x >> n } else { 0 }),
        Shr(W64, true) => r.w64_32(d, a, b, mask, |x, n| ((x as i64) >> n.min(63)) as u64),
        Lop3(t) => r.m3(d, a, b, c, mask, |x, y, z| int::lop3(x, y, z, t)),
        Prmt => r.m3(d, a, b, c, mask, |x, y, z| int::prmt(x, y, z, 0)),
        Shf(left, wrap) => r.m3(d, a, b, c, mask, |lo, hi, n| {
            let n = if wrap { n & 31 } else { n.min(32) };
            let v = (hi as u64) << 32 | lo as u64;
            if left { ((v << n) >> 32) as u32 } else { (v >> n) as u32 }
        }),
        Pack16 => r.m2(d, a, b, mask, |lo, hi| lo & 0xffff | hi << 16),
        Lo16 => r.m1(d, a, mask, |x| x & 0xffff),
        Hi16 => r.m1(d, a, mask, |x| x >> 16),
        Pack32 => {
            let (lo, hi) = (r.get(a), r.get(b));
            r.put(d, &lo, mask);
            r.put(d + 1, &hi, mask);
        }
        F32(op, fl) => f32_alu(r, op, fl, d, a, b, c, mask),
        F64(op, fl) => {
            let (x, y, z) = (r.get64(a), r.get64(b), r.get64(c));
            r.put64(d, &lanes!(i => float::f64_op(op, fl, x[i], y[i], z[i])), mask);
        }
        F16(op, fl) => small(r, float::F16, false, op, fl, d, a, b, c, mask),
        F16x2(op, fl) => small(r, float::F16, true, op, fl, d, a, b, c, mask),
        BF16(op, fl) => small(r, float::BF16, false, op, fl, d, a, b, c, mask),
        BF16x2(op, fl) => small(r, float::BF16, true, op, fl, d, a, b, c, mask),
        Cvt(from, to, fl) => cvt(r, from, to, fl, d, a, mask),
        CvtPack(ty, fl) => r.m2(d, a, b, mask, |x, y| convert::pack(ty, fl, x, y)),
        CvtFp8ToF16x2(e5, fl) => r.m1(d, a, mask, |x| convert::fp8_to_f16x2(e5, fl, x)),
        CvtF16x2ToFp8(e5, fl) => r.m1(d, a, mask, |x| convert::f16x2_to_fp8(e5, fl, x)),
        RoundF32(fl) => r.m1(d, a, mask, |x| {
            let x = if fl.ftz { float::ftz(x) } else { x };
            let v = float::canon(convert::round(f32::from_bits(x) as f64, fl.rnd) as f32);
            if fl.sat { float::saturate32(v) } else { v }
        }),
        RoundF16(fl) => r.m1(d, a, mask, |x| {
            float::F16.encode(convert::round(float::F16.decode(x), fl.rnd), crate::op::Rnd::Near)
        }),
        RoundF64(fl) => r.w2(d, a, a, mask, |x, _| convert::round(f64::from_bits(x), fl.rnd).to_bits()),
        Testp(kind, wide) => {
            let mut m = 0;
            let (x, y) = (r.get(a), if wide { r.get64(a) } else { [0; 32] });
            for i in 0..32 {
                let v = if wide { f64::from_bits(y[i]) } else { f32::from_bits(x[i]) as f64 };
                let sub = if wide {
                    f64::from_bits(y[i]).is_subnormal()
                } else {
                    f32::from_bits(x[i]).is_subnormal()
                };
                let t = match kind {
                    0 => v.is_finite(),
                    1 => v.is_infinite(),
                    2 => !v.is_nan(),
                    3 => v.is_nan(),
                    4 => v.is_finite() && v != 0.0 && !sub,
                    _ => sub,
                };
                m |= (t as u32) << i;
            }
            let p = &mut r.p[d as usize];
            *p = (*p & !mask) | (m & mask);
        }
        _ => lane_by_lane(r, k, d, a, b, c, e, mask),
    }
}

/// Rare operations: one lane at a time.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn lane_by_lane(r: &mut Regs, k: Alu, d: Slot, a: Slot, b: Slot, c: Slot, e: Slot, mask: u32) {
    let [sd, sa, sb, sc] = shape(k);
    let load = |s: Slot, slots: u32, i: usize| match slots {
        0 => 0,
        1 => r.r[s as usize].0[i] as u64,
        _ => r.r[s as usize].0[i] as u64 | (r.r[s as usize + 1].0[i] as u64) << 32,
    };
    let narrow = matches!(
        k,
        Alu::MulHi(W::W16, _)
            | Alu::MadHi(W::W16, _)
            | Alu::Div(W::W16, _)
            | Alu::Rem(W::W16, _)
            | Alu::Cnot(W::W16)
            | Alu::Sad(W::W16, _)
    );
    let mut out = [0u64; 32];
    for (i, o) in out.iter_mut().enumerate() {
        if mask >> i & 1 != 0 {
            let fourth = if matches!(k, Alu::Bfi(_)) { load(e, 1, i) } else { 0 };
            *o = int::scalar(k, load(a, sa, i), load(b, sb, i), load(c, sc, i), fourth);
            if narrow {
                *o &= 0xffff;
            }
        }
    }
    if sd == 2 {
        r.put64(d, &out, mask);
    } else {
        r.put(d, &lanes!(i => out[i] as u32), mask);
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn f32_alu(r: &mut Regs, op: FOp, fl: Fl, d: Slot, a: Slot, b: Slot, c: Slot, mask: u32) {
    let f = |x: u32| f32::from_bits(if fl.ftz { float::ftz(x) } else { x });
    if fl.plain() {
        let o = |x: f32| {
            let v = float::canon(x);
            if fl.ftz { float::ftz(v) } else { v }
        };
        match op {
            FOp::Sub => return r.m2(d, a, b, mask, |x, y| o(f(x) - f(y))),
            FOp::Div => return r.m2(d, a, b, mask, |x, y| o(f(x) / f(y))),
            FOp::Rcp => return r.m1(d, a, mask, |x| o(1.0 / f(x))),
            FOp::Sqrt => return r.m1(d, a, mask, |x| o(f(x).sqrt())),
            FOp::Abs if !fl.ftz => return r.m1(d, a, mask, |x| x & 0x7fff_ffff),
            FOp::Neg if !fl.ftz => return r.m1(d, a, mask, |x| x ^ 0x8000_0000),
            FOp::Max | FOp::Min => {
                let min = op == FOp::Min;
                return r.m2(d, a, b, mask, |x, y| {
                    let (u, v) = (f(x), f(y));
                    // Equal values differ at most in the sign of zero.
                    let tie = if min { u.to_bits() | v.to_bits() } else { u.to_bits() & v.to_bits() };
                    let pick = if (u < v) == min { u } else { v };
                    let res = if u == v { f32::from_bits(tie) } else { pick };
                    let res = if u.is_nan() {
                        v
                    } else if v.is_nan() {
                        u
                    } else {
                        res
                    };
                    float::canon(res)
                });
            }
            _ => {}
        }
    }
    let (x, y, z) = (r.get(a), r.get(b), r.get(c));
    let mut out = [0; 32];
    for i in 0..32 {
        if mask >> i & 1 != 0 {
            out[i] = float::f32_op(op, fl, x[i], y[i], z[i]);
        }
    }
    r.put(d, &out, mask);
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn small(
    r: &mut Regs,
    fmt: Format,
    pair: bool,
    op: FOp,
    fl: Fl,
    d: Slot,
    a: Slot,
    b: Slot,
    c: Slot,
    mask: u32,
) {
    let (x, y, z) = (r.get(a), r.get(b), r.get(c));
    let mut out = [0; 32];
    for i in 0..32 {
        if mask >> i & 1 != 0 {
            let lo = float::small_op(fmt, op, fl, x[i] & 0xffff, y[i] & 0xffff, z[i] & 0xffff);
            out[i] = if pair {
                float::small_op(fmt, op, fl, x[i] >> 16, y[i] >> 16, z[i] >> 16) << 16 | lo
            } else {
                lo
            };
        }
    }
    r.put(d, &out, mask);
}

#[inline(always)]
fn cvt(r: &mut Regs, from: Ty, to: Ty, fl: Fl, d: Slot, a: Slot, mask: u32) {
    use Ty::*;
    if !fl.sat && !fl.relu && !fl.ftz {
        match (from, to) {
            (S32 | U32 | B32, S32 | U32 | B32) => return r.m1(d, a, mask, |x| x),
            (U64 | S64 | B64, U32 | S32 | B32) => return r.m1(d, a, mask, |x| x),
            (U32 | B32, U64 | S64 | B64) => return r.wide2(d, a, a, mask, |x, _| x as u64),
            (S32, S64 | U64 | B64) => return r.wide2(d, a, a, mask, |x, _| x as i32 as i64 as u64),
            (U16 | B16, U32 | S32 | B32) => return r.m1(d, a, mask, |x| x & 0xffff),
            (S16, S32 | U32 | B32) => return r.m1(d, a, mask, |x| x as i16 as i32 as u32),
            (U32 | S32 | B32, U16 | B16) => return r.m1(d, a, mask, |x| x & 0xffff),
            (U8 | B8, U32 | S32 | B32 | U16 | S16 | B16) => return r.m1(d, a, mask, |x| x & 0xff),
            (S32, F32) if fl.rnd == crate::op::Rnd::Near => {
                return r.m1(d, a, mask, |x| (x as i32 as f32).to_bits());
            }
            (U32, F32) if fl.rnd == crate::op::Rnd::Near => {
                return r.m1(d, a, mask, |x| (x as f32).to_bits());
            }
            (F32, S32) if fl.rnd == crate::op::Rnd::Zero => {
                return r.m1(d, a, mask, |x| (f32::from_bits(x) as i32) as u32);
            }
            (F32, U32) if fl.rnd == crate::op::Rnd::Zero => {
                return r.m1(d, a, mask, |x| f32::from_bits(x) as u32);
            }
            (BF16, F32) => return r.m1(d, a, mask, convert::bf16_to_f32),
            (F32, BF16) if fl.rnd == crate::op::Rnd::Near => return r.m1(d, a, mask, f32_to_bf16),
            (F16, F32) => return r.m1(d, a, mask, f16_to_f32),
            _ => {}
        }
    }
    let wide = from.bits() == 64;
    let (lo, all) = (r.get(a), if wide { r.get64(a) } else { [0; 32] });
    let mut out = [0u64; 32];
    for i in 0..32 {
        if mask >> i & 1 != 0 {
            out[i] = convert::cvt(if wide { all[i] } else { lo[i] as u64 }, from, to, fl);
        }
    }
    if to.bits() == 64 {
        r.put64(d, &out, mask);
    } else {
        let keep = if to.bits() <= 16 && to.is_float() { 0xffff } else { !0 };
        r.put(d, &lanes!(i => out[i] as u32 & keep), mask);
    }
}

#[inline(always)]
fn f32_to_bf16(x: u32) -> u32 {
    let r = (x.wrapping_add(0x7fff + (x >> 16 & 1))) >> 16;
    if f32::from_bits(x).is_nan() { 0x7fff } else { r }
}

#[inline(always)]
fn f16_to_f32(x: u32) -> u32 {
    let sign = (x & 0x8000) << 16;
    let mag = x & 0x7fff;
    // Normal numbers rebias; subnormals are exact multiples of 2^-24.
    let normal = (mag << 13).wrapping_add(112 << 23);
    let sub = (mag as f32 * (1.0 / 16_777_216.0)).to_bits();
    let r = if mag >= 0x7c00 {
        0x7f80_0000
    } else if mag < 0x400 {
        sub
    } else {
        normal
    };
    if mag > 0x7c00 { float::NAN32 } else { sign | r }
}

/// Bits of the lanes in which the comparison holds.
#[inline(always)]
pub(crate) fn compare(r: &Regs, cmp: Cmp, ty: Ty, ftz: bool, a: Slot, b: Slot) -> u32 {
    let bits = |f: &dyn Fn(usize) -> bool| (0..32).fold(0u32, |m, i| m | (f(i) as u32) << i);
    let (x, y) = (&r.r[a as usize].0, &r.r[b as usize].0);
    macro_rules! int32 {
        ($t:ty) => {{
            macro_rules! arm {
                ($op:tt) => {{
                    let mut m = 0u32;
                    for i in 0..32 {
                        m |= (((x[i] as $t) $op (y[i] as $t)) as u32) << i;
                    }
                    m
                }};
            }
            match cmp {
                Cmp::Eq => arm!(==),
                Cmp::Ne => arm!(!=),
                Cmp::Lt => arm!(<),
                Cmp::Le => arm!(<=),
                Cmp::Gt => arm!(>),
                _ => arm!(>=),
            }
        }};
    }
    match ty {
        Ty::S32 => int32!(i32),
        Ty::U32 | Ty::B32 => int32!(u32),
        Ty::S16 => int32!(i16),
        Ty::U16 | Ty::B16 => int32!(u16),
        Ty::S64 => {
            let (x, y) = (r.get64(a), r.get64(b));
            bits(&|i| int::compare(cmp, x[i] as i64, y[i] as i64))
        }
        Ty::F32 => {
            let f = |v: u32| f32::from_bits(if ftz { float::ftz(v) } else { v }) as f64;
            bits(&|i| int::compare_f(cmp, f(x[i]), f(y[i])))
        }
        Ty::F64 => {
            let (x, y) = (r.get64(a), r.get64(b));
            bits(&|i| int::compare_f(cmp, f64::from_bits(x[i]), f64::from_bits(y[i])))
        }
        Ty::F16 => bits(&|i| int::compare_f(cmp, F16.decode(x[i] & 0xffff), F16.decode(y[i] & 0xffff))),
        Ty::BF16 => bits(&|i| int::compare_f(cmp, BF16.decode(x[i] & 0xffff), BF16.decode(y[i] & 0xffff))),
        _ => {
            let (x, y) = (r.get64(a), r.get64(b));
            bits(&|i| int::compare(cmp, x[i], y[i]))
        }
    }
}

#[inline(always)]
pub(crate) fn combine(op: BoolOp, a: u32, b: u32) -> u32 {
    match op {
        BoolOp::And => a & b,
        BoolOp::Or => a | b,
        BoolOp::Xor => a ^ b,
    }
}

/// `setp`: both destinations.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn setp(r: &mut Regs, t: u32, bop: BoolOp, c: PSrc, has_c: bool, d: Slot, q: Slot, mask: u32) {
    let (yes, no) = if has_c {
        let cv = c.lanes(&r.p);
        (combine(bop, t, cv), combine(bop, !t, cv))
    } else {
        (t, !t)
    };
    put_pred(r, d, yes, mask);
    put_pred(r, q, no, mask);
}

/// Writes the predicate of the lanes of `mask`; the sink takes anything.
#[inline(always)]
pub(crate) fn put_pred(r: &mut Regs, d: Slot, v: u32, mask: u32) {
    if d != crate::op::SINK {
        let p = &mut r.p[d as usize];
        *p = (*p & !mask) | (v & mask);
    }
}

#[inline(always)]
pub(crate) fn selp(r: &mut Regs, slots: u32, d: Slot, a: Slot, b: Slot, p: PSrc, mask: u32) {
    let t = p.lanes(&r.p);
    for k in 0..slots {
        let (x, y) = (r.get(a + k), r.get(b + k));
        r.put(d + k, &lanes!(i => if t >> i & 1 != 0 { x[i] } else { y[i] }), mask);
    }
}

#[inline(always)]
pub(crate) fn pred_op(r: &mut Regs, op: BoolOp, d: Slot, a: PSrc, b: PSrc, mask: u32) {
    let v = combine(op, a.lanes(&r.p), b.lanes(&r.p));
    put_pred(r, d, v, mask);
}
