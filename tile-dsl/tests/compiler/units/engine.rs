//! Each conjunct of each rewrite's condition is needed: switched off, some member of the class is wrong.
//!
//! A member is wrong if the interpreter finds another result or poison, or if the verifier objects; a union that
//! the analysis rejects counts as caught too. With the conjunct in force no member is wrong.

use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    diagnostic::Edit,
    directive::{self, DirectiveKind},
    dtype::DType,
    engine::{
        FailureKind, apply,
        testing::{Random, members},
    },
    index::AxisId,
    machine::{Across, Space, Target, Unit, UnitDim, Via},
    nest::{self, Arithmetic, Nest},
    op::RedOp,
    schedule::{Directive, Schedule},
    span::SpanId,
    testing,
    tile::{
        self,
        evaluate::{Elements, Inputs},
    },
};

/// Tables for hand-written nests: `g` is indexed by p and a, `h`, `v` and `w` by p; `h` starts at 0.
const TABLES: &str = "\
kernel tables(x: &[f32; P, 6], z: &[f32; P, 4, 5], q: &[f32; 2*P + 8], y: &mut [f32; P, 6], u: &mut [f32; P], t: &mut [f32; P], s: &mut [f32; P, 4, 5]) {
    axis p in program_tile(P);
    axis a in whole(6);
    axis b in whole(4);
    axis c in whole(5);
    let g = load(x, [p, a]) * 2.0;
    let h = sum(load(x, [p, a]), a);
    let v = h * 3.0;
    let w = v + h;
    let r = sum(sum(load(z, [p, b, c]), c), b);
    store(y, [p, a], g);
    store(s, [p, b, c], load(z, [p, b, c]));
    store(u, [p], w + r);
    store(t, [p], v + load(q, [p]) + load(q, [2*p]) + load(u, [p]));
}";

fn tables() -> Nest {
    let kernel = tile::parse(TABLES).unwrap().instantiate(None);
    let mut nest = nest::initial(&kernel).unwrap();
    let digit = |axis, stride, steps| nest::Digit { axis: AxisId(axis), stride, steps };
    nest.names.insert("at".into(), digit(1, 1, nest::Steps::Fixed(3)));
    nest.names.insert("po".into(), digit(0, 2, nest::Steps::Rest));
    nest
}

fn wrong(nest: &Nest, reference: &BTreeMap<String, Vec<f64>>, inputs: &Inputs) -> bool {
    !nest::verify(nest).is_empty()
        || (0..4)
            .any(|seed| nest::interpret(nest, inputs, Arithmetic::Modular, seed).as_ref() != Ok(reference))
}

/// How many of 60 random members, and the nest that `apply` returns, are wrong.
fn count_wrong(body: &str, kind: &DirectiveKind, off: &'static str) -> usize {
    let mut start = tables();
    start.body = nest::parse(body, &start).unwrap_or_else(|e| panic!("{e} in {body}"));
    testing::find_carried(&mut start);
    assert_eq!(nest::verify(&start), Vec::<String>::new(), "{body}");
    let mut random = Random::new(7);
    let mut elements = |n: usize| {
        Elements::from_f64(DType::F32, (0..n).map(|_| random.below(1000) as f64).collect::<Vec<_>>())
    };
    let tensors = [("x", 30), ("z", 100), ("q", 18), ("u", 5)].map(|(n, len)| (n.to_string(), elements(len)));
    let inputs = Inputs { dims: [("P".to_string(), 5)].into(), tensors: tensors.into(), ..Inputs::default() };
    let reference = nest::interpret(&start, &inputs, Arithmetic::Modular, 0).unwrap();
    let directive = Directive { kind: kind.clone(), span: SpanId::NONE, inherited: None };
    testing::switch_off(off);
    let members = members(&directive, &start, 60, 5);
    let applied = apply(&directive, &start);
    testing::switch_off("");
    let mut count = 0;
    for body in members {
        // Members mention new copies only through `apply`'s nest.
        let tables = applied.as_ref().map_or(&start, |(n, _)| n);
        let member = Nest { body, ..tables.clone() };
        let known = !nest::loops(&member.body).is_empty() && copies_known(&member);
        count += usize::from(known && wrong(&member, &reference, &inputs));
    }
    match applied {
        Ok((nest, _)) => count += usize::from(wrong(&nest, &reference, &inputs)),
        Err(f) if f.kind == FailureKind::Internal => count += 1,
        Err(_) => {}
    }
    count
}

fn copies_known(nest: &Nest) -> bool {
    let mut most = 0;
    nest::leaves(&nest.body, &mut |path, _| {
        for frame in path {
            if let nest::Frame::Stage(c) = frame {
                most = most.max(usize::from(c.0) + 1);
            }
        }
    });
    most <= nest.copies.len()
}

fn tile(axis: &str, size: u32) -> DirectiveKind {
    DirectiveKind::Tile(directive::Tile { axis: axis.into(), size })
}
fn reorder(digits: &[&str]) -> DirectiveKind {
    DirectiveKind::Reorder(directive::Reorder {
        digits: digits.iter().map(|d| d.to_string()).collect(),
        within: None,
    })
}
fn recompute(value: &str) -> DirectiveKind {
    DirectiveKind::Recompute(directive::Recompute { value: value.into() })
}
fn fuse(value: &str, at: &str) -> DirectiveKind {
    DirectiveKind::Fuse(directive::Fuse { value: value.into(), at: at.into() })
}
fn bind(digit: &str) -> DirectiveKind {
    DirectiveKind::Bind(directive::Bind {
        digit: digit.into(),
        unit: Unit::Thread,
        dim: UnitDim::X,
        xor: None,
    })
}
fn stage(buffer: &str, at: Option<&str>) -> DirectiveKind {
    DirectiveKind::Stage(directive::Stage {
        buffer: buffer.into(),
        at: at.map(Into::into),
        space: Space::Shared,
        transposed: false,
        via: Via::Plain,
        vector: None,
    })
}

/// Conjunct, a nest on which it matters, a directive whose rules have it.
fn cases() -> Vec<(&'static str, &'static str, DirectiveKind)> {
    vec![
        (
            "fission: the axis indexes V",
            "(for p (for a (let [h] (def h (ld x[p, a])) (put y[p, a] (* (get h) (ld x[p, a]))))))",
            tile("a", 3),
        ),
        (
            "fission: what P writes is indexed",
            "(for p (let [h] (for a (let [g] (let [] (set h (+ (get h) (ld x[p, a]))) (def g (ld x[p, a])))
                (put y[p, a] (+ (get g) (get h))))) (put u[p] (get h))))",
            tile("a", 3),
        ),
        (
            "fission: what Q writes is indexed",
            "(for p (let [h] (for a (let [g] (def g (+ (get h) (ld x[p, a])))
                (let [] (set h (+ (get h) (ld x[p, a]))) (put y[p, a] (get g))))) (put u[p] (get h))))",
            tile("a", 3),
        ),
        (
            "hoist: P does not mention the axis",
            "(for p (for a (let [g] (def g (ld x[p, a])) (put y[p, a] (get g)))))",
            tile("a", 3),
        ),
        (
            "hoist: P writes only V",
            "(for p (let [h] (for a (let [v] (let [] (set h (+ (get h) 1.0:f32)) (def v (get h)))
                (put y[p, a] (get v)))) (put u[p] (get h))))",
            tile("a", 3),
        ),
        (
            "share: P writes only V",
            "(for p (let [h] (for a (let [g v] (let [] (set h (+ (get h) 1.0:f32)) (let [] (def v (ld q[p])) (def g (ld x[p, a]))))
                (put y[p, a] (+ (get g) (+ (get v) (get h)))))) (put u[p] (get h))))",
            tile("a", 3),
        ),
        (
            "share: Q writes nothing P reads",
            "(for p (let [h] (for a (let [g v] (let [] (def v (get h)) (def g (ld x[p, a])))
                (let [] (set h (+ (get h) 1.0:f32)) (put y[p, a] (+ (get g) (get v)))))) (put u[p] (get h))))",
            tile("a", 3),
        ),
        (
            "reorder: nothing carried by both",
            "(for p (let [r] (for b (for c (set r (+ (* (get r) (ld z[p, b, c])) (ld z[p, b, c]))))) (put u[p] (get r))))",
            reorder(&["c", "b"]),
        ),
        (
            "reorder: nothing carried by both",
            "(for p (let [r] (for b (for c (let [] (put s[p, b, c] (get r)) (red r sum (ld z[p, b, c]))))) (put u[p] (get r))))",
            reorder(&["c", "b"]),
        ),
        (
            "sink: P writes only v",
            "(for p (let [h] (let [v] (let [] (set h (+ (get h) 1.0:f32)) (def v (get h)))
                (let [w] (def w (* (get v) (get v))) (put u[p] (+ (get v) (get w))))) (put t[p] (get h))))",
            recompute("v"),
        ),
        (
            "sink: A writes nothing P reads",
            "(for p (let [h] (let [v] (def v (+ (get h) 1.0:f32))
                (let [w] (let [] (set h (+ (get h) 5.0:f32)) (def w (get v))) (put u[p] (+ (get v) (get w)))))
                (put t[p] (get h))))",
            recompute("v"),
        ),
        (
            "sink: unread in the other",
            "(for p (let [v] (def v (ld q[p])) (let [w] (def w (get v)) (put u[p] (+ (get v) (get w))))))",
            recompute("v"),
        ),
        (
            "inward: P writes only v",
            "(for p (let [h] (let [g] (for a (let [] (set h (+ (get h) 1.0:f32)) (def g (get h))))
                (for b (let [w] (def w (ld q[p])) (for a (put y[p, a] (+ (get g) (get w)))))))
                (put t[p] (get h))))",
            fuse("g", "a"),
        ),
        (
            "inward: Q writes nothing P reads",
            "(for p (let [h] (let [g] (for a (def g (+ (get h) (ld x[p, a]))))
                (for b (let [w] (def w (ld q[p])) (for a (let [] (put y[p, a] (+ (get g) (get w)))
                    (set h (+ (get h) 1.0:f32)))))))
                (put t[p] (get h))))",
            fuse("g", "a"),
        ),
        (
            "split: the factor divides",
            "(for p (let [h] (for a.3.2 (for a.1.3 (red h sum (ld x[p, a])))) (put u[p] (get h))))",
            DirectiveKind::Split(directive::Split {
                digit: "at".into(),
                names: vec!["a1".into(), "a2".into()],
                factors: vec![2],
            }),
        ),
        (
            "bind: nothing carried",
            "(for p (let [h] (for a (set h (+ (* (get h) 3.0:f32) (ld x[p, a])))) (put u[p] (get h))))",
            bind("a"),
        ),
        ("bind: stores indexed", "(for p (for a (put u[p] (ld x[p, a]))))", bind("a")),
        (
            "bind: definitions indexed",
            "(for p (let [v] (for a (def v (ld x[p, a]))) (put u[p] (get v))))",
            bind("a"),
        ),
        (
            "bind: reductions combined",
            "(for p (let [h] (for a (red h sum (ld x[p, a]))) (put u[p] (get h))))",
            bind("a"),
        ),
        (
            "split_k: X reduces only",
            "(for p (let [h v] (for a (let [] (red h sum (ld x[p, a])) (def v (ld x[p, a]))))
                (put u[p] (+ (get h) (get v)))))",
            DirectiveKind::SplitK(directive::SplitK { digit: "a".into(), parts: 2, across: Across::Workspace }),
        ),
        (
            "stage: one box",
            "(for p.2.rest (for p.1.2 (put u[p] (+ (ld q[p]) (ld q[2*p])))))",
            stage("q", Some("po")),
        ),
        (
            "serpentine: independent steps",
            "(for p (let [h] (for a (set h (+ (* (get h) 3.0:f32) (ld x[p, a])))) (put u[p] (get h))))",
            DirectiveKind::Serpentine(directive::Serpentine { digit: "a".into(), within: None }),
        ),
        (
            "fragment: not written",
            "(for p.2.rest (let [] (for p.1.2 (put u[p] (ld q[p]))) (for p.1.2 (put t[p] (ld u[p])))))",
            DirectiveKind::Fragment(directive::Fragment { buffer: "u".into(), at: "po".into() }),
        ),
        (
            "stage: not written",
            "(for p.2.rest (let [] (for p.1.2 (put u[p] (ld q[p]))) (for p.1.2 (put t[p] (ld u[p])))))",
            stage("u", Some("po")),
        ),
    ]
}

#[test]
fn every_conjunct_is_needed() {
    for (conjunct, body, kind) in cases() {
        let (on, off) = (count_wrong(body, &kind, ""), count_wrong(body, &kind, conjunct));
        assert_eq!(on, 0, "`{kind}` is wrong although `{conjunct}` is in force");
        assert!(off > 0, "nothing is wrong without `{conjunct}`");
    }
}

#[test]
fn the_analysis_rejects_a_rule_that_changes_what_is_covered() {
    let (_, body, kind) = cases().into_iter().find(|c| c.0.starts_with("split")).unwrap();
    let mut start = tables();
    start.body = nest::parse(body, &start).unwrap();
    testing::switch_off("split: the factor divides");
    let directive = Directive { kind, span: SpanId::NONE, inherited: None };
    let failure = apply(&directive, &start).unwrap_err();
    testing::switch_off("");
    assert_eq!(failure.kind, FailureKind::Internal);
    assert!(failure.diagnostic.message.contains("internal limit"), "{}", failure.diagnostic.message);
}

#[test]
fn tables_are_as_the_cases_assume() {
    let tables = tables();
    let axes = |name: &str| -> BTreeSet<AxisId> {
        tables.values.iter().find(|v| v.name == name).unwrap().axes.clone()
    };
    assert_eq!(axes("g"), [AxisId(0), AxisId(1)].into());
    for name in ["h", "v", "w", "r"] {
        assert_eq!(axes(name), [AxisId(0)].into(), "{name}");
    }
    assert_eq!(tables.values.iter().find(|v| v.name == "r").unwrap().reduction, Some(RedOp::Add));
}

#[test]
fn registers_of_one_thread_cannot_be_read_by_another() {
    // Directives act on all statements alike, so only a nest written by hand distributes a value in two ways.
    let mut nest = tables();
    let schedule = Schedule {
        name: "test".into(),
        kernel: "tables".into(),
        dtypes: Vec::new(),
        target: Target::DEFAULT,
        directives: vec![Directive { kind: bind("a"), span: SpanId(1), inherited: None }],
    };
    let mut check = |reader: &str| {
        let text = format!(
            "(for p (let [g] (for a #thread.x (def g (ld x[p, a]))) (for a {reader} (put y[p, a] (get g)))))"
        );
        nest.body = nest::parse(&text, &nest).unwrap();
        testing::check(&nest, &schedule)
    };
    assert_eq!(check("#thread.x"), []);
    let wrong = check("#unroll");
    assert_eq!(wrong.len(), 1);
    assert_eq!(
        wrong[0].message,
        "`g` is held with `a` on thread.x, but `y` needs it with `a` in registers: registers of one thread cannot be read by another"
    );
    assert_eq!(wrong[0].span, SpanId(1));
    let edit = Edit::put([stage("g", None)]).remark("24 bytes, 2 barriers");
    assert_eq!(wrong[0].edits, [edit]);
}

#[test]
fn parts_in_several_ctas_meet_once_a_launch() {
    let mut nest = tables();
    let kind =
        DirectiveKind::SplitK(directive::SplitK { digit: "a".into(), parts: 2, across: Across::Workspace });
    let schedule = Schedule {
        name: "test".into(),
        kernel: "tables".into(),
        dtypes: Vec::new(),
        target: Target::DEFAULT,
        directives: vec![Directive { kind, span: SpanId(1), inherited: None }],
    };
    let h = nest.values.iter().position(|v| v.name == "h").unwrap();
    nest.across.insert(nest::ValueId(h as u16), Across::Workspace);
    let mut check = |around: &str| {
        let text = format!(
            "(for p #block (for b {around} (let [h] (for a #block (red h sum (ld x[p, a]))) (put u[p] (get h)))))"
        );
        nest.body = nest::parse(&text, &nest).unwrap();
        testing::check(&nest, &schedule)
    };
    assert_eq!(check("#block"), []);
    let wrong = check("#seq");
    assert_eq!(wrong.len(), 1);
    assert_eq!(
        wrong[0].message,
        "`h` is computed inside the loop over `b`: the CTAs that hold parts of it would have to synchronise in each step, and they do so once a launch"
    );
    assert_eq!(wrong[0].span, SpanId(1));
}
