//! The tables of operators.

use tile_dsl::dtype::DType;
use tile_dsl::op::{BinOp, CmpOp, tf32, unary::Magnitude};

#[test]
fn a_name_and_a_symbol_have_one_operator() {
    for op in BinOp::ALL {
        assert_eq!(BinOp::from_name(op.name()), Some(*op));
        for symbol in op.row().symbols {
            assert_eq!(BinOp::from_symbol(symbol), Some(*op), "{symbol}");
        }
    }
}

#[test]
fn values_and_indices_agree_where_nothing_wraps() {
    for int in BinOp::ALL.iter().filter_map(|op| op.row().int) {
        for (x, y) in [(7, 3), (-7, 3), (7, -3), (0, 5), (i32::MAX, 1), (i32::MIN, -1), (4, 0)] {
            let (x, y) = (i64::from(x), i64::from(y));
            let value = DType::I32.wrap((int.value)(x, y));
            match (int.checked)(x, y).filter(|z| DType::I32.wrap(*z) == *z) {
                Some(index) => assert_eq!(index, value),
                _ => assert!(int.wraps, "{x} {y}"),
            }
        }
    }
}

#[test]
fn a_neutral_operand_leaves_the_other_one() {
    for op in BinOp::ALL {
        let Some(int) = op.row().int else { continue };
        for x in [-3, 0, 9] {
            let [left, right] = int.neutral;
            assert!(left.is_none_or(|n| (int.checked)(n, x) == Some(x)), "{}", op.name());
            assert!(right.is_none_or(|n| (int.checked)(x, n) == Some(x)), "{}", op.name());
        }
    }
}

#[test]
fn results_are_in_their_range() {
    let corners = |[lo, hi]: [f64; 2]| [lo, (lo + hi) / 2.0, hi];
    for op in BinOp::ALL {
        let Some(real) = op.row().float else { continue };
        let (a, b) = ([-3.0, 5.0], [0.5, 2.0]);
        let [lo, hi] = (real.results.range)(a, b);
        for (x, y) in corners(a).into_iter().flat_map(|x| corners(b).map(|y| (x, y))) {
            let z = f64::from((real.value)(x as f32, y as f32));
            assert!(lo <= z && z <= hi, "{x} {} {y} = {z}", op.name());
            let (Magnitude::Exact(v, m) | Magnitude::Rounded(v, m)) = (real.bounded)((x, x.abs()), (y, y));
            assert!((v - z).abs() <= 1e-6 && v.abs() <= m, "{x} {} {y} = {v}", op.name());
        }
    }
}

#[test]
fn comparisons_are_those_of_rust() {
    let numbers = [-1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
    for (a, b) in numbers.iter().flat_map(|a| numbers.iter().map(move |b| (a, b))) {
        let found: Vec<bool> = CmpOp::ALL.iter().map(|op| op.holds(a, b)).collect();
        assert_eq!(found, [a == b, a != b, a < b, a <= b, a > b, a >= b], "{a} {b}");
    }
}

#[test]
fn tf32_rounds_to_nearest_and_ties_away_from_zero() {
    let half = 1.0 / 2048.0;
    for (x, y) in [
        (0.0, 0.0),
        (1.0 + half, 1.0 + 2.0 * half),
        (-1.0 - half, -1.0 - 2.0 * half),
        (1.0 + half - f32::EPSILON, 1.0),
        (1.0 + 3.0 * half, 1.0 + 4.0 * half),
        (2.0 - f32::EPSILON, 2.0),
        (f32::MAX, f32::INFINITY),
        (f32::NEG_INFINITY, f32::NEG_INFINITY),
        (f32::from_bits(0x1000), f32::from_bits(0x2000)),
        (f32::from_bits(0x0fff), 0.0),
    ] {
        assert_eq!(tf32(x).to_bits(), y.to_bits(), "{x}");
    }
    assert_eq!(tf32(-0.0).to_bits(), (-0.0f32).to_bits());
    for nan in [0x7fff_ffff, 0x7f80_0001, 0xffc0_0000] {
        assert!(tf32(f32::from_bits(nan)).is_nan());
    }
}

#[test]
fn tf32_leaves_sixteen_bit_numbers_as_they_are() {
    for bits in 0..=u16::MAX {
        for x in [half::f16::from_bits(bits).to_f32(), half::bf16::from_bits(bits).to_f32()] {
            assert!(x.is_nan() || tf32(x).to_bits() == x.to_bits(), "{x}");
        }
    }
}
