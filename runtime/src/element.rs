//! Element types of buffers and scalar arguments, tied to Rust types.

use crate::reduction::{self, Reduction};
use tile_dsl::{
    dtype::{DType, Number},
    tile::evaluate::Elements,
};

/// A Rust type that can be the element of a [`Buffer`](crate::Buffer): `f32`, [`half::f16`], [`half::bf16`],
/// [`f8`](tile_dsl::f8::f8), `i32`, `u32`, `i8`, `u8`, `i64`, `bool`.
///
/// Sealed: the set is what the compiler knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of a buffer",
    note = "elements are f32, f16, bf16, f8, i32, u32, i8, u8, i64 and bool; `tilewright::prelude` has f16, bf16 and f8"
)]
pub trait Element:
    Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static
{
    /// The same type in the IRs.
    const DTYPE: DType;
    /// Little-endian bytes of a slice, as they lie in device memory.
    fn bytes_of(slice: &[Self]) -> Vec<u8>;
    /// Inverse of [`Element::bytes_of`]; a trailing partial element is dropped. Of any bytes: those of a `bool` that are not zero
    /// are true.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    /// Makes bytes that others wrote such as Rust has for elements: of a `bool` no other than 0 and 1.
    #[doc(hidden)]
    fn settle(_bytes: &mut [u8]) {}
}

/// An [`Element`] that collectives can combine: floats and integers, no truth values.
///
/// Sealed: the set is what NCCL knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that a collective can combine",
    note = "those are f32, f16, bf16, f8, i32, u32, i8, u8 and i64"
)]
pub trait Reducible: Element {
    /// Combines the elements at each place, in the order of the ranks. All have as many as the first.
    #[doc(hidden)]
    fn combine(reduction: Reduction, ranks: &[Vec<Self>]) -> Vec<Self>;
}

/// Combines the elements at each place.
fn combined<T: Copy + Default>(ranks: &[Vec<T>], one: impl Fn(usize) -> Option<T>) -> Vec<T> {
    (0..ranks.first().map_or(0, Vec::len)).map(|place| one(place).unwrap_or_default()).collect()
}

/// A floating-point [`Element`]: what a kernel's generic parameter `T: Float` ranges over.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no floating-point element",
    note = "those are f32, f16, bf16 and f8; `tilewright::prelude` has f16, bf16 and f8"
)]
pub trait Float: Reducible + Into<ScalarValue> {
    /// Rounds to nearest, ties to even. What is too large for an `f8` becomes the largest one.
    fn from_f64(x: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($($variant:ident: $ty:ty, $kind:ident;)*) => {
        /// Value of a scalar parameter: a variant for each type.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum ScalarValue {
            $(
                #[doc = concat!("`", stringify!($ty), "`.")]
                $variant($ty),
            )*
        }

        impl ScalarValue {
            /// A number, rounded to a type.
            pub fn from_f64(dtype: DType, x: f64) -> Self {
                match dtype {
                    $(DType::$variant => ScalarValue::$variant(Number::from_f64(x)),)*
                }
            }

            /// The number, or nothing for an integer of 64 bits that is no `f64`.
            pub(crate) fn exact(self) -> Option<f64> {
                match self {
                    ScalarValue::I64(n) if n.unsigned_abs() > 1 << 53 => None,
                    other => Some(other.to_f64()),
                }
            }

            /// Exact, but for integers of 64 bits beyond 2⁵³, which are rounded.
            pub fn to_f64(self) -> f64 {
                match self {
                    $(ScalarValue::$variant(x) => Number::to_f64(x),)*
                }
            }

            /// Its type.
            pub fn dtype(self) -> DType {
                match self {
                    $(ScalarValue::$variant(_) => DType::$variant,)*
                }
            }

            /// Its bits, in the low bytes of a word.
            pub(crate) fn to_word(self) -> u64 {
                let mut word = [0; 8];
                match self {
                    $(ScalarValue::$variant(x) => word[..size_of::<$ty>()].copy_from_slice(&Bytes::of(x)),)*
                }
                u64::from_le_bytes(word)
            }

            /// Little-endian bytes, as many as the type has.
            pub fn to_le_bytes(self) -> Vec<u8> {
                match self {
                    $(ScalarValue::$variant(x) => Bytes::of(x).to_vec(),)*
                }
            }
        }

        /// Elements of a type from their little-endian bytes.
        pub(crate) fn elements(dtype: DType, bytes: &[u8]) -> Elements {
            match dtype {
                $(DType::$variant => Elements::$variant(<$ty>::from_bytes(bytes)),)*
            }
        }

        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const DTYPE: DType = DType::$variant;
                fn bytes_of(slice: &[Self]) -> Vec<u8> {
                    slice.iter().flat_map(|x| Bytes::of(*x)).collect()
                }
                fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                    bytes.as_chunks().0.iter().map(|c| Bytes::read(*c)).collect()
                }
                element!(@settle $kind);
            }
            element!(@bytes $kind $ty);
            impl From<$ty> for ScalarValue {
                fn from(x: $ty) -> Self {
                    ScalarValue::$variant(x)
                }
            }
            element!(@$kind $ty);
        )*
    };
    (@float $ty:ty) => {
        impl Float for $ty {
            fn from_f64(x: f64) -> Self {
                Number::from_f64(x)
            }
            fn to_f64(self) -> f64 {
                Number::to_f64(self)
            }
        }
        impl Reducible for $ty {
            fn combine(reduction: Reduction, ranks: &[Vec<Self>]) -> Vec<Self> {
                let each = |place: usize| ranks.iter().map(move |rank| Number::to_f64(rank[place]));
                combined(ranks, |place| reduction::float(reduction, each(place)).map(Number::from_f64))
            }
        }
    };
    (@int $ty:ty) => {
        impl Reducible for $ty {
            fn combine(reduction: Reduction, ranks: &[Vec<Self>]) -> Vec<Self> {
                let each = |place: usize| ranks.iter().map(move |rank| rank[place]);
                combined(ranks, |place| reduction::integer(reduction, each(place), <$ty>::wrapping_add))
            }
        }
    };
    (@truth $ty:ty) => {};
    (@bytes truth $ty:ty) => {
        impl Bytes<1> for $ty {
            fn of(self) -> [u8; 1] {
                [self.into()]
            }
            fn read(bytes: [u8; 1]) -> Self {
                bytes != [0]
            }
        }
    };
    (@bytes $kind:ident $ty:ty) => {
        impl Bytes<{ size_of::<$ty>() }> for $ty {
            fn of(self) -> [u8; size_of::<$ty>()] {
                self.to_le_bytes()
            }
            fn read(bytes: [u8; size_of::<$ty>()]) -> Self {
                <$ty>::from_le_bytes(bytes)
            }
        }
    };
    (@settle truth) => {
        fn settle(bytes: &mut [u8]) {
            bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    };
    (@settle $kind:ident) => {};
}

/// An element as bytes in memory, least significant first.
trait Bytes<const N: usize> {
    fn of(self) -> [u8; N];
    fn read(bytes: [u8; N]) -> Self;
}

tile_dsl::element_types!(element);

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::f8::f8;

    #[test]
    fn bytes_round_trip() {
        let x = [1.5f32, -0.0, f32::INFINITY];
        assert_eq!(f32::from_bytes(&f32::bytes_of(&x)), x);
        assert_eq!(half::f16::bytes_of(&[half::f16::ONE]), [0x00, 0x3c]);
        for value in [
            ScalarValue::F32(-1.5),
            half::f16::ONE.into(),
            half::bf16::ONE.into(),
            f8::ONE.into(),
            (-2i32).into(),
            true.into(),
        ] {
            let bytes = value.to_le_bytes();
            assert_eq!(value.to_word().to_le_bytes()[..bytes.len()], bytes, "{value:?}");
        }
        assert_eq!(
            (f8::bytes_of(&[f8::ONE, f8::MIN]), f8::from_bytes(&[0x01])[0].to_f64()),
            (vec![0x38, 0xfe], 2f64.powi(-9))
        );
        assert_eq!(<f8 as Float>::from_f64(1e9).to_bits(), 0x7e);
        assert_eq!(ScalarValue::from(half::bf16::ONE).to_le_bytes(), [0x80, 0x3f]);
    }

    #[test]
    fn any_byte_is_a_truth_value() {
        assert_eq!(bool::bytes_of(&[true, false]), [1, 0]);
        assert_eq!(bool::from_bytes(&[0, 1, 2, 128, 255]), [false, true, true, true, true]);
        let mut foreign = [0, 1, 2, 255];
        bool::settle(&mut foreign);
        assert_eq!(foreign, [0, 1, 1, 1]);
        u8::settle(&mut foreign);
        assert_eq!(foreign, [0, 1, 1, 1]);
    }
}
