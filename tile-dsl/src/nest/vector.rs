//! Vectors: along which of the `#vec` loops around it an access moves element by element.

use super::{Access, Digit, LoopKind, Nest, Step, Steps};

/// The vector of an access: a `#vec` loop of which each step is the next element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vector {
    /// The loop.
    pub digit: Digit,
    /// Its steps, the elements of the vector.
    pub steps: u32,
}

/// The innermost of the `#vec` loops whose steps are one element apart; `moved` says by how many elements a step of a loop moves
/// what is accessed. `None` where none of them moves it.
///
/// # Errors
/// The first of them whose steps are further apart.
pub(crate) fn vector(
    loops: impl Iterator<Item = Step>,
    moved: impl Fn(Digit) -> i64,
) -> Result<Option<Vector>, Digit> {
    let mut found = None;
    for (digit, _) in loops.filter(|(_, at)| *at == LoopKind::Vec) {
        match (moved(digit), digit.steps) {
            (0, _) | (1, Steps::Rest) => {}
            (1, Steps::Fixed(steps)) => found = Some(Vector { digit, steps }),
            _ => return Err(digit),
        }
    }
    Ok(found)
}

impl Nest {
    /// The vector of an access of global memory inside of some loops, outermost first.
    ///
    /// # Errors
    /// The first `#vec` loop whose steps are not consecutive elements.
    pub(crate) fn vector(
        &self,
        access: &Access,
        loops: impl Iterator<Item = Step>,
    ) -> Result<Option<Vector>, Digit> {
        let fastest = self.contiguous(access.tensor);
        vector(loops, |digit| {
            let moved = |d: usize| access.index[d].coefficient(digit.axis) * i64::from(digit.stride);
            match (0..access.index.len()).find(|d| moved(*d) != 0) {
                None => 0,
                Some(d) if d == fastest => moved(d),
                // So many rows apart.
                Some(_) => i64::MAX,
            }
        })
    }
}
