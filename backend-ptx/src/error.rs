//! Why a kernel does not become PTX.

/// An error of the code generator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Built without LLVM.
    ///
    /// What to do: enable the feature `jit` or `static-llvm`, or compile ahead of time.
    #[error(
        "this build cannot compile kernels: enable the feature `jit` (needs LLVM 22) or `static-llvm` of tilewright, or provide PTX compiled ahead of time"
    )]
    NoCodegen,
    /// No PTX target for this compute capability.
    ///
    /// What to do: ask for `sm_80` or newer. Older GPUs lack instructions that every kernel uses.
    #[error("no code is generated for sm_{0}: the targets are sm_80 and newer")]
    Target(u32),
    /// The linked LLVM lacks an intrinsic.
    ///
    /// What to do: install LLVM 22: `setup.sh` does so on Debian and Ubuntu.
    #[error("the linked LLVM does not know `{0}`: LLVM 22 is needed")]
    MissingIntrinsic(String),
    /// The kernel breaks a rule of the kernel IR.
    ///
    /// What to do: report it with the schedule: it is a mistake of the compiler.
    #[error("malformed kernel IR: {0}")]
    Malformed(String),
    /// LLVM refused.
    ///
    /// What to do: report it with the schedule and the version of LLVM.
    #[error("LLVM: {0}")]
    Llvm(String),
}
