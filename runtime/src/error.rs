//! Everything that can go wrong between a kernel call and its result.

/// An error of the runtime. The message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A slice does not fill the tensor made from it.
    #[error("{elements} elements do not fill a tensor of shape {shape:?}")]
    DataLength {
        /// Shape asked for.
        shape: Vec<usize>,
        /// Elements given.
        elements: usize,
    },
    /// More elements than a device can address.
    #[error("a tensor of shape {shape:?} has more bytes than a device can address")]
    SizeOverflow {
        /// Shape asked for.
        shape: Vec<usize>,
    },
}
