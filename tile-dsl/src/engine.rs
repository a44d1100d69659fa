//! The rewrite engine: from a tile kernel and a schedule to a proved nest.
//!
//! Each directive is one phase: the nest goes into a fresh e-graph, the rules of the directive's family,
//! instantiated for the digits it names, run until nothing grows, and the member with the fewest redexes left
//! comes out. The rest of the compiler sees [`apply`] and [`schedule`] only.
//!
//! | directive | family | rules |
//! |---|---|---|
//! | `fits`, `layout`, `occupancy`, `order`, `assemble` | `assume` | facts for the launch |
//! | `tile` | `tile` | split, reorder, fission, hoist |
//! | `split` | `split` | split |
//! | `recompute`, `fuse` | `place` | sink, recompute, fuse |
//! | `reorder` | `reorder` | reorder |
//! | `stage`, `pad`, `swizzle` | `stage` | stage |
//! | `fragment` | `fragment` | stage |
//! | `pipeline` | `pipeline` | pipeline |
//! | `split_k` | `split_k` | split_k |
//! | `reduce`, `bind` | `reduce`, `bind` | bind |
//! | `unroll`, `serpentine`, `vectorize` | `expand` | unroll, serpentine, vectorize |

mod checks;
mod defaults;
mod depends;
mod facts;
mod failure;
mod families;
mod language;
mod names;
mod phase;
mod rule;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use testing::random_schedule;

pub use failure::{Failure, FailureKind, Proof};

use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    nest::{self, Nest},
    program::Program,
    schedule::{Directive, DirectiveKind, Schedule, Target},
    tile,
};
use families::{assume, bind, expand, fragment, pipeline, place, reduce, reorder, split, split_k, stage};

/// Most values, accesses, tensors and axes a nest may have: sets of them are machine words.
const MOST_NAMES: usize = 128;

/// Applies one directive.
///
/// # Errors
/// The diagnostic's span is the directive's.
pub fn apply(directive: &Directive, nest: &Nest, target: Target) -> Result<(Nest, Proof), Failure> {
    let names = [nest.values.len(), nest.accesses.len(), nest.kernel.tensors.len(), nest.kernel.axes.len()];
    let result = match names.into_iter().max() {
        Some(n) if n > MOST_NAMES => {
            Err(Failure::internal(format!("{n} names in one kernel, {MOST_NAMES} are the most")))
        }
        _ => dispatch(directive, nest, target),
    };
    match result {
        Ok((nest, proof)) => Ok((nest, Proof { directive: directive.kind.to_string(), ..proof })),
        Err(mut failure) => {
            failure.diagnostic.span = directive.span;
            failure.introduces = depends::introduces(&directive.kind);
            Err(failure)
        }
    }
}

fn dispatch(directive: &Directive, nest: &Nest, _target: Target) -> Result<(Nest, Proof), Failure> {
    use DirectiveKind as D;
    match &directive.kind {
        D::Fits { dim, max } => assume::fits(nest, dim, *max),
        D::Layout { tensor, column_major } => assume::layout(nest, tensor, *column_major),
        D::Tile { axis, size } => families::tile::apply(nest, axis, *size),
        D::Split { digit, names, factors } => split::apply(nest, digit, names, factors),
        D::Recompute { value } => place::apply_recompute(nest, value),
        D::Fuse { value, at } => place::apply_fuse(nest, value, at),
        D::Reorder { digits, within } => reorder::apply(nest, digits, within.as_deref()),
        D::Stage { buffer, at, space, transposed, via, vector } => stage::apply(
            nest,
            &stage::Request {
                buffer,
                at: at.as_deref(),
                space: *space,
                transposed: *transposed,
                via: *via,
                vector: *vector,
                span: directive.span,
            },
        ),
        D::Fragment { buffer, at } => fragment::apply(nest, buffer, at, directive.span),
        D::Pad { buffer, bytes } => stage::pad(nest, buffer, *bytes),
        D::Swizzle { buffer, span } => stage::swizzle(nest, buffer, *span),
        D::Pipeline { digit, stages } => pipeline::apply(nest, digit, *stages),
        D::SplitK { digit, parts, across } => split_k::apply(nest, digit, *parts, *across),
        D::Reduce { value, level } => reduce::apply(nest, value, *level),
        D::Bind { digit, unit, dim, xor } => bind::apply(nest, digit, *unit, *dim, *xor),
        D::Unroll { digit, within } => expand::unroll(nest, digit, within.as_deref()),
        D::Serpentine { digit, within } => expand::serpentine(nest, digit, within.as_deref()),
        D::Vectorize { digit, within } => expand::vectorize(nest, digit, within.as_deref()),
        D::Occupancy { ctas } => assume::occupancy(nest, *ctas),
        D::Order(order) => assume::order(nest, *order),
        D::Assemble { level } => assume::assemble(nest, *level),
    }
}

/// Applies a schedule to a kernel: all directives in order, then the defaults, then the final checks.
///
/// `dtype` is the element type of the kernel's generic parameter, `None` for a kernel without one.
///
/// # Errors
/// Every mistake that does not follow from an earlier one: after a directive that fails, checking continues
/// from the nest before it, and failures of directives that mention what it would have introduced are left out.
pub fn schedule(
    kernel: &tile::Kernel,
    schedule: &Schedule,
    dtype: Option<DType>,
) -> Result<Program, Vec<Diagnostic>> {
    let (nest, _) = prove(kernel, schedule, dtype)?;
    Ok(Program { schedule: schedule.clone(), dtype, nest })
}

/// As [`schedule`], with the proof of each directive.
///
/// # Errors
/// As [`schedule`].
pub fn prove(
    kernel: &tile::Kernel,
    schedule: &Schedule,
    dtype: Option<DType>,
) -> Result<(Nest, Vec<Proof>), Vec<Diagnostic>> {
    let kernel = kernel.instantiate(dtype);
    let (nest, proofs) = rewrite(&kernel, schedule)?;
    let legal = |other: &Schedule| {
        let found = failure::suggest(|| {
            let (nest, _) = rewrite(&kernel, other).ok()?;
            let context = checks::Context { nest: &nest, schedule: other, legal: &|_| false };
            checks::check(&context).is_empty().then_some(())
        });
        found.is_some()
    };
    let wrong = checks::check(&checks::Context { nest: &nest, schedule, legal: &legal });
    if wrong.is_empty() { Ok((nest, proofs)) } else { Err(wrong) }
}

/// All directives in order, then the defaults.
fn rewrite(kernel: &tile::Kernel, schedule: &Schedule) -> Result<(Nest, Vec<Proof>), Vec<Diagnostic>> {
    let mut nest = nest::initial(kernel).map_err(|d| vec![d])?;
    let (mut proofs, mut diagnostics, mut missing) = (Vec::new(), Vec::new(), Vec::<String>::new());
    for directive in schedule.in_order() {
        match apply(directive, &nest, schedule.target) {
            Ok((next, proof)) => {
                if let Some(wrong) = nest::verify(&next).first() {
                    let failure = Failure::internal(format!("after `{directive}`, {wrong}"));
                    return Err(vec![Diagnostic { span: directive.span, ..failure.diagnostic }]);
                }
                nest = next;
                proofs.push(proof);
            }
            Err(failure) => {
                // A name that an earlier directive failed to introduce is no second mistake.
                let mentioned = depends::mentions(&directive.kind);
                let follows = mentioned.iter().any(|m| missing.contains(m));
                missing.extend(failure.introduces);
                if !follows {
                    diagnostics.push(with_parent(failure.diagnostic, directive));
                }
            }
        }
    }
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let nest = defaults::apply(&nest).map_err(|f| vec![f.diagnostic])?;
    Ok((nest, proofs))
}

/// Shared memory that a scheduled nest takes, in bytes: an upper bound, buffers are not overlaid.
pub fn shared_bytes(nest: &Nest) -> u64 {
    checks::shared_bytes(nest)
}

/// Says where an inherited directive comes from.
fn with_parent(diagnostic: Diagnostic, directive: &Directive) -> Diagnostic {
    match &directive.inherited {
        Some(parent) => {
            let note = format!("`{}` is inherited from `{parent}`", directive.kind);
            diagnostic.note(directive.span, note)
        }
        None => diagnostic,
    }
}
