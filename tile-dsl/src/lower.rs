//! Lowering: nest IR → kernel IR. Deterministic; it re-decides nothing that a directive decided.
//!
//! `PASSES` has the order. The largest of them is one walk over the term: units (launch shape) and grid (coordinates of
//! the CTA) first, then the statements, in an environment of bound digits. The walk gives each value its place (registers or shared memory), expands
//! `#unroll` and `#vec`, copies stages, inserts barriers, combines reductions across threads, and guards
//! what may lie outside the extents. What a nest could lack for it the engine's checks have refused: a [`LowerError`] is a mistake
//! of the compiler.
//!
//! Emission is functions over a `context::Cx`: the view (nest, plan, variant; it stays as it is), the environment (what loops
//! and `let`s around the current point bind) and the builder (statements, registers, barriers). Files know those of the floors
//! below theirs alone:
//!
//! | floor | files |
//! |---|---|
//! | passes | `passes`, `lowering`, `products`, `maps` |
//! | roles | `roles`, `counted`, `turns`, `grid` |
//! | statements | `walk` |
//! | stages and rings | `stage`, `pipeline`, `skew`, `registers`, `ring`, `ring_stages`, `fill` |
//! | `let`s | `lets`, `freeze` |
//! | products | `matrix`, `operand`, `words` |
//! | stores | `put`, `store`, `output`, `exchange` |
//! | sums | `combine`, `across`, `cluster` |
//! | copies | `moves`, `copy`, `tensor_map`, `mbarriers`, `fragment`, `interleave` |
//! | accesses | `expr`, `loads`, `held`, `storage`, `memory`, `guard` |
//! | loops and conditions | `control`, `digits`, `units` |
//! | context | `context`, `env`, `build`, `flow`, `given` |
//! | statements of the kernel IR | `emit`, `sync`, `layout`, `linear`, `error` |
//!
//! What stands around statements, such as a pipeline, is handed the walk over those inside (`control::Walk`).
//!
//! Three [`Variant`]s of one program differ in guards, vectors and offset width; [`assumptions`] lists what a
//! launch must satisfy for each.

mod across;
mod build;
mod cluster;
mod combine;
mod context;
mod control;
mod copy;
mod counted;
mod digits;
mod emit;
mod env;
mod error;
mod exchange;
mod expr;
mod fill;
mod flow;
mod fragment;
mod freeze;
mod gather;
mod given;
mod grid;
mod guard;
mod held;
mod interleave;
mod joined;
mod layout;
mod lets;
mod limits;
mod linear;
mod loads;
mod lookback;
mod looked_up;
mod lowering;
mod maps;
mod matrix;
mod mbarriers;
mod memory;
mod moves;
mod operand;
mod output;
mod passes;
mod pipeline;
mod private;
mod products;
mod put;
mod registers;
mod ring;
mod ring_stages;
mod roles;
mod scan;
mod skew;
mod stage;
mod storage;
mod store;
mod sync;
mod tensor_map;
pub(crate) mod testing;
mod turns;
mod units;
mod walk;
mod words;

pub use crate::assume::{
    Assumption, Assumptions, Condition, Form, Promise, Strided, admit, assumptions, assumptions_strided,
    chosen, promises, stride,
};
pub use error::LowerError;
pub use given::Given;

use crate::{
    kernel::Kernel,
    program::{Program, Variant},
};
use lowering::{Lowering, Pass};

/// Lowers one variant of a program.
///
/// # Errors
/// Mistakes of the compiler, see [`LowerError`].
pub fn lower(program: &Program, variant: Variant) -> Result<Kernel, LowerError> {
    lower_given(program, variant, &Given::default())
}

/// [`lower`] for launches of another kind.
///
/// # Errors
/// As [`lower`].
pub fn lower_given(program: &Program, variant: Variant, given: &Given) -> Result<Kernel, LowerError> {
    lower_observed(program, variant, given, &mut |_, _| {})
}

/// The passes, in the order in which they run.
const PASSES: [Pass; 10] = [
    Pass {
        name: "plan",
        what: "what follows from the nest before any statement: tiles, roles, boxes, channels, places, sums, products, accesses, stores",
        run: passes::plan,
        text: passes::planned,
    },
    Pass {
        name: "allocate",
        what: "buffers in shared memory, when each lives, where it lies",
        run: passes::allocate,
        text: passes::allocated,
    },
    Pass {
        name: "walk",
        what: "threads, registers, copies, barriers, guards",
        run: passes::walk,
        text: passes::made,
    },
    Pass {
        name: "products",
        what: "fences and waits around asynchronous MMA",
        run: products::group,
        text: passes::made,
    },
    Pass { name: "mbarriers", what: "their initial state", run: mbarriers::initialise, text: passes::made },
    Pass {
        name: "reuse",
        what: "a barrier where one buffer takes the bytes of another",
        run: passes::separate_reuse,
        text: passes::made,
    },
    Pass {
        name: "zeros",
        what: "zeros where a part of a word may never be written, and where tiles are counted",
        run: passes::clear_buffers,
        text: passes::made,
    },
    Pass {
        name: "depend",
        what: "where a dependent launch waits for the grids before it",
        run: passes::depend,
        text: passes::made,
    },
    Pass {
        name: "maps",
        what: "before tensor maps are used: fences where they are in global memory, else a prefetch",
        run: maps::announce,
        text: passes::made,
    },
    Pass {
        name: "verify",
        what: "what code generation takes for granted",
        run: passes::check,
        text: passes::made,
    },
];

/// [`lower_given`], `observe` sees what each pass leaves.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_observed(
    program: &Program,
    variant: Variant,
    given: &Given,
    observe: &mut dyn FnMut(&Pass, &Lowering<'_>),
) -> Result<Kernel, LowerError> {
    let mut lowering = Lowering::new(program, variant, given);
    for pass in &PASSES {
        (pass.run)(&mut lowering)?;
        observe(pass, &lowering);
    }
    Ok(lowering.kernel)
}
