//! Calls of LLVM intrinsics. LLVM emits an unknown `llvm.nvvm.*` as a call of an undefined function and
//! reports success, so each name is looked up.

use super::{Codegen, Result};
use crate::CompileError;
use inkwell::{
    intrinsics::Intrinsic,
    types::BasicTypeEnum,
    values::{BasicMetadataValueEnum, BasicValueEnum, CallSiteValue},
};

impl<'c> Codegen<'c, '_> {
    /// Calls an intrinsic; `types` choose the overload.
    pub(super) fn call_void(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Result<CallSiteValue<'c>> {
        let missing = || CompileError::MissingIntrinsic(name.to_string());
        let function = Intrinsic::find(name)
            .ok_or_else(missing)?
            .get_declaration(self.module, types)
            .ok_or_else(missing)?;
        Ok(self.builder.build_direct_call(function, args, "")?)
    }

    /// Calls an intrinsic that returns a value.
    pub(super) fn call(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'c>],
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>> {
        self.call_void(name, types, args)?
            .try_as_basic_value()
            .basic()
            .ok_or_else(|| CompileError::Malformed(format!("`{name}` returns nothing")))
    }
}
