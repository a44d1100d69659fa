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
    /// Whether boxes are stored by it, and cover the tensor; otherwise they are copied from it.
    pub(crate) stored: bool,
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
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(128))]
pub(crate) struct Encoded(pub(crate) [u8; BYTES]);

/// Alignment of a tensor and of its strides, in bytes.
const ALIGN: u64 = 16;
/// Strides are less than this many bytes.
const STRIDE: u64 = 1 << 40;

/// Rows of a padded copy start at multiples of so many bytes: a line of the caches.
const PITCH: usize = 128;

/// A copy of a tensor whose rows the hardware can address.
#[derive(Clone, Debug)]
pub(crate) struct Padded {
    /// The tensor, by position among the parameters.
    pub(crate) tensor: usize,
    pub(crate) geometry: Geometry,
    pub(crate) bytes: u64,
    /// Whether its rows are copied to the tensor after the kernel, which stores all of them; otherwise from it, before.
    pub(crate) stored: bool,
    /// In place of a tensor without elements: zero, which is what lies outside of a tensor.
    pub(crate) empty: bool,
}

/// Rows of a tensor, and where they lie on both sides of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Of a row; 0 when there is none.
    pub(crate) bytes: usize,
    /// The dimensions that are not within a row, fastest first; those that one stride walks are one.
    pub(crate) dims: SmallVec<[RowDim; 4]>,
}

/// A dimension of [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowDim {
    pub(crate) count: usize,
    /// Bytes from one index to the next: where rows come from, where they go.
    pub(crate) steps: [usize; 2],
}

impl Rows {
    /// The other way.
    pub(crate) fn back(mut self) -> Rows {
        self.dims.iter_mut().for_each(|dim| dim.steps.reverse());
        self
    }

    /// Calls `f` with the byte offsets of each row from the first element of either side.
    pub(crate) fn each(&self, mut f: impl FnMut([usize; 2])) {
        let count: usize = self.dims.iter().map(|dim| dim.count).product();
        for mut n in 0..if self.bytes == 0 { 0 } else { count } {
            let mut at = [0; 2];
            for dim in &self.dims {
                (0..2).for_each(|side| at[side] += n % dim.count * dim.steps[side]);
                n /= dim.count;
            }
            f(at);
        }
    }
}

impl Padded {
    /// A copy of a tensor that a map cannot address, an element in place of one that has none; `None` where it can.
    pub(crate) fn of(map: &MapShape, address: u64, dtype: DType, geometry: &Geometry) -> Option<Padded> {
        let MapShape { tensor, stored, .. } = *map;
        let size = dtype.bytes() as usize;
        if geometry.count() == 0 {
            // The hardware knows no extent 0: it stores what there is no place for here.
            let one = Geometry::dense(&vec![1; geometry.shape.len()], geometry.layout);
            return Some(Padded { tensor, bytes: ALIGN, geometry: one, stored, empty: true });
        }
        let order: PerDim<usize> = geometry.layout.fastest_first(geometry.shape.len()).collect();
        let aligned = |d: &usize| {
            geometry.shape[*d] <= 1 || ((geometry.strides[*d] * size) as u64).is_multiple_of(ALIGN)
        };
        if address.is_multiple_of(ALIGN) && order.iter().skip(1).all(aligned) {
            return None;
        }
        let mut padded = Geometry { offset: 0, ..geometry.clone() };
        let mut room = 1;
        for (n, d) in order.iter().enumerate() {
            padded.strides[*d] = room;
            room *= geometry.shape[*d];
            if n == 0 {
                room = (room * size).next_multiple_of(PITCH) / size;
            }
        }
        Some(Padded { tensor, bytes: (room * size) as u64, geometry: padded, stored, empty: false })
    }

    /// What to copy from the tensor itself.
    pub(crate) fn rows(&self, geometry: &Geometry, dtype: DType) -> Rows {
        let size = dtype.bytes() as usize;
        if geometry.count() == 0 {
            return Rows { bytes: 0, dims: SmallVec::new() };
        }
        let mut order = geometry.layout.fastest_first(geometry.shape.len());
        let bytes = order.next().map_or(1, |d| geometry.shape[d]) * size;
        let mut dims = SmallVec::<[RowDim; 4]>::new();
        for d in order.filter(|d| geometry.shape[*d] > 1) {
            let count = geometry.shape[d];
            let steps = [&geometry.strides, &self.geometry.strides].map(|strides| strides[d] * size);
            match dims.last_mut() {
                // It goes on where the one before it ends.
                Some(last) if (0..2).all(|side| steps[side] == last.steps[side] * last.count) => {
                    last.count *= count
                }
                _ => dims.push(RowDim { count, steps }),
            }
        }
        Rows { bytes, dims }
    }
}

impl MapShape {
    /// The map of a tensor at this address.
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
        let extent = |d: &usize| geometry.shape[*d] as u64;
        // Where there is one index, its stride means nothing.
        let stride = |d: &usize| match geometry.shape[*d] {
            1 => ALIGN,
            _ => geometry.strides[*d] as u64 * bytes,
        };
        let map = TensorMap {
            address,
            dtype,
            dims: self.dims.iter().map(extent).collect(),
            strides: self.dims.iter().skip(1).map(stride).collect(),
            tile: self.tile.clone(),
            swizzle: self.swizzle,
        };
        let wrong = |what: String| Err(Error::TensorMap { name: name.into(), what });
        if !map.address.is_multiple_of(ALIGN) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Layout;

    #[test]
    fn rows_that_no_map_addresses_are_padded() {
        let (dims, tile) = (PerDim::new(), PerDim::new());
        let map = MapShape { tensor: 0, dims, tile, swizzle: 0, stored: false };
        let dense = Geometry::dense(&[3, 5, 4097], Layout::RowMajor);
        let padded = Padded::of(&map, 256, DType::BF16, &dense).expect("4097 columns");
        assert_eq!(&padded.geometry.strides[..], [5 * 4160, 4160, 1]);
        assert_eq!(padded.bytes, 3 * 5 * 4160 * 2);
        let rows = |bytes, dims: &[(usize, [usize; 2])]| Rows {
            bytes,
            dims: dims.iter().map(|(count, steps)| RowDim { count: *count, steps: *steps }).collect(),
        };
        assert_eq!(padded.rows(&dense, DType::BF16), rows(8194, &[(15, [8194, 8320])]));
        assert_eq!(padded.rows(&dense, DType::BF16).back(), rows(8194, &[(15, [8320, 8194])]));
        // A batch with a stride of its own is a dimension of its own.
        let apart = Geometry::strided(&[2, 5, 4097], &[5 * 4097 + 7, 4097, 1], Layout::RowMajor).unwrap();
        let padded = Padded::of(&map, 256, DType::BF16, &apart).expect("4097 columns");
        let batch = (2, [2 * (5 * 4097 + 7), 2 * 5 * 4160]);
        let found = padded.rows(&apart, DType::BF16);
        assert_eq!(found, rows(8194, &[(5, [8194, 8320]), batch]));
        let mut places = Vec::new();
        found.each(|at| places.push(at));
        assert_eq!(
            (places.len(), places[1], places[6]),
            (10, [8194, 8320], [batch.1[0] + 8194, batch.1[1] + 8320])
        );
        let aligned = Geometry::dense(&[5, 4096], Layout::RowMajor);
        assert!(Padded::of(&map, 256, DType::BF16, &aligned).is_none());
        assert!(Padded::of(&map, 258, DType::BF16, &aligned).is_some(), "the first element is not aligned");
        let empty = Geometry::dense(&[0, 4096], Layout::RowMajor);
        let padded = Padded::of(&map, 256, DType::BF16, &empty).expect("no elements");
        assert_eq!((&padded.geometry.shape[..], padded.bytes), (&[1, 1][..], 16));
        assert_eq!(padded.rows(&empty, DType::BF16), rows(0, &[]));
        let column = Geometry::dense(&[4097, 5], Layout::ColumnMajor);
        let padded = Padded::of(&map, 256, DType::F32, &column).expect("4097 rows");
        assert_eq!(&padded.geometry.strides[..], [1, 4128]);
    }
}
