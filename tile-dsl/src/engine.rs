//! The rewrite engine: from a tile kernel and a schedule to a proved nest.
//!
//! Each directive is one phase: the nest goes into a fresh e-graph, the rules of the directive's family,
//! instantiated for the digits it names, run until nothing grows, and the member with the fewest redexes left
//! comes out. The rest of the compiler sees [`apply`] and [`schedule`] only.
//!
//! What a directive does is said in its file ([`crate::directive`]); rules that several share are in `families`.

mod certificate;
pub(crate) mod checks;
mod defaults;
mod depends;
mod derivation;
mod explain;
pub(crate) mod facts;
pub(crate) mod failure;
pub(crate) mod families;
pub(crate) mod language;
mod mend;
pub(crate) mod names;
pub(crate) mod phase;
mod prover;
pub(crate) mod rule;
#[doc(hidden)]
pub mod testing;

#[doc(hidden)]
pub use testing::random_schedule;

pub use certificate::{Certificate, Move, Step, certificate};
pub use depends::Name;
pub use derivation::{Derivation, Derived, derivation};
pub use failure::{Failure, FailureKind, Proof};
pub use mend::MOST_TRIALS;
pub use prover::{Mistake, Prover};

use crate::{
    diagnostic::{Diagnostic, Edit},
    dtype::DType,
    nest::{self, Nest},
    program::Program,
    schedule::{Directive, Schedule},
    span::SpanId,
    tile,
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
pub fn apply(directive: &Directive, nest: &Nest) -> Result<(Nest, Proof), Failure> {
    let result = match crowded(nest) {
        Some((what, n)) => Err(Failure::internal(format!("{n} {what}, {MOST_NAMES} are the most"))),
        None => directive.kind.apply(nest, directive.span),
    };
    match result {
        Ok((nest, proof)) => Ok((nest, Proof { directive: directive.kind.to_string(), ..proof })),
        Err(mut failure) => {
            failure.diagnostic.span = directive.span;
            failure.introduces = directive.kind.gives();
            for (name, part) in &failure.parts {
                let renamed = depends::renamed(&directive.kind, name, part);
                failure.diagnostic.edits.push(Edit::instead([renamed]));
            }
            if let Some((name, meant)) = &failure.meant {
                failure.diagnostic.edits.push(Edit::rename(name, meant));
                // What follows may have used the right one.
                failure.introduces.extend(Name::loops_of(meant));
            }
            Err(failure)
        }
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
    let mut nest = nest::initial(program.nest.source())?;
    let mut done = vec![Applied { name: "initial".into(), directives: vec![], nest: nest.clone() }];
    for directives in program.schedule.in_order().chunk_by(|a, b| a.kind.phase() == b.kind.phase()) {
        for directive in directives {
            nest = apply(directive, &nest).map_err(|f| *f.diagnostic)?.0;
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
