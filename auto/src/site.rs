//! A launch as templates see it: the structure, its sizes, the GPU.

use crate::{
    candidate::{Text, part},
    gpu::Gpu,
    spelling::Spelling,
    structure::{AxisAt, Reduction, Sizes, Structure, Value},
};
use tile_dsl::{dtype::DType, schedule::Target};

/// Where a schedule is wanted.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// What the kernel does, as it is spelled.
    pub structure: &'a Structure,
    /// How it is spelled.
    pub spelling: &'a Spelling,
    /// Values of the named dims.
    pub sizes: &'a Sizes,
    /// The GPU.
    pub gpu: &'a Gpu,
}

impl<'a> Site<'a> {
    /// A spelling of a launch's kernel.
    pub fn new(spelling: &'a Spelling, sizes: &'a Sizes, gpu: &'a Gpu) -> Site<'a> {
        Site { structure: &spelling.structure, spelling, sizes, gpu }
    }

    /// `tile` of some axes; `online` says the size of the axis whose reductions share a loop.
    pub(crate) fn tile(&self, sizes: &[(AxisAt, i64)]) -> Text {
        let (online, tiles): (Vec<_>, Vec<_>) =
            sizes.iter().partition(|(axis, _)| self.spelling.online == Some(*axis));
        let list = |of: &[&(AxisAt, i64)]| {
            let each = of.iter().map(|(axis, n)| format!("{} = {n}", self.name(*axis)));
            each.collect::<Vec<_>>().join(", ")
        };
        Text::default()
            .when(!online.is_empty(), format!("online({})", list(&online)))
            .when(!tiles.is_empty(), format!("tile({})", list(&tiles)))
    }

    /// Points of an axis.
    pub fn extent(&self, axis: AxisAt) -> i64 {
        self.structure.extent(axis, self.sizes)
    }

    /// Name of an axis.
    pub fn name(&self, axis: AxisAt) -> &str {
        self.structure.name(axis)
    }

    /// A name for a part of an axis.
    pub(crate) fn part(&self, axis: AxisAt, suffix: &str) -> String {
        part(self.structure, axis, suffix)
    }

    /// The next power of two of an axis' extent, at most `most`: a tile beyond it is empty.
    pub(crate) fn reach(&self, axis: AxisAt, most: i64) -> i64 {
        (self.extent(axis).clamp(1, most) as u64).next_power_of_two() as i64
    }

    /// Whether rows along an axis begin at multiples of 16 bytes in every access along it.
    pub(crate) fn rows_are_even(&self, axis: AxisAt) -> bool {
        let along = self.structure.accesses.iter().filter(|a| a.along() == Some(axis));
        along.into_iter().all(|a| self.extent(axis) * i64::from(a.dtype.bytes()) % 16 == 0)
    }

    /// Least and greatest bytes of an element that is accessed along an axis; 4 where nothing is.
    pub(crate) fn element_bytes(&self, axis: AxisAt) -> (i64, i64) {
        let along = self.structure.accesses.iter().filter(|a| a.along() == Some(axis));
        let bytes: Vec<i64> = along.map(|a| i64::from(a.dtype.bytes())).collect();
        (bytes.iter().copied().min().unwrap_or(4), bytes.iter().copied().max().unwrap_or(4))
    }

    /// Reads of the largest size: what a thread has in flight counts once for each.
    pub(crate) fn streams(&self) -> i64 {
        let size = |a: &crate::structure::Access| self.structure.points(&a.axes(), self.sizes);
        let reads = || self.structure.accesses.iter().filter(|a| a.how == crate::structure::How::Read);
        let most = reads().map(size).fold(0.0, f64::max);
        let mut tensors: Vec<&str> = reads().filter(|a| size(a) == most).map(|a| a.tensor.as_str()).collect();
        tensors.sort_unstable();
        tensors.dedup();
        tensors.len().max(1) as i64
    }

    /// The oldest target that has the element types.
    pub(crate) fn target(&self) -> Target {
        let dtypes = self.structure.accesses.iter().map(|a| a.dtype);
        match dtypes.into_iter().any(|dtype| dtype == DType::F8) {
            true => Target { sm: 89, specific: false },
            false => Target::DEFAULT,
        }
    }

    /// Whether accesses are vectors along an axis: those that go along it do so step by step, from multiples of the vector on, and
    /// not by values.
    pub(crate) fn has_vectors(&self, axis: AxisAt, elements: i64) -> bool {
        let mut some = self.structure.accesses.iter().filter(|a| a.axes().contains(&axis)).peekable();
        some.peek().is_some()
            && some.all(|a| {
                let by = a.dims.iter().filter_map(|d| d.by.as_ref()).flatten().any(|other| *other == axis);
                let begins = a.contiguous().is_some_and(|d| d.constant % elements == 0);
                a.along() == Some(axis) && begins && !by
            })
    }

    /// What every candidate begins with: the layouts of the arguments.
    pub(crate) fn layouts(&self) -> Text {
        let col = self.structure.column_major.iter();
        col.fold(Text::default(), |text, tensor| text.with(format!("layout({tensor}: col)")))
    }

    /// `tile` of recurrences that no other rule sizes: what is carried needs to know where a tile ends.
    pub(crate) fn steps(&self, most: i64) -> Text {
        let carried = (0..self.structure.axes.len()).filter(|a| self.structure.axes[*a].carried);
        carried.fold(Text::default(), |text, axis| text.then(&self.tile(&[(axis, self.reach(axis, most))])))
    }

    /// `recompute` and `fuse` of values as long as an axis: what reads them computes them again, and nothing is held.
    pub(crate) fn again(&self, axis: AxisAt) -> Text {
        self.again_at(axis, self.name(axis))
    }

    /// As [`Site::again`], where the axis is cut: at a part of it.
    pub(crate) fn again_at(&self, axis: AxisAt, place: &str) -> Text {
        let long: Vec<&Value> = self.structure.long_values().filter(|v| v.axes.contains(&axis)).collect();
        self.again_of(&long, place)
    }

    fn again_of(&self, long: &[&Value], place: &str) -> Text {
        let names = |of: &[&Value]| of.iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(", ");
        let shared: Vec<&Value> = long.iter().copied().filter(|v| v.readers > 1).collect();
        let text = Text::default().when(!shared.is_empty(), format!("recompute({})", names(&shared)));
        text.when(!long.is_empty(), format!("fuse({} at {place})", names(long)))
    }

    /// As [`Site::again`], of values along any of some axes: each inside the loop over this one, or over another where it lacks this.
    pub(crate) fn again_along(&self, axes: &[AxisAt], first: AxisAt) -> Text {
        let mut text = Text::default();
        let mut placed: Vec<&str> = Vec::new();
        for axis in std::iter::once(&first).chain(axes) {
            let long: Vec<&Value> = self.structure.long_values().filter(|v| v.axes.contains(axis)).collect();
            let new: Vec<&Value> = long.into_iter().filter(|v| !placed.contains(&v.name.as_str())).collect();
            placed.extend(new.iter().map(|v| v.name.as_str()));
            text = text.then(&self.again_of(&new, self.name(*axis)));
        }
        text
    }

    /// Whole axes that a reduction keeps, or a loop hands on values along: what goes along them is held.
    pub(crate) fn kept(&self) -> Vec<AxisAt> {
        let s = self.structure;
        let along = |a: &AxisAt| {
            s.reductions.iter().any(|r| r.axes.contains(a))
                || s.values.iter().any(|v| v.carried && v.axes.contains(a))
        };
        s.with_role(crate::structure::Role::Whole).into_iter().filter(along).collect()
    }

    /// `fits` of the dims of some axes, so that what goes along them is held: a power of two, or one and a half, from the size up.
    pub(crate) fn fits(&self, axes: &[AxisAt]) -> Text {
        let mut dims: Vec<(&str, i64)> = Vec::new();
        for axis in axes {
            for dim in self.structure.axes[*axis].extent.dims.keys() {
                if dims.iter().all(|(d, _)| d != dim) {
                    let size = self.sizes.get(dim).copied().unwrap_or(1);
                    dims.push((dim, holding(size, 1)));
                }
            }
        }
        dims.into_iter()
            .fold(Text::default(), |text, (dim, most)| text.with(format!("fits({dim} <= {most})")))
    }
}

/// The next of 2ⁿ and 3·2ⁿ⁻¹ of a number, in multiples of `unit`: classes of sizes that one kernel serves.
pub(crate) fn holding(n: i64, unit: i64) -> i64 {
    let units = (n.max(1) + unit - 1) / unit;
    let power = (units as u64).next_power_of_two() as i64;
    let between = power / 4 * 3;
    unit * if between >= units && between > 0 { between } else { power }
}

/// Names of reductions, for `reduce` and the like.
pub(crate) fn names(reductions: &[Reduction]) -> String {
    reductions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", ")
}
