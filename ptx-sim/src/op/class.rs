//! Classes of instructions, for the reported mix.

/// Class of an instruction in the reported mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstClass {
    /// Fused multiply-add of any floating type.
    Fma,
    /// Any other floating-point arithmetic.
    Float,
    /// Integer and bit arithmetic, moves included.
    Integer,
    /// Comparisons, selects and predicate logic.
    Compare,
    /// `cvt`.
    Conversion,
    /// Loads from global or generic addresses.
    GlobalLoad,
    /// Stores to global or generic addresses.
    GlobalStore,
    /// Loads from shared memory, `ldmatrix` included.
    SharedLoad,
    /// Stores to shared memory, `stmatrix` included.
    SharedStore,
    /// Parameter and constant loads.
    ParamLoad,
    /// Loads and stores of local memory.
    Local,
    /// `atom` and `red`.
    Atomic,
    /// `cp.async` and the bulk copies, with their commits and waits.
    AsyncCopy,
    /// `mma` and `wgmma`.
    TensorCore,
    /// Shuffles, `movmatrix`, votes, matches and warp reductions.
    Warp,
    /// Barriers, fences and mbarrier operations.
    Sync,
    /// Branches and exits.
    Control,
    /// Everything else.
    Other,
}
