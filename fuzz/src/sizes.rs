//! Sizes to launch a program at: 0, 1, tiles and their neighbours, and what the exact and aligned variants admit.

use crate::{case::Launch, data};
use std::collections::BTreeMap;
use tile_dsl::{
    directive::{self, DirectiveKind},
    engine::testing::Random,
    index::Extent,
    lower::{admit, assumptions, promises},
    program::{Program, Variant},
    tile::AxisKind,
};

/// Most points of all axes together, and elements of a tensor.
const MOST_POINTS: i64 = 20_000;
const MOST_ELEMENTS: usize = 20_000;
/// Multiprocessors of the simulated device.
const MULTIPROCESSORS: i64 = 4;

/// Addresses as the simulator gives them: well aligned.
pub fn bases(program: &Program) -> Vec<u64> {
    vec![256; program.nest.kernel.tensors.len()]
}

/// The variants that a launch of this size admits.
pub fn variants(program: &Program, dims: &BTreeMap<String, i64>) -> Vec<Variant> {
    let holds =
        |variant: &Variant| assumptions(program, *variant).iter().all(|a| a.holds(dims, &bases(program)));
    [Variant::Exact, Variant::Aligned, Variant::General].into_iter().filter(holds).collect()
}

/// Whether a launch of this size is admitted and small enough to be run often.
pub fn admitted(program: &Program, dims: &BTreeMap<String, i64>) -> bool {
    let kernel = &program.nest.kernel;
    let extents: Option<Vec<i64>> =
        kernel.axes.iter().map(|a| a.extent.eval(dims).filter(|n| *n >= 0)).collect();
    let Some(extents) = extents else { return false };
    let kept = promises(&program.nest).iter().all(|promise| promise.assumption.holds(dims, &[]));
    let small = |shape: Vec<usize>| shape.into_iter().fold(1, usize::saturating_mul) <= MOST_ELEMENTS;
    kept && extents.iter().copied().fold(1, i64::saturating_mul) <= MOST_POINTS
        && data::shapes(kernel, dims).is_some_and(|shapes| shapes.into_iter().all(small))
}

/// `count` different sizes at most: one that is exact and one that is aligned where there are such, then odd ones. Of some cases every dim
/// has several tiles: loops around tiles take more than a step then.
pub fn sizes(program: &Program, random: &mut Random, count: usize) -> Vec<Launch> {
    let names = names(program);
    let (tiles, bounds) = (tiles(program, &names), bounds(program));
    let mut found: Vec<BTreeMap<String, i64>> = Vec::new();
    let several = random.below(5) < 2;
    let rounds = program.nest.persistent.is_some() && random.below(4) > 0;
    let search = |wanted: Option<Variant>, random: &mut Random, found: &mut Vec<_>| {
        for attempt in 0..60 {
            let mut of = |name: &String| match several && attempt < 20 {
                true => several_tiles(&tiles[name], bounds.get(name).copied(), wanted, random),
                false => extent(&tiles[name], wanted, random),
            };
            let mut dims: BTreeMap<String, i64> = names.iter().map(|name| (name.clone(), of(name))).collect();
            if rounds && attempt < 30 {
                take_rounds(program, &mut dims, &bounds, random);
            }
            admit(&program.nest, &mut dims);
            if !admitted(program, &dims) || found.contains(&dims) {
                continue;
            }
            if wanted.is_none_or(|w| variants(program, &dims).first() == Some(&w)) {
                found.push(dims);
                return;
            }
        }
    };
    if names.is_empty() {
        found.push(BTreeMap::new());
    } else {
        search(Some(Variant::Exact), random, &mut found);
        search(Some(Variant::Aligned), random, &mut found);
        while found.len() < count {
            let before = found.len();
            search(None, random, &mut found);
            if found.len() == before {
                break;
            }
        }
    }
    found.truncate(count);
    found
        .into_iter()
        .map(|dims| Launch { dims, data: random.next(), special: random.below(8) == 0 })
        .collect()
}

/// Where CTAs take tile after tile, so many that each takes several: one axis gets more, if its dim has no bound.
fn take_rounds(
    program: &Program,
    dims: &mut BTreeMap<String, i64>,
    bounds: &BTreeMap<String, i64>,
    random: &mut Random,
) {
    let tile_of = |axis: &str| {
        let tile = program.schedule.directives.iter().find_map(|directive| match &directive.kind {
            DirectiveKind::Tile(tile) if tile.axis == axis => Some(i64::from(tile.size)),
            _ => None,
        });
        tile.unwrap_or(1).max(1)
    };
    let axes = program.nest.kernel.axes.iter().filter(|axis| axis.kind == AxisKind::Program);
    let axes: Vec<_> = axes
        .map(|axis| (&axis.extent, tile_of(&axis.name)))
        .map(|(extent, tile)| (extent, tile, (extent.eval(dims).unwrap_or(0).max(1) - 1) / tile + 1))
        .collect();
    // One more point of the dim is one more of the axis.
    let grows = |(extent, ..): &&(&Extent, i64, i64)| {
        extent.dims.len() == 1
            && extent.dims.iter().all(|(dim, times)| *times == 1 && !bounds.contains_key(dim))
    };
    let growing: Vec<_> = axes.iter().filter(grows).collect();
    if growing.is_empty() {
        return;
    }
    let (extent, tile, own) = *random.pick(&growing);
    let all: i64 = axes.iter().map(|(.., tiles)| *tiles).fold(1, i64::saturating_mul);
    let rounds = 2 + random.below(4) as i64;
    let ctas = MULTIPROCESSORS * i64::from(program.nest.persistent.unwrap_or(1));
    let tiles = (rounds * ctas + random.below(3) as i64) / (all / own).max(1);
    for dim in extent.dims.keys() {
        let points = dims.entry(dim.clone()).or_default();
        // What the last tile has stays as it was.
        *points += (tiles - own).max(0) * tile;
    }
}

fn names(program: &Program) -> Vec<String> {
    let kernel = &program.nest.kernel;
    let extents = kernel.tensors.iter().flat_map(|t| &t.dims).chain(kernel.axes.iter().map(|a| &a.extent));
    let mut names: Vec<String> = extents.flat_map(|e| e.dims.keys().cloned()).collect();
    names.sort();
    names.dedup();
    names
}

/// The most that launches give some dims.
fn bounds(program: &Program) -> BTreeMap<String, i64> {
    let fits = program.schedule.directives.iter().filter_map(|directive| match &directive.kind {
        DirectiveKind::Fits(directive::Fits { dim, max }) => Some((dim.clone(), i64::from(*max))),
        _ => None,
    });
    fits.collect()
}

/// Tile sizes and factors that concern each dim.
fn tiles(program: &Program, names: &[String]) -> BTreeMap<String, Vec<i64>> {
    let kernel = &program.nest.kernel;
    let mut tiles: BTreeMap<String, Vec<i64>> = names.iter().map(|n| (n.clone(), vec![])).collect();
    for directive in &program.schedule.directives {
        let (axes, sizes): (Vec<_>, Vec<i64>) = match &directive.kind {
            DirectiveKind::Tile(directive::Tile { axis, size }) => {
                (kernel.axes.iter().filter(|a| a.name == *axis).collect(), vec![(*size).into()])
            }
            DirectiveKind::Split(directive::Split { digit, factors, .. }) => {
                let axis = digit.split('.').next().unwrap_or_default();
                let axes = kernel.axes.iter().filter(|a| a.name == axis).collect();
                let product = factors.iter().map(|f| i64::from(*f)).fold(1, i64::saturating_mul);
                (axes, factors.iter().map(|f| i64::from(*f)).chain([product]).collect())
            }
            DirectiveKind::Fits(directive::Fits { dim, max }) => {
                tiles.entry(dim.clone()).or_default().push((*max).into());
                continue;
            }
            _ => continue,
        };
        for axis in axes {
            for dim in axis.extent.dims.keys() {
                tiles.entry(dim.clone()).or_default().extend(&sizes);
            }
        }
    }
    // No launch is as large as some are.
    tiles.values_mut().for_each(|tiles| tiles.retain(|tile| *tile <= MOST_POINTS));
    tiles
}

/// So many points that each loop over tiles takes more than a step, as far as a bound leaves room.
fn several_tiles(tiles: &[i64], most: Option<i64>, wanted: Option<Variant>, random: &mut Random) -> i64 {
    // A bound is no tile.
    let tiles: Vec<i64> = tiles.iter().copied().filter(|tile| Some(*tile) != most).collect();
    let tile = if tiles.is_empty() { 4 } else { *random.pick(&tiles) };
    let all = tiles.iter().copied().fold(1, i64::saturating_mul).max(2 * tile).clamp(2, 192);
    let points = match wanted {
        Some(Variant::Exact) => all * (1 + random.below(2) as i64),
        Some(_) => (all + 4 * random.below(6) as i64) / 4 * 4,
        None => all + *random.pick(&[-1, 1, tile - 1, tile, tile + 1]),
    };
    match (most, wanted) {
        (Some(most), Some(Variant::Exact)) if points > most => most / tile.max(1) * tile,
        (Some(most), Some(_)) if points > most => most / 4 * 4,
        (Some(most), None) if points > most => most - random.below(2) as i64,
        _ => points,
    }
    .max(0)
}

fn extent(tiles: &[i64], wanted: Option<Variant>, random: &mut Random) -> i64 {
    let tile = if tiles.is_empty() { *random.pick(&[4, 8, 16]) } else { *random.pick(tiles) };
    match wanted {
        Some(Variant::Exact) => match random.below(6) {
            0 => 32,
            1 => 64,
            // The product divides by all of them.
            2 => tiles.iter().copied().fold(1, i64::saturating_mul).clamp(1, 256),
            3 => 0,
            n => tile * (n as i64 - 3),
        },
        Some(_) => 4 * (1 + random.below(12) as i64),
        None => match random.below(12) {
            0 => 0,
            1 | 2 => 1,
            3 => tile - 1,
            4 => tile,
            5 => tile + 1,
            6 => 2 * tile + 1,
            7 => 2 * tile - 1,
            8 => *random.pick(&[31, 33, 37]),
            _ => 2 + random.below(16) as i64,
        }
        .max(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether CTAs of a schedule take two tiles at least, in a launch of each of so many seeds.
    fn rounds(schedule: &str) -> Vec<bool> {
        let text = format!(
            "kernel k(x: &[f32; N, 8], y: &mut [f32; N, 8]) {{
    axis i in program_tile(N);
    axis j in whole(8);
    store(y, [i, j], load(x, [i, j]) * 2.0);
}}
schedule sm_90 {{
    {schedule}
    tile(i = 32);
    bind(i.t -> thread.x);
}}
"
        );
        let program = crate::check::program(&crate::case::Case::parse(&text).unwrap()).unwrap();
        let several = |launch: &Launch| launch.dims["N"] > 32 * MULTIPROCESSORS;
        (0..40).map(|seed| sizes(&program, &mut Random::new(seed), 3).iter().any(several)).collect()
    }

    #[test]
    fn where_ctas_take_tile_after_tile_most_cases_have_such() {
        let count = |schedule: &str| rounds(schedule).into_iter().filter(|several| *several).count();
        assert!(count("persistent(1);") >= 25, "{}", count("persistent(1);"));
        assert!(count("") < 20, "{}", count(""));
        assert_eq!(count("fits(N <= 100); persistent(1);"), 0, "a bound is kept");
    }

    #[test]
    fn a_bound_leaves_room_for_several_tiles() {
        let mut random = Random::new(3);
        for wanted in [Some(Variant::Exact), Some(Variant::Aligned), None] {
            for _ in 0..50 {
                let points = several_tiles(&[4, 24], Some(24), wanted, &mut random);
                assert!(points > 4 && points <= 24, "{points} of {wanted:?}");
            }
        }
        assert_eq!(several_tiles(&[16, 5], Some(5), Some(Variant::Exact), &mut random), 0, "none fits");
    }
}
