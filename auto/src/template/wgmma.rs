//! A product on the tensor cores of warpgroups, fed by tensor maps.
//!
//! | hole | rule |
//! |---|---|
//! | tile | 64 to 256 rows by 64 to 256 columns; up to 1024 rows: 8 to 256 of them, with the factors exchanged |
//! | how | one warpgroup; two or more beside a producer, CTAs stay; two groups in turns; parts of the sum |
//! | stages | as many as shared memory holds of a step of 64, 2 to 8 |
//! | registers | 24 of a producer's threads, 240, 160 or 112 of those of two, three or four groups |

use super::{
    Template, needs,
    products::{Matrix, matrix},
};
use crate::{
    candidate::{Candidate, Cores, Shape, Text},
    site::Site,
};
use tile_dsl::{dtype::DType, schedule::Target};

pub(super) const TEMPLATE: Template = Template {
    name: "wgmma",
    what: "a product on tensor cores, by warpgroups",
    applies: |site| {
        let m = matrix(site.structure)?;
        needs(site.gpu.target == Target::WARPGROUPS, "the GPU has no asynchronous MMA")?;
        needs(m.sum.dtype == DType::F32, "the sums are not f32")?;
        needs(m.bytes == 2, "the factors have no 16 bits")?;
        needs(m.is_plain(site.structure), "a factor goes by values, or is masked")?;
        needs(m.around.is_empty(), "whole axes are summed over")?;
        needs(m.rows_are_even(site), "rows do not begin at multiples of 16 bytes")
    },
    candidates,
};

/// Bytes of shared memory for stages.
const STAGES: i64 = 227 * 1024 - 2048;

fn candidates(site: &Site<'_>) -> Vec<Candidate> {
    let Ok(m) = matrix(site.structure) else { return Vec::new() };
    let mut found = Vec::new();
    large(site, &m, &mut found);
    few(site, &m, &mut found);
    found
}

fn shape(m: &Matrix<'_>, threads: i64, tile: (i64, i64, i64), stages: i64, parts: i64) -> Shape {
    let (bi, bj, bk) = tile;
    Shape {
        threads,
        tile: vec![(m.i, bi), (m.j, bj), (m.k, bk)],
        parts,
        stages,
        shared: stages * (bi + bj) * bk * m.bytes,
        cores: Some(Cores::Wgmma),
        ..Shape::default()
    }
}

fn large(site: &Site<'_>, m: &Matrix<'_>, found: &mut Vec<Candidate>) {
    let (i, j, k) = (site.name(m.i), site.name(m.j), site.name(m.k));
    let (iw, im) = (site.part(m.i, "w"), site.part(m.i, "m"));
    let (a, b, acc) = (m.a, m.b, &m.sum.name);
    let exchange = m.stored(site.structure).map(|c| format!("exchange({c})")).unwrap_or_default();
    for (bi, bj) in [
        (64, 64),
        (64, 128),
        (64, 256),
        (128, 64),
        (128, 128),
        (128, 192),
        (128, 256),
        (192, 128),
        (256, 128),
    ] {
        if bi > 64 && bi >= 2 * site.reach(m.i, 1 << 40) || bj > 64 && bj >= 2 * site.reach(m.j, 1 << 40) {
            continue;
        }
        let groups = bi / 64;
        let stages = (STAGES / ((bi + bj) * 64 * m.bytes)).min(8);
        let mut add = |how: String, own: Text, parts: i64, turns: bool, stays: bool| {
            let text = Text::default()
                .with(format!("tile({i} = {bi}, {j} = {bj}, {k} = 64)"))
                .with(format!("tensor_core({acc}: wgmma(64, {bj}))"))
                .with(format!("stage({a}, {b} at {k}: shared, tma)"))
                .with(format!("swizzle({a}: 128, {b}: 128)"))
                .with(format!("unroll({k}.atom)"))
                .with(format!("vectorize({j}.pair)"))
                .then(&own);
            found.push(Candidate {
                template: TEMPLATE.name,
                holes: format!("{bi} by {bj}, {how}"),
                target: Target::WARPGROUPS,
                text: site.layouts().then(&text).done(),
                shape: Shape { turns, stays, ..shape(m, 128 * (groups + 1), (bi, bj, 64), stages, parts) },
            });
        };
        let shared = Text::default()
            .when(groups > 1, format!("split({i} -> {iw}, {im}: 64)"))
            .when(groups > 1, format!("bind({iw} -> warpgroup.x)"));
        let alone = match groups {
            1 => Text::default()
                .with(format!("pipeline({k}, {stages})"))
                .with(format!("produce({k}: warp)"))
                .with(format!("issue({acc}: overwrite, in_flight(1))"))
                .when(!exchange.is_empty(), &exchange)
                .with("order(grouped(16))"),
            _ => shared
                .clone()
                .with(format!("pipeline({k}, {stages})"))
                .with(format!("produce({k}: warpgroup)"))
                .with(["registers(24, 240)", "registers(32, 160)", "registers(24, 112)"][groups as usize - 2])
                .with("persistent(1)")
                .with(format!("issue({acc}: overwrite, in_flight(1))"))
                .when(!exchange.is_empty(), &exchange)
                .with("order(serpentine(8))")
                .with(format!("alternate({k})")),
        };
        add(format!("{groups} groups"), alone, 1, false, groups > 1);
        if bi == 128 && bj <= 192 {
            let turns = Text::default()
                .with(format!("reorder({k}.atom, {i}.atom in {acc})"))
                .when(!exchange.is_empty(), &exchange)
                .with(format!("pipeline({k}, {stages})"))
                .with(format!("produce({k}: warpgroup)"))
                .with("registers(24, 240)")
                .with("persistent(1)")
                .with(format!("issue({acc}: overwrite, in_flight(1))"))
                .with("pingpong(2)")
                .with("order(serpentine(8))")
                .with(format!("alternate({k})"));
            add("in turns".into(), turns, 1, true, true);
        }
        if bi * bj <= 16384 {
            for p in m.parts(site, (bi, bj, 64), &[2, 4]) {
                let parts = shared
                    .clone()
                    .with(format!("pipeline({k}, {stages})"))
                    .with(format!("produce({k}: warp)"))
                    .with(format!("issue({acc}: in_flight(1))"))
                    .with(format!("split_k({k}, {p})"));
                add(format!("{p} parts"), parts, p, false, false);
            }
        }
    }
}

/// Registers of a thread beside its sums.
const BESIDE_SUMS: i64 = 48;

/// The most rows of a product whose factors are exchanged.
const MOST_ROWS: i64 = 1024;

/// Columns of the instruction for so many rows of the product: few, and those of which one to four tiles hold all rows, and little else.
fn widths(rows: i64) -> Vec<i64> {
    let even = (1..=4).map(|tiles| (rows as u64).div_ceil(8 * tiles) as i64 * 8);
    let few = [8, 16, 32, 64].into_iter().filter(|n| *n == 8 || *n < 2 * rows);
    if rows > MOST_ROWS {
        return Vec::new();
    }
    let mut widths: Vec<i64> = few.chain(even.filter(|n| *n <= 256)).collect();
    widths.sort();
    widths.dedup();
    widths
}

/// Factors exchanged: rows of the product are columns of the instruction, which has 8 at least.
fn few(site: &Site<'_>, m: &Matrix<'_>, found: &mut Vec<Candidate>) {
    let (i, j, k) = (site.name(m.i), site.name(m.j), site.name(m.k));
    let (jw, jm) = (site.part(m.j, "w"), site.part(m.j, "m"));
    let (a, b, acc) = (m.a, m.b, &m.sum.name);
    let exchange = m.stored(site.structure).map(|c| format!("exchange({c})")).unwrap_or_default();
    for bi in widths(site.extent(m.i)) {
        // Rows of a CTA, and those of a warpgroup: pairs of 64 exchange what they store.
        for (bj, own) in [(64, 64), (128, 64), (256, 64), (256, 128)] {
            for bk in [64, 128] {
                if bk == 128 && bi > 16
                    || own == 128 && bi < 64
                    || bj > 64 && bj >= 2 * site.reach(m.j, 1 << 40)
                {
                    continue;
                }
                let groups = bj / own;
                // Sums and what else a thread has, of those that a CTA's threads share.
                if bi * own / 128 + BESIDE_SUMS > (65536 / (128 * groups + 32)).min(255) {
                    continue;
                }
                let exchanged = own == 128 || bi % 32 == 0;
                let resident = if bi <= 16 && bj < 256 { 2 } else { 1 };
                let most = if bi > 16 { 8 } else { 12 };
                let stages = (200 * 1024 / resident / ((bi + bj) * bk * m.bytes)).clamp(2, most);
                for p in m.parts(site, (bi, bj, bk), &[1, 2, 4, 8]) {
                    let text = Text::default()
                        .with(format!("tile({i} = {bi}, {j} = {bj}, {k} = {bk})"))
                        .when(groups > 1, format!("split({j} -> {jw}, {jm}: {own})"))
                        .when(groups > 1, format!("bind({jw} -> warpgroup.x)"))
                        .with(format!("tensor_core({acc}: wgmma(64, {bi}); swapped)"))
                        .with(format!("stage({a}, {b} at {k}: shared, tma)"))
                        .with(format!("swizzle({a}: 128, {b}: 128)"))
                        .with(format!("unroll({k}.atom)"))
                        .with(format!("pipeline({k}, {stages})"))
                        .with(format!("produce({k}: warp)"))
                        .with(match p > 1 {
                            true => format!("issue({acc}: in_flight(1))"),
                            false => format!("issue({acc}: overwrite, in_flight(1))"),
                        })
                        .when(p > 1, format!("split_k({k}, {p})"))
                        .when(p == 1 && bi >= 64 && exchanged && !exchange.is_empty(), &exchange);
                    let by = if own == 128 { ", pairs" } else { "" };
                    found.push(Candidate {
                        template: TEMPLATE.name,
                        holes: format!("few rows, {bi} by {bj} by {bk}{by}, {p} parts"),
                        target: Target::WARPGROUPS,
                        text: site.layouts().then(&text).done(),
                        shape: shape(m, 128 * groups + 32, (bi, bj, bk), stages, p),
                    });
                }
            }
        }
    }
}
