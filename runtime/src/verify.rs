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
    arguments::{LaunchArgs, TensorArg},
    buffer::AnyBuffer,
    dims,
    error::Error,
    geometry::Geometry,
};
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
        let shapes: Vec<&[usize]> = args.tensors.iter().map(|(_, t)| &t.raw().geometry.shape[..]).collect();
        let mut inputs = Inputs {
            dims: dims::resolve(&kernel.tensors, &shapes)?,
            tiles: program.nest.tiles(),
            ..Inputs::default()
        };
        for (name, tensor) in args.tensors.iter() {
            let elements = match tensor {
                TensorArg::In(buffer) => elements(*buffer)?,
                TensorArg::Out(buffer) => elements(&**buffer)?,
            };
            inputs.tensors.insert((*name).into(), elements);
        }
        for (name, value) in args.scalars.iter() {
            let exact = value.exact().ok_or_else(|| Error::Arguments {
                kernel: args.kernel.into(),
                what: format!("`{name}` is {value:?}: the evaluator knows integers up to 2^53"),
            })?;
            inputs.scalars.insert((*name).into(), exact);
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
    let span = raw.span()?;
    fn ordered<T: crate::Element>(span: &[u8], geometry: &Geometry) -> Vec<T> {
        let stored = T::from_bytes(span);
        (0..geometry.count()).map(|position| stored[geometry.place(position)]).collect()
    }
    let geometry = &raw.geometry;
    macro_rules! of_type {
        ($($variant:ident: $ty:ty, $kind:ident;)*) => {
            match raw.dtype {
                $(DType::$variant => Elements::$variant(ordered(&span, geometry)),)*
            }
        };
    }
    Ok(tile_dsl::element_types!(of_type))
}
