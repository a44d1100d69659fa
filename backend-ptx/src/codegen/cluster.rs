//! CTAs of a cluster: their barrier, and stores into one another's shared memory (PTX ISA 9.7.13.3, 9.7.9.23).

use super::{Codegen, Result, memory::Access};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem},
    op::BinOp,
};

impl<'c> Codegen<'c, '_> {
    /// `barrier.cluster.arrive`: release.
    pub(super) fn cluster_arrive(&self) -> Result<()> {
        self.call_void("llvm.nvvm.barrier.cluster.arrive", &[], &[])?;
        Ok(())
    }

    /// `barrier.cluster.arrive.relaxed`.
    pub(super) fn cluster_arrive_relaxed(&self) -> Result<()> {
        self.call_void("llvm.nvvm.barrier.cluster.arrive.relaxed", &[], &[])?;
        Ok(())
    }

    /// `barrier.cluster.wait`: acquire.
    pub(super) fn cluster_wait(&self) -> Result<()> {
        self.call_void("llvm.nvvm.barrier.cluster.wait", &[], &[])?;
        Ok(())
    }

    /// Stores to a place in another CTA. Neighbours share the address of that CTA's memory; what tells them apart
    /// is the instruction's immediate.
    pub(super) fn store_peer(
        &mut self,
        (shared, offset): (u32, &Expr),
        cta: &Expr,
        values: &[Expr],
    ) -> Result<()> {
        let none = Expr::Int(0, DType::I32);
        let (varying, constant) = match offset {
            Expr::Bin(BinOp::Add, varying, constant) if matches!(**constant, Expr::Int(..)) => {
                (&**varying, &**constant)
            }
            whole => (whole, &none),
        };
        let (own, dtype) = self.address(Mem::Shared(shared), varying)?;
        let cta = self.expr(cta)?.int()?;
        let name = "llvm.nvvm.mapa.shared.cluster";
        let peer = self.call(name, &[], &[own.into(), cta.into()])?.into_pointer_value();
        let constant = self.expr(constant)?.int()?;
        let pointer = self.element(peer, dtype, constant)?;
        let access = Access::new(pointer, dtype, values.len())?;
        let value = self.vector(&access, values)?;
        self.store(&access, value)
    }
}
