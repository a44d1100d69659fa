//! Operators of one operand, element by element: an operator is a row of the table.
//!
//! The row has the name, what it computes, how far errors reach, what random programs do with it, and its code. Whoever
//! asks about an operator asks its row.

use super::{
    functions::{self, Function, Machine, Reg},
    tf32,
};
use crate::dtype::{DType, Kind};
use serde::{Deserialize, Serialize};

/// What is known of an operator.
#[derive(Clone, Copy)]
pub struct Unary {
    /// Name in the printed IRs and in kernels.
    pub name: &'static str,
    /// As a kernel calls it, for messages; `None` for what Rust has an operator for.
    pub usage: Option<&'static str>,
    /// Of floating-point numbers, if it takes them.
    pub float: Option<Real>,
    /// Of integers, if it takes them.
    pub int: Option<Integer>,
    /// Of truth values, if it takes them.
    pub truth: Option<fn(bool) -> bool>,
    /// Of elements of a type, if it makes another type of them.
    pub makes: Option<Makes>,
    /// The range of results over a range of operands, and which operands can be compared.
    pub results: Results,
    /// Where random programs use it.
    pub drawn: Drawn,
}

/// An operator on floating-point numbers. Those of fewer bits than `f32` are widened, and results rounded.
#[derive(Clone, Copy)]
pub struct Real {
    /// The result in `f32`.
    pub value: fn(f32) -> f32,
    /// The result in `f64` with its magnitude, given those of the operand: see [`Magnitude`].
    pub bounded: fn(f64, f64) -> Magnitude,
    /// Rounding steps that it counts for: 0 where nothing is rounded, 1 where it is rounded correctly, and 8 where the
    /// hardware's approximation is good to a few units in the last place.
    pub steps: u64,
    /// Whether a GPU computes the same bits as the simulator. Approximations of the hardware are not known to the bit.
    pub reproducible: bool,
    /// How far a result of its code is off at most, in units in the last place; subnormal numbers count.
    pub ulps: f64,
    /// Results that are smaller are 0.
    pub least: f64,
    /// Its instructions on an `f32`.
    pub code: fn(&mut dyn Machine, Reg) -> Reg,
}

/// An operator whose results have another type.
#[derive(Clone, Copy)]
pub enum Makes {
    /// An `i32` of floating-point numbers, widened.
    Key(fn(f32) -> i32),
    /// An `f32` of a `u32`.
    Fraction(fn(u32) -> f32),
}

/// An operator on integers.
#[derive(Clone, Copy)]
pub struct Integer {
    /// The result, of which the type keeps the low bits ([`DType::wrap`]).
    pub value: fn(i64) -> i64,
    /// Whether it takes integers that have no sign.
    pub unsigned: bool,
}

/// A magnitude of which eight rounding steps are more than the least normal number: 2⁻²⁴ of it each.
const FLUSHED: f64 = f32::MIN_POSITIVE as f64 * (1 << 24) as f64;

/// A number and a magnitude m: with unit roundoff u, s rounding steps are off by about s·u·m.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Magnitude {
    /// The operator rounds nothing.
    Exact(f64, f64),
    /// The result is rounded.
    Rounded(f64, f64),
}

/// Ranges of an operator, for tests that know beforehand which results are comparable.
#[derive(Clone, Copy)]
pub struct Results {
    /// Operands outside of it may leave the range of `f32`.
    pub within: [f64; 2],
    /// What an operand must be so that its rounding does not change the result beyond any bound.
    pub needs: Needs,
    /// The range of the results over a range of operands, both from the least to the greatest.
    pub range: fn([f64; 2]) -> [f64; 2],
    /// Whether results are rounded; otherwise they are multiples of the same power of two as the operand.
    pub rounds: bool,
}

/// What an operand must be where results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any number.
    Nothing,
    /// One that nothing rounded, or one that is positive and not near zero.
    ExactOrPositive,
    /// One that nothing rounded.
    Exact,
}

/// Which operands random programs give an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// None: programs use it in forms of its own.
    Never,
    /// Any, often: it rounds nothing.
    Often,
    /// Any, among the functions that round.
    Any,
    /// From −4 to 4.
    Small,
    /// 1 or more.
    Positive,
}

impl Results {
    /// What is rounded, of any operand, and rises with it.
    const fn rising(range: fn([f64; 2]) -> [f64; 2]) -> Results {
        Results { within: ALL, needs: Needs::Nothing, range, rounds: true }
    }
}

const ALL: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// The reciprocal of zero is an infinity, of either sign if the zero's is unknown.
pub(crate) fn of_zero(infinity: f64, m: f64) -> (f64, f64) {
    (infinity, if m > 0.0 { f64::INFINITY } else { 0.0 })
}

/// What is an f32 is rounded exactly. Else the computed element may round to either neighbour, 2⁻¹⁰ apart.
fn rounded_to_tf32(v: f64, m: f64) -> Magnitude {
    const APART: f64 = (1u32 << 14) as f64;
    if f64::from(v as f32) == v || v.is_nan() {
        Magnitude::Exact(f64::from(tf32(v as f32)), m)
    } else {
        Magnitude::Exact(v, m + APART * v.abs())
    }
}

/// What was not computed, or is not near the middle between two whole numbers, is rounded alike. Else the computed element may
/// round to either neighbour, 1 apart.
fn rounded_to_whole(v: f64, m: f64) -> Magnitude {
    const APART: f64 = (1u32 << 24) as f64;
    // As much as a thousand rounding steps may be off.
    const OFF: f64 = 1.0 / (1u32 << 14) as f64;
    let from_tie = ((v - v.floor()) - 0.5).abs();
    let is_known = m == v.abs() || from_tie > m * OFF || !v.is_finite();
    Magnitude::Exact(v.round_ties_even(), if is_known { m } else { m + APART })
}

/// The bits of a number as an integer, those of a negative one in reverse order: IEEE 754-2019 `totalOrder`, but that all NaN are
/// one, and last.
fn order(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    match x.is_nan() {
        true => i32::MAX,
        false => bits ^ ((bits >> 31) & i32::MAX),
    }
}

/// The first 24 bits of a word behind the binary point: every multiple of 2⁻²⁴ from 0 to below 1.
fn fraction(word: u32) -> f32 {
    const UNIT: f32 = 1.0 / (1u32 << 24) as f32;
    (word >> 8) as f32 * UNIT
}

fn absolute([lo, hi]: [f64; 2]) -> [f64; 2] {
    let (x, y) = (lo.abs(), hi.abs());
    [if lo <= 0.0 && hi >= 0.0 { 0.0 } else { x.min(y) }, x.max(y)]
}

macro_rules! operators {
    ($($(#[doc = $doc:literal])* $op:ident => $row:expr;)*) => {
        /// One-operand operators, element by element.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum UnOp {
            $($(#[doc = $doc])* $op,)*
        }

        impl UnOp {
            /// Every operator.
            pub const ALL: &[UnOp] = &[$(UnOp::$op),*];

            /// Its row.
            pub const fn row(self) -> &'static Unary {
                match self {
                    $(UnOp::$op => const { &$row },)*
                }
            }

            /// Its card, for the reference of operations.
            pub const fn card(self) -> &'static str {
                match self {
                    $(UnOp::$op => concat!($($doc, "\n"),*),)*
                }
            }
        }
    };
}

operators! {
    /// `-x`: each element with the other sign.
    ///
    /// ```text
    /// -a
    /// ```
    /// - Requires: numbers. `-` before a literal is part of the literal.
    /// - Costs: nothing where the hardware negates an operand, else an instruction.
    /// - See also: `sub`, `abs`.
    Neg => Unary {
        name: "neg",
        usage: None,
        float: Some(Real {
            value: |x| -x,
            bounded: |v, m| Magnitude::Exact(-v, m),
            steps: 0,
            reproducible: true,
            ulps: 0.0,
            least: 0.0,
            code: |m, x| m.neg(x),
        }),
        int: Some(Integer { value: i64::wrapping_neg, unsigned: false }),
        truth: None,
        makes: None,
        results: Results { range: |[lo, hi]| [-hi, -lo], rounds: false, ..Results::rising(|r| r) },
        drawn: Drawn::Often,
    };
    /// `exp(x)`: e to the power of each element.
    ///
    /// ```text
    /// exp(a - max(a, j))
    /// ```
    /// - Requires: floats. The result is an infinity above 88.73, and rounds to 0 below −103.97.
    /// - Costs: more than `exp2`, around which it is built. Where a factor can be put into a constant, `exp2(x * 1.4426951)` is cheaper.
    /// - See also: `exp2`, `log`, `tanh`.
    Exp => Unary {
        name: "exp",
        usage: Some("exp(x)"),
        float: Some(Real {
            value: f32::exp,
            bounded: |v, m| Magnitude::Rounded(v.exp(), v.exp() * (1.0 + m)),
            steps: 8,
            reproducible: false,
            ulps: 3.0,
            least: 0.0,
            code: functions::exp,
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results { within: [-80.0, 80.0], ..Results::rising(|r| r.map(f64::exp)) },
        drawn: Drawn::Small,
    };
    /// `exp2(x)`: 2 to the power of each element.
    ///
    /// ```text
    /// exp2(a)
    /// ```
    /// - Requires: floats. The result is an infinity from 128 on, and 0 below −126.
    /// - Costs: one instruction, on the unit for special functions.
    /// - See also: `exp`, `log`.
    Exp2 => Unary {
        name: "exp2",
        usage: Some("exp2(x)"),
        float: Some(Real {
            value: f32::exp2,
            // Of what is flushed, eight roundings are more than all.
            bounded: |v, m| Magnitude::Rounded(v.exp2(), v.exp2() * (1.0 + m) + FLUSHED),
            steps: 8,
            reproducible: false,
            ulps: 2.0,
            least: f32::MIN_POSITIVE as f64,
            code: |m, x| m.call(Function::Ex2, &[x]),
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results { within: [-115.0, 115.0], ..Results::rising(|r| r.map(f64::exp2)) },
        drawn: Drawn::Small,
    };
    /// `log(x)`: the natural logarithm of each element.
    ///
    /// ```text
    /// log(max(a, 0.000001))
    /// ```
    /// - Requires: floats. The logarithm of 0 is −∞, that of less is NaN.
    /// - Costs: a polynomial, on the units for `f32`.
    /// - See also: `exp`, `exp2`.
    Log => Unary {
        name: "log",
        usage: Some("log(x)"),
        float: Some(Real {
            value: f32::ln,
            bounded: |v, m| match v == 0.0 {
                true => Magnitude::Rounded(f64::NEG_INFINITY, 0.0),
                false => Magnitude::Rounded(v.ln(), v.ln().abs() + m / v),
            },
            steps: 8,
            reproducible: false,
            ulps: 1.0,
            least: 0.0,
            code: functions::log,
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results {
            needs: Needs::ExactOrPositive,
            ..Results::rising(|[_, hi]| [-110.0, hi.max(2.0).ln()])
        },
        drawn: Drawn::Positive,
    };
    /// `sqrt(x)`: the square root of each element, correctly rounded.
    ///
    /// ```text
    /// sqrt(abs(a))
    /// ```
    /// - Requires: floats. Of less than 0 the result is NaN.
    /// - Costs: several instructions, as the hardware rounds correctly by a routine of its own. `rsqrt` is cheaper.
    /// - See also: `rsqrt`.
    Sqrt => Unary {
        name: "sqrt",
        usage: Some("sqrt(x)"),
        float: Some(Real {
            value: f32::sqrt,
            bounded: |v, m| Magnitude::Rounded(v.sqrt(), if v > 0.0 { m / v.sqrt() } else { m.sqrt() }),
            steps: 1,
            reproducible: true,
            ulps: 0.5,
            least: 0.0,
            code: |m, x| m.call(Function::Sqrt, &[x]),
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results {
            needs: Needs::ExactOrPositive,
            ..Results::rising(|r| r.map(|x| x.max(0.0).sqrt()))
        },
        drawn: Drawn::Positive,
    };
    /// `rsqrt(x)`: 1 by the square root of each element.
    ///
    /// ```text
    /// a * rsqrt(a * a + 1.0)
    /// ```
    /// - Requires: floats. Of 0 the result is an infinity, of less it is NaN.
    /// - Costs: one instruction, on the unit for special functions.
    /// - See also: `sqrt`, `div`.
    Rsqrt => Unary {
        name: "rsqrt",
        usage: Some("rsqrt(x)"),
        float: Some(Real {
            value: |x| 1.0 / x.sqrt(),
            bounded: |v, m| {
                let (v, m) = match v == 0.0 {
                    true => of_zero(1.0 / v, m),
                    false => (1.0 / v.sqrt(), m / (v * v.sqrt())),
                };
                Magnitude::Rounded(v, m)
            },
            steps: 8,
            reproducible: false,
            ulps: 2.0,
            least: 0.0,
            code: |m, x| m.call(Function::Rsqrt, &[x]),
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results {
            needs: Needs::ExactOrPositive,
            ..Results::rising(|[lo, hi]| [1.0 / hi.max(1e-6).sqrt(), 1.0 / lo.max(1e-3).sqrt()])
        },
        drawn: Drawn::Positive,
    };
    /// `tanh(x)`: the hyperbolic tangent of each element.
    ///
    /// ```text
    /// a * (tanh(a) + 1.0)
    /// ```
    /// - Requires: floats.
    /// - Costs: a polynomial and a quotient, both computed for each element.
    /// - See also: `exp`.
    Tanh => Unary {
        name: "tanh",
        usage: Some("tanh(x)"),
        float: Some(Real {
            value: f32::tanh,
            bounded: |v, m| Magnitude::Rounded(v.tanh(), v.tanh().abs() + m / v.cosh().powi(2)),
            steps: 8,
            reproducible: false,
            ulps: 3.0,
            least: 0.0,
            code: functions::tanh,
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results::rising(|_| [-1.0, 1.0]),
        drawn: Drawn::Any,
    };
    /// `abs(x)`: each element without its sign.
    ///
    /// ```text
    /// abs(a - b)
    /// ```
    /// - Requires: numbers.
    /// - Costs: an instruction, or nothing where the hardware takes the absolute value of an operand.
    /// - See also: `neg`, `max of two values`.
    Abs => Unary {
        name: "abs",
        usage: Some("abs(x)"),
        float: Some(Real {
            value: f32::abs,
            bounded: |v, m| Magnitude::Exact(v.abs(), m),
            steps: 0,
            reproducible: true,
            ulps: 0.0,
            least: 0.0,
            code: |m, x| m.call(Function::Abs, &[x]),
        }),
        int: Some(Integer { value: i64::wrapping_abs, unsigned: false }),
        truth: None,
        makes: None,
        results: Results { range: absolute, rounds: false, ..Results::rising(|r| r) },
        drawn: Drawn::Often,
    };
    /// `round(x)`: the whole number nearest to each element, of two the even one.
    ///
    /// ```text
    /// round(a * 4.0) * 0.25
    /// ```
    /// - Requires: floats. `round(x).cast::<i32>()` rounds to the nearest integer, where a cast alone cuts off.
    /// - Costs: a few instructions on the units for `f32`.
    /// - See also: `cast`, `abs`.
    Round => Unary {
        name: "round",
        usage: Some("round(x)"),
        float: Some(Real {
            value: f32::round_ties_even,
            bounded: rounded_to_whole,
            steps: 0,
            reproducible: true,
            ulps: 0.0,
            least: 0.0,
            code: functions::round,
        }),
        int: None,
        truth: None,
        makes: None,
        results: Results {
            needs: Needs::Exact,
            range: |r| r.map(f64::round_ties_even),
            rounds: false,
            ..Results::rising(|r| r)
        },
        drawn: Drawn::Often,
    };
    /// `!c`: true where the condition is false, and of integers the bits that an element lacks.
    ///
    /// ```text
    /// select(!(a < b), a, b)
    /// ```
    /// - Requires: a bool, which is what a comparison gives or an element of a mask; or an `i32` or `u32`.
    /// - Costs: nothing, or an instruction. `!(a < b)` and `a >= b` differ where an element is NaN.
    /// - See also: `and`, `or`, `xor`, `select`.
    Not => Unary {
        name: "not",
        usage: None,
        float: None,
        int: Some(Integer { value: |x| !x, unsigned: true }),
        truth: Some(|x| !x),
        makes: None,
        results: Results { range: |[lo, hi]| [-hi - 1.0, -lo - 1.0], rounds: false, ..Results::rising(|r| r) },
        drawn: Drawn::Never,
    };
    /// `order(x)`: each element as an `i32` that lies between others as the element does. −0 comes before +0, and any NaN last.
    ///
    /// ```text
    /// select(order(a) > order(b), a, b)
    /// ```
    /// - Requires: floats. Of 16 and 8 bits they are widened.
    /// - Costs: four instructions for each element.
    /// - See also: `gt`, `argmax`, `select`.
    Order => Unary {
        name: "order",
        usage: Some("order(x)"),
        float: None,
        int: None,
        truth: None,
        makes: Some(Makes::Key(order)),
        results: Results { needs: Needs::Exact, range: |r| r.map(|x| order(x as f32).into()), rounds: false, ..Results::rising(|r| r) },
        drawn: Drawn::Never,
    };
    /// `tf32(x)`: each element rounded to tf32, of two nearest numbers to the one away from zero.
    ///
    /// ```text
    /// tf32(a)
    /// ```
    /// - Requires: floats. Those of 16 and 8 bits are not changed. From 2¹²⁸·(1 − 2⁻¹²) on the result is an infinity.
    /// - Costs: an instruction for each `f32`.
    /// - See also: `dot`, `cast`.
    Tf32 => Unary {
        name: "tf32",
        usage: Some("tf32(x)"),
        float: Some(Real {
            value: tf32,
            bounded: rounded_to_tf32,
            steps: 0,
            reproducible: true,
            ulps: 0.0,
            least: 0.0,
            // Every number of 16 or 8 bits is one of tf32.
            code: |m, x| if m.narrow() { x } else { m.call(Function::Tf32, &[x]) },
        }),
        int: None,
        truth: None,
        makes: None,
        // Where the operand is exact, so is what it is rounded to.
        results: Results {
            needs: Needs::Exact,
            range: |r| r.map(|x| tf32(x as f32).into()),
            rounds: false,
            ..Results::rising(|r| r)
        },
        drawn: Drawn::Never,
    };
    /// `uniform(u)`: a number from 0 to below 1 of each word, by its first 24 bits.
    ///
    /// ```text
    /// select(uniform(random(42, i * N + j, 0)) < 0.5, a, b)
    /// ```
    /// - Requires: `u32`, such as `random` makes. All multiples of 2⁻²⁴ are equally likely if all words are; 1 is never among them.
    /// - Costs: a shift, a conversion and a product.
    /// - See also: `random`, `cast`, `shr`.
    Uniform => Unary {
        name: "uniform",
        usage: Some("uniform(u)"),
        float: None,
        int: None,
        truth: None,
        makes: Some(Makes::Fraction(fraction)),
        results: Results::rising(|_| [0.0, 1.0]),
        drawn: Drawn::Never,
    };
}

impl UnOp {
    /// Name in the printed IRs and in kernels.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Inverse of [`UnOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Whether it takes elements of a type.
    pub const fn takes(self, dtype: DType) -> bool {
        let row = self.row();
        match dtype.format().kind {
            Kind::Float(_) => row.float.is_some() || matches!(row.makes, Some(Makes::Key(_))),
            Kind::Int { .. } if matches!(row.makes, Some(Makes::Fraction(_))) => matches!(dtype, DType::U32),
            Kind::Int { signed, computes } => match row.int {
                Some(int) => computes && (signed || int.unsigned),
                None => false,
            },
            Kind::Bool => row.truth.is_some(),
        }
    }

    /// The type of the result on elements of a type.
    pub const fn result(self, dtype: DType) -> DType {
        match self.row().makes {
            Some(Makes::Key(_)) => DType::I32,
            Some(Makes::Fraction(_)) => DType::F32,
            None => dtype,
        }
    }

    /// The result on a value of an integer type; `None` if it takes no integers.
    pub fn of_integer(self, dtype: DType, x: i64) -> Option<i64> {
        self.row().int.map(|int| dtype.wrap((int.value)(x)))
    }

    /// The operators that random programs give such operands.
    pub fn drawn(drawn: Drawn) -> Vec<UnOp> {
        Self::ALL.iter().copied().filter(|op| op.row().drawn == drawn).collect()
    }
}
