//! Elementwise work with a short axis of fixed length inside of the contiguous dimension, `x[s, 2*d + p]`: the short axis is the vector.
//!
//! | hole | rule |
//! |---|---|
//! | threads | 16, 32 or 64 along the outer axis of the dimension, 4 to 16 along the next, 64 to 512 together |
//! | vector | the short axis, or two points of the outer one with it |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::Site,
    structure::{AxisAt, Role},
};

pub(super) const TEMPLATE: Template = Template {
    name: "pairs",
    what: "elementwise over short vectors",
    applies: |site| {
        let s = site.structure;
        needs(s.reductions.is_empty(), "there are reductions")?;
        needs(!s.is_recurrent(), "a loop carries state")?;
        needs(short(site).is_some(), "no axis of fixed length is inside of a contiguous dimension")
    },
    candidates,
};

/// The short axis with the axis that it is inside of.
fn short(site: &Site<'_>) -> Option<(AxisAt, AxisAt)> {
    let s = site.structure;
    s.accesses.iter().find_map(|access| {
        let p = access.along()?;
        let length = s.axes[p].extent.as_constant().filter(|n| (2..=4).contains(n))?;
        let terms = &access.contiguous()?.terms;
        let (outer, _) = terms.iter().find(|(a, factor)| *a != p && *factor == length)?;
        let fits = s.axes[p].role == Role::Whole && s.axes[*outer].role == Role::Program;
        fits.then_some((p, *outer))
    })
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let Some((p, c)) = short(site) else { return Vec::new() };
    let Some(r) = s.program().into_iter().rfind(|a| *a != c) else { return Vec::new() };
    let (name, row, short) = (site.name(c), site.name(r), site.name(p));
    let (ct, cv) = (site.part(c, "t"), site.part(c, "v"));
    let (_, bytes) = site.element_bytes(p);
    let length = site.extent(p);
    let mut found = Vec::new();
    for x in [16, 32, 64] {
        for y in [4, 8, 16] {
            let t = x * y;
            if !(64..=512).contains(&t) || x >= 2 * site.reach(c, 1 << 40) || y >= 2 * site.reach(r, 1 << 40)
            {
                continue;
            }
            // Two pairs are a vector where nothing else along the axis is read with a step.
            let steps = s.accesses.iter().any(|a| a.axes().contains(&c) && a.along().is_none());
            for wide in [1, 2].into_iter().filter(|wide| *wide == 1 || !steps) {
                let text = Text::default()
                    .with(format!("tile({row} = {y}, {name} = {})", x * wide))
                    .when(wide > 1, format!("split({name} -> {ct}, {cv}: {wide})"))
                    .with(format!(
                        "bind({} -> thread.x, {row} -> thread.y)",
                        if wide > 1 { &*ct } else { name }
                    ))
                    .with(if wide > 1 {
                        format!("vectorize({cv}, {short})")
                    } else {
                        format!("vectorize({short})")
                    });
                found.push(Candidate {
                    template: TEMPLATE.name,
                    holes: format!("{x} by {y} threads, {wide} pairs"),
                    target: site.target(),
                    text: site.layouts().then(&text).done(),
                    shape: Shape {
                        threads: t,
                        lane: Some(c),
                        vector: bytes * length * wide,
                        tile: vec![(r, y), (c, x * wide)],
                        ..Shape::default()
                    },
                });
            }
        }
    }
    found
}
