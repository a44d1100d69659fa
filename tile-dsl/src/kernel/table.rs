//! The parameters of the problems of a grouped kernel, as they lie in global memory.
//!
//! ```text
//! entry(rows, starts, problems, tiles)
//! rows:   a row a problem; in it the parameters of [`super::Kernel::params`], in order, each aligned to its size
//! starts: problems + 1 times i32: the number of a problem's first tile among those of all; the last is `tiles`
//! ```

use super::Param;

/// Where each parameter lies in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// First byte of each parameter in its row.
    pub offsets: Vec<u32>,
    /// Bytes of a row, a multiple of [`Table::ALIGN`].
    pub row: u32,
}

impl Table {
    /// Alignment of a row in bytes, that of tensor maps included (CUDA driver API, `cuTensorMapEncodeTiled`).
    pub const ALIGN: u32 = 128;

    /// The rows of these parameters.
    pub fn of(params: &[Param]) -> Self {
        let mut row = 0u32;
        let mut place = |param: &Param| {
            let start = row.next_multiple_of(param.bytes().min(Self::ALIGN));
            row = start + param.bytes();
            start
        };
        let offsets = params.iter().map(&mut place).collect();
        Table { offsets, row: row.max(1).next_multiple_of(Self::ALIGN) }
    }
}
