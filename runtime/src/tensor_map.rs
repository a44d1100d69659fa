//! Tensor maps: what a launch tells the hardware of a tensor whose boxes it copies (PTX ISA 5.5.8).

use crate::{error::Error, geometry::Geometry};
use smallvec::SmallVec;
use tile_dsl::dtype::DType;

/// Bytes of a map, as large as its alignment allows on every driver.
pub(crate) const BYTES: usize = 128;

/// One number a dimension; a map has at most five.
pub(crate) type PerDim<T> = SmallVec<[T; 5]>;

/// What a kernel wants of a map, whatever the arguments.
#[derive(Clone, Debug)]
pub(crate) struct MapShape {
    /// The tensor, by position among the parameters.
    pub(crate) tensor: usize,
    /// Which of its dimensions each dimension of the map is, fastest first.
    pub(crate) dims: PerDim<usize>,
    /// Elements of a box, likewise.
    pub(crate) tile: PerDim<u32>,
    /// Bytes of the swizzle's span, 0 for none.
    pub(crate) swizzle: u32,
}

/// A map of the tensor of a launch.
#[derive(Clone, Debug)]
pub(crate) struct TensorMap {
    pub(crate) address: u64,
    pub(crate) dtype: DType,
    /// Extents in elements, fastest first.
    pub(crate) dims: PerDim<u64>,
    /// Bytes from one index to the next, of all dimensions but the fastest.
    pub(crate) strides: PerDim<u64>,
    pub(crate) tile: PerDim<u32>,
    pub(crate) swizzle: u32,
}

/// 128 bytes, aligned as the driver wants them.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(crate) struct Encoded(pub(crate) [u8; BYTES]);

/// Alignment of a tensor and of its strides, in bytes.
const ALIGN: u64 = 16;
/// Strides are less than this many bytes.
const STRIDE: u64 = 1 << 40;

impl MapShape {
    /// The map of a tensor at this address. Of an extent 0 nothing is ever copied, and the hardware knows no such extent.
    ///
    /// # Errors
    /// [`Error::TensorMap`] where the hardware cannot address the tensor, which the assumptions of a variant exclude.
    pub(crate) fn of(
        &self,
        name: &str,
        address: u64,
        dtype: DType,
        geometry: &Geometry,
    ) -> Result<TensorMap, Error> {
        let bytes = u64::from(dtype.bytes());
        let extent = |d: &usize| (geometry.shape[*d] as u64).max(1);
        // Where there is one index, its stride means nothing.
        let stride = |d: &usize| match geometry.shape[*d] {
            0 | 1 => ALIGN,
            _ => geometry.strides[*d] as u64 * bytes,
        };
        let map = TensorMap {
            address: if geometry.count() == 0 { ALIGN } else { address },
            dtype,
            dims: self.dims.iter().map(extent).collect(),
            strides: self.dims.iter().skip(1).map(stride).collect(),
            tile: self.tile.clone(),
            swizzle: self.swizzle,
        };
        let wrong = |what: String| Err(Error::TensorMap { name: name.into(), what });
        if map.address % ALIGN != 0 {
            return wrong(format!(
                "its first element is at {:#x}, no multiple of {ALIGN} bytes",
                map.address
            ));
        }
        if let Some(stride) = map.strides.iter().find(|s| **s % ALIGN != 0 || **s >= STRIDE) {
            return wrong(format!("a stride is {stride} bytes, no multiple of {ALIGN} below 2^40"));
        }
        if let Some(extent) = map.dims.iter().find(|d| **d > 1 << 32) {
            return wrong(format!("an extent is {extent}, more than 2^32"));
        }
        Ok(map)
    }
}
