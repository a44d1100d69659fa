//! Reductions along the contiguous axis: a row a warp, or a row a CTA.
//!
//! | hole | rule |
//! |---|---|
//! | rows held | by registers, 4 to 64 elements a thread, or by shared memory, where the axis is whole and values go along it |
//! | rows read again | once a reduction, 16 bytes a lane, 1 to 4 vectors in flight |
//! | tiles | what the lanes have in flight a step, 1 to 8 vectors |
//! | parts | 2 to 64 CTAs a row where the rows are fewer than the GPU's multiprocessors, and nothing is stored along them |

use super::{Template, needs};
use crate::{
    candidate::{Candidate, Shape, Text},
    site::{Site, holding, names},
    structure::{AxisAt, Role, Structure},
};

pub(super) const TEMPLATE: Template = Template {
    name: "row",
    what: "reductions along the contiguous axis",
    applies: |site| {
        let s = site.structure;
        needs(!s.program().is_empty(), "programs share no axis")?;
        let n = one_axis(s).ok_or("reductions do not go over one and the same axis")?;
        let largest = s.largest(site.sizes).ok_or("nothing is accessed")?;
        let same = |axis: AxisAt| axis == n || site.spelling.behind.contains(&axis);
        needs(
            largest.along().is_some_and(same),
            "the largest tensor is not contiguous along the reduced axis",
        )?;
        let again = s.accesses.iter().filter(|a| a.axes().contains(&n)).all(|a| {
            a.again_over().is_empty()
                || s.points(&a.axes(), site.sizes) < s.points(&largest.axes(), site.sizes)
        });
        needs(again, "rows are used by points of other axes: it is a product")
    },
    candidates,
};

/// The axis that all reductions go over, if it is one.
pub(super) fn one_axis(s: &Structure) -> Option<AxisAt> {
    let mut all = s.reductions.iter().map(|r| &r.over);
    let first = all.next()?;
    let axis = first.iter().next().filter(|_| first.len() == 1)?;
    all.all(|over| over == first).then_some(*axis)
}

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let Some(n) = one_axis(s) else { return Vec::new() };
    let rows = s.reductions[0].axes.iter().copied().filter(|a| s.axes[*a].role == Role::Program);
    let Some(r) = rows.max() else { return Vec::new() };
    let mut found = Vec::new();
    let mut add = |holes: String, text: Text, shape: Shape| {
        let text = site.layouts().then(&text).done();
        found.push(Candidate { template: TEMPLATE.name, holes, target: site.target(), text, shape });
    };
    match s.axes[n].role {
        Role::Whole if s.axes[n].carried => tiles(site, n, r, &mut add),
        Role::Whole => {
            if s.long_values().next().is_some() {
                held(site, n, r, &mut add);
            }
            again(site, n, r, &mut add);
        }
        _ => tiles(site, n, r, &mut add),
    }
    found
}

type Add<'a> = dyn FnMut(String, Text, Shape) + 'a;

/// Elements of 16 bytes of the widest element.
fn wide(site: &Site<'_>, n: AxisAt) -> i64 {
    (16 / site.element_bytes(n).1).max(1)
}

/// Rows that registers or shared memory hold, read once.
fn held(site: &Site<'_>, n: AxisAt, r: AxisAt, add: &mut Add<'_>) {
    let s = site.structure;
    let (row, name, all) = (site.name(r), site.name(n), names(&s.reductions));
    let Some(dim) = s.axes[n].extent.as_dim().map(str::to_string) else { return };
    let (no, nl, nt, nv) = (site.part(n, "o"), site.part(n, "l"), site.part(n, "t"), site.part(n, "v"));
    let (v, length) = (wide(site, n), site.extent(n));
    for w in [4, 8] {
        let most = holding(length, 32 * v);
        if most / 32 <= 64 && w < 2 * site.reach(r, 64) {
            let text = Text::default()
                .with(format!("fits({dim} <= {most})"))
                .with(format!("tile({row} = {w})"))
                .with(format!("split({name} -> {no}, {nl}, {nv}: 32, {v})"))
                .with(format!("reduce({all}: lane)"))
                .with(format!("bind({row} -> warp.x, {nl} -> lane.x)"))
                .with(format!("vectorize({nv})"));
            let shape = Shape {
                threads: 32 * w,
                vector: v * site.element_bytes(n).1,
                held: most / 32,
                lane: Some(n),
                lanes: 32,
                tile: vec![(r, w)],
                ..Shape::default()
            };
            add(format!("held by a warp, {w} rows"), text, shape);
        }
    }
    for t in [128, 256, 512, 1024] {
        let most = holding(length, t * v);
        if !(2..=64).contains(&(most / t)) || (t > 128 && t * v >= 2 * site.reach(n, 1 << 40)) {
            continue;
        }
        let text = Text::default()
            .with(format!("fits({dim} <= {most})"))
            .with(format!("tile({row} = 1)"))
            .with(format!("split({name} -> {no}, {nt}, {nv}: {t}, {v})"))
            .with(format!("reduce({all}: cta)"))
            .with(format!("bind({nt} -> thread.x)"))
            .with(format!("vectorize({nv})"));
        let shape = Shape {
            threads: t,
            vector: v * site.element_bytes(n).1,
            held: most / t,
            lane: Some(n),
            lanes: t,
            tile: vec![(r, 1)],
            ..Shape::default()
        };
        add(format!("held by {t} threads"), text, shape);
    }
    // What shared memory holds is read again from there.
    let Some(read) = s.largest(site.sizes).filter(|a| !a.goes_by_values()) else { return };
    let bytes = i64::from(read.dtype.bytes());
    for t in [512, 1024] {
        let most = holding(length, t * v);
        if most * bytes > 160 * 1024 || length < 8 * t {
            continue;
        }
        for (how, vector) in [("", false), (", vector(16)", true), (", cp_async, vector(16)", true)] {
            let cut = match vector {
                true => format!("split({name} -> {no}, {nt}, {nv}: {t}, {v})"),
                false => format!("split({name} -> {no}, {nt}: {t})"),
            };
            let text = Text::default()
                .with(format!("fits({dim} <= {most})"))
                .with(format!("tile({row} = 1)"))
                .with(cut)
                .then(&site.again(n))
                .with(format!("stage({} at {row}: shared{how})", read.tensor))
                .with(format!("reduce({all}: cta)"))
                .with(format!("bind({nt} -> thread.x)"))
                .when(vector, format!("vectorize({nv})"));
            let shape = Shape {
                threads: t,
                vector: if vector { v * bytes } else { bytes },
                held: most / t,
                lane: Some(n),
                lanes: t,
                shared: most * bytes,
                tile: vec![(r, 1)],
                ..Shape::default()
            };
            let how = how.trim_start_matches(", ");
            add(format!("shared by {t} threads {how}").trim_end().into(), text, shape);
        }
    }
}

/// Rows of any length, read again for each pass.
fn again(site: &Site<'_>, n: AxisAt, r: AxisAt, add: &mut Add<'_>) {
    let s = site.structure;
    let (row, name, all) = (site.name(r), site.name(n), names(&s.reductions));
    let (no, nu, nt, nv) = (site.part(n, "o"), site.part(n, "u"), site.part(n, "t"), site.part(n, "v"));
    let nl = site.part(n, "l");
    let (v, bytes) = (wide(site, n), site.element_bytes(n).1);
    let passes = match s.long_values().next() {
        Some(_) => s.reductions.len() as i64 + i64::from(s.axes[n].stored),
        None => 1,
    };
    let length = site.reach(n, 1 << 40);
    for t in [32, 64, 128, 256, 512, 1024] {
        for u in [1, 2, 4] {
            if t * v * u >= 2 * length && (t > 32 || u > 1) {
                continue;
            }
            for vector in [true, false] {
                if !vector && site.rows_are_even(n) {
                    continue;
                }
                let cut = match (vector, u > 1) {
                    (true, true) => format!("split({name} -> {no}, {nu}, {nt}, {nv}: {u}, {t}, {v})"),
                    (true, false) => format!("split({name} -> {no}, {nt}, {nv}: {t}, {v})"),
                    (false, true) => format!("split({name} -> {no}, {nu}, {nt}: {u}, {t})"),
                    (false, false) => format!("split({name} -> {no}, {nt}: {t})"),
                };
                let text = Text::default()
                    .with(format!("tile({row} = 1)"))
                    .with(cut)
                    .then(&site.again(n))
                    .with(format!("reduce({all}: cta)"))
                    .with(format!("bind({nt} -> thread.x)"))
                    .when(u > 1, format!("unroll({nu})"))
                    .when(vector, format!("vectorize({nv})"));
                let shape = Shape {
                    threads: t,
                    vector: if vector { v * bytes } else { bytes },
                    flight: u,
                    lane: Some(n),
                    lanes: t,
                    passes,
                    tile: vec![(r, 1)],
                    ..Shape::default()
                };
                let single = if vector { "" } else { ", an element a lane" };
                add(format!("{passes} times by {t} threads, {u} in flight{single}"), text, shape);
            }
        }
    }
    for w in [4, 8] {
        for u in [1, 2, 4, 8] {
            if w >= 2 * site.reach(r, 64) || u > 1 && 32 * v * u >= 2 * length {
                continue;
            }
            let cut = match u > 1 {
                true => format!("split({name} -> {no}, {nu}, {nl}, {nv}: {u}, 32, {v})"),
                false => format!("split({name} -> {no}, {nl}, {nv}: 32, {v})"),
            };
            let text = Text::default()
                .with(format!("tile({row} = {w})"))
                .with(cut)
                .then(&site.again(n))
                .with(format!("reduce({all}: lane)"))
                .with(format!("bind({row} -> warp.x, {nl} -> lane.x)"))
                .when(u > 1, format!("unroll({nu})"))
                .with(format!("vectorize({nv})"));
            let shape = Shape {
                threads: 32 * w,
                vector: v * bytes,
                flight: u,
                lane: Some(n),
                lanes: 32,
                passes,
                tile: vec![(r, w)],
                ..Shape::default()
            };
            add(format!("{passes} times by a warp, {w} rows, {u} in flight"), text, shape);
        }
    }
    let alone = s.long_values().next().is_none() && s.reductions.len() == 1 && !s.axes[n].stored;
    if alone && few_rows(site, n) {
        for p in [8, 16, 32, 64] {
            let text = Text::default()
                .with(format!("tile({row} = 1)"))
                .with(format!("split({name} -> {no}, {nu}, {nt}, {nv}: 4, 256, {v})"))
                .with(format!("split_k({no}, {p})"))
                .with(format!("reduce({all}: cta)"))
                .with(format!("bind({nt} -> thread.x)"))
                .with(format!("unroll({nu})"))
                .with(format!("vectorize({nv})"));
            let shape = Shape {
                threads: 256,
                vector: v * bytes,
                flight: 4,
                lane: Some(n),
                lanes: 256,
                parts: p,
                tile: vec![(r, 1)],
                ..Shape::default()
            };
            add(format!("in {p} parts"), text, shape);
        }
    }
}

/// Whether rows are fewer than keep the GPU busy.
fn few_rows(site: &Site<'_>, n: AxisAt) -> bool {
    let rows = site.structure.points(&site.structure.program(), site.sizes);
    rows < 2.0 * site.gpu.multiprocessors && site.extent(n) >= 16384
}

/// A loop over tiles, perhaps one that carries state: a step is what the lanes have in flight.
fn tiles(site: &Site<'_>, n: AxisAt, r: AxisAt, add: &mut Add<'_>) {
    let s = site.structure;
    let (row, name, all) = (site.name(r), site.name(n), names(&s.reductions));
    let (nu, nt, nl, nv) = (site.part(n, "u"), site.part(n, "t"), site.part(n, "l"), site.part(n, "v"));
    let (rw, rq, rl) = (site.part(r, "w"), site.part(r, "q"), site.part(r, "l"));
    let (v, bytes) = (wide(site, n), site.element_bytes(n).1);
    let length = site.reach(n, 1 << 40);
    let carried = s.axes[n].carried;
    // Points that are computed again behind the loop, by the same lanes.
    let behind = &site.spelling.behind;
    let again = |lanes: i64, unit: &str| {
        let mut text = Text::default();
        for axis in behind {
            let (name, o, l, q) =
                (site.name(*axis), site.part(*axis, "o"), site.part(*axis, "l"), site.part(*axis, "v"));
            text = text
                .with(format!("split({name} -> {o}, {l}, {q}: {lanes}, {v})"))
                .then(&site.again(*axis))
                .with(format!("bind({l} -> {unit})"))
                .with(format!("vectorize({q})"));
        }
        text
    };
    let fill = |t: i64, u: i64| t * v * u < 2 * length || (t == 32 && u == 1);
    let shape = |threads: i64, flight: i64, lanes: i64, rows: i64, parts: i64| Shape {
        threads,
        vector: v * bytes,
        flight,
        lane: Some(n),
        lanes,
        parts,
        passes: 1 + behind.len() as i64,
        tile: vec![(r, rows), (n, length)],
        ..Shape::default()
    };
    for t in [32, 64, 128, 256, 512, 1024] {
        for u in [1, 2, 4, 8] {
            if !fill(t, u) {
                continue;
            }
            let cut = match u > 1 {
                true => format!("split({name} -> {nu}, {nt}, {nv}: {t}, {v})"),
                false => format!("split({name} -> {nt}, {nv}: {v})"),
            };
            let text = site
                .tile(&[(r, 1), (n, t * v * u)])
                .with(cut)
                .with(format!("reduce({all}: cta)"))
                .with(format!("bind({nt} -> thread.x)"))
                .with(format!("vectorize({nv})"))
                .when(u > 1, format!("unroll({nu})"))
                .then(&again(t, "thread.x"));
            add(format!("tiles by {t} threads, {u} in flight"), text, shape(t, u, t, 1, 1));
        }
    }
    for w in [4, 8] {
        for u in [1, 2, 4, 8] {
            for q in [1, 2, 4] {
                let rows = w * q;
                if q > 1 && (carried || u > 4) || rows >= 2 * site.reach(r, 64) || !fill(32, u) {
                    continue;
                }
                let loops =
                    if u > 1 { format!("{nu}, {nl}, {nv}: 32, {v}") } else { format!("{nl}, {nv}: {v}") };
                let text = site
                    .tile(&[(r, rows), (n, 32 * v * u)])
                    .when(q > 1, format!("split({row} -> {rw}, {rq}: {q})"))
                    .with(format!("split({name} -> {loops})"))
                    .when(
                        q > 1,
                        if u > 1 {
                            format!("reorder({nu}, {rq}, {nv})")
                        } else {
                            format!("reorder({rq}, {nv})")
                        },
                    )
                    .with(format!("reduce({all}: lane)"))
                    .with(format!("bind({} -> warp.x, {nl} -> lane.x)", if q > 1 { &*rw } else { row }))
                    .with(format!("vectorize({nv})"))
                    .when(u > 1, format!("unroll({nu})"))
                    .when(q > 1, format!("unroll({rq})"))
                    .then(&again(32, "lane.x"));
                let holes = format!("tiles by a warp, {rows} rows, {u} in flight");
                add(holes, text, shape(32 * w, u * q, 32, rows, 1));
            }
        }
    }
    if carried {
        return;
    }
    for x in [8, 16] {
        if 256 / x >= 2 * site.reach(r, 64) || x * v < length / 4 {
            continue;
        }
        let text = Text::default()
            .with(format!("tile({row} = {}, {name} = {})", 256 / x, x * v))
            .with(format!("split({row} -> {rw}, {rl}: {})", 32 / x))
            .with(format!("split({name} -> {nl}, {nv}: {v})"))
            .with(format!("reduce({all}: lane)"))
            .with(format!("bind({rw} -> warp.x, {rl} -> lane.y, {nl} -> lane.x)"))
            .with(format!("vectorize({nv})"));
        add(format!("short rows, {x} lanes each"), text, shape(256, 1, x, 256 / x, 1));
    }
    if few_rows(site, n) {
        for p in [2, 4, 8] {
            let text = Text::default()
                .with(format!("tile({row} = 4, {name} = {})", 128 * v))
                .with(format!("split({name} -> {nu}, {nl}, {nv}: 32, {v})"))
                .with(format!("split_k({name}, {p})"))
                .with(format!("reduce({all}: lane)"))
                .with(format!("bind({row} -> warp.x, {nl} -> lane.x)"))
                .with(format!("unroll({nu})"))
                .with(format!("vectorize({nv})"));
            add(format!("tiles in {p} parts"), text, shape(128, 4, 32, 4, p));
        }
    }
}
