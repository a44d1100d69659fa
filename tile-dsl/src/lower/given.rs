//! The launches that a kernel is made for.

use crate::assume::Strided;

/// What of a launch a kernel is made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Tensors that have strides of their own, in some problem at least.
    pub strided: Strided,
    /// Several problems in one launch: the parameters of each are a row of a table in global memory ([`crate::kernel::Table`]).
    pub grouped: bool,
}
