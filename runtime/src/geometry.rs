//! Where the elements of a tensor lie in its memory: shape, strides, offset.

use crate::error::Error;
use smallvec::SmallVec;
use std::ops::Range;

/// Which dimension of a tensor is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    /// The last: element `[i, j]` of an `M×N` tensor without gaps lies at `i·N + j`.
    #[default]
    RowMajor,
    /// The first: element `[i, j]` of an `M×N` tensor without gaps lies at `i + j·M`.
    ColumnMajor,
}

impl Layout {
    /// `row-major` or `column-major`.
    pub fn name(self) -> &'static str {
        match self {
            Layout::RowMajor => "row-major",
            Layout::ColumnMajor => "column-major",
        }
    }

    /// The other one.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Layout::RowMajor => Layout::ColumnMajor,
            Layout::ColumnMajor => Layout::RowMajor,
        }
    }

    /// The dimensions of a tensor of this rank, fastest first.
    pub(crate) fn fastest_first(self, rank: usize) -> impl DoubleEndedIterator<Item = usize> {
        (0..rank).map(move |n| match self {
            Layout::RowMajor => rank - 1 - n,
            Layout::ColumnMajor => n,
        })
    }
}

/// One number a dimension. Kernels take tensors of at most six.
pub(crate) type PerDim = SmallVec<[usize; 6]>;

/// Shape, strides and offset, all in elements.
///
/// The dimension that `layout` makes the fastest has stride 1; no two elements share a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) shape: PerDim,
    pub(crate) strides: PerDim,
    pub(crate) layout: Layout,
    /// Of the first element.
    pub(crate) offset: usize,
}

impl Geometry {
    /// Without gaps. The number of elements must not overflow.
    pub(crate) fn dense(shape: &[usize], layout: Layout) -> Self {
        let mut strides = PerDim::from_elem(1, shape.len());
        let mut stride = 1usize;
        for d in layout.fastest_first(shape.len()) {
            strides[d] = stride;
            stride = stride.saturating_mul(shape[d]);
        }
        Geometry { shape: shape.into(), strides, layout, offset: 0 }
    }

    /// With these strides.
    ///
    /// # Errors
    /// [`Error::Strides`] when their number is not the rank, the contiguous dimension's is not 1, or elements would
    /// overlap; [`Error::SizeOverflow`] when the last element lies beyond what can be addressed.
    pub(crate) fn strided(shape: &[usize], strides: &[usize], layout: Layout) -> Result<Self, Error> {
        let wrong = |what: String| Error::Strides { strides: strides.to_vec(), shape: shape.to_vec(), what };
        if strides.len() != shape.len() {
            return Err(wrong(format!("it has {} dimensions", shape.len())));
        }
        let mut room = 1usize;
        for (n, d) in layout.fastest_first(shape.len()).enumerate() {
            if n == 0 && strides[d] != 1 {
                return Err(wrong(format!("dimension {d}, its contiguous one, needs stride 1")));
            }
            if strides[d] < room && shape[d] > 1 {
                return Err(wrong(format!("dimension {d} needs a stride of at least {room}")));
            }
            let overflow = || Error::SizeOverflow { shape: shape.to_vec() };
            room = strides[d].max(room).checked_mul(shape[d].max(1)).ok_or_else(overflow)?;
        }
        Ok(Geometry { shape: shape.into(), strides: strides.into(), layout, offset: 0 })
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie without gaps in the order of `layout`.
    pub(crate) fn is_dense(&self) -> bool {
        let mut stride = 1;
        self.layout.fastest_first(self.shape.len()).all(|d| {
            let fits = self.shape[d] <= 1 || self.strides[d] == stride;
            stride *= self.shape[d];
            fits
        }) || self.count() == 0
    }

    /// Elements from the first to one past the last, gaps included; 0 if there are none.
    pub(crate) fn span(&self) -> usize {
        match self.count() {
            0 => 0,
            _ => self.shape.iter().zip(&self.strides).map(|(n, s)| (n - 1) * s).sum::<usize>() + 1,
        }
    }

    /// Some indices of each dimension.
    ///
    /// # Errors
    /// [`Error::Slice`] when there is not one range a dimension, or one leaves its extent.
    pub(crate) fn slice(&self, ranges: &[Range<usize>]) -> Result<Self, Error> {
        let fits = |(r, &n): (&Range<usize>, &usize)| r.start <= r.end && r.end <= n;
        if ranges.len() != self.shape.len() || !ranges.iter().zip(&self.shape).all(fits) {
            return Err(Error::Slice { ranges: ranges.to_vec(), shape: self.shape.to_vec() });
        }
        let starts = ranges.iter().zip(&self.strides).map(|(r, stride)| r.start * stride);
        Ok(Geometry {
            offset: self.offset + starts.sum::<usize>(),
            shape: ranges.iter().map(ExactSizeIterator::len).collect(),
            ..self.clone()
        })
    }

    /// As many elements in the same order under another shape; `None` where a dimension of it would run over a gap.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let dense = Geometry { offset: self.offset, ..Geometry::dense(shape, self.layout) };
        if self.is_dense() {
            return Some(dense);
        }
        let mut strides = dense.strides;
        let mut to = self.layout.fastest_first(shape.len()).peekable();
        let mut from = self.layout.fastest_first(self.shape.len()).filter(|&d| self.shape[d] != 1).peekable();
        while let Some(first) = from.next() {
            // Dimensions without a gap between them.
            let (step, mut count) = (self.strides[first], self.shape[first]);
            while let Some(d) = from.next_if(|&d| self.strides[d] == step * count) {
                count *= self.shape[d];
            }
            let mut covered = 1;
            while let Some(d) = to.next_if(|&d| covered < count || shape[d] == 1) {
                strides[d] = step * covered;
                covered *= shape[d];
            }
            if covered != count {
                return None;
            }
        }
        // The contiguous dimension stays one.
        match self.layout.fastest_first(shape.len()).next() {
            Some(d) if shape[d] == 1 => strides[d] = 1,
            Some(d) if strides[d] != 1 => return None,
            _ => {}
        }
        Some(Geometry { strides, ..dense })
    }

    /// The dimensions in the opposite order.
    pub(crate) fn transposed(&self) -> Self {
        Geometry {
            shape: self.shape.iter().rev().copied().collect(),
            strides: self.strides.iter().rev().copied().collect(),
            layout: self.layout.reversed(),
            offset: self.offset,
        }
    }

    /// Calls `f` with the place of each contiguous run and its length, in the order in which the layout stores the
    /// elements.
    pub(crate) fn runs(&self, mut f: impl FnMut(usize, usize)) {
        if self.count() == 0 {
            return;
        }
        let order: PerDim = self.layout.fastest_first(self.shape.len()).collect();
        // The fastest dimensions that follow one another without a gap are one run.
        let (mut length, mut inner) = (1, 0);
        while let Some(&d) = order.get(inner)
            && (self.shape[d] == 1 || self.strides[d] == length)
        {
            length *= self.shape[d];
            inner += 1;
        }
        let outer = &order[inner..];
        let mut index = PerDim::from_elem(0, outer.len());
        loop {
            let place: usize = outer.iter().zip(&index).map(|(&d, i)| i * self.strides[d]).sum();
            f(self.offset + place, length);
            let Some(next) = outer.iter().zip(&index).position(|(&d, i)| i + 1 < self.shape[d]) else {
                return;
            };
            index[next] += 1;
            index[..next].fill(0);
        }
    }

    /// Place of the element at a position of the row-major order, from the first element's.
    pub(crate) fn place(&self, position: usize) -> usize {
        let mut rest = position;
        let digits = self.shape.iter().zip(&self.strides).rev().map(|(n, stride)| {
            let i = rest % n;
            rest /= n;
            i * stride
        });
        digits.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(g: &Geometry) -> Vec<(usize, usize)> {
        let mut runs = Vec::new();
        g.runs(|at, n| runs.push((at, n)));
        runs
    }

    #[test]
    fn gaps_stay_between_dimensions_of_another_shape() {
        let heads = Geometry::dense(&[5, 10, 8], Layout::RowMajor).slice(&[1..4, 2..8, 0..8]).unwrap();
        let strides = |shape: &[usize]| heads.reshaped(shape).map(|g| (g.strides.to_vec(), g.offset));
        assert_eq!(strides(&[3, 2, 3, 8]), Some((vec![80, 24, 8, 1], 96)));
        assert_eq!(strides(&[3, 48]), Some((vec![80, 1], 96)));
        assert_eq!(strides(&[1, 3, 1, 6, 4, 2, 1]).unwrap().0[1..6], [80, 48, 8, 2, 1]);
        assert_eq!((strides(&[144]), strides(&[18, 8]), strides(&[6, 24])), (None, None, None));
        let column = Geometry::dense(&[4, 6], Layout::RowMajor).slice(&[0..4, 2..3]).unwrap();
        assert_eq!(column.reshaped(&[2, 2, 1]).unwrap().strides[..], [12, 6, 1]);
        assert_eq!(column.reshaped(&[4]), None, "no dimension would be contiguous");
        assert_eq!(heads.transposed().reshaped(&[8, 3, 2, 3]).unwrap().strides[..], [1, 8, 24, 80]);
    }

    #[test]
    fn slices_keep_the_pitch() {
        let whole = Geometry::dense(&[4, 10], Layout::RowMajor);
        assert!(whole.is_dense());
        assert_eq!(runs(&whole), [(0, 40)]);
        let part = whole.slice(&[1..3, 2..7]).unwrap();
        assert_eq!((part.offset, part.span(), part.is_dense()), (12, 15, false));
        assert_eq!(runs(&part), [(12, 5), (22, 5)]);
        let rows = whole.slice(&[1..3, 0..10]).unwrap();
        assert!(rows.is_dense());
        assert_eq!(runs(&rows), [(10, 20)]);
        assert!(whole.slice(&[2..3, 3..8]).unwrap().is_dense(), "one row has no pitch");
        assert_eq!(runs(&whole.slice(&[2..2, 3..8]).unwrap()), []);
        let across = part.transposed();
        assert_eq!(
            (across.layout, &across.shape[..], &across.strides[..]),
            (Layout::ColumnMajor, &[5, 2][..], &[1, 10][..])
        );
        assert_eq!(runs(&across), runs(&part));
    }

    #[test]
    fn places_follow_the_layout() {
        let places = |shape: &[usize], layout| {
            let g = Geometry::dense(shape, layout);
            (0..g.count()).map(|n| g.place(n)).collect::<Vec<_>>()
        };
        assert_eq!(places(&[2, 3], Layout::RowMajor), [0, 1, 2, 3, 4, 5]);
        assert_eq!(places(&[2, 3], Layout::ColumnMajor), [0, 2, 4, 1, 3, 5]);
        assert_eq!(places(&[2, 1, 2], Layout::ColumnMajor), [0, 2, 1, 3]);
        assert_eq!(places(&[3, 0], Layout::ColumnMajor), []);
    }

    #[test]
    fn a_batch_has_a_stride_of_its_own() {
        let g = Geometry::strided(&[2, 3, 4], &[100, 5, 1], Layout::RowMajor).unwrap();
        assert_eq!(runs(&g), [(0, 4), (5, 4), (10, 4), (100, 4), (105, 4), (110, 4)]);
        assert_eq!(g.span(), 114);
        let joined = Geometry::strided(&[2, 3, 4], &[100, 4, 1], Layout::RowMajor).unwrap();
        assert_eq!(runs(&joined), [(0, 12), (100, 12)]);
    }

    #[test]
    fn strides_that_do_not_fit_are_refused() {
        let message =
            |strides: &[usize], layout| Geometry::strided(&[3, 4], strides, layout).unwrap_err().to_string();
        assert_eq!(
            message(&[3, 1], Layout::RowMajor),
            "strides [3, 1] do not fit a tensor of shape [3, 4]: dimension 0 needs a stride of at least 4"
        );
        assert_eq!(
            message(&[8, 2], Layout::RowMajor),
            "strides [8, 2] do not fit a tensor of shape [3, 4]: dimension 1, its contiguous one, needs stride 1"
        );
        assert_eq!(
            message(&[1, 2], Layout::ColumnMajor),
            "strides [1, 2] do not fit a tensor of shape [3, 4]: dimension 1 needs a stride of at least 3"
        );
        assert_eq!(
            message(&[1], Layout::RowMajor),
            "strides [1] do not fit a tensor of shape [3, 4]: it has 2 dimensions"
        );
        let error = Geometry::strided(&[3, 4], &[usize::MAX, 1], Layout::RowMajor).unwrap_err();
        assert!(matches!(error, Error::SizeOverflow { .. }), "{error}");
    }

    #[test]
    fn slices_stay_inside() {
        let g = Geometry::dense(&[3, 4], Layout::RowMajor);
        assert_eq!(
            g.slice(&[0..3, 2..5]).unwrap_err().to_string(),
            "the slice [0..3, 2..5] leaves a tensor of shape [3, 4]"
        );
        assert!(g.slice(std::slice::from_ref(&(0..3))).is_err());
        #[allow(clippy::reversed_empty_ranges, reason = "what a caller may get wrong")]
        let reversed = [2..1, 0..4];
        assert!(g.slice(&reversed).is_err());
    }
}
