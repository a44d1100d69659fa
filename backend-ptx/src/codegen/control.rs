//! Statements: loops, branches, barriers, shuffles.

use super::{
    Codegen, Result, Value, malformed, memory,
    scalar::{F32, I32},
};
use inkwell::{IntPredicate, basic_block::BasicBlock};
use tile_dsl::{
    dtype::DType,
    kernel::{Async, Expr, Group, Mem, Stmt, Var},
    op::BinOp,
};

/// Registers that a branch may set to constants and become selects.
const FEW_SETS: usize = 8;

impl<'c> Codegen<'c, '_> {
    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<()> {
        let mut rest = body;
        while let Some(first) = rest.first() {
            let (run, after) = rest.split_at(memory::run_length(rest));
            rest = after;
            match first {
                Stmt::Load { guard, .. } => {
                    let loads = run.iter().filter_map(|stmt| match stmt {
                        Stmt::Load { dst, mem, offset, .. } => Some((dst.as_slice(), *mem, offset)),
                        _ => None,
                    });
                    self.loads(guard.as_ref(), &loads.collect::<Vec<_>>())?;
                }
                Stmt::Store { guard, .. } => {
                    let stores = run.iter().filter_map(|stmt| match stmt {
                        Stmt::Store { mem, offset, values, .. } => Some((*mem, offset, values.as_slice())),
                        _ => None,
                    });
                    self.stores(guard.as_ref(), &stores.collect::<Vec<_>>())?;
                }
                other => self.statement(other)?,
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::Load { .. } | Stmt::Store { .. } => self.block(std::slice::from_ref(stmt)),
            Stmt::Let(var, sum) => {
                let value = self.expr(sum)?;
                if let Expr::Bin(BinOp::Add, a, b) = sum
                    && value.ty == DType::I64
                {
                    self.sums.insert(*var, ((**a).clone(), (**b).clone()));
                }
                if matches!(sum, Expr::Tid) {
                    self.threads.insert(*var);
                }
                self.assign(*var, value)
            }
            Stmt::Set { frag, slot, value } => {
                let value = self.expr(value)?;
                self.set_slot(*frag, *slot, value)
            }
            Stmt::For { var, start, end, step, body } => self.for_loop(*var, [start, end, step], body),
            Stmt::While { cond, body } => self.while_loop(cond, body),
            Stmt::Take { dst, counters, offset, most } => self.take(*dst, (*counters, offset), most),
            Stmt::LookBack { dst, words, offset, step, op, value, start } => {
                self.look_back(*dst, (*words, offset), step, *op, [value, start])
            }
            Stmt::Alike { dst, shared, offset } => {
                let (dst, mem) = (vec![*dst], Mem::Shared(*shared));
                self.block(&[Stmt::Load { dst, mem, offset: offset.clone(), guard: None }])
            }
            Stmt::If { cond, then, otherwise } => match (then.as_slice(), otherwise.as_slice()) {
                ([Stmt::Async(Async::Arrive { barrier, stage, bytes: None, cta })], []) => {
                    let some = self.expr(cond)?.bool()?;
                    self.arrive_where(some, (*barrier, stage), cta.as_ref())
                }
                _ => self.branch(cond, then, otherwise),
            },
            Stmt::CopyAsync { shared, shared_offset, global, global_offset, elems, guard } => {
                self.copy_async((*shared, shared_offset), (*global, global_offset), *elems, guard.as_ref())
            }
            Stmt::CommitGroup => self.commit_group(),
            Stmt::WaitGroup(pending) => self.wait_group(*pending),
            Stmt::Live(_) => Ok(()),
            Stmt::GroupBarrier(group) => self.barrier(Some(*group)),
            Stmt::WarpBarrier => {
                let all = self.context.i32_type().const_int(u32::MAX.into(), false);
                self.call_void("llvm.nvvm.bar.warp.sync", &[], &[all.into()])?;
                Ok(())
            }
            // As text: LLVM takes its own functions for these for ones that leave memory alone.
            Stmt::GridDependency => {
                let text = "griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;";
                self.assembler(text, "~{memory}".into(), &[], &[])?;
                Ok(())
            }
            Stmt::Problem { dst, tile } => self.problem(*dst, tile),
            Stmt::One { thread, body } => self.one(*thread, body),
            Stmt::Roles(roles) => self.roles(roles),
            Stmt::ClusterBarrier => self.cluster_arrive().and_then(|()| self.cluster_wait()),
            Stmt::ClusterArrive => self.cluster_arrive_relaxed(),
            Stmt::ClusterWait => self.cluster_wait(),
            Stmt::StorePeer { shared, offset, cta, values } => {
                self.store_peer((*shared, offset), cta, values)
            }
            Stmt::Async(operation) => self.asynchronous(operation),
            Stmt::Barrier => self.barrier(None),
            Stmt::Shuffle { dst, value, mask } => {
                let value = self.expr(value)?;
                let shuffled = self.shuffle(value, "bfly", *mask, 31)?;
                self.assign(*dst, shuffled)
            }
            // The lower bits of the last operand are the lane that bounds the move, those from 8 on what lanes of a group have in common.
            Stmt::ShuffleUp { dst, value, by, width } => {
                let value = self.expr(value)?;
                let shuffled = self.shuffle(value, "up", *by, (32 - width) << 8)?;
                self.assign(*dst, shuffled)
            }
            Stmt::ShuffleLast { dst, value, mask } => {
                let value = self.expr(value)?;
                let shuffled = self.shuffle(value, "idx", *mask, (31 & !mask) << 8 | 31)?;
                self.assign(*dst, shuffled)
            }
            Stmt::LoadMatrices { dst, shared, offset, transposed } => {
                self.load_matrices(dst, *shared, offset, *transposed)
            }
            Stmt::StoreMatrices { shared, offset, values, transposed } => {
                self.store_matrices(*shared, offset, values, *transposed)
            }
            Stmt::ExchangeMatrices { dst, values } => self.exchange_matrices(dst, values),
            Stmt::JoinTwos { dst, values } => self.join_twos(dst, values),
            Stmt::TransposeMatrix { dst, values } => self.transpose_matrix(dst, values),
            Stmt::Mma { atom, frag, slots, a, b } => self.mma(*atom, (*frag, slots), a, b),
            Stmt::Combine { op, mem, offset, values, guard } => {
                self.combine(*op, (*mem, offset), values, guard.as_ref())
            }
            Stmt::Arrive { dst, counters, offset, parts, guard, group } => {
                self.arrive(*dst, (*counters, offset), parts, guard.as_ref(), *group)
            }
        }
    }

    /// All threads of the CTA, or of a group, meet.
    pub(super) fn barrier(&mut self, group: Option<Group>) -> Result<()> {
        let int = |n: u32| self.context.i32_type().const_int(n.into(), false).into();
        match group {
            None => self.call_void("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[int(0)]),
            Some(Group { id, threads }) => {
                self.call_void("llvm.nvvm.barrier.cta.sync.aligned.count", &[], &[int(id), int(threads)])
            }
        }
        .map(drop)
    }

    /// Tests once before the loop and then after each step, so that the loop has no jump in its middle.
    fn for_loop(&mut self, var: Var, [start, end, step]: [&Expr; 3], body: &[Stmt]) -> Result<()> {
        let (start, end, step) = (self.expr(start)?, self.expr(end)?, self.expr(step)?);
        let ty = self.var_type(var)?;
        if [start.ty, end.ty, step.ty].iter().any(|t| *t != ty) {
            return malformed(format!("a loop over a {ty} with bounds of other types"));
        }
        let (start_int, end_int, step_int) = (start.int()?, end.int()?, step.int()?);
        let below = |at| self.builder.build_int_compare(IntPredicate::SLT, at, end_int, "");

        let head = self.context.append_basic_block(self.function, "loop");
        let exit = self.context.append_basic_block(self.function, "done");
        let before = self.current_block();
        self.builder.build_conditional_branch(below(start_int)?, head, exit)?;

        self.builder.position_at_end(head);
        let counter = self.builder.build_phi(start_int.get_type(), "")?;
        self.assign(var, Value { llvm: counter.as_basic_value(), ty })?;
        self.body(body)?;
        let next = self.builder.build_int_nsw_add(counter.as_basic_value().into_int_value(), step_int, "")?;
        let again = self.builder.build_int_compare(IntPredicate::SLT, next, end_int, "")?;
        let latch = self.current_block();
        self.builder.build_conditional_branch(again, head, exit)?;
        counter.add_incoming(&[(&start_int, before), (&next, latch)]);
        self.builder.position_at_end(exit);
        Ok(())
    }

    fn while_loop(&mut self, cond: &Expr, body: &[Stmt]) -> Result<()> {
        let [head, step, exit] =
            ["while", "step", "done"].map(|name| self.context.append_basic_block(self.function, name));
        self.builder.build_unconditional_branch(head)?;
        self.builder.position_at_end(head);
        self.line_ends();
        let on = self.expr(cond)?.bool()?;
        self.builder.build_conditional_branch(on, step, exit)?;
        self.builder.position_at_end(step);
        self.body(body)?;
        self.builder.build_unconditional_branch(head)?;
        self.builder.position_at_end(exit);
        Ok(())
    }

    /// The body of a loop or branch: no address computed outside is used inside, nor the other way round.
    fn body(&mut self, body: &[Stmt]) -> Result<()> {
        self.line_ends();
        // It may be about another problem.
        let params = self.params.clone();
        self.block(body)?;
        self.params = params;
        self.line_ends();
        Ok(())
    }

    fn branch(&mut self, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) -> Result<()> {
        let condition = self.expr(cond)?.bool()?;
        let then_block = self.context.append_basic_block(self.function, "then");
        let else_block = self.context.append_basic_block(self.function, "else");
        let join = self.context.append_basic_block(self.function, "join");
        self.builder.build_conditional_branch(condition, then_block, else_block)?;
        for (block, body) in [(then_block, then), (else_block, otherwise)] {
            self.builder.position_at_end(block);
            // Many registers that hardly ever start anew: as selects, each tile would wait for them.
            let constant = |stmt: &Stmt| matches!(stmt, Stmt::Set { value: Expr::Float(..), .. });
            let resets = body.len() > FEW_SETS && body.iter().all(constant);
            if resets || body.iter().any(reads_shared) {
                self.stay()?;
            }
            self.body(body)?;
            self.builder.build_unconditional_branch(join)?;
        }
        self.builder.position_at_end(join);
        Ok(())
    }

    /// What follows is not moved up. Loads of shared memory cannot fault, so LLVM would take them out of their branch,
    /// where nothing may have been written yet.
    fn stay(&self) -> Result<()> {
        let ty = self.context.void_type().fn_type(&[], false);
        let function =
            self.context.create_inline_asm(ty, String::new(), "~{memory}".into(), true, false, None, false);
        self.builder.build_indirect_call(ty, function, &[], "")?;
        Ok(())
    }

    /// `shfl.sync` moves 32 bits; narrower values travel widened.
    pub(super) fn shuffle(&self, value: Value<'c>, mode: &str, lanes: u32, bounds: u32) -> Result<Value<'c>> {
        let carrier = match value.ty {
            DType::I64 => return malformed("a shuffle of 64 bits"),
            dtype if dtype.is_float() => F32,
            _ => I32,
        };
        if lanes >= 32 {
            return malformed(format!("a shuffle by {lanes}, beyond the warp"));
        }
        let name = format!("llvm.nvvm.shfl.sync.{mode}.{}", if carrier == F32 { "f32" } else { "i32" });
        let wide = self.cast(carrier, value)?;
        let int = |x: u32| self.context.i32_type().const_int(x.into(), false).into();
        let moved = self.call(&name, &[], &[int(u32::MAX), wide.llvm.into(), int(lanes), int(bounds)])?;
        let moved = Value { llvm: moved, ty: carrier };
        if value.ty == DType::Bool {
            let bit = self.builder.build_int_truncate(moved.int()?, self.context.bool_type(), "")?;
            return Ok(self.value(bit, value.ty));
        }
        self.cast(value.ty, moved)
    }

    pub(super) fn current_block(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect("the walk always stands in a block")
    }
}

/// Whether a statement loads from shared memory, outside of loops and branches of its own.
fn reads_shared(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Load { mem: Mem::Shared(_), guard: None, .. })
}
