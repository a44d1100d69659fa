//! `tensor_core`: a sum of products is computed by an instruction that a warp executes together.
//!
//! ```text
//! (for a.1.n X)  →  (for a.s.n/s (for a.1.s X))                                   s: the atom's size along a
//! (for m (for n (for k (red acc + (* x y)))))  →  (for m #atom.m (for n #atom.n (for k #atom.k (red ..))))
//! (for m X)  →  (for m.half (for m.row #lane.y X)), and n likewise               X: what reads the sums
//! ```
//! The loops are split at the sizes of the atom and moved inward, whatever their order was; which factor is the first
//! operand follows from the axes, whatever their order is. The third rule gives the readers of the sums the lanes and
//! registers in which the atom leaves them.
//!
//! Side conditions. The value is a sum in f32 of products of two loads, exact conversions aside, of a type that the
//! atom multiplies. m is an axis of the value and of the first factor only, n one of the value and of the second only, k
//! one of both factors only. Of each of them the innermost loop stands inside of the value's `let`, is a plain one and
//! is a multiple of the atom long. Readers: the conditions of `bind`, for lanes.
//! Source: PTX ISA 9.7.15.5; tensorisation by rewriting (Hagedorn et al., ICFP 2020; Exo, PLDI 2022).

use super::{Failure, Proof, Rule, bind, precision, reorder, solve, split, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::{
        facts::{Graph, Kind, at, digit, effects},
        language::Node,
        names,
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    index::AxisId,
    nest::{
        AccessId, At, Atom, Digit, Frame, Level, Nest, NoProduct, Part, Place, Role, Steps, Stmt, Target,
        ValueId, leaves, loops,
    },
    op::RedOp,
    schedule::DirectiveKind,
    span::SpanId,
};

patterns! {
    THREE = "(for ?#0 ?#1 (for ?#2 ?#3 (for ?#4 ?#5 ?#6)))";
    MARKED = "(for ?#0 ?#7 (for ?#2 ?#8 (for ?#4 ?#9 ?#6)))";
    LOOP = "(for ?#0 ?#1 ?#2)";
    SPREAD = "(for ?#3 ?#4 (for ?#5 ?#6 ?#2))";
}

/// Roles in the order in which the loops of an atom stand.
const ROLES: [Role; 3] = [Role::M, Role::N, Role::K];

/// What a dimension of an atom left over of a loop is called, after the axis.
const ATOMS: &str = "atom";

/// Whether some `tensor_core` gives a loop this name.
pub(in crate::engine) fn introduces(name: &str) -> bool {
    let named = |last: &str| {
        Atom::ALL.iter().any(|a| ROLES.iter().any(|r| a.parts(*r).iter().any(|p| p.name == last)))
    };
    name.split_once('.').is_some_and(|(_, last)| last == ATOMS || named(last))
}

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text))
}

/// `tensor_core(value: atom)`.
pub(in crate::engine) fn apply(nest: &Nest, name: &str, atom: Atom) -> Result<(Nest, Proof), Failure> {
    let value = names::value(nest, name)?;
    let atom = precision::chosen(nest, value, atom);
    let sum = sum_of(nest, value, atom)?;
    let mut whole = Vec::new();
    for (role, axis) in ROLES.into_iter().zip(sum.axes) {
        whole.push(innermost(nest, value, axis, role, atom)?);
    }
    let cut: Vec<(Digit, Digit)> =
        ROLES.iter().zip(&whole).map(|(role, whole)| whole.cut(atom.size(*role))).collect();
    let own: Vec<Digit> = cut.iter().map(|(_, inner)| *inner).collect();
    let (marked, mut proof) = mark(nest, name, value, atom, &whole, &cut)?;
    let (mut body, mut combine) = (with_body(nest, marked), nest.combine.clone());
    for (role, own) in [(Role::M, own[0]), (Role::N, own[1])] {
        combined(&body, own, &mut combine);
        body = spread(&Nest { combine: combine.clone(), ..body }, name, own, atom.parts(role))?;
    }
    for (role, own) in [(Role::M, own[0]), (Role::N, own[1])] {
        for part in atom.parts(role) {
            if let (Place::Lane(_), At::Unit(unit, dim)) = (part.place, part.at()) {
                let lane = part.digit(own);
                bind::structure(&body, &body.digit_name(lane), lane, unit, dim)?;
            }
        }
    }
    let mut names = nest.names.clone();
    for (((outer, inner), whole), role) in cut.iter().zip(&whole).zip(ROLES) {
        let axis = nest.axis(whole.axis);
        if inner != whole {
            // A name that the schedule gave counts atoms from here on; `i.t` stays the tile.
            let tile = [format!("{axis}.t"), format!("{axis}.o"), axis.to_string()];
            names.iter_mut().filter(|(n, d)| *d == whole && !tile.contains(n)).for_each(|(_, d)| *d = *outer);
            names.insert(format!("{axis}.{ATOMS}"), *outer);
        }
        for part in atom.parts(role) {
            names.insert(format!("{axis}.{}", part.name), part.digit(*inner));
        }
    }
    let [a, b] = sum.factors.map(|f| nest.tensor(nest.access(f).tensor).name.clone());
    let [m, n, k] = sum.axes.map(|axis| nest.axis(axis).to_string());
    let [x, y, z] = atom.row().shape;
    proof.facts.push(format!(
        "`{name}` sums products of `{a}` over ({m}, {k}) and `{b}` over ({k}, {n}): {x}×{y}×{z} at once"
    ));
    Ok((Nest { names, combine, ..body }, proof))
}

/// What a value sums.
struct Sum {
    /// Loads of the first and of the second operand.
    factors: [AccessId; 2],
    /// m, n and k.
    axes: [AxisId; 3],
}

fn sum_of(nest: &Nest, value: ValueId, atom: Atom) -> Result<Sum, Failure> {
    let (info, row) = (nest.value(value), atom.row());
    let name = &info.name;
    let here = |failure: Failure| failure.note(info.span, format!("`{name}` is computed here"));
    if info.reduction != Some(RedOp::Add) {
        return Err(here(refuse(format!("`{name}` is no sum: `{atom}` adds products up"))));
    }
    if info.dtype != row.accumulator {
        return Err(here(refuse(format!(
            "`{name}` is {}: `{atom}` adds up in {}",
            info.dtype, row.accumulator
        ))));
    }
    let mut found = Vec::new();
    leaves(&nest.body, &mut |_, leaf| {
        if let Stmt::Red { value: v, expr, .. } = leaf
            && *v == value
        {
            found.push(nest.factors(expr));
        }
    });
    let [product] = found.as_slice() else {
        return Err(here(refuse(format!("{} statements add to `{name}`: `{atom}` is one", found.len()))));
    };
    let factors = product.map_err(|why| here(no_product(nest, name, atom, why)))?;
    for factor in factors {
        let tensor = nest.tensor(nest.access(factor).tensor);
        let dtype = nest.elem(nest.access(factor).tensor);
        if !row.operands.contains(&dtype) {
            let types: Vec<String> = row.operands.iter().map(|d| d.to_string()).collect();
            let failure = refuse(format!(
                "`{}` is {dtype}: `{atom}` multiplies {}, and no schedule changes the precision of a product",
                tensor.name,
                types.join(" or ")
            ))
            .note(nest.access(factor).span, format!("`{}` is read here", tensor.name));
            return Err(precision::advice(failure, dtype));
        }
    }
    let [x, y] = factors;
    let types = factors.map(|f| nest.elem(nest.access(f).tensor));
    if types[0] != types[1] {
        return Err(here(refuse(format!(
            "`{atom}` multiplies two factors of one type, not {} and {}",
            types[0], types[1]
        ))));
    }
    let axes = [nest.access_axes(x), nest.access_axes(y)];
    let last = |of: &dyn Fn(AxisId) -> bool| {
        let fits = |a: &AxisId| of(*a) && innermost_digit(nest, value, *a).is_some_and(|d| d.stride == 1);
        let all: Vec<AxisId> = (0..nest.kernel.axes.len() as u16).map(AxisId).filter(|a| of(*a)).collect();
        all.iter().rev().copied().find(|a| fits(a)).or(all.last().copied())
    };
    let own = |a: AxisId, mine: usize| {
        info.axes.contains(&a) && axes[mine].contains(&a) && !axes[1 - mine].contains(&a)
    };
    let (first, second) = (last(&|a| own(a, 0)), last(&|a| own(a, 1)));
    let k = last(&|a| !info.axes.contains(&a) && axes[0].contains(&a) && axes[1].contains(&a));
    let tensors = factors.map(|f| nest.tensor(nest.access(f).tensor).name.clone());
    let missing = |what: String| here(refuse(what));
    let (Some(first), Some(second)) = (first, second) else {
        let lacks = usize::from(first.is_some());
        return Err(missing(format!(
            "`{name}` has no axis of `{}` alone: `{atom}` needs rows from one factor and columns from the other",
            tensors[lacks]
        )));
    };
    let Some(k) = k else {
        return Err(missing(format!(
            "`{}` and `{}` share no axis that `{name}` is summed over",
            tensors[0], tensors[1]
        )));
    };
    // Columns are the later axis of the kernel: results are stored along it.
    Ok(if first < second {
        Sum { factors: [x, y], axes: [first, second, k] }
    } else {
        Sum { factors: [y, x], axes: [second, first, k] }
    })
}

fn no_product(nest: &Nest, name: &str, atom: Atom, why: NoProduct) -> Failure {
    match why {
        NoProduct::Other => {
            refuse(format!("`{name}` does not sum products: `{atom}` multiplies two factors and adds"))
        }
        NoProduct::Rounded(to) => refuse(format!(
            "the products that `{name}` sums are rounded to {to} first: `{atom}` does not round them"
        ))
        .remark("convert the factors to f32, or write `dot`"),
        NoProduct::Computed => refuse(format!(
            "a factor of what `{name}` sums is computed: `{atom}` reads both from a staged tensor"
        )),
        NoProduct::Narrowed(access, to) => {
            let access = nest.access(access);
            let tensor = &nest.tensor(access.tensor).name;
            refuse(format!("`{tensor}` is rounded to {to} before it is multiplied: `{atom}` does not round"))
                .note(access.span, format!("`{tensor}` is read here"))
        }
    }
}

/// The loops over an axis on the way from a value's `let` to what adds to it, the smallest stride first.
fn innermost_digit(nest: &Nest, value: ValueId, axis: AxisId) -> Option<Digit> {
    let mut found: Option<Digit> = None;
    leaves(&nest.body, &mut |path, leaf| {
        if leaf.leaf().expect("a leaf").0 != Target::Value(value) {
            return;
        }
        let from =
            path.iter().rposition(|f| matches!(f, Frame::First(vs) if vs.contains(&value))).unwrap_or(0);
        let own = path[from..].iter().filter_map(|f| match f {
            Frame::For(d, _) if d.axis == axis && d.steps != Steps::Fixed(1) => Some(*d),
            _ => None,
        });
        found = own.min_by_key(|d| d.stride);
    });
    found
}

/// The loop of an axis that is split at the atom's size.
fn innermost(nest: &Nest, value: ValueId, axis: AxisId, role: Role, atom: Atom) -> Result<Digit, Failure> {
    let (size, name, value_name) = (atom.size(role), nest.axis(axis), &nest.value(value).name);
    let tile = |points| DirectiveKind::Tile { axis: name.to_string(), size: points };
    let Some(digit) = innermost_digit(nest, value, axis).filter(|d| d.stride == 1) else {
        return Err(refuse(format!(
            "`{value_name}` has no loop over the points of `{name}` inside: `{atom}` takes {size} of them at once"
        ))
        .edit(Edit::put([tile(size)])));
    };
    let loop_name = nest.digit_name(digit);
    let how = loops(&nest.body).into_iter().find(|(d, at)| *d == digit && *at != At::Seq);
    if let Some((_, At::Atom(other, _))) = how {
        return Err(refuse(format!("the loop over `{loop_name}` is part of another `{other}` already")));
    }
    match digit.steps {
        Steps::Fixed(n) if n % size == 0 => Ok(digit),
        Steps::Fixed(n) => {
            let text = format!(
                "`{atom}` takes {size} points of `{name}` at once, and `{loop_name}` has {n}: {n} is no multiple of {size}"
            );
            let of_tile = nest.names.get(&format!("{name}.t")) == Some(&digit);
            let edit = of_tile.then(|| Edit::put([tile(n.next_multiple_of(size))]));
            Err(refuse(text).edits(edit))
        }
        Steps::Rest => Err(refuse(format!(
            "`{atom}` takes {size} points of `{name}` at once, and `{loop_name}` has any number"
        ))
        .edit(Edit::put([tile(size.max(32))]))),
    }
}

/// Splits the loops, moves them inward and marks them.
fn mark(
    nest: &Nest,
    name: &str,
    value: ValueId,
    atom: Atom,
    whole: &[Digit],
    cut: &[(Digit, Digit)],
) -> Result<(Stmt, Proof), Failure> {
    let own: Vec<Digit> = cut.iter().map(|(_, inner)| *inner).collect();
    let writes = |graph: &Graph, body: egg::Id| {
        effects(graph, body).writes.iter().any(|w| w.target == Target::Value(value) && w.kind == Kind::Red)
    };
    let place = |d: Digit| own.iter().position(|o| *o == d);
    let inverted = |graph: &Graph, body: egg::Id, a: Digit, b: Digit| {
        writes(graph, body) && place(a).is_some_and(|a| place(b).is_none_or(|b| a > b))
    };
    let mut rules = vec![
        reorder::rule(inverted),
        Rule::new("tensor_core", &THREE, &MARKED, |graph, subst| {
            let digits = [0, 2, 4].map(|n| digit(graph, get(subst, n)));
            let plain = [1, 3, 5].iter().all(|n| at(graph, get(subst, *n)) == At::Seq);
            let body = get(subst, 6);
            let leaf = graph[body].nodes.iter().any(|n| matches!(n, Node::Do(_)));
            if digits[..] != own[..] || !plain || !leaf || !writes(graph, body) {
                return Verdict::Skip;
            }
            for (var, role) in (7..).zip(ROLES) {
                let id = graph.add(Node::At(At::Atom(atom, role)));
                set(subst, var, id);
            }
            Verdict::Apply
        }),
    ];
    let split: Vec<Digit> = whole.iter().zip(&own).filter(|(w, o)| w != o).map(|(w, _)| *w).collect();
    rules.extend(
        cut.iter()
            .zip(whole)
            .filter(|((_, o), w)| o != *w)
            .map(|((outer, inner), whole)| split::rule(*whole, vec![*outer, *inner])),
    );
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([_, _, body]), [Node::Digit(d), Node::At(At::Seq), _]) => {
            if split.contains(d) || own.contains(d) && writes(graph, *body) { Redex::Hard } else { Redex::No }
        }
        _ => Redex::No,
    };
    solve(
        nest,
        &rules,
        &redex,
        || Failure::no_match(format!("nothing adds to `{name}`")),
        || {
            Failure::unmet(format!(
                "the loops of `{name}` could not be moved together to an `{atom}`: something is computed or copied between them"
            ))
        },
    )
}

/// Reductions over lanes are combined across them.
fn combined(nest: &Nest, own: Digit, combine: &mut std::collections::BTreeMap<ValueId, Level>) {
    leaves(&nest.body, &mut |path, leaf| {
        if let Stmt::Red { value, .. } = leaf
            && path.contains(&Frame::For(own, At::Seq))
            && !nest.value(*value).axes.contains(&own.axis)
        {
            combine.entry(*value).or_insert(Level::Lane);
        }
    });
}

/// Gives the loops over a digit, those of the atom aside, the lanes and slots of the sums.
fn spread(nest: &Nest, name: &str, own: Digit, parts: &[Part]) -> Result<Nest, Failure> {
    let [outer, inner] = parts else {
        return Err(Failure::internal("a dimension of an accumulator has two digits"));
    };
    // Slots stay plain loops, which a schedule may vectorize and which are unrolled otherwise.
    let how = |part: &Part| if part.place == Place::Slot { At::Seq } else { part.at() };
    let rule = Rule::new("spread", &LOOP, &SPREAD, |graph, subst| {
        if digit(graph, get(subst, 0)) != own || at(graph, get(subst, 1)) != At::Seq {
            return Verdict::Skip;
        }
        for part in parts {
            if let At::Unit(unit, _) = part.at()
                && enforced("tensor_core: readers distribute")
                && let Some(d) = bind::clash(graph, get(subst, 2), part.digit(own), unit)
            {
                return Verdict::refuse(d);
            }
        }
        for (var, part) in [(3, outer), (5, inner)] {
            let (loop_, at) = (graph.add(Node::Digit(part.digit(own))), graph.add(Node::At(how(part))));
            set(subst, var, loop_);
            set(subst, var + 1, at);
        }
        Verdict::Apply
    });
    let redex = |_: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), Node::At(At::Seq), _]) if *d == own => Redex::Hard,
        _ => Redex::No,
    };
    let unread = || Failure::no_match(format!("nothing reads `{name}`"));
    let unmet = || Failure::unmet(format!("what reads `{name}` could not be spread over lanes"));
    let (body, _) = solve(nest, &[rule], &redex, unread, unmet)?;
    Ok(with_body(nest, body))
}
