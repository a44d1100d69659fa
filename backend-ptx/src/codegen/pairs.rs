//! Two elements of 16 bits at once: a register of an operand of tensor cores has two, and where both are computed in one way, one
//! instruction computes both.
//!
//! ```text
//! cvt(a >> 4 & 15) − z, cvt(b >> 4 & 15) − z   →   p = prmt(a, b, 0x5410)     the lower halves of both words
//!                                                  p = p >> 4 & 0x000f000f
//!                                                  p | 0x43004300             128 + n, as bf16 has it
//!                                                  (p − {128, 128}) − {z, z}
//! ```
//! The scalar code stays, and LLVM removes it where nothing reads it. Results have the same bits as those of the scalar code: it computes
//! in f32 and rounds to 16 bits, and f32 has so many bits more that rounding twice gives the same as rounding once (Figueroa, "When is
//! double rounding innocuous?", 1995). A product of two bf16 may lie below the least normal f32, so it is computed in f32 here, too.
//! Source: Kim and others, "Who says elephants can't run" (2022), for integers in the fraction of a float; PTX ISA 9.7.4 (`add`, `sub`,
//! `mul` of `f16x2` and `bf16x2`), 9.7.9.7 (`prmt`), 9.7.8.6 (`lop3`).

use super::{Codegen, Result, Value, malformed};
use inkwell::{
    types::VectorType,
    values::{BasicValueEnum, FloatValue, InstructionOpcode, IntValue, VectorValue},
};
use tile_dsl::{dtype::DType, op::BinOp};

/// How an element of 16 bits was made.
#[derive(Clone, Copy)]
pub(super) enum Made<'c> {
    /// From two others, by an operation that is rounded once.
    Operation(BinOp, [FloatValue<'c>; 2]),
    /// From a small integer.
    Integer(IntValue<'c>),
}

/// The least number of a float type whose unit in the last place is 1: integers below it can be put into its fraction.
struct UnitUlp {
    bits: u64,
    value: u64,
}

fn unit_ulp(dtype: DType) -> Option<UnitUlp> {
    match dtype {
        DType::F32 => Some(UnitUlp { bits: 0x4b00_0000, value: 1 << 23 }),
        DType::F16 => Some(UnitUlp { bits: 0x6400, value: 1 << 10 }),
        DType::BF16 => Some(UnitUlp { bits: 0x4300, value: 1 << 7 }),
        _ => None,
    }
}

/// Bits of a word: `word >> shift & mask`.
#[derive(Clone, Copy, PartialEq)]
struct Field<'c> {
    word: IntValue<'c>,
    shift: u64,
    mask: u64,
}

/// `prmt` takes the lower halves of two words, and the upper ones.
const HALVES: [u64; 2] = [0x5410, 0x7632];

/// Operands of the instruction that computed an integer, if it is this one.
fn operands<'c>(x: IntValue<'c>, opcode: InstructionOpcode) -> Option<[IntValue<'c>; 2]> {
    let made = x.as_instruction().filter(|made| made.get_opcode() == opcode)?;
    let operand = |n| match made.get_operand(n)?.value()? {
        BasicValueEnum::IntValue(x) => Some(x),
        _ => None,
    };
    Some([operand(0)?, operand(1)?])
}

fn constant(x: IntValue<'_>) -> Option<u64> {
    x.get_zero_extended_constant()
}

impl<'c> Field<'c> {
    fn of(x: IntValue<'c>) -> Option<Self> {
        let [moved, mask] = operands(x, InstructionOpcode::And)?;
        let mask = constant(mask)?;
        let (word, shift) = match operands(moved, InstructionOpcode::LShr) {
            Some([word, by]) => (word, constant(by)?),
            None => (moved, 0),
        };
        (word.get_type().get_bit_width() == 32).then_some(Field { word, shift, mask })
    }

    /// One behind its last bit.
    fn end(&self) -> u64 {
        self.shift + u64::from(self.mask.checked_ilog2().map_or(0, |bit| bit + 1))
    }
}

/// The greatest value that an integer of a kernel has, by how it was computed.
fn most(x: IntValue<'_>, unsigned: bool) -> Option<u64> {
    let bits = x.get_type().get_bit_width();
    match operands(x, InstructionOpcode::And) {
        Some([_, mask]) => constant(mask).filter(|mask| *mask <= i32::MAX as u64),
        None => (unsigned && (8..32).contains(&bits)).then(|| (1 << bits) - 1),
    }
}

impl<'c> Codegen<'c, '_> {
    /// A small integer as a float, which is exact: its bits are put into the fraction of a number whose unit in the last place is 1.
    pub(super) fn small_integer(&self, to: DType, x: Value<'c>) -> Result<Option<FloatValue<'c>>> {
        let int = x.int()?;
        let fits = |unit: &UnitUlp| most(int, x.ty.is_unsigned()).is_some_and(|most| most < unit.value);
        let Some(unit) = unit_ulp(to).filter(fits) else { return Ok(None) };
        let (builder, float) = (&self.builder, self.float_type(to)?);
        let width = if to.bytes() == 2 { self.context.i16_type() } else { self.context.i32_type() };
        let bits = match int.get_type().get_bit_width() > width.get_bit_width() {
            true => builder.build_int_truncate(int, width, "")?,
            false => builder.build_int_z_extend(int, width, "")?,
        };
        let put = builder.build_or(bits, width.const_int(unit.bits, false), "")?;
        let put = builder.build_bit_cast(put, float, "")?.into_float_value();
        let whole = builder.build_float_sub(put, float.const_float(unit.value as f64), "")?;
        if to.bytes() == 2 {
            let int = builder.build_int_z_extend(int, self.context.i32_type(), "")?;
            self.made.borrow_mut().insert(whole, Made::Integer(int));
        }
        Ok(Some(whole))
    }

    /// Keeps how an element of 16 bits was made.
    pub(super) fn record_operation(
        &self,
        op: BinOp,
        operands: [Value<'c>; 2],
        result: Value<'c>,
    ) -> Result<()> {
        if result.ty.is_float()
            && result.ty.bytes() == 2
            && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul)
        {
            let made = Made::Operation(op, [operands[0].float()?, operands[1].float()?]);
            self.made.borrow_mut().insert(result.float()?, made);
        }
        Ok(())
    }

    /// Two elements that are made in one way, computed at once.
    pub(super) fn paired(&self, two: [FloatValue<'c>; 2], dtype: DType) -> Result<Option<VectorValue<'c>>> {
        let made = two.map(|x| self.made.borrow().get(&x).copied());
        match made {
            [Some(Made::Operation(op, a)), Some(Made::Operation(other, b))] if op == other => {
                self.computed(op, [[a[0], b[0]], [a[1], b[1]]], dtype).map(Some)
            }
            [Some(Made::Integer(a)), Some(Made::Integer(b))] => {
                let Some(unit) = unit_ulp(dtype) else { return Ok(None) };
                let put = self.in_fractions([a, b], dtype)?;
                let each = self.float_type(dtype)?.const_float(unit.value as f64);
                let each = VectorType::const_vector(&[each, each]);
                Ok(Some(self.builder.build_float_sub(put, each, "")?))
            }
            _ => Ok(None),
        }
    }

    /// Two elements as a vector.
    fn pair(&self, two: [FloatValue<'c>; 2], dtype: DType) -> Result<VectorValue<'c>> {
        if let Some(pair) = self.paired(two, dtype)? {
            return Ok(pair);
        }
        let mut pair = self.float_type(dtype)?.vec_type(2).get_poison();
        for (n, x) in (0u64..).zip(two) {
            let index = self.context.i32_type().const_int(n, false);
            pair = self.builder.build_insert_element(pair, x, index, "")?;
        }
        Ok(pair)
    }

    /// An operation on two pairs: by an instruction of pairs where it has the same bits, and otherwise in f32.
    fn computed(&self, op: BinOp, [x, y]: [[FloatValue<'c>; 2]; 2], dtype: DType) -> Result<VectorValue<'c>> {
        let builder = &self.builder;
        let made = |x: FloatValue<'c>| self.made.borrow().get(&x).copied();
        if let (
            BinOp::Sub,
            [Some(Made::Integer(a)), Some(Made::Integer(b))],
            [Some(Made::Integer(c)), Some(Made::Integer(d))],
        ) = (op, x.map(made), y.map(made))
        {
            // What both have more than the integers cancels.
            return Ok(builder.build_float_sub(
                self.in_fractions([a, b], dtype)?,
                self.in_fractions([c, d], dtype)?,
                "",
            )?);
        }
        let (x, y) = (self.pair(x, dtype)?, self.pair(y, dtype)?);
        let native = dtype == DType::F16 || self.kernel.target.sm >= 90;
        match op {
            BinOp::Add if native => Ok(builder.build_float_add(x, y, "")?),
            BinOp::Sub if native => Ok(builder.build_float_sub(x, y, "")?),
            // f32 has a product of two f16 as it is. One of bf16 may be too small for that.
            BinOp::Mul if dtype == DType::F16 => Ok(builder.build_float_mul(x, y, "")?),
            _ => {
                let wide = self.context.f32_type().vec_type(2);
                let (x, y) = (builder.build_float_ext(x, wide, "")?, builder.build_float_ext(y, wide, "")?);
                let result = match op {
                    BinOp::Add => builder.build_float_add(x, y, "")?,
                    BinOp::Sub => builder.build_float_sub(x, y, "")?,
                    _ => builder.build_float_mul(x, y, "")?,
                };
                Ok(builder.build_float_trunc(result, self.float_type(dtype)?.vec_type(2), "")?)
            }
        }
    }

    /// Two small integers in the fractions of two numbers whose unit in the last place is 1.
    fn in_fractions(&self, two: [IntValue<'c>; 2], dtype: DType) -> Result<VectorValue<'c>> {
        let (builder, word) = (&self.builder, self.context.i32_type());
        let number = |n: u64| word.const_int(n, false);
        let unit = unit_ulp(dtype).map_or(0, |unit| unit.bits);
        let halves = |[a, b]: [IntValue<'c>; 2], which: usize| {
            let args = [a.into(), b.into(), number(HALVES[which]).into()];
            Ok::<_, crate::CompileError>(self.call("llvm.nvvm.prmt", &[], &args)?.into_int_value())
        };
        let (both, shift, mask) = match two.map(Field::of) {
            [Some(a), Some(b)]
                if a.word == b.word && b.shift == a.shift + 16 && a.mask == b.mask && a.end() <= 16 =>
            {
                (a.word, a.shift, Some(a.mask))
            }
            [Some(a), Some(b)] if (a.shift, a.mask) == (b.shift, b.mask) && a.end() <= 16 => {
                (halves([a.word, b.word], 0)?, a.shift, Some(a.mask))
            }
            // A mask beyond the word would reach into the other one.
            [Some(a), Some(b)]
                if (a.shift, a.mask) == (b.shift, b.mask) && a.shift >= 16 && a.end() <= 32 =>
            {
                (halves([a.word, b.word], 1)?, a.shift - 16, Some(a.mask))
            }
            _ => (halves(two, 0)?, 0, None),
        };
        let moved =
            if shift == 0 { both } else { builder.build_right_shift(both, number(shift), false, "")? };
        let (more, mask) = (number(unit | unit << 16), mask.map(|mask| number(mask | mask << 16)));
        let put = match mask {
            Some(mask) => self.masked_or(moved, mask, more)?,
            None => builder.build_or(moved, more, "")?,
        };
        Ok(builder.build_bit_cast(put, self.float_type(dtype)?.vec_type(2), "")?.into_vector_value())
    }

    /// `x & mask | more` by one instruction: where both are constants, `ptxas` makes two.
    fn masked_or(&self, x: IntValue<'c>, mask: IntValue<'c>, more: IntValue<'c>) -> Result<IntValue<'c>> {
        let word = self.context.i32_type();
        let ty = word.fn_type(&[word.into(); 3], false);
        let text = "lop3.b32 $0, $1, $2, $3, 0xEA;".into();
        let function = self.context.create_inline_asm(ty, text, "=r,r,r,r".into(), false, false, None, false);
        let args = [x.into(), mask.into(), more.into()];
        let call = self.builder.build_indirect_call(ty, function, &args, "")?;
        match call.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(word)) => Ok(word),
            _ => malformed("lop3 without a result"),
        }
    }
}
