//! `cvt` (PTX ISA §9.7.9.21): every pair of scalar types, on one lane.

use crate::alu::float::{self, BF16, E4M3, E5M2, F16, Format, NAN32};
use crate::op::{Fl, Rnd};
use crate::types::Ty;
use std::sync::LazyLock;

fn format(ty: Ty) -> Option<Format> {
    Some(match ty {
        Ty::F16 => F16,
        Ty::BF16 => BF16,
        Ty::F32 | Ty::TF32 => float::F32,
        Ty::E4M3 => E4M3,
        Ty::E5M2 => E5M2,
        _ => return None,
    })
}

fn sign_extend(v: u64, bits: u32) -> i128 {
    (((v as i64) << (64 - bits)) >> (64 - bits)) as i128
}

fn to_int(v: u64, ty: Ty) -> i128 {
    let bits = ty.bits();
    if ty.is_signed() {
        sign_extend(v, bits)
    } else if bits == 64 {
        v as i128
    } else {
        (v & ((1 << bits) - 1)) as i128
    }
}

fn int_range(ty: Ty) -> (i128, i128) {
    let b = ty.bits();
    if ty.is_signed() { (-(1 << (b - 1)), (1 << (b - 1)) - 1) } else { (0, (1 << b) - 1) }
}

/// Rounds to an integral value.
pub(crate) fn round(x: f64, rnd: Rnd) -> f64 {
    match rnd {
        Rnd::Near => x.round_ties_even(),
        Rnd::Zero => x.trunc(),
        Rnd::Down => x.floor(),
        Rnd::Up => x.ceil(),
        Rnd::Away => x.round(),
    }
}

fn load_float(v: u64, ty: Ty, ftz: bool) -> f64 {
    match ty {
        Ty::F64 => f64::from_bits(v),
        Ty::F32 | Ty::TF32 => f32::from_bits(if ftz { float::ftz(v as u32) } else { v as u32 }) as f64,
        // Only float types come here.
        _ => format(ty).map_or(0.0, |f| f.decode(v as u32 & ((1u64 << ty.bits()) - 1) as u32)),
    }
}

/// Converts one value. Integer results are sign- or zero-extended to 64 bits.
pub(crate) fn cvt(v: u64, from: Ty, to: Ty, fl: Fl) -> u64 {
    match (from.is_float(), to.is_float()) {
        (false, false) => {
            let x = to_int(v, from);
            let x = if fl.sat {
                let (lo, hi) = int_range(to);
                x.clamp(lo, hi)
            } else {
                x
            };
            // The register may be wider than the destination type: extend as that type says.
            to_int(x as u64, to) as u64
        }
        (true, false) => {
            let x = load_float(v, from, fl.ftz);
            let (lo, hi) = int_range(to);
            if x.is_nan() {
                // Hardware: 0 for 32 bits and less, the sign bit alone for 64 (PTX ISA §9.7.9.21).
                return match to.bits() {
                    64 => 1 << 63,
                    _ => 0,
                };
            }
            let r = round(x, fl.rnd);
            let r = if r >= hi as f64 {
                hi
            } else if r <= lo as f64 {
                lo
            } else {
                r as i128
            };
            r as u64
        }
        (false, true) => {
            let x = to_int(v, from);
            from_int(x, to, fl)
        }
        (true, true) => float_to_float(v, from, to, fl),
    }
}

/// An integer to a float type with exact rounding.
fn from_int(x: i128, to: Ty, fl: Fl) -> u64 {
    // Keep 53 bits and a sticky bit: enough for every narrower format.
    let mag = x.unsigned_abs();
    let len = 128 - mag.leading_zeros();
    let sign = if x < 0 { -1.0 } else { 1.0 };
    if to == Ty::F64 {
        if len <= 53 || fl.rnd == Rnd::Near {
            return (x as f64).to_bits();
        }
        let cut = len - 53;
        let up = match fl.rnd {
            Rnd::Up => x > 0,
            Rnd::Down => x < 0,
            _ => false,
        } && mag & ((1 << cut) - 1) != 0;
        let m = (mag >> cut) + up as u128;
        return (sign * (m as f64) * 2f64.powi(cut as i32)).to_bits();
    }
    let v = if len > 53 {
        let cut = len - 53;
        let m = (mag >> cut) | (mag & ((1 << cut) - 1) != 0) as u128;
        m as f64 * 2f64.powi(cut as i32)
    } else {
        mag as f64
    };
    let v = sign * v;
    let v = if x == 0 { 0.0 } else { v };
    let r = format(to).map_or(0, |f| f.encode(if fl.sat { v.clamp(0.0, 1.0) } else { v }, fl.rnd));
    r as u64
}

fn float_to_float(v: u64, from: Ty, to: Ty, fl: Fl) -> u64 {
    let x = load_float(v, from, fl.ftz);
    if to == Ty::TF32 {
        return to_tf32(v as u32, fl) as u64;
    }
    let x = if fl.sat { if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) } } else { x };
    let x = if fl.sat && x == 0.0 { 0.0 } else { x };
    if to == Ty::F64 {
        return if x.is_nan() { 0x7ff8_0000_0000_0000 } else { x.to_bits() };
    }
    let r = format(to).map_or(0, |f| {
        let r = f.encode(x, fl.rnd);
        if fl.relu && r & f.sign() != 0 && r != f.nan { 0 } else { r }
    });
    (if fl.ftz && to == Ty::F32 { float::ftz(r) } else { r }) as u64
}

fn to_tf32(bits: u32, fl: Fl) -> u32 {
    let x = f32::from_bits(bits);
    if x.is_nan() {
        return NAN32;
    }
    if fl.relu && bits >> 31 != 0 {
        return 0;
    }
    if x.is_infinite() {
        return bits;
    }
    let low = bits & 0x1fff;
    let up = match fl.rnd {
        Rnd::Zero => false,
        Rnd::Near => low > 0x1000 || (low == 0x1000 && bits & 0x2000 != 0),
        _ => low >= 0x1000,
    };
    (bits & !0x1fff) + if up { 0x2000 } else { 0 }
}

/// Two f32 into one packed register: `a` goes to the high half.
pub(crate) fn pack(ty: Ty, fl: Fl, a: u32, b: u32) -> u32 {
    let (fmt, width) = match ty {
        Ty::F16x2 => (F16, 16),
        Ty::BF16x2 => (BF16, 16),
        Ty::E4M3x2 => (E4M3, 8),
        _ => (E5M2, 8),
    };
    let one = |v: u32| {
        let x = f32::from_bits(v) as f64;
        let mut r = fmt.encode(x, fl.rnd);
        if fl.sat && r & (fmt.sign() - 1) == fmt.inf && fmt.inf != fmt.max {
            r = (r & fmt.sign()) | fmt.max;
        }
        if fl.relu && r & fmt.sign() != 0 && r != fmt.nan { 0 } else { r }
    };
    one(a) << width | one(b)
}

/// Two fp8 values of a b16 register to f16x2.
pub(crate) fn fp8_to_f16x2(e5m2: bool, fl: Fl, a: u32) -> u32 {
    static CODES: LazyLock<[[u16; 256]; 2]> = LazyLock::new(|| {
        [E4M3, E5M2].map(|fmt| std::array::from_fn(|v| F16.encode(fmt.decode(v as u32), Rnd::Near) as u16))
    });
    let codes = &CODES[usize::from(e5m2)];
    let one = |v: u32| {
        let r = u32::from(codes[(v & 0xff) as usize]);
        if fl.relu && r & 0x8000 != 0 && r != F16.nan { 0 } else { r }
    };
    one(a >> 8) << 16 | one(a)
}

/// f16x2 to two fp8 values.
pub(crate) fn f16x2_to_fp8(e5m2: bool, fl: Fl, a: u32) -> u32 {
    let fmt = if e5m2 { E5M2 } else { E4M3 };
    let one = |v: u32| {
        let r = fmt.encode(F16.decode(v & 0xffff), Rnd::Near);
        if fl.relu && r & 0x80 != 0 && r != fmt.nan { 0 } else { r }
    };
    one(a >> 16) << 8 | one(a)
}

#[inline(always)]
pub(crate) fn bf16_to_f32(v: u32) -> u32 {
    let r = v << 16;
    if f32::from_bits(r).is_nan() { NAN32 } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fl(rnd: Rnd) -> Fl {
        Fl { rnd, ..Fl::RN }
    }

    #[test]
    fn float_to_int_saturates_and_nan_is_zero() {
        let c = |x: f32, to| cvt(x.to_bits() as u64, Ty::F32, to, fl(Rnd::Zero));
        assert_eq!(c(3e9, Ty::S32) as u32, i32::MAX as u32);
        assert_eq!(c(-1.0, Ty::U32), 0);
        assert_eq!(c(f32::NAN, Ty::S32), 0);
        assert_eq!(c(f32::NAN, Ty::S64), 1 << 63);
        assert_eq!(c(-1.9, Ty::S32) as i32, -1);
        assert_eq!(cvt(2.5f32.to_bits() as u64, Ty::F32, Ty::S32, fl(Rnd::Near)), 2);
        assert_eq!(c(f32::INFINITY, Ty::U64), u64::MAX);
    }

    #[test]
    fn integers_extend_truncate_and_saturate() {
        assert_eq!(cvt(0xff, Ty::S8, Ty::S32, Fl::RN) as u32, !0);
        assert_eq!(cvt(0xff, Ty::U8, Ty::S32, Fl::RN), 0xff);
        assert_eq!(cvt(300, Ty::S32, Ty::U8, Fl { sat: true, ..Fl::RN }), 255);
        assert_eq!(cvt(-5i64 as u64, Ty::S32, Ty::U8, Fl { sat: true, ..Fl::RN }), 0);
        assert_eq!(cvt(0x1_0000_0001, Ty::U64, Ty::U32, Fl::RN), 1);
    }

    #[test]
    fn integers_to_floats_round_once() {
        let x = (1u64 << 53) + 1;
        assert_eq!(
            cvt(x, Ty::U64, Ty::F32, fl(Rnd::Up)),
            (2f32.powi(53) * (1.0 + f32::EPSILON)).to_bits() as u64
        );
        for v in [0u64, 1, 16_777_217, u64::MAX, 0x8000_0000_0000_0001] {
            assert_eq!(cvt(v, Ty::U64, Ty::F32, Fl::RN) as u32, (v as f32).to_bits());
            assert_eq!(cvt(v, Ty::S64, Ty::F32, Fl::RN) as u32, (v as i64 as f32).to_bits());
            assert_eq!(cvt(v, Ty::S64, Ty::F64, Fl::RN), (v as i64 as f64).to_bits());
        }
    }

    #[test]
    fn narrow_floats() {
        let c = |x: f32, to, f| cvt(x.to_bits() as u64, Ty::F32, to, f) as u32;
        assert_eq!(c(65520.0, Ty::F16, Fl::RN), 0x7c00);
        assert_eq!(c(65519.0, Ty::F16, Fl::RN), 0x7bff);
        assert_eq!(c(1e-8, Ty::F16, Fl::RN), 0);
        assert_eq!(c(-1.0, Ty::BF16, Fl { relu: true, ..Fl::RN }), 0);
        assert_eq!(c(1.0 + 1.0 / 2048.0, Ty::TF32, fl(Rnd::Away)), (1.0f32 + 1.0 / 1024.0).to_bits());
        assert_eq!(pack(Ty::BF16x2, Fl::RN, 1f32.to_bits(), 2f32.to_bits()), 0x3f80_4000);
        assert_eq!(pack(Ty::E4M3x2, Fl { sat: true, ..Fl::RN }, 1e9f32.to_bits(), 1f32.to_bits()), 0x7e38);
        assert_eq!(fp8_to_f16x2(false, Fl::RN, 0x7e38), 0x5f00_3c00);
    }
}
