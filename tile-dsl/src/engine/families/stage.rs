//! `stage`: the part of a tensor that one step of a loop reads is copied on chip first.
//!
//! ```text
//! (for at t X)  →  (for at t (stage copy X))
//! ```
//! The union is one level above the copy, so a copy is never equal to its bare body. Copies directly inside
//! one another are sorted by tensor.
//!
//! Side conditions: the tensor is read in `X` and the kernel does not write it; all its accesses in loops over `at` agree
//! in their coefficients (the box is then their union: per dimension 1 + Σ coefficient · (steps − 1) · stride);
//! no loop without a bound over one of its axes runs inside `X`; the copy's instruction and vector fit its rows. What
//! depends on the box holds for each loop over `at` by itself, because the loops inside may differ.
//! Source: compute_at / cache_read (Ragan-Kelley et al. 2013; TVM), Exo's `stage_mem`.

use super::{
    Failure, Proof, Rule,
    reads::{not_read, one_box, reads, staged_once, with_copy},
    solve, tensor_map, with_body,
};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        facts::{Graph, copy, digit, effects, same_reads},
        language::Node,
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    index::Affine,
    nest::{Copy, CopyId, Digit, Frame, LoopKind, Nest, Placement, Steps, Stmt, leaves, loops, moves_alike},
    schedule::{Space, Unit, Via},
    span::SpanId,
    tile::TensorId,
};
use std::collections::BTreeSet;

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    STAGED = "(for ?#0 ?#1 ?#3)";
}

/// The operands of a `stage` directive.
pub(crate) struct Request<'a> {
    pub buffer: &'a str,
    pub at: Option<&'a str>,
    pub space: Space,
    pub transposed: bool,
    pub via: Via,
    pub vector: Option<u32>,
    pub span: SpanId,
}

impl<'a> Request<'a> {
    /// What a directive asks for.
    pub fn of(stage: &'a directive::Stage, span: SpanId) -> Self {
        Request {
            buffer: &stage.buffer,
            at: stage.at.as_deref(),
            space: stage.space,
            transposed: stage.transposed,
            via: stage.via,
            vector: stage.vector,
            span,
        }
    }

    /// The directive.
    pub fn kind(&self) -> DirectiveKind {
        DirectiveKind::Stage(directive::Stage {
            buffer: self.buffer.to_string(),
            at: self.at.map(str::to_string),
            space: self.space,
            transposed: self.transposed,
            via: self.via,
            vector: self.vector,
        })
    }
}

/// `stage(buffer at digit: shared, ..)` for a tensor, `stage(value: shared)` for a value.
pub(crate) fn apply(nest: &Nest, request: &Request<'_>) -> Result<(Nest, Proof), Failure> {
    if let Some((tensor, follows)) = names::reads(nest, request.buffer)? {
        return stage_tensor(nest, request, tensor, follows);
    }
    if let Some((value, _)) = request.buffer.split_once('[').filter(|(v, _)| names::value(nest, v).is_ok()) {
        let text = format!(
            "`{value}` is a value that the kernel computes: all of it is held, and it takes no index"
        );
        return Err(refuse(text).edit(Edit::instead([crate::engine::checks::stage_value(value)])));
    }
    let known = nest.kernel.tensors.iter().map(|t| t.name.clone());
    let known = known.chain(nest.values.iter().map(|v| v.name.clone())).collect();
    let value = names::value(nest, request.buffer)
        .map_err(|_| names::unknown("tensor or value", request.buffer, known))?;
    let name = request.buffer;
    if request.at.is_some() || request.transposed || request.via != Via::Plain || request.vector.is_some() {
        return Err(refuse(format!(
            "`{name}` is a value that the kernel computes: it is held in shared memory as a whole, and no instruction copies it"
        ))
        .edit(Edit::instead([crate::engine::checks::stage_value(name)]))
        .edit(Edit::remove()));
    }
    if nest.is_carried(value) {
        let text = format!(
            "`{name}` is carried from tile to tile: it is held in registers of the threads that set it"
        );
        return Err(refuse(text)
            .note(nest.value(value).span, format!("`{name}` starts here"))
            .edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.values[usize::from(value.0)].placement = Placement::Shared;
    Ok((nest, Proof { facts: vec![format!("`{name}` is held in shared memory")], ..Proof::default() }))
}

/// No loop around the copy is one that lanes take, each of which would copy it, or one that an instruction takes at once.
///
/// `elsewhere` is the directive that stages at the named loop instead.
fn outside_units(
    nest: &Nest,
    name: &str,
    new: &Copy,
    at: Digit,
    elsewhere: impl Fn(String) -> DirectiveKind,
) -> Result<(), Failure> {
    let mut problem = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some(here) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == at)) else { return };
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        if !accesses.into_iter().any(|a| new.serves(nest.access(a))) {
            return;
        }
        let named = |d: &Digit| nest.digit_name(*d);
        let outer = || {
            path[..here].iter().rev().find_map(|f| match f {
                Frame::For(d, LoopKind::Seq) => Some(Edit::instead([elsewhere(named(d))])),
                _ => None,
            })
        };
        let atom = path[..=here].iter().rev().find_map(|f| match f {
            Frame::For(d, LoopKind::Atom(atom, _)) => Some((named(d), *atom)),
            _ => None,
        });
        if let Some((digit, atom)) = atom {
            problem.get_or_insert_with(|| {
                refuse(format!("`{name}` would be staged inside the loop over `{digit}`, all steps of which `{atom}` takes at once"))
                    .edits(outer())
            });
        }
        let units = path[..=here].iter().filter_map(|f| match f {
            Frame::For(d, LoopKind::Unit(unit, _)) if *unit != Unit::Block => Some((*d, *unit)),
            _ => None,
        });
        let around: Vec<(Digit, Unit)> = units.collect();
        if let Some((digit, unit)) = around.first() {
            problem.get_or_insert_with(|| {
                let text = format!(
                    "`{name}` would be staged inside the loop over `{}`, which {unit}s take: each {unit} would copy it",
                    named(digit)
                );
                if around.iter().any(|(d, _)| *d == at) {
                    // No order of the loops helps: the next loop outside that no unit takes is the place.
                    return refuse(text).edits(outer());
                }
                let mut digits = vec![nest.digit_name(at)];
                digits.extend(around.iter().map(|(d, _)| named(d)));
                refuse(text).edit(Edit::put([directive::Reorder { digits, within: None }]))
            });
        }
    });
    problem.map_or(Ok(()), Err)
}

fn stage_tensor(
    nest: &Nest,
    request: &Request<'_>,
    tensor: TensorId,
    follows: Option<Vec<Affine>>,
) -> Result<(Nest, Proof), Failure> {
    let name = request.buffer;
    let info = nest.tensor(tensor);
    if info.mutable && follows.is_none() {
        let (stores, _) = super::output::accesses(nest, tensor);
        if stores.iter().any(|access| nest.access(*access).combines.is_some()) {
            return super::private::apply(nest, request, (tensor, &stores));
        }
        if request.at.is_none() {
            return super::output::apply(nest, request, tensor);
        }
    }
    if info.mutable && enforced("stage: not written") {
        let text = format!("`{name}` is stored to by the kernel: a copy of it would go stale");
        return Err(refuse(text).note(info.span, format!("`{name}` is `&mut` here")));
    }
    if request.via == Via::Stmatrix {
        return Err(refuse(format!("`stmatrix` stores, and `{name}` is read"))
            .edit(Edit::instead([Request { via: Via::Tma, ..*request }.kind()])));
    }
    let Some(at_name) = request.at else {
        return Err(refuse(format!("say at which loop `{name}` is staged: `stage({name} at k: shared)`"))
            .remark(format!("the loops are {}", names::list(&names::digit_names(nest))))
            .edits(
                nest.names
                    .keys()
                    .filter(|n| n.ends_with(".o"))
                    .map(|at| Edit::instead([Request { at: Some(at), ..*request }.kind()])),
            ));
    };
    let at = names::existing(nest, at_name, Bare::Tile)?;
    let new = Copy {
        tensor,
        follows,
        space: request.space,
        transposed: request.transposed,
        via: request.via,
        vector: request.vector,
        pad: 0,
        swizzle: 0,
        span: request.span,
    };
    let named = |buffer: String| Request { buffer: &buffer, ..*request }.kind();
    let placed = super::gathered::gathered(nest, request, &new, at)?;
    let nest = placed.as_ref().unwrap_or(nest);
    if !reads(&nest.body, nest, &new) {
        return Err(not_read(nest, name, &new, named));
    }
    if !loops(&nest.body).iter().any(|(d, _)| *d == at) {
        return Err(Failure::no_match(format!("there is no loop over `{at_name}`")));
    }
    one_box(nest, &new, at, named)?;
    super::reads::held_already(nest, name, &new, at)?;
    if request.space == Space::Shared {
        outside_units(nest, name, &new, at, |at| Request { at: Some(&at), ..*request }.kind())?;
        staged_once(nest, name, &new, at)?;
    }
    let (nest, copy) = with_copy(nest, new.clone())?;
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([_, _, body]), [Node::Digit(d), _, top]) if *d == at => {
            // A loop of the digit around a statement that does not read the tensor is no redex.
            let read = effects(graph, *body).reads_copy(&new, &graph.analysis.nest);
            if read && !has_copy(graph, top, &new) { Redex::Hard } else { Redex::No }
        }
        _ => Redex::No,
    };
    let absent = || {
        let mut failure = Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!("`{name}` is not read inside the loop over `{at_name}`"),
        ));
        for access in nest.accesses.iter().filter(|a| new.serves(a)) {
            failure = failure.note(access.span, format!("`{}` is read here", nest.print_access(access)));
        }
        failure
    };
    let (body, mut proof) = solve(&nest, &[rule(copy, at)], &redex, absent, || {
        Failure::unmet(format!("`{name}` could not be staged at `{at_name}`"))
    })?;
    let staged = with_body(&nest, body);
    for body in staged.bodies(copy) {
        check_box(&staged, request, (copy, body), at, at_name)?;
    }
    let elems = staged.copy_elems(copy).expect("bounded: checked");
    let bytes = elems * u64::from(nest.elem(tensor).bytes());
    proof.facts.push(format!("one step of `{at_name}` reads {elems} elements of `{name}`, {bytes} bytes"));
    Ok((staged, proof))
}

/// The rule. Nested copies are kept sorted: the new one goes below the copies of smaller tensors, and of smaller indices.
pub(crate) fn rule(new: CopyId, at: Digit) -> Rule<'static> {
    Rule::new("stage", &LOOP, &STAGED, move |graph, subst| {
        if digit(graph, get(subst, 0)) != at {
            return Verdict::Skip;
        }
        let body = get(subst, 2);
        let nest = graph.analysis.nest.clone();
        let facts = effects(graph, body).clone();
        let info = nest.copy(new);
        if !facts.reads_copy(info, &nest) || facts.is_copied(info, &nest) {
            return Verdict::Skip;
        }
        let node = graph.add(Node::Copy(new));
        let staged = insert(graph, body, node, info);
        set(subst, 3, staged);
        Verdict::Apply
    })
}

/// `(stage new body)`, below the smaller copies around `body`.
fn insert(graph: &mut Graph, body: egg::Id, new: egg::Id, info: &Copy) -> egg::Id {
    let smaller = |old: &Copy| (old.tensor, &old.follows) < (info.tensor, &info.follows);
    let stage = graph[body].nodes.iter().find_map(|n| if let Node::Stage(s) = n { Some(*s) } else { None });
    match stage {
        Some([old, inner]) if smaller(graph.analysis.nest.copy(copy(graph, old))) => {
            let inner = insert(graph, inner, new, info);
            graph.add(Node::Stage([old, inner]))
        }
        _ => graph.add(Node::Stage([new, body])),
    }
}

/// Whether `top` or a copy directly inside it is for the same reads.
pub(crate) fn has_copy(graph: &Graph, top: &Node, new: &Copy) -> bool {
    let nest = &graph.analysis.nest;
    match top {
        Node::Stage([c, inner]) => {
            same_reads(nest.copy(copy(graph, *c)), new) || effects(graph, *inner).is_copied(new, nest)
        }
        _ => false,
    }
}

pub(crate) fn refuse(message: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, message))
}

/// The box at one place of the copy is bounded, and its rows suit the instruction.
fn check_box(
    nest: &Nest,
    request: &Request<'_>,
    (copy, body): (CopyId, &Stmt),
    at: Digit,
    at_name: &str,
) -> Result<(), Failure> {
    let name = request.buffer;
    let dims = nest.footprint(copy, body);
    if let Some(dim) = dims.iter().position(|d| d.extent.is_none()) {
        let access = nest.copied_access(copy, body);
        // What the loop itself and those around it move along is no part of one step.
        let moves = |index: &Affine, d: &Digit| index.coefficient(d.axis) != 0;
        let open: BTreeSet<Digit> = loops(body)
            .into_iter()
            .map(|(d, _)| d)
            .filter(|d| d.steps == Steps::Rest && access.index.iter().any(|index| moves(index, d)))
            .collect();
        let axis =
            open.iter().find(|d| moves(&access.index[dim], d)).map_or("an axis", |d| nest.axis(d.axis));
        let mut failure = refuse(format!(
            "one step of `{at_name}` reads `{name}` over all of `{axis}`, which has no bound: the copy would have no size"
        ))
        .note(access.span, format!("`{}` is read here", nest.print_access(access)));
        if open.iter().all(|d| nest.digit_name(*d) == nest.axis(d.axis)) {
            // Steps of a window, say: with their loops outside, a step of this one has one of them.
            let digits = open.iter().chain([&at]).map(|d| nest.digit_name(*d)).collect();
            failure = failure.edit(Edit::put([directive::Reorder { digits, within: None }]));
        }
        let tile_loop = crate::nest::over_tiles(axis);
        if nest.names.get(&tile_loop).is_some_and(|d| *d != at) {
            failure = failure.edit(Edit::instead([Request { at: Some(axis), ..*request }.kind()]));
        } else if !nest.names.contains_key(&tile_loop) {
            let axis = axis.to_string();
            failure = failure.edits([32, 8].map(|size| {
                Edit::put([
                    DirectiveKind::Tile(directive::Tile { axis: axis.clone(), size }),
                    Request { at: Some(&axis), ..*request }.kind(),
                ])
            }));
        }
        return Err(failure);
    }
    check_rows(nest, request, (copy, body))
}

/// The rows of the box at one place of the copy suit the instruction that copies them.
pub(crate) fn check_rows(
    nest: &Nest,
    request: &Request<'_>,
    (copy, body): (CopyId, &Stmt),
) -> Result<(), Failure> {
    let name = request.buffer;
    let info = nest.copy(copy);
    let dims = nest.footprint(copy, body);
    let elem = nest.elem(info.tensor);
    let size = elem.bytes();
    let contiguous = nest.contiguous(info.tensor);
    let row = dims[contiguous].extent.unwrap_or(0);
    let moved = info.vector.unwrap_or(size);
    let turned = nest.copy_order(copy).last() != Some(&contiguous);
    if moved < size || !moved.is_power_of_two() || moved > 16 {
        return Err(refuse(format!(
            "vector({moved}) of `{name}`: a copy moves {size} to 16 bytes at once, a power of two, for elements of {size} bytes"
        )));
    }
    if info.via == Via::Tma {
        return tensor_map::check(nest, request, (copy, body), turned);
    }
    let vector = |vector| Edit::instead([Request { vector, ..*request }.kind()]);
    if moved > size && nest.copied_access(copy, body).gathered.contains_key(&contiguous) {
        return Err(refuse(format!(
            "vector({moved}) of `{name}`: values say where each of its elements is, so they are not side by side"
        ))
        .edit(vector(None)));
    }
    let plain = || Edit::instead([Request { via: Via::Plain, ..*request }.kind()]);
    let each = i64::from(moved / size);
    if let Some(length) = nest.tensor(info.tensor).dims[contiguous].as_constant()
        && length % each != 0
    {
        return Err(refuse(format!(
            "vector({moved}) of `{name}`: its rows have {length} elements, no multiple of the {each} of a vector: no launch could use it"
        ))
        .edit(vector(None))
        .edit(Edit::instead([Request { via: Via::Plain, vector: None, ..*request }.kind()])));
    }
    if info.via == Via::CpAsync && moved < 4 {
        let failure = refuse(format!(
            "cp.async moves 4, 8 or 16 bytes at once, and an element of `{name}` ({elem}) has {size}"
        ));
        let whole = |v: &u32| row.is_multiple_of(u64::from(v / size));
        let wider = [16, 8, 4].into_iter().filter(whole).map(|v| vector(Some(v)));
        return Err(failure.edits(wider).edit(plain()));
    }
    if info.via == Via::CpAsync && turned && moved > size {
        let failure = refuse(format!(
            "cp.async writes {moved} consecutive bytes, but neighbours in a row of `{name}` are not neighbours in the transposed copy"
        ));
        return Err(failure.edit(vector(None)).edit(plain()));
    }
    let wide = u64::from(moved / size);
    if !row.is_multiple_of(wide) {
        let failure = refuse(format!(
            "a row of the copy of `{name}` has {row} elements of {size} bytes = {} bytes, not a multiple of {moved}",
            row * u64::from(size)
        ));
        let whole = |v: &u32| *v > size && row.is_multiple_of(u64::from(v / size));
        let narrower = [8, 4].into_iter().filter(whole).map(|v| vector(Some(v)));
        return Err(failure.edits(narrower).edit(vector(None)).edit(plain()));
    }
    aligned_start(nest, copy, (contiguous, dims[contiguous].low), wide as i64, request)
}

/// Every box starts at a multiple of the vector along the contiguous dimension.
pub(crate) fn aligned_start(
    nest: &Nest,
    copy: CopyId,
    (dim, low): (usize, i64),
    wide: i64,
    request: &Request<'_>,
) -> Result<(), Failure> {
    if wide == 1 {
        return Ok(());
    }
    // The first access of each stage, and a loop around it whose steps move the box by no multiple.
    let (mut first, mut step) = (None, None);
    leaves(&nest.body, &mut |path, leaf| {
        let Some(at) = path.iter().position(|f| *f == crate::nest::Frame::Stage(copy)) else { return };
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        let Some(access) = accesses.into_iter().find(|a| nest.serves(copy, *a)) else { return };
        let access = nest.access(access);
        first.get_or_insert(access);
        let moved = path[..at].iter().find_map(|frame| {
            let crate::nest::Frame::For(d, _) = frame else { return None };
            let step = access.index[dim].coefficient(d.axis) * i64::from(d.stride);
            (step % wide != 0).then_some((*d, step))
        });
        if let (None, Some(moved)) = (step, moved) {
            (first, step) = (Some(access), Some(moved));
        }
    });
    let span = first.map_or(SpanId::NONE, |access| access.span);
    let name = request.buffer;
    match (low % wide, step) {
        (0, None) => Ok(()),
        (0, Some((digit, step))) => Err(refuse(format!(
            "a step of `{}` moves the copy of `{name}` by {step} elements, not a multiple of the {wide} that are moved at once",
            nest.digit_name(digit)
        ))
        .note(span, "read here")),
        (low, _) => Err(refuse(format!(
            "the copy of `{name}` starts {} elements off a multiple of the {wide} that are moved at once",
            low.rem_euclid(wide)
        ))
        .note(span, "read here")),
    }
}

/// Stages of a tensor at the tile loops of the axes that index it, the innermost first.
fn staged_first(nest: &Nest, buffer: &str) -> Vec<Edit> {
    let Ok(Some((tensor, follows))) = names::reads(nest, buffer) else { return Vec::new() };
    let wanted = |index: &[Affine]| follows.as_ref().is_none_or(|f| moves_alike(f, index));
    let mut axes: Vec<_> = nest
        .accesses
        .iter()
        .filter(|a| a.tensor == tensor && a.is_plain() && wanted(&a.index))
        .flat_map(|a| a.index.iter().flat_map(|i| i.terms.keys().copied()))
        .filter(|a| nest.names.contains_key(&crate::nest::over_tiles(nest.axis(*a))))
        .collect();
    axes.sort();
    axes.dedup();
    let stage = |axis: &crate::index::AxisId| {
        DirectiveKind::Stage(directive::Stage {
            buffer: buffer.to_string(),
            at: Some(nest.axis(*axis).to_string()),
            space: Space::Shared,
            transposed: false,
            via: Via::Plain,
            vector: None,
        })
    };
    axes.iter().rev().map(|axis| Edit::put([stage(axis)])).collect()
}

/// Copies of a tensor that the term has: all of them, or those for the reads that are named.
pub(crate) fn copies_of(nest: &Nest, what: &str, buffer: &str) -> Result<Vec<usize>, Failure> {
    let Some((tensor, follows)) = names::reads(nest, buffer)? else {
        let known = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        return Err(names::unknown("tensor", buffer, known));
    };
    if nest.private.contains_key(&tensor) {
        return Err(refuse(format!(
            "the part of `{buffer}` that a CTA has to itself has no rows to {what}: values are combined with it one by one"
        ))
        .edit(Edit::remove()));
    }
    let found: Vec<usize> = nest
        .copies
        .iter()
        .enumerate()
        .filter(|(_, c)| c.tensor == tensor && c.space == Space::Shared)
        .filter(|(_, c)| follows.is_none() || c.follows == follows)
        .map(|(n, _)| n)
        .collect();
    if found.is_empty() {
        return Err(Failure::no_match(format!("`{buffer}` is not staged, so there is nothing to {what}"))
            .edits(staged_first(nest, buffer))
            .edit(Edit::remove()));
    }
    Ok(found)
}
