//! Grouped kernels: several problems in one launch, whose parameters lie in a table in global memory.
//!
//! [`tile_dsl::kernel::Table`] has its form. A problem is found by bisection among the numbers of first tiles; the same few
//! numbers are read by all CTAs, so they are soon in the caches.

use super::{
    Codegen, Result, Value, malformed,
    module::{GLOBAL, add_entry, param_type},
    scalar::I32,
};
use inkwell::{
    AddressSpace, IntPredicate,
    attributes::{Attribute, AttributeLoc},
    context::Context,
    module::Module,
    types::BasicMetadataTypeEnum,
    values::{BasicValue, BasicValueEnum, FunctionValue, IntValue, PointerValue},
};
use tile_dsl::kernel::{Expr, Kernel, Param, Table, Var};

/// Parameters of the entry, by position.
const ROWS: u32 = 0;
const STARTS: u32 = 1;
const PROBLEMS: u32 = 2;
const TILES: u32 = 3;

/// `entry(rows, starts, problems, tiles)`.
pub(super) fn declare_entry<'c>(
    context: &'c Context,
    module: &Module<'c>,
    kernel: &Kernel,
) -> FunctionValue<'c> {
    let pointer: BasicMetadataTypeEnum<'c> = context.ptr_type(AddressSpace::from(GLOBAL)).into();
    let number = context.i32_type().into();
    let function = add_entry(context, module, kernel, &[pointer, pointer, number, number]);
    for (param, align) in [(ROWS, Table::ALIGN), (STARTS, 4)] {
        for (name, value) in [("noundef", 0), ("noalias", 0), ("readonly", 0), ("align", align.into())] {
            let kind = Attribute::get_named_enum_kind_id(name);
            function.add_attribute(AttributeLoc::Param(param), context.create_enum_attribute(kind, value));
        }
    }
    function
}

impl<'c> Codegen<'c, '_> {
    fn entry_param(&self, index: u32) -> Result<BasicValueEnum<'c>> {
        match self.function.get_nth_param(index) {
            Some(value) if self.kernel.grouped => Ok(value),
            _ => malformed("several problems in a kernel for one"),
        }
    }

    /// Tiles of all problems.
    pub(super) fn tiles(&self) -> Result<Value<'c>> {
        Ok(self.value(self.entry_param(TILES)?, I32))
    }

    /// Finds the problem that a tile belongs to, and reads its parameters.
    pub(super) fn problem(&mut self, dst: Var, tile: &Expr) -> Result<()> {
        let tile = self.expr(tile)?.int()?;
        let (problem, start) = self.find(tile)?;
        let own = self.builder.build_int_nsw_sub(tile, start, "")?;
        self.assign(dst, self.value(own, I32))?;

        let table = Table::of(&self.kernel.params);
        let int = self.context.i64_type();
        let problem = self.builder.build_int_z_extend(problem, int, "")?;
        let at = self.builder.build_int_nuw_mul(problem, int.const_int(table.row.into(), false), "")?;
        let row = self.byte(self.entry_param(ROWS)?.into_pointer_value(), at)?;
        let mut params = Vec::new();
        for (param, offset) in self.kernel.params.iter().zip(&table.offsets) {
            let place = self.byte(row, int.const_int((*offset).into(), false))?;
            params.push(match param {
                // Copies take the address itself, and not one in global memory.
                Param::TensorMap { .. } => {
                    let generic = self.context.ptr_type(AddressSpace::default());
                    self.builder.build_address_space_cast(place, generic, "")?.into()
                }
                param => {
                    let value = self.builder.build_load(param_type(self.context, param)?, place, "")?;
                    let load = value.as_instruction_value();
                    load.map(|l| l.set_alignment(param.bytes()))
                        .transpose()
                        .or_else(|e| malformed(e.to_string()))?;
                    value
                }
            });
        }
        self.params = params;
        // They were those of another problem.
        self.line_ends();
        Ok(())
    }

    /// The last problem that begins at a tile or before it, and where it begins. Problems without tiles begin where the next
    /// one does.
    fn find(&mut self, tile: IntValue<'c>) -> Result<(IntValue<'c>, IntValue<'c>)> {
        let starts = self.entry_param(STARTS)?.into_pointer_value();
        let problems = self.entry_param(PROBLEMS)?.into_int_value();
        let number = self.context.i32_type();
        let (zero, one) = (number.const_zero(), number.const_int(1, false));
        let head = self.context.append_basic_block(self.function, "bisect");
        let found = self.context.append_basic_block(self.function, "found");
        let before = self.current_block();
        let more = self.builder.build_int_compare(IntPredicate::SGT, problems, one, "")?;
        self.builder.build_conditional_branch(more, head, found)?;

        // The problem is one of low .. high.
        self.builder.position_at_end(head);
        let (low, high) = (self.builder.build_phi(number, "")?, self.builder.build_phi(number, "")?);
        let bounds = [low, high].map(|phi| phi.as_basic_value().into_int_value());
        let sum = self.builder.build_int_add(bounds[0], bounds[1], "")?;
        let middle = self.builder.build_right_shift(sum, one, false, "")?;
        let start = self.start(starts, middle)?;
        let here = self.builder.build_int_compare(IntPredicate::SLE, start, tile, "")?;
        let next_low = self.builder.build_select(here, middle, bounds[0], "")?.into_int_value();
        let next_high = self.builder.build_select(here, bounds[1], middle, "")?.into_int_value();
        let left = self.builder.build_int_sub(next_high, next_low, "")?;
        let again = self.builder.build_int_compare(IntPredicate::SGT, left, one, "")?;
        let latch = self.current_block();
        self.builder.build_conditional_branch(again, head, found)?;
        low.add_incoming(&[(&zero, before), (&next_low, latch)]);
        high.add_incoming(&[(&problems, before), (&next_high, latch)]);

        self.builder.position_at_end(found);
        let problem = self.builder.build_phi(number, "")?;
        problem.add_incoming(&[(&zero, before), (&next_low, latch)]);
        let problem = problem.as_basic_value().into_int_value();
        Ok((problem, self.start(starts, problem)?))
    }

    /// Number of a problem's first tile.
    fn start(&self, starts: PointerValue<'c>, problem: IntValue<'c>) -> Result<IntValue<'c>> {
        let number = self.context.i32_type();
        // SAFETY: there is one for each problem, and one more.
        let place = unsafe { self.builder.build_in_bounds_gep(number, starts, &[problem], "")? };
        Ok(self.builder.build_load(number, place, "")?.into_int_value())
    }

    fn byte(&self, base: PointerValue<'c>, at: IntValue<'c>) -> Result<PointerValue<'c>> {
        // SAFETY: the table has a row for each problem, and the row has room for each parameter.
        Ok(unsafe { self.builder.build_in_bounds_gep(self.context.i8_type(), base, &[at], "")? })
    }
}
