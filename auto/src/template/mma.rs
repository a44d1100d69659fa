//! A product on the tensor cores of warps, and one with few rows, whose factors change places.
//!
//! | hole | rule |
//! |---|---|
//! | tile | 16 to 256 rows by 64 to 256 columns, a warp 16 to 64 by 16 to 64; few rows: 8 or 16 by 32 to 128 |
//! | stages | as many as shared memory holds of a step, 2 to 6 |
//! | parts | 1 or 4 CTAs a tile where tiles are few; with few rows 1 to 16 |

use super::{
    Template, needs,
    products::{Matrix, matrix},
};
use crate::{
    candidate::{Candidate, Cores, Shape},
    site::Site,
};
use tile_dsl::dtype::DType;

pub(super) const TEMPLATE: Template = Template {
    name: "mma",
    what: "a product on tensor cores, by warps",
    applies: |site| {
        let m = matrix(site.structure)?;
        needs(m.sum.dtype == DType::F32, "the sums are not f32")?;
        needs(m.bytes == 2, "the factors have no 16 bits")
    },
    candidates,
};

/// Tiles: rows, columns, those of a warp, and the step.
const TILES: [(i64, i64, i64, i64, i64); 9] = [
    (128, 128, 64, 32, 32),
    (256, 128, 64, 64, 32),
    (128, 64, 32, 32, 64),
    (64, 64, 32, 32, 64),
    (64, 128, 32, 32, 64),
    (128, 256, 64, 64, 32),
    (32, 128, 32, 32, 64),
    (16, 128, 16, 32, 128),
    (16, 64, 16, 16, 128),
];

/// Tiles of few rows: rows, columns, columns of a warp, the step.
const FEW: [(i64, i64, i64, i64); 6] = [
    (8, 64, 16, 128),
    (8, 128, 32, 128),
    (16, 64, 16, 128),
    (16, 128, 32, 128),
    (8, 128, 16, 64),
    (8, 32, 16, 256),
];

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let Ok(m) = matrix(site.structure) else { return Vec::new() };
    let mut found = Vec::new();
    tiles(site, &m, &mut found);
    if site.extent(m.i) <= 16 {
        few(site, &m, &mut found);
    }
    found
}

fn shape(m: &Matrix<'_>, threads: i64, (bi, bj, bk): (i64, i64, i64), stages: i64, parts: i64) -> Shape {
    Shape {
        threads,
        tile: vec![(m.i, bi), (m.j, bj), (m.k, bk)],
        parts,
        stages,
        shared: stages * (bi + bj) * (bk + 8) * m.bytes,
        cores: Some(Cores::Mma),
        ..Shape::default()
    }
}

fn tiles(site: &Site<'_>, m: &Matrix<'_>, found: &mut Vec<Candidate>) {
    let (i, j, k) = (site.name(m.i), site.name(m.j), site.name(m.k));
    let (iw, im, jw, jm) =
        (site.part(m.i, "w"), site.part(m.i, "m"), site.part(m.j, "w"), site.part(m.j, "m"));
    let (a, b, acc) = (m.a, m.b, &m.sum.name);
    let (outer, plain) = (m.outer(site), m.is_plain(site.structure));
    for (bi, bj, wi, wj, bk) in TILES {
        if bi > 16 && bi >= 2 * site.reach(m.i, 1 << 40) || bj > 64 && bj >= 2 * site.reach(m.j, 1 << 40) {
            continue;
        }
        let most = if bi * bj >= 16384 { 4 } else { 5 };
        let stages = (160 * 1024 / ((bi + bj) * (bk + 8) * m.bytes)).clamp(2, most);
        let ends: &[i64] = if bi * bj > 8192 { &[1] } else { &[1, 4] };
        for p in m.parts(site, (bi, bj, bk), ends) {
            let rows = if wi > 16 { format!(", {im}") } else { String::new() };
            let columns = if wj > 8 { format!(", {jm}") } else { String::new() };
            let text = m
                .steps(site)
                .with(format!("tile({i} = {bi}, {j} = {bj}, {k} = {bk})"))
                .with(format!("split({i} -> {iw}, {im}: {wi})"))
                .with(format!("split({j} -> {jw}, {jm}: {wj})"))
                .with(format!("tensor_core({acc}: mma)"))
                .with(format!("reorder({outer}{iw}, {jw}, {k}.atom{rows}{columns})"))
                .then(&m.copies(site))
                .when(plain, format!("fragment({a}, {b} at {k}.atom)"))
                .with(format!("pad({a}: 16, {b}: 16)"))
                .with(format!("pipeline({k}, {stages})"))
                .when(plain, format!("pipeline({k}.atom, 2)"))
                .when(p > 1, format!("split_k({k}, {p})"))
                .with(format!("bind({iw} -> warp.y, {jw} -> warp.x)"))
                .when(site.extent(m.j) % 2 == 0, format!("vectorize({j}.pair)"))
                .with("order(grouped(8))");
            found.push(Candidate {
                template: TEMPLATE.name,
                holes: format!("{bi} by {bj} by {bk}, {p} parts"),
                target: site.target(),
                text: site.layouts().then(&text).done(),
                shape: shape(m, 32 * (bi / wi) * (bj / wj), (bi, bj, bk), stages, p),
            });
        }
    }
}

fn few(site: &Site<'_>, m: &Matrix<'_>, found: &mut Vec<Candidate>) {
    let (i, j, k) = (site.name(m.i), site.name(m.j), site.name(m.k));
    let (jw, jm) = (site.part(m.j, "w"), site.part(m.j, "m"));
    let (a, b, acc) = (m.a, m.b, &m.sum.name);
    let outer = m.outer(site);
    for (bi, bj, wj, bk) in FEW {
        if site.extent(m.i) > bi {
            continue;
        }
        let stages = (100 * 1024 / ((bi + bj) * (bk + 8) * m.bytes)).clamp(2, 6);
        for p in m.parts(site, (bi, bj, bk), &[1, 2, 4, 8, 16]) {
            let rows = if bi > 8 { format!(", {i}.atom") } else { String::new() };
            let columns = if wj > 16 { format!(", {jm}") } else { String::new() };
            let text = m
                .steps(site)
                .with(format!("tile({i} = {bi}, {j} = {bj}, {k} = {bk})"))
                .with(format!("split({j} -> {jw}, {jm}: {wj})"))
                .with(format!("tensor_core({acc}: mma; swapped)"))
                .with(format!("reorder({outer}{jw}, {k}.atom{rows}{columns})"))
                .then(&m.copies(site))
                .with(format!("pad({a}: 16, {b}: 16)"))
                .with(format!("pipeline({k}, {stages})"))
                .when(p > 1, format!("split_k({k}, {p})"))
                .with(format!("bind({jw} -> warp.x)"))
                .with(format!("unroll({k}.atom)"));
            found.push(Candidate {
                template: TEMPLATE.name,
                holes: format!("few rows, {bi} by {bj} by {bk}, {p} parts"),
                target: site.target(),
                text: site.layouts().then(&text).done(),
                shape: shape(m, 32 * (bj / wj), (bi, bj, bk), stages, p),
            });
        }
    }
}
