//! What is wrong with a nest or a kernel that the compiler made itself.

use crate::kernel::verify::VerifyError;

/// A mistake of the compiler: the engine's checks exclude it for every schedule that they accept, in all variants.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// The engine accepted a nest that it should have refused, or made one that it should not have.
    #[error("internal error: malformed nest: {0}")]
    Malformed(String),
    /// The lowering made a kernel that it should not have.
    #[error("internal error: {0}")]
    Invalid(#[from] VerifyError),
}
