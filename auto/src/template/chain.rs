//! Two products with a recurrence between them, on the tensor cores of warps: what lies between stays in registers.
//!
//! | hole | rule |
//! |---|---|
//! | tile | 64, 128 or 256 rows, 16 or 32 a warp; a step of 32, 64 or 128 |
//! | stages | 2 or 3 of the two factors that a step reads |
//! | held | the whole axes, at most 128 points |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Cores, Shape, Text},
    site::Site,
    structure::{AxisAt, Reduction, Role, Structure},
};

pub(super) const TEMPLATE: Template = Template {
    name: "chain",
    what: "two products with a recurrence between them",
    applies: |site| {
        let c = chain(site.structure)?;
        needs(c.bytes == 2, "the factors have no 16 bits")?;
        needs(c.whole.iter().all(|a| site.extent(*a) <= 128), "a whole axis has more than 128 points")
    },
    candidates,
};

struct Chain<'a> {
    first: &'a Reduction,
    second: &'a Reduction,
    /// Rows.
    i: AxisAt,
    /// The axis with the recurrence.
    j: AxisAt,
    /// Tensors: the first factor of the first product, which stays; the two that a step reads.
    held: &'a str,
    read: [&'a str; 2],
    /// Whole axes: what the first product sums over, what the second keeps.
    whole: [AxisAt; 2],
    bytes: i64,
}

fn chain(s: &Structure) -> Result<Chain<'_>, &'static str> {
    let products: Vec<&Reduction> = s.reductions.iter().filter(|r| r.product.is_some()).collect();
    let [first, second] = products[..] else { return Err("there are not two products") };
    let carried: Vec<AxisAt> = (0..s.axes.len()).filter(|a| s.axes[*a].carried).collect();
    let [j] = carried[..] else { return Err("not one loop carries state") };
    let tensor = |r: &Reduction, n: usize| {
        let access = r.product.as_ref().and_then(|p| p.factors[n].access);
        access.map(|a| &s.accesses[a]).filter(|a| !a.goes_by_values())
    };
    let held = tensor(first, 0).ok_or("the first product has a computed factor")?;
    let keys = tensor(first, 1).ok_or("the first product has a computed factor")?;
    let values = tensor(second, 1).ok_or("the second factor of the second product is computed")?;
    let d = *first.over.iter().next().ok_or("the first product sums over nothing")?;
    let whole = |a: &&AxisAt| s.axes[**a].role == Role::Whole;
    let e = *second.axes.iter().find(whole).ok_or("the second product keeps no whole axis")?;
    let i = held.axes().into_iter().rfind(|a| s.axes[*a].role == Role::Program);
    let i = i.ok_or("no factor has rows alone")?;
    if first.over.len() != 1 || !second.over.contains(&j) || s.axes[d].role != Role::Whole {
        return Err("the products do not follow one another");
    }
    let bytes = i64::from(keys.dtype.bytes());
    Ok(Chain {
        first,
        second,
        i,
        j,
        held: &held.tensor,
        read: [&keys.tensor, &values.tensor],
        whole: [d, e],
        bytes,
    })
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let Ok(c) = chain(site.structure) else { return Vec::new() };
    let (i, j) = (site.name(c.i), site.name(c.j));
    let (iw, im) = (site.part(c.i, "w"), site.part(c.i, "m"));
    let (d, e) = (site.name(c.whole[0]), site.name(c.whole[1]));
    let (v1, v2) = (&c.first.name, &c.second.name);
    let (q, [k, v]) = (c.held, c.read);
    let stored = site
        .structure
        .accesses
        .iter()
        .rfind(|a| a.axes().contains(&c.whole[1]) && a.how != crate::structure::How::Read);
    let Some(o) = stored.map(|a| &a.tensor) else { return Vec::new() };
    let head = c.whole.iter().map(|a| site.extent(*a)).max().unwrap_or(1);
    let most = if head <= 64 { 64 } else { 128 };
    let mut dims: Vec<&str> =
        c.whole.iter().filter_map(|a| site.structure.axes[*a].extent.as_dim()).collect();
    dims.dedup();
    let mut found = Vec::new();
    for bi in [16, 32, 64, 128, 256] {
        for bj in [32, 64, 128] {
            for wi in [16, 32] {
                for stages in [2, 3] {
                    if bi / wi > 16
                        || bi < wi
                        || bi > 16 && bi >= 2 * site.reach(c.i, 1 << 40)
                        || bj > 32 && bj >= 2 * site.reach(c.j, 1 << 40)
                    {
                        continue;
                    }
                    let rows = if wi > 16 { format!(", {im}") } else { String::new() };
                    let fits =
                        dims.iter().fold(Text::default(), |t, dim| t.with(format!("fits({dim} <= {most})")));
                    let text = fits
                        .with(format!("tile({i} = {bi}, {j} = {bj})"))
                        .with(format!("split({i} -> {iw}, {im}: {wi})"))
                        .with(format!("tensor_core({v1}: mma)"))
                        .with(format!("tensor_core({v2}: mma)"))
                        .with(format!("reorder({iw}, {d}.atom, {j}.atom{rows} in {v1})"))
                        .with(format!("reorder({iw}, {j}.acc, {e}.atom{rows} in {v2})"))
                        .with(format!("stage({q} at {i}: shared, vector(16))"))
                        .with(format!("stage({k}, {v} at {j}: shared, cp_async, vector(16))"))
                        .with(format!("pad({q}: 16, {k}: 16, {v}: 16)"))
                        .with(format!("pipeline({j}, {stages})"))
                        .with(format!("bind({iw} -> warp.x)"))
                        .with(format!("vectorize({e}.pair in {o})"));
                    found.push(Candidate {
                        template: TEMPLATE.name,
                        holes: format!("{bi} by {bj}, {wi} rows a warp, {stages} stages"),
                        target: site.target(),
                        text: site.layouts().then(&text).done(),
                        shape: Shape {
                            threads: 32 * bi / wi,
                            tile: vec![(c.i, bi), (c.j, bj)],
                            stages,
                            shared: (bi + 2 * bj * stages) * most * c.bytes,
                            cores: Some(Cores::Mma),
                            each: wi * (bj + most) / 32,
                            ..Shape::default()
                        },
                    });
                }
            }
        }
    }
    found
}
