//! Tensor maps in the driver's encoding.

use super::describe;
use crate::{
    error::Error,
    tensor_map::{BYTES, Encoded, TensorMap},
};
use cudarc::driver::sys::{self, CUtensorMapDataType_enum as Type};

/// The driver's types of elements.
const TYPES: [Type; 10] = [
    Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
    Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
    Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
    Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
    Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
    Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
];

/// Encodes a map. Boxes of 16 bytes and more are fetched from L2 by lines of 128 bytes or two.
///
/// # Errors
/// [`Error::TensorMap`] with what the driver says.
pub(crate) fn encode(map: &TensorMap) -> Result<Encoded, Error> {
    use sys::{
        CUtensorMapFloatOOBfill_enum as Fill, CUtensorMapInterleave_enum as Interleave,
        CUtensorMapL2promotion_enum as Promotion, CUtensorMapSwizzle_enum as Swizzle,
    };
    let code = map.dtype.format().tensor_map;
    let Some(element) = TYPES.into_iter().find(|ty| *ty as u32 == code) else {
        unreachable!("the driver has no type {code}, which is {}", map.dtype)
    };
    let swizzle = match map.swizzle {
        128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    // One more than there may be strides: the driver reads none of a map of one dimension.
    let mut strides = [0u64; 5];
    strides[..map.strides.len()].copy_from_slice(&map.strides);
    let steps = [1u32; 5];
    let mut out = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the arrays have as many numbers as the rank says, and the driver writes `out` alone.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut out,
            element,
            map.dims.len() as u32,
            std::ptr::without_provenance_mut(map.address as usize),
            map.dims.as_ptr(),
            strides.as_ptr(),
            map.tile.as_ptr(),
            steps.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            // Whole lines: pairs of them cost 7 % at 5000³, where rows begin within lines, and gain nothing at 4096³
            // (docs/notebook/2026-11-25-rows-within-lines.md).
            Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    status.result().map_err(|e| Error::TensorMap {
        name: "a tensor".into(),
        what: format!(
            "{}; extents {:?}, strides {:?}, box {:?}",
            describe(e),
            map.dims,
            map.strides,
            map.tile
        ),
    })?;
    let mut bytes = [0; BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(out.opaque) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(Encoded(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_dsl::dtype::DType;

    #[test]
    fn codes_of_types_are_those_of_the_driver() {
        for (dtype, ty) in [
            (DType::F32, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
            (DType::F16, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
            (DType::BF16, Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
            (DType::F8, Type::CU_TENSOR_MAP_DATA_TYPE_UINT8),
            (DType::I32, Type::CU_TENSOR_MAP_DATA_TYPE_INT32),
            (DType::U32, Type::CU_TENSOR_MAP_DATA_TYPE_UINT32),
            (DType::I8, Type::CU_TENSOR_MAP_DATA_TYPE_UINT8),
            (DType::U8, Type::CU_TENSOR_MAP_DATA_TYPE_UINT8),
            (DType::I64, Type::CU_TENSOR_MAP_DATA_TYPE_INT64),
            (DType::Bool, Type::CU_TENSOR_MAP_DATA_TYPE_UINT8),
        ] {
            assert_eq!(dtype.format().tensor_map, ty as u32, "{dtype}");
        }
        for dtype in DType::ALL {
            assert!(TYPES.iter().any(|ty| *ty as u32 == dtype.format().tensor_map), "{dtype}");
        }
    }
}
