//! What the templates of products ask of a structure.

use crate::{
    candidate::Text,
    site::Site,
    structure::{AxisAt, Factor, How, Product, Reduction, Role, Structure},
};

/// A product of two loaded factors, by the axes that templates tile.
pub(super) struct Matrix<'a> {
    /// The reduction.
    pub sum: &'a Reduction,
    /// What it sums.
    pub product: &'a Product,
    /// Rows: the innermost axis that the first factor has alone.
    pub i: AxisAt,
    /// Columns: the innermost axis that the second factor has alone.
    pub j: AxisAt,
    /// What is summed over.
    pub k: AxisAt,
    /// Tensor of the factor with the rows.
    pub a: &'a str,
    /// Tensor of the factor with the columns.
    pub b: &'a str,
    /// Bytes of an element of a factor.
    pub bytes: i64,
    /// Whole axes that are summed over, too: loops around that over tiles.
    pub around: Vec<AxisAt>,
}

/// The one product of a structure; its rows are those of the factor that is written first.
pub(super) fn matrix(s: &Structure) -> Result<Matrix<'_>, &'static str> {
    let mut sums = s.reductions.iter().filter_map(|r| Some((r, r.product.as_ref()?)));
    let (sum, product) = sums.next().ok_or("nothing is a sum of products")?;
    if sums.next().is_some() || s.reductions.len() > 1 {
        return Err("there are several reductions");
    }
    if s.is_recurrent() {
        return Err("a loop carries state");
    }
    let [rows, columns, _] = product.split();
    let inner = |axes: std::collections::BTreeSet<AxisAt>| {
        axes.into_iter().rfind(|a| s.axes[*a].role == Role::Program && !sum.over.contains(a))
    };
    let (i, j) = (
        inner(rows).ok_or("no factor has rows alone")?,
        inner(columns).ok_or("no factor has columns alone")?,
    );
    let tiled = sum.over.iter().copied().rfind(|a| s.axes[*a].role == Role::Tiles);
    let k = tiled.ok_or("no loop over tiles is summed over")?;
    let of = |n: usize| product.factors[n].access.map(|a| &s.accesses[a]);
    let (a, b) = (of(0).ok_or("a factor is computed")?, of(1).ok_or("a factor is computed")?);
    if a.dtype != b.dtype {
        return Err("the factors have different types");
    }
    let bytes = i64::from(a.dtype.bytes());
    let around = sum.over.iter().copied().filter(|a| *a != k).collect();
    Ok(Matrix { around, sum, product, i, j, k, a: &a.tensor, b: &b.tensor, bytes })
}

impl Matrix<'_> {
    /// Whether a factor is contiguous along the axis that is summed over.
    pub(super) fn along_k(&self, s: &Structure, factor: usize) -> bool {
        let access = self.product.factors[factor].access.map(|a| &s.accesses[a]);
        access.is_some_and(|a| a.along() == Some(self.k))
    }

    /// Whether both factors are loaded as they are, where their forms alone say.
    pub(super) fn is_plain(&self, s: &Structure) -> bool {
        let plain = |f: &Factor| !f.masked && f.access.is_some_and(|a| !s.accesses[a].goes_by_values());
        self.product.factors.iter().all(plain)
    }

    /// Loops around that over tiles of the sum, as the beginning of `reorder`: `r, s, k.o, `; nothing where there are none.
    pub(super) fn outer(&self, site: &Site<'_>) -> String {
        let around: String = self.around.iter().map(|a| format!("{}, ", site.name(*a))).collect();
        if around.is_empty() { around } else { format!("{around}{}.o, ", site.name(self.k)) }
    }

    /// Tiles of one point along loops that are not summed over.
    pub(super) fn steps(&self, site: &Site<'_>) -> Text {
        let s = site.structure;
        let others = s.with_role(Role::Tiles).into_iter().filter(|a| !self.sum.over.contains(a));
        others.fold(Text::default(), |text, a| text.with(format!("tile({} = 1)", site.name(a))))
    }

    /// Whether rows of both factors begin at multiples of 16 bytes.
    pub(super) fn rows_are_even(&self, site: &Site<'_>) -> bool {
        (0..2).all(|factor| self.step_of_rows(site, factor) == 16)
    }

    /// Bytes of which rows of a factor begin at multiples, 16 at most.
    fn step_of_rows(&self, site: &Site<'_>, factor: usize) -> i64 {
        let along = self.product.factors[factor].access.and_then(|a| site.structure.accesses[a].along());
        along.map_or(self.bytes, |axis| {
            let row = site.extent(axis) * self.bytes;
            [16, 8, 4].into_iter().find(|bytes| row % bytes == 0).unwrap_or(self.bytes)
        })
    }

    /// Bytes that threads copy of each factor at once, as many as its rows allow; `None` where its elements, of two bytes, go one by one.
    /// Where that is so of both, the text is that of even rows, and its general variant runs.
    pub(super) fn vectors(&self, site: &Site<'_>) -> [Option<i64>; 2] {
        match [0, 1].map(|factor| Some(self.step_of_rows(site, factor)).filter(|bytes| *bytes >= 4)) {
            [None, None] => [Some(16); 2],
            vectors => vectors,
        }
    }

    /// Copies of both factors to shared memory.
    pub(super) fn copies(&self, site: &Site<'_>) -> Text {
        let (k, vectors) = (site.name(self.k), self.vectors(site));
        let how = |bytes: Option<i64>| bytes.map(|n| format!(", cp_async, vector({n})")).unwrap_or_default();
        if vectors[0] == vectors[1] {
            let both = format!("stage({}, {} at {k}: shared{})", self.a, self.b, how(vectors[0]));
            return Text::default().with(both);
        }
        let [a, b] = vectors.map(how);
        Text::default()
            .with(format!("stage({} at {k}: shared{a})", self.a))
            .with(format!("stage({} at {k}: shared{b})", self.b))
    }

    /// The tensor that is stored, if it is one that nothing reads.
    pub(super) fn stored<'s>(&self, s: &'s Structure) -> Option<&'s str> {
        let mut writes = s.accesses.iter().filter(|a| a.how != How::Read);
        let first = writes.next()?;
        let is_read = s.accesses.iter().any(|a| a.how == How::Read && a.tensor == first.tensor);
        (writes.next().is_none() && !is_read && !first.guarded).then_some(first.tensor.as_str())
    }

    /// Numbers of CTAs that share the axis that is summed over: few tiles leave multiprocessors idle.
    pub(super) fn parts(&self, site: &Site<'_>, (bi, bj, bk): (i64, i64, i64), of: &[i64]) -> Vec<i64> {
        let s = site.structure;
        let others = s.program().into_iter().filter(|a| *a != self.i && *a != self.j);
        let batch: i64 = others.map(|a| site.extent(a)).product();
        let tiles = batch
            * (site.extent(self.i) as u64).div_ceil(bi as u64) as i64
            * (site.extent(self.j) as u64).div_ceil(bj as u64) as i64;
        let steps = (site.extent(self.k) as u64).div_ceil(bk as u64) as i64;
        let useful = |p: i64| p == 1 || (p <= steps && (tiles as f64) < 2.0 * site.gpu.multiprocessors);
        of.iter().copied().filter(|p| useful(*p)).collect()
    }
}
