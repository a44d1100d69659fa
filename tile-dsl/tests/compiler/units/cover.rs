//! What an extent is a multiple of.

use tile_dsl::{index::Extent, nest, testing, tile};
#[test]
fn what_an_extent_is_a_multiple_of_follows_from_its_terms() {
    let text = "kernel k(x: &[f32; N], y: &mut [f32; N]) {\n    axis i in program_tile(N);\n    store(y, [i], load(x, [i]));\n}";
    let mut nest = nest::initial(&tile::parse(text).unwrap().instantiate(None)).unwrap();
    let extent = |c: i64, constant: i64| Extent { dims: [("N".to_string(), c)].into(), constant };
    assert_eq!(testing::is_multiple(&nest, &Extent::constant(12), 4), Some(true));
    assert_eq!(testing::is_multiple(&nest, &Extent::constant(13), 4), Some(false));
    assert_eq!(testing::is_multiple(&nest, &extent(1, 0), 4), None);
    assert_eq!(testing::is_multiple(&nest, &extent(2, 1), 4), Some(false));
    nest.multiples.insert("N".into(), 6);
    assert_eq!(testing::is_multiple(&nest, &extent(1, 0), 3), Some(true));
    assert_eq!(testing::is_multiple(&nest, &extent(1, 0), 4), None);
    assert_eq!(testing::is_multiple(&nest, &extent(2, 0), 4), Some(true));
    assert_eq!(testing::is_multiple(&nest, &extent(1, 2), 3), Some(false));
    assert_eq!(testing::is_multiple(&nest, &extent(1, -3), 3), Some(true));
    assert_eq!(testing::is_multiple(&nest, &extent(1, 1), 4), Some(false));
}
