//! Functions of `f32` that the hardware approximates too coarsely, or lacks.
//!
//! | function | method | largest error |
//! |---|---|---|
//! | exp | two-term reduction to [−½, ½] in base 2, `ex2.approx` | 3 ulp |
//! | exp2 | `ex2.approx` | 2 ulp |
//! | log | exponent and a polynomial on [⅔, 4⁄3) | 1 ulp |
//! | rsqrt | `rsqrt.approx` | 2 ulp |
//! | tanh | polynomial below 0.55, else 1 − 2/(e²ˣ + 1) | 3 ulp |
//!
//! Subnormal arguments and results count. The hardware's own errors (`ex2.approx` and `rsqrt.approx`: 2 ulp) are
//! those of PTX ISA, "Floating Point Instructions"; `sqrt` and `/` are correctly rounded.

use super::{Codegen, Result};
use inkwell::{
    FloatPredicate, IntPredicate,
    values::{FloatValue, IntValue},
};

/// log₂ e and what rounding it to `f32` loses.
const LOG2_E: [f64; 2] = [1.442_695_021_629_333_5, 1.925_963_033_500_917_4e-8];
/// 1.5·2²³: adding it leaves the nearest integer in the low mantissa bits.
const ROUND_SHIFT: f64 = 12_582_912.0;

impl<'c> Codegen<'c, '_> {
    fn float(&self, x: f64) -> FloatValue<'c> {
        self.context.f32_type().const_float(x)
    }

    fn int(&self, x: u32) -> IntValue<'c> {
        self.context.i32_type().const_int(x.into(), false)
    }

    fn bits_of(&self, x: FloatValue<'c>) -> Result<IntValue<'c>> {
        Ok(self.builder.build_bit_cast(x, self.context.i32_type(), "")?.into_int_value())
    }

    fn float_of_bits(&self, x: IntValue<'c>) -> Result<FloatValue<'c>> {
        Ok(self.builder.build_bit_cast(x, self.context.f32_type(), "")?.into_float_value())
    }

    fn choose(
        &self,
        condition: IntValue<'c>,
        a: FloatValue<'c>,
        b: FloatValue<'c>,
    ) -> Result<FloatValue<'c>> {
        Ok(self.builder.build_select(condition, a, b, "")?.into_float_value())
    }

    /// Horner's scheme, highest coefficient first.
    fn polynomial(&self, x: FloatValue<'c>, coefficients: &[f64]) -> Result<FloatValue<'c>> {
        coefficients[1..]
            .iter()
            .try_fold(self.float(coefficients[0]), |sum, &c| self.fma(sum, x, self.float(c)))
    }

    /// eˣ = 2ⁿ · 2ᵗ with n = round(x·log₂e), t = x·log₂e − n in two terms, |t| ≤ ½.
    ///
    /// n is clamped so that 2ⁿ is a normal number; beyond, t carries the rest, which overflows to ∞ or rounds
    /// once in the subnormal range. A NaN survives in t.
    pub(super) fn exp(&self, x: FloatValue<'c>) -> Result<FloatValue<'c>> {
        let builder = &self.builder;
        let bounded = self.float_call("llvm.maxnum", &[x, self.float(-86.0)])?;
        let bounded = self.float_call("llvm.minnum", &[bounded, self.float(87.0)])?;
        let shifted = self.fma(bounded, self.float(LOG2_E[0]), self.float(ROUND_SHIFT))?;
        let n = builder.build_float_sub(shifted, self.float(ROUND_SHIFT), "")?;
        let minus_n = builder.build_float_neg(n, "")?;
        let t = self.fma(x, self.float(LOG2_E[0]), minus_n)?;
        let t = self.fma(x, self.float(LOG2_E[1]), t)?;
        let fraction = self.float_call("llvm.nvvm.ex2.approx", &[t])?;
        // The exponent field is 8 bits wide: the shift drops everything above n mod 2⁹.
        let exponent = builder.build_left_shift(self.bits_of(shifted)?, self.int(23), "")?;
        let scale = self.float_of_bits(builder.build_int_add(exponent, self.int(0x3f80_0000), "")?)?;
        Ok(builder.build_float_mul(fraction, scale, "")?)
    }

    pub(super) fn exp2(&self, x: FloatValue<'c>) -> Result<FloatValue<'c>> {
        self.float_call("llvm.nvvm.ex2.approx", &[x])
    }

    /// log x = e·log 2 + log m with m in [⅔, 4⁄3), log m by a polynomial in m − 1.
    pub(super) fn log(&self, x: FloatValue<'c>) -> Result<FloatValue<'c>> {
        let builder = &self.builder;
        let below = |bound: f64| builder.build_float_compare(FloatPredicate::OLT, x, self.float(bound), "");
        // Subnormals are scaled by 2²³ first.
        let subnormal = below(f64::from(f32::MIN_POSITIVE))?;
        let scaled = builder.build_float_mul(x, self.float(8_388_608.0), "")?;
        let a = self.choose(subnormal, scaled, x)?;
        let bias = self.choose(subnormal, self.float(-23.0), self.float(0.0))?;

        let bits = self.bits_of(a)?;
        let above = builder.build_int_sub(bits, self.int(0x3f2a_aaab), "")?;
        let exponent = builder.build_and(above, self.int(0xff80_0000), "")?;
        let m = self.float_of_bits(builder.build_int_sub(bits, exponent, "")?)?;
        let e = builder.build_signed_int_to_float(exponent, self.context.f32_type(), "")?;
        let e = self.fma(e, self.float(f64::from(f32::EPSILON)), bias)?;

        let f = builder.build_float_sub(m, self.float(1.0), "")?;
        let s = builder.build_float_mul(f, f, "")?;
        let even = self.polynomial(s, &[-0.130_310_059, -0.121_483_512, -0.166_846_126, -0.249_996_2])?;
        let odd = self.polynomial(s, &[0.140_869_141, 0.139_814_854, 0.200_120_345])?;
        let r = self.fma(odd, f, even)?;
        let r = self.fma(r, f, self.float(0.333_331_972))?;
        let r = self.fma(r, f, self.float(-0.5))?;
        let r = self.fma(r, s, f)?;
        let r = self.fma(e, self.float(std::f64::consts::LN_2), r)?;

        // +∞ and NaN are their own logarithms; 0 gives −∞, less gives NaN.
        let exponent_field = builder.build_and(bits, self.int(0x7f80_0000), "")?;
        let special =
            builder.build_int_compare(IntPredicate::EQ, exponent_field, self.int(0x7f80_0000), "")?;
        let r = self.choose(special, a, r)?;
        let r = self.choose(below(0.0)?, self.float(f64::NAN), r)?;
        let zero = builder.build_float_compare(FloatPredicate::OEQ, x, self.float(0.0), "")?;
        self.choose(zero, self.float(f64::NEG_INFINITY), r)
    }

    pub(super) fn rsqrt(&self, x: FloatValue<'c>) -> Result<FloatValue<'c>> {
        Ok(self.call("llvm.nvvm.rsqrt.approx.f", &[], &[x.into()])?.into_float_value())
    }

    /// Rounded to nearest, ties away from zero.
    pub(super) fn tf32(&self, x: FloatValue<'c>) -> Result<FloatValue<'c>> {
        self.float_of_bits(self.call("llvm.nvvm.f2tf32.rna", &[], &[x.into()])?.into_int_value())
    }

    /// An odd polynomial near 0, 1 − 2/(e²ˣ + 1) elsewhere, both computed.
    pub(super) fn tanh(&self, x: FloatValue<'c>) -> Result<FloatValue<'c>> {
        let builder = &self.builder;
        let magnitude = self.float_call("llvm.fabs", &[x])?;
        let doubled = builder.build_float_add(magnitude, magnitude, "")?;
        let power = builder.build_float_add(self.exp(doubled)?, self.float(1.0), "")?;
        let quotient = builder.build_float_div(self.float(-2.0), power, "")?;
        let large = builder.build_float_add(quotient, self.float(1.0), "")?;
        let large = self.float_call("llvm.copysign", &[large, x])?;

        let s = builder.build_float_mul(x, x, "")?;
        let p = self.polynomial(s, &[1.573_944_1e-2, -5.230_255_8e-2, 1.331_529_77e-1, -3.333_276_8e-1])?;
        let p = builder.build_float_mul(p, s, "")?;
        let small = self.fma(p, x, x)?;
        let near = builder.build_float_compare(FloatPredicate::OLT, magnitude, self.float(0.55), "")?;
        self.choose(near, small, large)
    }
}
