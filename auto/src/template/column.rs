//! Reductions along an axis that is not contiguous: lanes and vectors along the columns, warps along the rows.
//!
//! | hole | rule |
//! |---|---|
//! | vector | one element, 8 or 16 bytes along the columns |
//! | warps | 4, 8 or 16 along the rows, 4 or 8 rows each in flight |
//! | parts | 1, 8, 32 or 128 CTAs along the rows, no more than they have tiles |

use super::{Template, needs, row::one_axis};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::{Site, names},
    structure::{AxisAt, Role},
};

pub(super) const TEMPLATE: Template = Template {
    name: "column",
    what: "reductions along an axis that is not contiguous",
    applies: |site| {
        let s = site.structure;
        needs(!s.program().is_empty(), "programs share no axis")?;
        let n = one_axis(s).ok_or("reductions do not go over one and the same axis")?;
        needs(!s.axes[n].carried, "the reduced axis carries state")?;
        needs(
            columns(site, n).is_some(),
            "the largest tensor is not contiguous along an axis that programs share",
        )
    },
    candidates,
};

/// The axis that the largest tensor is contiguous along, if programs share it and reductions keep it.
fn columns(site: &Site<'_>, n: AxisAt) -> Option<AxisAt> {
    let s = site.structure;
    let along = s.largest(site.sizes)?.along()?;
    let kept = s.reductions.iter().any(|r| r.axes.contains(&along));
    (along != n && s.axes[along].role == Role::Program && kept).then_some(along)
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let Some(n) = one_axis(s) else { return Vec::new() };
    let Some(c) = columns(site, n) else { return Vec::new() };
    let (name, col, all) = (site.name(n), site.name(c), names(&s.reductions));
    let (ro, rw, rl) = (site.part(n, "o"), site.part(n, "w"), site.part(n, "l"));
    let (cl, cv) = (site.part(c, "l"), site.part(c, "v"));
    let (_, bytes) = site.element_bytes(c);
    let full = (16 / bytes).max(1);
    let whole = s.axes[n].role == Role::Whole;
    // Sums that are begun anew in a loop around are neither vectors nor shared by CTAs.
    let around = s.with_role(Role::Tiles).into_iter().any(|a| a != n);
    let first = &s.reductions[0].name;
    let mut found = Vec::new();
    let mut widths = vec![1, full / 2, full];
    widths.retain(|v| *v >= 1);
    widths.dedup();
    for v in widths {
        for x in [32, 8] {
            for w in [4, 8, 16] {
                for u in [4, 8] {
                    for p in [1, 8, 32, 128] {
                        let y = 32 / x;
                        let rows = w * y * u;
                        if (around && (v > 1 || p > 1))
                            || (x == 8 && (v == 1 || w != 8))
                            || (w == 4 && u == 8)
                            || (x * v > 32 && x * v >= 2 * site.reach(c, 1 << 40))
                            || (p > 1 && (p * rows >= 2 * site.reach(n, 1 << 40) || whole))
                        {
                            continue;
                        }
                        // A tile along a whole axis is a step of a loop that is cut.
                        let (outer, step) = if whole { (format!("{ro}, "), u) } else { (String::new(), 0) };
                        let ru = site.part(n, "u");
                        let cut = match (whole, x == 32) {
                            (false, true) => format!("split({name} -> {ro}, {rw}: {w})"),
                            (false, false) => format!("split({name} -> {ro}, {rw}, {rl}: {w}, {y})"),
                            (true, true) => format!("split({name} -> {outer}{ru}, {rw}: {step}, {w})"),
                            (true, false) => {
                                format!("split({name} -> {outer}{ru}, {rw}, {rl}: {step}, {w}, {y})")
                            }
                        };
                        let flight = if whole { &ru } else { &ro };
                        let lanes = if v > 1 { &*cl } else { col };
                        let bind = match x == 32 {
                            true => format!("bind({lanes} -> lane.x, {rw} -> warp.x)"),
                            false => format!("bind({lanes} -> lane.x, {rl} -> lane.y, {rw} -> warp.x)"),
                        };
                        let how = if x == 32 { "warp" } else { "cta" };
                        let vector = match bytes == 4 {
                            true => format!("vectorize({cv})"),
                            false => format!("vectorize({cv} in {first})"),
                        };
                        let tile = match whole {
                            true => format!("tile({col} = {})", x * v),
                            false => format!("tile({col} = {}, {name} = {rows})", x * v),
                        };
                        let text = Text::default()
                            .with(tile)
                            .when(v > 1, format!("split({col} -> {cl}, {cv}: {v})"))
                            .with(cut)
                            .then(&if whole { site.again_at(n, &ro) } else { Text::default() })
                            .when(v > 1, format!("reorder({flight}, {cv})"))
                            .when(p > 1, format!("split_k({name}, {p})"))
                            .with(format!("reduce({all}: {how})"))
                            .with(bind)
                            .when(v > 1, vector)
                            .with(format!("unroll({flight})"));
                        found.push(Candidate {
                            template: TEMPLATE.name,
                            holes: format!("{v} wide, {x} lanes, {w} warps, {u} in flight, {p} parts"),
                            target: site.target(),
                            text: site.layouts().then(&text).done(),
                            shape: Shape {
                                threads: 32 * w,
                                vector: v * bytes,
                                flight: u,
                                parts: p,
                                lane: Some(c),
                                lanes: w * y,
                                line: x * v * bytes,
                                tile: vec![(c, x * v), (n, 1 << 40)],
                                ..Shape::default()
                            },
                        });
                    }
                }
            }
        }
    }
    found
}
