//! Element types and the integer types of indices.
//!
//! A type is a row of a table: its numbers, and what others call it. Whoever asks about a type asks its row, so a new type
//! is a row here and a Rust type for [`element_types`](crate::element_types).

mod float;

pub use float::{Float, Specials};

use crate::f8::f8;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Type of an element of a tensor or of a tile value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// E4M3, 8 bits: see [`f8`].
    F8,
    /// Signed integer of 32 bits: axes and extents as values, and what most tensors of indices hold.
    I32,
    /// Unsigned integer of 32 bits.
    U32,
    /// Signed integer of 8 bits: is read, stored, compared and cast, not computed with.
    I8,
    /// Unsigned integer of 8 bits, as [`DType::I8`].
    U8,
    /// Signed integer of 64 bits, as [`DType::I8`]: labels and places as others write them. Executors that carry elements as
    /// `f64` hold those up to 2⁵³.
    I64,
    /// Truth values: results of comparisons, and masks. In memory a byte: what is not zero is true, and true is stored as 1.
    Bool,
}

/// What the elements of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Floating-point numbers. Arithmetic on those of fewer bits than `f32` widens, computes in `f32` and rounds.
    Float(Float),
    /// Integers.
    Int {
        /// In two's complement; otherwise none is negative.
        signed: bool,
        /// Whether kernels compute with them; arithmetic wraps.
        computes: bool,
    },
    /// Truth values: predicates, not computed with as numbers.
    Bool,
}

/// A row of the table of types.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name as written in Rust source.
    pub name: &'static str,
    /// What the elements are.
    pub kind: Kind,
    /// Bits of an element in memory.
    pub bits: u32,
    /// Name in instructions of PTX (PTX ISA 5.2, "Types").
    pub ptx: &'static str,
    /// Whether a scalar parameter may be declared of it.
    pub scalar: bool,
    /// Compute capability that its conversions need: `89` for sm_89; 0 where every GPU has them.
    pub sm: u32,
    /// In a tensor map: a `CUtensorMapDataType` of the CUDA driver API. What only moves may go by another type's code.
    pub tensor_map: u32,
    /// In collective operations, which add: an `ncclDataType_t`. `None` where there are no sums.
    pub nccl: Option<u32>,
    /// In exchanged tensors: a `DLDataTypeCode` of DLPack 0.8. `None` where it has none.
    pub dlpack: Option<u8>,
    /// In products of cuBLAS: a `cudaDataType`. `None` where it has none.
    pub cublas: Option<u32>,
}

const F32: Format = Format {
    name: "f32",
    kind: Kind::Float(Float::F32),
    bits: 32,
    ptx: "f32",
    scalar: true,
    sm: 0,
    tensor_map: 7,
    nccl: Some(7),
    dlpack: Some(2),
    cublas: Some(0),
};

const F16: Format = Format {
    name: "f16",
    kind: Kind::Float(Float::F16),
    bits: 16,
    ptx: "f16",
    scalar: false,
    sm: 0,
    tensor_map: 6,
    nccl: Some(6),
    dlpack: Some(2),
    cublas: Some(2),
};

const BF16: Format = Format {
    name: "bf16",
    kind: Kind::Float(Float::BF16),
    bits: 16,
    ptx: "bf16",
    scalar: false,
    sm: 0,
    tensor_map: 9,
    nccl: Some(9),
    dlpack: Some(4),
    cublas: Some(14),
};

/// Tensor maps copy it as bytes, and DLPack has a code for it since version 1.1.
const F8: Format = Format {
    name: "f8",
    kind: Kind::Float(Float::E4M3),
    bits: 8,
    ptx: "e4m3",
    scalar: false,
    sm: 89,
    tensor_map: 0,
    nccl: Some(10),
    dlpack: None,
    cublas: Some(28),
};

const I32: Format = Format {
    name: "i32",
    kind: Kind::Int { signed: true, computes: true },
    bits: 32,
    ptx: "s32",
    scalar: true,
    sm: 0,
    tensor_map: 3,
    nccl: Some(2),
    dlpack: Some(0),
    cublas: Some(10),
};

const U32: Format = Format {
    name: "u32",
    kind: Kind::Int { signed: false, computes: true },
    bits: 32,
    ptx: "u32",
    scalar: true,
    sm: 0,
    tensor_map: 2,
    nccl: Some(3),
    dlpack: Some(1),
    cublas: Some(12),
};

const I8: Format = Format {
    name: "i8",
    kind: Kind::Int { signed: true, computes: false },
    bits: 8,
    ptx: "s8",
    scalar: false,
    sm: 0,
    tensor_map: 0,
    nccl: Some(0),
    dlpack: Some(0),
    cublas: Some(3),
};

const U8: Format = Format {
    name: "u8",
    kind: Kind::Int { signed: false, computes: false },
    bits: 8,
    ptx: "u8",
    scalar: false,
    sm: 0,
    tensor_map: 0,
    nccl: Some(1),
    dlpack: Some(1),
    cublas: Some(8),
};

const I64: Format = Format {
    name: "i64",
    kind: Kind::Int { signed: true, computes: false },
    bits: 64,
    ptx: "s64",
    scalar: true,
    sm: 0,
    tensor_map: 5,
    nccl: Some(4),
    dlpack: Some(0),
    cublas: Some(24),
};

/// Tensor maps copy it as bytes.
const BOOL: Format = Format {
    name: "bool",
    kind: Kind::Bool,
    bits: 8,
    ptx: "pred",
    scalar: true,
    sm: 0,
    tensor_map: 0,
    nccl: None,
    dlpack: Some(6),
    cublas: None,
};

/// Calls a macro with the types that tensors hold: for each the variant of [`DType`](crate::dtype::DType), the Rust type,
/// and whether its elements are `float`, `int` or `truth`.
#[macro_export]
macro_rules! element_types {
    ($callback:ident) => {
        $callback! {
            F32: f32, float;
            F16: $crate::dtype::f16, float;
            BF16: $crate::dtype::bf16, float;
            F8: $crate::f8::f8, float;
            I32: i32, int;
            U32: u32, int;
            I8: i8, int;
            U8: u8, int;
            I64: i64, int;
            Bool: bool, truth;
        }
    };
}

pub use half::{bf16, f16};

impl DType {
    /// Every type.
    pub const ALL: [DType; 10] = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F8,
        DType::I32,
        DType::U32,
        DType::I8,
        DType::U8,
        DType::I64,
        DType::Bool,
    ];

    /// Its row.
    pub const fn format(self) -> &'static Format {
        match self {
            DType::F32 => &F32,
            DType::F16 => &F16,
            DType::BF16 => &BF16,
            DType::F8 => &F8,
            DType::I32 => &I32,
            DType::U32 => &U32,
            DType::I8 => &I8,
            DType::U8 => &U8,
            DType::I64 => &I64,
            DType::Bool => &BOOL,
        }
    }

    /// Size in bytes in memory.
    pub const fn bytes(self) -> u32 {
        self.format().bits / 8
    }

    /// Name as written in Rust source: `f32`, `f16`, `bf16`, `f8`, `i32`, `u32`, `i8`, `u8`, `i64`, `bool`.
    pub const fn name(self) -> &'static str {
        self.format().name
    }

    /// The article before its name: `an f32`, `a u8`.
    pub const fn article(self) -> &'static str {
        match self {
            DType::BF16 | DType::U32 | DType::U8 | DType::Bool => "a",
            DType::F32 | DType::F16 | DType::F8 | DType::I32 | DType::I8 | DType::I64 => "an",
        }
    }

    /// Inverse of [`DType::name`].
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Its floating-point format, if it is a floating-point type.
    pub const fn float(self) -> Option<Float> {
        match self.format().kind {
            Kind::Float(float) => Some(float),
            Kind::Int { .. } | Kind::Bool => None,
        }
    }

    /// The format of floating-point numbers of fewer bits than `f32`, if it is one.
    pub const fn narrow(self) -> Option<Float> {
        match self.format().kind {
            Kind::Float(float) if self.format().bits < 32 => Some(float),
            _ => None,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        self.float().is_some()
    }

    /// Every floating-point type.
    pub fn floats() -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(|d| d.is_float())
    }

    /// Their names for messages, with this before the last one: `f32, f16, bf16 and f8`.
    pub fn names_of_floats(before_last: &str) -> String {
        DType::names(DType::floats(), before_last)
    }

    /// Rounds `x` to this type (round to nearest, ties to even) and widens it again.
    ///
    /// Arithmetic of floats of 16 and 8 bits is defined as: widen to f32, compute, round. For
    /// `+ - * / sqrt` this equals arithmetic in the narrow type, as 24 ≥ 2·11 + 2 (Figueroa 1995).
    pub fn round(self, x: f32) -> f32 {
        match self.narrow() {
            Some(float) => float.round(x.into()) as f32,
            None => x,
        }
    }

    /// As [`DType::round`], of a number that need not be an `f32`, rounded once. Integers truncate; what is too large becomes the
    /// largest, and NaN 0, as by Rust's `as`.
    pub fn round_f64(self, x: f64) -> f64 {
        match self.format().kind {
            Kind::Float(float) => float.round(x),
            Kind::Int { .. } => (x as i64).clamp(self.least(), self.greatest()) as f64,
            Kind::Bool => u8::from(x != 0.0).into(),
        }
    }

    /// An element of another type in this one, as Rust's `as` has it: floats are rounded, integers keep their low bits, and a float
    /// becomes an integer as by [`DType::round_f64`]. True becomes 1.
    pub fn cast_f64(self, from: DType, x: f64) -> f64 {
        if self.is_integer() && !from.is_float() { self.wrap(x as i64) as f64 } else { self.round_f64(x) }
    }

    /// Names of types for messages, with this before the last one: `f32, i32 and u32`.
    pub fn names(of: impl Iterator<Item = DType>, before_last: &str) -> String {
        let names: Vec<&str> = of.map(DType::name).collect();
        let (last, others) = names.split_last().expect("there are some");
        format!("{}{before_last}{last}", others.join(", "))
    }

    /// The types of which a scalar parameter may be declared.
    pub fn scalars() -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(|d| d.format().scalar)
    }

    /// Whether this is the type of truth values.
    pub const fn is_truth(self) -> bool {
        matches!(self.format().kind, Kind::Bool)
    }

    /// Whether this is an integer type.
    pub const fn is_integer(self) -> bool {
        matches!(self.format().kind, Kind::Int { .. })
    }

    /// Whether this is an integer type without negative numbers.
    pub const fn is_unsigned(self) -> bool {
        matches!(self.format().kind, Kind::Int { signed: false, .. })
    }

    /// Every integer type.
    pub fn integers() -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(|d| d.is_integer())
    }

    /// The least number of an integer type.
    pub const fn least(self) -> i64 {
        if self.is_unsigned() { 0 } else { i64::MIN >> (64 - self.format().bits) }
    }

    /// The greatest number of an integer type.
    pub const fn greatest(self) -> i64 {
        (u64::MAX >> (64 - self.format().bits) >> !self.is_unsigned() as u32) as i64
    }

    /// The number of an integer type that has the low bits of another number.
    pub const fn wrap(self, n: i64) -> i64 {
        let above = 64 - self.format().bits;
        if self.is_unsigned() { ((n as u64) << above >> above) as i64 } else { n << above >> above }
    }
}

/// A Rust type that a tensor can hold, as its numbers.
pub trait Number: Copy {
    /// The type in the IRs.
    const DTYPE: DType;
    /// Rounds to nearest, ties to even; integers truncate; what is not zero is true.
    fn from_f64(x: f64) -> Self;
    /// Exact, but for integers of 64 bits beyond 2⁵³, which are rounded; true is 1.
    fn to_f64(self) -> f64;
}

impl Number for bool {
    const DTYPE: DType = DType::Bool;
    fn from_f64(x: f64) -> Self {
        x != 0.0
    }
    fn to_f64(self) -> f64 {
        u8::from(self).into()
    }
}

/// Types whose numbers Rust knows how to round.
macro_rules! native {
    ($($variant:ident $ty:ty),*) => {$(
        impl Number for $ty {
            const DTYPE: DType = DType::$variant;
            fn from_f64(x: f64) -> Self {
                x as $ty
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}
native!(F32 f32, I32 i32, U32 u32, I8 i8, U8 u8, I64 i64);

macro_rules! narrow {
    ($($variant:ident $ty:ty: $bits:ty),*) => {$(
        impl Number for $ty {
            const DTYPE: DType = DType::$variant;
            fn from_f64(x: f64) -> Self {
                const FLOAT: Float = DType::$variant.narrow().expect("a narrow float");
                <$ty>::from_bits(FLOAT.encode(x) as $bits)
            }
            fn to_f64(self) -> f64 {
                const FLOAT: Float = DType::$variant.narrow().expect("a narrow float");
                FLOAT.decode(self.to_bits().into())
            }
        }
    )*};
}
narrow!(F16 f16: u16, BF16 bf16: u16, F8 f8: u8);

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
