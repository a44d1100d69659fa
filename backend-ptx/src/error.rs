//! Why a kernel does not become PTX.

/// An error of the code generator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Built without LLVM.
    #[error(
        "this build cannot compile kernels: enable the feature `jit` (needs LLVM 22) or `static-llvm` of tilewright, or provide PTX compiled ahead of time"
    )]
    NoCodegen,
    /// No PTX target for this compute capability.
    #[error("no code is generated for sm_{0}: the targets are sm_80 and newer")]
    Target(u32),
    /// The linked LLVM lacks an intrinsic.
    #[error("the linked LLVM does not know `{0}`: LLVM 22 is needed")]
    MissingIntrinsic(String),
    /// The kernel breaks a rule of the kernel IR.
    #[error("malformed kernel IR: {0}")]
    Malformed(String),
    /// LLVM refused.
    #[error("LLVM: {0}")]
    Llvm(String),
}
