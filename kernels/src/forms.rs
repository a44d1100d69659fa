//! Tensors of any rank in the forms that kernels take, and what a launch would not say of their shapes.

use tilewright::{Buffer, Element, Error, Layout, View, ViewMut};

/// Elements of a row that an index of 32 bits reaches, with tiles of up to 65,536 elements.
const LONGEST: usize = (1 << 31) - (1 << 17);

/// What the name, the shape and the strides of a tensor say.
pub(crate) struct Form<'a> {
    name: &'static str,
    shape: &'a [usize],
    dense: bool,
    layout: Layout,
}

impl<'a> Form<'a> {
    pub(crate) fn of<T: Element>(name: &'static str, x: &'a Buffer<T>) -> Self {
        let mut dense = 1;
        // Strides of dimensions of one index say nothing.
        let whole = x.shape().iter().zip(x.strides()).rev().all(|(n, stride)| {
            let next = *n == 1 || *stride == dense;
            dense *= n;
            next
        });
        Form { name, shape: x.shape(), dense: whole || dense == 0, layout: x.layout() }
    }

    /// Whether elements of a row are neighbours, which a tensor in columns is not.
    fn row_major(&self) -> Result<(), Error> {
        match self.layout {
            Layout::RowMajor => Ok(()),
            Layout::ColumnMajor => Err(Error::Shape(format!(
                "`{}` of shape {:?} is column-major, and this function takes row-major tensors",
                self.name, self.shape
            ))),
        }
    }
}

/// Row-major tensors of one shape.
///
/// # Errors
/// [`Error::Shape`].
pub(crate) fn same<'a, const N: usize>(forms: [Form<'a>; N]) -> Result<[Form<'a>; N], Error> {
    for form in &forms {
        form.row_major()?;
        let first = &forms[0];
        if form.shape != first.shape {
            return Err(Error::Shape(format!(
                "shapes disagree: `{}` has shape {:?}, and `{}` has shape {:?}",
                form.name, form.shape, first.name, first.shape
            )));
        }
    }
    Ok(forms)
}

/// Rows and their length of tensors of one shape whose last dimension is the row.
///
/// # Errors
/// [`Error::Shape`].
pub(crate) fn rows<const N: usize>(forms: [Form<'_>; N]) -> Result<[usize; 2], Error> {
    Ok(split(same(forms)?[0].shape))
}

/// The same where rows mean nothing: one row of all elements, where there are neither gaps nor too many.
///
/// # Errors
/// [`Error::Shape`].
pub(crate) fn elements<const N: usize>(forms: [Form<'_>; N]) -> Result<[usize; 2], Error> {
    let forms = same(forms)?;
    let count: usize = forms[0].shape.iter().product();
    Ok(match forms.iter().all(|form| form.dense) && count <= LONGEST {
        true => [1, count],
        false => split(forms[0].shape),
    })
}

/// Sizes M, N and K of a product: rows of x and y, and what is in a row of y and of x.
///
/// # Errors
/// [`Error::Shape`].
pub(crate) fn product(x: Form<'_>, y: Form<'_>) -> Result<[usize; 3], Error> {
    x.row_major()?;
    y.row_major()?;
    let ([m, k], [out, n]) = (split(x.shape), split(y.shape));
    if x.shape.len() != y.shape.len() || m != out {
        return Err(Error::Shape(format!(
            "shapes disagree: `{}` has shape {:?}, and `{}` has shape {:?}; all but the last dimension are the same",
            y.name, y.shape, x.name, x.shape
        )));
    }
    Ok([m, n, k])
}

fn split(shape: &[usize]) -> [usize; 2] {
    let (length, outer) = shape.split_last().unwrap_or((&1, &[]));
    [outer.iter().product(), *length]
}

/// A tensor under another shape, gaps and all where that can be.
///
/// # Errors
/// [`Error::Gaps`].
pub(crate) fn seen<'a, T: Element>(x: &'a Buffer<T>, shape: &[usize]) -> Result<View<'a, T>, Error> {
    match x.shape() == shape {
        true => x.slice(&whole(shape)),
        false => x.reshaped(shape),
    }
}

/// The same, to be written.
///
/// # Errors
/// [`Error::Gaps`].
pub(crate) fn seen_mut<'a, T: Element>(
    x: &'a mut Buffer<T>,
    shape: &[usize],
) -> Result<ViewMut<'a, T>, Error> {
    match x.shape() == shape {
        true => x.slice_mut(&whole(shape)),
        false => x.reshaped_mut(shape),
    }
}

fn whole(shape: &[usize]) -> Vec<std::ops::Range<usize>> {
    shape.iter().map(|n| 0..*n).collect()
}
