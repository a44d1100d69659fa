//! Scalar expressions.
//!
//! Arithmetic on `f16`, `bf16` and `f8` widens to `f32`, computes, and rounds. Nothing is fused but [`Expr::Fma`]:
//! LLVM prints `mul.rn` and `add.rn`, which ptxas may not contract. Index arithmetic is `nsw`: the kernel IR
//! chooses types in which offsets do not overflow. [`Expr::Wrapping`] is defined for all operands.

use super::{Codegen, Place, Result, Value, float_type, malformed};
use inkwell::{
    FloatPredicate, IntPredicate,
    types::{FloatType, IntType},
    values::{BasicValueEnum, FloatValue, IntValue},
};
use std::cmp::Ordering;
use tile_dsl::{
    dtype::{DType, Float},
    index::Extent,
    kernel::{Expr, Param, Var},
    op::{BinOp, CmpOp, UnOp, random},
};

pub(super) const F32: DType = DType::F32;
pub(super) const I32: DType = DType::I32;
pub(super) const BOOL: DType = DType::Bool;

/// The format of a float whose bits alone LLVM has a type for.
fn bits_of(ty: DType) -> Option<(DType, Float)> {
    ty.narrow().filter(|float| float.bits() == 8).map(|float| (ty, float))
}

impl<'c> Value<'c> {
    pub(super) fn float(self) -> Result<FloatValue<'c>> {
        match self.llvm {
            BasicValueEnum::FloatValue(v) => Ok(v),
            _ => malformed(format!("{} where a float is needed", self.ty)),
        }
    }

    pub(super) fn int(self) -> Result<IntValue<'c>> {
        match self.llvm {
            BasicValueEnum::IntValue(v) => Ok(v),
            _ => malformed(format!("{} where an integer or bool is needed", self.ty)),
        }
    }

    pub(super) fn bool(self) -> Result<IntValue<'c>> {
        if self.ty == BOOL { self.int() } else { malformed(format!("{} where a bool is needed", self.ty)) }
    }
}

impl<'c> Codegen<'c, '_> {
    pub(super) fn float_type(&self, ty: DType) -> Result<FloatType<'c>> {
        match ty.float().and_then(|float| float_type(self.context, float)) {
            Some(llvm) => Ok(llvm),
            None => malformed(format!("{ty} where a float type is needed")),
        }
    }

    pub(super) fn int_type(&self, ty: DType) -> Result<IntType<'c>> {
        match ty.is_float() {
            true => malformed(format!("{ty} where an integer type is needed")),
            false => Ok(self.llvm_type(ty).into_int_type()),
        }
    }

    pub(super) fn value(&self, llvm: impl Into<BasicValueEnum<'c>>, ty: DType) -> Value<'c> {
        Value { llvm: llvm.into(), ty }
    }

    pub(super) fn expr(&self, expr: &Expr) -> Result<Value<'c>> {
        Ok(match expr {
            Expr::Float(x, dtype) => {
                let ty = *dtype;
                match bits_of(ty) {
                    Some((_, float)) => {
                        let bits = self.llvm_type(ty).into_int_type();
                        self.value(bits.const_int(float.encode(*x).into(), false), ty)
                    }
                    None => self.value(self.float_type(ty)?.const_float(*x), ty),
                }
            }
            Expr::Int(x, ty) => self.value(self.int_type(*ty)?.const_int(*x as u64, true), *ty),
            Expr::Bool(x) => self.value(self.context.bool_type().const_int(u64::from(*x), false), BOOL),
            Expr::Var(var) => self.read_var(*var)?,
            Expr::Slot { frag, slot } => self.slot_value(*frag, *slot)?,
            Expr::Tid => self.value(self.call("llvm.nvvm.read.ptx.sreg.tid.x", &[], &[])?, I32),
            Expr::Cta => self.value(self.call("llvm.nvvm.read.ptx.sreg.ctaid.x", &[], &[])?, I32),
            Expr::Ctas => self.value(self.call("llvm.nvvm.read.ptx.sreg.nctaid.x", &[], &[])?, I32),
            Expr::Tiles => self.tiles()?,
            Expr::Dim(extent) => self.extent(extent)?,
            Expr::Scalar(index) => match self.kernel.params.get(*index as usize) {
                Some(Param::Scalar { dtype, .. }) => self.read(self.param(*index)?, *dtype)?,
                _ => return malformed(format!("parameter {index} is no scalar")),
            },
            Expr::Un(op, x) => self.unary(*op, self.expr(x)?)?,
            Expr::Bin(BinOp::Div, a, b) if let Some(quotient) = self.of_warp(a, b)? => {
                self.value(quotient, I32)
            }
            Expr::Bin(op, a, b) => self.binary(*op, self.expr(a)?, self.expr(b)?)?,
            Expr::Wrapping(op, a, b) => self.wrapping(*op, self.expr(a)?, self.expr(b)?)?,
            Expr::Fma(a, b, c) => self.fused(self.expr(a)?, self.expr(b)?, self.expr(c)?)?,
            Expr::Cmp(op, a, b) => self.compare(*op, self.expr(a)?, self.expr(b)?)?,
            Expr::Select(c, a, b) => {
                let (c, a, b) = (self.expr(c)?, self.expr(a)?, self.expr(b)?);
                same_type(a, b)?;
                self.value(self.builder.build_select(c.bool()?, a.llvm, b.llvm, "")?, a.ty)
            }
            Expr::Cast(ty, x) => self.cast(*ty, self.expr(x)?)?,
        })
    }

    pub(super) fn param(&self, index: u32) -> Result<BasicValueEnum<'c>> {
        match self.params.get(index as usize) {
            Some(value) => Ok(*value),
            None => malformed(format!("no parameter {index}")),
        }
    }

    pub(super) fn var_type(&self, var: Var) -> Result<DType> {
        match self.kernel.vars.get(var.0 as usize) {
            Some(ty) => Ok(*ty),
            None => malformed(format!("v{} is not in the table of variables", var.0)),
        }
    }

    fn read_var(&self, var: Var) -> Result<Value<'c>> {
        let ty = self.var_type(var)?;
        match self.vars[var.0 as usize] {
            Place::Value(llvm) => Ok(Value { llvm, ty }),
            Place::Slot(pointer) => {
                Ok(self.value(self.builder.build_load(self.llvm_type(ty), pointer, "")?, ty))
            }
            Place::Unset => malformed(format!("v{} is read before it is assigned", var.0)),
        }
    }

    pub(super) fn assign(&mut self, var: Var, value: Value<'c>) -> Result<()> {
        let ty = self.var_type(var)?;
        if ty != value.ty {
            return malformed(format!("v{}: {ty} is assigned a {}", var.0, value.ty));
        }
        match &mut self.vars[var.0 as usize] {
            Place::Slot(pointer) => {
                self.builder.build_store(*pointer, value.llvm)?;
            }
            place => *place = Place::Value(value.llvm),
        }
        Ok(())
    }

    /// `constant + Σ coefficient · dim`, in `i32`.
    fn extent(&self, extent: &Extent) -> Result<Value<'c>> {
        let i32_type = self.context.i32_type();
        let mut sum = i32_type.const_int(extent.constant as u64, true);
        for (name, coefficient) in &extent.dims {
            let position =
                self.kernel.params.iter().position(|p| matches!(p, Param::Dim(dim) if dim == name));
            let Some(position) = position else {
                return malformed(format!("no parameter for the dim `{name}`"));
            };
            let dim = self.value(self.param(position as u32)?, I32).int()?;
            let factor = i32_type.const_int(*coefficient as u64, true);
            let term = self.builder.build_int_nsw_mul(dim, factor, "")?;
            sum = self.builder.build_int_nsw_add(term, sum, "")?;
        }
        Ok(self.value(sum, I32))
    }

    fn unary(&self, op: UnOp, x: Value<'c>) -> Result<Value<'c>> {
        match op {
            UnOp::Order => return self.ordered(x),
            UnOp::Uniform => return self.fraction(x),
            _ => {}
        }
        if x.ty.is_float() {
            let Some(real) = op.row().float else {
                return malformed(format!("{} of {}", op.name(), x.ty));
            };
            let wide = self.cast(F32, x)?.float()?;
            let result = self.function(|m, [x]| (real.code)(m, x), [wide], x.ty != F32)?;
            return self.cast(x.ty, self.value(result, F32));
        }
        let int = x.int()?;
        match op {
            UnOp::Not => Ok(self.value(self.builder.build_not(int, "")?, x.ty)),
            UnOp::Neg => Ok(self.value(self.builder.build_int_neg(int, "")?, x.ty)),
            UnOp::Abs => {
                let wraps = self.context.bool_type().const_zero();
                let args = [int.into(), wraps.into()];
                Ok(self.value(self.call("llvm.abs", &[x.llvm.get_type()], &args)?, x.ty))
            }
            _ => malformed(format!("{} of {}", op.name(), x.ty)),
        }
    }

    /// An `i32` that lies between others as a float does: [`UnOp::Order`].
    fn ordered(&self, x: Value<'c>) -> Result<Value<'c>> {
        let (builder, ty) = (&self.builder, self.context.i32_type());
        let x = self.cast(F32, x)?.float()?;
        let bits = builder.build_bit_cast(x, ty, "")?.into_int_value();
        let sign = builder.build_right_shift(bits, ty.const_int(31, false), true, "")?;
        let flipped = builder.build_and(sign, ty.const_int(i32::MAX as u64, false), "")?;
        let key = builder.build_xor(bits, flipped, "")?;
        let is_nan = builder.build_float_compare(FloatPredicate::UNO, x, x, "")?;
        let last = ty.const_int(i32::MAX as u64, false);
        Ok(self.value(builder.build_select(is_nan, last, key, "")?, I32))
    }

    /// The first 24 bits of a word behind the binary point: [`UnOp::Uniform`].
    fn fraction(&self, x: Value<'c>) -> Result<Value<'c>> {
        let (builder, word, float) = (&self.builder, x.int()?, self.context.f32_type());
        let first = builder.build_right_shift(word, word.get_type().const_int(8, false), false, "")?;
        let whole = builder.build_unsigned_int_to_float(first, float, "")?;
        let unit = float.const_float(1.0 / f64::from(1u32 << 24));
        Ok(self.value(builder.build_float_mul(whole, unit, "")?, F32))
    }

    /// A word of [`philox4x32`](random::philox4x32). What the four words share LLVM finds.
    fn random(&self, word: usize, seed: IntValue<'c>, i: IntValue<'c>) -> Result<IntValue<'c>> {
        let (builder, int, long) = (&self.builder, self.context.i32_type(), self.context.i64_type());
        let zero = int.const_zero();
        // The upper and the lower half of a product.
        let product = |factor: u32, x: IntValue<'c>| -> Result<[IntValue<'c>; 2]> {
            let wide = builder.build_int_z_extend(x, long, "")?;
            let whole = builder.build_int_mul(wide, long.const_int(factor.into(), false), "")?;
            let upper = builder.build_right_shift(whole, long.const_int(32, false), false, "")?;
            Ok([builder.build_int_truncate(upper, int, "")?, builder.build_int_truncate(whole, int, "")?])
        };
        let mixed = |upper: IntValue<'c>, x: IntValue<'c>, key: IntValue<'c>| {
            builder.build_xor(builder.build_xor(upper, x, "")?, key, "")
        };
        let (mut key, mut counter) = ([seed, zero], [i, zero, zero, zero]);
        for _ in 0..random::ROUNDS {
            let [a, b, c, d] = counter;
            let ([first, low], [second, lower]) =
                (product(random::FACTORS[0], a)?, product(random::FACTORS[1], c)?);
            counter = [mixed(second, b, key[0])?, lower, mixed(first, d, key[1])?, low];
            for (part, by) in key.iter_mut().zip(random::WEYL) {
                *part = builder.build_int_add(*part, int.const_int(by.into(), false), "")?;
            }
        }
        Ok(counter[word])
    }

    pub(super) fn binary(&self, op: BinOp, a: Value<'c>, b: Value<'c>) -> Result<Value<'c>> {
        same_type(a, b)?;
        let builder = &self.builder;
        if a.ty.is_float() {
            let Some(real) = op.row().float else {
                return malformed(format!("`{}` of {}", op.name(), a.ty));
            };
            let wide = [self.cast(F32, a)?.float()?, self.cast(F32, b)?.float()?];
            let result = self.function(|m, [x, y]| (real.code)(m, x, y), wide, a.ty != F32)?;
            let result = self.cast(a.ty, self.value(result, F32))?;
            self.record_operation(op, [a, b], result)?;
            return Ok(result);
        }
        let (x, y) = (a.int()?, b.int()?);
        let result = match (op, a.ty == BOOL) {
            (BinOp::And, _) => builder.build_and(x, y, "")?,
            (BinOp::Or, _) => builder.build_or(x, y, "")?,
            (BinOp::Xor, _) => builder.build_xor(x, y, "")?,
            (BinOp::Shl | BinOp::Shr, false) => self.shifted(op, a.ty, x, y)?,
            (BinOp::Add, false) => builder.build_int_nsw_add(x, y, "")?,
            (BinOp::Sub, false) => builder.build_int_nsw_sub(x, y, "")?,
            (BinOp::Mul, false) => builder.build_int_nsw_mul(x, y, "")?,
            (BinOp::Div | BinOp::Rem, false) => self.divided(op, a.ty, x, y)?,
            (BinOp::Max, false) => {
                self.int_call(if a.ty.is_unsigned() { "llvm.umax" } else { "llvm.smax" }, x, y)?
            }
            (BinOp::Min, false) => {
                self.int_call(if a.ty.is_unsigned() { "llvm.umin" } else { "llvm.smin" }, x, y)?
            }
            _ => return malformed(format!("`{}` of {}", op.name(), a.ty)),
        };
        Ok(self.value(result, a.ty))
    }

    /// Bits moved by a number of places: LLVM leaves the result of as many as there are bits undefined, or of more. PTX does
    /// not, and LLVM knows: of the comparison nothing is left in the code.
    fn shifted(&self, op: BinOp, ty: DType, x: IntValue<'c>, by: IntValue<'c>) -> Result<IntValue<'c>> {
        let builder = &self.builder;
        let bits = u64::from(ty.format().bits);
        if let Some(by) =
            by.get_zero_extended_constant().filter(|by| *by < bits).map(|n| by.get_type().const_int(n, false))
        {
            return Ok(match op {
                BinOp::Shr => builder.build_right_shift(x, by, !ty.is_unsigned(), "")?,
                _ => builder.build_left_shift(x, by, "")?,
            });
        }
        let last = by.get_type().const_int(bits - 1, false);
        let within = builder.build_int_compare(IntPredicate::ULE, by, last, "")?;
        let zero = x.get_type().const_zero();
        Ok(match (op, ty.is_unsigned()) {
            // The sign fills all bits, as it does by the last one.
            (BinOp::Shr, false) => {
                let by = builder.build_select(within, by, last, "")?.into_int_value();
                builder.build_right_shift(x, by, true, "")?
            }
            (BinOp::Shr, true) => {
                let shifted = builder.build_right_shift(x, by, false, "")?;
                builder.build_select(within, shifted, zero, "")?.into_int_value()
            }
            _ => {
                let shifted = builder.build_left_shift(x, by, "")?;
                builder.build_select(within, shifted, zero, "")?.into_int_value()
            }
        })
    }

    /// A quotient or a remainder.
    fn divided(&self, op: BinOp, ty: DType, x: IntValue<'c>, y: IntValue<'c>) -> Result<IntValue<'c>> {
        let builder = &self.builder;
        Ok(match (op, ty.is_unsigned()) {
            (BinOp::Div, false) => builder.build_int_signed_div(x, y, "")?,
            (BinOp::Div, true) => builder.build_int_unsigned_div(x, y, "")?,
            (_, false) => builder.build_int_signed_rem(x, y, "")?,
            (_, true) => builder.build_int_unsigned_rem(x, y, "")?,
        })
    }

    /// Arithmetic as [`tile_dsl::op::binary::Integer::value`] defines it: LLVM leaves dividing by zero and the least number by −1
    /// undefined, so those divide by 1 instead, which gives both remainders and the quotient of the second.
    fn wrapping(&self, op: BinOp, a: Value<'c>, b: Value<'c>) -> Result<Value<'c>> {
        same_type(a, b)?;
        let builder = &self.builder;
        let (x, y) = (a.int()?, b.int()?);
        let is = |v: IntValue<'c>, n: i64| {
            let n = v.get_type().const_int(n as u64, true);
            builder.build_int_compare(IntPredicate::EQ, v, n, "")
        };
        let result = match op {
            BinOp::Add => builder.build_int_add(x, y, "")?,
            BinOp::Sub => builder.build_int_sub(x, y, "")?,
            BinOp::Mul => builder.build_int_mul(x, y, "")?,
            BinOp::Div | BinOp::Rem => {
                let (one, zero) = (y.get_type().const_int(1, false), y.get_type().const_zero());
                let by_zero = is(y, 0)?;
                let undefined = match a.ty.is_unsigned() {
                    true => by_zero,
                    false => {
                        let overflows = builder.build_and(is(x, a.ty.least())?, is(y, -1)?, "")?;
                        builder.build_or(by_zero, overflows, "")?
                    }
                };
                let divisor = builder.build_select(undefined, one, y, "")?.into_int_value();
                let result = self.divided(op, a.ty, x, divisor)?;
                if op == BinOp::Rem {
                    result
                } else {
                    builder.build_select(by_zero, zero, result, "")?.into_int_value()
                }
            }
            BinOp::Shl => self.shifted(op, a.ty, x, y)?,
            BinOp::Random0 | BinOp::Random1 | BinOp::Random2 | BinOp::Random3 => {
                self.random(op.random_word().unwrap_or(0), x, y)?
            }
            BinOp::Max | BinOp::Min | BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shr => {
                return malformed(format!("wrapping `{}`", op.name()));
            }
        };
        Ok(self.value(result, a.ty))
    }

    fn fused(&self, a: Value<'c>, b: Value<'c>, c: Value<'c>) -> Result<Value<'c>> {
        same_type(a, b)?;
        same_type(a, c)?;
        if !a.ty.is_float() {
            let product = self.binary(BinOp::Mul, a, b)?;
            return self.binary(BinOp::Add, product, c);
        }
        let wide = |x| self.cast(F32, x)?.float();
        let result = self.fma(wide(a)?, wide(b)?, wide(c)?)?;
        self.cast(a.ty, self.value(result, F32))
    }

    fn compare(&self, op: CmpOp, a: Value<'c>, b: Value<'c>) -> Result<Value<'c>> {
        same_type(a, b)?;
        if a.ty == BOOL && op.row().ordered {
            return malformed(format!("`{}` of bools", op.name()));
        }
        let (float, int) = match op {
            CmpOp::Eq => (FloatPredicate::OEQ, IntPredicate::EQ),
            CmpOp::Ne => (FloatPredicate::UNE, IntPredicate::NE),
            CmpOp::Lt => (FloatPredicate::OLT, IntPredicate::SLT),
            CmpOp::Le => (FloatPredicate::OLE, IntPredicate::SLE),
            CmpOp::Gt => (FloatPredicate::OGT, IntPredicate::SGT),
            CmpOp::Ge => (FloatPredicate::OGE, IntPredicate::SGE),
        };
        let result = if a.ty.is_float() {
            let (x, y) = (self.cast(F32, a)?.float()?, self.cast(F32, b)?.float()?);
            self.builder.build_float_compare(float, x, y, "")?
        } else {
            let int = match (a.ty.is_unsigned(), int) {
                (true, IntPredicate::SLT) => IntPredicate::ULT,
                (true, IntPredicate::SLE) => IntPredicate::ULE,
                (true, IntPredicate::SGT) => IntPredicate::UGT,
                (true, IntPredicate::SGE) => IntPredicate::UGE,
                (_, int) => int,
            };
            self.builder.build_int_compare(int, a.int()?, b.int()?, "")?
        };
        Ok(self.value(result, BOOL))
    }

    pub(super) fn cast(&self, to: DType, x: Value<'c>) -> Result<Value<'c>> {
        if to == x.ty {
            return Ok(x);
        }
        if to == BOOL {
            return malformed(format!("a cast of {} to a truth value", x.ty));
        }
        if let Some((dtype, _)) = bits_of(x.ty) {
            return self.cast(to, self.widened(x, dtype)?);
        }
        if let Some((dtype, _)) = bits_of(to) {
            return self.narrowed(self.cast(F32, x)?, dtype);
        }
        let builder = &self.builder;
        let llvm: BasicValueEnum = match (x.ty.is_float(), to.is_float()) {
            (true, true) => {
                let target = self.float_type(to)?;
                let (from, wide) = (x.float()?, self.context.f32_type());
                if to == F32 {
                    builder.build_float_ext(from, target, "")?.into()
                } else {
                    // Between the 16-bit types the way leads over f32, which holds either exactly.
                    let from = if x.ty == F32 { from } else { builder.build_float_ext(from, wide, "")? };
                    builder.build_float_trunc(from, target, "")?.into()
                }
            }
            (true, false) => {
                let (target, from) = (self.int_type(to)?, self.cast(F32, x)?);
                let types = [target.into(), from.llvm.get_type()];
                let name = if to.is_unsigned() { "llvm.fptoui.sat" } else { "llvm.fptosi.sat" };
                self.call(name, &types, &[from.llvm.into()])?
            }
            (false, true) => {
                if let Some(small) = self.small_integer(to, x)? {
                    return Ok(self.value(small, to));
                }
                let (target, from) = (self.float_type(to)?, x.int()?);
                if x.ty == BOOL || x.ty.is_unsigned() {
                    builder.build_unsigned_int_to_float(from, target, "")?.into()
                } else {
                    builder.build_signed_int_to_float(from, target, "")?.into()
                }
            }
            (false, false) => {
                let (target, from) = (self.int_type(to)?, x.int()?);
                let extends_by_sign = !x.ty.is_unsigned() && x.ty != BOOL;
                match from.get_type().get_bit_width().cmp(&target.get_bit_width()) {
                    Ordering::Greater => builder.build_int_truncate(from, target, "")?.into(),
                    Ordering::Equal => from.into(),
                    Ordering::Less if extends_by_sign => builder.build_int_s_extend(from, target, "")?.into(),
                    Ordering::Less => builder.build_int_z_extend(from, target, "")?.into(),
                }
            }
        };
        Ok(Value { llvm, ty: to })
    }

    /// A float of 8 bits in f32 (PTX ISA 9.7.9.21, `cvt.rn.f16x2.e4m3x2`): exact. The instruction takes two.
    fn widened(&self, x: Value<'c>, dtype: DType) -> Result<Value<'c>> {
        let pair = self.builder.build_int_z_extend(x.int()?, self.context.i16_type(), "")?;
        let name = format!("llvm.nvvm.{}x2.to.f16x2.rn", dtype.format().ptx);
        let both = self.call(&name, &[], &[pair.into()])?.into_vector_value();
        let first = self.context.i32_type().const_zero();
        let half = self.builder.build_extract_element(both, first, "")?.into_float_value();
        Ok(self.value(self.builder.build_float_ext(half, self.context.f32_type(), "")?, F32))
    }

    /// An `f32` as a float of 8 bits (`cvt.rn.satfinite.e4m3x2.f32`): what is too large becomes the largest.
    fn narrowed(&self, x: Value<'c>, dtype: DType) -> Result<Value<'c>> {
        let zero = self.context.f32_type().const_zero();
        let name = format!("llvm.nvvm.ff.to.{}x2.rn", dtype.format().ptx);
        let pair = self.call(&name, &[], &[zero.into(), x.float()?.into()])?.into_int_value();
        let bits = self.builder.build_int_truncate(pair, self.context.i8_type(), "")?;
        self.rounded.borrow_mut().insert(bits, (x.float()?, dtype));
        Ok(self.value(bits, dtype))
    }

    /// An intrinsic over floats of the type of the first.
    pub(super) fn float_call(&self, name: &str, args: &[FloatValue<'c>]) -> Result<FloatValue<'c>> {
        let args_llvm: Vec<_> = args.iter().map(|&a| a.into()).collect();
        Ok(self.call(name, &[args[0].get_type().into()], &args_llvm)?.into_float_value())
    }

    fn int_call(&self, name: &str, a: IntValue<'c>, b: IntValue<'c>) -> Result<IntValue<'c>> {
        Ok(self.call(name, &[a.get_type().into()], &[a.into(), b.into()])?.into_int_value())
    }

    pub(super) fn fma(
        &self,
        a: FloatValue<'c>,
        b: FloatValue<'c>,
        c: FloatValue<'c>,
    ) -> Result<FloatValue<'c>> {
        self.float_call("llvm.fma", &[a, b, c])
    }
}

fn same_type(a: Value<'_>, b: Value<'_>) -> Result<()> {
    if a.ty == b.ty { Ok(()) } else { malformed(format!("operands of types {} and {}", a.ty, b.ty)) }
}
