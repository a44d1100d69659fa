//! Operands that an instruction reads from shared memory by itself: how a descriptor says where they lie.
//!
//! ```text
//! k along rows:     k{1>e T>16}        free{1>16W 8>stride}     T = 16 / e elements of 16 bytes, W = span / 16
//! free along rows:  free{1>e T>16 TW>leading}    k{1>16W 8>stride}
//! ```
//! (`stride>bytes` of each digit; `free` is m or n.) Rows are as long as the swizzle's span, and eight of them are its
//! period; a longer row of the box lies in panels ([`CopyLayout::panel`]).
//! Source: PTX ISA 9.7.16.5.1 (matrix descriptor, canonical layouts).

use super::{AccessId, Atom, CopyId, CopyLayout, Digit, Nest, Role};
use crate::index::AxisId;

/// How a descriptor describes an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Elements lie side by side along k.
    pub k_major: bool,
    /// Bytes of the swizzle's span.
    pub swizzle: u32,
    /// Bytes from one span to the next along the contiguous dimension.
    pub leading: u32,
    /// Bytes from eight rows to the next eight.
    pub stride: u32,
}

/// A copy in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'l> {
    /// The copy.
    pub copy: CopyId,
    /// How it lies.
    pub layout: &'l CopyLayout,
    /// Its first index, by dimension, relative to the digits outside.
    pub low: &'l [i64],
}

/// Why a copy cannot be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDescriptor {
    /// Its rows are not swizzled.
    Plain,
    /// Elements lie side by side along m or n, and the instruction reads rows along k alone.
    Turned,
    /// Neither dimension's points lie side by side, or the other's are not in neighbouring rows.
    Apart,
    /// Tiles do not start at multiples of eight rows, or of what stands in a row; elements by which something moves them.
    Unaligned(i64),
}

/// Rows of the pattern of a swizzle.
pub(crate) const PERIOD: u64 = 8;

impl Nest {
    /// How an atom finds an operand in its staged copy. `inside`: the loops inside the copy, those of the atom left out.
    ///
    /// # Errors
    /// Why the copy cannot be described.
    pub fn descriptor(
        &self,
        atom: Atom,
        access: AccessId,
        Placed { copy, layout, low }: Placed<'_>,
        [free, k]: [AxisId; 2],
        inside: &[Digit],
    ) -> Result<Descriptor, NoDescriptor> {
        let (info, index) = (self.copy(copy), &self.access(access).index);
        if info.swizzle == 0 {
            return Err(NoDescriptor::Plain);
        }
        let size = u64::from(self.elem(info.tensor).bytes());
        let (span, row) = (u64::from(info.swizzle), layout.row as i64);
        // What a move of one point does to the place in a row, and to the row.
        let moves = |of: &dyn Fn(usize) -> i64| {
            let rows: i64 = (0..index.len())
                .filter(|d| *d != layout.contiguous)
                .map(|d| of(d) * (layout.strides[d] as i64))
                .sum();
            (of(layout.contiguous), rows / row)
        };
        let point = |axis: AxisId| moves(&|d| index[d].coefficient(axis));
        let k_major = match (point(free), point(k)) {
            ((0, 1), (1, 0)) => true,
            ((1, 0), (0, 1)) => false,
            _ => return Err(NoDescriptor::Apart),
        };
        if atom.row().k_major && !k_major {
            return Err(NoDescriptor::Turned);
        }
        // Whole steps of k along a row; whole panels of the other dimension.
        let along = if k_major { i64::from(atom.size(Role::K)) } else { (span / size) as i64 };
        let aligned = |(x, y): (i64, i64)| match (x % along, y % PERIOD as i64) {
            (0, 0) => None,
            (0, _) => Some(y * row),
            _ => Some(x),
        };
        let steps =
            inside.iter().map(|digit| moves(&|d| index[d].coefficient(digit.axis) * i64::from(digit.stride)));
        let start = moves(&|d| index[d].constant - low[d]);
        if let Some(by) = steps.chain([start]).find_map(aligned) {
            return Err(NoDescriptor::Unaligned(by));
        }
        let panel = layout.rows() * span;
        Ok(Descriptor {
            k_major,
            swizzle: info.swizzle,
            leading: if k_major { 16 } else { panel as u32 },
            stride: (PERIOD * span) as u32,
        })
    }
}
