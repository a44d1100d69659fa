//! Products of a warpgroup (PTX ISA 9.7.16, `wgmma.mma_async`): LLVM has no intrinsic for them.

use super::{Codegen, Result, Value, malformed, scalar::I32};
use inkwell::values::{BasicValueEnum, CallSiteValue, IntValue, PointerValue};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem, Rows, Tile},
    nest::Atom,
    op::BinOp,
};

/// What of an address in shared memory a descriptor holds: in a cluster, bits above it say which CTA.
const ADDRESS: u64 = 0x3_ffff;

/// A register that assembler text names: a number, or a word of elements side by side.
struct Register<'c> {
    /// Its elements, or the word that has them all.
    slots: Vec<PointerValue<'c>>,
    whole: bool,
    dtype: DType,
}

impl Register<'_> {
    /// Its kind in the constraints of assembler text.
    fn kind(&self) -> char {
        if self.dtype == DType::F32 { 'f' } else { 'r' }
    }
}

impl<'c> Codegen<'c, '_> {
    pub(super) fn multiply(
        &mut self,
        atom: Atom,
        (frag, slots): (u32, &[u32]),
        (a, b): (&Rows, &Tile),
        overwrites: Option<&Expr>,
    ) -> Result<()> {
        let [m, n, k] = atom.row().shape;
        let first = match a {
            Rows::Shared(tile) => self.kernel.dtype_of(Mem::Shared(tile.shared)),
            Rows::Held { frag, .. } => self.kernel.frags.get(*frag as usize).map(|f| f.dtype),
        };
        let second = self.kernel.dtype_of(Mem::Shared(b.shared));
        let ptx = |dtype: Option<DType>| dtype.and_then(|dtype| atom.row().ptx(dtype));
        let (Some(x), Some(y)) = (ptx(first), ptx(second)) else {
            return malformed(format!("{atom} of {first:?} and {second:?}"));
        };
        let sum = atom.row().accumulator;
        let sums = self.registers(frag, slots)?;
        let mut args = sums.iter().map(|sum| Ok(self.held_value(sum)?.into())).collect::<Result<Vec<_>>>()?;
        let mut constraints: Vec<String> = sums.iter().map(|sum| format!("={}", sum.kind())).collect();
        constraints.extend((0..sums.len()).map(|n| n.to_string()));
        // Where rows run along k alone, nothing says so.
        let mut turned = String::new();
        let mut say = |tile: &Tile| {
            if !atom.row().k_major {
                turned.push_str(if tile.k_major { ", 0" } else { ", 1" });
            }
        };
        let from = args.len() + sums.len();
        let first = match a {
            Rows::Shared(tile) => {
                say(tile);
                args.push(self.descriptor(tile)?.into());
                constraints.push("l".into());
                format!("${from}")
            }
            Rows::Held { frag, slots } => {
                let words = self.registers(*frag, slots)?;
                for word in &words {
                    args.push(self.held_word(word)?.into());
                    constraints.push("r".into());
                }
                format!("{{{}}}", numbered(from, words.len()))
            }
        };
        say(b);
        let second = args.len() + sums.len();
        args.push(self.descriptor(b)?.into());
        let adds = match overwrites {
            None => self.context.bool_type().const_int(1, false),
            Some(first) => {
                let first = self.expr(first)?.bool()?;
                self.builder.build_not(first, "")?
            }
        };
        args.push(adds.into());
        constraints.extend(["l", "b"].map(String::from));
        // Floats may be multiplied by −1.
        let signs = if sum.is_float() { ", 1, 1" } else { "" };
        let text = format!(
            "wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{}.{x}.{y} {{{}}}, {first}, ${second}, ${}{signs}{turned};",
            sum.format().ptx,
            numbered(0, sums.len()),
            second + 1
        );
        let types = vec![self.llvm_type(sum); sums.len()];
        let call = self.assembler(&text, constraints.join(","), &types, &args)?;
        self.write_all(call, &sums)
    }

    /// Runs assembler text that stands between what was done to some slots and what will be.
    pub(super) fn thread_through(&mut self, text: &str, results: &[(u32, Vec<u32>)]) -> Result<()> {
        let mut registers = Vec::new();
        for (frag, slots) in results {
            registers.extend(self.registers(*frag, slots)?);
        }
        let values = registers.iter().map(|r| self.held_value(r)).collect::<Result<Vec<_>>>()?;
        let mut constraints: Vec<String> = registers.iter().map(|r| format!("={}", r.kind())).collect();
        constraints.extend((0..registers.len()).map(|n| n.to_string()));
        constraints.push("~{memory}".into());
        let types: Vec<_> = values.iter().map(BasicValueEnum::get_type).collect();
        let args: Vec<_> = values.into_iter().map(Into::into).collect();
        let call = self.assembler(text, constraints.join(","), &types, &args)?;
        self.write_all(call, &registers)
    }

    /// Moves words into the registers of an operand that products have read until here.
    ///
    /// A plain move is no use: `ptxas` gives both words one register and computes the next ones there, while products in flight still read
    /// it. So the words are combined with a zero that `ptxas` does not know, the upper bit of a launch's bytes of shared memory.
    pub(super) fn replace(&mut self, (frag, slots): (u32, &[u32]), (by, from): (u32, &[u32])) -> Result<()> {
        let (old, new) = (self.registers(frag, slots)?, self.registers(by, from)?);
        let bytes = self.call("llvm.nvvm.read.ptx.sreg.dynamic_smem_size", &[], &[])?.into_int_value();
        let zero =
            self.builder.build_right_shift(bytes, bytes.get_type().const_int(31, false), false, "zero")?;
        for (old, new) in old.into_iter().zip(new) {
            let args = [self.held_word(&new)?.into(), zero.into()];
            let moved = self.assembler(
                "xor.b32 $0, $1, $2;",
                "=r,r,r".into(),
                &[self.context.i32_type().into()],
                &args,
            )?;
            self.write_all(moved, &[old])?;
        }
        Ok(())
    }

    /// The registers that hold some slots, in order.
    fn registers(&self, frag: u32, slots: &[u32]) -> Result<Vec<Register<'c>>> {
        let Some(dtype) = self.kernel.frags.get(frag as usize).map(|f| f.dtype) else {
            return malformed(format!("no fragment {frag}"));
        };
        let each = (4 / dtype.bytes()).max(1) as usize;
        let whole = self.words.contains(&frag);
        let register = |slots: &[u32]| {
            let slots = match whole {
                true => vec![self.word_slot(frag, slots)?],
                false => {
                    slots.iter().map(|slot| Ok(self.frag_slot(frag, *slot)?.0)).collect::<Result<_>>()?
                }
            };
            Ok(Register { slots, whole, dtype })
        };
        slots.chunks(each).map(register).collect()
    }

    /// What a register holds: a number in f32, or a word.
    fn held_value(&self, register: &Register<'c>) -> Result<BasicValueEnum<'c>> {
        match register.dtype {
            DType::F32 => Ok(self.builder.build_load(self.context.f32_type(), register.slots[0], "")?),
            _ => Ok(self.held_word(register)?.into()),
        }
    }

    /// The bits of a register.
    fn held_word(&self, register: &Register<'c>) -> Result<IntValue<'c>> {
        if register.whole {
            let word = self.builder.build_load(self.word_type(), register.slots[0], "")?;
            return Ok(self.builder.build_bit_cast(word, self.context.i32_type(), "")?.into_int_value());
        }
        let elements = register
            .slots
            .iter()
            .map(|slot| Ok(Value { llvm: self.held(*slot, register.dtype)?, ty: register.dtype }));
        let word = self.packed(&elements.collect::<Result<Vec<_>>>()?, register.dtype)?;
        Ok(self.builder.build_bit_cast(word, self.context.i32_type(), "")?.into_int_value())
    }

    /// Puts what assembler text returns into registers.
    fn write_all(&mut self, call: CallSiteValue<'c>, registers: &[Register<'c>]) -> Result<()> {
        let Some(all) = call.try_as_basic_value().basic() else { return Ok(()) };
        for (n, register) in (0u32..).zip(registers) {
            let value = match all {
                BasicValueEnum::StructValue(all) => self.builder.build_extract_value(all, n, "")?,
                single => single,
            };
            if register.dtype == DType::F32 {
                self.builder.build_store(register.slots[0], value)?;
                continue;
            }
            if register.whole {
                let word = self.builder.build_bit_cast(value, self.word_type(), "")?;
                self.builder.build_store(register.slots[0], word)?;
                continue;
            }
            for (slot, element) in register.slots.iter().zip(self.elements(value, register.dtype)?) {
                self.stored.remove(slot);
                self.builder.build_store(*slot, element)?;
            }
        }
        Ok(())
    }

    /// PTX ISA 9.7.16.5.1: address, leading and stride offsets in units of 16 bytes, swizzle. The descriptor of the buffer is
    /// the same wherever the tile lies in it, so it is found once, and what a step adds needs neither mask nor shift: shared
    /// memory ends far below what the field for the address holds, so that nothing is carried out of it.
    fn descriptor(&mut self, tile: &Tile) -> Result<IntValue<'c>> {
        let (int, long) = (self.context.i32_type(), self.context.i64_type());
        let mode: u64 = match tile.swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            other => return malformed(format!("a swizzle of {other} bytes")),
        };
        let field = |bytes: u32, at: u32| u64::from(bytes >> 4 & 0x3fff) << at;
        let (buffer, dtype) = self.address(Mem::Shared(tile.shared), &Expr::Int(0, I32))?;
        let address = self.builder.build_ptr_to_int(buffer, int, "")?;
        let address = self.builder.build_and(address, int.const_int(ADDRESS, false), "")?;
        let address = self.builder.build_right_shift(address, int.const_int(4, false), false, "")?;
        let first = self.builder.build_or(address, int.const_int(field(tile.leading, 16), false), "")?;
        let (varying, constant) = match &tile.offset {
            Expr::Bin(BinOp::Add, varying, constant) => match **constant {
                Expr::Int(elements, _) => (&**varying, elements),
                _ => (&tile.offset, 0),
            },
            _ => (&tile.offset, 0),
        };
        let unit = i64::from(16 / dtype.bytes());
        let (varying, constant) =
            if constant % unit == 0 { (varying, constant / unit) } else { (&tile.offset, 0) };
        // Exact: tiles begin where the swizzle's pattern does, or at a row of 16 bytes of it.
        let elements = self.expr(varying)?.int()?;
        let units =
            self.builder.build_int_exact_signed_div(elements, int.const_int(unit as u64, false), "")?;
        let low = self.builder.build_int_add(first, units, "")?;
        let low = self.builder.build_int_add(low, int.const_int(constant as u64, true), "")?;
        let low = self.builder.build_int_z_extend(low, long, "")?;
        let high = long.const_int(field(tile.stride, 32) | mode << 62, false);
        Ok(self.builder.build_or(low, high, "")?)
    }
}

/// So many operands of assembler text from a number on, as a list.
fn numbered(from: usize, count: usize) -> String {
    (from..from + count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
}
