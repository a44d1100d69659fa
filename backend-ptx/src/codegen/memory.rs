//! Loads, stores and addresses.
//!
//! A guarded access stands in a branch of its own, and neighbours under one guard share it; ptxas turns so short
//! a branch into predicated instructions, so a false guard costs no memory traffic. Choosing a safe address
//! instead would read memory that the program did not name, and an empty tensor has no safe address.

use super::{Codegen, Result, Value, malformed, stored_type};
use inkwell::{
    IntPredicate,
    types::BasicTypeEnum,
    values::{BasicValue, BasicValueEnum, IntValue, PointerValue},
};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Mem, Param, Stmt, Var},
    op::BinOp,
};

/// A load with its address computed, before its guard is looked at.
pub(super) struct Access<'c> {
    pointer: PointerValue<'c>,
    dtype: DType,
    elems: u32,
    /// The cache policy, and whether nothing writes there while the kernel runs.
    policy: Option<(IntValue<'c>, bool)>,
}

impl<'c> Codegen<'c, '_> {
    /// Loads under one guard: `(variables, address)` each.
    pub(super) fn loads(&mut self, guard: Option<&Expr>, loads: &[(&[Var], Mem, &Expr)]) -> Result<()> {
        let accesses = loads
            .iter()
            .map(|(dst, mem, offset)| self.access(*mem, offset, dst.len()))
            .collect::<Result<Vec<_>>>()?;
        let values: Vec<BasicValueEnum> = match guard {
            None => accesses.iter().map(|a| self.load(a)).collect::<Result<_>>()?,
            Some(guard) => {
                let condition = self.expr(guard)?.bool()?;
                let before = self.current_block();
                let then = self.context.append_basic_block(self.function, "load");
                let join = self.context.append_basic_block(self.function, "loaded");
                self.builder.build_conditional_branch(condition, then, join)?;
                self.builder.position_at_end(then);
                let loaded = accesses.iter().map(|a| self.load(a)).collect::<Result<Vec<_>>>()?;
                self.builder.build_unconditional_branch(join)?;
                self.builder.position_at_end(join);
                loaded
                    .into_iter()
                    .map(|value| {
                        let phi = self.builder.build_phi(value.get_type(), "")?;
                        phi.add_incoming(&[(&value, then), (&value.get_type().const_zero(), before)]);
                        Ok(phi.as_basic_value())
                    })
                    .collect::<Result<_>>()?
            }
        };
        for (((dst, ..), access), value) in loads.iter().zip(&accesses).zip(values) {
            self.assign_loaded(dst, access, value)?;
        }
        Ok(())
    }

    /// Gives each variable its element of what was loaded.
    fn assign_loaded(&mut self, dst: &[Var], access: &Access<'c>, value: BasicValueEnum<'c>) -> Result<()> {
        let ty = access.dtype;
        if let [var] = dst {
            let value = self.read(value, ty)?;
            return self.assign(*var, value);
        }
        for (i, var) in (0u64..).zip(dst) {
            let index = self.context.i32_type().const_int(i, false);
            let element = self.builder.build_extract_element(value.into_vector_value(), index, "")?;
            let element = self.read(element, ty)?;
            self.assign(*var, element)?;
        }
        Ok(())
    }

    /// Stores under one guard: `(memory, offset, values)` each.
    pub(super) fn stores(&mut self, guard: Option<&Expr>, stores: &[(Mem, &Expr, &[Expr])]) -> Result<()> {
        let mut ready = Vec::new();
        for (mem, offset, values) in stores {
            let access = self.access(*mem, offset, values.len())?;
            if let Mem::Global(param) = mem
                && let Param::Tensor { mutable: false, name, .. } = &self.kernel.params[*param as usize]
            {
                return malformed(format!("a store to `{name}`, which is read-only"));
            }
            let value = self.vector(&access, values)?;
            ready.push((access, value));
        }
        self.under(guard, |this| ready.into_iter().try_for_each(|(access, value)| this.store(&access, value)))
    }

    pub(super) fn store(&self, access: &Access<'c>, value: BasicValueEnum<'c>) -> Result<()> {
        if let Some((policy, _)) = access.policy {
            return self.store_by(policy, access.pointer, (value, access.alignment()));
        }
        let store = self.builder.build_store(access.pointer, value)?;
        set_alignment(store, access.alignment())
    }

    /// What gives no value, in a branch of its own where there is a guard.
    pub(super) fn under(&self, guard: Option<&Expr>, effect: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let Some(guard) = guard else { return effect(self) };
        let condition = self.expr(guard)?.bool()?;
        let then = self.context.append_basic_block(self.function, "store");
        let join = self.context.append_basic_block(self.function, "stored");
        self.builder.build_conditional_branch(condition, then, join)?;
        self.builder.position_at_end(then);
        effect(self)?;
        self.builder.build_unconditional_branch(join)?;
        self.builder.position_at_end(join);
        Ok(())
    }

    fn load(&self, access: &Access<'c>) -> Result<BasicValueEnum<'c>> {
        if let Some((policy, read_only)) = access.policy {
            let what = (self.access_type(access), access.alignment());
            return self.load_by(policy, access.pointer, what, read_only);
        }
        let value = self.builder.build_load(self.access_type(access), access.pointer, "")?;
        let instruction = value.as_instruction_value();
        let Some(instruction) = instruction else { return malformed("a load of a constant") };
        set_alignment(instruction, access.alignment())?;
        Ok(value)
    }

    pub(super) fn vector(&self, access: &Access<'c>, values: &[Expr]) -> Result<BasicValueEnum<'c>> {
        let ty = access.dtype;
        let elements = values
            .iter()
            .map(|value| {
                let value = self.expr(value)?;
                if value.ty == ty {
                    self.written(value)
                } else {
                    malformed(format!("a {} is stored among elements of {}", value.ty, access.dtype))
                }
            })
            .collect::<Result<Vec<_>>>()?;
        if let [element] = elements[..] {
            return Ok(element);
        }
        let mut vector = self.stored_type(ty).into_vector(access.elems).get_poison();
        for (i, element) in (0u64..).zip(elements) {
            let index = self.context.i32_type().const_int(i, false);
            vector = self.builder.build_insert_element(vector, element, index, "")?;
        }
        Ok(vector.into())
    }

    /// An element as it lies in memory, as a value.
    pub(super) fn read(&self, stored: BasicValueEnum<'c>, ty: DType) -> Result<Value<'c>> {
        if !ty.is_truth() {
            return Ok(Value { llvm: stored, ty });
        }
        let byte = stored.into_int_value();
        let holds =
            self.builder.build_int_compare(IntPredicate::NE, byte, byte.get_type().const_zero(), "")?;
        Ok(self.value(holds, ty))
    }

    /// A value as it lies in memory.
    fn written(&self, value: Value<'c>) -> Result<BasicValueEnum<'c>> {
        if !value.ty.is_truth() {
            return Ok(value.llvm);
        }
        let byte = self.stored_type(value.ty).into_int_type();
        Ok(self.builder.build_int_z_extend(value.int()?, byte, "")?.into())
    }

    fn stored_type(&self, dtype: DType) -> BasicTypeEnum<'c> {
        stored_type(self.context, dtype)
    }

    fn access_type(&self, access: &Access<'c>) -> BasicTypeEnum<'c> {
        let element = self.stored_type(access.dtype);
        if access.elems == 1 { element } else { element.into_vector(access.elems).into() }
    }

    fn access(&mut self, mem: Mem, offset: &Expr, elems: usize) -> Result<Access<'c>> {
        let (pointer, dtype) = self.address(mem, offset)?;
        let access = Access::new(pointer, dtype, elems)?;
        let Mem::Global(param) = mem else { return Ok(access) };
        let kernel = self.kernel;
        // Of a grouped kernel, and behind earlier grids, LLVM does not know it either.
        let read_only = matches!(kernel.params[param as usize], Param::Tensor { mutable: false, .. })
            && !kernel.dependent
            && !kernel.grouped;
        Ok(Access { policy: self.policy(param).map(|policy| (policy, read_only)), ..access })
    }

    /// Address of element `offset` of a buffer, and the buffer's element type.
    ///
    /// A constant part is added to the address last: neighbouring accesses share the rest, and the constant
    /// becomes the instruction's immediate. A sum of 64 bits is added to the address summand by summand: what the
    /// summands before have in common with other accesses, or with other steps of a loop, is then an address too,
    /// and no offset has to live beside it. (Sums of 32 bits stay sums: they take one register, and addresses two.)
    pub(super) fn address(&mut self, mem: Mem, offset: &Expr) -> Result<(PointerValue<'c>, DType)> {
        if let Expr::Bin(BinOp::Add, varying, constant) = offset
            && matches!(**constant, Expr::Int(..))
        {
            let (base, dtype) = self.address(mem, varying)?;
            let constant = self.expr(constant)?;
            return Ok((self.element(base, dtype, constant.int()?)?, dtype));
        }
        if let Expr::Var(var) = offset
            && let Some((base, summand)) = self.sums.get(var).cloned()
        {
            let dtype = self.kernel.dtype_of(mem);
            if let (Some(known), Some(dtype)) = (self.addresses.get(&(mem, *var)), dtype) {
                return Ok((*known, dtype));
            }
            let (base, dtype) = self.address(mem, &base)?;
            let summand = self.expr(&summand)?;
            let address = self.element(base, dtype, summand.int()?)?;
            self.addresses.insert((mem, *var), address);
            return Ok((address, dtype));
        }
        let offset = self.expr(offset)?;
        if offset.ty.is_float() || offset.ty == super::scalar::BOOL {
            return malformed(format!("an offset of type {}", offset.ty));
        }
        let (base, dtype) = match mem {
            Mem::Global(index) => match self.kernel.params.get(index as usize) {
                Some(Param::Tensor { dtype, .. } | Param::Scratch { dtype, .. }) => {
                    (self.param(index)?.into_pointer_value(), *dtype)
                }
                _ => return malformed(format!("parameter {index} is no tensor")),
            },
            Mem::Shared(index) => match self.kernel.shared.get(index as usize) {
                Some(shared) => (self.shared[index as usize], shared.dtype),
                None => return malformed(format!("no shared buffer {index}")),
            },
        };
        Ok((self.element(base, dtype, offset.int()?)?, dtype))
    }

    pub(super) fn element(
        &self,
        base: PointerValue<'c>,
        dtype: DType,
        offset: IntValue<'c>,
    ) -> Result<PointerValue<'c>> {
        let ty = self.stored_type(dtype);
        // SAFETY: an address outside the buffer is poison, which only an access behind a false guard could see.
        Ok(unsafe { self.builder.build_in_bounds_gep(ty, base, &[offset], "")? })
    }

    /// Slot of a fragment.
    pub(super) fn frag_slot(&self, frag: u32, slot: u32) -> Result<(PointerValue<'c>, DType)> {
        let pointer = self.frags.get(frag as usize).and_then(|slots| slots.get(slot as usize));
        match pointer {
            Some(pointer) => Ok((*pointer, self.kernel.frags[frag as usize].dtype)),
            None => malformed(format!("no slot {slot} in fragment {frag}")),
        }
    }
}

impl<'c> Access<'c> {
    /// So many elements at an address.
    pub(super) fn new(pointer: PointerValue<'c>, dtype: DType, elems: usize) -> Result<Self> {
        let bytes = elems as u32 * dtype.bytes();
        if !elems.is_power_of_two() || bytes > 16 {
            return malformed(format!("an access of {elems} elements of {dtype}"));
        }
        Ok(Access { pointer, dtype, elems: elems as u32, policy: None })
    }

    /// Accesses are aligned to their size: what vector instructions need.
    fn alignment(&self) -> u32 {
        self.elems * self.dtype.bytes()
    }
}

fn set_alignment(instruction: inkwell::values::InstructionValue<'_>, bytes: u32) -> Result<()> {
    instruction.set_alignment(bytes).or_else(|e| malformed(e.to_string()))
}

trait IntoVector<'c> {
    fn into_vector(self, elems: u32) -> inkwell::types::VectorType<'c>;
}

impl<'c> IntoVector<'c> for BasicTypeEnum<'c> {
    fn into_vector(self, elems: u32) -> inkwell::types::VectorType<'c> {
        match self {
            BasicTypeEnum::FloatType(ty) => ty.vec_type(elems),
            BasicTypeEnum::IntType(ty) => ty.vec_type(elems),
            _ => unreachable!("elements are floats and integers"),
        }
    }
}

/// Neighbouring loads, or neighbouring stores, that one branch can guard: the length of the run at the start of
/// `body`, at least 1. No member but the last may change what a later one's address or the guard reads; only loads
/// assign variables.
pub(super) fn run_length(body: &[Stmt]) -> usize {
    let mut assigned: Vec<Var> = Vec::new();
    let first = &body[0];
    let mut length = 0;
    for stmt in body {
        let joins = match (first, stmt) {
            (Stmt::Load { guard: g, .. }, Stmt::Load { guard, offset, .. }) => {
                g == guard
                    && !offset.mentions(&assigned)
                    && !guard.as_ref().is_some_and(|g| g.mentions(&assigned))
            }
            (Stmt::Store { guard: g, .. }, Stmt::Store { guard, .. }) => g == guard,
            _ => false,
        };
        if !joins {
            break;
        }
        if let Stmt::Load { dst, .. } = stmt {
            assigned.extend(dst);
        }
        length += 1;
    }
    length.max(1)
}
