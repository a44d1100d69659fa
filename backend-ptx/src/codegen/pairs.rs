//! Two elements of 16 bits at once: what instructions of tensor cores take by twos is computed by twos where both are made in one way.
//!
//! ```text
//! cvt(a >> 4 & 15) − z, cvt(b >> 4 & 15) − z   →   p = prmt(a, b, 0x5410)     the lower halves of both words
//!                                                  p = p >> 4 & 0x000f000f
//!                                                  p | 0x43004300             128 + n, as bf16 has it
//!                                                  (p − {128, 128}) − {z, z}
//! ```
//! The elements that are one by one are left for nobody to read. Each result has the same bits as before: an element is rounded once,
//! from a sum or difference that f32 would have as well, or it is exact.
//! Source: Kim and others, "Who says elephants can't run" (2022), for integers in the fraction of a float; PTX ISA 9.7.4 (`add`, `sub`,
//! `mul` of `f16x2` and `bf16x2`), 9.7.9.7 (`prmt`), 9.7.8.6 (`lop3`).

use super::{Codegen, Result, Value};
use inkwell::values::{BasicValueEnum, FloatValue, InstructionOpcode, IntValue, VectorValue};
use tile_dsl::{dtype::DType, op::BinOp};

/// How an element of 16 bits was made.
#[derive(Clone, Copy)]
pub(super) enum Made<'c> {
    /// From two others, by an operation that is rounded once.
    From(BinOp, [FloatValue<'c>; 2]),
    /// From a small integer.
    Whole(IntValue<'c>),
}

/// A number of a float type at which numbers are whole, so that the lower bits of its fraction count.
pub(super) struct Ones {
    /// Its bits.
    pub bits: u64,
    /// What it is, and how many integers from 0 on can be put into its fraction.
    pub value: u64,
}

/// The least number from which on numbers of a type are one apart.
pub(super) fn ones(dtype: DType) -> Option<Ones> {
    match dtype {
        DType::F32 => Some(Ones { bits: 0x4b00_0000, value: 1 << 23 }),
        DType::F16 => Some(Ones { bits: 0x6400, value: 1 << 10 }),
        DType::BF16 => Some(Ones { bits: 0x4300, value: 1 << 7 }),
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
    /// A small integer as a float, which is exact: its bits are put into the fraction of a number from which on numbers are one apart.
    pub(super) fn small_integer(&self, to: DType, x: Value<'c>) -> Result<Option<FloatValue<'c>>> {
        let (int, ones) = (x.int()?, ones(to));
        let Some(ones) =
            ones.filter(|ones| most(int, x.ty.is_unsigned()).is_some_and(|most| most < ones.value))
        else {
            return Ok(None);
        };
        let (builder, float) = (&self.builder, self.float_type(to)?);
        let width = if to.bytes() == 2 { self.context.i16_type() } else { self.context.i32_type() };
        let bits = match int.get_type().get_bit_width() > width.get_bit_width() {
            true => builder.build_int_truncate(int, width, "")?,
            false => builder.build_int_z_extend(int, width, "")?,
        };
        let put = builder.build_or(bits, width.const_int(ones.bits, false), "")?;
        let put = builder.build_bit_cast(put, float, "")?.into_float_value();
        let whole = builder.build_float_sub(put, float.const_float(ones.value as f64), "")?;
        if to.bytes() == 2 {
            let int = builder.build_int_z_extend(int, self.context.i32_type(), "")?;
            self.made.borrow_mut().insert(whole, Made::Whole(int));
        }
        Ok(Some(whole))
    }

    /// Notes how an element of 16 bits was made.
    pub(super) fn note(&self, op: BinOp, operands: [Value<'c>; 2], result: Value<'c>) -> Result<()> {
        if result.ty.is_float()
            && result.ty.bytes() == 2
            && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul)
        {
            let made = Made::From(op, [operands[0].float()?, operands[1].float()?]);
            self.made.borrow_mut().insert(result.float()?, made);
        }
        Ok(())
    }

    /// Two elements that are made in one way, computed at once.
    pub(super) fn paired(&self, two: [FloatValue<'c>; 2], dtype: DType) -> Result<Option<VectorValue<'c>>> {
        let made = two.map(|x| self.made.borrow().get(&x).copied());
        match made {
            [Some(Made::From(op, a)), Some(Made::From(other, b))] if op == other => {
                self.computed(op, [[a[0], b[0]], [a[1], b[1]]], dtype).map(Some)
            }
            [Some(Made::Whole(a)), Some(Made::Whole(b))] => {
                let Some(ones) = ones(dtype) else { return Ok(None) };
                let put = self.put([a, b], dtype)?;
                let each = self.float_type(dtype)?.const_float(ones.value as f64);
                let each = inkwell::types::VectorType::const_vector(&[each, each]);
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
            pair = self.builder.build_insert_element(
                pair,
                x,
                self.context.i32_type().const_int(n, false),
                "",
            )?;
        }
        Ok(pair)
    }

    /// An operation on two pairs: by an instruction of pairs where it has the same bits, and otherwise in f32.
    fn computed(&self, op: BinOp, [x, y]: [[FloatValue<'c>; 2]; 2], dtype: DType) -> Result<VectorValue<'c>> {
        let builder = &self.builder;
        let made = |x: FloatValue<'c>| self.made.borrow().get(&x).copied();
        if let (
            BinOp::Sub,
            [Some(Made::Whole(a)), Some(Made::Whole(b))],
            [Some(Made::Whole(c)), Some(Made::Whole(d))],
        ) = (op, x.map(made), y.map(made))
        {
            // What both have more than the integers cancels.
            return Ok(builder.build_float_sub(self.put([a, b], dtype)?, self.put([c, d], dtype)?, "")?);
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

    /// Two small integers in the fractions of two numbers from which on numbers are one apart.
    fn put(&self, two: [IntValue<'c>; 2], dtype: DType) -> Result<VectorValue<'c>> {
        let (builder, word) = (&self.builder, self.context.i32_type());
        let number = |n: u64| word.const_int(n, false);
        let ones = ones(dtype).map_or(0, |ones| ones.bits);
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
            [Some(a), Some(b)] if (a.shift, a.mask) == (b.shift, b.mask) && a.shift >= 16 => {
                (halves([a.word, b.word], 1)?, a.shift - 16, Some(a.mask))
            }
            _ => (halves(two, 0)?, 0, None),
        };
        let moved =
            if shift == 0 { both } else { builder.build_right_shift(both, number(shift), false, "")? };
        let (more, mask) = (number(ones | ones << 16), mask.map(|mask| number(mask | mask << 16)));
        let put = match mask {
            Some(mask) => self.masked_or(moved, mask, more)?,
            None => builder.build_or(moved, more, "")?,
        };
        Ok(builder.build_bit_cast(put, self.float_type(dtype)?.vec_type(2), "")?.into_vector_value())
    }

    /// `x & mask | more` by one instruction: of two constants `ptxas` makes two.
    fn masked_or(&self, x: IntValue<'c>, mask: IntValue<'c>, more: IntValue<'c>) -> Result<IntValue<'c>> {
        let word = self.context.i32_type();
        let ty = word.fn_type(&[word.into(); 3], false);
        let text = "lop3.b32 $0, $1, $2, $3, 0xEA;".into();
        let function = self.context.create_inline_asm(ty, text, "=r,r,r,r".into(), false, false, None, false);
        let args = [x.into(), mask.into(), more.into()];
        let call = self.builder.build_indirect_call(ty, function, &args, "")?;
        match call.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(word)) => Ok(word),
            _ => super::malformed("lop3 without a result"),
        }
    }
}
