//! Words of 8-bit elements: fragments that instructions read by fours, and elements that are rounded by twos.
//!
//! A fragment of which each four elements go together to instructions, or to another such fragment, has a stack slot for each
//! word: what is carried from step to step is one register then, and nobody takes it apart.

use super::{Codegen, Result, Value, malformed};
use inkwell::{
    types::VectorType,
    values::{BasicValueEnum, FloatValue, IntValue, PointerValue},
};
use std::collections::HashSet;
use tile_dsl::{
    dtype::DType,
    kernel::{Async, Expr, Kernel, Rows, Stmt},
};

/// Elements of a word.
pub(super) const WORD: u32 = 4;

/// The fragments of words.
pub(super) fn fragments(kernel: &Kernel) -> HashSet<u32> {
    let fits = |frag: &u32| {
        let of = kernel.frags.get(*frag as usize);
        of.is_some_and(|of| of.dtype.bytes() == 1 && of.dtype.is_float() && of.slots.is_multiple_of(WORD))
    };
    let (mut words, mut copied, mut apart) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut look = |stmt: &Stmt| match stmt {
        Stmt::Async(Async::Multiply { a: Rows::Held { frag, .. }, .. }) => {
            words.insert(*frag);
        }
        Stmt::Set { frag, value: Expr::Slot { frag: from, .. }, .. } => {
            copied.insert((*from, *frag));
        }
        Stmt::Async(Async::Replace { frag, by, .. }) => {
            copied.insert((*by, *frag));
        }
        other => other.operands(&mut |e| {
            e.each(&mut |e| {
                if let Expr::Slot { frag, .. } = e {
                    apart.insert(*frag);
                }
            });
        }),
    };
    kernel.body.iter().for_each(|stmt| stmt.each(&mut look));
    words.retain(fits);
    loop {
        let to_words = |from: &u32| copied.iter().all(|(f, to)| f != from || words.contains(to));
        let more = copied.iter().map(|(from, _)| *from);
        let more = more.filter(|from| fits(from) && !apart.contains(from) && to_words(from));
        let more: Vec<u32> = more.filter(|from| !words.contains(from)).collect();
        if more.is_empty() {
            return words;
        }
        words.extend(more);
    }
}

impl<'c> Codegen<'c, '_> {
    /// The type of a word.
    pub(super) fn word_type(&self) -> VectorType<'c> {
        self.context.i8_type().vec_type(WORD)
    }

    /// The stack slot of a word that has these slots of a fragment.
    pub(super) fn word_slot(&self, frag: u32, slots: &[u32]) -> Result<PointerValue<'c>> {
        let first = slots.first().map_or(0, |slot| slot / WORD);
        let pointer = self.frags.get(frag as usize).and_then(|words| words.get(first as usize));
        match pointer {
            Some(pointer) if slots.iter().all(|slot| slot / WORD == first) => Ok(*pointer),
            _ => malformed(format!("no word {slots:?} in fragment {frag}")),
        }
    }

    /// Which element of its word a slot is.
    fn own(&self, slot: u32) -> IntValue<'c> {
        self.context.i32_type().const_int((slot % WORD).into(), false)
    }

    /// What a slot of a fragment holds.
    pub(super) fn slot_value(&self, frag: u32, slot: u32) -> Result<Value<'c>> {
        if !self.words.contains(&frag) {
            let (pointer, ty) = self.frag_slot(frag, slot)?;
            return Ok(Value { llvm: self.held(pointer, ty)?, ty });
        }
        let (pointer, own) = (self.word_slot(frag, &[slot])?, self.own(slot));
        let word = self.builder.build_load(self.word_type(), pointer, "")?.into_vector_value();
        let llvm = self.builder.build_extract_element(word, own, "")?;
        Ok(Value { llvm, ty: self.kernel.frags[frag as usize].dtype })
    }

    /// What a slot holds that is no word's.
    pub(super) fn held(&self, slot: PointerValue<'c>, ty: DType) -> Result<BasicValueEnum<'c>> {
        match self.stored.get(&slot) {
            Some(value) => Ok(*value),
            None => Ok(self.builder.build_load(self.llvm_type(ty), slot, "")?),
        }
    }

    /// Puts a value in a slot of a fragment.
    pub(super) fn set_slot(&mut self, frag: u32, slot: u32, value: Value<'c>) -> Result<()> {
        let ty = self.kernel.frags.get(frag as usize).map(|f| f.dtype);
        if ty.is_some_and(|ty| ty != value.ty) {
            return malformed(format!("a {} is put into a fragment of another type", value.ty));
        }
        if !self.words.contains(&frag) {
            let (pointer, ty) = self.frag_slot(frag, slot)?;
            self.builder.build_store(pointer, value.llvm)?;
            if ty != DType::F32 {
                self.stored.insert(pointer, value.llvm);
            }
            return Ok(());
        }
        let (pointer, own) = (self.word_slot(frag, &[slot])?, self.own(slot));
        let word = self.builder.build_load(self.word_type(), pointer, "")?.into_vector_value();
        let word = self.builder.build_insert_element(word, value.llvm, own, "")?;
        self.builder.build_store(pointer, word)?;
        Ok(())
    }

    /// Four elements as a word. Where they are rounded numbers, two are rounded at once.
    pub(super) fn word_of(&self, elements: &[Expr]) -> Result<IntValue<'c>> {
        let (half, whole) = (self.context.i16_type(), self.context.i32_type());
        let mut halves = half.vec_type(2).get_poison();
        for (n, pair) in (0u64..).zip(elements.chunks(2)) {
            let wide = pair.iter().map(|e| self.unrounded(e)).collect::<Result<Option<Vec<_>>>>()?;
            let two = match wide.as_deref() {
                Some([(low, dtype), (high, _)]) => {
                    let name = format!("llvm.nvvm.ff.to.{}x2.rn", dtype.format().ptx);
                    self.call(&name, &[], &[(*high).into(), (*low).into()])?
                }
                _ => {
                    let mut two = self.context.i8_type().vec_type(2).get_poison();
                    for (n, element) in (0u64..).zip(pair) {
                        let own = whole.const_int(n, false);
                        two = self.builder.build_insert_element(two, self.expr(element)?.llvm, own, "")?;
                    }
                    self.builder.build_bit_cast(two, half, "")?
                }
            };
            halves = self.builder.build_insert_element(halves, two, whole.const_int(n, false), "")?;
        }
        Ok(self.builder.build_bit_cast(halves, whole, "")?.into_int_value())
    }

    /// The number that was rounded to a value of 8 bits in this straight line of statements, and to what type.
    fn unrounded(&self, e: &Expr) -> Result<Option<(FloatValue<'c>, DType)>> {
        let bits = match e {
            Expr::Float(x, dtype) if *x == 0.0 && dtype.bytes() == 1 => {
                return Ok(Some((self.context.f32_type().const_float(*x), *dtype)));
            }
            Expr::Select(cond, a, b) => {
                let (Some((a, dtype)), Some((b, _))) = (self.unrounded(a)?, self.unrounded(b)?) else {
                    return Ok(None);
                };
                let cond = self.expr(cond)?.bool()?;
                let chosen = self.builder.build_select(cond, a, b, "")?.into_float_value();
                return Ok(Some((chosen, dtype)));
            }
            Expr::Slot { frag, slot } if !self.words.contains(frag) => {
                let (pointer, _) = self.frag_slot(*frag, *slot)?;
                match self.stored.get(&pointer) {
                    Some(BasicValueEnum::IntValue(bits)) => Some(*bits),
                    _ => None,
                }
            }
            Expr::Cast(..) | Expr::Var(_) => match self.expr(e)?.llvm {
                BasicValueEnum::IntValue(bits) => Some(bits),
                _ => None,
            },
            _ => None,
        };
        Ok(bits.and_then(|bits| self.rounded.borrow().get(&bits).copied()))
    }
}
