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
    /// In place of a tensor without elements: zero, which is what lies outside of a tensor.
    pub(crate) empty: bool,
}

/// Rows that are copied together: byte offsets of the first from the first element of either side, pitches, bytes of a row,
/// rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) pitches: [usize; 2],
    pub(crate) bytes: usize,
    pub(crate) count: usize,
}

impl Rows {
    /// The other way.
    pub(crate) fn back(&self) -> Rows {
        let [from, to] = self.pitches;
        Rows { from: self.to, to: self.from, pitches: [to, from], ..*self }
    }
}

impl Padded {
    /// A copy of a tensor that a map cannot address, an element in place of one that has none; `None` where it can.
    pub(crate) fn of(tensor: usize, address: u64, dtype: DType, geometry: &Geometry) -> Option<Padded> {
        let size = dtype.bytes() as usize;
        if geometry.count() == 0 {
            // The hardware knows no extent 0: it stores what there is no place for here.
            let one = Geometry::dense(&vec![1; geometry.shape.len()], geometry.layout);
            return Some(Padded { tensor, bytes: ALIGN, geometry: one, empty: true });
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
        Some(Padded { tensor, bytes: (room * size) as u64, geometry: padded, empty: false })
    }

    /// What to copy from the tensor itself.
    pub(crate) fn rows(&self, geometry: &Geometry, dtype: DType) -> Vec<Rows> {
        let size = dtype.bytes() as usize;
        if geometry.count() == 0 {
            return Vec::new();
        }
        let order: PerDim<usize> = geometry.layout.fastest_first(geometry.shape.len()).collect();
        let (shape, strides) = (&geometry.shape, [&geometry.strides, &self.geometry.strides]);
        let bytes = order.first().map_or(1, |d| shape[*d]) * size;
        let pitch = |d: Option<&usize>| strides.map(|s| d.map_or(0, |d| s[*d] * size));
        // Dimensions that go on where the ones before them end are rows like those.
        let (mut count, mut taken) = (order.get(1).map_or(1, |d| shape[*d]), 2.min(order.len()));
        while let Some(d) = order.get(taken)
            && strides.iter().all(|s| s[*d] == s[order[1]] * count)
        {
            count *= shape[*d];
            taken += 1;
        }
        let mut all = vec![Rows { from: 0, to: 0, pitches: pitch(order.get(1)), bytes, count }];
        for d in &order[taken..] {
            let [from, to] = pitch(Some(d));
            let step =
                |rows: &Rows, n: usize| Rows { from: rows.from + n * from, to: rows.to + n * to, ..*rows };
            all = (0..shape[*d]).flat_map(|n| all.iter().map(move |rows| step(rows, n))).collect();
        }
        all
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
        let dense = Geometry::dense(&[3, 5, 4097], Layout::RowMajor);
        let padded = Padded::of(0, 256, DType::BF16, &dense).expect("4097 columns");
        assert_eq!(&padded.geometry.strides[..], [5 * 4160, 4160, 1]);
        assert_eq!(padded.bytes, 3 * 5 * 4160 * 2);
        let all = Rows { from: 0, to: 0, pitches: [8194, 8320], bytes: 8194, count: 15 };
        assert_eq!(padded.rows(&dense, DType::BF16), [all]);
        // A batch with a stride of its own is copied matrix by matrix.
        let apart = Geometry::strided(&[2, 5, 4097], &[5 * 4097 + 7, 4097, 1], Layout::RowMajor).unwrap();
        let padded = Padded::of(0, 256, DType::BF16, &apart).expect("4097 columns");
        let first = Rows { count: 5, ..all };
        let second = Rows { from: 2 * (5 * 4097 + 7), to: 2 * 5 * 4160, ..first };
        assert_eq!(padded.rows(&apart, DType::BF16), [first, second]);
        let aligned = Geometry::dense(&[5, 4096], Layout::RowMajor);
        assert!(Padded::of(0, 256, DType::BF16, &aligned).is_none());
        assert!(Padded::of(0, 258, DType::BF16, &aligned).is_some(), "the first element is not aligned");
        let empty = Geometry::dense(&[0, 4096], Layout::RowMajor);
        let padded = Padded::of(0, 256, DType::BF16, &empty).expect("no elements");
        assert_eq!((&padded.geometry.shape[..], padded.bytes), (&[1, 1][..], 16));
        assert_eq!(padded.rows(&empty, DType::BF16), []);
        let column = Geometry::dense(&[4097, 5], Layout::ColumnMajor);
        let padded = Padded::of(0, 256, DType::F32, &column).expect("4097 rows");
        assert_eq!(&padded.geometry.strides[..], [1, 4128]);
    }
}
