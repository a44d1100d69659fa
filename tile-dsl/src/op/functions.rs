//! Code of functions of `f32` that the hardware approximates too coarsely, or lacks.
//!
//! | function | method | largest error |
//! |---|---|---|
//! | exp | two-term reduction to [−½, ½] in base 2, `ex2.approx.ftz` | 3 ulp |
//! | exp2 | `ex2.approx.ftz` | 2 ulp; 0 below 2⁻¹²⁶ |
//! | log | exponent and a polynomial on [⅔, 4⁄3) | 1 ulp |
//! | rsqrt | `rsqrt.approx` | 2 ulp |
//! | tanh | polynomial below 0.55, else 1 − 2/(e²ˣ + 1) | 3 ulp |
//!
//! Subnormal arguments and results count, but those of `exp2`, where the instructions that keep them would be four for one. The
//! hardware's own errors (`ex2.approx` and `rsqrt.approx`: 2 ulp) are
//! those of PTX ISA, "Floating Point Instructions"; `sqrt` and `/` are correctly rounded.

/// A value of a [`Machine`]: an `f32`, 32 bits, or a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub usize);

/// Functions that the hardware has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `abs.f32`.
    Abs,
    /// `sqrt.rn.f32`.
    Sqrt,
    /// `copysign.f32`: the first operand with the sign of the second.
    CopySign,
    /// `max.f32`: the other one where one is NaN.
    Max,
    /// `min.f32`: the other one where one is NaN.
    Min,
    /// `max.NaN.f32`: NaN where one is.
    Maximum,
    /// `min.NaN.f32`: NaN where one is.
    Minimum,
    /// `ex2.approx.ftz.f32`: subnormal arguments and results are 0.
    Ex2,
    /// `rsqrt.approx.f32`.
    Rsqrt,
    /// `cvt.rna.tf32.f32`: to nearest, ties away from zero.
    Tf32,
}

/// What makes instructions, one at a time. Each method gives a new value. Operands have the type that a method is for.
pub trait Machine {
    /// Whether the operand was widened from fewer bits than `f32` has.
    fn narrow(&self) -> bool;
    /// A constant `f32`.
    fn float(&mut self, x: f64) -> Reg;
    /// Constant bits.
    fn int(&mut self, x: u32) -> Reg;
    /// `-x`.
    fn neg(&mut self, x: Reg) -> Reg;
    /// `a + b`.
    fn add(&mut self, a: Reg, b: Reg) -> Reg;
    /// `a - b`.
    fn sub(&mut self, a: Reg, b: Reg) -> Reg;
    /// `a * b`.
    fn mul(&mut self, a: Reg, b: Reg) -> Reg;
    /// `a / b`, correctly rounded.
    fn div(&mut self, a: Reg, b: Reg) -> Reg;
    /// `a * b + c`, rounded once.
    fn fma(&mut self, a: Reg, b: Reg, c: Reg) -> Reg;
    /// A function of the hardware.
    fn call(&mut self, function: Function, args: &[Reg]) -> Reg;
    /// The bits of an `f32`.
    fn bits(&mut self, x: Reg) -> Reg;
    /// The `f32` of bits.
    fn of_bits(&mut self, x: Reg) -> Reg;
    /// The `f32` nearest to a signed integer.
    fn of_int(&mut self, x: Reg) -> Reg;
    /// Sum of integers, modulo 2³².
    fn int_add(&mut self, a: Reg, b: Reg) -> Reg;
    /// Difference of integers, modulo 2³².
    fn int_sub(&mut self, a: Reg, b: Reg) -> Reg;
    /// The bits that both have.
    fn int_and(&mut self, a: Reg, b: Reg) -> Reg;
    /// Bits shifted to the left.
    fn int_shl(&mut self, a: Reg, b: Reg) -> Reg;
    /// Whether bits are equal.
    fn int_eq(&mut self, a: Reg, b: Reg) -> Reg;
    /// Whether `a < b`; false for NaN.
    fn less(&mut self, a: Reg, b: Reg) -> Reg;
    /// Whether `a == b`; false for NaN.
    fn equal(&mut self, a: Reg, b: Reg) -> Reg;
    /// `a` where the condition holds, else `b`.
    fn select(&mut self, condition: Reg, a: Reg, b: Reg) -> Reg;
}

/// log₂ e and what rounding it to `f32` loses.
const LOG2_E: [f64; 2] = [1.442_695_021_629_333_5, 1.925_963_033_500_917_4e-8];
/// 1.5·2²³: adding it leaves the nearest integer in the low mantissa bits.
const ROUND_SHIFT: f64 = 12_582_912.0;

/// The nearest whole number: below 2²³ adding that leaves no fraction, and from there on there is none.
pub(super) fn round(m: &mut dyn Machine, x: Reg) -> Reg {
    let whole = m.float(8_388_608.0);
    let size = m.call(Function::Abs, &[x]);
    let shifted = m.add(size, whole);
    let rounded = m.sub(shifted, whole);
    let signed = m.call(Function::CopySign, &[rounded, x]);
    let has_fraction = m.less(size, whole);
    m.select(has_fraction, signed, x)
}

/// Horner's scheme, highest coefficient first.
fn polynomial(m: &mut dyn Machine, x: Reg, coefficients: &[f64]) -> Reg {
    let highest = m.float(coefficients[0]);
    coefficients[1..].iter().fold(highest, |sum, c| {
        let c = m.float(*c);
        m.fma(sum, x, c)
    })
}

/// eˣ = 2ⁿ · 2ᵗ with n = round(x·log₂e), t = x·log₂e − n in two terms, |t| ≤ ½.
///
/// n is clamped so that 2ⁿ is a normal number; beyond, t carries the rest, which overflows to ∞ or rounds
/// once in the subnormal range. A NaN survives in t.
pub(super) fn exp(m: &mut dyn Machine, x: Reg) -> Reg {
    let [least, most] = [-86.0, 87.0].map(|x| m.float(x));
    let [log2_e, rest] = LOG2_E.map(|x| m.float(x));
    let shift = m.float(ROUND_SHIFT);
    let bounded = m.call(Function::Max, &[x, least]);
    let bounded = m.call(Function::Min, &[bounded, most]);
    let shifted = m.fma(bounded, log2_e, shift);
    let n = m.sub(shifted, shift);
    let minus_n = m.neg(n);
    let t = m.fma(x, log2_e, minus_n);
    let t = m.fma(x, rest, t);
    let fraction = m.call(Function::Ex2, &[t]);
    // The exponent field is 8 bits wide: the shift drops everything above n mod 2⁹.
    let (bits, by) = (m.bits(shifted), m.int(23));
    let exponent = m.int_shl(bits, by);
    let one = m.int(0x3f80_0000);
    let scale = m.int_add(exponent, one);
    let scale = m.of_bits(scale);
    m.mul(fraction, scale)
}

/// log x = e·log 2 + log m with m in [⅔, 4⁄3), log m by a polynomial in m − 1.
pub(super) fn log(m: &mut dyn Machine, x: Reg) -> Reg {
    let [zero, one] = [0.0, 1.0].map(|x| m.float(x));
    // Subnormals are scaled by 2²³ first.
    let least = m.float(f64::from(f32::MIN_POSITIVE));
    let subnormal = m.less(x, least);
    let (factor, shift) = (m.float(8_388_608.0), m.float(-23.0));
    let scaled = m.mul(x, factor);
    let a = m.select(subnormal, scaled, x);
    let bias = m.select(subnormal, shift, zero);

    let bits = m.bits(a);
    let (two_thirds, mask) = (m.int(0x3f2a_aaab), m.int(0xff80_0000));
    let above = m.int_sub(bits, two_thirds);
    let exponent = m.int_and(above, mask);
    let mantissa = m.int_sub(bits, exponent);
    let mantissa = m.of_bits(mantissa);
    let e = m.of_int(exponent);
    let unit = m.float(f64::from(f32::EPSILON));
    let e = m.fma(e, unit, bias);

    let f = m.sub(mantissa, one);
    let s = m.mul(f, f);
    let even = polynomial(m, s, &[-0.130_310_059, -0.121_483_512, -0.166_846_126, -0.249_996_2]);
    let odd = polynomial(m, s, &[0.140_869_141, 0.139_814_854, 0.200_120_345]);
    let r = m.fma(odd, f, even);
    let [third, half] = [0.333_331_972, -0.5].map(|x| m.float(x));
    let r = m.fma(r, f, third);
    let r = m.fma(r, f, half);
    let r = m.fma(r, s, f);
    let ln_2 = m.float(std::f64::consts::LN_2);
    let r = m.fma(e, ln_2, r);

    // +∞ and NaN are their own logarithms; 0 gives −∞, less gives NaN.
    let field = m.int(0x7f80_0000);
    let exponent_field = m.int_and(bits, field);
    let special = m.int_eq(exponent_field, field);
    let r = m.select(special, a, r);
    let negative = m.less(x, zero);
    let [nan, infinite] = [f64::NAN, f64::NEG_INFINITY].map(|x| m.float(x));
    let r = m.select(negative, nan, r);
    let is_zero = m.equal(x, zero);
    m.select(is_zero, infinite, r)
}

/// An odd polynomial near 0, 1 − 2/(e²ˣ + 1) elsewhere, both computed.
pub(super) fn tanh(m: &mut dyn Machine, x: Reg) -> Reg {
    let [one, two] = [1.0, -2.0].map(|x| m.float(x));
    let magnitude = m.call(Function::Abs, &[x]);
    let doubled = m.add(magnitude, magnitude);
    let power = exp(m, doubled);
    let power = m.add(power, one);
    let quotient = m.div(two, power);
    let large = m.add(quotient, one);
    let large = m.call(Function::CopySign, &[large, x]);

    let s = m.mul(x, x);
    let p = polynomial(m, s, &[1.573_944_1e-2, -5.230_255_8e-2, 1.331_529_77e-1, -3.333_276_8e-1]);
    let p = m.mul(p, s);
    let small = m.fma(p, x, x);
    let bound = m.float(0.55);
    let near = m.less(magnitude, bound);
    m.select(near, small, large)
}
