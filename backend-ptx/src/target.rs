//! GPU targets: what LLVM calls them and which PTX version they get.

use crate::CompileError;
use tile_dsl::schedule::Target;

/// LLVM's name of the processor, and the feature that selects the PTX version.
///
/// Each target gets the oldest version that has what it needs, so that older drivers accept the text:
/// PTX 8.3 (CUDA 12.3; the first that says which bytes of a widened load are used) for sm_80 to sm_90, 8.6 (CUDA 12.7) for `sm_90a` and the first Blackwell targets.
pub(crate) fn llvm_names(target: Target) -> Result<(String, &'static str), CompileError> {
    let features = match (target.sm, target.specific) {
        (..80, _) => return Err(CompileError::Target(target.sm)),
        (80..=90, false) => "+ptx83",
        (80..=101, _) => "+ptx86",
        _ => "+ptx88",
    };
    Ok((format!("sm_{}{}", target.sm, if target.specific { "a" } else { "" }), features))
}
