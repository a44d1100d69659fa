//! Operators of two operands, element by element: an operator is a row of the table.
//!
//! The row has the name, how it is written, what it computes on elements of each kind, how far errors reach, and its code.
//! Whoever asks about an operator asks its row.

pub use super::results::{Results, Unit};

use super::{
    functions::{Function, Machine, Reg},
    random,
    results::{
        BITS, COMMON_BITS, DIFFERENCE, LARGER, PRODUCT, QUOTIENT, SHIFTED_LEFT, SHIFTED_RIGHT, SMALLER, SUM,
        WHOLE_QUOTIENT,
    },
    unary::{Magnitude, of_zero},
};
use crate::dtype::{DType, Kind};
use serde::{Deserialize, Serialize};

/// What is known of an operator. Both operands have the type of the result.
#[derive(Clone, Copy)]
pub struct Binary {
    /// Name in the printed IRs.
    pub name: &'static str,
    /// What a kernel writes between the operands; none for functions.
    pub symbols: &'static [&'static str],
    /// How the IRs write it.
    pub form: Form,
    /// Of floating-point numbers, if it takes them.
    pub float: Option<Real>,
    /// Of integers, if it takes them.
    pub int: Option<Integer>,
    /// Of truth values, if it takes them.
    pub truth: Option<fn(bool, bool) -> bool>,
}

/// How the IRs write an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `a + b`. In the tile IR a higher number binds more tightly; comparisons have 1.
    Infix(u8),
    /// `and(a, b)` in the tile IR, `(a and b)` in the kernel IR.
    Word,
    /// `max(a, b)`.
    Function,
    /// As a function. Kernels do not call it, but this one, which is short for what has it.
    Part(&'static str),
}

/// An operator on floating-point numbers. Those of fewer bits than `f32` are widened, and results rounded.
#[derive(Clone, Copy)]
pub struct Real {
    /// The result in `f32`.
    pub value: fn(f32, f32) -> f32,
    /// The result in `f64` with its magnitude, given the operands with theirs: see [`Magnitude`].
    pub bounded: fn((f64, f64), (f64, f64)) -> Magnitude,
    /// Rounding steps that it counts for: 0 where the result is one of the operands.
    pub steps: u64,
    /// Which results it has.
    pub results: Results,
    /// Its instructions on two `f32`.
    pub code: fn(&mut dyn Machine, Reg, Reg) -> Reg,
}

/// An operator on integers.
#[derive(Clone, Copy)]
pub struct Integer {
    /// Of values in kernels: their type keeps the low bits ([`DType::wrap`]), as two's complement numbers do. Quotients truncate.
    /// Dividing by zero gives 0 with remainder 0, as in NumPy; dividing −2³¹ by −1 in `i32` gives −2³¹ with remainder 0.
    pub value: fn(i64, i64) -> i64,
    /// Of indices: `None` where the result is undefined or too large.
    pub checked: fn(i64, i64) -> Option<i64>,
    /// Whether results can be undefined or too large, so that values and indices differ.
    pub wraps: bool,
    /// The left and the right operand that make the result the other operand.
    pub neutral: [Option<i64>; 2],
    /// Which results it has.
    pub results: Results,
}

/// The larger of two numbers, NaN if one is, and +0 of the two zeros: IEEE 754-2019 `maximum`, PTX `max.NaN.f32`, LLVM
/// `llvm.maximum`; a NaN shows as in NumPy and PyTorch.
pub fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && b.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// The smaller of two numbers, NaN if one is, and −0 of the two zeros; as [`maximum`].
pub fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// The magnitude of a sum. The sign of one that is zero is not defined: a point beyond the end adds +0, and a sum may or may
/// not begin with +0. So its magnitude is never nothing.
pub(crate) fn of_sum(v: f64, m: f64) -> f64 {
    const SIGN_OF_ZERO: f64 = 1e-200;
    if v == 0.0 { m.max(SIGN_OF_ZERO) } else { m }
}

fn quotient((x, p): (f64, f64), (y, q): (f64, f64)) -> Magnitude {
    let (v, m) = match y == 0.0 {
        true if x == 0.0 || x.is_nan() => (f64::NAN, 0.0),
        true => of_zero(x / y, q),
        false => (x / y, p / y.abs() + x.abs() * q / (y * y)),
    };
    Magnitude::Rounded(v, m)
}

/// `x` with its bits moved to the left, and 0 if all are moved out: what is no number from 0 to 31 counts as 32 (PTX ISA 9.7.8.9,
/// `shl.b32`).
const fn shifted_left(x: i64, by: i64) -> i64 {
    if by < 0 || by > 31 { 0 } else { x << by }
}

/// `x` with its bits moved to the right; copies of the sign come in, or zeros where there is none (PTX ISA 9.7.8.10, `shr.s32`
/// and `shr.u32`).
const fn shifted_right(x: i64, by: i64) -> i64 {
    if by < 0 || by > 31 { x >> 63 } else { x >> by }
}

/// A word of 32 random bits, of two others.
const RANDOM: Binary =
    Binary { name: "random", symbols: &[], form: Form::Part("random"), float: None, int: None, truth: None };

const WORD: Integer = Integer {
    value: |_, _| 0,
    checked: |_, _| None,
    wraps: true,
    neutral: [None, None],
    results: Results { range: |_, _| [0.0, u32::MAX as f64], unit: Unit::Whole },
};

impl Integer {
    /// The same range, of another function that may take all operands.
    const fn with(self, value: fn(i64, i64) -> i64) -> Integer {
        Integer { value, ..self }
    }
}

macro_rules! operators {
    ($($(#[doc = $doc:literal])* $op:ident => $row:expr;)*) => {
        /// Two-operand operators, element by element; operands have equal types.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum BinOp {
            $($(#[doc = $doc])* $op,)*
        }

        impl BinOp {
            /// Every operator.
            pub const ALL: &[BinOp] = &[$(BinOp::$op),*];

            /// Its row.
            pub const fn row(self) -> &'static Binary {
                match self {
                    $(BinOp::$op => const { &$row },)*
                }
            }

            /// Its card, for the reference of operations.
            pub const fn card(self) -> &'static str {
                match self {
                    $(BinOp::$op => concat!($($doc, "\n"),*),)*
                }
            }
        }
    };
}

operators! {
    /// `a + b`: the sum of each pair of elements.
    ///
    /// ```text
    /// a + b
    /// ```
    /// - Requires: two values of one type. A literal takes the type of the other operand.
    /// - Costs: an instruction. In `a * b + c` the product is rounded, and then the sum.
    /// - See also: `sub`, `sum over an axis`, `assignment`.
    Add => Binary {
        name: "+",
        symbols: &["+"],
        form: Form::Infix(2),
        float: Some(Real {
            value: |x, y| x + y,
            bounded: |(x, p), (y, q)| Magnitude::Rounded(x + y, of_sum(x + y, p + q)),
            steps: 1,
            results: SUM,
            code: |m, a, b| m.add(a, b),
        }),
        int: Some(Integer {
            value: i64::wrapping_add,
            checked: i64::checked_add,
            wraps: true,
            neutral: [Some(0), Some(0)],
            results: SUM,
        }),
        truth: None,
    };
    /// `a - b`: the difference of each pair of elements.
    ///
    /// ```text
    /// a - b
    /// ```
    /// - Requires: two values of one type.
    /// - Costs: an instruction.
    /// - See also: `add`, `neg`.
    Sub => Binary {
        name: "-",
        symbols: &["-"],
        form: Form::Infix(2),
        float: Some(Real {
            value: |x, y| x - y,
            bounded: |(x, p), (y, q)| Magnitude::Rounded(x - y, of_sum(x - y, p + q)),
            steps: 1,
            results: DIFFERENCE,
            code: |m, a, b| m.sub(a, b),
        }),
        int: Some(Integer {
            value: i64::wrapping_sub,
            checked: i64::checked_sub,
            wraps: true,
            neutral: [None, Some(0)],
            results: DIFFERENCE,
        }),
        truth: None,
    };
    /// `a * b`: the product of each pair of elements.
    ///
    /// ```text
    /// alpha * a
    /// ```
    /// - Requires: two values of one type.
    /// - Costs: an instruction. A sum of products is a `dot`, which tensor cores can compute.
    /// - See also: `dot`, `div`.
    Mul => Binary {
        name: "*",
        symbols: &["*"],
        form: Form::Infix(3),
        float: Some(Real {
            value: |x, y| x * y,
            bounded: |(x, p), (y, q)| Magnitude::Rounded(x * y, p * q),
            steps: 1,
            results: PRODUCT,
            code: |m, a, b| m.mul(a, b),
        }),
        int: Some(Integer {
            value: i64::wrapping_mul,
            checked: i64::checked_mul,
            wraps: true,
            neutral: [Some(1), Some(1)],
            results: PRODUCT,
        }),
        truth: None,
    };
    /// `a / b`: the quotient of each pair of elements, correctly rounded for floats.
    ///
    /// ```text
    /// a / (abs(b) + 1.0)
    /// ```
    /// - Requires: two values of one type. An integer divided by 0 is 0; −2³¹ divided by −1 is −2³¹.
    /// - Costs: a routine of many instructions for floats. Where many elements have one divisor, multiply them by `1.0 / b`, which rounds once more.
    /// - See also: `rem`, `rsqrt`.
    Div => Binary {
        name: "/",
        symbols: &["/"],
        form: Form::Infix(3),
        float: Some(Real {
            value: |x, y| x / y,
            bounded: quotient,
            steps: 1,
            results: QUOTIENT,
            code: |m, a, b| m.div(a, b),
        }),
        int: Some(Integer {
            value: |x, y| if y == 0 { 0 } else { x.wrapping_div(y) },
            checked: i64::checked_div,
            wraps: true,
            neutral: [None, Some(1)],
            results: WHOLE_QUOTIENT,
        }),
        truth: None,
    };
    /// `a % b`: the remainder of each pair of elements, with the sign of `a`.
    ///
    /// ```text
    /// a * (j % 2).cast::<f32>()
    /// ```
    /// - Requires: two values of `i32` or of `u32`, such as axes, extents and scalars. A divisor of 0 gives 0.
    /// - Costs: a routine of several instructions; few where the divisor is a literal.
    /// - See also: `div`, `axis as a value`.
    Rem => Binary {
        name: "%",
        symbols: &["%"],
        form: Form::Infix(3),
        float: None,
        int: Some(Integer {
            value: |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) },
            checked: i64::checked_rem,
            wraps: true,
            neutral: [None, None],
            results: WHOLE_QUOTIENT,
        }),
        truth: None,
    };
    /// `max(a, b)`: the larger of each pair of elements. It is NaN if one of them is, and +0 lies above −0.
    ///
    /// ```text
    /// max(a, 0.0)
    /// ```
    /// - Requires: two values of one type, of which the second is no axis: `max(x, j)` is over the axis `j`.
    /// - Costs: an instruction. To replace NaN, say so: `select(x == x, x, 0.0)`.
    /// - See also: `max over an axis`, `min of two values`, `select`.
    Max => Binary {
        name: "max",
        symbols: &[],
        form: Form::Function,
        float: Some(Real {
            value: |x, y| maximum(x.into(), y.into()) as f32,
            bounded: |(x, p), (y, q)| Magnitude::Exact(maximum(x, y), p.max(q)),
            steps: 0,
            results: LARGER,
            code: |m, a, b| m.call(Function::Maximum, &[a, b]),
        }),
        int: Some(Integer {
            value: i64::max,
            checked: |x, y| Some(x.max(y)),
            wraps: false,
            neutral: [None, None],
            results: LARGER,
        }),
        truth: None,
    };
    /// `min(a, b)`: the smaller of each pair of elements. It is NaN if one of them is, and −0 lies below +0.
    ///
    /// ```text
    /// min(a, 6.0)
    /// ```
    /// - Requires: two values of one type, of which the second is no axis: `min(x, j)` is over the axis `j`.
    /// - Costs: an instruction.
    /// - See also: `min over an axis`, `max of two values`.
    Min => Binary {
        name: "min",
        symbols: &[],
        form: Form::Function,
        float: Some(Real {
            value: |x, y| minimum(x.into(), y.into()) as f32,
            bounded: |(x, p), (y, q)| Magnitude::Exact(minimum(x, y), p.max(q)),
            steps: 0,
            results: SMALLER,
            code: |m, a, b| m.call(Function::Minimum, &[a, b]),
        }),
        int: Some(Integer {
            value: i64::min,
            checked: |x, y| Some(x.min(y)),
            wraps: false,
            neutral: [None, None],
            results: SMALLER,
        }),
        truth: None,
    };
    /// `a & b`: true where both conditions are, and of integers the bits that both have. `&&` means the same of conditions.
    ///
    /// ```text
    /// select((j <= i) & (a > 0.0), a, 0.0)
    /// ```
    /// - Requires: two bools, two values of `i32`, or two of `u32`. As in Rust, `&` binds more tightly than a comparison, which so stands in parentheses; `&&` needs none.
    /// - Costs: an instruction. Both sides are computed.
    /// - See also: `or`, `xor`, `not`, `select`.
    And => Binary {
        name: "and",
        symbols: &["&", "&&"],
        form: Form::Word,
        float: None,
        int: Some(Integer {
            value: |x, y| x & y,
            checked: |x, y| Some(x & y),
            wraps: false,
            neutral: [Some(-1), Some(-1)],
            results: COMMON_BITS,
        }),
        truth: Some(|x, y| x && y),
    };
    /// `a | b`: true where one of the conditions is, and of integers the bits that one of them has. `||` means the same of conditions.
    ///
    /// ```text
    /// select((a < 0.0) | (a > 1.0), 0.0, a)
    /// ```
    /// - Requires: two bools, two values of `i32`, or two of `u32`. As in Rust, `|` binds more tightly than a comparison, which so stands in parentheses; `||` needs none.
    /// - Costs: an instruction. Both sides are computed.
    /// - See also: `and`, `xor`, `not`, `select`.
    Or => Binary {
        name: "or",
        symbols: &["|", "||"],
        form: Form::Word,
        float: None,
        int: Some(Integer {
            value: |x, y| x | y,
            checked: |x, y| Some(x | y),
            wraps: false,
            neutral: [Some(0), Some(0)],
            results: BITS,
        }),
        truth: Some(|x, y| x || y),
    };
    /// `a ^ b`: true where one of the conditions is and the other is not, and of integers the bits that one of them has and the other has not.
    ///
    /// ```text
    /// select((i ^ j) == 1, a, 0.0)
    /// ```
    /// - Requires: two bools, two values of `i32`, or two of `u32`. As in Rust, `^` binds more tightly than a comparison.
    /// - Costs: an instruction.
    /// - See also: `and`, `or`, `not`, `ne`.
    Xor => Binary {
        name: "xor",
        symbols: &["^"],
        form: Form::Word,
        float: None,
        int: Some(Integer {
            value: |x, y| x ^ y,
            checked: |x, y| Some(x ^ y),
            wraps: false,
            neutral: [Some(0), Some(0)],
            results: BITS,
        }),
        truth: Some(|x, y| x != y),
    };
    /// `a << n`: the bits of each element, `n` places further to the left. Zeros come in.
    ///
    /// ```text
    /// a * (1 << j).cast::<f32>()
    /// ```
    /// - Requires: `i32` or `u32` for `a`, and either of them for `n`. A literal takes the type of `a`. If `n` is negative or more than 31, the result is 0.
    /// - Costs: an instruction.
    /// - See also: `shr`, `and`, `mul`.
    Shl => Binary {
        name: "shl",
        symbols: &["<<"],
        form: Form::Word,
        float: None,
        int: Some(Integer {
            value: shifted_left,
            checked: |x, y| Some(shifted_left(x, y)),
            wraps: true,
            neutral: [None, Some(0)],
            results: SHIFTED_LEFT,
        }),
        truth: None,
    };
    /// `a >> n`: the bits of each element, `n` places further to the right. Copies of the sign come in, and zeros in a `u32`.
    ///
    /// ```text
    /// a * (i >> 1 & 1).cast::<f32>()
    /// ```
    /// - Requires: `i32` or `u32` for `a`, and either of them for `n`. A literal takes the type of `a`. If `n` is negative or more than 31, the result is 0, and −1 if `a` is negative.
    /// - Costs: an instruction.
    /// - See also: `shl`, `and`, `div`.
    Shr => Binary {
        name: "shr",
        symbols: &[">>"],
        form: Form::Word,
        float: None,
        int: Some(Integer {
            value: shifted_right,
            checked: |x, y| Some(shifted_right(x, y)),
            wraps: false,
            neutral: [None, Some(0)],
            results: SHIFTED_RIGHT,
        }),
        truth: None,
    };
    /// The first word of [`philox4x32`](super::random::philox4x32) of the key (a, 0) and the counter (b, 0, 0, 0).
    Random0 => Binary { name: "random0", int: Some(WORD.with(random::word::<0>)), ..RANDOM };
    /// The second word of [`philox4x32`](super::random::philox4x32) of the key (a, 0) and the counter (b, 0, 0, 0).
    Random1 => Binary { name: "random1", int: Some(WORD.with(random::word::<1>)), ..RANDOM };
    /// The third word of [`philox4x32`](super::random::philox4x32) of the key (a, 0) and the counter (b, 0, 0, 0).
    Random2 => Binary { name: "random2", int: Some(WORD.with(random::word::<2>)), ..RANDOM };
    /// The fourth word of [`philox4x32`](super::random::philox4x32) of the key (a, 0) and the counter (b, 0, 0, 0).
    Random3 => Binary { name: "random3", int: Some(WORD.with(random::word::<3>)), ..RANDOM };
}

impl BinOp {
    /// Name in the printed IRs.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Inverse of [`BinOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// The operator that a kernel writes so, such as `&&`.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.row().symbols.contains(&symbol))
    }

    /// Whether it takes elements of a type.
    pub const fn takes(self, dtype: DType) -> bool {
        let row = self.row();
        match dtype.format().kind {
            Kind::Float(_) => row.float.is_some(),
            Kind::Int { computes, .. } => computes && row.int.is_some(),
            Kind::Bool => row.truth.is_some(),
        }
    }

    /// The left and the right operand that make an integer result the other operand.
    pub fn neutral(self) -> [Option<i64>; 2] {
        self.row().int.map_or([None; 2], |int| int.neutral)
    }

    /// Whether it moves bits by a number of places.
    pub const fn shifts(self) -> bool {
        matches!(self, BinOp::Shl | BinOp::Shr)
    }

    /// The word of `random` that it is.
    pub fn random_word(self) -> Option<usize> {
        [BinOp::Random0, BinOp::Random1, BinOp::Random2, BinOp::Random3].iter().position(|op| *op == self)
    }

    /// Whether each operand of a kernel may have a type of its own among those that it takes: the bits alone count.
    pub fn takes_bits(self) -> bool {
        self.shifts() || self.random_word().is_some()
    }

    /// The type of the result, by that of the left operand.
    pub fn result(self, dtype: DType) -> DType {
        if self.random_word().is_some() { DType::U32 } else { dtype }
    }

    /// As a kernel writes it.
    pub fn written(self) -> &'static str {
        let row = self.row();
        match (row.form, row.symbols) {
            (Form::Part(of), _) => of,
            (_, [symbol, ..]) => symbol,
            (_, []) => row.name,
        }
    }

    /// Whether values of a type wrap around: one of `+ - * / % <<` of integers, or random.
    pub fn wraps(self, dtype: DType) -> bool {
        dtype.is_integer() && self.row().int.is_some_and(|int| int.wraps)
    }

    /// The result on values of an integer type; `None` if it takes no integers.
    pub fn of_integers(self, dtype: DType, a: i64, b: i64) -> Option<i64> {
        self.row().int.map(|int| self.result(dtype).wrap((int.value)(a, b)))
    }
}
