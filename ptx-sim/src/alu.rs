//! Register-only instructions over the 32 lanes of a warp.

pub(crate) mod convert;
pub(crate) mod exec;
pub(crate) mod float;
pub(crate) mod int;
