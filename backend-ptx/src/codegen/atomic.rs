//! Atomic operations on tensors, and arrivals of CTAs at a counter.
//!
//! As inline PTX: LLVM has no `red`, no vector atomics, and no barrier that reduces a predicate with a type of its own.

use super::{Codegen, Result, Value, malformed};
use inkwell::{
    IntPredicate,
    types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum},
    values::{BasicMetadataValueEnum, BasicValue, BasicValueEnum},
};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Group, Mem, Var},
    op::RedOp,
};

/// The first compute capability with `red` of vectors (PTX ISA 9.7.13.9).
const VECTORS: u32 = 90;

impl<'c> Codegen<'c, '_> {
    /// Combines consecutive elements with a buffer's: one instruction where the target has it, else one an element.
    pub(super) fn combine(
        &mut self,
        op: RedOp,
        (mem, offset): (Mem, &Expr),
        values: &[Expr],
        guard: Option<&Expr>,
    ) -> Result<()> {
        let (pointer, dtype) = self.address(mem, offset)?;
        let place = match mem {
            Mem::Global(_) => "gpu.global",
            Mem::Shared(_) => "cta.shared",
        };
        let operands: Vec<BasicValueEnum<'c>> =
            values.iter().map(|v| Ok(self.expr(v)?.llvm)).collect::<Result<_>>()?;
        if !op.is_atomic(dtype) || !matches!(operands.len(), 1 | 2 | 4) {
            return malformed(format!("an atomic {} of {} {dtype}", op.name(), operands.len()));
        }
        let operation = match op {
            RedOp::Add => "add",
            RedOp::Max => "max",
            RedOp::Min => "min",
        };
        // Sums of two's complement numbers are those of unsigned ones.
        let ty = if op == RedOp::Add && dtype.is_integer() { "u32" } else { dtype.format().ptx };
        let register = if dtype.is_float() { "f" } else { "r" };
        self.under(guard, |this| {
            let vectors = this.kernel.target.sm >= VECTORS && matches!(mem, Mem::Global(_));
            if vectors && operands.len() > 1 && dtype == DType::F32 {
                let n = operands.len();
                let names: Vec<String> = (1..=n).map(|i| format!("${i}")).collect();
                let text = format!("red.relaxed.gpu.global.add.v{n}.f32 [$0], {{{}}};", names.join(", "));
                let mut arguments = vec![pointer.as_basic_value_enum()];
                arguments.extend(operands);
                this.assembly(&text, None, &format!("l{}", ",f".repeat(n)), &arguments)?;
                return Ok(());
            }
            let text = format!("red.relaxed.{place}.{operation}.{ty} [$0], $1;");
            for (i, operand) in (0u64..).zip(operands) {
                let index = this.context.i32_type().const_int(i, false);
                let element = this.element(pointer, dtype, index)?;
                let arguments = [element.as_basic_value_enum(), operand];
                this.assembly(&text, None, &format!("l,{register}"), &arguments)?;
            }
            Ok(())
        })
    }

    /// One of `most` numbers: `atom.inc`, which leaves zero behind the last.
    pub(super) fn take(&mut self, dst: Var, (counters, offset): (u32, &Expr), most: &Expr) -> Result<()> {
        let i32_type = self.context.i32_type();
        let (counter, _) = self.address(Mem::Global(counters), offset)?;
        let most = self.expr(most)?.int()?;
        let last = self.builder.build_int_sub(most, i32_type.const_int(1, false), "")?;
        let arguments = [counter.as_basic_value_enum(), last.into()];
        let text = "atom.relaxed.gpu.global.inc.u32 $0, [$1], $2;";
        let taken = self.assembly(text, Some(i32_type.into()), "=r,l,r", &arguments)?;
        let Some(taken) = taken else { return malformed("a number without a result") };
        self.assign(dst, Value { llvm: taken, ty: DType::I32 })
    }

    /// One thread counts for its CTA, between barriers: the first orders what all its threads stored before the
    /// count, the second what they load after it, and tells all of them whether the count was the last. `inc` wraps
    /// to 0 there.
    pub(super) fn arrive(
        &mut self,
        dst: Var,
        (counters, offset): (u32, &Expr),
        parts: &Expr,
        guard: Option<&Expr>,
        group: Option<Group>,
    ) -> Result<()> {
        let i32_type = self.context.i32_type();
        let (counter, _) = self.address(Mem::Global(counters), offset)?;
        let zero = i32_type.const_zero();
        let parts = self.expr(parts)?.int()?;
        let most = self.builder.build_int_sub(parts, i32_type.const_int(1, false), "")?;
        self.barrier(group)?;
        let tid = self.expr(&Expr::Tid)?.int()?;
        let mut elected = self.builder.build_int_compare(IntPredicate::EQ, tid, zero, "")?;
        // Where nothing is counted, the answer is yes from the start.
        let mut unasked = self.context.bool_type().const_zero();
        if let Some(guard) = guard {
            let counts = self.expr(guard)?.bool()?;
            elected = self.builder.build_and(elected, counts, "")?;
            unasked = self.builder.build_not(counts, "")?;
        }
        let before = self.current_block();
        let then = self.context.append_basic_block(self.function, "arrive");
        let join = self.context.append_basic_block(self.function, "arrived");
        self.builder.build_conditional_branch(elected, then, join)?;
        self.builder.position_at_end(then);
        let arguments = [counter.as_basic_value_enum(), most.into()];
        let text = "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;";
        let count = self.assembly(text, Some(i32_type.into()), "=r,l,r", &arguments)?;
        let Some(count) = count else { return malformed("a count without a result") };
        let full = self.builder.build_int_compare(IntPredicate::EQ, count.into_int_value(), most, "")?;
        self.builder.build_unconditional_branch(join)?;
        self.builder.position_at_end(join);
        let last = self.builder.build_phi(self.context.bool_type(), "")?;
        last.add_incoming(&[(&full, then), (&unasked, before)]);
        let counted = last.as_basic_value().into();
        let int = |n: u32| i32_type.const_int(n.into(), false).into();
        let any = match group {
            None => self.call("llvm.nvvm.barrier.cta.red.or.aligned.all", &[], &[int(0), counted]),
            Some(Group { id, threads }) => {
                let arguments = [int(id), int(threads), counted];
                self.call("llvm.nvvm.barrier.cta.red.or.aligned.count", &[], &arguments)
            }
        }?;
        self.assign(dst, Value { llvm: any, ty: DType::Bool })
    }

    /// Inline PTX with side effects.
    pub(super) fn assembly(
        &self,
        text: &str,
        result: Option<BasicTypeEnum<'c>>,
        constraints: &str,
        arguments: &[BasicValueEnum<'c>],
    ) -> Result<Option<BasicValueEnum<'c>>> {
        let types: Vec<BasicMetadataTypeEnum> = arguments.iter().map(|a| a.get_type().into()).collect();
        let ty = match result {
            Some(ty) => ty.fn_type(&types, false),
            None => self.context.void_type().fn_type(&types, false),
        };
        let constraints = format!("{constraints},~{{memory}}");
        let function = self.context.create_inline_asm(ty, text.into(), constraints, true, false, None, false);
        let arguments: Vec<BasicMetadataValueEnum> = arguments.iter().map(|a| (*a).into()).collect();
        let call = self.builder.build_indirect_call(ty, function, &arguments, "")?;
        Ok(call.try_as_basic_value().basic())
    }
}
