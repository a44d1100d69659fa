//! Two products, the second of which takes what the first leaves: on tensor cores, with what lies between in registers.
//!
//! By warps:
//!
//! | hole | rule |
//! |---|---|
//! | tile | 16 to 256 rows, 16 or 32 a warp; a step of 32, 64 or 128 |
//! | stages | 2 or 3 of the two factors that a step reads |
//! | held | the whole axes, at most 128 points |
//!
//! On multiply-adds, lanes share the whole axes of a row: 4 or 8 lanes, 1 to 4 rows each, a step of 8 or 16.
//!
//! By warpgroups, beside one that copies by tensor maps; the first product is a step ahead:
//!
//! | hole | rule |
//! |---|---|
//! | tile | 64 rows a group, 2 groups, or 3 where whole axes have at most 64 points; a step of 64, 80 or 128 |
//! | stages | as many as shared memory holds, 2 or 3 |
//! | maximum | left as the first step makes it, where there is one |
//! | order | longest first, where a limit cuts the loop |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Cores, Shape, Text},
    site::Site,
    structure::{Access, AxisAt, How, Reduction, Role, Structure},
};
use tile_dsl::schedule::Target;

pub(super) const TEMPLATE: Template = Template {
    name: "chain",
    what: "two products, one of what the other leaves",
    applies: |site| {
        let c = chain(site.structure)?;
        needs(c.bytes >= 2, "the factors are narrower than 16 bits")?;
        needs(c.longest(site) <= 256, "a whole axis has more than 256 points")
    },
    candidates: |site| {
        let Ok(c) = chain(site.structure) else { return Vec::new() };
        let mut found = Vec::new();
        if c.bytes == 2 {
            warpgroups(site, &c, &mut found);
            warps(site, &c, &mut found);
        }
        lanes(site, &c, &mut found);
        found
    },
};

struct Chain<'a> {
    first: &'a Reduction,
    second: &'a Reduction,
    /// Rows.
    i: AxisAt,
    /// The axis that the second product sums over.
    j: AxisAt,
    /// The first factor of the first product, which stays.
    held: &'a Access,
    /// The two factors that a step reads.
    read: [&'a Access; 2],
    /// Whole axes: what the first product sums over, what the second keeps.
    whole: [AxisAt; 2],
    /// The tensor that the second product is stored in.
    stored: &'a str,
    bytes: i64,
}

fn chain(s: &Structure) -> Result<Chain<'_>, &'static str> {
    let products: Vec<&Reduction> = s.reductions.iter().filter(|r| r.product.is_some()).collect();
    let [first, second] = products[..] else { return Err("there are not two products") };
    let mut between = second.over.intersection(&first.axes);
    let (Some(&j), None) = (between.next(), between.next()) else {
        return Err("the products do not follow one another");
    };
    let others = s.reductions.iter().any(|r| r.name != second.name && r.over.contains(&j));
    needs(!others || s.axes[j].carried, "sums that wait for others are along the axis between the products")?;
    let carried = (0..s.axes.len()).all(|a| a == j || !s.axes[a].carried);
    needs(carried, "another loop carries state")?;
    let tensor = |r: &Reduction, n: usize| {
        let access = r.product.as_ref().and_then(|p| p.factors[n].access);
        access.map(|a| &s.accesses[a]).filter(|a| !a.goes_by_values())
    };
    let held = tensor(first, 0).ok_or("the first product has a computed factor")?;
    let keys = tensor(first, 1).ok_or("the first product has a computed factor")?;
    let values = tensor(second, 1).ok_or("the second factor of the second product is computed")?;
    let mut summed = first.over.iter();
    let (Some(&d), None) = (summed.next(), summed.next()) else {
        return Err("the first product does not sum over one axis");
    };
    let whole = |a: &&AxisAt| s.axes[**a].role == Role::Whole && **a != j;
    let e = *second.axes.iter().find(whole).ok_or("the second product keeps no whole axis")?;
    needs(s.axes[d].role == Role::Whole, "the first product sums over no whole axis")?;
    let i = held.axes().into_iter().rfind(|a| s.axes[*a].role == Role::Program);
    let i = i.ok_or("no factor has rows alone")?;
    let stored = s.accesses.iter().rfind(|a| a.axes().contains(&e) && a.how != How::Read);
    let stored = &stored.ok_or("the second product is not stored")?.tensor;
    let bytes = i64::from(keys.dtype.bytes());
    Ok(Chain { first, second, i, j, held, read: [keys, values], whole: [d, e], stored, bytes })
}

impl Chain<'_> {
    /// Points of the longer of the whole axes.
    fn longest(&self, site: &Site<'_>) -> i64 {
        self.whole.iter().map(|a| site.extent(*a)).max().unwrap_or(1)
    }

    /// `fits` of the whole axes.
    fn fits(&self, site: &Site<'_>, most: i64) -> Text {
        let mut dims: Vec<&str> =
            self.whole.iter().filter_map(|a| site.structure.axes[*a].extent.as_dim()).collect();
        dims.dedup();
        dims.iter().fold(Text::default(), |t, dim| t.with(format!("fits({dim} <= {most})")))
    }

    /// Whether tensor maps copy the factors: rows begin at multiples of 16 bytes and are contiguous along the whole axes.
    fn has_maps(&self, site: &Site<'_>) -> bool {
        let [d, e] = self.whole;
        let [keys, values] = self.read;
        [(self.held, d), (keys, d), (values, e)]
            .into_iter()
            .all(|(access, along)| access.along() == Some(along) && site.extent(along) * self.bytes % 16 == 0)
    }
}

/// Lanes share whole axes, and add up by shuffles: on multiply-adds.
fn lanes(site: &Site<'_>, c: &Chain<'_>, found: &mut Vec<Candidate>) {
    if c.longest(site) > 128 {
        return;
    }
    let part = |axis: AxisAt, suffix: &str| site.part(axis, suffix);
    let [d, e] = c.whole;
    let (i, j) = (site.name(c.i), site.name(c.j));
    let (iw, il, ir) = (part(c.i, "w"), part(c.i, "l"), part(c.i, "r"));
    let (dh, dl, dv) = (part(d, "h"), part(d, "l"), part(d, "v"));
    let (eh, el, ev) = (part(e, "h"), part(e, "l"), part(e, "v"));
    let (d, e) = (site.name(d), site.name(e));
    let (v1, v2) = (&c.first.name, &c.second.name);
    let (q, k, v) = (&c.held.tensor, &c.read[0].tensor, &c.read[1].tensor);
    // Lanes of a row, and the rows of a warp's lanes.
    let (most, shared) = if c.longest(site) <= 64 { (64, 4) } else { (128, 8) };
    for rows in [4, 2, 1] {
        for bj in [16, 8] {
            let (apart, bi) = (32 / shared, 4 * 32 / shared * rows);
            if rows > 1 && bi >= 2 * site.reach(c.i, 1 << 40) {
                continue;
            }
            let text = c
                .fits(site, most)
                .then(&site.tile(&[(c.i, bi), (c.j, bj)]))
                .with(format!("split({i} -> {iw}, {il}, {ir}: {apart}, {rows})"))
                .with(format!("split({d} -> {dh}, {dl}, {dv}: {shared}, 4)"))
                .with(format!("split({e} -> {eh}, {el}, {ev}: {shared}, 4)"))
                .with(format!("reorder({dh}, {dl}, {dv}, {iw}, {il}, {ir}, {j} in {v1})"))
                .with(format!("reorder({j}, {iw}, {il}, {ir}, {eh}, {el}, {ev} in {v2})"))
                .with(format!("stage({k}, {v} at {j}: shared, cp_async, vector(16))"))
                .with(format!("fragment({q} at {i}.o)"))
                .with(format!("pipeline({j}, 2)"))
                .with(format!("reduce({v1}: lane)"))
                .with(format!("bind({iw} -> warp.x, {il} -> lane.y, {dl} -> lane.x, {el} -> lane.x)"))
                .with(format!("vectorize({dv}, {ev})"));
            found.push(Candidate {
                template: TEMPLATE.name,
                holes: format!("{bi} by {bj}, {shared} lanes a row"),
                target: site.target(),
                text: site.layouts().then(&text).done(),
                shape: Shape {
                    threads: 128,
                    tile: vec![(c.i, bi), (c.j, bj)],
                    stages: 2,
                    shared: 4 * bj * most * c.bytes,
                    cores: Some(Cores::Fma),
                    each: 4 * rows,
                    ..Shape::default()
                },
            });
        }
    }
}

fn warps(site: &Site<'_>, c: &Chain<'_>, found: &mut Vec<Candidate>) {
    if c.longest(site) > 128 {
        return;
    }
    let most = if c.longest(site) <= 64 { 64 } else { 128 };
    let (iw, im) = (site.part(c.i, "w"), site.part(c.i, "m"));
    let (i, j, d, e) = (site.name(c.i), site.name(c.j), site.name(c.whole[0]), site.name(c.whole[1]));
    let (v1, v2) = (&c.first.name, &c.second.name);
    let (q, k, v, o) = (&c.held.tensor, &c.read[0].tensor, &c.read[1].tensor, c.stored);
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
                    let text = c
                        .fits(site, most)
                        .then(&site.tile(&[(c.i, bi), (c.j, bj)]))
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
}

fn warpgroups(site: &Site<'_>, c: &Chain<'_>, found: &mut Vec<Candidate>) {
    let s = site.structure;
    if site.gpu.target != Target::WARPGROUPS || !c.has_maps(site) {
        return;
    }
    let (iw, im) = (site.part(c.i, "w"), site.part(c.i, "m"));
    let (i, j, d, e) = (site.name(c.i), site.name(c.j), site.name(c.whole[0]), site.name(c.whole[1]));
    let (v1, v2) = (&c.first.name, &c.second.name);
    let (q, k, v, o) = (&c.held.tensor, &c.read[0].tensor, &c.read[1].tensor, c.stored);
    let most = [64, 128, 256].into_iter().find(|most| c.longest(site) <= *most).unwrap_or(256);
    // The registers of a thread are what its sums leave. Where whole axes are long, a CTA takes one tile.
    let (groups, bj, stages, stays): (&[i64], i64, i64, bool) = match most {
        64 => (&[3, 2], 128, 3, true),
        128 => (&[2], 128, 2, true),
        _ => (&[2], 64, 2, false),
    };
    // Axes that tiles go along before those of rows.
    let outer = s.program().into_iter().rfind(|a| *a != c.i).map(|a| site.name(a));
    // A tile whose first step has no points would be computed twice.
    let maximum = s.values.iter().find(|value| value.maximum && !s.axes[c.j].late);
    let frozen = maximum.map(|value| format!("freeze({})", value.name));
    for &groups in groups {
        let bi = 64 * groups;
        if 64 >= 2 * site.reach(c.i, 1 << 40) || groups > 2 && bi >= 2 * site.reach(c.i, 1 << 40) {
            continue;
        }
        let (stay, order) = match (s.axes[c.j].limited, outer, groups) {
            (false, ..) => ("persistent(1)", String::new()),
            (true, Some(outer), 2) => {
                ("persistent(1, counter)", format!("order(backwards(8) over {outer}, {i})"))
            }
            (true, ..) => ("persistent(1, serpentine)", "order(reversed)".into()),
        };
        for frozen in frozen.iter().map(Some).chain([None]) {
            let text = c
                .fits(site, most)
                .then(&site.tile(&[(c.i, bi), (c.j, bj)]))
                .with(format!("split({i} -> {iw}, {im}: 64)"))
                .with(format!("tensor_core({v1}: wgmma(64, {bj}))"))
                .with(format!("tensor_core({v2}: wgmma(64, {most}))"))
                .with(format!("stage({q} at {i}: shared, tma)"))
                .with(format!("stage({k}, {v} at {j}: shared, tma)"))
                .with(format!("swizzle({q}: 128, {k}: 128, {v}: 128)"))
                .with(format!("pipeline({j}, {stages})"))
                .with(format!("issue({v1}: overwrite)"))
                .with(format!("unroll({d}.atom in {v1})"))
                .when(stays, format!("produce({i}: warpgroup, stages(2))"))
                .with(format!("produce({j}: warpgroup)"))
                .when(stays, stay)
                .with(format!("skew({v1})"))
                .when(frozen.is_some(), frozen.map_or("", String::as_str))
                .with(format!("bind({iw} -> warpgroup.x)"))
                .with(if groups == 3 { "registers(32, 160)" } else { "registers(24, 240)" })
                .with(format!("vectorize({e}.pair in {o})"))
                .with(format!("exchange({o})"))
                .when(stays && !order.is_empty(), &order);
            let how = if frozen.is_some() { ", the maximum stays" } else { "" };
            let held = if stays { 2 * bi } else { bi };
            found.push(Candidate {
                template: TEMPLATE.name,
                holes: format!("{groups} groups by {bj}{how}"),
                target: Target::WARPGROUPS,
                text: site.layouts().then(&text).done(),
                shape: Shape {
                    threads: 128 * (groups + 1),
                    tile: vec![(c.i, bi), (c.j, bj)],
                    stages,
                    shared: (held + 2 * bj * stages) * most * c.bytes,
                    cores: Some(Cores::Wgmma),
                    stays,
                    ..Shape::default()
                },
            });
        }
    }
}
