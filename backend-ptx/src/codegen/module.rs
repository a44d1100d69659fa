//! The module around the body: entry, parameters and their attributes, shared memory, launch bounds.

use super::{Codegen, Place, Result, malformed, problem, stored_type, words};
use crate::STATIC_SHARED_LIMIT;
use inkwell::{
    AddressSpace,
    attributes::{Attribute, AttributeLoc},
    context::Context,
    llvm_sys::core::LLVMCreateConstantRangeAttribute,
    module::{Linkage, Module},
    targets::TargetMachine,
    types::{AnyType, BasicMetadataTypeEnum, BasicTypeEnum},
    values::{FunctionValue, PointerValue},
};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};
use tile_dsl::kernel::{Kernel, Param, Shared, Stmt, TENSOR_MAP_BYTES, Var};

/// Address spaces of NVPTX (LLVM's "User Guide for NVPTX Back-end").
pub(super) const GLOBAL: u16 = 1;
const SHARED: u16 = 3;
/// LLVM's number for the `ptx_kernel` calling convention.
const PTX_KERNEL: u32 = 71;

pub(super) struct Built<'c> {
    pub(super) module: Module<'c>,
    pub(super) static_shared: u32,
    pub(super) dynamic_shared: u32,
}

/// Builds the module, not yet optimised.
pub(super) fn build<'c>(context: &'c Context, machine: &TargetMachine, kernel: &Kernel) -> Result<Built<'c>> {
    let module = context.create_module(&kernel.name);
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());

    let function = match kernel.grouped {
        true => problem::declare_entry(context, &module, kernel),
        false => declare_entry(context, &module, kernel)?,
    };
    let shared = SharedMemory::declare(context, &module, kernel)?;
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));

    let mut codegen = Codegen {
        context,
        module: &module,
        builder,
        kernel,
        function,
        params: if kernel.grouped { Vec::new() } else { function.get_params() },
        shared: shared.pointers,
        frags: Vec::new(),
        words: words::fragments(kernel),
        stored: HashMap::new(),
        rounded: RefCell::default(),
        made: RefCell::default(),
        vars: vec![Place::Unset; kernel.vars.len()],
        sums: HashMap::new(),
        threads: HashSet::new(),
        warp: None,
        policies: HashMap::new(),
        addresses: HashMap::new(),
    };
    codegen.allocate_registers()?;
    codegen.make_policies()?;
    codegen.find_warp()?;
    codegen.block(&kernel.body)?;
    codegen.builder.build_return(None)?;
    drop(codegen);
    Ok(Built { module, static_shared: shared.static_bytes, dynamic_shared: shared.dynamic_bytes })
}

fn declare_entry<'c>(
    context: &'c Context,
    module: &Module<'c>,
    kernel: &Kernel,
) -> Result<FunctionValue<'c>> {
    let types: Vec<BasicMetadataTypeEnum> =
        kernel.params.iter().map(|p| param_type(context, p).map(Into::into)).collect::<Result<_>>()?;
    let function = add_entry(context, module, kernel, &types);
    for (i, param) in (0..).zip(&kernel.params) {
        let at = AttributeLoc::Param(i);
        let flag =
            |name, value| context.create_enum_attribute(Attribute::get_named_enum_kind_id(name), value);
        function.add_attribute(at, flag("noundef", 0));
        match param {
            // Read-only and not aliased: the loads become `ld.global.nc`, which asks for memory that nothing writes while the
            // kernel runs. Where the launch is dependent, earlier grids may.
            Param::Tensor { mutable, align, .. } => {
                function.add_attribute(at, flag("align", u64::from(*align)));
                if !mutable && !kernel.dependent {
                    function.add_attribute(at, flag("noalias", 0));
                    function.add_attribute(at, flag("readonly", 0));
                }
            }
            Param::Scratch { .. } => {
                function.add_attribute(at, flag("align", 16));
                function.add_attribute(at, flag("noalias", 0));
            }
            // Not negative: divisions by constants need no correction of the sign.
            Param::Dim(_) => function.add_attribute(at, dim_range(context)),
            Param::Scalar { .. } => {}
            // Without `grid_constant` it would be copied to local memory first.
            Param::TensorMap { .. } => {
                let bytes = context.i8_type().array_type(TENSOR_MAP_BYTES).as_any_type_enum();
                let byval = Attribute::get_named_enum_kind_id("byval");
                function.add_attribute(at, context.create_type_attribute(byval, bytes));
                function.add_attribute(at, flag("align", 64));
                function.add_attribute(at, context.create_string_attribute("nvvm.grid_constant", ""));
            }
        }
    }
    Ok(function)
}

/// The type of a parameter: a tensor map's is that of its address.
pub(super) fn param_type<'c>(context: &'c Context, param: &Param) -> Result<BasicTypeEnum<'c>> {
    Ok(match param {
        Param::Tensor { .. } | Param::Scratch { .. } => context.ptr_type(AddressSpace::from(GLOBAL)).into(),
        Param::TensorMap { .. } => context.ptr_type(AddressSpace::default()).into(),
        Param::Dim(_) => context.i32_type().into(),
        Param::Scalar { dtype, .. } => stored_type(context, *dtype),
    })
}

/// The entry with its launch bounds.
pub(super) fn add_entry<'c>(
    context: &'c Context,
    module: &Module<'c>,
    kernel: &Kernel,
    types: &[BasicMetadataTypeEnum<'c>],
) -> FunctionValue<'c> {
    let function = module.add_function(&kernel.name, context.void_type().fn_type(types, false), None);
    function.set_call_conventions(PTX_KERNEL);
    let text = |key, value: String| {
        function.add_attribute(AttributeLoc::Function, context.create_string_attribute(key, &value));
    };
    // Exactly these threads; `maxntid` beside it is an error of ptxas.
    text("nvvm.reqntid", format!("{},1,1", kernel.threads));
    if let Some(ctas) = kernel.min_ctas {
        text("nvvm.minctasm", ctas.to_string());
    }
    if let Some(ctas) = kernel.cluster {
        text("nvvm.cluster_dim", format!("{ctas},1,1"));
    }
    let nounwind = Attribute::get_named_enum_kind_id("nounwind");
    function.add_attribute(AttributeLoc::Function, context.create_enum_attribute(nounwind, 0));
    function
}

/// `range(i32 0, 2³¹)`.
fn dim_range(context: &Context) -> Attribute {
    let kind = Attribute::get_named_enum_kind_id("range");
    // SAFETY: `range` is a known kind that takes a constant range, and each bound has the one word that 32 bits need.
    unsafe {
        Attribute::new(LLVMCreateConstantRangeAttribute(
            context.raw(),
            kind,
            32,
            [0].as_ptr(),
            [1 << 31].as_ptr(),
        ))
    }
}

struct SharedMemory<'c> {
    pointers: Vec<PointerValue<'c>>,
    static_bytes: u32,
    dynamic_bytes: u32,
}

impl<'c> SharedMemory<'c> {
    /// A module variable for each buffer; one for all where some share bytes, and one dynamic allocation when they are too
    /// large together.
    fn declare(context: &'c Context, module: &Module<'c>, kernel: &Kernel) -> Result<Self> {
        let buffers = &kernel.shared;
        let Ok(end) = u32::try_from(kernel.shared_bytes()) else {
            return malformed("shared buffers are too large");
        };
        let bytes = |buffer: &Shared| u32::try_from(buffer.bytes()).expect("no larger than all together");
        let space = AddressSpace::from(SHARED);
        let byte = context.i8_type();
        let apart = kernel.rivals().iter().all(Vec::is_empty);
        if end <= STATIC_SHARED_LIMIT && apart {
            let pointers = buffers
                .iter()
                .map(|buffer| {
                    let ty = byte.array_type(bytes(buffer));
                    let global = module.add_global(ty, Some(space), &identifier(&buffer.name));
                    global.set_linkage(Linkage::Internal);
                    global.set_alignment(buffer.align);
                    global.set_initializer(&ty.get_undef());
                    global.as_pointer_value()
                })
                .collect();
            return Ok(SharedMemory { pointers, static_bytes: end, dynamic_bytes: 0 });
        }
        let fixed = end <= STATIC_SHARED_LIMIT;
        let ty = byte.array_type(if fixed { end } else { 0 });
        let name = if fixed { "shared_memory" } else { "dynamic_shared" };
        let global = module.add_global(ty, Some(space), name);
        if fixed {
            global.set_linkage(Linkage::Internal);
            global.set_initializer(&ty.get_undef());
        } else {
            global.set_linkage(Linkage::External);
        }
        global.set_alignment(buffers.iter().map(|b| b.align).max().unwrap_or(16).max(16));
        let base = global.as_pointer_value();
        let pointers = buffers
            .iter()
            .map(|buffer| {
                let index = context.i32_type().const_int(buffer.start, false);
                // SAFETY: there are `end` bytes, and `start` lies below.
                unsafe { base.const_in_bounds_gep(byte, &[index]) }
            })
            .collect();
        let (static_bytes, dynamic_bytes) = if fixed { (end, 0) } else { (0, end) };
        Ok(SharedMemory { pointers, static_bytes, dynamic_bytes })
    }
}

/// A PTX identifier for a name of the source: other characters become `_`.
fn identifier(name: &str) -> String {
    let tail: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    format!("shared_{tail}")
}

impl<'c> Codegen<'c, '_> {
    /// Stack slots for fragments and for variables with several assignments, all removed by `mem2reg`.
    fn allocate_registers(&mut self) -> Result<()> {
        for frag in &self.kernel.frags {
            let (ty, count) = match self.words.contains(&(self.frags.len() as u32)) {
                true => (self.word_type().into(), frag.slots / words::WORD),
                false => (self.llvm_type(frag.dtype), frag.slots),
            };
            let slots = (0..count).map(|_| Ok(self.builder.build_alloca(ty, &frag.name)?));
            let slots = slots.collect::<Result<Vec<_>>>()?;
            self.frags.push(slots);
        }
        let mut assignments = vec![0u32; self.kernel.vars.len()];
        count_assignments(&self.kernel.body, &mut assignments)?;
        for (var, &count) in assignments.iter().enumerate() {
            if count > 1 {
                let ty = self.llvm_type(self.kernel.vars[var]);
                self.vars[var] = Place::Slot(self.builder.build_alloca(ty, &format!("v{var}"))?);
            }
        }
        Ok(())
    }
}

fn count_assignments(body: &[Stmt], counts: &mut [u32]) -> Result<()> {
    let mut unknown = None;
    let mut count = |var: Var| match counts.get_mut(var.0 as usize) {
        Some(count) => *count += 1,
        None => unknown = Some(var),
    };
    body.iter().for_each(|stmt| stmt.each(&mut |stmt| stmt.defines(&mut count)));
    match unknown {
        Some(var) => malformed(format!("v{} is not in the table of variables", var.0)),
        None => Ok(()),
    }
}
