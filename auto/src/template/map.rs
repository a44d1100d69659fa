//! Elementwise work, gathers and scatters among it: lanes along the axis whose neighbours are neighbours in memory.
//!
//! | hole | rule |
//! |---|---|
//! | vector | 16 or 8 bytes of the widest element; one element where nothing is contiguous |
//! | threads | 128, 256, 512, no more than the axis has vectors |
//! | in flight | 1, 2, 4, 8 vectors or rows a thread, no more than there are |
//! | side by side | rows that are short share a CTA of 256 threads |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::Site,
    structure::{AxisAt, Role},
};

pub(super) const TEMPLATE: Template = Template {
    name: "map",
    what: "elementwise along a contiguous axis",
    applies: |site| {
        let s = site.structure;
        needs(s.reductions.is_empty(), "there are reductions")?;
        needs(!s.is_recurrent(), "a loop carries state")?;
        needs(!s.program().is_empty(), "programs share no axis")
    },
    candidates,
};

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let Some(c) = s.lane_axis(true, site.sizes) else { return Vec::new() };
    let outer: Option<AxisAt> = s.program().into_iter().rfind(|a| *a != c);
    // Values along an axis that each program has all of are computed where they are read.
    let whole: Vec<AxisAt> = (0..s.axes.len()).filter(|a| s.axes[*a].role != Role::Program).collect();
    let again = whole.iter().fold(Text::default(), |text, a| text.then(&site.again(*a)));
    let mut found = Vec::new();
    let mut add = |holes: String, text: Text, shape: Shape| {
        let text = site.layouts().then(&again).then(&text).done();
        found.push(Candidate { template: TEMPLATE.name, holes, target: site.target(), text, shape });
    };
    let (_, widest) = site.element_bytes(c);
    let mut vectors = vec![16 / widest, 8 / widest];
    vectors.retain(|v| *v > 1 && site.has_vectors(c, *v));
    vectors.push(1);
    let inner = |cv: &str| match whole.last() {
        Some(a) if s.accesses.iter().any(|access| access.axes().contains(a)) => {
            format!("reorder({}, {cv})", site.name(*a))
        }
        _ => String::new(),
    };
    let name = site.name(c);
    let (co, ct, cv) = (site.part(c, "o"), site.part(c, "t"), site.part(c, "v"));
    let mut seen = Vec::new();
    for v in vectors {
        if seen.contains(&v) {
            continue;
        }
        seen.push(v);
        for t in [128, 256, 512] {
            if t > 128 && t * v >= 2 * site.reach(c, 1 << 40) {
                continue;
            }
            for u in [1, 2, 4, 8] {
                let holes = format!("{v} wide, {t} threads, {u} in flight");
                let shape = |tile: Vec<(AxisAt, i64)>| Shape {
                    threads: t,
                    vector: v * widest,
                    flight: u,
                    lane: Some(c),
                    tile,
                    ..Shape::default()
                };
                if u == 1 || t * v * u < 2 * site.reach(c, 1 << 40) {
                    let split = match (u > 1, v > 1) {
                        (true, true) => format!("split({name} -> {co}, {ct}, {cv}: {t}, {v})"),
                        (true, false) => format!("split({name} -> {co}, {ct}: {t})"),
                        (false, true) => format!("split({name} -> {ct}, {cv}: {v})"),
                        (false, false) => String::new(),
                    };
                    let lanes = if u > 1 || v > 1 { &*ct } else { name };
                    let text = Text::default()
                        .with(format!("tile({name} = {})", t * v * u))
                        .when(!split.is_empty(), split)
                        .when(v > 1 && !inner(&cv).is_empty(), inner(&cv))
                        .with(format!("bind({lanes} -> thread.x)"))
                        .when(u > 1, format!("unroll({co})"))
                        .when(v > 1, format!("vectorize({cv})"));
                    add(holes.clone(), text, shape(vec![(c, t * v * u)]));
                }
                // Rows in flight: what they share is loaded once.
                let Some(r) = outer.filter(|r| whole.is_empty() && u > 1 && u <= site.reach(*r, 64)) else {
                    continue;
                };
                let row = site.name(r);
                let text = Text::default()
                    .with(format!("tile({row} = {u}, {name} = {})", t * v))
                    .when(v > 1, format!("split({name} -> {ct}, {cv}: {v})"))
                    .when(v > 1, format!("reorder({row}, {cv})"))
                    .with(format!("bind({} -> thread.x)", if v > 1 { &*ct } else { name }))
                    .with(format!("unroll({row})"))
                    .when(v > 1, format!("vectorize({cv})"));
                add(format!("{holes} of rows"), text, shape(vec![(r, u), (c, t * v)]));
            }
        }
        // Short rows side by side.
        let Some(r) = outer.filter(|_| whole.is_empty() && site.extent(c) <= 128 * v) else { continue };
        let (row, ro, rt) = (site.name(r), site.part(r, "o"), site.part(r, "t"));
        for x in [4, 8, 16, 32, 64] {
            if x * v >= 2 * site.reach(c, 1 << 40) {
                continue;
            }
            for u in [1, 2, 4] {
                let y = 256 / x;
                if u > 1 && y * u >= 2 * site.reach(r, 1 << 40) {
                    continue;
                }
                let text = Text::default()
                    .with(format!("tile({row} = {}, {name} = {})", y * u, x * v))
                    .when(u > 1, format!("split({row} -> {ro}, {rt}: {y})"))
                    .when(v > 1, format!("split({name} -> {ct}, {cv}: {v})"))
                    .when(u > 1 && v > 1, format!("reorder({ro}, {cv})"))
                    .with(format!(
                        "bind({} -> thread.x, {} -> thread.y)",
                        if v > 1 { &*ct } else { name },
                        if u > 1 { &*rt } else { row }
                    ))
                    .when(u > 1, format!("unroll({ro})"))
                    .when(v > 1, format!("vectorize({cv})"));
                let tile = vec![(r, y * u), (c, x * v)];
                let shape = Shape {
                    threads: 256,
                    vector: v * widest,
                    flight: u,
                    lane: Some(c),
                    tile,
                    ..Shape::default()
                };
                add(format!("{v} wide, {x} lanes a row, {u} in flight"), text, shape);
            }
        }
    }
    found
}
