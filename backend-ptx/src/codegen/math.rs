//! Functions of `f32` as instructions: [`tile_dsl::op::functions`] has their code, and this is the machine that it is for.

use super::{Codegen, Result, malformed};
use crate::CompileError;
use inkwell::{
    FloatPredicate, IntPredicate,
    values::{BasicValueEnum, FloatValue, IntValue},
};
use tile_dsl::op::functions::{Function, Machine, Reg};

/// What was made so far. After a mistake nothing more is made, and every value is the first one.
struct Instructions<'a, 'c, 'k> {
    codegen: &'a Codegen<'c, 'k>,
    values: Vec<BasicValueEnum<'c>>,
    narrow: bool,
    mistake: Option<CompileError>,
}

impl<'c> Codegen<'c, '_> {
    /// The result of an operator's code. `narrow`: the operands were widened.
    pub(super) fn function<const N: usize>(
        &self,
        code: impl FnOnce(&mut dyn Machine, [Reg; N]) -> Reg,
        operands: [FloatValue<'c>; N],
        narrow: bool,
    ) -> Result<FloatValue<'c>> {
        let values = operands.map(BasicValueEnum::from).to_vec();
        let mut made = Instructions { codegen: self, values, narrow, mistake: None };
        let result = code(&mut made, std::array::from_fn(Reg));
        match made.mistake.take() {
            Some(mistake) => Err(mistake),
            None => made.float_of(result),
        }
    }
}

impl<'c> Instructions<'_, 'c, '_> {
    fn float_of(&self, x: Reg) -> Result<FloatValue<'c>> {
        match self.values[x.0] {
            BasicValueEnum::FloatValue(value) => Ok(value),
            _ => malformed("code of a function has bits where an f32 is needed"),
        }
    }

    fn int_of(&self, x: Reg) -> Result<IntValue<'c>> {
        match self.values[x.0] {
            BasicValueEnum::IntValue(value) => Ok(value),
            _ => malformed("code of a function has an f32 where bits are needed"),
        }
    }

    fn make<V: Into<BasicValueEnum<'c>>>(&mut self, how: impl FnOnce(&Self) -> Result<V>) -> Reg {
        if self.mistake.is_none() {
            match how(self) {
                Ok(value) => {
                    self.values.push(value.into());
                    return Reg(self.values.len() - 1);
                }
                Err(mistake) => self.mistake = Some(mistake),
            }
        }
        Reg(0)
    }

    fn compare(&mut self, how: FloatPredicate, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_float_compare(how, m.float_of(a)?, m.float_of(b)?, "")?))
    }
}

impl Machine for Instructions<'_, '_, '_> {
    fn narrow(&self) -> bool {
        self.narrow
    }

    fn float(&mut self, x: f64) -> Reg {
        self.make(|m| Ok(m.codegen.context.f32_type().const_float(x)))
    }

    fn int(&mut self, x: u32) -> Reg {
        self.make(|m| Ok(m.codegen.context.i32_type().const_int(x.into(), false)))
    }

    fn neg(&mut self, x: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_float_neg(m.float_of(x)?, "")?))
    }

    fn add(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_float_add(m.float_of(a)?, m.float_of(b)?, "")?))
    }

    fn sub(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_float_sub(m.float_of(a)?, m.float_of(b)?, "")?))
    }

    fn mul(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_float_mul(m.float_of(a)?, m.float_of(b)?, "")?))
    }

    fn div(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_float_div(m.float_of(a)?, m.float_of(b)?, "")?))
    }

    fn fma(&mut self, a: Reg, b: Reg, c: Reg) -> Reg {
        self.make(|m| m.codegen.fma(m.float_of(a)?, m.float_of(b)?, m.float_of(c)?))
    }

    fn call(&mut self, function: Function, args: &[Reg]) -> Reg {
        let name = match function {
            Function::Abs => "llvm.fabs",
            Function::Sqrt => "llvm.sqrt",
            Function::CopySign => "llvm.copysign",
            Function::Max => "llvm.maxnum",
            Function::Min => "llvm.minnum",
            Function::Maximum => "llvm.maximum",
            Function::Minimum => "llvm.minimum",
            Function::Ex2 => "llvm.nvvm.ex2.approx.ftz",
            Function::Rsqrt => "llvm.nvvm.rsqrt.approx.f",
            Function::Tf32 => "llvm.nvvm.f2tf32.rna",
        };
        self.make(|m| {
            let args = args.iter().map(|x| m.float_of(*x)).collect::<Result<Vec<_>>>()?;
            match function {
                // These two are of `f32` alone, and the second gives bits.
                Function::Rsqrt | Function::Tf32 => {
                    let value = m.codegen.call(name, &[], &[args[0].into()])?;
                    let f32_type = m.codegen.context.f32_type();
                    Ok(m.codegen.builder.build_bit_cast(value, f32_type, "")?)
                }
                _ => Ok(m.codegen.float_call(name, &args)?.into()),
            }
        })
    }

    fn bits(&mut self, x: Reg) -> Reg {
        self.make(|m| {
            let i32_type = m.codegen.context.i32_type();
            Ok(m.codegen.builder.build_bit_cast(m.float_of(x)?, i32_type, "")?)
        })
    }

    fn of_bits(&mut self, x: Reg) -> Reg {
        self.make(|m| {
            let f32_type = m.codegen.context.f32_type();
            Ok(m.codegen.builder.build_bit_cast(m.int_of(x)?, f32_type, "")?)
        })
    }

    fn of_int(&mut self, x: Reg) -> Reg {
        self.make(|m| {
            let f32_type = m.codegen.context.f32_type();
            Ok(m.codegen.builder.build_signed_int_to_float(m.int_of(x)?, f32_type, "")?)
        })
    }

    fn int_add(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_int_add(m.int_of(a)?, m.int_of(b)?, "")?))
    }

    fn int_sub(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_int_sub(m.int_of(a)?, m.int_of(b)?, "")?))
    }

    fn int_and(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_and(m.int_of(a)?, m.int_of(b)?, "")?))
    }

    fn int_shl(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| Ok(m.codegen.builder.build_left_shift(m.int_of(a)?, m.int_of(b)?, "")?))
    }

    fn int_eq(&mut self, a: Reg, b: Reg) -> Reg {
        self.make(|m| {
            let (a, b) = (m.int_of(a)?, m.int_of(b)?);
            Ok(m.codegen.builder.build_int_compare(IntPredicate::EQ, a, b, "")?)
        })
    }

    fn less(&mut self, a: Reg, b: Reg) -> Reg {
        self.compare(FloatPredicate::OLT, a, b)
    }

    fn equal(&mut self, a: Reg, b: Reg) -> Reg {
        self.compare(FloatPredicate::OEQ, a, b)
    }

    fn select(&mut self, condition: Reg, a: Reg, b: Reg) -> Reg {
        self.make(|m| {
            let (a, b) = (m.float_of(a)?, m.float_of(b)?);
            Ok(m.codegen.builder.build_select(m.int_of(condition)?, a, b, "")?)
        })
    }
}
