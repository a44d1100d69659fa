//! Reductions to one element: CTAs share the axis out, and one of them adds up.
//!
//! | hole | rule |
//! |---|---|
//! | threads | 256, 512, 1024 |
//! | in flight | 2, 4, 8 vectors of 16 bytes |
//! | parts | 1, 64, 128, 256, no more than the axis has tiles |

use super::{Template, needs, row::one_axis};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::{Site, names},
    structure::Role,
};

pub(super) const TEMPLATE: Template = Template {
    name: "full",
    what: "reductions to one element",
    applies: |site| {
        let s = site.structure;
        needs(s.program().is_empty(), "programs share an axis")?;
        let n = one_axis(s).ok_or("reductions do not go over one and the same axis")?;
        needs(s.axes[n].role == Role::Tiles, "the axis is not one of a loop over tiles")?;
        needs(!s.axes[n].carried, "the loop carries state")
    },
    candidates,
};

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let Some(n) = one_axis(s) else { return Vec::new() };
    let (name, all) = (site.name(n), names(&s.reductions));
    let (nu, nt, nv) = (site.part(n, "u"), site.part(n, "t"), site.part(n, "v"));
    let (_, bytes) = site.element_bytes(n);
    let v = (16 / bytes).max(1);
    let mut found = Vec::new();
    for t in [256, 512, 1024] {
        for u in [2, 4, 8] {
            for p in [1, 64, 128, 256] {
                if p > 1 && t * v * u * p >= 2 * site.reach(n, 1 << 40) {
                    continue;
                }
                let text = Text::default()
                    .with(format!("tile({name} = {})", t * v * u))
                    .with(format!("split({name} -> {nu}, {nt}, {nv}: {t}, {v})"))
                    .when(p > 1, format!("split_k({name}, {p})"))
                    .with(format!("reduce({all}: cta)"))
                    .with(format!("bind({nt} -> thread.x)"))
                    .with(format!("vectorize({nv})"))
                    .with(format!("unroll({nu})"));
                found.push(Candidate {
                    template: TEMPLATE.name,
                    holes: format!("{t} threads, {u} in flight, {p} parts"),
                    target: site.target(),
                    text: site.layouts().then(&text).done(),
                    shape: Shape {
                        threads: t,
                        vector: v * bytes,
                        flight: u,
                        parts: p,
                        lane: Some(n),
                        lanes: t,
                        tile: vec![(n, 1 << 40)],
                        ..Shape::default()
                    },
                });
            }
        }
    }
    found
}
