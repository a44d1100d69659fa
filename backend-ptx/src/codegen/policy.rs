//! Cache policies: eviction priorities in L2 of what is accessed of a tensor (PTX ISA 9.7.9.18, "createpolicy"; the operand
//! `.L2::cache_hint` of each access).
//!
//! As inline PTX, but for tensor copies: LLVM has no loads and stores that take a policy. Words travel as integers, whatever
//! the elements are. `cp.async` takes none: `ptxas` 13.0 makes illegal instructions of some, which the verifier of the kernel IR keeps out.

use super::{Codegen, Result, malformed};
use inkwell::{
    types::{BasicType, BasicTypeEnum, IntType},
    values::{BasicValue, BasicValueEnum, IntValue, PointerValue},
};
use std::iter::repeat_n;
use tile_dsl::{kernel::Param, schedule::Evict};

/// Registers of an access: how many, of how many bits, and as the constraint of an operand.
struct Words {
    count: usize,
    bits: u32,
    constraint: &'static str,
}

impl Words {
    fn of(bytes: u32) -> Self {
        match bytes {
            // No register is narrower.
            1 | 2 => Words { count: 1, bits: 8 * bytes, constraint: "h" },
            _ => Words { count: (bytes / 4) as usize, bits: 32, constraint: "r" },
        }
    }

    /// `.v4.b32`.
    fn suffix(&self) -> String {
        match self.count {
            1 => format!(".b{}", self.bits),
            n => format!(".v{n}.b{}", self.bits),
        }
    }

    /// The operands from `first` on: `{$0, $1}`.
    fn operands(&self, first: usize) -> String {
        let names: Vec<String> = (first..first + self.count).map(|n| format!("${n}")).collect();
        if self.count == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) }
    }

    fn constraints(&self, prefix: &str) -> String {
        repeat_n(format!("{prefix}{}", self.constraint), self.count).collect::<Vec<_>>().join(",")
    }
}

impl<'c> Codegen<'c, '_> {
    /// Makes each policy that a tensor has, before anything else: once for the kernel.
    pub(super) fn make_policies(&mut self) -> Result<()> {
        for (name, evict) in Evict::NAMED {
            let wanted = |p: &Param| matches!(p, Param::Tensor { cache, .. } if *cache == Some(evict));
            if !self.kernel.params.iter().any(wanted) {
                continue;
            }
            let text = format!("createpolicy.fractional.L2::{name}.b64 $0, 1.0;");
            let made = self.assembly(&text, Some(self.context.i64_type().into()), "=l", &[])?;
            let Some(made) = made else { return malformed("a policy without a value") };
            self.policies.insert(evict, made.into_int_value());
        }
        Ok(())
    }

    /// The policy for accesses to a tensor, or by a map of one.
    pub(super) fn policy(&self, param: u32) -> Option<IntValue<'c>> {
        self.policies.get(&self.kernel.evict(param)?).copied()
    }

    fn word(&self, bits: u32) -> IntType<'c> {
        match bits {
            8 => self.context.i8_type(),
            16 => self.context.i16_type(),
            _ => self.context.i32_type(),
        }
    }

    /// Loads a value of so many bytes from global memory.
    pub(super) fn load_by(
        &self,
        policy: IntValue<'c>,
        pointer: PointerValue<'c>,
        (ty, bytes): (BasicTypeEnum<'c>, u32),
        read_only: bool,
    ) -> Result<BasicValueEnum<'c>> {
        let words = Words::of(bytes);
        let n = words.count;
        let read_only = if read_only { ".nc" } else { "" };
        let text = format!(
            "ld.global{read_only}.L2::cache_hint{} {}, [${n}], ${};",
            words.suffix(),
            words.operands(0),
            n + 1
        );
        let word = self.word(words.bits.max(16));
        let result = match n {
            1 => word.into(),
            n => self.context.struct_type(&vec![word.into(); n], false).into(),
        };
        let constraints = format!("{},l,l", words.constraints("="));
        let arguments = [pointer.as_basic_value_enum(), policy.into()];
        let Some(loaded) = self.assembly(&text, Some(result), &constraints, &arguments)? else {
            return malformed("a load of nothing");
        };
        let bits = match loaded {
            BasicValueEnum::StructValue(all) => {
                let mut vector = word.vec_type(n as u32).get_poison();
                for i in 0..n as u32 {
                    let element = self.builder.build_extract_value(all, i, "")?;
                    let at = self.context.i32_type().const_int(i.into(), false);
                    vector = self.builder.build_insert_element(vector, element, at, "")?;
                }
                vector.as_basic_value_enum()
            }
            one if words.bits < 16 => {
                self.builder.build_int_truncate(one.into_int_value(), self.word(words.bits), "")?.into()
            }
            one => one,
        };
        Ok(self.builder.build_bit_cast(bits, ty, "")?)
    }

    /// Stores a value of so many bytes to global memory.
    pub(super) fn store_by(
        &self,
        policy: IntValue<'c>,
        pointer: PointerValue<'c>,
        (value, bytes): (BasicValueEnum<'c>, u32),
    ) -> Result<()> {
        let words = Words::of(bytes);
        let n = words.count;
        let word = self.word(words.bits);
        let ty =
            if n == 1 { word.as_basic_type_enum() } else { word.vec_type(n as u32).as_basic_type_enum() };
        let bits = self.builder.build_bit_cast(value, ty, "")?;
        let mut arguments = vec![pointer.as_basic_value_enum()];
        match bits {
            BasicValueEnum::VectorValue(all) => {
                for i in 0..n as u64 {
                    let at = self.context.i32_type().const_int(i, false);
                    arguments.push(self.builder.build_extract_element(all, at, "")?);
                }
            }
            one if words.bits < 16 => {
                let wide = self.context.i16_type();
                arguments.push(self.builder.build_int_z_extend(one.into_int_value(), wide, "")?.into());
            }
            one => arguments.push(one),
        }
        arguments.push(policy.into());
        let text =
            format!("st.global.L2::cache_hint{} [$0], {}, ${};", words.suffix(), words.operands(1), n + 1);
        self.assembly(&text, None, &format!("l,{},l", words.constraints("")), &arguments)?;
        Ok(())
    }
}
