//! Reads along one axis, stores along another: tiles turn in shared memory, whole lines on both sides.
//!
//! | hole | rule |
//! |---|---|
//! | tile | 32 or 64 along each of the two axes, 128 where stores are wide |
//! | threads | 32 lanes along the axis of the stores, or as many as its vectors, by 8, 16 or 32 |
//! | vector | of the stores: one element, or as many as 16, 8 or 4 bytes hold; of the reads: 16 bytes where rows are even |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::Site,
    structure::{Access, AxisAt, How, Role},
};

pub(super) const TEMPLATE: Template = Template {
    name: "transpose",
    what: "reads and stores along different axes",
    applies: |site| {
        let s = site.structure;
        needs(s.reductions.is_empty(), "there are reductions")?;
        needs(!s.is_recurrent(), "a loop carries state")?;
        needs(turned(site).is_some(), "reads and stores go along the same axis")
    },
    candidates,
};

/// The read and the axes along which it and the store go.
fn turned<'a>(site: &Site<'a>) -> Option<(&'a Access, AxisAt, AxisAt)> {
    let s = site.structure;
    let program = |a: &AxisAt| s.axes[*a].role == Role::Program;
    let write = s.accesses.iter().find(|a| a.how == How::Write)?;
    let i = write.along().filter(program)?;
    let read = s.accesses.iter().find(|a| {
        let turns = a.along().filter(program).is_some_and(|j| j != i && write.axes().contains(&j));
        a.how == How::Read && turns && a.axes().contains(&i) && !a.goes_by_values()
    })?;
    Some((read, i, read.along()?))
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let Some((read, i, j)) = turned(site) else { return Vec::new() };
    let (x, e) = (&read.tensor, i64::from(read.dtype.bytes()));
    let (ni, nj) = (site.name(i), site.name(j));
    let (im, it, iv) = (site.part(i, "m"), site.part(i, "t"), site.part(i, "v"));
    let (jo, jt) = (site.part(j, "o"), site.part(j, "t"));
    // Of the two loops over tiles, the inner one has a tile of both.
    let inner = if i > j { ni } else { nj };
    let mut found = Vec::new();
    let mut add = |holes: String, text: Text, shape: Shape| {
        let text = site.layouts().then(&text).done();
        found.push(Candidate { template: TEMPLATE.name, holes, target: site.target(), text, shape });
    };
    let size = |a: AxisAt| 2 * site.reach(a, 1 << 40);
    for (bi, bj, t) in [(32, 32, 8), (64, 32, 8), (32, 64, 8), (64, 64, 8), (64, 64, 16)] {
        if bi > 32 && bi >= size(i) || bj > 32 && bj >= size(j) {
            continue;
        }
        for wide in [false, true] {
            let (vector, pad) = if wide { (", vector(16)", 16) } else { ("", 4) };
            let text = Text::default()
                .with(format!("tile({ni} = {bi}, {nj} = {bj})"))
                .when(bi > 32, format!("split({ni} -> {im}, {it}: 32)"))
                .with(format!("split({nj} -> {jo}, {jt}: {t})"))
                .with(format!("bind({} -> thread.x, {jt} -> thread.y)", if bi > 32 { &*it } else { ni }))
                .with(format!("stage({x} at {inner}.o: shared{vector})"))
                .with(format!("pad({x}: {pad})"))
                .with(if bi > 32 { format!("unroll({im}, {jo})") } else { format!("unroll({jo})") });
            let shape = Shape {
                threads: 32 * t,
                vector: if wide { 2 * e } else { e },
                flight: bi * bj / 32 / t,
                tile: vec![(i, bi), (j, bj)],
                shared: bi * bj * e,
                ..Shape::default()
            };
            add(
                format!("{bi} by {bj}, {} threads{}", 32 * t, if wide { ", reads of 16 bytes" } else { "" }),
                text,
                shape,
            );
        }
    }
    for v in [2, 4, 8] {
        for (bi, bj, t) in
            [(64, 32, 16), (64, 64, 16), (128, 32, 8), (128, 64, 8), (64, 64, 32), (32, 32, 16)]
        {
            let threads = bi / v * t;
            if v * e > 16 || !(64..=512).contains(&threads) || bi >= size(i) || bj >= size(j) {
                continue;
            }
            for swizzled in [false, true] {
                let spread = if swizzled { format!("swizzle({x}: 128)") } else { format!("pad({x}: 16)") };
                let text = Text::default()
                    .with(format!("tile({ni} = {bi}, {nj} = {bj})"))
                    .with(format!("split({ni} -> {it}, {iv}: {v})"))
                    .with(format!("split({nj} -> {jo}, {jt}: {t})"))
                    .with(format!("bind({it} -> thread.x, {jt} -> thread.y)"))
                    .with(format!("stage({x} at {inner}.o: shared, transposed, vector(16))"))
                    .with(spread)
                    .with(format!("reorder({jo}, {iv})"))
                    .with(format!("unroll({jo})"))
                    .with(format!("vectorize({iv})"));
                let shape = Shape {
                    threads,
                    vector: v * e,
                    flight: bi * bj / threads / v,
                    tile: vec![(i, bi), (j, bj)],
                    shared: bi * bj * e,
                    ..Shape::default()
                };
                let how = if swizzled { "swizzled" } else { "padded" };
                add(format!("{bi} by {bj}, {threads} threads, stores {v} wide, {how}"), text, shape);
            }
        }
    }
    found
}
