//! Every fact is printed and read back.

use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    index::AxisId,
    machine::{Across, Evict, Level, Order, Unit, UnitDim},
    nest::{
        AccessId, Digit, Expr, Fraction, Interleave, Issue, Limits, LoopKind, Nest, Output, Recurrence,
        Segment, Steps, Stmt, ValueId, initial, leaves, parse_nest,
    },
    span::SpanId,
    testing,
    tile::{self, TensorId},
};

const MATMUL: &str = "\
kernel matmul<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}";

/// A nest with every fact but those of loops bound to units.
fn nest() -> Nest {
    let kernel = tile::parse(MATMUL).unwrap().instantiate(Some(DType::F16));
    let bare = initial(&kernel).unwrap();
    let (acc, a, c) = (ValueId(0), TensorId(0), TensorId(2));
    assert_eq!(bare.value(acc).name, "acc");
    let (named, plain) = (
        Digit { axis: AxisId(2), stride: 16, steps: Steps::Rest },
        Digit { axis: AxisId(1), stride: 4, steps: Steps::Fixed(8) },
    );
    let Nest { kernel, values, accesses, copies, body, mut names, .. } = bare;
    names.insert("k.o".into(), named);
    let a_load = AccessId(0);
    let half = Fraction { parts: 1, of: 2 };
    Nest {
        written: None,
        kernel,
        values,
        accesses,
        copies,
        body,
        names,
        bounds: [(AxisId(0), 64), (AxisId(2), 8)].into(),
        lengths: [("K".to_string(), 72), ("N".to_string(), 9)].into(),
        multiples: [("K".to_string(), 8), ("M".to_string(), 2)].into(),
        recurrences: [
            (AxisId(0), Recurrence { tile: None, span: SpanId::NONE }),
            (AxisId(2), Recurrence { tile: Some(4), span: SpanId::NONE }),
        ]
        .into(),
        combine: [(acc, Level::Cta)].into(),
        across: [(acc, Across::Cluster)].into(),
        column_major: [a, c].into(),
        occupancy: Some(2),
        outputs: [
            (a, Output { swizzle: 128, matrices: true, span: SpanId::NONE }),
            (c, Output { swizzle: 0, matrices: false, span: SpanId::NONE }),
        ]
        .into(),
        private: [(c, SpanId::NONE)].into(),
        exchanged: [(a, SpanId::NONE), (c, SpanId::NONE)].into(),
        cache: [(a, Evict::Last), (c, Evict::First)].into(),
        interleaved: [(named, Interleave { loads: half, ..Interleave::default() })].into(),
        produced: [named, plain].into(),
        producer: Some(Unit::Warpgroup),
        tile_stages: [(plain, 2)].into(),
        arrive: [(plain, Unit::Thread)].into(),
        lookback: Some(named),
        alternate: [named].into(),
        issue: [(acc, Issue { overwrite: true, in_flight: 2 })].into(),
        ahead: [acc].into(),
        frozen: [acc].into(),
        registers: Some([40, 232]),
        segment: Some(Segment { digit: plain, points: 50 }),
        persistent: Some(1),
        serpentine_rounds: true,
        counted: true,
        pingpong: Some(3),
        cluster: Some(plain),
        order: Order::Serpentine(8),
        bands: Some([AxisId(1), AxisId(0)]),
        skew: BTreeMap::new(),
        assemble: Some(0),
        dependent: true,
        limits: [
            (AxisId(2), Limits { from: Some(Expr::Load(a_load)), to: None }),
            (AxisId(1), Limits { from: Some(Expr::Iota(AxisId(0))), to: Some(Expr::Const(3.0, DType::I32)) }),
        ]
        .into(),
    }
}

/// The term and the facts, without what follows from them.
fn printed(nest: &Nest) -> String {
    nest.print(&nest.body) + &testing::facts(nest)
}

#[test]
fn every_fact_is_read_as_it_is_printed() {
    let nest = nest();
    let text = printed(&nest);
    assert_eq!(parse_nest(&text, &nest).unwrap(), nest, "{text}");
    for (order, name) in [
        (Order::Column, "col"),
        (Order::Hilbert, "hilbert"),
        (Order::Reversed, "reversed"),
        (Order::Grouped(4), "grouped(4)"),
    ] {
        let other = Nest { order, ..nest.clone() };
        assert!(printed(&other).contains(&format!("; order({name})\n")));
        assert_eq!(parse_nest(&printed(&other), &nest).unwrap(), other);
    }
}

#[test]
fn each_fact_is_a_line_of_its_own_and_nothing_is_said_by_default() {
    let nest = nest();
    let bare = testing::without_facts(&nest);
    assert_eq!(testing::facts(&bare), "");
    let (text, lines) = (testing::facts(&nest), testing::facts(&nest).lines().count());
    assert_eq!(lines, 33, "{text}");
    // Without a line the fact is what holds where nothing is said.
    for left_out in text.lines() {
        let rest: String = text.lines().filter(|l| *l != left_out).flat_map(|l| [l, "\n"]).collect();
        let read = parse_nest(&(nest.print(&nest.body) + &rest), &nest);
        // The term is not read without the names of its loops.
        let named = left_out.starts_with("; names(");
        assert_eq!(read.is_err(), named, "{left_out}");
        assert_ne!(read.ok(), Some(nest.clone()), "{left_out}");
    }
}

#[test]
fn coordinates_that_are_combined_show_in_the_term() {
    let mut nest = nest();
    let mut digit = None;
    leaves(&nest.body, &mut |path, _| {
        digit = path.iter().find_map(|f| f.step().map(|(d, _)| d));
    });
    let digit = digit.expect("a loop");
    fn bound(stmt: &Stmt, digit: Digit) -> Stmt {
        match stmt {
            Stmt::For { digit: d, body, .. } if *d == digit => {
                Stmt::For { digit, at: LoopKind::Unit(Unit::Lane, UnitDim::Y), body: body.clone() }
            }
            Stmt::For { digit: d, at, body } => {
                Stmt::For { digit: *d, at: *at, body: Box::new(bound(body, digit)) }
            }
            other => other.clone(),
        }
    }
    nest.body = bound(&nest.body, digit);
    nest.skew.insert(digit, UnitDim::X);
    let text = printed(&nest);
    assert!(text.contains("#lane.y^x"), "{text}");
    assert_eq!(parse_nest(&text, &nest).unwrap(), nest);
}
