//! Asynchronous copies from global to shared memory (PTX ISA, "cp.async").

use super::{Codegen, Result, malformed};
use tile_dsl::kernel::{Expr, Mem};

impl<'c> Codegen<'c, '_> {
    /// Copies `elems` elements. Where the guard is false the source size is 0: the destination is filled with zeros
    /// and the source is not read, so its address need not exist.
    pub(super) fn copy_async(
        &mut self,
        (shared, shared_offset): (u32, &Expr),
        (global, global_offset): (u32, &Expr),
        elems: u32,
        guard: Option<&Expr>,
    ) -> Result<()> {
        let (to, dtype) = self.address(Mem::Shared(shared), shared_offset)?;
        let (from, from_dtype) = self.address(Mem::Global(global), global_offset)?;
        if dtype != from_dtype {
            return malformed(format!("a copy of {from_dtype} into a buffer of {dtype}"));
        }
        let bytes = elems * dtype.bytes();
        // 16 bytes go past L1, which would only hold what shared memory holds already.
        let name = match bytes {
            4 => "llvm.nvvm.cp.async.ca.shared.global.4",
            8 => "llvm.nvvm.cp.async.ca.shared.global.8",
            16 => "llvm.nvvm.cp.async.cg.shared.global.16",
            _ => return malformed(format!("an asynchronous copy of {bytes} bytes")),
        };
        match guard {
            None => self.call_void(name, &[], &[to.into(), from.into()])?,
            Some(guard) => {
                // All bytes where the guard is true, else none.
                let i32_type = self.context.i32_type();
                let (all, none) = (i32_type.const_int(bytes.into(), false), i32_type.const_zero());
                let size = self.builder.build_select(self.expr(guard)?.bool()?, all, none, "")?;
                self.call_void(&format!("{name}.s"), &[], &[to.into(), from.into(), size.into()])?
            }
        };
        Ok(())
    }

    pub(super) fn commit_group(&self) -> Result<()> {
        self.call_void("llvm.nvvm.cp.async.commit.group", &[], &[])?;
        Ok(())
    }

    /// Waits until at most `pending` of the youngest groups are in flight.
    pub(super) fn wait_group(&self, pending: u32) -> Result<()> {
        let pending = self.context.i32_type().const_int(pending.into(), false);
        self.call_void("llvm.nvvm.cp.async.wait.group", &[], &[pending.into()])?;
        Ok(())
    }
}
