//! Tiles of two sizes.

use tile_dsl::{
    index::AxisId,
    kernel,
    nest::{Atom, Digit, Role, Segment, Steps, TileSize},
};
fn segment(tile: u32, points: u32) -> Segment {
    Segment { digit: Digit { axis: AxisId(0), stride: tile, steps: Steps::Rest }, points }
}

#[test]
fn tiles_cover_each_point_once() {
    for (tile, points) in [(192, 512), (3, 8), (3, 7), (2, 3), (128, 192), (5, 19)] {
        let segment = segment(tile, points);
        for extent in (0..3 * i64::from(points) + 2).chain([i64::from(points) * 8]) {
            let mut times = vec![0; extent as usize];
            let tiles = segment.tiles(extent);
            let of = |size| tiles.iter().filter(|(_, of)| *of == size).count() as u64;
            let counts = [TileSize::Whole, TileSize::Last].map(of);
            assert_eq!(kernel::tiles(extent as u64, tile, points), counts, "{tile} in {points}, {extent}");
            for (at, size) in tiles {
                let wide = if size == TileSize::Whole { tile } else { segment.rest() };
                let own = at..extent.min(at + i64::from(wide));
                assert!(!own.is_empty(), "{tile} in {points}: an empty tile at {at} of {extent}");
                own.for_each(|x| times[x as usize] += 1);
            }
            assert!(times.iter().all(|n| *n == 1), "{tile} in {points}, {extent}: {times:?}");
        }
    }
}

#[test]
fn whole_tiles_come_first() {
    let sizes: Vec<i64> = segment(192, 512).tiles(1100).into_iter().map(|(at, _)| at).collect();
    assert_eq!(sizes, [0, 192, 512, 704, 1024, 384, 896]);
}

#[test]
fn the_last_tile_takes_fewer_columns() {
    let segment = segment(192, 512);
    let digit = |stride, steps| Digit { axis: AxisId(0), stride, steps: Steps::Fixed(steps) };
    assert_eq!(segment.in_last(digit(1, 192)), digit(1, 128));
    assert_eq!(segment.in_last(digit(64, 3)), digit(64, 2));
    assert_eq!(segment.in_last(digit(8, 16)), digit(8, 16));
    for of in Atom::all().filter(|a| a.size(Role::N) == 192) {
        let narrow = segment.atom_in_last(of, digit(1, 192)).expect("wgmma takes 128 columns");
        assert_eq!((narrow.size(Role::N), narrow.row().label), (128, of.row().label));
    }
    assert_eq!(segment.atom_in_last(Atom::MMA, digit(1, 8)), Some(Atom::MMA));
}
