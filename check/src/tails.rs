//! Tails: more than half of the last tile of an axis lies outside.

use crate::{Figures, Help, Lint, Rule, subject::Subject, text::counted, trial::Trials};
use tile_dsl::directive::{DirectiveKind, Tile};

/// The rule.
pub const RULE: Rule =
    Rule { name: "tails", about: "points of the last tile of an axis outside of it, from the sizes", look };

/// The share of a tile that may lie outside.
const MOST: f64 = 0.5;

fn look(subject: &Subject<'_>) -> Vec<Lint> {
    let directives = subject.program.schedule.directives.iter();
    directives
        .filter_map(|d| if let DirectiveKind::Tile(tile) = &d.kind { lint(subject, tile) } else { None })
        .collect()
}

/// Points of the last tile, and those inside of the axis.
fn last_tile(extent: u64, tile: u32, period: u32) -> (u64, u64) {
    let [size, period] = [tile, period].map(u64::from);
    let (left, whole) = (extent % period, period / size * size);
    match left {
        // A segment ends with its own, smaller tile.
        0 if whole < period => (period - whole, period - whole),
        0 => (size, size),
        left if left > whole => (period - whole, left - whole),
        left => (size, (left - 1) % size + 1),
    }
}

fn lint(subject: &Subject<'_>, tile: &Tile) -> Option<Lint> {
    let nest = &subject.program.nest;
    let extent = &nest.kernel.axes.iter().find(|axis| axis.name == tile.axis)?.extent;
    let points = u64::try_from(extent.eval(subject.dims)?).ok().filter(|n| *n > 0)?;
    let factor = subject.kernel.grid.iter().find(|g| g.extent == *extent && g.tile == tile.size);
    let (size, inside) = last_tile(points, tile.size, factor.map_or(tile.size, |f| f.period));
    let outside = 1.0 - inside as f64 / size as f64;
    if outside <= MOST {
        return None;
    }
    let tiles = points.div_ceil(u64::from(tile.size));
    let help = mended(subject, tile, points);
    let note = help
        .is_none()
        .then(|| "no tile of half or a quarter as many points is legal and leaves less outside".to_string());
    Some(Lint {
        rule: RULE.name,
        place: tile.axis.clone(),
        figures: Figures { predicted: outside, bound: MOST, unit: "of the last tile outside" },
        message: format!(
            "{} of {size} points of the last tile of `{}` lie outside of its {points}",
            size - inside,
            tile.axis
        ),
        notes: [Some(format!("it is one of {}", counted(tiles, "tile"))), note]
            .into_iter()
            .flatten()
            .collect(),
        help,
    })
}

/// A smaller tile of which less lies outside.
fn mended(subject: &Subject<'_>, tile: &Tile, points: u64) -> Option<Help> {
    let mut trials = Trials::of(subject);
    let smaller = [tile.size / 2, tile.size / 4].into_iter().filter(|size| *size > 0);
    let outside = |size: u32| {
        let (size, inside) = last_tile(points, size, size);
        1.0 - inside as f64 / size as f64
    };
    smaller.filter(|size| outside(*size) <= MOST).find_map(|size| {
        let edit = DirectiveKind::Tile(Tile { axis: tile.axis.clone(), size });
        let old = |kind: &DirectiveKind| matches!(kind, DirectiveKind::Tile(t) if t.axis == tile.axis);
        trials.with(std::slice::from_ref(&edit), old)?;
        Some(Help { directives: edit.to_string(), predicted: outside(size) })
    })
}

#[cfg(test)]
mod tests {
    use super::last_tile;

    #[test]
    fn the_last_tile_is_what_is_left() {
        assert_eq!(last_tile(256, 128, 128), (128, 128));
        assert_eq!(last_tile(260, 128, 128), (128, 4));
        assert_eq!(last_tile(5, 128, 128), (128, 5));
    }

    #[test]
    fn segments_end_with_smaller_tiles() {
        // Tiles of 192, 192 and 128 points.
        assert_eq!(last_tile(512, 192, 512), (128, 128));
        assert_eq!(last_tile(1000, 192, 512), (128, 104));
        assert_eq!(last_tile(600, 192, 512), (192, 88));
    }
}
