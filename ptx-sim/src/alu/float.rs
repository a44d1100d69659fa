//! Scalar floating-point semantics of PTX (PTX ISA §9.7.3–9.7.5).
//!
//! Small formats are computed in f64 rounded to odd, which makes the final rounding exact.

use crate::op::{FOp, Fl, Rnd};

/// The NaN that PTX arithmetic on f32 produces.
pub(crate) const NAN32: u32 = 0x7fff_ffff;

#[inline(always)]
pub(crate) fn canon(x: f32) -> u32 {
    if x.is_nan() { NAN32 } else { x.to_bits() }
}

#[inline(always)]
pub(crate) fn ftz(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

#[inline(always)]
fn flush<const FTZ: bool>(bits: u32) -> f32 {
    f32::from_bits(if FTZ { ftz(bits) } else { bits })
}

#[inline(always)]
fn out<const FTZ: bool>(x: f32) -> u32 {
    let r = canon(x);
    if FTZ { ftz(r) } else { r }
}

#[inline(always)]
pub(crate) fn fma32<const FTZ: bool>(a: u32, b: u32, c: u32) -> u32 {
    out::<FTZ>(flush::<FTZ>(a).mul_add(flush::<FTZ>(b), flush::<FTZ>(c)))
}

#[inline(always)]
pub(crate) fn add32<const FTZ: bool>(a: u32, b: u32) -> u32 {
    out::<FTZ>(flush::<FTZ>(a) + flush::<FTZ>(b))
}

#[inline(always)]
pub(crate) fn mul32<const FTZ: bool>(a: u32, b: u32) -> u32 {
    out::<FTZ>(flush::<FTZ>(a) * flush::<FTZ>(b))
}

/// A binary floating-point format narrower than f64.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    /// Fraction bits.
    pub frac: u32,
    pub ebits: u32,
    /// Largest finite encoding without sign; larger values overflow to `inf`.
    pub max: u32,
    /// Encoding of infinity, or of what overflow saturates to.
    pub inf: u32,
    pub nan: u32,
}

pub(crate) const F16: Format = Format { frac: 10, ebits: 5, max: 0x7bff, inf: 0x7c00, nan: 0x7fff };
pub(crate) const BF16: Format = Format { frac: 7, ebits: 8, max: 0x7f7f, inf: 0x7f80, nan: 0x7fff };
pub(crate) const F32: Format = Format { frac: 23, ebits: 8, max: 0x7f7f_ffff, inf: 0x7f80_0000, nan: NAN32 };
/// tf32 keeps the f32 layout with 10 fraction bits.
pub(crate) const E4M3: Format = Format { frac: 3, ebits: 4, max: 0x7e, inf: 0x7e, nan: 0x7f };
pub(crate) const E5M2: Format = Format { frac: 2, ebits: 5, max: 0x7b, inf: 0x7b, nan: 0x7f };

impl Format {
    pub fn sign(self) -> u32 {
        1 << (self.frac + self.ebits)
    }

    fn bias(self) -> i32 {
        (1 << (self.ebits - 1)) - 1
    }

    #[inline]
    pub fn decode(self, bits: u32) -> f64 {
        let mag = bits & (self.sign() - 1);
        let v = if mag >> self.frac == 0 {
            mag as f64 * pow2(1 - self.bias() - self.frac as i32)
        } else if mag <= self.max {
            // Exponent and fraction lie side by side in f64, too.
            let more = (1023 - self.bias()) as u64;
            f64::from_bits(((mag as u64) << (52 - self.frac)) + (more << 52))
        } else if mag == self.inf || self.ebits == 5 && self.frac == 2 && mag == 0x7c {
            // e5m2 has an infinity that arithmetic here never produces.
            f64::INFINITY
        } else {
            f64::NAN
        };
        if bits & self.sign() != 0 { -v } else { v }
    }

    /// Rounds to the format. `x` must be exact, or rounded to odd with at least two more fraction bits.
    #[inline]
    pub fn encode(self, x: f64, rnd: Rnd) -> u32 {
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        let bits = x.to_bits() & !(1 << 63);
        let more = (1023 - self.bias()) as u64;
        // Most numbers are normal ones of the format before and after they are rounded to the nearest.
        if rnd == Rnd::Near && bits >> 52 > more && bits >> 52 < 0x7ff {
            let cut = 52 - self.frac;
            let up = (1 << (cut - 1)) - 1 + (bits >> cut & 1);
            let field = ((bits + up) >> cut) - (more << self.frac);
            if field <= self.max as u64 {
                return sign | field as u32;
            }
        }
        self.encode_any(x, rnd)
    }

    /// The same for every number and way of rounding.
    fn encode_any(self, x: f64, rnd: Rnd) -> u32 {
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        if x.is_nan() {
            return self.nan;
        }
        let a = x.abs();
        if a.is_infinite() {
            return sign | self.inf;
        }
        if a == 0.0 {
            return sign;
        }
        let bias = self.bias();
        let bits = a.to_bits();
        let e = ((bits >> 52) as i32) - 1023;
        let (mant, e) = if e == -1023 {
            // f64 subnormals are far below every format here.
            (1u64, -1074)
        } else {
            ((bits & ((1 << 52) - 1)) | 1 << 52, e)
        };
        // The exponent of the last kept bit.
        let lsb = (e.max(1 - bias) - self.frac as i32).min(2000);
        let shift = lsb - (e - 52);
        let (kept, rest, half) = if shift >= 64 || e == -1074 {
            (0u64, 1u64, 2u64)
        } else {
            (mant >> shift, mant & ((1 << shift) - 1), 1u64 << (shift - 1))
        };
        let up = match rnd {
            Rnd::Near => rest > half || (rest == half && kept & 1 == 1),
            Rnd::Away => rest >= half,
            Rnd::Zero => false,
            Rnd::Down => sign != 0 && rest != 0,
            Rnd::Up => sign == 0 && rest != 0,
        };
        let q = kept + up as u64;
        // `q` includes the hidden bit for normal numbers, so adding it to the exponent field carries right.
        let field = if e < 1 - bias { q } else { (((e + bias - 1) as u64) << self.frac) + q };
        if field > self.max as u64 {
            let to_max = match rnd {
                Rnd::Zero => true,
                Rnd::Down => sign == 0,
                Rnd::Up => sign != 0,
                _ => false,
            };
            return sign | if to_max { self.max } else { self.inf };
        }
        sign | field as u32
    }
}

fn pow2(e: i32) -> f64 {
    if e < -1022 {
        f64::from_bits(1u64 << (e + 1074).max(0))
    } else {
        f64::from_bits(((e + 1023) as u64) << 52)
    }
}

/// s + err as one f64 whose last bit is sticky (round to odd).
fn to_odd(s: f64, err: f64) -> f64 {
    if err == 0.0 || !s.is_finite() || s.to_bits() & 1 == 1 {
        return s;
    }
    let b = s.to_bits();
    if (err > 0.0) == (s > 0.0) { f64::from_bits(b + 1) } else { f64::from_bits(b - 1) }
}

pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let s = a + b;
    if !s.is_finite() {
        return s;
    }
    let t = s - a;
    let err = (a - (s - t)) + (b - t);
    if s == 0.0 && err != 0.0 { err } else { to_odd(s, err) }
}

/// The sign of an exact zero sum depends on the rounding mode.
fn fix_zero(r: f64, rnd: Rnd, a: f64, b: f64) -> f64 {
    let positive_zeros = a.to_bits() == 0 && b.to_bits() == 0;
    if r == 0.0 && rnd == Rnd::Down && !positive_zeros { -0.0 } else { r }
}

/// `op` on exact f64 images of a format of at most 24 significant bits, rounded to odd.
pub(crate) fn exact_op(op: FOp, fl: Fl, a: f64, b: f64, c: f64) -> f64 {
    match op {
        FOp::Add => fix_zero(add_odd(a, b), fl.rnd, a, b),
        FOp::Sub => fix_zero(add_odd(a, -b), fl.rnd, a, -b),
        FOp::Mul => a * b,
        FOp::Fma => fix_zero(add_odd(a * b, c), fl.rnd, a * b, c),
        FOp::Min | FOp::Max => min_max(op == FOp::Min, fl, a, b),
        FOp::Abs => a.abs(),
        FOp::Neg => -a,
        FOp::Div => {
            let q = a / b;
            if q.is_finite() && q != 0.0 {
                let r = (-q).mul_add(b, a);
                to_odd(q, if b < 0.0 { -r } else { r })
            } else {
                q
            }
        }
        FOp::Rcp => exact_op(FOp::Div, fl, 1.0, a, 0.0),
        FOp::Sqrt => {
            let q = a.sqrt();
            if q.is_finite() && q != 0.0 { to_odd(q, (-q).mul_add(q, a)) } else { q }
        }
        FOp::Rsqrt => 1.0 / a.sqrt(),
        FOp::Ex2 => a.exp2(),
        FOp::Lg2 => a.log2(),
        FOp::Tanh => a.tanh(),
        FOp::Sin => a.sin(),
        FOp::Cos => a.cos(),
        FOp::Copysign => b.abs().copysign(a),
    }
}

fn min_max(min: bool, fl: Fl, a: f64, b: f64) -> f64 {
    let (x, y) = if fl.xorsign { (a.abs(), b.abs()) } else { (a, b) };
    let r = if x.is_nan() || y.is_nan() {
        if fl.nan || (x.is_nan() && y.is_nan()) {
            return f64::NAN;
        }
        if x.is_nan() { y } else { x }
    } else if x == y {
        // -0 is below +0.
        if (x.is_sign_negative()) == min { x } else { y }
    } else if (x < y) == min {
        x
    } else {
        y
    };
    if fl.xorsign && a.is_sign_negative() != b.is_sign_negative() { -r } else { r }
}

/// One f32 operation with any modifiers.
pub(crate) fn f32_op(op: FOp, fl: Fl, a: u32, b: u32, c: u32) -> u32 {
    let f = |x: u32| f32::from_bits(if fl.ftz { ftz(x) } else { x }) as f64;
    match op {
        FOp::Abs => return fin(fl, a & 0x7fff_ffff),
        FOp::Neg => return fin(fl, a ^ 0x8000_0000),
        FOp::Copysign => return (a & 0x8000_0000) | (b & 0x7fff_ffff),
        _ => {}
    }
    let mut r = F32.encode(exact_op(op, fl, f(a), f(b), f(c)), fl.rnd);
    if fl.sat {
        r = saturate32(r);
    }
    if fl.relu && (r & 0x8000_0000 != 0) && r != NAN32 {
        r = 0;
    }
    fin(fl, r)
}

fn fin(fl: Fl, r: u32) -> u32 {
    if fl.ftz { ftz(r) } else { r }
}

/// Clamps to [0, 1]; NaN becomes +0.
pub(crate) fn saturate32(r: u32) -> u32 {
    let v = f32::from_bits(r);
    if v.is_nan() || v <= 0.0 {
        0
    } else if v > 1.0 {
        1f32.to_bits()
    } else {
        r
    }
}

/// One operation of a 16-bit format.
pub(crate) fn small_op(fmt: Format, op: FOp, fl: Fl, a: u32, b: u32, c: u32) -> u32 {
    let sign = fmt.sign();
    let flush = |x: u32| if fl.ftz && (x & (sign - 1)) >> fmt.frac == 0 { x & sign } else { x };
    match op {
        FOp::Abs => return flush(a & (sign - 1)),
        FOp::Neg => return flush(a ^ sign),
        _ => {}
    }
    let f = |x: u32| fmt.decode(flush(x));
    let v = exact_op(op, fl, f(a), f(b), f(c));
    if fl.sat {
        return fmt.encode(if v.is_nan() { 0.0 } else { v.clamp(0.0, 1.0) }, fl.rnd) & (sign - 1);
    }
    let r = fmt.encode(v, fl.rnd);
    if fl.relu && r & sign != 0 && r != fmt.nan {
        return 0;
    }
    flush(r)
}

/// One f64 operation, rounded to nearest.
pub(crate) fn f64_op(op: FOp, fl: Fl, a: u64, b: u64, c: u64) -> u64 {
    let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
    let r = match op {
        FOp::Add => x + y,
        FOp::Sub => x - y,
        FOp::Mul => x * y,
        FOp::Fma => x.mul_add(y, z),
        FOp::Div => x / y,
        FOp::Rcp => 1.0 / x,
        FOp::Sqrt => x.sqrt(),
        FOp::Abs => return a & !(1 << 63),
        FOp::Neg => return a ^ 1 << 63,
        FOp::Copysign => return (a & 1 << 63) | (b & !(1 << 63)),
        _ => exact_op(op, fl, x, y, z),
    };
    if r.is_nan() { 0x7ff8_0000_0000_0000 } else { r.to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_and_bf16_value_survives_a_round_trip() {
        for fmt in [F16, BF16] {
            for bits in 0..=0xffffu32 {
                let v = fmt.decode(bits);
                if v.is_nan() {
                    assert!((bits & 0x7fff) > fmt.inf);
                } else {
                    assert_eq!(fmt.encode(v, Rnd::Near), bits);
                }
            }
        }
        for fmt in [E4M3, E5M2] {
            for bits in 0..=0xffu32 {
                let v = fmt.decode(bits);
                if v.is_finite() {
                    assert_eq!(fmt.encode(v, Rnd::Near), bits, "{bits:x}");
                }
            }
        }
    }

    #[test]
    fn the_short_way_of_rounding_is_the_long_one() {
        let mut s = 0x9e37_79b9_7f4a_7c15u64;
        for n in 0..400_000u64 {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            // Exponents of all formats, and mantissas that lie on ties or beside them.
            let (exponent, cut) = (1023 - 160 + (s >> 20) % 320, (s >> 40) % 52);
            let mantissa = (s & ((1 << 52) - 1)) >> cut << cut;
            let mantissa = mantissa.wrapping_add(n % 3).wrapping_sub(1) & ((1 << 52) - 1);
            let x = f64::from_bits(s >> 63 << 63 | exponent << 52 | mantissa);
            for fmt in [F32, F16, BF16, E4M3, E5M2] {
                assert_eq!(fmt.encode(x, Rnd::Near), fmt.encode_any(x, Rnd::Near), "{x:e} in {fmt:?}");
            }
        }
    }

    #[test]
    fn f32_through_the_soft_path_equals_the_hardware() {
        let mut s = 0x1234_5678_9abc_def0u64;
        let mut next = || {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            s as u32
        };
        for _ in 0..20_000 {
            let (a, b, c) = (next(), next(), next());
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            for (op, want) in [
                (FOp::Add, x + y),
                (FOp::Mul, x * y),
                (FOp::Div, x / y),
                (FOp::Fma, x.mul_add(y, z)),
                (FOp::Sqrt, x.sqrt()),
            ] {
                assert_eq!(f32_op(op, Fl::RN, a, b, c), canon(want), "{op:?} {a:x} {b:x} {c:x}");
            }
        }
    }

    #[test]
    fn directed_rounding_brackets_the_exact_value() {
        let (a, b) = (1f32.to_bits(), 2f32.powi(-30).to_bits());
        let r = |rnd| f32::from_bits(f32_op(FOp::Add, Fl { rnd, ..Fl::RN }, a, b, 0));
        assert_eq!(r(Rnd::Near), 1.0);
        assert_eq!(r(Rnd::Down), 1.0);
        assert_eq!(r(Rnd::Zero), 1.0);
        assert_eq!(r(Rnd::Up), 1.0 + f32::EPSILON);
        // x - x is -0 only when rounding down.
        assert_eq!(f32_op(FOp::Sub, Fl { rnd: Rnd::Down, ..Fl::RN }, a, a, 0), 0x8000_0000);
        assert_eq!(f32_op(FOp::Sub, Fl::RN, a, a, 0), 0);
    }

    #[test]
    fn min_and_max_follow_ieee_2008_unless_nan_is_asked_for() {
        let nan = f32::NAN.to_bits();
        let one = 1f32.to_bits();
        assert_eq!(f32_op(FOp::Min, Fl::RN, nan, one, 0), one);
        assert_eq!(f32_op(FOp::Max, Fl::RN, one, nan, 0), one);
        assert_eq!(f32_op(FOp::Max, Fl { nan: true, ..Fl::RN }, one, nan, 0), NAN32);
        assert_eq!(f32_op(FOp::Min, Fl::RN, 0, 0x8000_0000, 0), 0x8000_0000);
        assert_eq!(f32_op(FOp::Max, Fl::RN, 0, 0x8000_0000, 0), 0);
    }

    #[test]
    fn saturation_and_flushing() {
        assert_eq!(saturate32(f32::NAN.to_bits()), 0);
        assert_eq!(saturate32((-3f32).to_bits()), 0);
        assert_eq!(saturate32(3f32.to_bits()), 1f32.to_bits());
        assert_eq!(ftz(0x8000_0001), 0x8000_0000);
        assert_eq!(add32::<true>(1, 1), 0);
        assert_eq!(add32::<false>(1, 1), 2);
    }
}
