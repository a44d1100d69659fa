//! The text of each stage of a program's compilation.

use crate::{compile::lower_program, error::Error, schedule::AnySchedule};
use tile_dsl::{
    dtype::DType,
    program::{Program, Variant},
};

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Tile IR: the kernel as written.
    Tile,
    /// Nest IR: the scheduled loops.
    Nest,
    /// Kernel IR: threads, shared memory, barriers.
    Kernel,
    /// LLVM IR after the passes.
    Llvm,
    /// PTX.
    Ptx,
}

/// Text of a stage of a schedule, for an element type and a variant. The first two stages have one text for all
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
    let bytes = schedule.program(dtype).ok_or_else(|| Error::not_admitted(schedule, dtype))?;
    let program = Program::from_bytes(bytes)
        .map_err(|source| Error::Program { schedule: schedule.name().into(), source })?;
    emit_program(&program, variant, stage)
}

/// [`emit`] for a program at hand.
///
/// # Errors
/// When the program cannot be lowered or compiled.
pub fn emit_program(program: &Program, variant: Variant, stage: Stage) -> Result<String, Error> {
    Ok(match stage {
        Stage::Tile => program.nest.kernel.to_string(),
        Stage::Nest => program.nest.to_string(),
        Stage::Kernel => lower_program(program, variant)?.to_string(),
        Stage::Llvm => backend_ptx::llvm_ir(&lower_program(program, variant)?)?,
        Stage::Ptx => backend_ptx::compile(&lower_program(program, variant)?)?.text,
    })
}
