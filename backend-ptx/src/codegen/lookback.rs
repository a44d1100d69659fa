//! Look-back of CTAs at the steps before theirs.
//!
//! ```text
//!            word[step] = (step == 0 ? 2 : 1, value)
//! window:    lanes 0 to 31 look at the words of the 32 steps before, the nearest first
//! poll:      until each has one, up to the nearest of flag 2
//!            known = those up to it, combined, and known; with no flag 2 among them on with the next window
//!            word[step] = (2, known and value)
//! ```
//! Source: Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back (NVIDIA, 2016).

use super::{Codegen, Result, Value, malformed};
use inkwell::{
    IntPredicate,
    types::BasicType,
    values::{BasicValue, BasicValueEnum, IntValue, PointerValue},
};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem, Var},
    op::RedOp,
};

/// What the upper half of a word means: the value is of the step alone.
const PART: u64 = 1;
/// The value is of all steps up to this one.
const ALL: u64 = 2;

impl<'c> Codegen<'c, '_> {
    /// What is known before a step; it publishes what is known behind it.
    pub(super) fn look_back(
        &mut self,
        dst: Var,
        (words, offset): (u32, &Expr),
        step: &Expr,
        op: RedOp,
        [value, start]: [&Expr; 2],
    ) -> Result<()> {
        let (i32_type, i64_type) = (self.context.i32_type(), self.context.i64_type());
        let int = |n: u64| i32_type.const_int(n, false);
        let (words, _) = self.address(Mem::Global(words), offset)?;
        let (step, value, start) = (self.expr(step)?.int()?, self.expr(value)?, self.expr(start)?);
        let tid = self.expr(&Expr::Tid)?.int()?;
        let lane = self.builder.build_and(tid, int(31), "")?;
        let [own, window, poll, look, looked, read, behind, done] =
            ["first", "window", "poll", "look", "looked", "read", "behind", "before"]
                .map(|name| self.context.append_basic_block(self.function, name));
        let others = self.current_block();
        let is_own = self.builder.build_int_compare(IntPredicate::ULT, tid, int(32), "")?;
        self.builder.build_conditional_branch(is_own, own, done)?;
        self.builder.position_at_end(own);
        let is_first = self.builder.build_int_compare(IntPredicate::EQ, step, int(0), "")?;
        let flag = self.builder.build_select(is_first, int(ALL), int(PART), "")?.into_int_value();
        self.publish(words, step, lane, (flag, value))?;
        let before = self.current_block();
        let nearest = self.builder.build_int_sub(step, int(1), "")?;
        self.builder.build_conditional_branch(is_first, done, window)?;

        self.builder.position_at_end(window);
        let last = self.builder.build_phi(i32_type, "")?;
        last.add_incoming(&[(&nearest, before)]);
        let known = self.builder.build_phi(start.llvm.get_type(), "")?;
        known.add_incoming(&[(&start.llvm, before)]);
        let at = self.builder.build_int_sub(last.as_basic_value().into_int_value(), lane, "")?;
        let exists = self.builder.build_int_compare(IntPredicate::SGE, at, int(0), "")?;
        self.builder.build_unconditional_branch(poll)?;

        self.builder.position_at_end(poll);
        self.builder.build_conditional_branch(exists, look, looked)?;
        self.builder.position_at_end(look);
        let word = self.word_at(words, at)?;
        let text = "ld.relaxed.gpu.global.b64 $0, [$1];";
        let loaded = self.assembly(text, Some(i64_type.into()), "=l,l", &[word.as_basic_value_enum()])?;
        let Some(loaded) = loaded else { return malformed("a word without bits") };
        self.builder.build_unconditional_branch(looked)?;
        self.builder.position_at_end(looked);
        // Before step 0 there is nothing, and the word of step 0 is of all.
        let nothing = i64_type.const_int(ALL << 32, false);
        let found = self.builder.build_phi(i64_type, "")?;
        found.add_incoming(&[(&loaded, look), (&nothing, poll)]);
        let found = found.as_basic_value().into_int_value();
        let flag = self.builder.build_right_shift(found, i64_type.const_int(32, false), false, "")?;
        let flag = self.builder.build_int_truncate(flag, i32_type, "")?;
        let [all, none] = [ALL, 0].map(|n| -> Result<IntValue<'c>> {
            let is = self.builder.build_int_compare(IntPredicate::EQ, flag, int(n), "")?;
            let arguments = [int(u32::MAX.into()).into(), is.into()];
            Ok(self.call("llvm.nvvm.vote.ballot.sync", &[], &arguments)?.into_int_value())
        });
        let (all, none) = (all?, none?);
        // Lanes before the first that knows all, and that one.
        let less = self.builder.build_int_sub(all, int(1), "")?;
        let nearer = self.builder.build_and(less, self.builder.build_not(all, "")?, "")?;
        let missing = self.builder.build_and(none, nearer, "")?;
        let complete = self.builder.build_int_compare(IntPredicate::EQ, missing, int(0), "")?;
        self.builder.build_conditional_branch(complete, read, poll)?;

        self.builder.position_at_end(read);
        let lowest = self.builder.build_and(all, self.builder.build_int_neg(all, "")?, "")?;
        let counted = self.builder.build_or(nearer, lowest, "")?;
        let counts = self.builder.build_right_shift(counted, lane, false, "")?;
        let counts = self.builder.build_int_truncate(counts, self.context.bool_type(), "")?;
        let bits = self.builder.build_int_truncate(found, i32_type, "")?;
        let said = self.of_bits(bits, value.ty)?;
        let said = self.builder.build_select(counts, said.llvm, start.llvm, "")?;
        let mut sum = Value { llvm: said, ty: value.ty };
        for mask in [16, 8, 4, 2, 1] {
            let other = self.shuffle(sum, "bfly", mask, 31)?;
            sum = self.binary(op.combine(), other, sum)?;
        }
        let so_far = Value { llvm: known.as_basic_value(), ty: value.ty };
        let sum = self.binary(op.combine(), sum, so_far)?;
        let ends = self.builder.build_int_compare(IntPredicate::NE, all, int(0), "")?;
        let on = self.builder.build_int_sub(last.as_basic_value().into_int_value(), int(32), "")?;
        let from = self.current_block();
        last.add_incoming(&[(&on, from)]);
        known.add_incoming(&[(&sum.llvm, from)]);
        self.builder.build_conditional_branch(ends, behind, window)?;

        self.builder.position_at_end(behind);
        let both = self.binary(op.combine(), sum, value)?;
        self.publish(words, step, lane, (int(ALL), both))?;
        let from = self.current_block();
        self.builder.build_unconditional_branch(done)?;
        self.builder.position_at_end(done);
        let result = self.builder.build_phi(start.llvm.get_type(), "")?;
        result.add_incoming(&[(&start.llvm, others), (&start.llvm, before), (&sum.llvm, from)]);
        self.assign(dst, Value { llvm: result.as_basic_value(), ty: value.ty })
    }

    /// The word of a step.
    fn word_at(&self, words: PointerValue<'c>, step: IntValue<'c>) -> Result<PointerValue<'c>> {
        let i64_type = self.context.i64_type();
        let step = self.builder.build_int_s_extend(step, i64_type, "")?;
        let two = self.builder.build_int_mul(step, i64_type.const_int(2, false), "")?;
        self.element(words, DType::I32, two)
    }

    /// Lane 0 writes the word of a step.
    fn publish(
        &self,
        words: PointerValue<'c>,
        step: IntValue<'c>,
        lane: IntValue<'c>,
        (flag, value): (IntValue<'c>, Value<'c>),
    ) -> Result<()> {
        let i32_type = self.context.i32_type();
        let word = self.word_at(words, step)?;
        let bits = match value.llvm {
            BasicValueEnum::FloatValue(float) => {
                self.builder.build_bit_cast(float, i32_type.as_basic_type_enum(), "")?
            }
            bits => bits,
        };
        let text = "{\n\t.reg .pred first;\n\t.reg .b64 said;\n\tsetp.eq.u32 first, $3, 0;\n\tmov.b64 said, {$1, $2};\n\t\
                    @first st.relaxed.gpu.global.b64 [$0], said;\n\t}";
        let arguments = [word.as_basic_value_enum(), bits, flag.into(), lane.into()];
        self.assembly(text, None, "l,r,r,r", &arguments).map(drop)
    }

    /// A value of 32 bits.
    fn of_bits(&self, bits: IntValue<'c>, dtype: DType) -> Result<Value<'c>> {
        let llvm = match dtype {
            DType::F32 => {
                let f32_type = self.context.f32_type().as_basic_type_enum();
                self.builder.build_bit_cast(bits, f32_type, "")?
            }
            _ => bits.into(),
        };
        Ok(Value { llvm, ty: dtype })
    }
}
