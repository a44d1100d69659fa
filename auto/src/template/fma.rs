//! A product on the multiply-adds of lanes: warps of 4 by 8 lanes, each with quads of 4 by 4 elements.
//!
//! | hole | rule |
//! |---|---|
//! | tile | 16 to 128 rows by 64 to 256 columns, 1 to 16 warps, no more than twice the matrix |
//! | step | 16, 32 or 64, the less the larger the tile |
//! | parts | 1, 4, 8 or 16 CTAs a tile where tiles are few |
//! | stages | 2; 3 where a tile has 256 columns |

use super::{Template, needs, products::matrix};
use crate::{
    candidate::{Candidate, Cores, Shape},
    site::Site,
};
use tile_dsl::dtype::DType;

pub(super) const TEMPLATE: Template = Template {
    name: "fma",
    what: "a product on multiply-adds",
    applies: |site| {
        let m = matrix(site.structure)?;
        needs(m.sum.dtype == DType::F32, "the sums are not f32")?;
        needs(m.bytes >= 2, "the factors are narrower than 16 bits")
    },
    candidates,
};

/// Tiles: rows, columns, quads of rows and of columns a thread.
const TILES: [(i64, i64, i64, i64); 9] = [
    (128, 128, 2, 2),
    (128, 256, 2, 2),
    (64, 128, 2, 2),
    (64, 64, 2, 1),
    (32, 64, 1, 1),
    (32, 128, 1, 2),
    (64, 256, 2, 2),
    (32, 256, 2, 2),
    (16, 128, 1, 1),
];

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let s = site.structure;
    let Ok(m) = matrix(s) else { return Vec::new() };
    let (i, j, k) = (site.name(m.i), site.name(m.j), site.name(m.k));
    let (iw, ih, il, ir) =
        (site.part(m.i, "w"), site.part(m.i, "h"), site.part(m.i, "l"), site.part(m.i, "r"));
    let (jw, jh, jl, jr) =
        (site.part(m.j, "w"), site.part(m.j, "h"), site.part(m.j, "l"), site.part(m.j, "r"));
    let (jlo, jli) = (site.part(m.j, "lo"), site.part(m.j, "li"));
    let (a, b, acc) = (m.a, m.b, &m.sum.name);
    let mut found = Vec::new();
    for (bi, bj, hi, hj) in TILES {
        if bi > 16 && bi >= 2 * site.reach(m.i, 1 << 40) || bj > 64 && bj >= 2 * site.reach(m.j, 1 << 40) {
            continue;
        }
        for bk in [16, 32, 64] {
            let (wi, wj) = (bi / (16 * hi), bj / (32 * hj));
            let large = bk == 32 && bi * bj > 8192 || bk == 64 && bi * bj > 4096;
            if wi * wj < 1 || large || bk > 16 && bk >= 2 * site.reach(m.k, 1 << 40) {
                continue;
            }
            for p in m.parts(site, (bi, bj, bk), &[1, 4, 8, 16]) {
                let stages = if bj == 256 { 3 } else { 2 };
                let resident = if bi * bj > 16384 { 1 } else { (16 / (wi * wj)).clamp(1, 4) };
                // Rows of a factor that run along the sum are turned on their way.
                let (ka, kb) = (m.along_k(s, 0), m.along_k(s, 1));
                let vectors = m.vectors(site);
                let copy = |along_k: bool, bytes: Option<i64>| match (along_k, bytes) {
                    (true, Some(bytes)) if bytes > m.bytes => format!(", transposed, vector({bytes})"),
                    (true, _) => ", transposed".into(),
                    (false, Some(bytes)) => format!(", cp_async, vector({bytes})"),
                    (false, None) => String::new(),
                };
                let narrow = m.bytes < 4 || !m.is_plain(s);
                // Loops around that over tiles stand outside of what threads share, too.
                let order = match m.around.is_empty() {
                    true => format!("reorder({k}, {jh}, {jr}, {ih}, {ir})"),
                    false => format!(
                        "reorder({}{iw}, {il}, {jw}, {jlo}, {jli}, {k}.t, {jh}, {jr}, {ih}, {ir})",
                        m.outer(site)
                    ),
                };
                let text = m
                    .steps(site)
                    .with(format!("tile({i} = {bi}, {j} = {bj}, {k} = {bk})"))
                    .with(format!("split({i} -> {iw}, {ih}, {il}, {ir}: {hi}, 4, 4)"))
                    .with(format!("split({j} -> {jw}, {jh}, {jl}, {jr}: {hj}, 8, 4)"))
                    .with(format!("split({jl} -> {jlo}, {jli}: 2)"))
                    .with(order)
                    .with(format!("stage({a} at {k}: shared{})", copy(ka, vectors[0])))
                    .with(format!("stage({b} at {k}: shared{})", copy(kb, vectors[1])))
                    .when(ka, format!("pad({a}: 16)"))
                    .when(kb, format!("pad({b}: 16)"))
                    .when(!narrow, format!("fragment({a}, {b} at {k}.t)"))
                    .with(format!("pipeline({k}, {stages})"))
                    .when(!narrow, format!("pipeline({k}.t, 2)"))
                    .when(p > 1, format!("split_k({k}, {p})"))
                    .with(format!(
                        "bind({iw} -> warp.y, {jw} -> warp.x, {il} -> lane.x, {jli} -> lane.y, {jlo} -> lane.z ^ lane.x)"
                    ))
                    .when(bi * bj >= 16384, format!("serpentine({jh}, {jr}, {ih}, {ir} in {acc})"))
                    .when(narrow && bi * bj < 16384, format!("unroll({ih}, {ir}, {jh}, {jr} in {acc})"))
                    .when(resident > 1, format!("occupancy({resident})"))
                    .when(bi * bj >= 16384, "order(grouped(8))")
                    .with("assemble(1)");
                found.push(Candidate {
                    template: TEMPLATE.name,
                    holes: format!("{bi} by {bj} by {bk}, {p} parts"),
                    target: site.target(),
                    text: site.layouts().then(&text).done(),
                    shape: Shape {
                        threads: 32 * wi * wj,
                        tile: vec![(m.i, bi), (m.j, bj), (m.k, bk)],
                        parts: p,
                        stages,
                        shared: stages * (bi + bj) * bk * m.bytes,
                        cores: Some(Cores::Fma),
                        each: 16 * hi * hj,
                        ..Shape::default()
                    },
                });
            }
        }
    }
    found
}
