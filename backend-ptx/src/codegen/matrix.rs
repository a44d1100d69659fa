//! Instructions that a warp executes together (PTX ISA 9.7.15.5, `ldmatrix` and `mma`), and exchanges of what they hold.
//!
//! The kernel IR names elements; the registers of these instructions hold four of 8 bits each, two of 16, or one of 32.

use super::{Codegen, Result, Value, malformed};
use inkwell::{
    IntPredicate,
    attributes::{Attribute, AttributeLoc},
    types::BasicTypeEnum,
    values::{BasicValueEnum, IntValue},
};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem, Var},
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
        for (register, vars) in (0u32..).zip(dst.chunks(each)) {
            let word = match loaded {
                BasicValueEnum::StructValue(all) => self.builder.build_extract_value(all, register, "")?,
                single => single,
            };
            if let [var] = vars {
                let llvm = self.builder.build_bit_cast(word, self.llvm_type(dtype), "")?;
                self.assign(*var, Value { llvm, ty: dtype })?;
                continue;
            }
            self.unpack(word, dtype, vars)?;
        }
        Ok(())
    }

    pub(super) fn store_matrices(
        &mut self,
        shared: u32,
        offset: &Expr,
        values: &[Expr],
        transposed: bool,
    ) -> Result<()> {
        let (pointer, dtype) = self.address(Mem::Shared(shared), offset)?;
        let mut args = vec![pointer.into()];
        for pair in values.chunks(2) {
            let pair = pair.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
            let word = self.packed(&pair, dtype)?;
            args.push(self.builder.build_bit_cast(word, self.context.i32_type(), "")?.into());
        }
        let count = values.len() / 2;
        let trans = if transposed { ".trans" } else { "" };
        let name = format!("llvm.nvvm.stmatrix.sync.aligned.m8n8.x{count}{trans}.b16");
        self.call_void(&name, &[pointer.get_type().into()], &args)?;
        Ok(())
    }

    /// Transposes a matrix that a warp holds (PTX ISA 9.7.15.5.17).
    pub(super) fn transpose_matrix(&mut self, dst: &[Var], values: &[Expr]) -> Result<()> {
        let pair = values.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
        let Some(dtype) = pair.first().map(|v| v.ty) else {
            return malformed("a matrix of no elements");
        };
        let i32_type = self.context.i32_type();
        let word = self.packed(&pair, dtype)?;
        let word = self.builder.build_bit_cast(word, i32_type, "")?;
        let ty = i32_type.fn_type(&[i32_type.into()], false);
        let text = "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;";
        let function =
            self.context.create_inline_asm(ty, text.into(), "=r,r".into(), false, false, None, false);
        let call = self.builder.build_indirect_call(ty, function, &[word.into()], "")?;
        // All lanes of the warp come to it, so it stays where it is.
        for name in ["convergent", "nounwind"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            call.add_attribute(AttributeLoc::Function, self.context.create_enum_attribute(kind, 0));
        }
        match call.try_as_basic_value().basic() {
            Some(word) => self.unpack(word, dtype, dst),
            None => malformed("`movmatrix` returns nothing"),
        }
    }

    /// Transposes words among four lanes in two steps: by each bit of the lane's number, half of the words change places with
    /// the other lane's other half.
    pub(super) fn exchange_matrices(&mut self, dst: &[Var], values: &[Expr]) -> Result<()> {
        let i32_type = self.context.i32_type();
        let int = |n: u32| i32_type.const_int(n.into(), false);
        let mut words = Vec::new();
        let mut dtype = None;
        for pair in values.chunks(2) {
            let pair = pair.iter().map(|e| self.expr(e)).collect::<Result<Vec<_>>>()?;
            let Some(of) = pair.first().map(|v| v.ty) else {
                return malformed("matrices of no elements");
            };
            dtype = Some(of);
            let word = self.packed(&pair, of)?;
            words.push(self.builder.build_bit_cast(word, i32_type, "")?.into_int_value());
        }
        let tid = self.expr(&Expr::Tid)?.int()?;
        for bit in [1usize, 2] {
            let own = self.builder.build_and(tid, int(bit as u32), "")?;
            let odd = self.builder.build_int_compare(IntPredicate::NE, own, int(0), "")?;
            for low in (0..words.len()).filter(|w| w & bit == 0) {
                let high = low | bit;
                let select = |a: IntValue<'c>, b: IntValue<'c>| -> Result<IntValue<'c>> {
                    Ok(self.builder.build_select(odd, a, b, "")?.into_int_value())
                };
                let given = select(words[low], words[high])?;
                let args = [int(u32::MAX).into(), given.into(), int(bit as u32).into(), int(31).into()];
                let taken = self.call("llvm.nvvm.shfl.sync.bfly.i32", &[], &args)?.into_int_value();
                (words[low], words[high]) = (select(taken, words[low])?, select(words[high], taken)?);
            }
        }
        let Some(dtype) = dtype else { return malformed("an exchange of nothing") };
        for (word, pair) in words.into_iter().zip(dst.chunks(2)) {
            self.unpack(word.into(), dtype, pair)?;
        }
        Ok(())
    }

    /// Joins the twos of four lanes: a word has those of two rows, and a lane gets two words, of which another lane of the four has
    /// one each. In the first step even lanes give their first word and odd ones their second, in the second step the others.
    ///
    /// | lane | 0 | 1 | 2 | 3 |
    /// |---|---|---|---|---|
    /// | needs the word | first | first | second | second |
    /// | of lanes | 0, 1 | 2, 3 | 0, 1 | 2, 3 |
    /// | gets that of lane, in the first step | 0 | 2 | 1 | 3 |
    /// | in the second step | 1 | 3 | 0 | 2 |
    pub(super) fn join_twos(&mut self, dst: &[Var], values: &[Expr]) -> Result<()> {
        let int = |n: u32| self.context.i32_type().const_int(n.into(), false);
        let Some(dtype) = dst.first().map(|var| self.kernel.vars[var.0 as usize]) else {
            return malformed("twos of nothing");
        };
        let words = values.chunks(4).map(|four| self.word_of(four)).collect::<Result<Vec<_>>>()?;
        let [low, high] = words[..] else { return malformed("twos of other than two matrices") };
        let builder = &self.builder;
        let tid = self.expr(&Expr::Tid)?.int()?;
        let bit = |n: u32| -> Result<IntValue<'c>> {
            let own = builder.build_and(tid, int(n), "")?;
            Ok(builder.build_int_compare(IntPredicate::NE, own, int(0), "")?)
        };
        let (odd, upper) = (bit(1)?, bit(2)?);
        let select = |cond: IntValue<'c>, a: IntValue<'c>, b: IntValue<'c>| -> Result<IntValue<'c>> {
            Ok(builder.build_select(cond, a, b, "")?.into_int_value())
        };
        // The bits of the lane's number among the four change places.
        let doubled = builder.build_and(builder.build_left_shift(tid, int(1), "")?, int(2), "")?;
        let first = builder.build_or(doubled, select(upper, int(1), int(0))?, "")?;
        let second = builder.build_xor(first, int(1), "")?;
        let steps = [(select(odd, high, low)?, first), (select(odd, low, high)?, second)];
        let mut taken = Vec::new();
        for (given, from) in steps {
            // Lanes are counted within each four.
            let args = [int(u32::MAX).into(), given.into(), from.into(), int(0x1c1f).into()];
            taken.push(self.call("llvm.nvvm.shfl.sync.idx.i32", &[], &args)?);
        }
        // The upper two get the second of their twos first.
        let mut rows = Vec::new();
        for [of_upper, of_lower] in [[0x1054, 0x5410], [0x3276, 0x7632]] {
            let bytes = select(upper, int(of_upper), int(of_lower))?;
            rows.push(self.call("llvm.nvvm.prmt", &[], &[taken[0].into(), taken[1].into(), bytes.into()])?);
        }
        rows.into_iter().zip(dst.chunks(4)).try_for_each(|(row, vars)| self.unpack(row, dtype, vars))
    }

    /// Two elements of a word.
    fn unpack(&mut self, word: BasicValueEnum<'c>, dtype: DType, vars: &[Var]) -> Result<()> {
        for (element, var) in self.elements(word, dtype)?.into_iter().zip(vars) {
            self.assign(*var, Value { llvm: element, ty: dtype })?;
        }
        Ok(())
    }

    /// The elements of a word.
    pub(super) fn elements(&self, word: BasicValueEnum<'c>, dtype: DType) -> Result<Vec<BasicValueEnum<'c>>> {
        let count = 4 / dtype.bytes();
        let ty = match self.llvm_type(dtype) {
            BasicTypeEnum::FloatType(ty) => ty.vec_type(count),
            BasicTypeEnum::IntType(ty) => ty.vec_type(count),
            _ => return malformed(format!("a word of {dtype}")),
        };
        let all = self.builder.build_bit_cast(word, ty, "")?.into_vector_value();
        let element = |n: u32| {
            let index = self.context.i32_type().const_int(n.into(), false);
            Ok(self.builder.build_extract_element(all, index, "")?)
        };
        (0..count).map(element).collect()
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
        let of = |register: Option<&Vec<Value<'c>>>| register.and_then(|r| r.first()).map(|v| v.ty);
        let (Some(first), Some(second)) = (of(operands.first()), of(operands.last())) else {
            return malformed(format!("{atom} of nothing"));
        };
        let [m, n, k] = atom.row().shape;
        // LLVM names the products of `f16` by what they are added to, and others by their types, of equal ones by one.
        let types = match (atom.row().ptx(first), atom.row().ptx(second)) {
            (Some("f16"), _) => "f32.f32".to_string(),
            (Some(x), Some(y)) if x != y => format!("{x}.{y}"),
            (Some(x), Some(_)) => x.to_string(),
            _ => return malformed(format!("{atom} of {first} and {second}")),
        };
        let name = format!("llvm.nvvm.mma.m{m}n{n}k{k}.row.col.{types}");
        let mut args = Vec::new();
        for register in &operands {
            args.push(self.packed(register, register[0].ty)?.into());
        }
        let pointers =
            slots.iter().map(|slot| Ok(self.frag_slot(frag, *slot)?.0)).collect::<Result<Vec<_>>>()?;
        let sum = self.llvm_type(atom.row().accumulator);
        for pointer in &pointers {
            args.push(self.builder.build_load(sum, *pointer, "")?.into());
        }
        let BasicValueEnum::StructValue(sums) = self.call(&name, &[], &args)? else {
            return malformed(format!("`{name}` returns one value"));
        };
        for (register, pointer) in (0u32..).zip(pointers) {
            let sum = self.builder.build_extract_value(sums, register, "")?;
            self.stored.remove(&pointer);
            self.builder.build_store(pointer, sum)?;
        }
        Ok(())
    }

    /// The elements in a register, as intrinsics take them: those of f16 as a vector, others as a word.
    pub(super) fn packed(&self, elements: &[Value<'c>], dtype: DType) -> Result<BasicValueEnum<'c>> {
        let word = self.context.i32_type();
        if let [element] = elements {
            return Ok(self.builder.build_bit_cast(element.llvm, word, "")?);
        }
        if let [a, b] = elements
            && let (BasicValueEnum::FloatValue(a), BasicValueEnum::FloatValue(b)) = (a.llvm, b.llvm)
            && let Some(two) = self.paired([a, b], dtype)?
        {
            return match dtype {
                DType::F16 => Ok(two.into()),
                _ => Ok(self.builder.build_bit_cast(two, word, "")?),
            };
        }
        let mut all = match self.llvm_type(dtype) {
            BasicTypeEnum::FloatType(ty) => ty.vec_type(elements.len() as u32).get_poison(),
            BasicTypeEnum::IntType(ty) => ty.vec_type(elements.len() as u32).get_poison(),
            _ => return malformed(format!("a register of {dtype}")),
        };
        for (n, value) in (0u64..).zip(elements) {
            let index = self.context.i32_type().const_int(n, false);
            all = self.builder.build_insert_element(all, value.llvm, index, "")?;
        }
        match dtype {
            DType::F16 => Ok(all.into()),
            _ => Ok(self.builder.build_bit_cast(all, word, "")?),
        }
    }
}
