//! `unroll`, `serpentine` and `vectorize`: a loop of fixed steps is expanded while compiling.
//!
//! ```text
//! (for a #seq X)  →  (for a #unroll X)
//! (for a #seq X)  →  (for a #serpentine X)
//! (for a #seq X)  →  (for a #vec X)
//! ```
//! Side conditions. All: the digit has a fixed number of steps. `serpentine`: nothing in `X` depends on the
//! order of the steps, that is, every name written in `X` has the axis of `a`. `vectorize`: every memory access in `X` has
//! stride 0 or 1 over `a` in the memory it reads (the tensor's layout, or that of its copy), one with stride 1
//! moves 4, 8 or 16 bytes, and starts at a multiple of that.
//! Source: boustrophedon register tiling, so that neighbours share an operand (Volkov and Demmel 2008); superword parallelism over unit-stride accesses (Larsen and Amarasinghe 2000); vector widths from
//! `ld`/`st` (PTX ISA 9.7.9.8).

use super::{Failure, Proof, Rule, reorder::target, solve, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        facts::{Graph, Kind, at, digit, effects, target_axes, target_name},
        language::{Node, bit},
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    nest::{
        Access, AccessId, CopyId, CopyLayout, Digit, Frame, LoopKind, Nest, Placement, Role, Steps, Stmt,
        Target, ValueId, leaves,
    },
    schedule::{Space, Via},
    span::SpanId,
};
use std::collections::BTreeSet;

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    EXPANDED = "(for ?#0 ?#3 ?#2)";
}

/// `unroll(name)`, optionally `in within`.
pub(crate) fn unroll(nest: &Nest, name: &str, within: Option<&str>) -> Result<(Nest, Proof), Failure> {
    expand(nest, name, within, LoopKind::Unroll)
}

/// `serpentine(name)`, optionally `in within`.
pub(crate) fn serpentine(nest: &Nest, name: &str, within: Option<&str>) -> Result<(Nest, Proof), Failure> {
    expand(nest, name, within, LoopKind::Serpentine)
}

/// `vectorize(name)`, optionally `in within`.
pub(crate) fn vectorize(nest: &Nest, name: &str, within: Option<&str>) -> Result<(Nest, Proof), Failure> {
    expand(nest, name, within, LoopKind::Vec)
}

fn expand(nest: &Nest, name: &str, within: Option<&str>, to: LoopKind) -> Result<(Nest, Proof), Failure> {
    let a = names::existing(nest, name, Bare::InTile)?;
    let within_name = within;
    let within = within.map(|w| target(nest, w)).transpose()?;
    let (what, done) = match to {
        LoopKind::Vec => ("vectorize", "vectorized"),
        LoopKind::Serpentine => ("serpentine", "serpentine"),
        _ => ("unroll", "unrolled"),
    };
    let Steps::Fixed(steps) = a.steps else {
        let text = format!(
            "`{name}` has as many steps as `{}` has points: {what} needs a fixed number",
            nest.axis(a.axis)
        );
        let failure = Failure::refused(Diagnostic::new(SpanId::NONE, text));
        return Err(failure.edits(split_first(nest, name, 4, |digit| kind(to, digit, within_name))));
    };
    if to == LoopKind::Vec
        && let Err(failure) = vectors(nest, name, a, steps, within.as_ref())
    {
        let shorter = [4, 2].into_iter().filter(|f| *f < steps && steps % f == 0);
        let shorter =
            shorter.filter_map(|f| split_first(nest, name, f, |digit| kind(to, digit, within_name)));
        return Err(failure.edits(shorter));
    }
    let here = |graph: &Graph, body: egg::Id| {
        let facts = effects(graph, body);
        within.as_ref().is_none_or(|w| facts.writes.iter().any(|x| w.contains(&x.target)))
    };
    let rules = [Rule::new(what, &LOOP, &EXPANDED, |graph, subst| {
        let wanted = digit(graph, get(subst, 0)) == a && at(graph, get(subst, 1)) == LoopKind::Seq;
        if !wanted || !here(graph, get(subst, 2)) {
            return Verdict::Skip;
        }
        if to == LoopKind::Serpentine
            && let Some(refusal) = ordered(graph, get(subst, 2), a)
        {
            return Verdict::refuse(refusal);
        }
        let to = graph.add(Node::LoopKind(to));
        set(subst, 3, to);
        Verdict::Apply
    })];
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([_, _, body]), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), _])
            if *d == a && here(graph, *body) =>
        {
            Redex::Hard
        }
        _ => Redex::No,
    };
    let taken = || {
        let bound =
            crate::nest::loops(&nest.body).into_iter().find(|(d, at)| *d == a && *at != LoopKind::Seq);
        match (bound, &within) {
            (Some((_, at)), None) => {
                let is = match at {
                    LoopKind::Unit(..) => format!("bound to {}", at.to_string().trim_start_matches('#')),
                    LoopKind::Vec => "vectorized".to_string(),
                    LoopKind::Unroll => "unrolled".to_string(),
                    LoopKind::Serpentine => "serpentine".to_string(),
                    LoopKind::Atom(atom, _) => format!("taken at once by `{atom}`"),
                    LoopKind::Pipe(_) | LoopKind::Seq => "pipelined".to_string(),
                };
                let text = format!("the loop over `{name}` is {is}: it cannot also be {done}");
                Failure::refused(Diagnostic::new(SpanId::NONE, text)).edit(Edit::remove())
            }
            (_, Some(targets)) => {
                let around = names::around(nest, name, a, targets, within_name.unwrap_or_default());
                let failure = around.err().unwrap_or_else(|| {
                    Failure::no_match(format!("the loop over `{name}` there is bound or expanded already"))
                });
                failure.edit(Edit::remove())
            }
            _ => Failure::no_match(format!("there is no plain loop over `{name}` there")),
        }
    };
    let (body, mut proof) =
        solve(nest, &rules, &redex, taken, || Failure::unmet(format!("`{name}` could not be expanded")))?;
    proof.facts.push(format!("`{name}` has {steps} steps"));
    Ok((with_body(nest, body), proof))
}

/// Why the steps of `a` cannot run backwards: a name written in them lacks its axis.
fn ordered(graph: &Graph, body: egg::Id, a: Digit) -> Option<Diagnostic> {
    let nest = &graph.analysis.nest;
    let write = effects(graph, body).writes.iter().find(|w| {
        target_axes(nest, w.target) & bit(a.axis.0) == 0 && enforced("serpentine: independent steps")
    })?;
    let (name, digit) = (target_name(nest, write.target), nest.digit_name(a));
    let text = match write.kind {
        Kind::Red => format!(
            "`{name}` is reduced over `{}`: running `{digit}` backwards would change the order of its sum from one time to the next",
            nest.axis(a.axis)
        ),
        _ => {
            format!("every step of `{digit}` writes the same elements of `{name}`: they cannot run backwards")
        }
    };
    let span = super::reorder::value_span(nest, write.target);
    Some(
        Diagnostic::new(SpanId::NONE, text)
            .note(span, format!("`{name}` is written here"))
            .edits([Edit::instead([kind(LoopKind::Unroll, digit, None)]).remark("keeps the order")]),
    )
}

/// Checks every memory access inside a loop over `a`.
fn vectors(
    nest: &Nest,
    name: &str,
    a: Digit,
    steps: u32,
    within: Option<&BTreeSet<Target>>,
) -> Result<(), Failure> {
    let mut failure = None;
    leaves(&nest.body, &mut |path, leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        // The whole loop is expanded if what is named is written in it, together with all else that stands there.
        let around = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == a));
        let concerned = around.is_some_and(|n| {
            let body = nest.body.inside(&path[..=n]).expect("the path of a leaf");
            within.is_none_or(|w| writes_any(body, w))
        });
        if !concerned || failure.is_some() {
            return;
        }
        let mut accesses: Vec<(AccessId, bool)> = expr.accesses().into_iter().map(|a| (a, false)).collect();
        if let Stmt::Put { access, .. } = leaf {
            accesses.push((*access, true));
        }
        for (access, store) in accesses {
            if let Err(f) = access_vector(nest, name, a, steps, path, access, store) {
                failure.get_or_insert(f);
            }
        }
        let shared = expr.values().into_iter().chain(match target {
            Target::Value(v) => Some(v),
            Target::Access(_) => None,
        });
        for v in shared.filter(|v| nest.value(*v).placement == Placement::Shared) {
            if let Err(f) = value_vector(nest, name, a, steps, v) {
                failure.get_or_insert(f);
            }
        }
    });
    failure.map_or(Ok(()), Err)
}

/// Whether a statement writes one of some targets.
fn writes_any(stmt: &Stmt, wanted: &BTreeSet<Target>) -> bool {
    let mut found = false;
    leaves(stmt, &mut |_, leaf| found |= wanted.contains(&leaf.leaf().expect("a leaf").0));
    found
}

/// One access of a tensor, in global memory or in the nearest copy.
fn access_vector(
    nest: &Nest,
    name: &str,
    a: Digit,
    steps: u32,
    path: &[Frame],
    access: AccessId,
    store: bool,
) -> Result<(), Failure> {
    let info = nest.access(access);
    let tensor = nest.tensor(info.tensor);
    let verb = if store { "stored" } else { "read" };
    let shown = nest.print_access(info);
    let staged = if store { None } else { nest.served_on(path, access) };
    if staged.is_some_and(|(_, c)| nest.copy(c).space == Space::Register) {
        // Registers, addressed while compiling.
        return Ok(());
    }
    // The box and the layout of the copy at this place.
    let copied = staged.map(|(n, c)| {
        let body = nest.body.inside(&path[..=n]).expect("the path of a leaf");
        let layout = nest.copy_layout(c, body).expect("bounded: checked by stage");
        (nest.footprint(c, body), layout)
    });
    let (contiguous, place) = match &copied {
        Some((_, layout)) => (layout.contiguous, "its copy"),
        None => (nest.contiguous(info.tensor), "memory"),
    };
    let moves = |dim: usize| info.index[dim].coefficient(a.axis) * i64::from(a.stride);
    // What is combined need be no vector: where no form says that elements follow one another, each is combined by itself.
    if info.combines.is_some() && (0..info.index.len()).all(|dim| moves(dim) == 0) {
        return Ok(());
    }
    if info.by.values().any(|axes| axes.contains(&a.axis)) {
        return Err(Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!(
                "`{}` is {verb} where values say that differ from step to step of `{name}`: its elements are no vector",
                tensor.name
            ),
        ))
        .note(info.span, format!("`{shown}` is {verb} here"))
        .edit(Edit::remove()));
    }
    if info.guarded.as_ref().is_some_and(|axes| axes.contains(&a.axis)) {
        return Err(Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!(
                "`{}` is stored under a condition that differs from step to step of `{name}`: a vector is stored as a whole",
                tensor.name
            ),
        ))
        .note(info.span, "stored here")
        .edit(Edit::remove()));
    }
    let used: Vec<usize> = (0..info.index.len()).filter(|d| moves(*d) != 0).collect();
    if used.is_empty() {
        return Ok(());
    }
    let refuse = |text: String| {
        Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(info.span, format!("`{shown}` is {verb} here"))
    };
    if info.by.contains_key(&contiguous) {
        return Err(refuse(format!(
            "a value says where `{}` is {verb} along the dimension that lies in a row: a vector starts at multiples of its size",
            tensor.name
        ))
        .edit(Edit::remove()));
    }
    if used != [contiguous] || moves(contiguous) != 1 {
        let stride = element_stride(nest, info, copied.as_ref().map(|(_, l)| l), &used, &moves);
        let failure = refuse(format!(
            "`{shown}` is {verb} with stride {stride} over `{name}` in {place}: a vector needs stride 1 (or 0)"
        ));
        return Err(match staged {
            Some((at, c)) => {
                let failure =
                    failure.note(nest.copy(c).span, format!("`{}` is staged here", nest.copy_name(c)));
                failure.edits(turned(nest, path, at, c))
            }
            None => {
                let other = unit_digit(nest, info, contiguous, path);
                let other = other.map(|other| Edit::instead([kind(LoopKind::Vec, other, None)]));
                failure.edits(other).edits(product_swapped(nest, info, contiguous, a))
            }
        });
    }
    let size = nest.elem(info.tensor).bytes();
    width(name, steps, size, &format!("`{shown}`")).map_err(|f| f.note(info.span, format!("{verb} here")))?;
    if copied.is_none()
        && let Some(row) = tensor.dims[contiguous].as_constant()
        && row % i64::from(steps) != 0
    {
        return Err(refuse(format!(
            "rows of `{}` have {row} elements, no multiple of the {steps} of a vector: no launch could use it",
            tensor.name
        )));
    }
    // A vector is stored as a whole.
    if store
        && let Some(points) = nest.kernel.axes[usize::from(a.axis.0)].extent.as_constant()
        && points % i64::from(steps) != 0
    {
        return Err(refuse(format!(
            "`{}` has {points} points, no multiple of the {steps} of a vector: the last one would store beyond them",
            nest.axis(a.axis)
        )));
    }
    // Every other contribution to the contiguous index is a multiple of the vector.
    let inside_from = staged.map_or(0, |(n, _)| n);
    for frame in &path[inside_from..] {
        let Frame::For(d, _) = frame else { continue };
        let step = info.index[contiguous].coefficient(d.axis) * i64::from(d.stride);
        if *d != a && step % i64::from(steps) != 0 {
            let other = nest.digit_name(*d);
            return Err(refuse(format!(
                "a step of `{other}` moves `{shown}` by {step}, so vectors of {steps} would start at any element: {other} = 1 starts {} past a multiple",
                step.rem_euclid(i64::from(steps))
            )));
        }
    }
    let start = match &copied {
        Some((dims, _)) => info.index[contiguous].constant - dims[contiguous].low,
        None => info.index[contiguous].constant,
    };
    if start % i64::from(steps) != 0 {
        return Err(refuse(format!(
            "`{shown}` starts {} past a multiple of the {steps} elements of a vector",
            start.rem_euclid(i64::from(steps))
        )));
    }
    if let Some((_, layout)) = &copied
        && let Some(pitch) = layout.strides.iter().find(|s| **s > 1 && **s % u64::from(steps) != 0)
    {
        return Err(refuse(format!(
            "rows of the copy of `{}` are {pitch} elements apart, not a multiple of the {steps} of a vector",
            tensor.name
        )));
    }
    Ok(())
}

/// Where an instruction leaves pairs of its sums along `a`, and another dimension of what is accessed is contiguous: the
/// product with its operands swapped, and pairs along that one.
fn product_swapped(nest: &Nest, info: &Access, contiguous: usize, a: Digit) -> Option<Edit> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let axis = |wanted: Role| {
            path.iter().find_map(|f| match f {
                Frame::For(d, LoopKind::Atom(atom, role)) if *role == wanted => Some((d.axis, *atom)),
                _ => None,
            })
        };
        let (Some((rows, atom)), Some((columns, _))) = (axis(Role::M), axis(Role::N)) else { return };
        let Some((Target::Value(value), _)) = leaf.leaf() else { return };
        let pair = atom.parts(Role::N).last().filter(|pair| pair.digit(a) == a && columns == a.axis);
        if let Some(pair) = pair
            && info.index[contiguous].coefficient(rows) == 1
        {
            let value = nest.value(value).name.clone();
            let product =
                DirectiveKind::TensorCore(directive::TensorCore { value, atom, swapped: rows < columns });
            let pairs = kind(LoopKind::Vec, format!("{}.{}", nest.axis(rows), pair.name), None);
            found = found.take().or_else(|| Some(Edit::instead([product, pairs])));
        }
    });
    found
}

/// The copy with its dimensions the other way round.
fn turned(nest: &Nest, path: &[Frame], at: usize, copy: CopyId) -> Option<Edit> {
    let info = nest.copy(copy);
    let around = path[..at].iter().rev().find_map(|f| f.step().map(|(d, _)| d))?;
    Some(Edit::put([directive::Stage {
        buffer: nest.copy_name(copy),
        at: Some(nest.digit_name(around)),
        space: info.space,
        transposed: !info.transposed,
        via: Via::Plain,
        vector: None,
    }]))
}

/// A value in shared memory: its last axis is contiguous, in-tile digits in order.
fn value_vector(nest: &Nest, name: &str, a: Digit, steps: u32, v: ValueId) -> Result<(), Failure> {
    let value = nest.value(v);
    if !value.axes.contains(&a.axis) {
        return Ok(());
    }
    if value.axes.last() != Some(&a.axis) || a.stride != 1 {
        let text = format!(
            "`{}` is in shared memory with a stride over `{name}`: a vector needs stride 1 (or 0)",
            value.name
        );
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, text)).note(value.span, "computed here"));
    }
    width(name, steps, value.dtype.bytes(), &format!("`{}`", value.name))
}

/// 4, 8 or 16 bytes.
fn width(name: &str, steps: u32, size: u32, what: &str) -> Result<(), Failure> {
    let bytes = u64::from(steps) * u64::from(size);
    if [4, 8, 16].contains(&bytes) && steps > 1 {
        return Ok(());
    }
    let legal: Vec<String> =
        [4, 8, 16].iter().map(|b| b / size).filter(|s| *s > 1).map(|s| s.to_string()).collect();
    let text = format!(
        "`{name}` has {steps} steps: {steps} elements of {what} are {steps} · {size} = {bytes} bytes, and memory moves 4, 8 or 16 at once ({} elements)",
        legal.join(" or ")
    );
    Err(Failure::refused(Diagnostic::new(SpanId::NONE, text)))
}

/// The directive that expands a loop.
fn kind(to: LoopKind, digit: String, within: Option<&str>) -> DirectiveKind {
    let within = within.map(str::to_string);
    match to {
        LoopKind::Vec => DirectiveKind::Vectorize(directive::Vectorize { digit, within }),
        LoopKind::Serpentine => DirectiveKind::Serpentine(directive::Serpentine { digit, within }),
        _ => DirectiveKind::Unroll(directive::Unroll { digit, within }),
    }
}

/// A `split` of a loop, and another directive on its inner part.
pub(crate) fn split_first(
    nest: &Nest,
    name: &str,
    factor: u32,
    then: impl Fn(String) -> DirectiveKind,
) -> Option<Edit> {
    let bare = name.replace('.', "");
    let names = vec![format!("{bare}o"), format!("{bare}i")];
    if names.iter().any(|n| nest.names.contains_key(n)) {
        return None;
    }
    let inner = then(names[1].clone());
    let split =
        DirectiveKind::Split(directive::Split { digit: name.to_string(), names, factors: vec![factor] });
    Some(Edit::instead([split, inner]))
}

/// How far apart two steps are, as text: a number, or the pitch it depends on.
fn element_stride(
    nest: &Nest,
    info: &crate::nest::Access,
    copy: Option<&CopyLayout>,
    used: &[usize],
    moves: &dyn Fn(usize) -> i64,
) -> String {
    match copy {
        Some(layout) => {
            let sum: i64 = used.iter().map(|d| moves(*d) * layout.strides[*d] as i64).sum();
            sum.to_string()
        }
        None => {
            let dims = &nest.tensor(info.tensor).dims;
            let contiguous = nest.contiguous(info.tensor);
            let parts: Vec<String> = used
                .iter()
                .map(|d| {
                    let inner: Vec<String> = match nest.column_major.contains(&info.tensor) {
                        false => dims[d + 1..].iter().map(|e| format!("({e})")).collect(),
                        true => dims[..*d].iter().map(|e| format!("({e})")).collect(),
                    };
                    let pitch = inner.join("·").replace(['(', ')'], "");
                    match (moves(*d), *d == contiguous) {
                        (c, true) => c.to_string(),
                        (1, false) => pitch,
                        (c, false) => format!("{c}·{pitch}"),
                    }
                })
                .collect();
            parts.join(" + ")
        }
    }
}

/// A loop on the path over which the access has stride 1.
fn unit_digit(nest: &Nest, info: &crate::nest::Access, contiguous: usize, path: &[Frame]) -> Option<String> {
    path.iter().find_map(|f| match f {
        Frame::For(d, LoopKind::Seq) if matches!(d.steps, Steps::Fixed(_)) => {
            let only =
                (0..info.index.len()).all(|n| (info.index[n].coefficient(d.axis) != 0) == (n == contiguous));
            (only && info.index[contiguous].coefficient(d.axis) * i64::from(d.stride) == 1)
                .then(|| nest.digit_name(*d))
        }
        _ => None,
    })
}
