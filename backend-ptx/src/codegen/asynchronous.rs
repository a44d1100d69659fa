//! Asynchronous operations: mbarriers and tensor copies (PTX ISA 9.7.13.15, 9.7.9.27), and the threads that see to it.

use super::{Codegen, Result, malformed};
use inkwell::{
    AddressSpace, IntPredicate,
    attributes::{Attribute, AttributeLoc},
    types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum},
    values::{BasicMetadataValueEnum, CallSiteValue, IntValue, PointerValue},
};
use tile_dsl::{
    dtype::DType,
    kernel::{Async, Expr, Mem, Role, Stmt, TENSOR_MAP_BYTES},
    nest::registers_at_launch,
};

/// Address space of the shared memory of a cluster.
const CLUSTER: u16 = 7;
/// Words of an mbarrier.
const MBARRIER: i64 = 2;

impl<'c> Codegen<'c, '_> {
    pub(super) fn asynchronous(&mut self, operation: &Async) -> Result<()> {
        match operation {
            Async::Init { barrier, stages, arrivals } => {
                self.initialise_barriers(*barrier, *stages, *arrivals)
            }
            Async::Arrive { barrier, stage, bytes, cta } => {
                let at = self.barrier_stage_of(*barrier, stage, cta.as_ref())?;
                let (what, count) = bytes.map_or(("arrive", 1), |bytes| ("arrive.expect.tx", bytes));
                let space = if cta.is_some() { "cluster" } else { "cta" };
                let name = format!("llvm.nvvm.mbarrier.{what}.scope.cta.space.{space}");
                let count = self.context.i32_type().const_int(count.into(), false);
                self.call_void(&name, &[], &[at.into(), count.into()])?;
                Ok(())
            }
            Async::Wait { barrier, stage, parity } => {
                let at = self.barrier_stage(*barrier, stage)?;
                let parity = self.expr(parity)?.int()?;
                let again = self.context.append_basic_block(self.function, "await");
                let done = self.context.append_basic_block(self.function, "complete");
                self.builder.build_unconditional_branch(again)?;
                self.builder.position_at_end(again);
                let name = "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta";
                let complete = self.call(name, &[], &[at.into(), parity.into()])?.into_int_value();
                self.builder.build_conditional_branch(complete, done, again)?;
                self.builder.position_at_end(done);
                Ok(())
            }
            Async::Look { dst, barrier, stage, parity } => {
                let at = self.barrier_stage(*barrier, stage)?;
                let parity = self.expr(parity)?.int()?;
                let name = "llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta";
                let complete = self.call(name, &[], &[at.into(), parity.into()])?;
                self.assign(*dst, self.value(complete, DType::Bool))
            }
            Async::Copy { map, shared, offset, coordinates, barrier, stage, everywhere } => {
                self.copy_tensor(*map, (*shared, offset), coordinates, (*barrier, stage), *everywhere)
            }
            Async::Store { map, shared, offset, coordinates } => {
                self.store_tensor(*map, (*shared, offset), coordinates)
            }
            Async::AcquireMap { map } => {
                let map = self.param(*map)?;
                let bytes = self.context.i32_type().const_int(TENSOR_MAP_BYTES.into(), false);
                let name = "llvm.nvvm.fence.proxy.tensormap_generic.acquire.sys";
                self.call_void(name, &[], &[map.into(), bytes.into()])?;
                Ok(())
            }
            Async::PrefetchMap { map } => {
                let map = self.param(*map)?;
                self.call_void("llvm.nvvm.prefetch.tensormap", &[map.get_type()], &[map.into()])?;
                Ok(())
            }
            Async::CommitStores => {
                self.call_void("llvm.nvvm.cp.async.bulk.commit.group", &[], &[])?;
                Ok(())
            }
            Async::WaitStores { pending } => {
                let pending = self.context.i32_type().const_int((*pending).into(), false);
                self.call_void("llvm.nvvm.cp.async.bulk.wait.group.read", &[], &[pending.into()])?;
                Ok(())
            }
            Async::AwaitWritten => {
                let all = self.context.i32_type().const_zero();
                self.call_void("llvm.nvvm.cp.async.bulk.wait.group", &[], &[all.into()])?;
                Ok(())
            }
            Async::ProxyFence => {
                self.call_void("llvm.nvvm.fence.proxy.async.shared_cta", &[], &[])?;
                Ok(())
            }
            Async::Multiply { atom, frag, slots, a, b, overwrites } => {
                self.multiply(*atom, (*frag, slots), (a, b), overwrites.as_ref())
            }
            Async::Fence { results } => self.thread_through("wgmma.fence.sync.aligned;", results),
            Async::Replace { frag, slots, by, from } => self.replace((*frag, slots), (*by, from)),
            Async::Commit => {
                self.call_void("llvm.nvvm.wgmma.commit_group.sync.aligned", &[], &[])?;
                Ok(())
            }
            Async::WaitProducts { pending, results } => {
                self.thread_through(&format!("wgmma.wait_group.sync.aligned {pending};"), results)
            }
        }
    }

    /// Address of the mbarrier of a stage.
    fn barrier_stage(&mut self, barrier: u32, stage: &Expr) -> Result<PointerValue<'c>> {
        let words = match stage {
            Expr::Int(n, ty) => Expr::Int(n * MBARRIER, *ty),
            other => Expr::Bin(
                tile_dsl::op::BinOp::Mul,
                Box::new(other.clone()),
                Box::new(Expr::Int(MBARRIER, DType::I32)),
            ),
        };
        Ok(self.address(Mem::Shared(barrier), &words)?.0)
    }

    /// The address of an mbarrier, of another CTA of the cluster where one is named.
    fn barrier_stage_of(
        &mut self,
        barrier: u32,
        stage: &Expr,
        cta: Option<&Expr>,
    ) -> Result<PointerValue<'c>> {
        let at = self.barrier_stage(barrier, stage)?;
        let Some(cta) = cta else { return Ok(at) };
        let cta = self.expr(cta)?.int()?;
        let there = self.call("llvm.nvvm.mapa.shared.cluster", &[], &[at.into(), cta.into()])?;
        Ok(there.into_pointer_value())
    }

    /// An arrival of those threads for which `some` holds. As one instruction under a predicate, not as a branch: there the
    /// assembler would keep what the address derives from, such as the stage, in each thread's registers.
    pub(super) fn arrive_where(
        &mut self,
        some: IntValue<'c>,
        (barrier, stage): (u32, &Expr),
        cta: Option<&Expr>,
    ) -> Result<()> {
        let at = self.barrier_stage_of(barrier, stage, cta)?;
        let at = self.builder.build_ptr_to_int(at, self.context.i32_type(), "")?;
        let text = match cta {
            Some(_) => "@$1 mbarrier.arrive.release.cta.shared::cluster.b64 _, [$0];",
            None => {
                "{\n\t.reg .b64 state;\n\t@$1 mbarrier.arrive.release.cta.shared::cta.b64 state, [$0];\n\t}"
            }
        };
        self.assembler(text, "r,b,~{memory}".into(), &[], &[at.into(), some.into()])?;
        Ok(())
    }

    fn initialise_barriers(&mut self, barrier: u32, stages: u32, arrivals: u32) -> Result<()> {
        let first = self.thread_is(0)?;
        self.guarded(first, |this| {
            for stage in 0..stages {
                let at = this.barrier_stage(barrier, &Expr::Int(stage.into(), DType::I32))?;
                let count = this.context.i32_type().const_int(arrivals.into(), false);
                this.call_void("llvm.nvvm.mbarrier.init.shared", &[], &[at.into(), count.into()])?;
            }
            this.call_void("llvm.nvvm.fence.mbarrier_init.release.cluster", &[], &[])?;
            Ok(())
        })
    }

    fn thread_is(&mut self, thread: u32) -> Result<IntValue<'c>> {
        let wanted = Box::new(Expr::Int(thread.into(), DType::I32));
        self.expr(&Expr::Cmp(tile_dsl::op::CmpOp::Eq, Box::new(Expr::Tid), wanted))?.bool()
    }

    /// Runs `body` in a branch of its own.
    fn guarded(&mut self, condition: IntValue<'c>, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let then = self.context.append_basic_block(self.function, "one");
        let join = self.context.append_basic_block(self.function, "all");
        self.builder.build_conditional_branch(condition, then, join)?;
        self.builder.position_at_end(then);
        self.line_ends();
        body(self)?;
        self.line_ends();
        self.builder.build_unconditional_branch(join)?;
        self.builder.position_at_end(join);
        Ok(())
    }

    fn copy_tensor(
        &mut self,
        map: u32,
        (shared, offset): (u32, &Expr),
        coordinates: &[Expr],
        (barrier, stage): (u32, &Expr),
        everywhere: bool,
    ) -> Result<()> {
        let (to, _) = self.address(Mem::Shared(shared), offset)?;
        let cluster = self.context.ptr_type(AddressSpace::from(CLUSTER));
        let to = self.builder.build_address_space_cast(to, cluster, "")?;
        let at = self.barrier_stage(barrier, stage)?;
        let [policy, hinted] = self.policy_of_map(map);
        let map = self.param(map)?.into_pointer_value();
        let mut args: Vec<BasicMetadataValueEnum<'c>> = vec![to.into(), at.into(), map.into()];
        for coordinate in coordinates {
            args.push(self.expr(coordinate)?.int()?.into());
        }
        let ctas = if everywhere { self.kernel.cluster.unwrap_or(1) } else { 0 };
        args.extend::<[BasicMetadataValueEnum<'c>; 5]>([
            self.context.i16_type().const_int((1 << ctas) - 1, false).into(),
            policy.into(),
            self.context.bool_type().const_int(everywhere.into(), false).into(),
            hinted.into(),
            self.context.i32_type().const_zero().into(),
        ]);
        let name = format!("llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{}d", coordinates.len());
        self.call_void(&name, &[], &args)?;
        Ok(())
    }

    fn store_tensor(&mut self, map: u32, (shared, offset): (u32, &Expr), coordinates: &[Expr]) -> Result<()> {
        let (from, _) = self.address(Mem::Shared(shared), offset)?;
        let hint = self.policy_of_map(map);
        let map = self.param(map)?.into_pointer_value();
        let mut args: Vec<BasicMetadataValueEnum<'c>> = vec![from.into(), map.into()];
        for coordinate in coordinates {
            args.push(self.expr(coordinate)?.int()?.into());
        }
        args.extend(hint.map(BasicMetadataValueEnum::from));
        let name = format!("llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{}d", coordinates.len());
        self.call_void(&name, &[], &args)?;
        Ok(())
    }

    /// The last operands of a tensor copy: its policy, and whether it has one.
    fn policy_of_map(&self, map: u32) -> [IntValue<'c>; 2] {
        let policy = self.policy(map);
        let hinted = self.context.bool_type().const_int(policy.is_some().into(), false);
        [policy.unwrap_or_else(|| self.context.i64_type().const_zero()), hinted]
    }

    /// One thread of a warp, the same in all lanes as far as the assembler can see: then the branch needs no loop over the
    /// lanes that take it.
    pub(super) fn one(&mut self, thread: u32, body: &[Stmt]) -> Result<()> {
        if !self.kernel.threads.is_multiple_of(32) {
            let mine = self.thread_is(thread)?;
            return self.guarded(mine, |this| this.block(body));
        }
        let here = self.warp_is(IntPredicate::EQ, thread)?;
        let warp = self.context.append_basic_block(self.function, "warp");
        let join = self.context.append_basic_block(self.function, "others");
        self.builder.build_conditional_branch(here, warp, join)?;
        self.builder.position_at_end(warp);
        let all = self.context.i32_type().const_int(u32::MAX.into(), false);
        let elected = self.call("llvm.nvvm.elect.sync", &[], &[all.into()])?.into_struct_value();
        let elected = self.builder.build_extract_value(elected, 1, "")?.into_int_value();
        self.guarded(elected, |this| this.block(body))?;
        self.builder.build_unconditional_branch(join)?;
        self.builder.position_at_end(join);
        Ok(())
    }

    /// Compares the number of this thread's warp with that of the warp that begins at `thread`.
    fn warp_is(&mut self, how: IntPredicate, thread: u32) -> Result<IntValue<'c>> {
        let warp = match self.warp {
            Some(warp) => warp,
            None => self.shuffled_warp()?,
        };
        let wanted = self.context.i32_type().const_int((thread / 32).into(), false);
        Ok(self.builder.build_int_compare(how, warp, wanted, "")?)
    }

    /// The number of this thread's warp, from the first lane: so the assembler knows that all lanes have the same.
    fn shuffled_warp(&self) -> Result<IntValue<'c>> {
        let int = |n: u32| self.context.i32_type().const_int(n.into(), false);
        let tid = self.expr(&Expr::Tid)?.int()?;
        let warp = self.builder.build_right_shift(tid, int(5), false, "")?;
        let args = [int(u32::MAX).into(), warp.into(), int(0).into(), int(31).into()];
        Ok(self.call("llvm.nvvm.shfl.sync.idx.i32", &[], &args)?.into_int_value())
    }

    /// Finds [`Codegen::warp`] where all threads are together, before anything else.
    pub(super) fn find_warp(&mut self) -> Result<()> {
        let multiplies = |stmt: &Stmt| matches!(stmt, Stmt::Async(Async::Multiply { .. }));
        if self.kernel.body.iter().any(|stmt| stmt.any(&multiplies)) {
            self.warp = Some(self.shuffled_warp()?);
        }
        Ok(())
    }

    /// The thread's number over a divisor, where both it and the divisor are such that all lanes of a warp have the same.
    pub(super) fn of_warp(&self, thread: &Expr, divisor: &Expr) -> Result<Option<IntValue<'c>>> {
        let is_thread = match thread {
            Expr::Tid => true,
            Expr::Var(var) => self.threads.contains(var),
            _ => false,
        };
        match (self.warp, divisor) {
            (Some(warp), Expr::Int(n, _)) if is_thread && *n > 0 && n % 32 == 0 => {
                let warps = self.context.i32_type().const_int((n / 32) as u64, false);
                Ok(Some(self.builder.build_int_unsigned_div(warp, warps, "")?))
            }
            _ => Ok(None),
        }
    }

    /// Each role in a branch of its own.
    pub(super) fn roles(&mut self, roles: &[Role]) -> Result<()> {
        let join = self.context.append_basic_block(self.function, "end_of_roles");
        for (n, role) in roles.iter().enumerate() {
            let last = n + 1 == roles.len();
            let here = self.context.append_basic_block(self.function, "role");
            let others = if last { join } else { self.context.append_basic_block(self.function, "others") };
            if last {
                self.builder.build_unconditional_branch(here)?;
            } else {
                let mine = self.warp_is(IntPredicate::ULT, role.first + role.threads)?;
                self.builder.build_conditional_branch(mine, here, others)?;
            }
            self.builder.position_at_end(here);
            self.line_ends();
            if let Some(registers) = role.registers {
                let resident = self.kernel.min_ctas.unwrap_or(1);
                let Some(at_launch) = registers_at_launch(self.kernel.target, self.kernel.threads, resident)
                else {
                    return malformed("registers of a role in a CTA that has enough for all");
                };
                let way = if registers > at_launch { "inc" } else { "dec" };
                let count = self.context.i32_type().const_int(registers.into(), false);
                self.call_void(
                    &format!("llvm.nvvm.setmaxnreg.{way}.sync.aligned.u32"),
                    &[],
                    &[count.into()],
                )?;
            }
            self.block(&role.body)?;
            self.line_ends();
            self.builder.build_unconditional_branch(join)?;
            self.builder.position_at_end(others);
        }
        Ok(())
    }

    /// Assembler text that is convergent and does what its operands do not show; returns its results.
    pub(super) fn assembler(
        &self,
        text: &str,
        constraints: String,
        results: &[BasicTypeEnum<'c>],
        args: &[BasicMetadataValueEnum<'c>],
    ) -> Result<CallSiteValue<'c>> {
        let types: Vec<BasicMetadataTypeEnum<'c>> = args
            .iter()
            .map(|a| match a {
                BasicMetadataValueEnum::FloatValue(v) => Ok(v.get_type().into()),
                BasicMetadataValueEnum::IntValue(v) => Ok(v.get_type().into()),
                _ => malformed("an operand of assembler text that is no number"),
            })
            .collect::<Result<_>>()?;
        let ty = match results {
            [] => self.context.void_type().fn_type(&types, false),
            [one] => one.fn_type(&types, false),
            all => self.context.struct_type(all, false).fn_type(&types, false),
        };
        let asm = self.context.create_inline_asm(ty, text.into(), constraints, true, false, None, false);
        let call = self.builder.build_indirect_call(ty, asm, args, "")?;
        for name in ["convergent", "nounwind"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            call.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, 0));
        }
        Ok(call)
    }
}
