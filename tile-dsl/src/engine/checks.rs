//! What only the complete schedule shows. In this order:
//! what the target has, threads and lanes, stores of CTAs, reductions, reductions across CTAs, values in registers, distributions, operands of atoms, indices, vectors, boxes, cache policies, shared memory, collected tiles, exchanged rows, roles, accesses among the computation, products in flight, turns, segments, length of the code.

mod across;
mod atoms;
mod boxes;
mod cluster;
mod distribution;
mod exchanges;
mod expansion;
mod hints;
mod indices;
mod interleave;
mod issue;
mod outputs;
mod registers;
mod roles;
mod segments;
mod shared;
mod threads;
mod turns;

use crate::{
    diagnostic::{Diagnostic, Edit},
    index::AxisId,
    nest::{Digit, Frame, LoopKind, Nest, ValueId, leaves},
    plan::{Boxes, Stores, Unboxed},
    schedule::{Directive, DirectiveKind, Schedule, Unit},
    span::SpanId,
};

pub(super) use registers::stage_value;
pub(super) use shared::bytes as shared_bytes;

/// The scheduled nest and its schedule.
pub(super) struct Context<'a> {
    pub nest: &'a Nest,
    pub schedule: &'a Schedule,
    /// What copies take of their tensors; without it, only the reason is reported.
    pub boxes: Result<Boxes, Unboxed>,
    /// How what is stored leaves a CTA; each with the reason where it cannot.
    pub stores: Stores,
}

/// How many sizes to try for each directive that could be smaller.
const SIZES: u32 = 2;

/// Every violation, attributed to the directive that is responsible.
pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut wrong = atoms::target(context);
    wrong.extend(threads::check(context));
    wrong.extend(threads::grid(context));
    wrong.extend(reductions(context));
    wrong.extend(across::check(context));
    wrong.extend(registers::check(context));
    wrong.extend(distribution::check(context));
    wrong.extend(atoms::check(context));
    wrong.extend(indices::check(context));
    wrong.extend(vectors(context));
    wrong.extend(boxes::check(context));
    wrong.extend(hints::check(context));
    wrong.extend(shared::check(context));
    wrong.extend(outputs::check(context));
    wrong.extend(exchanges::check(context));
    wrong.extend(cluster::check(context));
    wrong.extend(roles::check(context));
    wrong.extend(interleave::check(context));
    wrong.extend(issue::check(context));
    wrong.extend(turns::check(context));
    wrong.extend(segments::check(context));
    if wrong.is_empty() {
        // What does not fit is often too long as well.
        wrong.extend(expansion::check(context));
    }
    wrong
}

impl<'a> Context<'a> {
    /// A nest that a schedule led to, with what the plan says of it.
    pub fn new(nest: &'a Nest, schedule: &'a Schedule) -> Self {
        Context { nest, schedule, boxes: Boxes::of(nest), stores: Stores::of(nest) }
    }

    /// The last directive that satisfies a predicate.
    fn last(&self, of: impl Fn(&DirectiveKind) -> bool) -> Option<&Directive> {
        self.schedule.directives.iter().rev().find(|d| of(&d.kind))
    }

    /// A diagnostic on the responsible directive, on the source of the kernel where there is none.
    fn at(&self, directive: Option<&Directive>, otherwise: SpanId, message: String) -> Diagnostic {
        match directive {
            Some(d) => super::prover::with_parent(Diagnostic::new(d.span, message), d),
            None => Diagnostic::new(otherwise, message),
        }
    }

    /// The last directive that cuts an axis (`tile`, `split`), or binds a digit of it.
    fn cuts(&self, axis: AxisId) -> Option<&Directive> {
        let of_axis = |name: &str| {
            let digit = self.nest.names.get(name).or_else(|| self.nest.names.get(&format!("{name}.t")));
            digit.is_some_and(|d| d.axis == axis)
        };
        self.last(|k| match k {
            DirectiveKind::Tile { axis: a, .. } => self.nest.axis(axis) == a,
            DirectiveKind::Split { digit, .. } => of_axis(digit),
            _ => false,
        })
        .or_else(|| {
            let dims = &self.nest.kernel.axes[usize::from(axis.0)].extent.dims;
            self.last(|k| matches!(k, DirectiveKind::Fits { dim, .. } if dims.contains_key(dim)))
        })
    }

    /// Bounds at most one `shrink`-th as large, the largest first.
    fn smaller_bounds(&self, shrink: u64) -> Vec<Edit> {
        self.smaller(shrink, |kind, size| match kind {
            DirectiveKind::Fits { dim, max } => {
                (size(*max) > 0).then(|| DirectiveKind::Fits { dim: dim.clone(), max: size(*max) })
            }
            _ => None,
        })
    }

    /// Tiles of some axes at most one `shrink`-th as large, the largest first.
    fn smaller_tiles(&self, shrink: u64, of: impl Fn(&str) -> bool) -> Vec<Edit> {
        self.smaller(shrink, |kind, size_of| match kind {
            DirectiveKind::Tile { axis, size } if of(axis) => {
                (size_of(*size) > 0).then(|| DirectiveKind::Tile { axis: axis.clone(), size: size_of(*size) })
            }
            _ => None,
        })
    }

    /// Each directive made smaller by the power of two that is at least `shrink`, and by the next ones.
    fn smaller(
        &self,
        shrink: u64,
        variant: impl Fn(&DirectiveKind, &dyn Fn(u32) -> u32) -> Option<DirectiveKind>,
    ) -> Vec<Edit> {
        let least = shrink.max(2).next_power_of_two().trailing_zeros();
        let sizes = least..least.saturating_add(SIZES);
        sizes
            .flat_map(|by| {
                let size = move |n: u32| n.checked_shr(by).unwrap_or(0);
                self.schedule.directives.iter().filter_map(|d| variant(&d.kind, &size)).collect::<Vec<_>>()
            })
            .map(|kind| Edit::put([kind]))
            .collect()
    }

    /// Whether the name of a tile loop is that of a digit.
    fn is(&self, name: &str, digit: Digit) -> bool {
        let nest = self.nest;
        [format!("{name}.o"), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
    }

    /// The `bind` of a digit.
    fn bind_of(&self, digit: Digit) -> Option<&Directive> {
        let names = |name: &str| {
            let nest = self.nest;
            [format!("{name}.t"), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
        };
        self.last(|k| matches!(k, DirectiveKind::Bind { digit, .. } if names(digit)))
    }
}

/// `reduce(v: ..)` has something to combine.
fn reductions(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let combined = |v: ValueId| {
        let mut found = false;
        leaves(&nest.body, &mut |path, leaf| {
            let writes = matches!(leaf, crate::nest::Stmt::Red { value, .. } if *value == v);
            let bound = path
                .iter()
                .any(|f| matches!(f, Frame::For(d, LoopKind::Unit(unit, _)) if *unit != Unit::Block && !nest.value(v).axes.contains(&d.axis)));
            found |= writes && bound;
        });
        found
    };
    nest.combine
        .iter()
        .filter(|(v, _)| !combined(**v))
        .map(|(v, level)| {
            let value = nest.value(*v);
            let text = format!(
                "`reduce({}: {level})` has nothing to combine: no loop over an axis that `{}` is reduced over is bound",
                value.name, value.name
            );
            let reduce =
                context.last(|k| matches!(k, DirectiveKind::Reduce { value: name, .. } if *name == value.name));
            context
                .at(reduce, value.span, text)
                .note(value.span, format!("`{}` is computed here", value.name))
                .edits([Edit::instead([])])
        })
        .collect()
}

/// Inside a vectorized loop nothing loops at run time: the vector is one memory instruction.
fn vectors(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let mut found: Vec<(Digit, Digit)> = Vec::new();
    leaves(&nest.body, &mut |path, _| {
        let vec = path.iter().position(|f| matches!(f, Frame::For(_, LoopKind::Vec)));
        let Some(Frame::For(vec, _)) = vec.map(|n| &path[n]) else { return };
        let runtime = path.iter().skip_while(|f| !matches!(f, Frame::For(_, LoopKind::Vec)));
        for frame in runtime {
            if let Frame::For(inner, LoopKind::Seq | LoopKind::Pipe(_)) = frame
                && !found.contains(&(*vec, *inner))
            {
                found.push((*vec, *inner));
            }
        }
    });
    found
        .into_iter()
        .map(|(vec, inner)| {
            let (v, i) = (nest.digit_name(vec), nest.digit_name(inner));
            let text =
                format!("the loop over `{i}` runs inside the vectorized `{v}`: a vector is one instruction");
            let names = |name: &str| {
                [format!("{name}.t"), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&vec))
            };
            let by = context.last(|k| matches!(k, DirectiveKind::Vectorize { digit, .. } if names(digit)));
            let diagnostic = context.at(by, SpanId::NONE, text);
            let reorder = DirectiveKind::Reorder { digits: vec![i, v], within: None };
            diagnostic.edits([Edit::put([reorder])])
        })
        .collect()
}
