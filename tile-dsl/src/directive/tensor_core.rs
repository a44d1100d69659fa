//! `tensor_core`: a sum of products is computed by an instruction that a warp executes together.
//!
//! ```text
//! (for a.s.n (for a.t.m X))  →  (for a.t.nm X)                                     digits that another atom left, s = t·m
//! (for a.1.n X)  →  (for a.s.n/s (for a.1.s X))                                   s: the atom's size along a, n = s too
//! (for m (for n (for k (red acc + (* x y)))))  →  (for m #atom.m (for n #atom.n (for k #atom.k (red ..))))
//! (for m X)  →  (for m.half (for m.row #lane.y X)), and n likewise               X: what reads the sums
//! ```
//! The loops are split at the sizes of the atom and moved inward, whatever their order was; which factor is the first
//! operand follows from the axes, whatever their order is: rows are the earlier of them, or the later one where the directive
//! says `swapped`. The last rule gives the readers of the sums the lanes and
//! registers in which the atom leaves them; where such a reader is a sum of products itself, the first rule takes that back
//! for an atom of its own. Where such a sum has lanes of another atom already, it keeps them.
//!
//! Conditions:
//!
//! - The value is a sum in f32, or of integers in i32.
//! - What is summed are products of two factors, exact conversions aside, of a type that the atom multiplies.
//! - m is an axis of the value and of the first factor only, n one of the value and of the second only, k one of both factors only.
//! - Of several such k, the last one is taken whose loop the atom divides.
//! - Of each axis the innermost loop stands inside of the value's `let`, is a plain one and is a multiple of the atom long.
//! - Readers: the conditions of `bind`, for lanes.
//! - Of `wgmma` the factor with columns is a staged copy; that with rows may be computed. Of 8 bits, four lanes exchange what they
//!   computed from the sums of another product: they have it by twos and multiply it by fours.
//!
//! Cost: what an instruction reads itself is staged, in rows that it reads; shapes are multiples of the atom.
//! Source: PTX ISA 9.7.15.5; tensorisation by rewriting (Hagedorn et al., ICFP 2020; Exo, PLDI 2022).

mod operands;
mod precision;
mod spread;

use super::prelude::*;
use crate::{
    engine::{
        facts::{self, Graph, at, digit, effects},
        families::{Rule, bind, reorder, solve, split, with_body},
        language::Node,
        names::{self, in_tile, of_atoms, over_tiles},
        phase::Redex,
        rule::{Verdict, get, patterns, set},
    },
    index::AxisId,
    machine,
    nest::{
        Atom, Digit, Factor, Frame, LoopKind, NoProduct, Role, Scope, Steps, Stmt, Target, ValueId, leaves,
        loops,
    },
    op::RedOp,
};
use spread::{combined, elsewhere, gather, layouts_of, spread};

directive! {
    /// `tensor_core(acc: mma)`: the sum of products is computed by an instruction of the tensor cores. `; swapped`: its rows
    /// are the later axis of the value.
    "tensor_core(acc: mma)" in TensorCore, 0:
    TensorCore { value: String, atom: Atom = Atom::MMA, swapped: bool } => |s| {
        s.one(value, "an accumulator").mark(":").atom(atom);
        *swapped = s.has(";", *swapped);
        if *swapped {
            s.one_of(&mut "swapped", "order", &["swapped"]);
        }
    }
}

impl Definition for TensorCore {
    const CHECK: Option<Check> = Some((Shows::Products, operands::check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.value, self.atom, self.swapped)
    }

    fn gives(&self) -> Vec<Name> {
        vec![Name::Atoms]
    }

    fn target(&self) -> Option<(String, machine::Target)> {
        Some((format!("`{}`", self.atom), self.atom.row().target))
    }
}

impl Drawn for TensorCore {
    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        let kind = if self.atom.row().scope == Scope::Warpgroup { Kind::Wgmma } else { Kind::Mma };
        if self.swapped { vec![kind, Kind::Swapped] } else { vec![kind] }
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::Swapped => &[ATOMS],
            Kind::Wgmma => &[COPIES, &[Kind::Swizzle]],
            _ => &[],
        }
    }

    fn candidates(kind: Kind, _: &mut Generator<'_>, wish: &Wish<'_>) -> Vec<DirectiveKind> {
        let Wish { set, product, .. } = *wish;
        let Some(product) = product else { return vec![] };
        let wide = |n| Atom::from_name("wgmma", Some([64, n])).expect("a number of columns");
        let atoms: Vec<Atom> = match kind {
            Kind::Mma => vec![Atom::MMA],
            _ => [8, 16, 32, 64].map(wide).to_vec(),
        };
        let swapped = set.contains(&Kind::Swapped);
        let core = |atom| TensorCore { value: product.value.clone(), atom, swapped }.into();
        atoms.into_iter().map(core).collect()
    }
}

patterns! {
    THREE = "(for ?#0 ?#1 (for ?#2 ?#3 (for ?#4 ?#5 ?#6)))";
    MARKED = "(for ?#0 ?#7 (for ?#2 ?#8 (for ?#4 ?#9 ?#6)))";
}

/// Roles in the order in which the loops of an atom stand.
const ROLES: [Role; 3] = [Role::M, Role::N, Role::K];

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text))
}

/// `tensor_core(value: atom)`, and `; swapped`.
fn apply(nest: &Nest, name: &str, atom: Atom, swapped: bool) -> Result<(Nest, Proof), Failure> {
    let value = names::value(nest, name)?;
    let atom = precision::chosen(nest, value, atom);
    let sum = sum_of(nest, value, atom, swapped)?;
    let gathered = gather(nest, value, &sum)?;
    let nest = &gathered;
    let mut whole = Vec::new();
    for (role, axis) in ROLES.into_iter().zip(sum.axes) {
        whole.push(innermost(nest, value, axis, role, atom)?);
    }
    let cut: Vec<(Digit, Digit)> =
        ROLES.iter().zip(&whole).map(|(role, whole)| whole.cut(atom.size(*role))).collect();
    let own: Vec<Digit> = cut.iter().map(|(_, inner)| *inner).collect();
    // Where one atom takes all steps of a loop, one step of atoms is left, which has a loop, too.
    let alone = cut.iter().filter(|(_, inner)| whole.contains(inner));
    let nest = &alone.fold(gathered.clone(), |nest, (outer, inner)| {
        let body = split::around_once(&nest.body, *outer, *inner);
        with_body(&nest, body)
    });
    let (marked, mut proof) = mark(nest, name, value, atom, &whole, &cut)?;
    let (mut body, mut combine) = (with_body(nest, marked), nest.combine.clone());
    let mut layouts = Vec::new();
    for (role, own) in ROLES.into_iter().zip(&own) {
        let of_role = layouts_of(&body, value, atom, role);
        let left_alone = elsewhere(&body, value, *own, &of_role);
        combined(&body, *own, &of_role, &left_alone, &mut combine);
        body = spread(&Nest { combine: combine.clone(), ..body }, name, *own, (&of_role, &left_alone))?;
        layouts.push(of_role);
    }
    // A loop of the atom may be over the same digit.
    let exists = |nest: &Nest, digit: Digit| {
        loops(&nest.body).iter().any(|(d, at)| *d == digit && !matches!(at, LoopKind::Atom(..)))
    };
    for (layouts, own) in layouts.iter().zip(&own) {
        for part in layouts.iter().flat_map(|l| &l.parts) {
            let lane = part.digit(*own);
            if let (LoopKind::Unit(unit, dim), true) = (part.at(), exists(&body, lane)) {
                bind::structure(&body, &body.digit_name(lane), lane, unit, dim)?;
            }
        }
    }
    let mut names = nest.names.clone();
    for (((outer, inner), whole), layouts) in cut.iter().zip(&whole).zip(&layouts) {
        let axis = nest.axis(whole.axis);
        // A name that the schedule gave counts atoms from here on; `i.t` stays the tile.
        let tile = [in_tile(axis), over_tiles(axis), axis.to_string()];
        names.iter_mut().filter(|(n, d)| *d == whole && !tile.contains(n)).for_each(|(_, d)| *d = *outer);
        let atoms = of_atoms(axis);
        // Another atom may take more or fewer points of the axis at once.
        let taken = names.get(&atoms).is_some_and(|d| d != outer);
        names.insert(if taken { format!("{axis}.{name}") } else { atoms }, *outer);
        // The last layout is that of the sums, after which a digit that several have is called.
        for (layout, part) in layouts.iter().flat_map(|l| l.parts.iter().map(move |p| (l, p))) {
            let digit = part.digit(*inner);
            if layout.of.is_none() || exists(&body, digit) {
                let named = format!("{axis}.{}", part.name);
                names.retain(|name, d| *d != digit || !names::is_of_atoms(name));
                names.insert(named, digit);
            }
        }
        // What other shapes of the instruction have several steps of has a loop of one step.
        for (single, parts) in layouts.iter().filter_map(|l| Some((l.single?, &l.parts))) {
            let (digit, [first, .., last]) = (single.digit(*inner), &parts[..]) else { continue };
            body.body = match single.stride > first.stride {
                true => split::around_once(&body.body, digit, first.digit(*inner)),
                false if exists(&body, digit) => body.body,
                false => split::inside(&body.body, digit, last.digit(*inner)),
            };
            names.insert(format!("{axis}.{}", single.name), digit);
        }
    }
    let [a, b] = sum.factors;
    let [m, n, k] = sum.axes.map(|axis| nest.axis(axis).to_string());
    let [x, y, z] = atom.row().shape;
    proof.facts.push(format!(
        "`{name}` sums products of `{a}` over ({m}, {k}) and `{b}` over ({k}, {n}): {x}×{y}×{z} at once"
    ));
    Ok((Nest { names, combine, ..body }, proof))
}

/// The axes of a value's products of which an atom takes rows, columns and points of the sum at once, operands not swapped.
pub(crate) fn axes(nest: &Nest, value: ValueId, atom: Atom) -> Option<[AxisId; 3]> {
    sum_of(nest, value, precision::chosen(nest, value, atom), false).ok().map(|sum| sum.axes)
}

/// What a value sums.
struct Sum {
    /// Names of the first and of the second operand.
    factors: [String; 2],
    /// m, n and k.
    axes: [AxisId; 3],
}

fn sum_of(nest: &Nest, value: ValueId, atom: Atom, swapped: bool) -> Result<Sum, Failure> {
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
    let factors = product.map_err(|why| here(no_product(name, atom, why)))?;
    let tensors = factors.map(|f| nest.factor_name(f));
    let types = factors.map(|f| nest.factor_dtype(f));
    for ((factor, dtype), tensor) in factors.into_iter().zip(types).zip(&tensors) {
        if row.multiplies(dtype) {
            continue;
        }
        let known: Vec<String> = row.operands.iter().map(|(d, _)| d.to_string()).collect();
        let what = if let Factor::Load(_) = factor { "" } else { "what is computed from " };
        let text = format!(
            "{what}`{tensor}` is {dtype}: `{atom}` multiplies {}, and no schedule changes the precision of a product",
            known.join(" or ")
        );
        let failure = match factor {
            Factor::Load(access) => {
                refuse(text).note(nest.access(access).span, format!("`{tensor}` is read here"))
            }
            Factor::Computed(_) => here(refuse(text)),
        };
        return Err(precision::advice(failure, dtype));
    }
    let [x, y] = factors;
    if types[0] != types[1] && !row.mixed {
        return Err(here(refuse(format!(
            "`{atom}` multiplies two factors of one type, not {} and {}",
            types[0], types[1]
        ))));
    }
    let axes = [nest.factor_axes(x), nest.factor_axes(y)];
    let candidates = |of: &dyn Fn(AxisId) -> bool| -> Vec<AxisId> {
        (0..nest.kernel.axes.len() as u16).map(AxisId).filter(|a| of(*a)).collect()
    };
    let digit = |a: &AxisId| innermost_digit(nest, value, *a).filter(|d| d.stride == 1);
    let last = |of: &dyn Fn(AxisId) -> bool| {
        let all = candidates(of);
        all.iter().rev().copied().find(|a| digit(a).is_some()).or(all.last().copied())
    };
    let own = |a: AxisId, mine: usize| {
        info.axes.contains(&a) && axes[mine].contains(&a) && !axes[1 - mine].contains(&a)
    };
    let (first, second) = (last(&|a| own(a, 0)), last(&|a| own(a, 1)));
    // Of several axes that are summed over, the last one whose loop the atom divides.
    let summed = |a: AxisId| !info.axes.contains(&a) && axes[0].contains(&a) && axes[1].contains(&a);
    let divided = |a: &AxisId| {
        digit(a).is_some_and(|d| matches!(d.steps, Steps::Fixed(n) if n % atom.size(Role::K) == 0))
    };
    let k = candidates(&summed).into_iter().rev().find(divided).or_else(|| last(&summed));
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
    // Columns are the later axis of the kernel, as results are stored along it, unless the schedule says otherwise.
    let in_order = (first < second) != swapped;
    let columns = factors[usize::from(in_order)];
    if row.descriptors
        && let Factor::Computed(expr) = columns
        && columns.element().is_none()
    {
        let what = nest.factor_name(Factor::Computed(expr));
        let core = |atom, swapped| directive::TensorCore { value: name.clone(), atom, swapped };
        // Rows may be computed.
        let turned = factors[usize::from(!in_order)].element().map(|_| core(atom, !swapped));
        return Err(here(refuse(format!(
            "the factor of `{name}` with its columns is computed from `{what}`: `{atom}` reads it from shared memory"
        )))
        .edits(turned.into_iter().chain([core(Atom::MMA, swapped)]).map(|core| Edit::instead([core]))));
    }
    let [x, y] = tensors;
    Ok(if in_order {
        Sum { factors: [x, y], axes: [first, second, k] }
    } else {
        Sum { factors: [y, x], axes: [second, first, k] }
    })
}

fn no_product(name: &str, atom: Atom, why: NoProduct) -> Failure {
    match why {
        NoProduct::Other => {
            refuse(format!("`{name}` does not sum products: `{atom}` multiplies two factors and adds"))
        }
        NoProduct::Rounded(to) => refuse(format!(
            "the products that `{name}` sums are rounded to {to} first: `{atom}` does not round them"
        ))
        .remark("convert the factors to f32, or write `dot`"),
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
    let tile = |points| DirectiveKind::Tile(directive::Tile { axis: name.to_string(), size: points });
    let Some(digit) = innermost_digit(nest, value, axis).filter(|d| d.stride == 1) else {
        return Err(refuse(format!(
            "`{value_name}` has no loop over the points of `{name}` inside: `{atom}` takes {size} of them at once"
        ))
        .edit(Edit::put([tile(size)])));
    };
    let loop_name = nest.digit_name(digit);
    let mut own = None;
    leaves(&nest.body, &mut |path, leaf| {
        if matches!(leaf, Stmt::Red { value: v, .. } if *v == value) {
            own = path.iter().find_map(|f| match f {
                Frame::For(d, LoopKind::Atom(other, _)) if *d == digit => Some(*other),
                _ => None,
            });
        }
    });
    if let Some(other) = own {
        return Err(refuse(format!("the loop over `{loop_name}` is part of another `{other}` already")));
    }
    match digit.steps {
        Steps::Fixed(n) if n % size == 0 => Ok(digit),
        Steps::Fixed(n) => {
            let text = format!(
                "`{atom}` takes {size} points of `{name}` at once, and `{loop_name}` has {n}: {n} is no multiple of {size}"
            );
            let of_tile = nest.names.get(&crate::nest::in_tile(name)) == Some(&digit);
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
        effects(graph, body)
            .writes
            .iter()
            .any(|w| w.target == Target::Value(value) && w.kind == facts::Kind::Red)
    };
    let place = |d: Digit| own.iter().position(|o| *o == d);
    let inverted = |graph: &Graph, body: egg::Id, a: Digit, b: Digit| {
        writes(graph, body) && place(a).is_some_and(|a| place(b).is_none_or(|b| a > b))
    };
    let mut rules = vec![
        reorder::rule(inverted),
        Rule::new("tensor_core", &THREE, &MARKED, |graph, subst| {
            let digits = [0, 2, 4].map(|n| digit(graph, get(subst, n)));
            let plain = [1, 3, 5].iter().all(|n| at(graph, get(subst, *n)) == LoopKind::Seq);
            let body = get(subst, 6);
            let leaf = graph[body].nodes.iter().any(|n| matches!(n, Node::Do(_)));
            if digits[..] != own[..] || !plain || !leaf || !writes(graph, body) {
                return Verdict::Skip;
            }
            for (var, role) in (7..).zip(ROLES) {
                let id = graph.add(Node::LoopKind(LoopKind::Atom(atom, role)));
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
    // Where another atom cut the axis, readers of the sums still have its pieces.
    let pieces: Vec<(Digit, Digit, Digit)> = loops(&nest.body)
        .into_iter()
        .filter(|(_, at)| *at == LoopKind::Seq)
        .filter_map(|(d, _)| {
            let atom = own[..2].iter().find(|o| o.axis == d.axis && o.stride == d.stride)?;
            let (Steps::Fixed(n), Steps::Fixed(m)) = (d.steps, atom.steps) else { return None };
            let (outer, inner) = d.cut(m);
            (n > m && n % m == 0 && !whole.contains(&d)).then_some((d, outer, inner))
        })
        .collect();
    rules.extend(pieces.iter().map(|(d, outer, inner)| split::rule(*d, vec![*outer, *inner])));
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([_, _, body]), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), _]) => {
            let cut = split.contains(d) || pieces.iter().any(|(p, ..)| p == d);
            if cut || own.contains(d) && writes(graph, *body) { Redex::Hard } else { Redex::No }
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
