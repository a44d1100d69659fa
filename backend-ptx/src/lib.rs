//! Kernel IR to PTX through LLVM's NVPTX backend.
//!
//! [`compile`] is a plain walk: every decision about the code was made in the kernel IR. The stations, each
//! a module: `module` (entry, parameters, shared memory, attributes), `control` (statements), `scalar`
//! (expressions), `math` (functions that the hardware lacks), `memory` (loads and stores), `copy`
//! (asynchronous copies), `atomic` (additions and arrivals between CTAs), `intrinsic` (checked lookup), `emit` (passes, target machine, text).
//!
//! Without the feature `jit` (or `static-llvm`) the crate builds on a machine that has no LLVM, and
//! [`compile`] returns [`CompileError::NoCodegen`].

#[cfg(feature = "codegen")]
mod codegen;
mod error;
#[cfg(feature = "codegen")]
mod target;

pub use error::CompileError;
use tile_dsl::kernel::Kernel;

/// Names everything beside the kernel that decides what PTX it becomes, for cache keys: LLVM's version, this
/// crate's, and a fingerprint of its source.
pub const VERSION: &str =
    concat!("llvm 22.1, backend-ptx ", env!("CARGO_PKG_VERSION"), " ", env!("SOURCE_FINGERPRINT"));

/// Shared memory that a CTA has without asking, in bytes (CUDA C++ Programming Guide, compute capabilities).
pub const STATIC_SHARED_LIMIT: u32 = 48 * 1024;

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ptx {
    /// The module's text.
    pub text: String,
    /// Name of its entry.
    pub entry: String,
    /// Threads in a CTA, in x; the entry requires exactly these.
    pub threads: u32,
    /// Bytes of shared memory that the module declares itself.
    pub static_shared: u32,
    /// Optimisation level of the PTX assembler that the kernel asks for, 0 to 4; its own default when absent.
    pub assemble: Option<u32>,
    /// Bytes of dynamic shared memory that the launch must provide: 0 unless the kernel needs more than
    /// [`STATIC_SHARED_LIMIT`].
    pub dynamic_shared: u32,
}

/// Compiles a kernel. The text depends on the kernel alone.
///
/// # Errors
/// [`CompileError::NoCodegen`] when built without LLVM, otherwise what LLVM or the kernel lacks.
pub fn compile(kernel: &Kernel) -> Result<Ptx, CompileError> {
    #[cfg(feature = "codegen")]
    return codegen::compile(kernel);
    #[cfg(not(feature = "codegen"))]
    {
        let _ = kernel;
        Err(CompileError::NoCodegen)
    }
}

/// LLVM IR of a kernel after the passes, as text.
///
/// # Errors
/// As [`compile`].
pub fn llvm_ir(kernel: &Kernel) -> Result<String, CompileError> {
    #[cfg(feature = "codegen")]
    return codegen::llvm_ir(kernel);
    #[cfg(not(feature = "codegen"))]
    {
        let _ = kernel;
        Err(CompileError::NoCodegen)
    }
}

/// Whether this build can compile kernels.
pub const fn can_compile() -> bool {
    cfg!(feature = "codegen")
}
