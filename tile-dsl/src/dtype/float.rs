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
            _ => {
                let (sign, size) = (x.to_bits() & WIDE_SIGN, x.to_bits() & !WIDE_SIGN);
                let cut = WIDE_MANTISSA - self.mantissa;
                // Most numbers are normal ones before and after, and not too large.
                let own = (size >> WIDE_MANTISSA) as i32 - WIDE_BIAS;
                if own >= self.least_exponent() && own < self.bias() {
                    let up = (1 << (cut - 1)) - 1 + (size >> cut & 1);
                    return f64::from_bits(sign | (size + up) >> cut << cut);
                }
                self.decode(self.encode(x))
            }
        }
    }
}
