//! `split_k`: the steps of a reduction are shared out among CTAs of the grid.
//!
//! ```text
//! (let V (.. (for a.s.n t X)) Q)  →  (let V (.. (for a.s.p #block (for a.(s·p).⌈n/p⌉ t X))) Q),  V across CTAs
//! ```
//! CTA c takes steps c, c + p, c + 2p ..: the digits are those of a split, so `X` is untouched. Of as many CTAs as steps each has
//! one, and a split may have left a loop over that digit of one step around:
//!
//! ```text
//! (for a.(s·p).1 (.. (for a.s.p t X)))  →  (for a.(s·p).1 (.. (for a.s.p #block X)))
//! ```
//!
//! Each CTA then holds a part of V. By default the parts meet in a workspace, two and two up a fixed tree, and the CTA that ends
//! up with all of them runs Q; with `atomic` each CTA adds its part to the tensor that Q stores; with `cluster` the CTAs are one,
//! and each is sent its share of the others' parts to its shared memory and runs Q for it ([`Nest::share`]).
//!
//! Conditions. `a` is no program axis. What X writes are reductions over the axis, all of one `let`; every store
//! stands in the second part of that `let`, so that one CTA, or with `atomic` every part, stores once. For `atomic`, Q
//! does nothing but store V itself, as a sum in f32, once and whole, to a tensor that the kernel does not read.
//! A cluster has at most eight CTAs, as many as every GPU has room for.
//! That no loop at run time stands around the `let` is checked when the schedule is complete.
//! Cost: a workspace and a meeting of CTAs, or atomic additions, or bytes of shared memory in a cluster.
//! Source: split-K (CUTLASS); arrivals at a counter (CUDA C++ Programming Guide, memory fence functions); combining
//! trees (Yew, Tzeng and Lawrie 1987); distributed shared memory (CUDA C++ Programming Guide, thread block clusters).
//! Reductions reassociate as documented.

use super::prelude::*;
use crate::{
    dtype::DType,
    engine::{
        facts::{self, Graph, at, digit, effects, target_axes, target_name},
        families::{Rule, reorder, solve, split, with_body},
        language::{Node, bit},
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    index::Affine,
    machine::{self, Unit, UnitDim},
    nest::{Across, Digit, Expr, Frame, LoopKind, Steps, Stmt, Target, ValueId, leaves, loops},
    op::RedOp,
    plan::Unsummed,
    tile::{AxisKind, ElemType},
};
use std::collections::BTreeSet;

directive! {
    /// `split_k(k, 4)`, `split_k(k, 4; atomic)`, `split_k(k, 4; cluster)`: the steps of a reduction are shared out among CTAs of the grid.
    "split_k(k, 4)" in SplitK, 0:
    SplitK { digit: DigitName, parts: u32, across: Across = Across::Workspace } => |s| {
        s.tiles(digit).mark(",").number(parts);
        if s.has(";", *across != Across::Workspace) {
            s.one_of(across, "combination", &[Across::Atomic, Across::Cluster]);
        }
    }
}

impl Definition for SplitK {
    const CHECK: Option<Check> = Some((Shows::Parts, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.digit, self.parts, self.across)
    }

    fn needs(&self) -> Vec<Name> {
        vec![Name::Loop(self.digit.clone())]
    }

    fn target(&self) -> Option<(String, machine::Target)> {
        (self.parts > 1 && self.across == Across::Cluster)
            .then(|| ("a cluster".into(), machine::Target::CLUSTERS))
    }
}

impl Drawn for SplitK {
    const ORDERS: bool = true;

    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        vec![match self.across {
            Across::Workspace => Kind::SplitK,
            Across::Atomic => Kind::SplitKAtomic,
            Across::Cluster => Kind::SplitKCluster,
        }]
    }

    fn candidates(kind: Kind, generator: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let kernel = generator.kernel;
        let Wish { product, .. } = *wish;
        let parts = *generator.random.pick(&[2, 2, 3, 4]);
        let across = match kind {
            Kind::SplitK => Across::Workspace,
            Kind::SplitKAtomic => Across::Atomic,
            _ => Across::Cluster,
        };
        let axes = kernel.axes.iter().filter(|a| a.kind != AxisKind::Program).map(|a| a.name.clone());
        let axes: Vec<String> = match product {
            Some(product) => vec![product.steps()],
            None => axes.collect(),
        };
        axes.into_iter().map(|digit| SplitK { digit, parts, across }.into()).collect()
    }
}

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    SHARED_OUT = "(for ?#3 ?#4 (for ?#5 ?#1 ?#2))";
    ONE_STEP_EACH = "(for ?#3 ?#4 ?#2)";
}

/// Most CTAs that share one reduction.
const MOST: u32 = 256;

impl Across {
    /// Most CTAs whose parts come together so.
    const fn most(self) -> u32 {
        match self {
            Across::Workspace | Across::Atomic => MOST,
            Across::Cluster => crate::directive::cluster::MOST,
        }
    }
}

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text))
}

/// `split_k(name, parts)`, `split_k(name, parts; atomic)`.
fn apply(nest: &Nest, name: &str, parts: u32, across: Across) -> Result<(Nest, Proof), Failure> {
    let whole = names::existing(nest, name, Bare::Tile)?;
    let axis = nest.axis(whole.axis).to_string();
    let most = across.most();
    if !(1..=most).contains(&parts) {
        let digit = || name.to_string();
        let near =
            DirectiveKind::SplitK(directive::SplitK { digit: digit(), parts: parts.clamp(1, most), across });
        let failure = match across {
            Across::Cluster => {
                refuse(format!("split_k({name}, {parts}; cluster): a cluster has at most {most} CTAs"))
            }
            _ => refuse(format!("split_k({name}, {parts}): 1 to {most} CTAs share a reduction")),
        };
        let through =
            DirectiveKind::SplitK(directive::SplitK { digit: digit(), parts, across: Across::Workspace });
        let apart = (across == Across::Cluster && parts <= MOST)
            .then(|| Edit::instead([through]).remark("through global memory"));
        return Err(failure.edit(Edit::instead([near])).edits(apart));
    }
    if let Steps::Fixed(steps) = whole.steps
        && steps % parts != 0
        && split::around_digit(nest, whole).any(|d| d.steps != Steps::Fixed(1))
    {
        let digit = names::existing(nest, &axis, Bare::Tile).map_or(name.to_string(), |_| axis.clone());
        let share = |digit, parts| DirectiveKind::SplitK(directive::SplitK { digit, parts, across });
        let near = split::divisors(steps).into_iter().min_by_key(|n| n.abs_diff(parts));
        let text = format!(
            "{parts} CTAs cannot share the {steps} steps of `{name}` equally, and other loops over `{axis}` are around them"
        );
        return Err(refuse(text)
            .edit(Edit::instead([share(digit, parts)]))
            .edits(near.map(|near| Edit::instead([share(name.to_string(), near)]))));
    }
    if let Some(access) = nest.accesses.iter().find(|access| access.combines.is_some()) {
        let name = &nest.tensor(access.tensor).name;
        let text = format!(
            "`{name}` is combined atomically, each point once: CTAs that share a reduction would store it again"
        );
        return Err(refuse(text).note(access.span, "combined here").edit(Edit::remove()));
    }
    if nest.kernel.axes[usize::from(whole.axis.0)].kind == AxisKind::Program {
        let failure =
            refuse(format!("`{axis}` is a program axis: its tiles are shared out among CTAs as it is"));
        return Err(match reduced(nest).as_slice() {
            [] => failure,
            axes => {
                let shared = |digit: &String| {
                    DirectiveKind::SplitK(directive::SplitK { digit: digit.clone(), parts, across })
                };
                failure.edits(axes.iter().map(|digit| Edit::instead([shared(digit)])))
            }
        });
    }
    if let Some(shared) = nest.across.keys().next().map(|v| nest.value(*v)) {
        let text = format!(
            "CTAs share `{}` already: the parts of one reduction come together once a launch, and no CTA has a part of another then",
            shared.name
        );
        return Err(refuse(text)
            .note(shared.span, format!("`{}` is computed here", shared.name))
            .edit(Edit::remove()));
    }
    let values = one_let(nest, name, whole)?;
    stores_after(nest, name, &values)?;
    if across == Across::Atomic {
        only_stored(nest, &values).map_err(|failure| {
            let exact = DirectiveKind::SplitK(directive::SplitK {
                digit: name.to_string(),
                parts,
                across: Across::Workspace,
            });
            failure.edit(Edit::instead([exact]).remark("combines the parts before the rest runs"))
        })?;
    }
    if parts == 1 {
        let proof = Proof { facts: vec![format!("one CTA takes all steps of `{name}`")], ..Proof::default() };
        return Ok((nest.clone(), proof));
    }
    let (rest, part) = whole.cut(parts);
    // As many CTAs as steps: the loop over CTAs has the digit of the one that they share out.
    let shared_out = |at: LoopKind| part == whole && at == LoopKind::Unit(Unit::Block, UnitDim::Z);
    let redex = |_: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), Node::LoopKind(at), _]) if *d == whole && !(shared_out(*at)) => {
            Redex::Hard
        }
        _ => Redex::No,
    };
    // A split of more steps than there are leaves such a loop.
    let stands = rest.steps == Steps::Fixed(1) && loops(&nest.body).iter().any(|(d, _)| *d == rest);
    let within = match stands {
        true => with_body(nest, split::around_once(&nest.body, rest, whole)),
        false => nest.clone(),
    };
    let (body, mut proof) = solve(
        &within,
        &[rule(whole, (part, rest), stands, values.clone())],
        &redex,
        || Failure::no_match(format!("there is no loop over `{name}`")),
        || Failure::unmet(format!("the steps of `{name}` could not be shared out among CTAs")),
    )?;
    let mut names = nest.names.clone();
    names.values_mut().filter(|d| **d == whole).for_each(|d| *d = rest);
    names.insert(format!("{axis}.s"), part);
    let list: Vec<&str> = values.iter().map(|v| nest.value(*v).name.as_str()).collect();
    proof.facts.push(match across {
        Across::Workspace => {
            format!("{parts} parts of {} are combined in pairs, up a fixed tree", names::list(&list))
        }
        Across::Atomic => {
            format!("{parts} parts of {} are added to what is stored, in any order", names::list(&list))
        }
        Across::Cluster => {
            format!("{parts} parts of {} are added up across a cluster, in their order", names::list(&list))
        }
    });
    let cluster = (across == Across::Cluster).then_some(part);
    let across = values.into_iter().map(|v| (v, across)).collect();
    Ok((Nest { body, names, across, cluster, ..nest.clone() }, proof))
}

/// Shares the steps of `whole` out: a loop over `part` that CTAs take, around one over `rest`, unless that stands already.
fn rule(
    whole: Digit,
    (part, rest): (Digit, Digit),
    stands: bool,
    values: BTreeSet<ValueId>,
) -> Rule<'static> {
    let after = if stands { &ONE_STEP_EACH } else { &SHARED_OUT };
    Rule::new("split_k", &LOOP, after, move |graph, subst| {
        let of_ctas = at(graph, get(subst, 1)) == LoopKind::Unit(Unit::Block, UnitDim::Z);
        if digit(graph, get(subst, 0)) != whole || (part == whole && of_ctas) {
            return Verdict::Skip;
        }
        let (facts, nest) = (effects(graph, get(subst, 2)).clone(), graph.analysis.nest.clone());
        for write in &facts.writes {
            // What is carried starts before the loop: each CTA would add that to its part.
            let carried = matches!(write.target, Target::Value(v) if nest.is_carried(v));
            let reduction = write.kind == facts::Kind::Red
                && !carried
                && matches!(write.target, Target::Value(v) if values.contains(&v))
                && target_axes(&nest, write.target) & bit(whole.axis.0) == 0;
            if !reduction && enforced("split_k: X reduces only") {
                let (name, axis) = (target_name(&nest, write.target), nest.axis(whole.axis));
                let text = match write.kind {
                    _ if carried => format!(
                        "`{name}` is carried from one tile of `{axis}` to the next: CTAs cannot share the tiles"
                    ),
                    _ => format!(
                        "`{name}` is computed in the loop over `{axis}` and is no reduction over it: each CTA would hold other elements of it"
                    ),
                };
                let span = reorder::value_span(&nest, write.target);
                let diagnostic = Diagnostic::new(SpanId::NONE, text);
                return Verdict::refuse(diagnostic.note(span, format!("`{name}` is written here")));
            }
        }
        if !matches!(at(graph, get(subst, 1)), LoopKind::Seq | LoopKind::Pipe(_)) {
            let name = nest.digit_name(whole);
            let text = format!("the loop over `{name}` is bound or unrolled: `split_k` divides a plain loop");
            return Verdict::refuse(Diagnostic::new(SpanId::NONE, text));
        }
        for (var, node) in [
            (3, Node::Digit(part)),
            (4, Node::LoopKind(LoopKind::Unit(Unit::Block, UnitDim::Z))),
            (5, Node::Digit(rest)),
        ] {
            let id = graph.add(node);
            set(subst, var, id);
        }
        Verdict::Apply
    })
}

/// Names of the axes that some value is reduced over.
fn reduced(nest: &Nest) -> Vec<String> {
    let mut axes = BTreeSet::new();
    leaves(&nest.body, &mut |path, leaf| {
        if let Stmt::Red { value, .. } = leaf {
            let own = &nest.value(*value).axes;
            let program = |d: &Digit| nest.kernel.axes[usize::from(d.axis.0)].kind == AxisKind::Program;
            axes.extend(path.iter().filter_map(|f| match f {
                Frame::For(d, _) if !own.contains(&d.axis) && !program(d) => {
                    Some(nest.axis(d.axis).to_string())
                }
                _ => None,
            }));
        }
    });
    axes.into_iter().collect()
}

/// The values that loops over a digit reduce, all of one `let`.
fn one_let(nest: &Nest, name: &str, whole: Digit) -> Result<BTreeSet<ValueId>, Failure> {
    let mut found: Vec<(ValueId, Vec<ValueId>)> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some(here) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == whole)) else {
            return;
        };
        if let Stmt::Red { value, .. } = leaf
            && let Some(Frame::First(values)) =
                path[..here].iter().rfind(|f| matches!(f, Frame::First(vs) if vs.contains(value)))
        {
            found.push((*value, values.clone()));
        }
    });
    let Some((first, values)) = found.first() else {
        return Err(refuse(format!("nothing is reduced over `{name}`: its steps leave no parts to add up")));
    };
    let Some((second, _)) = found.iter().find(|(_, vs)| vs != values) else {
        return Ok(found.iter().map(|(v, _)| *v).collect());
    };
    let (first, second) = (nest.value(*first), nest.value(*second));
    Err(refuse(format!(
        "`{}` and `{}` are both reduced over `{name}`, one after the other: CTAs synchronise once a launch, for what one loop computes",
        first.name, second.name
    ))
    .note(first.span, format!("`{}` is computed here", first.name))
    .note(second.span, format!("`{}` is computed here", second.name))
    .edit(Edit::remove()))
}

/// Every store stands where the values are read.
fn stores_after(nest: &Nest, name: &str, values: &BTreeSet<ValueId>) -> Result<(), Failure> {
    let mut outside = None;
    leaves(&nest.body, &mut |path, leaf| {
        let after =
            path.iter().any(|f| matches!(f, Frame::Rest(vs) if vs.iter().any(|v| values.contains(v))));
        if let (Stmt::Put { access, .. }, false) = (leaf, after) {
            outside.get_or_insert(*access);
        }
    });
    let Some(access) = outside else { return Ok(()) };
    let access = nest.access(access);
    let stored = &nest.tensor(access.tensor).name;
    let value = values.first().map_or("", |v| &nest.value(*v).name);
    Err(refuse(format!(
        "`{stored}` is stored without `{value}`: each CTA that takes steps of `{name}` would store it"
    ))
    .note(access.span, format!("`{stored}` is stored here")))
}

/// What `atomic` needs: the values are stored as they are, by a sum that starts at zero.
fn only_stored(nest: &Nest, values: &BTreeSet<ValueId>) -> Result<(), Failure> {
    for v in values {
        let value = nest.value(*v);
        let note = |failure: Failure| failure.note(value.span, format!("`{}` is computed here", value.name));
        if value.reduction != Some(RedOp::Add) {
            return Err(note(refuse(format!(
                "`{}` is no sum: atomic addition cannot combine its parts",
                value.name
            ))));
        }
    }
    let mut problem = None;
    let mut stored = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        if !path.iter().any(|f| matches!(f, Frame::Rest(vs) if vs.iter().any(|v| values.contains(v)))) {
            return;
        }
        let (target, expr) = leaf.leaf().expect("a leaf");
        let found = match (target, expr) {
            (Target::Access(access), expr) => {
                stored.push(nest.access(access).tensor);
                whole_store(nest, values, access, expr)
            }
            (Target::Value(v), _) => {
                let name = &nest.value(v).name;
                Err(refuse(format!(
                    "`{name}` is computed from the sum, and each CTA holds a part of the sum only"
                ))
                .note(nest.value(v).span, format!("`{name}` is computed here")))
            }
        };
        if let Err(failure) = found {
            problem.get_or_insert(failure);
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    stored.sort();
    if let Some(twice) = stored.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = &nest.tensor(twice[0]).name;
        return Err(refuse(format!("`{name}` is stored twice: both would be added")));
    }
    let read = nest.accesses.iter().enumerate().filter(|(n, a)| {
        let mut is_read = false;
        leaves(&nest.body, &mut |_, leaf| {
            let accesses = leaf.leaf().expect("a leaf").1.accesses();
            is_read |= accesses.iter().any(|id| usize::from(id.0) == *n);
        });
        is_read && stored.contains(&a.tensor)
    });
    match read.map(|(_, a)| a).next() {
        Some(access) => {
            let name = &nest.tensor(access.tensor).name;
            Err(refuse(format!("`{name}` is read by the kernel, and it is set to zero before the launch"))
                .note(access.span, format!("`{name}` is read here")))
        }
        None => Ok(()),
    }
}

/// A store of one of the values as it is, in f32, to the element of the same point of a tensor that has no others.
fn whole_store(
    nest: &Nest,
    values: &BTreeSet<ValueId>,
    access: crate::nest::AccessId,
    expr: &Expr,
) -> Result<(), Failure> {
    let access = nest.access(access);
    let tensor = nest.tensor(access.tensor);
    let refuse = |text: String| refuse(text).note(access.span, format!("`{}` is stored here", tensor.name));
    if let Some(why) = access.decided_by() {
        return Err(refuse(format!(
            "`{}` is stored {why}, and the rest of the tensor would be set to zero",
            tensor.name
        )));
    }
    if tensor.elem != ElemType::Fixed(DType::F32) {
        return Err(refuse(format!("`{}` is not f32: each part would be rounded to its type", tensor.name)));
    }
    let mut expr = expr;
    while let Expr::Cast(DType::F32, inner) = expr {
        expr = inner;
    }
    let value = match expr {
        Expr::Get(v) if values.contains(v) && nest.value(*v).dtype == DType::F32 => nest.value(*v),
        _ => {
            return Err(refuse(format!(
                "what is stored to `{}` is not the sum itself, and each CTA holds a part of the sum only",
                tensor.name
            )));
        }
    };
    // Along each dimension all points of an axis, or the only one there is.
    let whole = access.index.iter().zip(&tensor.dims).all(|(index, dim)| match index.as_axis() {
        Some(a) => value.axes.contains(&a) && nest.kernel.axes[usize::from(a.0)].extent == *dim,
        None => dim.as_constant() == Some(1) && *index == Affine::default(),
    });
    let along = access.index.iter().filter(|index| index.as_axis().is_some()).count();
    if !whole || along != value.axes.len() {
        return Err(refuse(format!(
            "the elements of `{}` are not those of `{}`, and the rest of the tensor would be set to zero",
            tensor.name, value.name
        )));
    }
    Ok(())
}

/// Parts of a reduction held by several CTAs synchronise once a launch: no loop at run time stands around its `let`. Behind it one CTA
/// is left, or each has a share of the elements: nothing is computed there that is needed elsewhere.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let Some(why) = context.plan.sums().unmet() else { return Vec::new() };
    let split = context.last(|k| matches!(k, DirectiveKind::SplitK(_)));
    // Without its pipeline, a loop of one step is none; without `recompute`, no value is computed again.
    let (value, by) = match why {
        Unsummed::Repeated(value, (digit, LoopKind::Pipe(_))) if digit.steps == Steps::Fixed(1) => {
            let pipes = |k: &DirectiveKind| matches!(k, DirectiveKind::Pipeline(directive::Pipeline { digit: d, .. }) if context.is(d, digit));
            (value, context.last(pipes))
        }
        Unsummed::Behind { value, met } => {
            let again = |k: &DirectiveKind| matches!(k, DirectiveKind::Recompute(directive::Recompute { value }) if *value == nest.value(met).name);
            (value, context.last(again))
        }
        Unsummed::Repeated(value, _) => (value, None),
        // Not of the meeting.
        _ => return Vec::new(),
    };
    let info = nest.value(value);
    let diagnostic = context
        .at(by.or(split), info.span, why.text(nest))
        .note(info.span, format!("`{}` is computed here", info.name));
    vec![diagnostic.edits(by.map(|_| Edit::remove()))]
}
