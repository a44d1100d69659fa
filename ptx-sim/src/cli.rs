//! The parts of the command-line program.

#[cfg(feature = "cuda")]
pub mod compare;
pub mod element;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod npy;
pub mod output;
pub mod plan;
