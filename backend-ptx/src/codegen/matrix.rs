//! Instructions that a warp executes together (PTX ISA 9.7.15.5, `ldmatrix` and `mma`).
//!
//! The kernel IR names elements; the registers of these instructions hold two 16-bit elements each, or one of 32 bits.

use super::{Codegen, Result, Value, malformed};
use inkwell::values::BasicValueEnum;
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem, Ty, Var},
    nest::Atom,
};

impl<'c> Codegen<'c, '_> {
    pub(super) fn load_matrices(
        &mut self,
        dst: &[Var],
        shared: u32,
        offset: &Expr,
        transposed: bool,
    ) -> Result<()> {
        let (pointer, dtype) = self.address(Mem::Shared(shared), offset)?;
        let each = (4 / dtype.bytes()) as usize;
        let count = dst.len() / each;
        let name = format!(
            "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{}.b16",
            if transposed { ".trans" } else { "" }
        );
        let loaded = self.call(&name, &[pointer.get_type().into()], &[pointer.into()])?;
        let inkwell::types::BasicTypeEnum::FloatType(element) = self.llvm_type(Ty::Elem(dtype)) else {
            return malformed(format!("matrices of {dtype}"));
        };
        for (register, vars) in (0u32..).zip(dst.chunks(each)) {
            let word = match loaded {
                BasicValueEnum::StructValue(all) => self.builder.build_extract_value(all, register, "")?,
                single => single,
            };
            if let [var] = vars {
                let llvm = self.builder.build_bit_cast(word, element, "")?;
                self.assign(*var, Value { llvm, ty: Ty::Elem(dtype) })?;
                continue;
            }
            let both = self.builder.build_bit_cast(word, element.vec_type(2), "")?.into_vector_value();
            for (n, var) in (0u64..).zip(vars) {
                let index = self.context.i32_type().const_int(n, false);
                let llvm = self.builder.build_extract_element(both, index, "")?;
                self.assign(*var, Value { llvm, ty: Ty::Elem(dtype) })?;
            }
        }
        Ok(())
    }

    pub(super) fn store_matrices(&mut self, shared: u32, offset: &Expr, values: &[Expr]) -> Result<()> {
        let (pointer, dtype) = self.address(Mem::Shared(shared), offset)?;
        let mut args = vec![pointer.into()];
        for pair in values.chunks(2) {
            let pair = pair.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
            let word = self.packed(&pair, dtype)?;
            args.push(self.builder.build_bit_cast(word, self.context.i32_type(), "")?.into());
        }
        let count = values.len() / 2;
        let name = format!("llvm.nvvm.stmatrix.sync.aligned.m8n8.x{count}.b16");
        self.call_void(&name, &[pointer.get_type().into()], &args)?;
        Ok(())
    }

    pub(super) fn mma(
        &mut self,
        atom: Atom,
        (frag, slots): (u32, &[u32]),
        a: &[Expr],
        b: &[Expr],
    ) -> Result<()> {
        let mut operands: Vec<Vec<Value<'c>>> = Vec::new();
        for register in a.chunks(atom.each()).chain(b.chunks(atom.each())) {
            operands.push(register.iter().map(|e| self.expr(e)).collect::<Result<_>>()?);
        }
        let Some(Ty::Elem(dtype)) = operands.first().and_then(|pair| pair.first()).map(|v| v.ty) else {
            return malformed(format!("{atom} of nothing"));
        };
        let [m, n, k] = atom.row().shape;
        let types = match dtype {
            DType::F16 => "f32.f32",
            DType::BF16 => "bf16",
            DType::F32 => "tf32",
            _ => return malformed(format!("{atom} of {dtype}")),
        };
        let name = format!("llvm.nvvm.mma.m{m}n{n}k{k}.row.col.{types}");
        let mut args = Vec::new();
        for pair in &operands {
            args.push(self.packed(pair, dtype)?.into());
        }
        let pointers =
            slots.iter().map(|slot| Ok(self.frag_slot(frag, *slot)?.0)).collect::<Result<Vec<_>>>()?;
        for pointer in &pointers {
            args.push(self.builder.build_load(self.context.f32_type(), *pointer, "")?.into());
        }
        let BasicValueEnum::StructValue(sums) = self.call(&name, &[], &args)? else {
            return malformed(format!("`{name}` returns one value"));
        };
        for (register, pointer) in (0u32..).zip(pointers) {
            let sum = self.builder.build_extract_value(sums, register, "")?;
            self.builder.build_store(pointer, sum)?;
        }
        Ok(())
    }

    /// The elements in a register, as the intrinsic takes them: halves as a vector, others as a word.
    fn packed(&self, pair: &[Value<'c>], dtype: DType) -> Result<BasicValueEnum<'c>> {
        let inkwell::types::BasicTypeEnum::FloatType(ty) = self.llvm_type(Ty::Elem(dtype)) else {
            return malformed(format!("a pair of {dtype}"));
        };
        if let [word] = pair {
            return Ok(self.builder.build_bit_cast(word.llvm, self.context.i32_type(), "")?);
        }
        let mut both = ty.vec_type(2).get_poison();
        for (n, value) in (0u64..).zip(pair) {
            let index = self.context.i32_type().const_int(n, false);
            both = self.builder.build_insert_element(both, value.llvm, index, "")?;
        }
        match dtype {
            DType::BF16 => Ok(self.builder.build_bit_cast(both, self.context.i32_type(), "")?),
            _ => Ok(both.into()),
        }
    }
}
