//! Is a result right? The tile IR of a schedule, evaluated in `f64`, with the error that rounding may cause.
//!
//! An element is right when
//!
//! ```text
//! |c − ref| ≤ γ·(n + 1)·u·magnitude + ½ ulp_out(ref)
//! ```
//!
//! with the exact result `ref`, the same expression over absolute values as `magnitude`, the longest sum's length
//! `n`, and `u` = 2⁻²⁴, the unit roundoff of the accumulation. γ = 1 covers every order of summation (Higham,
//! "Accuracy and Stability of Numerical Algorithms", §4.2). A largest relative error alone is no criterion:
//! cancellation makes it arbitrarily large in a correct result.
//!
//! The evaluator visits every term: some 10⁷ a second. For larger products check samples or products with vectors.

use crate::{
    buffer::{AnyBuffer, Layout, Storage},
    dims::{self, Argument},
    element::{Float, ScalarValue},
    error::Error,
    launch::{LaunchArgs, TensorArg},
};
use half::{bf16, f16};
use std::collections::BTreeMap;
pub use tile_dsl::tile::evaluate::{Comparison, U, half_ulp};
use tile_dsl::{
    dtype::DType,
    program::Program,
    tile::evaluate::{self, Elements, Inputs, Reference},
};

/// The exact results of one call of a kernel.
#[derive(Clone, Debug)]
pub struct Expected {
    results: BTreeMap<String, Reference>,
}

impl Expected {
    /// Evaluates the kernel of `program` in `f64` on the arguments of a call, before it is launched.
    ///
    /// # Errors
    /// What a launch would say of the shapes; [`Error::Arguments`] for arguments that the kernel does not take.
    pub fn of(program: &Program, args: &LaunchArgs<'_>) -> Result<Self, Error> {
        let kernel = &program.nest.kernel;
        let arguments: Vec<Argument<'_>> = args
            .tensors
            .iter()
            .map(|(_, t)| Argument { shape: &t.raw().shape, layout: t.raw().layout })
            .collect();
        let dims = dims::resolve(&kernel.tensors, &arguments)?;
        let mut inputs = Inputs { dims, tiles: program.nest.tiles(), ..Inputs::default() };
        for (name, tensor) in &args.tensors {
            let elements = match tensor {
                TensorArg::In(buffer) => elements(*buffer)?,
                TensorArg::Out(buffer) => elements(&**buffer)?,
            };
            inputs.tensors.insert((*name).into(), elements);
        }
        for (name, value) in &args.scalars {
            let value = match *value {
                ScalarValue::F32(x) => x.to_f64(),
                ScalarValue::F16(x) => x.to_f64(),
                ScalarValue::BF16(x) => x.to_f64(),
                ScalarValue::I32(x) => x.into(),
            };
            inputs.scalars.insert((*name).into(), value);
        }
        let results = evaluate::reference(kernel, &inputs)
            .map_err(|e| Error::Arguments { kernel: args.kernel.into(), what: e.to_string() })?;
        Ok(Expected { results })
    }

    /// Compares what a launch left in the buffer of parameter `name` with the exact result, under γ = `gamma`.
    ///
    /// # Errors
    /// [`Error::Arguments`] if the kernel does not store to `name`, or the buffer has another size; the driver's error.
    pub fn compare(&self, name: &str, actual: &dyn AnyBuffer, gamma: f64) -> Result<Comparison, Error> {
        let wrong = |what| Error::Arguments { kernel: name.into(), what };
        let expected =
            self.results.get(name).ok_or_else(|| wrong(format!("the kernel does not store to `{name}`")))?;
        let actual = elements(actual)?;
        if actual.len() != expected.values.len() {
            let (found, needed) = (actual.len(), expected.values.len());
            return Err(wrong(format!("`{name}` has {found} elements, and its reference {needed}")));
        }
        Ok(expected.compare(&actual, gamma))
    }
}

/// The elements of a buffer, last dimension fastest whatever the layout.
///
/// # Errors
/// The driver's, on a GPU.
pub fn elements(buffer: &dyn AnyBuffer) -> Result<Elements, Error> {
    let raw = buffer.raw();
    let downloaded;
    let bytes = match &raw.storage {
        Storage::Host(data) => data,
        Storage::Cuda(memory) => {
            downloaded = memory.download()?;
            &downloaded
        }
    };
    fn ordered<T: crate::Element>(bytes: &[u8], shape: &[usize], layout: Layout) -> Vec<T> {
        let stored = T::from_bytes(bytes);
        match layout {
            Layout::RowMajor => stored,
            Layout::ColumnMajor => row_major(shape).map(|at| stored[at]).collect(),
        }
    }
    let (shape, layout) = (&raw.shape, raw.layout);
    match raw.dtype {
        DType::F32 => Ok(Elements::F32(ordered(bytes, shape, layout))),
        DType::F16 => Ok(Elements::F16(ordered::<f16>(bytes, shape, layout))),
        DType::BF16 => Ok(Elements::BF16(ordered::<bf16>(bytes, shape, layout))),
        DType::I32 | DType::Bool => Ok(Elements::I32(ordered(bytes, shape, layout))),
    }
}

/// Offsets in a column-major tensor, in row-major order of its elements.
fn row_major(shape: &[usize]) -> impl Iterator<Item = usize> {
    let count: usize = shape.iter().product();
    (0..count).map(move |position| {
        // Peel the row-major digits off from the last dimension; each weighs the product of the extents before it.
        let (mut rest, mut offset, mut weight) = (position, 0, count);
        for &extent in shape.iter().rev() {
            weight /= extent;
            offset += rest % extent * weight;
            rest /= extent;
        }
        offset
    })
}

#[cfg(test)]
mod tests {
    use super::row_major;

    #[test]
    fn column_major_offsets() {
        assert_eq!(row_major(&[2, 3]).collect::<Vec<_>>(), [0, 2, 4, 1, 3, 5]);
        assert_eq!(row_major(&[2, 1, 2]).collect::<Vec<_>>(), [0, 2, 1, 3]);
        assert_eq!(row_major(&[3, 0]).count(), 0);
    }
}
