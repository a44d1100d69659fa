//! Views: parts of buffers, and buffers read otherwise, without a copy.

use crate::{
    buffer::Buffer,
    element::Element,
    error::Error,
    geometry::{Geometry, Layout},
};
use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut, Range},
};

/// A tensor in memory that something else owns, to be read. It is passed to kernels as `&view`.
///
/// It derefs to [`Buffer`], whose methods it has.
#[derive(Debug)]
pub struct View<'a, T: Element> {
    buffer: Buffer<T>,
    owner: PhantomData<&'a Buffer<T>>,
}

/// A tensor in memory that something else owns, to be written. It is passed to kernels as `&mut view`.
///
/// It derefs to [`Buffer`], whose methods it has.
#[derive(Debug)]
pub struct ViewMut<'a, T: Element> {
    buffer: Buffer<T>,
    owner: PhantomData<&'a mut Buffer<T>>,
}

impl<T: Element> Deref for View<'_, T> {
    type Target = Buffer<T>;
    fn deref(&self) -> &Buffer<T> {
        &self.buffer
    }
}

impl<T: Element> Deref for ViewMut<'_, T> {
    type Target = Buffer<T>;
    fn deref(&self) -> &Buffer<T> {
        &self.buffer
    }
}

impl<T: Element> DerefMut for ViewMut<'_, T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        &mut self.buffer
    }
}

impl<T: Element> View<'_, T> {
    pub(crate) fn of(buffer: Buffer<T>) -> Self {
        View { buffer, owner: PhantomData }
    }
}

impl<T: Element> ViewMut<'_, T> {
    pub(crate) fn of(buffer: Buffer<T>) -> Self {
        ViewMut { buffer, owner: PhantomData }
    }
}

impl<T: Element> Buffer<T> {
    /// Some indices of each dimension; the strides stay.
    ///
    /// # Errors
    /// [`Error::Slice`] when there is not one range a dimension, or one leaves its extent.
    pub fn slice(&self, ranges: &[Range<usize>]) -> Result<View<'_, T>, Error> {
        Ok(View::of(self.alias(self.raw.geometry.slice(ranges)?)))
    }

    /// [`Buffer::slice`], to be written.
    ///
    /// # Errors
    /// As [`Buffer::slice`].
    pub fn slice_mut(&mut self, ranges: &[Range<usize>]) -> Result<ViewMut<'_, T>, Error> {
        Ok(ViewMut::of(self.alias(self.raw.geometry.slice(ranges)?)))
    }

    /// The dimensions in the opposite order: an `M×N` tensor as the `N×M` one that is stored column-major where this
    /// one is row-major. Nothing moves.
    pub fn transposed(&self) -> View<'_, T> {
        View::of(self.alias(self.raw.geometry.transposed()))
    }

    /// [`Buffer::transposed`], to be written.
    pub fn transposed_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::of(self.alias(self.raw.geometry.transposed()))
    }

    /// The same elements under another shape, in the order in which they are stored.
    ///
    /// Of a view with gaps a dimension may be split, and dimensions without a gap between them joined: the heads of `[S, G·R, D]` are
    /// `[S, G, R, D]`.
    ///
    /// # Errors
    /// [`Error::DataLength`] when `shape` has another number of elements, [`Error::Gaps`] when a dimension of it would run over a gap.
    pub fn reshaped(&self, shape: &[usize]) -> Result<View<'_, T>, Error> {
        Ok(View::of(self.alias(self.reshape(shape)?)))
    }

    /// [`Buffer::reshaped`], to be written.
    ///
    /// # Errors
    /// As [`Buffer::reshaped`].
    pub fn reshaped_mut(&mut self, shape: &[usize]) -> Result<ViewMut<'_, T>, Error> {
        Ok(ViewMut::of(self.alias(self.reshape(shape)?)))
    }

    fn reshape(&self, shape: &[usize]) -> Result<Geometry, Error> {
        let g = &self.raw.geometry;
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if count != Some(g.count()) {
            return Err(Error::DataLength { shape: shape.to_vec(), elements: g.count() });
        }
        g.reshaped(shape).ok_or_else(|| {
            let (shape, strides) = (g.shape.to_vec(), g.strides.to_vec());
            Error::Gaps { shape, strides, what: "another shape" }
        })
    }

    /// The first `at` indices of dimension `dim` and the others, both to be written, at once if need be.
    ///
    /// # Errors
    /// [`Error::Slice`] when there is no such dimension or it is shorter.
    pub fn split_at_mut(&mut self, dim: usize, at: usize) -> Result<(ViewMut<'_, T>, ViewMut<'_, T>), Error> {
        let g = &self.raw.geometry;
        let part = |range: Range<usize>| {
            let mut ranges: Vec<_> = g.shape.iter().map(|n| 0..*n).collect();
            match ranges.get_mut(dim) {
                Some(whole) => *whole = range,
                None => ranges.push(range),
            }
            g.slice(&ranges)
        };
        let end = g.shape.get(dim).copied().unwrap_or(at);
        let (first, second) = (part(0..at)?, part(at..end)?);
        Ok((ViewMut::of(self.alias(first)), ViewMut::of(self.alias(second))))
    }

    /// A row-major tensor of zeros with a row pitch: `pitch` elements from the start of a row (of the last dimension)
    /// to the next. The gaps are zero too.
    ///
    /// # Errors
    /// [`Error::Strides`] when the pitch is shorter than a row, [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn zeros_pitched(device: &crate::Device, shape: &[usize], pitch: usize) -> Result<Self, Error> {
        let mut padded = shape.to_vec();
        if let Some(row) = padded.last_mut() {
            *row = pitch;
        }
        let strides = Geometry::dense(&padded, Layout::RowMajor).strides;
        let geometry = Geometry::strided(shape, &strides, Layout::RowMajor)?;
        Ok(Self::zeros(device, &padded)?.alias(geometry))
    }
}
