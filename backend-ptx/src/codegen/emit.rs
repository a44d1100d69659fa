//! Target machine, passes, PTX text.

use super::Result;
use crate::{CompileError, target};
use inkwell::{
    OptimizationLevel,
    llvm_sys::support::LLVMParseCommandLineOptions,
    module::Module,
    passes::PassBuilderOptions,
    targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple},
};
use std::sync::Once;

/// Short on purpose: loops are unrolled by the schedule alone, and what `opt -O3` adds trades registers for
/// instructions that ptxas would have merged anyway.
///
/// Chosen on the matmul ladder (H200, f32, 4096³ and 4095×4097×4093; best of four launches). `instcombine` in place
/// of `instsimplify` makes guarded kernels of large register tiles spill and costs up to 30 % (general variant of
/// 8×8 elements a thread: 24.5 against 35.6 TFLOP/s); leaving out `licm` costs up to 8 %. `infer-alignment` lets the
/// code generator merge loads of neighbouring elements; ptxas would too, but then the simulator, which runs the PTX,
/// would count other accesses than the GPU does.
const PASSES: &str = "function(nvvm-intr-range,mem2reg,instsimplify,early-cse<memssa>,simplifycfg,loop-mssa(licm),\
                      early-cse<memssa>,dce,infer-alignment)";

/// Initialises LLVM once in the life of the process.
fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        Target::initialize_nvptx(&InitializationConfig::default());
        let args = [
            c"tilewright".as_ptr(),
            // Pointers to shared memory take 32 bits.
            c"--nvptx-short-ptr".as_ptr(),
            // Blocks stay in the order of the source, so that threads that part meet again further down; ptxas
            // places blocks anyway.
            c"--disable-block-placement".as_ptr(),
            // Straight-line strength reduction searches exponentially in chains of guarded addresses: a copy of a hundred
            // rounds took minutes, and ptxas makes the same instructions of either. Offsets share their sums already.
            c"--opt-disable=slsr".as_ptr(),
        ];
        // SAFETY: the strings live forever, and the options exist in every LLVM 22 with the NVPTX target.
        unsafe { LLVMParseCommandLineOptions(args.len() as i32, args.as_ptr(), std::ptr::null()) };
    });
}

pub(super) fn target_machine(target: tile_dsl::schedule::Target) -> Result<TargetMachine> {
    initialise();
    let (cpu, features) = target::llvm_names(target)?;
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    Target::from_triple(&triple)
        .map_err(|e| CompileError::Llvm(e.to_string()))?
        .create_target_machine(
            &triple,
            &cpu,
            features,
            OptimizationLevel::Default,
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| CompileError::Llvm(format!("no target machine for {cpu}")))
}

pub(super) fn optimise(module: &Module<'_>, machine: &TargetMachine) -> Result<()> {
    module.verify().map_err(|e| CompileError::Malformed(e.to_string()))?;
    let options = PassBuilderOptions::create();
    options.set_loop_unrolling(false);
    module.run_passes(PASSES, machine, options).map_err(|e| CompileError::Llvm(e.to_string()))
}

pub(super) fn ptx_text(module: &Module<'_>, machine: &TargetMachine) -> Result<String> {
    let buffer = machine
        .write_to_memory_buffer(module, FileType::Assembly)
        .map_err(|e| CompileError::Llvm(e.to_string()))?;
    let bytes = buffer.as_slice();
    let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    String::from_utf8(text.to_vec()).map_err(|e| CompileError::Llvm(e.to_string()))
}
