//! The text of each stage of a program's compilation.

use crate::{
    compile::{lower_given, lower_program},
    error::Error,
    schedule::AnySchedule,
};
use backend_ptx::Ptx;
use tile_dsl::{
    dtype::DType,
    lower::Given,
    program::{Program, Variant},
};

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Tile IR: the kernel as written.
    Tile,
    /// Nest IR: the scheduled loops.
    Nest,
    /// The plan: tiles, roles, boxes and channels, worked out of the nest.
    Plan,
    /// Kernel IR: threads, shared memory, barriers.
    Kernel,
    /// The nest after each phase of the schedule, the kernel IR after each pass.
    Passes,
    /// LLVM IR after the passes.
    Llvm,
    /// PTX.
    Ptx,
}

/// Text of a stage of a schedule, for an element type and a variant. The first three stages have one text for all
/// variants.
///
/// # Errors
/// When the schedule does not admit the type, or the program cannot be lowered or compiled.
pub fn emit(
    schedule: &dyn AnySchedule,
    dtype: Option<DType>,
    variant: Variant,
    stage: Stage,
) -> Result<String, Error> {
    emit_program(&decode(schedule, dtype)?, variant, stage)
}

/// PTX of a schedule with what a launch of it needs, for an element type and a variant.
///
/// # Errors
/// As [`emit`].
pub fn ptx(schedule: &dyn AnySchedule, dtype: Option<DType>, variant: Variant) -> Result<Ptx, Error> {
    Ok(backend_ptx::compile(&lower_program(&decode(schedule, dtype)?, variant)?)?)
}

/// [`ptx`] of the kernel that computes several problems in one launch ([`grouped`](crate::grouped)).
///
/// # Errors
/// As [`emit`].
pub fn ptx_grouped(schedule: &dyn AnySchedule, dtype: Option<DType>, variant: Variant) -> Result<Ptx, Error> {
    let given = Given { grouped: true, ..Given::default() };
    Ok(backend_ptx::compile(&lower_given(&decode(schedule, dtype)?, variant, &given)?)?)
}

fn decode(schedule: &dyn AnySchedule, dtype: Option<DType>) -> Result<Program, Error> {
    let bytes = schedule.program(dtype).ok_or_else(|| Error::not_admitted(schedule, dtype))?;
    Program::from_bytes(bytes).map_err(|source| Error::Program { schedule: schedule.name().into(), source })
}

/// [`emit`] for a program at hand.
///
/// # Errors
/// When the program cannot be lowered or compiled.
pub fn emit_program(program: &Program, variant: Variant, stage: Stage) -> Result<String, Error> {
    emit_given(program, variant, &Given::default(), stage)
}

/// [`emit_program`] for launches of another kind: tensors with strides of their own, several problems.
/// [`Stage::Passes`] has one text for all kinds.
///
/// # Errors
/// As [`emit_program`].
pub fn emit_given(program: &Program, variant: Variant, given: &Given, stage: Stage) -> Result<String, Error> {
    let lower = || lower_given(program, variant, given);
    Ok(match stage {
        Stage::Tile => program.nest.kernel.to_string(),
        Stage::Nest => program.nest.to_string(),
        Stage::Plan => tile_dsl::passes::plan(program)
            .map_err(|e| Error::Lower { schedule: program.schedule.name.clone(), reason: e.to_string() })?,
        Stage::Kernel => lower()?.to_string(),
        Stage::Passes => tile_dsl::passes::passes(program, variant)
            .map_err(|e| Error::Lower { schedule: program.schedule.name.clone(), reason: e.to_string() })?,
        Stage::Llvm => backend_ptx::llvm_ir(&lower()?)?,
        Stage::Ptx => backend_ptx::compile(&lower()?)?.text,
    })
}
