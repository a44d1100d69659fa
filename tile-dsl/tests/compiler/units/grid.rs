//! Coordinates of CTAs in the order asked for.

use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    kernel::{Expr, Stmt, Var},
    nest::Order,
    testing,
};
fn evaluate(expr: &Expr, known: &BTreeMap<Var, i64>) -> i64 {
    let of = |e: &Expr| evaluate(e, known);
    match expr {
        Expr::Int(n, _) => *n,
        Expr::Bool(b) => i64::from(*b),
        Expr::Var(var) => known[var],
        Expr::Bin(op, a, b) => {
            let int = op.row().int.unwrap_or_else(|| panic!("{op:?}"));
            (int.checked)(of(a), of(b)).expect("in range")
        }
        Expr::Cmp(op, a, b) => i64::from(op.holds(&of(a), &of(b))),
        Expr::Select(c, a, b) => {
            if of(c) != 0 {
                of(a)
            } else {
                of(b)
            }
        }
        other => panic!("{other:?}"),
    }
}

/// The values of expressions behind definitions.
fn values((stmts, exprs): (Vec<Stmt>, Vec<Expr>)) -> Vec<i64> {
    let mut known = BTreeMap::new();
    for stmt in stmts {
        let Stmt::Let(var, value) = stmt else { panic!("{stmt:?}") };
        let value = evaluate(&value, &known);
        known.insert(var, value);
    }
    exprs.iter().map(|expr| evaluate(expr, &known)).collect()
}

fn walk<const N: usize>(order: Order, counts: [i64; N]) -> Vec<[i64; N]> {
    let tile = |n: i64| values(testing::decoded(order, &counts, n)).try_into().expect("a step each");
    (0..counts.iter().product()).map(tile).collect()
}

#[test]
fn every_order_takes_each_tile_once() {
    for counts in [[1, 1], [3, 40], [16, 16], [16, 15], [17, 33], [40, 50], [33, 16]] {
        for order in [
            Order::Row,
            Order::Column,
            Order::Grouped(3),
            Order::Grouped(u32::MAX),
            Order::Serpentine(3),
            Order::Serpentine(u32::MAX),
            Order::Hilbert,
            Order::Reversed,
        ] {
            let tiles: BTreeSet<[i64; 2]> = walk(order, counts).into_iter().collect();
            assert_eq!(tiles.len() as i64, counts[0] * counts[1], "{order} of {counts:?}");
            assert!(tiles.iter().all(|t| (0..2).all(|d| (0..counts[d]).contains(&t[d]))));
        }
    }
}

#[test]
fn planes_of_a_grid_follow_one_another() {
    for order in [Order::Grouped(3), Order::Serpentine(3), Order::Hilbert] {
        let plane = walk(order, [20, 33]);
        let all = walk(order, [2, 3, 20, 33]);
        let (count, expected) = (plane.len(), plane.iter().cycle());
        for ((n, tile), [i, j]) in all.iter().enumerate().zip(expected) {
            assert_eq!(*tile, [(n / count / 3) as i64, (n / count % 3) as i64, *i, *j], "{order}");
        }
    }
}

/// The steps of all CTAs of a grid of program axes.
fn taken(order: Order, bands: [u16; 2], counts: [i64; 3], rank: Option<usize>) -> Vec<[i64; 3]> {
    let of = |cta: i64| {
        let mut steps = values(testing::taken(order, bands, &counts, rank, cta)).into_iter();
        counts.map(|n| if n > 1 { steps.next().expect("a step each") } else { 0 })
    };
    (0..counts.iter().product()).map(of).collect()
}

#[test]
fn bands_go_along_the_axes_that_are_named() {
    for order in [Order::Grouped(3), Order::Serpentine(3), Order::Hilbert] {
        for bands in [[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]] {
            let [band, along] = bands.map(usize::from);
            let slow = 3 - band - along;
            let counts = [5, 20, 17];
            let plane = walk(order, [counts[band], counts[along]]);
            for (n, tile) in taken(order, bands, counts, None).into_iter().enumerate() {
                let wanted = (n / plane.len(), plane[n % plane.len()]);
                let found = (tile[slow] as usize, [tile[band], tile[along]]);
                assert_eq!(found, wanted, "{order} over {bands:?}: CTA {n}");
            }
        }
    }
    // CTAs of a cluster stay neighbours; the others walk bands.
    let tiles = taken(Order::Grouped(2), [0, 2], [4, 2, 3], Some(1));
    assert_eq!(tiles[..6], [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]]);
    // Along an axis of one tile a band is a row of the others.
    let tiles = taken(Order::Grouped(2), [1, 0], [4, 1, 3], None);
    assert_eq!(tiles[..5], [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [0, 0, 1]]);
}

#[test]
fn every_second_band_is_walked_back() {
    let tiles = walk(Order::Serpentine(2), [6, 3]);
    let columns: Vec<i64> = tiles.iter().map(|t| t[1]).collect();
    assert_eq!(columns, [0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 0, 0, 0, 1, 1, 2, 2]);
    // From band to band, the column stays.
    assert_eq!((tiles[5], tiles[6]), ([1, 2], [2, 2]));
}

#[test]
fn hilberts_curve_goes_from_neighbour_to_neighbour() {
    // From square to square, too, and to the band below by a jump.
    let tiles = walk(Order::Hilbert, [32, 48]);
    let far = |w: &[[i64; 2]]| (0..2).map(|d| (w[1][d] - w[0][d]).abs()).sum::<i64>() > 1;
    assert_eq!(tiles.windows(2).filter(|w| far(w)).count(), 1);
    let (rows, columns): (BTreeSet<i64>, BTreeSet<i64>) = tiles[..64].iter().map(|t| (t[0], t[1])).unzip();
    assert_eq!((rows.len(), columns.len()), (8, 8));
}
