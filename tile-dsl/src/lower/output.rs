//! Staged outputs: what a CTA stores of a tensor is collected in shared memory and leaves as boxes of a tensor map.
//!
//! ```text
//! one thread: await stores of the tile before; barrier      // before the first element
//! (put c E)*  →  store shared c[..] = E                     // as often as elements are stored, unguarded
//! proxy_fence; barrier                                       // after the last
//! one thread: tensor c.map[..] <- shared c; commit
//! .. at the end of the kernel: await stores
//! ```
//! The hardware leaves out what lies outside of the tensor. The copy is on its way while the CTA goes on.
//! Source: PTX ISA 9.7.9.27 (`cp.async.bulk.tensor`, shared to global), 9.7.9.25.4 (bulk groups).

use super::{Lowerer, channel::MapOf, emit::Emit, error::LowerError, linear::Linear};
use crate::{
    kernel::{self, Async, Expr as KExpr, Mem, Ty},
    nest::{AccessId, Expr, Frame, Nest, Target, leaves},
    schedule::Unit,
    shared::Content,
    tile::TensorId,
};

impl Nest {
    /// The one access by which the kernel stores to a tensor.
    pub(crate) fn stored_access(&self, tensor: TensorId) -> Option<AccessId> {
        let mut found = None;
        leaves(&self.body, &mut |_: &[Frame], leaf| {
            if let Some((Target::Access(a), _)) = leaf.leaf()
                && self.access(a).tensor == tensor
            {
                found = Some(a);
            }
        });
        found
    }
}

impl Lowerer<'_> {
    /// Whether stores to a tensor are collected.
    pub fn collects(&self, tensor: TensorId) -> bool {
        self.nest.outputs.contains_key(&tensor)
    }

    /// Position of the innermost digit that CTAs are bound to, plus one: what is inside is the box.
    fn inside_of_grid(&self) -> usize {
        let block = |b: &super::digits::Bound| matches!(b.at, crate::nest::LoopKind::Unit(Unit::Block, _));
        self.stack.iter().rposition(block).map_or(0, |n| n + 1)
    }

    /// Puts an element into the collected tile.
    pub fn collect(&mut self, id: AccessId, expr: &Expr) -> Result<(), LowerError> {
        let access = &self.nest.accesses[usize::from(id.0)];
        let (tensor, dtype) = (access.tensor, self.nest.elem(access.tensor));
        let missing = || LowerError::Malformed("an output without a size".into());
        let from = self.nest.output_layout(tensor).ok_or_else(missing)?;
        let layout = self.layout_of(&from, dtype, self.nest.outputs[&tensor].swizzle, 1);
        let buffer = self.shared_buffer(Content::Output(tensor), from.elems)?;
        let value = self.value(expr)?.expr();
        if self.collected.insert(tensor) {
            self.emit.stmt(kernel::Stmt::One {
                thread: 0,
                body: vec![kernel::Stmt::Async(Async::WaitStores { pending: 0 })],
            });
            self.emit_barrier();
        }
        let height = self.inside_of_grid();
        let mut offset = Linear::default();
        for (dim, index) in access.index.iter().enumerate() {
            let local = self.index_from(index, height);
            offset.add_scaled(&local, layout.pitch[dim]);
        }
        let name = self.tensor(tensor).name.clone();
        let step = |b: &super::digits::Bound| -> i64 {
            let moved = |(d, index): (usize, &crate::index::Affine)| {
                index.coefficient(b.digit.axis) * i64::from(b.digit.stride) * layout.pitch[d]
            };
            access.index.iter().enumerate().map(moved).sum()
        };
        let lanes = self.lanes(height, step, &name)?;
        if let Some(l) = lanes {
            offset.constant -= i64::from(l.lane);
            self.check_aligned(&offset, l.steps, dtype, &name)?;
        }
        let (base, constant) = layout.place(&mut self.emit, &offset);
        let guard = self.replica_guard(&[]);
        self.store_lanes(Mem::Shared(buffer), (base, constant, Ty::I32), value, dtype, guard, lanes);
        Ok(())
    }

    /// Sends the collected tiles off.
    pub fn send_collected(&mut self) -> Result<(), LowerError> {
        for tensor in std::mem::take(&mut self.collected) {
            let missing = || LowerError::Malformed("an output without a size".into());
            let layout = self.nest.output_layout(tensor).ok_or_else(missing)?;
            let buffer = self.shared_buffer(Content::Output(tensor), layout.elems)?;
            let access = self.nest.stored_access(tensor).ok_or_else(missing)?;
            let index = &self.nest.access(access).index;
            let swizzle = self.nest.outputs[&tensor].swizzle;
            let map = self.map_of(&MapOf { tensor, layout: &layout, extents: &layout.extents, swizzle });
            // The corner of the tile: what the digits of the grid contribute.
            let values = self.grid.values.clone();
            let corner = |axis: crate::index::AxisId| {
                let mut at = Linear::default();
                values.iter().filter(|(d, _)| d.axis == axis).for_each(|(_, v)| at.add_scaled(v, 1));
                at
            };
            let mut corners: Vec<Linear> = Vec::new();
            for index in index {
                let mut at = Linear::constant(index.constant);
                index.terms.iter().for_each(|(axis, c)| at.add_scaled(&corner(*axis), *c));
                corners.push(at);
            }
            self.emit.stmt(kernel::Stmt::Async(Async::ProxyFence));
            self.emit_barrier();
            self.emit.push();
            for piece in 0..layout.pieces() {
                let (coordinates, offset) = self.panel(&layout, &corners, &Linear::default(), piece);
                let store = Async::Store { map, shared: buffer, offset, coordinates };
                self.emit.stmt(kernel::Stmt::Async(store));
            }
            self.emit.stmt(kernel::Stmt::Async(Async::CommitStores));
            let body = self.emit.pop();
            self.emit.stmt(kernel::Stmt::One { thread: 0, body });
            self.sends = true;
        }
        Ok(())
    }

    /// Shared memory is the CTA's until its copies have been read from it.
    pub fn await_sent(&mut self) {
        if self.sends {
            let wait = kernel::Stmt::Async(Async::WaitStores { pending: 0 });
            self.emit.stmt(kernel::Stmt::One { thread: 0, body: vec![wait] });
        }
    }

    /// Coordinates and offset of one of the panels of a box, fastest dimension first.
    pub fn panel(
        &mut self,
        layout: &crate::nest::CopyLayout,
        corner: &[Linear],
        to: &Linear,
        piece: u64,
    ) -> (Vec<KExpr>, KExpr) {
        let mut coordinates = Vec::new();
        for dim in layout.order.iter().rev() {
            let mut at = corner[*dim].clone();
            if *dim == layout.contiguous {
                at.constant += (piece * layout.panel.unwrap_or(0)) as i64;
            }
            coordinates.push(self.emit.index(&at).expr());
        }
        let mut to = to.clone();
        to.constant += (piece * layout.rows() * layout.panel.unwrap_or(0)) as i64;
        let (base, constant) = self.emit.index_base(&to);
        (coordinates, Emit::sum_expr(base, constant, Ty::I32))
    }
}
