//! What only the complete schedule shows, in the order of [`Shows`]: what is no directive's own is here, the rest in the files of the
//! directives ([`crate::directive`]).

mod boxes;
mod distribution;
mod expansion;
mod indices;
mod instructions;
pub(crate) mod registers;
mod shared;
mod target;
mod threads;

use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    index::AxisId,
    nest::{Digit, Nest},
    plan::Parts,
    schedule::{Directive, Schedule},
    shared::Allocation,
    span::SpanId,
};
use std::cell::OnceCell;

pub(crate) use registers::stage_value;
pub(crate) use shared::bytes as shared_bytes;

/// The scheduled nest and its schedule.
pub(crate) struct Context<'a> {
    pub nest: &'a Nest,
    pub schedule: &'a Schedule,
    /// What follows from the nest; each part with the reasons why something is not possible.
    pub plan: Parts<'a>,
    shared: OnceCell<Allocation>,
}

/// How many sizes to try for each directive that could be smaller.
const SIZES: u32 = 2;

/// What is looked at of a complete schedule, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shows {
    /// What the target has.
    Target,
    /// Threads and lanes, and which CTAs store.
    Threads,
    /// Reductions whose parts units hold.
    Reductions,
    /// Reductions whose parts CTAs hold.
    Parts,
    /// Values in registers, and how they are distributed.
    Values,
    /// Operands of atoms.
    Products,
    /// Indices.
    Indices,
    /// Vectors.
    Vectors,
    /// Boxes of copies.
    Boxes,
    /// Cache policies.
    Policies,
    /// Shared memory.
    Memory,
    /// Collected tiles, exchanged rows.
    Stores,
    /// CTAs that share copies.
    Clusters,
    /// Copies of one pipeline.
    Pipelines,
    /// Copies that others make.
    Producers,
    /// Registers that roles are given.
    Registers,
    /// Registers that instructions take.
    Instructions,
    /// Tiles that follow one another.
    Persistent,
    /// Accesses among the computation.
    Interleaving,
    /// Products in flight.
    Issue,
    /// Groups and steps in turn.
    Turns,
    /// Tiles of two sizes.
    Segments,
}

/// Something to look at, and its place in the order.
pub(crate) type Check = (Shows, fn(&Context<'_>) -> Vec<Diagnostic>);

/// What is no directive's own.
const WHOLE: [Check; 9] = [
    (Shows::Target, target::check),
    (Shows::Threads, threads::check),
    (Shows::Threads, threads::grid),
    (Shows::Values, registers::check),
    (Shows::Values, distribution::check),
    (Shows::Indices, indices::check),
    (Shows::Boxes, boxes::check),
    (Shows::Memory, shared::check),
    (Shows::Instructions, instructions::check),
];

/// Every violation, attributed to the directive that is responsible.
pub(crate) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut all: Vec<Check> = WHOLE.into_iter().chain(directive::CHECKS.iter().flatten().copied()).collect();
    all.sort_by_key(|(shows, _)| *shows);
    let mut wrong: Vec<Diagnostic> = all.into_iter().flat_map(|(_, check)| check(context)).collect();
    if wrong.is_empty() {
        // What does not fit is often too long as well.
        wrong.extend(expansion::check(context));
    }
    wrong
}

impl<'a> Context<'a> {
    /// A nest that a schedule led to.
    pub fn new(nest: &'a Nest, schedule: &'a Schedule) -> Self {
        Context { nest, schedule, plan: Parts::of(nest, schedule.target), shared: OnceCell::new() }
    }

    /// Shared memory.
    pub fn shared(&self) -> &Allocation {
        self.shared.get_or_init(|| Allocation::of(self.plan.using()))
    }

    /// Threads of the CTA that compute, all groups of them.
    pub(crate) fn computing(&self) -> u64 {
        self.plan.threads() * u64::from(self.nest.groups())
    }

    /// The last directive that satisfies a predicate.
    pub(crate) fn last(&self, of: impl Fn(&DirectiveKind) -> bool) -> Option<&Directive> {
        self.schedule.directives.iter().rev().find(|d| of(&d.kind))
    }

    /// A diagnostic on the responsible directive, on the source of the kernel where there is none.
    pub(crate) fn at(&self, directive: Option<&Directive>, otherwise: SpanId, message: String) -> Diagnostic {
        match directive {
            Some(d) => super::prover::with_parent(Diagnostic::new(d.span, message), d),
            None => Diagnostic::new(otherwise, message),
        }
    }

    /// The last directive that cuts an axis (`tile`, `split`), or binds a digit of it.
    pub(crate) fn cuts(&self, axis: AxisId) -> Option<&Directive> {
        let of_axis = |name: &str| {
            let digit =
                self.nest.names.get(name).or_else(|| self.nest.names.get(&crate::nest::in_tile(name)));
            digit.is_some_and(|d| d.axis == axis)
        };
        self.last(|k| match k {
            DirectiveKind::Tile(directive::Tile { axis: a, .. }) => self.nest.axis(axis) == a,
            DirectiveKind::Split(directive::Split { digit, .. }) => of_axis(digit),
            _ => false,
        })
        .or_else(|| {
            let dims = &self.nest.kernel.axes[usize::from(axis.0)].extent.dims;
            self.last(
                |k| matches!(k, DirectiveKind::Fits(directive::Fits { dim, .. }) if dims.contains_key(dim)),
            )
        })
    }

    /// Bounds at most one `shrink`-th as large, the largest first.
    pub(crate) fn smaller_bounds(&self, shrink: u64) -> Vec<Edit> {
        self.smaller(shrink, |kind, size| match kind {
            DirectiveKind::Fits(directive::Fits { dim, max }) => (size(*max) > 0)
                .then(|| DirectiveKind::Fits(directive::Fits { dim: dim.clone(), max: size(*max) })),
            _ => None,
        })
    }

    /// Tiles of some axes at most one `shrink`-th as large, the largest first.
    pub(crate) fn smaller_tiles(&self, shrink: u64, of: impl Fn(&str) -> bool) -> Vec<Edit> {
        self.smaller(shrink, |kind, size_of| match kind {
            DirectiveKind::Tile(directive::Tile { axis, size }) if of(axis) => (size_of(*size) > 0)
                .then(|| DirectiveKind::Tile(directive::Tile { axis: axis.clone(), size: size_of(*size) })),
            _ => None,
        })
    }

    /// Each directive made smaller by the power of two that is at least `shrink`, and by the next ones.
    pub(crate) fn smaller(
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
    pub(crate) fn is(&self, name: &str, digit: Digit) -> bool {
        let nest = self.nest;
        [crate::nest::over_tiles(name), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
    }

    /// The `bind` of a digit.
    pub(crate) fn bind_of(&self, digit: Digit) -> Option<&Directive> {
        let names = |name: &str| {
            let nest = self.nest;
            [crate::nest::in_tile(name), name.to_string()].iter().any(|n| nest.names.get(n) == Some(&digit))
        };
        self.last(|k| matches!(k, DirectiveKind::Bind(directive::Bind { digit, .. }) if names(digit)))
    }
}
