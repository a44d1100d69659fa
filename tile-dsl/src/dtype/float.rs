//! Formats of binary floating-point numbers, with one reader and one writer for all of them.
//!
//! A number is a sign, an exponent with a bias, and a mantissa whose leading one is not stored; the smallest exponent has
//! subnormal numbers. What the largest exponent means differs: [`Specials`].

/// What codes with the largest exponent mean, and what becomes of numbers that are too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// IEEE 754: infinities and NaN. A number that is too large becomes infinite.
    Ieee,
    /// OCP 8-bit Floating Point Specification 1.0, E4M3: the code of all ones is NaN, the others are numbers. A number
    /// that is too large, and an infinity, become the largest one (`satfinite` in PTX). NaN is written without its sign.
    OneNan,
}

/// A format of at most 32 bits: a sign, then the exponent, then the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Float {
    /// Bits of the exponent, at most 8.
    pub exponent: u32,
    /// Stored bits of the mantissa, at most 23.
    pub mantissa: u32,
    /// What the largest exponent means.
    pub specials: Specials,
}

/// Those of `f64`.
const WIDE_MANTISSA: u32 = 52;
const WIDE_BIAS: i32 = 1023;
const WIDE_SIGN: u64 = 1 << 63;
const WIDE_QUIET: u64 = 0x7ff8 << 48;

/// 2 to the power of `n`, which is an exponent of a normal `f64`.
const fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n + WIDE_BIAS) as u64) << WIDE_MANTISSA)
}

impl Float {
    /// IEEE binary32.
    pub const F32: Float = Float { exponent: 8, mantissa: 23, specials: Specials::Ieee };
    /// IEEE binary16.
    pub const F16: Float = Float { exponent: 5, mantissa: 10, specials: Specials::Ieee };
    /// bfloat16: the upper half of a binary32.
    pub const BF16: Float = Float { exponent: 8, mantissa: 7, specials: Specials::Ieee };
    /// OCP E4M3.
    pub const E4M3: Float = Float { exponent: 4, mantissa: 3, specials: Specials::OneNan };

    /// Bits of a code.
    pub const fn bits(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    /// What is added to an exponent where it is stored.
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Exponent of the smallest normal number.
    pub const fn least_exponent(self) -> i32 {
        1 - self.bias()
    }

    /// Whether it has infinities.
    pub const fn has_infinities(self) -> bool {
        matches!(self.specials, Specials::Ieee)
    }

    /// The code of the largest number.
    const fn largest(self) -> u64 {
        match self.specials {
            Specials::Ieee => self.infinite() - 1,
            Specials::OneNan => (1 << (self.exponent + self.mantissa)) - 2,
        }
    }

    /// The largest exponent with a mantissa of zeros: the code of infinity where there is one.
    const fn infinite(self) -> u64 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    /// The largest number.
    pub const fn max(self) -> f64 {
        self.decode(self.largest() as u32)
    }

    /// The smallest normal number.
    pub const fn min_positive(self) -> f64 {
        power_of_two(self.least_exponent())
    }

    /// The smallest positive number, a subnormal one.
    pub const fn min_subnormal(self) -> f64 {
        power_of_two(self.least_exponent() - self.mantissa as i32)
    }

    /// Half the distance of 1 from the next larger number: what rounding a number is off by, relative to it.
    pub const fn roundoff(self) -> f64 {
        power_of_two(-(self.mantissa as i32) - 1)
    }

    /// Whether it has all numbers of another format.
    pub fn holds(self, other: Float) -> bool {
        self.mantissa >= other.mantissa
            && self.min_subnormal() <= other.min_subnormal()
            && self.max() >= other.max()
            && (self.has_infinities() || !other.has_infinities())
    }

    /// The number of a code, exactly. Bits of the code beyond [`Float::bits`] count for nothing. NaN keeps its sign, and in
    /// formats of IEEE its mantissa.
    pub const fn decode(self, code: u32) -> f64 {
        let code = code as u64;
        let sign = ((code >> (self.exponent + self.mantissa)) & 1) << 63;
        let exponent = (code >> self.mantissa) & ((1 << self.exponent) - 1);
        let mantissa = code & ((1 << self.mantissa) - 1);
        let shifted = mantissa << (WIDE_MANTISSA - self.mantissa);
        let size = code & ((1 << (self.exponent + self.mantissa)) - 1);
        let bits = if size > self.largest() {
            match self.specials {
                Specials::Ieee if mantissa == 0 => 0x7ff << WIDE_MANTISSA,
                Specials::Ieee => WIDE_QUIET | shifted,
                Specials::OneNan => WIDE_QUIET,
            }
        } else if exponent == 0 {
            (mantissa as f64 * self.min_subnormal()).to_bits()
        } else {
            ((exponent as i64 + (WIDE_BIAS - self.bias()) as i64) as u64) << WIDE_MANTISSA | shifted
        };
        f64::from_bits(sign | bits)
    }

    /// The code of the nearest number, of two the one with an even code; for numbers that are too large see [`Specials`].
    /// NaN stays NaN, and in formats of IEEE keeps its sign and the upper bits of its mantissa.
    pub const fn encode(self, x: f64) -> u32 {
        let (sign, size) = (x.to_bits() >> 63, x.to_bits() & !WIDE_SIGN);
        let sign = sign << (self.exponent + self.mantissa);
        let fraction = size & ((1 << WIDE_MANTISSA) - 1);
        if x.is_nan() {
            return match self.specials {
                Specials::Ieee => {
                    let quiet = self.infinite() | 1 << (self.mantissa - 1);
                    (sign | quiet | fraction >> (WIDE_MANTISSA - self.mantissa)) as u32
                }
                Specials::OneNan => self.largest() as u32 + 1,
            };
        }
        // Zero and the subnormal numbers of f64, which round to zero, have no leading one, and need none here.
        let significand = fraction | 1 << WIDE_MANTISSA;
        let own = (size >> WIDE_MANTISSA) as i32 - WIDE_BIAS;
        let exponent = if own > self.least_exponent() { own } else { self.least_exponent() };
        let cut = WIDE_MANTISSA - self.mantissa + (exponent - own) as u32;
        // Beyond, it is less than half of the smallest number.
        let units = if cut > WIDE_MANTISSA + 1 {
            0
        } else {
            let (whole, rest, half) = (significand >> cut, significand & ((1 << cut) - 1), 1 << (cut - 1));
            whole + (rest > half || (rest == half && whole & 1 == 1)) as u64
        };
        // A carry goes on into the exponent, as it should.
        let code = (((exponent - self.least_exponent()) as u64) << self.mantissa) + units;
        let code = match (code > self.largest(), self.specials) {
            (false, _) => code,
            (true, Specials::Ieee) => self.infinite(),
            (true, Specials::OneNan) => self.largest(),
        };
        (sign | code) as u32
    }

    /// The nearest number of the format: [`Float::decode`] of [`Float::encode`].
    pub const fn round(self, x: f64) -> f64 {
        match self {
            // What the machine does itself.
            Float { exponent: 8, mantissa: 23, specials: Specials::Ieee } => x as f32 as f64,
            _ => self.decode(self.encode(x)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// No element type has it: what the reader and the writer make of it follows from the numbers alone.
    const E5M2: Float = Float { exponent: 5, mantissa: 2, specials: Specials::Ieee };
    const ALL: [Float; 5] = [Float::F32, Float::F16, Float::BF16, Float::E4M3, E5M2];

    /// Numbers about every boundary of a format, and as many at random.
    fn samples(format: Float) -> Vec<f32> {
        let mut all = vec![0.0, f32::MAX, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::from_bits(1)];
        if format.bits() <= 16 {
            let codes = 0..1u32 << (format.bits() - 1);
            let numbers: Vec<f32> =
                codes.map(|code| format.decode(code) as f32).filter(|x| x.is_finite()).collect();
            for pair in numbers.windows(2) {
                let middle = (pair[0] + pair[1]) / 2.0;
                all.extend([pair[0], middle, middle.next_up(), middle.next_down()]);
            }
            let most = *numbers.last().expect("numbers");
            let beyond = most + (most - numbers[numbers.len() - 2]) / 2.0;
            all.extend([most, beyond, beyond.next_up(), beyond.next_down(), 2.0 * most]);
        }
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            all.push(f32::from_bits((state >> 32) as u32));
        }
        all.extend(all.clone().into_iter().map(|x| -x));
        all
    }

    #[test]
    fn all_codes_are_read_and_written_as_half_does() {
        for code in 0..=u16::MAX {
            let (x, y) = (f16::from_bits(code), bf16::from_bits(code));
            assert_eq!(Float::F16.decode(code.into()).to_bits(), x.to_f64().to_bits(), "{code:#x}");
            assert_eq!(Float::BF16.decode(code.into()).to_bits(), y.to_f64().to_bits(), "{code:#x}");
            assert_eq!(Float::F16.encode(x.to_f64()), f16::from_f64(x.to_f64()).to_bits().into());
            assert_eq!(Float::BF16.encode(y.to_f64()), bf16::from_f64(y.to_f64()).to_bits().into());
        }
    }

    #[test]
    fn numbers_are_rounded_as_half_does() {
        for x in samples(Float::F16) {
            let wanted = f16::from_f32(x).to_bits();
            assert_eq!(Float::F16.encode(x.into()), wanted.into(), "{x:e}, {:#x}", x.to_bits());
        }
        for x in samples(Float::BF16) {
            let wanted = bf16::from_f32(x).to_bits();
            assert_eq!(Float::BF16.encode(x.into()), wanted.into(), "{x:e}, {:#x}", x.to_bits());
        }
        for x in samples(Float::F32).into_iter().filter(|x| !x.is_nan()) {
            assert_eq!(Float::F32.encode(x.into()), (f64::from(x) as f32).to_bits(), "{x:e}");
        }
    }

    /// Of three neighbours, by the definition: no two numbers have the same distance but at ties.
    #[test]
    fn the_nearest_is_taken() {
        for format in [Float::F16, Float::BF16, Float::E4M3, E5M2] {
            for x in samples(format).into_iter().map(f64::from).filter(|x| x.abs() <= format.max()) {
                let code = format.encode(x);
                let distance = (format.decode(code) - x).abs();
                assert_eq!(format.decode(code).is_sign_negative(), x.is_sign_negative(), "{x:e}");
                for other in [code.wrapping_sub(1), code + 1].map(|code| format.decode(code)) {
                    let farther = (other - x).abs();
                    let tie = farther == distance && code & 1 == 0;
                    assert!(
                        farther.partial_cmp(&distance).is_none_or(|order| order.is_gt()) || tie,
                        "{x:e} in {format:?}: {code:#x}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_code_is_written_as_it_was_read() {
        for format in [Float::F16, Float::BF16, Float::E4M3, E5M2] {
            for code in 0..1u32 << format.bits() {
                let x = format.decode(code);
                let quiet = format.infinite() as u32 | 1 << (format.mantissa - 1);
                let wanted = match (x.is_nan(), format.specials) {
                    (false, _) => code,
                    (true, Specials::Ieee) => code | quiet,
                    (true, Specials::OneNan) => code & !(1 << (format.bits() - 1)),
                };
                assert_eq!(format.encode(x), wanted, "{code:#x} in {format:?}");
            }
        }
    }

    /// Numbers that f32 does not have are rounded once.
    #[test]
    fn the_last_bits_of_f64_break_ties() {
        for format in [Float::F16, Float::BF16, Float::E4M3, E5M2] {
            let tie = 1.0 + format.roundoff();
            let codes = [tie.next_down(), tie, tie.next_up()].map(|x| format.encode(x));
            let one = format.encode(1.0);
            assert_eq!(codes, [one, one, one + 1], "{format:?}");
        }
    }

    #[test]
    fn what_formats_say_of_themselves() {
        assert_eq!(ALL.map(Float::bits), [32, 16, 16, 8, 8]);
        assert_eq!(ALL.map(Float::max), [f32::MAX.into(), 65504.0, bf16::MAX.to_f64(), 448.0, 57344.0]);
        assert_eq!(ALL.map(Float::min_subnormal), [-149, -24, -133, -9, -16].map(|n| 2f64.powi(n)));
        assert_eq!(ALL.map(Float::min_positive), [-126, -14, -126, -6, -14].map(|n| 2f64.powi(n)));
        assert_eq!(ALL.map(Float::roundoff), [-24, -11, -8, -4, -3].map(|n| 2f64.powi(n)));
        let held = |by: Float| ALL.map(|f| by.holds(f));
        assert_eq!(held(Float::F32), [true; 5]);
        assert_eq!(held(Float::F16), [false, true, false, true, true]);
        assert_eq!(held(Float::BF16), [false, false, true, true, true]);
        assert_eq!(held(Float::E4M3), [false, false, false, true, false]);
    }
}
