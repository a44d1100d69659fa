//! The passes of the lowering: what each does to a kernel. `super::PASSES` has their order.

use super::{build::Builder, context::Cx, emit, error::LowerError, grid::Grid, lowering::Lowering, roles};
use crate::{
    dtype::DType,
    kernel::{self, Kernel, Mem, Shared, lives, verify},
    plan::Plan,
    shared::{Allocation, Content},
};

/// The plan, as text.
pub(super) fn planned(lowering: &Lowering<'_>) -> String {
    lowering.plan.as_ref().map_or(String::new(), |plan| plan.text(lowering.nest()))
}

/// The buffers in shared memory, as text.
pub(super) fn allocated(lowering: &Lowering<'_>) -> String {
    lowering.shared.to_string()
}

/// The kernel, as text.
pub(super) fn made(lowering: &Lowering<'_>) -> String {
    lowering.kernel.to_string()
}

/// Works out what follows from the nest.
pub(super) fn plan(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let (nest, target) = (lowering.nest(), lowering.program.schedule.target);
    let plan = Plan::of(nest, target).map_err(|why| LowerError::Malformed(why.text(nest)))?;
    lowering.plan = Some(plan);
    Ok(())
}

/// Finds the buffers in shared memory, when each lives and where it lies.
pub(super) fn allocate(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let plan = lowering.plan.as_ref().expect("the pass before made it");
    lowering.shared = Allocation::of(plan.using(lowering.nest()));
    let buffers = lowering.shared.buffers.iter().map(|b| Shared {
        name: b.name.clone(),
        dtype: b.dtype,
        elems: u32::try_from(b.elems).unwrap_or(u32::MAX),
        align: b.align,
        start: b.start,
    });
    lowering.kernel.shared = buffers.collect();
    let (total, limit) = (lowering.shared.bytes, verify::shared_limit(lowering.kernel.target));
    if total <= limit {
        return Ok(());
    }
    let pile = lowering.shared.pile();
    let sum = pile.iter().map(|b| format!("{}: {}", b.name, b.bytes())).collect::<Vec<_>>().join(" + ");
    Err(LowerError::Malformed(format!("{total} bytes of shared memory ({sum}), the target has {limit}")))
}

/// Walks over the term of the nest.
pub(super) fn walk(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let plan = lowering.plan.as_ref().expect("the pass before made it");
    let Lowering { program, variant, given, shared, .. } = lowering;
    let mut cx = Cx::new(program, *variant, given, plan, shared);
    roles::kernel(&mut cx)?;
    let kernel = &mut lowering.kernel;
    let Builder { emit, params, frags, barriers, cursors, cleared, .. } = cx.build;
    kernel.cleared = cleared.into_iter().collect();
    (kernel.threads, kernel.grid) = (plan.threads(), Grid::axes(&plan.tiles));
    (lowering.barriers, lowering.cursors) = (barriers, cursors);
    (kernel.params, kernel.frags) = (params, frags);
    (kernel.body, kernel.vars) = emit.finish();
    Ok(())
}

/// Barriers between the uses of bytes by one buffer and by the next.
pub(super) fn separate_reuse(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    lives::begin(&mut lowering.kernel);
    Ok(())
}

/// Zeros in the buffers in which a part of a word may never be written, as loads of whole words would read it, and in those that count.
pub(super) fn clear_buffers(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let Lowering { shared, kernel, .. } = lowering;
    let counts = |content| content == Content::Again;
    let cleared = (0..).zip(&shared.buffers).filter(|(_, b)| b.halves || counts(b.content)).map(|(n, _)| n);
    let mut first: Vec<kernel::Stmt> = cleared.map(|buffer| clear(buffer, kernel)).collect();
    if !first.is_empty() {
        first.push(kernel::Stmt::Barrier);
        kernel.body.splice(0..0, first);
    }
    Ok(())
}

/// All threads write zeros to a shared buffer.
fn clear(buffer: u32, kernel: &mut Kernel) -> kernel::Stmt {
    let var = kernel::Var(kernel.vars.len() as u32);
    kernel.vars.push(DType::I32);
    let Shared { dtype, elems, .. } = kernel.shared[buffer as usize];
    let store = kernel::Stmt::Store {
        mem: Mem::Shared(buffer),
        offset: kernel::Expr::Var(var),
        values: vec![emit::literal(0.0, dtype).expr()],
        guard: None,
    };
    let end = kernel::Expr::Int(elems.into(), DType::I32);
    let step = kernel::Expr::Int(kernel.threads.into(), DType::I32);
    kernel::Stmt::For { var, start: kernel::Expr::Tid, end, step, body: vec![store] }
}

/// Where a dependent launch waits for the grids before it: behind what touches no global memory, such as the initial state of
/// mbarriers and zeros in shared memory.
pub(super) fn depend(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let kernel = &mut lowering.kernel;
    if kernel.dependent {
        let first = kernel.body.iter().position(kernel::Stmt::touches_global).unwrap_or(kernel.body.len());
        kernel.body.insert(first, kernel::Stmt::GridDependency);
    }
    Ok(())
}

/// Checks what code generation takes for granted.
pub(super) fn check(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    Ok(verify::verify(&lowering.kernel)?)
}
