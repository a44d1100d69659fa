//! "Limits: tiles, waves, the roofline, power".

// ANCHOR: waves
/// The share of a GPU's work that is useful: `tiles` of rows and columns on as many multiprocessors, a tile each at a time.
pub fn efficiency([m, n]: [usize; 2], tile: [usize; 2], multiprocessors: usize) -> f64 {
    let tiles = m.div_ceil(tile[0]) * n.div_ceil(tile[1]);
    let waves = tiles.div_ceil(multiprocessors);
    let computed = waves * multiprocessors * tile[0] * tile[1];
    (m * n) as f64 / computed as f64
}
// ANCHOR_END: waves

// ANCHOR: solution
#[test]
fn the_best_of_three_tiles() {
    let best = |size: usize| {
        let tiles = [[128, 256], [192, 192], [160, 256]];
        let share = |tile: &[usize; 2]| efficiency([size, size], *tile, 132);
        tiles.into_iter().max_by(|a, b| share(a).total_cmp(&share(b))).unwrap()
    };
    assert_eq!(best(4096), [128, 256]);
    assert_eq!(best(3000), [192, 192]);
}
// ANCHOR_END: solution

#[test]
fn one_row_more() {
    let share = |m| efficiency([m, 4096], [128, 256], 132);
    assert!((share(4096) - 512.0 / 528.0).abs() < 1e-12);
    assert!(share(4224) > share(4096) && share(4225) < share(4224));
}
