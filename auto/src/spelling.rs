//! Spellings of a kernel: as written, and with what an axis is reduced to in one loop over its tiles.
//!
//! ```text
//! let m = max(v, n); let l = sum(exp(v - m), n);                    as written: rows are held, or read twice
//! for n in tiles(N) { .. l = l * m.scale + sum(exp(v - m.frame), n); m = m.next }    online(n = 1024): rows are read once
//! ```
//! Templates see the structure of each. Of the second kind, the directive `online` says the size of a tile, in place of `tile`.

use crate::structure::{AxisAt, Role, Structure};
use std::collections::BTreeSet;
use tile_dsl::{
    diagnostic::Diagnostic,
    dtype::DType,
    index::AxisId,
    tile::{self, in_one_loop},
};

/// A spelling.
#[derive(Clone, Debug, PartialEq)]
pub struct Spelling {
    /// What the kernel does to its data, spelled so.
    pub structure: Structure,
    /// The axis whose reductions share a loop, where that is not as written.
    pub online: Option<AxisAt>,
    /// Axes that the text does not have: points of the loop's axis that are computed again behind it.
    pub behind: Vec<AxisAt>,
}

impl Spelling {
    /// All spellings of a kernel, as written first. `column_major` names tensors whose first dimension is the contiguous one.
    ///
    /// # Errors
    /// A kernel that no schedule can be proved for.
    pub fn all(
        kernel: &tile::Kernel,
        dtype: Option<DType>,
        column_major: &BTreeSet<String>,
    ) -> Result<Vec<Spelling>, Diagnostic> {
        let structure = Structure::of(kernel, dtype, column_major)?;
        let mut all = vec![Spelling { structure, online: None, behind: Vec::new() }];
        let kernel = kernel.instantiate(dtype);
        for axis in all[0].structure.again() {
            // A loop that scales nothing is no other spelling: its reductions are plain ones.
            let Ok(written) = in_one_loop(&kernel, AxisId(axis as u16)) else { continue };
            let Ok(structure) = Structure::of(&written, None, column_major) else { continue };
            if structure.axes[axis].carried {
                let behind = (kernel.axes.len()..structure.axes.len()).collect();
                let structure = Structure { dtype, ..structure };
                all.push(Spelling { structure, online: Some(axis), behind });
            }
        }
        Ok(all)
    }
}

impl Structure {
    /// Axes that several reductions go over, and that no loop carries state along.
    fn again(&self) -> Vec<AxisAt> {
        let over = |axis: &AxisAt| self.reductions.iter().filter(|r| r.over.contains(axis)).count();
        let alone = |axis: &AxisAt| self.axes[*axis].role != Role::Program && !self.axes[*axis].carried;
        (0..self.axes.len()).filter(|axis| alone(axis) && over(axis) > 1).collect()
    }
}
