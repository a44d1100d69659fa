//! Element types of buffers and scalar arguments, tied to Rust types.

use tile_dsl::{dtype::DType, f8::f8};

/// A Rust type that can be the element of a [`Buffer`](crate::Buffer): `f32`, [`half::f16`], [`half::bf16`],
/// [`f8`], `i32`.
///
/// Sealed: the set is what the compiler knows.
pub trait Element:
    Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static
{
    /// The same type in the IRs.
    const DTYPE: DType;
    /// Little-endian bytes of a slice, as they lie in device memory.
    fn bytes_of(slice: &[Self]) -> Vec<u8>;
    /// Inverse of [`Element::bytes_of`]; a trailing partial element is dropped.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
}

/// A floating-point [`Element`]: what a kernel's generic parameter `T: Float` ranges over.
pub trait Float: Element + Into<ScalarValue> {
    /// Rounds to nearest, ties to even.
    fn from_f64(x: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
}

/// Value of a scalar parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// `f32`.
    F32(f32),
    /// `f16`.
    F16(half::f16),
    /// `bf16`.
    BF16(half::bf16),
    /// `f8`.
    F8(f8),
    /// `i32`.
    I32(i32),
}

impl ScalarValue {
    /// Its type.
    pub fn dtype(self) -> DType {
        match self {
            ScalarValue::F32(_) => DType::F32,
            ScalarValue::F16(_) => DType::F16,
            ScalarValue::BF16(_) => DType::BF16,
            ScalarValue::F8(_) => DType::F8,
            ScalarValue::I32(_) => DType::I32,
        }
    }

    /// Its bits, in the low bytes of a word.
    pub(crate) fn to_word(self) -> u64 {
        match self {
            ScalarValue::F32(x) => x.to_bits().into(),
            ScalarValue::F16(x) => x.to_bits().into(),
            ScalarValue::BF16(x) => x.to_bits().into(),
            ScalarValue::F8(x) => x.to_bits().into(),
            ScalarValue::I32(x) => u64::from(x as u32),
        }
    }

    /// Little-endian bytes, as many as the type has.
    pub fn to_le_bytes(self) -> Vec<u8> {
        match self {
            ScalarValue::F32(x) => x.to_le_bytes().to_vec(),
            ScalarValue::F16(x) => x.to_le_bytes().to_vec(),
            ScalarValue::BF16(x) => x.to_le_bytes().to_vec(),
            ScalarValue::F8(x) => x.to_le_bytes().to_vec(),
            ScalarValue::I32(x) => x.to_le_bytes().to_vec(),
        }
    }
}

macro_rules! element {
    ($($ty:ty => $variant:ident),* $(,)?) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$variant;
            fn bytes_of(slice: &[Self]) -> Vec<u8> {
                slice.iter().flat_map(|x| x.to_le_bytes()).collect()
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|c| <$ty>::from_le_bytes(*c)).collect()
            }
        }
        impl From<$ty> for ScalarValue {
            fn from(x: $ty) -> Self {
                ScalarValue::$variant(x)
            }
        }
    )*};
}

element!(f32 => F32, half::f16 => F16, half::bf16 => BF16, f8 => F8, i32 => I32);

impl Float for f32 {
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Float for half::f16 {
    fn from_f64(x: f64) -> Self {
        half::f16::from_f64(x)
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Float for half::bf16 {
    fn from_f64(x: f64) -> Self {
        half::bf16::from_f64(x)
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}

/// Beyond ±448 it is ±448.
impl Float for f8 {
    fn from_f64(x: f64) -> Self {
        f8::from_f64(x)
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
