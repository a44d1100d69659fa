//! The rewrite engine: from a tile kernel and a schedule to a proved nest.
//!
//! Each directive is one phase: the nest goes into a fresh e-graph, the rules of the directive's family,
//! instantiated for the digits it names, run until nothing grows, and the member with the fewest redexes left
//! comes out. The rest of the compiler sees [`apply`] and [`schedule`] only.
//!
//! | directive | family | rules |
//! |---|---|---|
//! | `fits`, `multiple`, `layout`, `occupancy`, `order`, `assemble`, `launch` | `assume` | facts for the launch |
//! | `produce`, `arrive`, `issue`, `registers`, `persistent`, `pingpong`, `alternate` | `roles` | facts about who executes what |
//! | `tile` | `tile` | split, reorder, fission, hoist, share |
//! | `split` | `split` | split |
//! | `recompute`, `fuse` | `place` | sink, recompute, fuse |
//! | `tensor_core` | `tensor_core` | split, reorder, tensor_core, spread |
//! | `reorder` | `reorder` | reorder |
//! | `stage`, `pad`, `swizzle` | `stage` | stage |
//! | `fragment` | `fragment` | stage |
//! | `pipeline` | `pipeline` | pipeline |
//! | `interleave` | `interleave` | a fact about how its accesses are issued |
//! | `split_k` | `split_k` | split_k |
//! | `reduce`, `bind` | `reduce`, `bind` | bind |
//! | `unroll`, `serpentine`, `vectorize` | `expand` | unroll, serpentine, vectorize |
//! | `exchange` | `exchange` | a fact about how a tensor is stored |
//! | `cache` | `cache` | a fact about how L2 keeps a tensor |
//! | `segment` | `segment` | a fact about the tiles of an axis |

mod checks;
mod defaults;
mod depends;
mod facts;
mod failure;
mod families;
mod language;
mod mend;
mod names;
mod phase;
mod prover;
mod rule;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use testing::random_schedule;

pub use failure::{Failure, FailureKind, Proof};
pub use mend::MOST_TRIALS;
pub use prover::{Mistake, Prover};

use crate::{
    diagnostic::{Diagnostic, Edit},
    dtype::DType,
    nest::{self, Nest},
    program::Program,
    schedule::{Directive, DirectiveKind, Schedule, Target},
    span::SpanId,
    tile,
};
use families::{
    assume, bind, cache, cluster, exchange, expand, fragment, interleave, pipeline, place, reduce, reorder,
    roles, segment, split, split_k, stage, tensor_core,
};

/// Most values, accesses, tensors and axes a nest may have: sets of them are machine words.
const MOST_NAMES: usize = 128;

/// Whether a kernel is one that schedules can be proved for.
///
/// # Errors
/// A loop that carries what is no reduction; more names than the engine has room for.
pub fn schedulable(kernel: &tile::Kernel) -> Result<(), Diagnostic> {
    let dtype = kernel.generic.as_ref().map(|_| DType::F32);
    let nest = nest::initial(&kernel.instantiate(dtype))?;
    match crowded(&nest) {
        Some((what, n)) => Err(Diagnostic::new(
            SpanId::NONE,
            format!("the kernel has {n} {what}, and {MOST_NAMES} are the most"),
        )
        .remark("share it out among several kernels")),
        None => Ok(()),
    }
}

/// What a nest has more of than sets of them have room for.
fn crowded(nest: &Nest) -> Option<(&'static str, usize)> {
    let counts = [
        ("values", nest.values.len()),
        ("places where tensors are read or stored", nest.accesses.len()),
        ("tensors", nest.kernel.tensors.len()),
        ("axes", nest.kernel.axes.len()),
    ];
    counts.into_iter().find(|(_, n)| *n > MOST_NAMES)
}

/// Applies one directive.
///
/// # Errors
/// The diagnostic's span is the directive's.
pub fn apply(directive: &Directive, nest: &Nest, target: Target) -> Result<(Nest, Proof), Failure> {
    let result = match crowded(nest) {
        Some((what, n)) => Err(Failure::internal(format!("{n} {what}, {MOST_NAMES} are the most"))),
        None => dispatch(directive, nest, target),
    };
    match result {
        Ok((nest, proof)) => Ok((nest, Proof { directive: directive.kind.to_string(), ..proof })),
        Err(mut failure) => {
            failure.diagnostic.span = directive.span;
            failure.introduces = depends::introduces(&directive.kind);
            for (name, part) in &failure.parts {
                let renamed = depends::renamed(&directive.kind, name, part);
                failure.diagnostic.edits.push(Edit::instead([renamed]));
            }
            if let Some((name, meant)) = &failure.meant {
                failure.diagnostic.edits.push(Edit::rename(name, meant));
                // What follows may have used the right one.
                failure.introduces.extend([meant.clone(), format!("{meant}.o"), format!("{meant}.t")]);
            }
            Err(failure)
        }
    }
}

fn dispatch(directive: &Directive, nest: &Nest, _target: Target) -> Result<(Nest, Proof), Failure> {
    use DirectiveKind as D;
    match &directive.kind {
        D::Fits { dim, max } => assume::fits(nest, dim, *max),
        D::Multiple { dim, of } => assume::multiple(nest, dim, *of),
        D::Layout { tensor, column_major } => assume::layout(nest, tensor, *column_major),
        D::Tile { axis, size } => families::tile::apply(nest, axis, *size),
        D::Split { digit, names, factors } => split::apply(nest, digit, names, factors),
        D::Recompute { value } => place::apply_recompute(nest, value),
        D::Fuse { value, at } => place::apply_fuse(nest, value, at),
        D::TensorCore { value, atom, swapped } => tensor_core::apply(nest, value, *atom, *swapped),
        D::Reorder { digits, within } => reorder::apply(nest, digits, within.as_deref()),
        kind @ D::Stage { .. } => {
            stage::apply(nest, &stage::Request::of(kind, directive.span).expect("a `stage`"))
        }
        D::Fragment { buffer, at } => fragment::apply(nest, buffer, at, directive.span),
        D::Pad { buffer, bytes } => stage::pad(nest, buffer, *bytes),
        D::Swizzle { buffer, span } => stage::swizzle(nest, buffer, *span),
        D::Pipeline { digit, stages } => pipeline::apply(nest, digit, *stages),
        D::Interleave { digit, loads, copies, stores } => {
            interleave::apply(nest, digit, [*loads, *copies, *stores])
        }
        D::SplitK { digit, parts, across } => split_k::apply(nest, digit, *parts, *across),
        D::Reduce { value, level } => reduce::apply(nest, value, *level),
        D::Bind { digit, unit, dim, xor } => bind::apply(nest, digit, *unit, *dim, *xor),
        D::Unroll { digit, within } => expand::unroll(nest, digit, within.as_deref()),
        D::Serpentine { digit, within } => expand::serpentine(nest, digit, within.as_deref()),
        D::Vectorize { digit, within } => expand::vectorize(nest, digit, within.as_deref()),
        D::Exchange { tensor } => exchange::apply(nest, tensor, directive.span),
        D::Cache { tensor, evict } => cache::apply(nest, tensor, *evict),
        D::Produce { digit, unit } => roles::produce(nest, digit, *unit),
        D::Arrive { digit, unit } => roles::arrive(nest, digit, *unit),
        D::Issue { value, overwrite, in_flight } => roles::issue(nest, value, *overwrite, *in_flight),
        D::Registers { producer, consumer } => roles::registers(nest, *producer, *consumer),
        D::Persistent { ctas } => roles::persistent(nest, *ctas),
        D::Alternate { digit } => roles::alternate(nest, digit),
        D::Pingpong { groups } => roles::pingpong(nest, *groups),
        D::Cluster { axis, ctas } => cluster::apply(nest, axis, *ctas),
        D::Segment { axis, points } => segment::apply(nest, axis, *points),
        D::Occupancy { ctas } => assume::occupancy(nest, *ctas),
        D::Order { order } => assume::order(nest, *order),
        D::Assemble { level } => assume::assemble(nest, *level),
        D::Launch { start } => assume::launch(nest, *start),
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
    let (nest, _) = proved(kernel, schedule, dtype, MOST_TRIALS)?;
    Ok(Program { schedule: schedule.clone(), dtype, nest })
}

/// As [`schedule`], with the proof of each directive, and without looking for help.
///
/// # Errors
/// As [`schedule`].
pub fn prove(
    kernel: &tile::Kernel,
    schedule: &Schedule,
    dtype: Option<DType>,
) -> Result<(Nest, Vec<Proof>), Vec<Diagnostic>> {
    proved(kernel, schedule, dtype, 0)
}

fn proved(
    kernel: &tile::Kernel,
    schedule: &Schedule,
    dtype: Option<DType>,
    trials: u32,
) -> Result<(Nest, Vec<Proof>), Vec<Diagnostic>> {
    let proved = Prover::new(kernel.clone()).prove(schedule, &[dtype], trials);
    let mut proved = proved.map_err(|mistakes| mistakes.into_iter().map(|(d, _)| d).collect::<Vec<_>>())?;
    Ok(proved.remove(0))
}

/// What a phase of a schedule made.
pub struct Applied {
    /// Name of the phase: `stage`.
    pub name: String,
    /// Its directives, as written.
    pub directives: Vec<String>,
    /// The nest after them.
    pub nest: Nest,
}

/// The nests of a proved program: as the kernel has it, after each phase of its schedule, after the defaults.
///
/// # Errors
/// The directive that does not apply; none for a program of this version.
pub fn phases(program: &Program) -> Result<Vec<Applied>, Diagnostic> {
    let mut nest = nest::initial(&program.nest.kernel)?;
    let mut done = vec![Applied { name: "initial".into(), directives: vec![], nest: nest.clone() }];
    for directives in program.schedule.in_order().chunk_by(|a, b| a.kind.phase() == b.kind.phase()) {
        for directive in directives {
            nest = apply(directive, &nest, program.schedule.target).map_err(|f| *f.diagnostic)?.0;
        }
        let name = directives.first().map(|d| d.kind.phase().to_string()).unwrap_or_default();
        let directives = directives.iter().map(ToString::to_string).collect();
        done.push(Applied { name, directives, nest: nest.clone() });
    }
    let nest = defaults::apply(&nest).map_err(|f| *f.diagnostic)?;
    done.push(Applied { name: "defaults".into(), directives: vec![], nest });
    Ok(done)
}

/// Shared memory that a scheduled nest takes, in bytes. Buffers that live at other times share bytes.
pub fn shared_bytes(nest: &Nest) -> u64 {
    checks::shared_bytes(nest)
}
