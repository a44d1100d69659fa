//! A kernel on its way through the passes.

use super::{build::Barriers, error::LowerError, given::Given};
use crate::{
    kernel::Kernel,
    nest::Nest,
    plan::Plan,
    program::{Program, Variant},
    shared::Allocation,
};

/// A step from the nest to a kernel that code can be generated for.
pub(crate) struct Pass {
    pub name: &'static str,
    /// What it is for.
    pub what: &'static str,
    pub(super) run: fn(&mut Lowering<'_>) -> Result<(), LowerError>,
    /// What it leaves, in words: the kernel, once there are statements.
    pub text: fn(&Lowering<'_>) -> String,
}

/// A kernel on its way through the passes.
pub(crate) struct Lowering<'a> {
    pub(super) program: &'a Program,
    pub(super) variant: Variant,
    pub(super) given: &'a Given,
    /// Once it is made.
    pub plan: Option<Plan>,
    pub shared: Allocation,
    pub kernel: Kernel,
    pub(super) barriers: Vec<Barriers>,
    pub(super) cursors: Vec<u32>,
}

impl<'a> Lowering<'a> {
    /// Nothing but a name.
    pub fn new(program: &'a Program, variant: Variant, given: &'a Given) -> Self {
        let kernel = Kernel {
            name: entry_name(program, variant, given),
            target: program.schedule.target,
            params: Vec::new(),
            cleared: Vec::new(),
            shared: Vec::new(),
            frags: Vec::new(),
            vars: Vec::new(),
            threads: 1,
            grid: Vec::new(),
            min_ctas: program.nest.resident(program.schedule.target),
            persistent: program.nest.persistent,
            cluster: program.nest.cluster.map(|_| program.nest.cluster_ctas()),
            assemble: program.nest.assemble,
            dependent: program.nest.dependent,
            grouped: given.grouped,
            body: Vec::new(),
        };
        Lowering {
            program,
            variant,
            given,
            plan: None,
            shared: Allocation::default(),
            kernel,
            barriers: Vec::new(),
            cursors: Vec::new(),
        }
    }

    pub(super) fn nest(&self) -> &'a Nest {
        &self.program.nest
    }
}

/// `matmul_warptile_f32_exact`.
fn entry_name(program: &Program, variant: Variant, given: &Given) -> String {
    let mut name = format!("{}_{}", program.nest.kernel.name, program.schedule.name);
    if let Some(dtype) = program.dtype {
        name += &format!("_{dtype}");
    }
    name += &format!("_{variant}");
    if !given.strided.is_empty() {
        name += "_strided";
    }
    if given.grouped {
        name += "_grouped";
    }
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_")
}
