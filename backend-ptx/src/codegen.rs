//! The walk over the kernel IR.

mod asynchronous;
mod atomic;
mod cluster;
mod control;
mod copy;
mod emit;
mod intrinsic;
mod lookback;
mod math;
mod matrix;
mod memory;
mod module;
mod pairs;
mod policy;
mod problem;
mod product;
mod scalar;
mod words;

use crate::{CompileError, Ptx};
use inkwell::{
    builder::{Builder, BuilderError},
    context::Context,
    module::Module,
    types::{BasicTypeEnum, FloatType},
    values::{BasicValueEnum, FloatValue, FunctionValue, IntValue, PointerValue},
};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};
use tile_dsl::{
    dtype::{DType, Float, Kind},
    kernel::{Expr, Kernel, Mem, Var},
    schedule::Evict,
};

pub(crate) fn compile(kernel: &Kernel) -> Result<Ptx> {
    let context = Context::create();
    let machine = emit::target_machine(kernel.target)?;
    let built = module::build(&context, &machine, kernel)?;
    emit::optimise(&built.module, &machine)?;
    let mut text = emit::ptx_text(&built.module, &machine)?;
    if let Some(level) = kernel.assemble {
        // For those who assemble the text by hand; the assembler itself takes its level from its caller.
        text.insert_str(0, &format!("// ptxas -O{level}\n"));
    }
    Ok(Ptx {
        text,
        assemble: kernel.assemble,
        entry: kernel.name.clone(),
        threads: kernel.threads,
        static_shared: built.static_shared,
        dynamic_shared: built.dynamic_shared,
    })
}

pub(crate) fn llvm_ir(kernel: &Kernel) -> Result<String> {
    let context = Context::create();
    let machine = emit::target_machine(kernel.target)?;
    let built = module::build(&context, &machine, kernel)?;
    emit::optimise(&built.module, &machine)?;
    Ok(built.module.print_to_string().to_string())
}

/// A value and its type in the kernel IR.
#[derive(Clone, Copy)]
struct Value<'c> {
    llvm: BasicValueEnum<'c>,
    ty: DType,
}

/// Where a variable of the kernel IR lives.
#[derive(Clone, Copy)]
enum Place<'c> {
    /// Not assigned yet.
    Unset,
    /// Assigned in one place of the text: that SSA value.
    Value(BasicValueEnum<'c>),
    /// Assigned in several places, one of them a visit: a stack slot that `mem2reg` removes.
    Slot(PointerValue<'c>),
}

/// State of the walk.
struct Codegen<'c, 'k> {
    context: &'c Context,
    module: &'k Module<'c>,
    builder: Builder<'c>,
    kernel: &'k Kernel,
    function: FunctionValue<'c>,
    /// Values of [`Kernel::params`]; of a grouped kernel, those of the current problem.
    params: Vec<BasicValueEnum<'c>>,
    /// A pointer to each shared buffer.
    shared: Vec<PointerValue<'c>>,
    /// A stack slot for each register slot of each fragment, or for each word of it; `mem2reg` removes them.
    frags: Vec<Vec<PointerValue<'c>>>,
    /// The fragments of words.
    words: HashSet<u32>,
    /// What was put last into slots, those of f32 aside, in this straight line of statements.
    stored: HashMap<PointerValue<'c>, BasicValueEnum<'c>>,
    /// What was rounded to values of 8 bits, and to what type.
    rounded: RefCell<HashMap<IntValue<'c>, (FloatValue<'c>, DType)>>,
    /// How elements of 16 bits were made.
    made: RefCell<HashMap<FloatValue<'c>, pairs::Made<'c>>>,
    vars: Vec<Place<'c>>,
    /// The variables of 64 bits that are sums, and their summands.
    sums: HashMap<Var, (Expr, Expr)>,
    /// The variables that are the thread's number, which are divided by multiples of 32 through `warp`.
    threads: HashSet<Var>,
    /// The number of this thread's warp, the same in all its lanes as far as the assembler can see: what derives from it goes
    /// to uniform registers. Only where warpgroups multiply.
    warp: Option<IntValue<'c>>,
    /// Cache policies of tensors, each in a register.
    policies: HashMap<Evict, IntValue<'c>>,
    /// Addresses known in this straight line of statements, by buffer and offset.
    addresses: HashMap<(Mem, Var), PointerValue<'c>>,
}

type Result<T> = std::result::Result<T, CompileError>;

impl<'c> Codegen<'c, '_> {
    /// Behind this place, what was known of the statements so far may not hold.
    fn line_ends(&mut self) {
        self.addresses.clear();
        self.stored.clear();
    }

    fn llvm_type(&self, ty: DType) -> BasicTypeEnum<'c> {
        element_type(self.context, ty)
    }
}

/// The type of LLVM that has these numbers; nothing for floats of 8 bits.
fn float_type(context: &Context, float: Float) -> Option<FloatType<'_>> {
    match float {
        Float::F32 => Some(context.f32_type()),
        Float::F16 => Some(context.f16_type()),
        Float::BF16 => Some(context.bf16_type()),
        _ => None,
    }
}

/// The type of LLVM that holds an element: of a float that LLVM has no type for its bits, as they lie in memory; arithmetic is
/// that of `f32`, and casts do the rest.
fn element_type(context: &Context, dtype: DType) -> BasicTypeEnum<'_> {
    match dtype.format().kind {
        Kind::Bool => context.bool_type().into(),
        _ => stored_type(context, dtype),
    }
}

/// The type of LLVM that an element has in memory: of a truth value a byte.
fn stored_type(context: &Context, dtype: DType) -> BasicTypeEnum<'_> {
    let bits = match dtype.bytes() {
        1 => context.i8_type(),
        2 => context.i16_type(),
        4 => context.i32_type(),
        _ => context.i64_type(),
    };
    match dtype.float().and_then(|float| float_type(context, float)) {
        Some(float) => float.into(),
        None => bits.into(),
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T> {
    Err(CompileError::Malformed(what.into()))
}

impl From<BuilderError> for CompileError {
    fn from(e: BuilderError) -> Self {
        CompileError::Malformed(e.to_string())
    }
}
