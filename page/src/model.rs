//! The data of a page: what is serialised as JSON into the file, and what its scripts draw. Everything comes from the compiler or from
//! a run of the simulator; what neither knows is absent.

mod budgets;
mod derivation;
mod events;
mod holds;
mod memory;

pub use budgets::{Budgets, Fragment, GridFactor, Limit, Rates, ResourceTime, Roofline, SharedBuffer};
pub use derivation::{Mistake, Node, NodeKind, Refusal, Step};
pub use events::{Act, Actions, Events, Happened, RingStage, RoleColumn, Run};
pub use holds::{CopyView, DigitView, UnitView, ValueView};
pub use memory::{AccessView, Counted, Memory, Totals, WarpLanes};

use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the data: it changes when a field is renamed or goes.
pub const SCHEMA: u32 = 1;

/// A page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What is shown.
    pub head: Head,
    /// What to look at first.
    pub findings: Vec<Finding>,
    /// Kernel and schedule as text.
    pub text: Text,
    /// The kernel as loops, then each directive in the order in which they apply, then the defaults.
    pub steps: Vec<Step>,
    /// Why the schedule is refused; the panels behind the derivation are empty then.
    pub refusal: Option<Refusal>,
    /// Where the elements of values lie.
    pub values: Vec<ValueView>,
    /// How copies lie in shared memory.
    pub copies: Vec<CopyView>,
    /// The units of a CTA.
    pub units: Vec<UnitView>,
    /// Accesses of memory, from the simulator.
    pub memory: Option<Memory>,
    /// What a CTA does, in order.
    pub events: Option<Events>,
    /// What the kernel takes of a multiprocessor.
    pub budgets: Option<Budgets>,
    /// Names that are the same thing wherever they stand, with what they are.
    pub names: BTreeMap<String, Named>,
}

/// What a page shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Head {
    /// Kernel.
    pub kernel: String,
    /// Schedule.
    pub schedule: String,
    /// The first paragraph of the schedule's documentation; empty if there is none.
    pub about: String,
    /// Element type of the kernel's generic parameter.
    pub dtype: Option<String>,
    /// Target: `sm_80`.
    pub target: String,
    /// Variant that ran: `exact`.
    pub variant: Option<String>,
    /// What that variant takes for granted of its arguments.
    pub assumptions: Vec<String>,
    /// Values of the named dims in the run.
    pub dims: BTreeMap<String, i64>,
    /// CTAs that ran.
    pub ctas: u64,
    /// Threads of a CTA.
    pub threads: u32,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Its kind: `axis`, `loop`, `value`, `tensor`.
    pub kind: &'static str,
    /// In words: `4 steps of 32 along i`.
    pub about: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The program is wrong.
    Wrong,
    /// It is right, and slower than it could be.
    Slow,
    /// To know.
    Note,
    /// As good as it can be.
    Good,
}

/// Something to look at first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// One sentence; names stand in backquotes.
    pub text: String,
    /// The numbers behind it.
    pub why: String,
    /// Lines of the PTX.
    pub lines: Vec<u32>,
    /// Place in the source, where the PTX says it: `file:line:column`.
    pub source: Option<String>,
    /// The panel that shows it.
    pub panel: &'static str,
    /// The access there, position in [`Memory::accesses`].
    pub access: Option<usize>,
}

/// Kernel and schedule as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Text {
    /// The kernel as written, in the form of the tile IR.
    pub kernel: Vec<String>,
    /// The directives that hold, in the order in which they apply.
    pub directives: Vec<Line>,
    /// The schedules that they are inherited from.
    pub parents: Vec<String>,
}

/// A directive that holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// As written.
    pub text: String,
    /// Its phase.
    pub phase: String,
    /// The schedule that says it, if it is inherited.
    pub from: Option<String>,
    /// Its step, position in [`Page::steps`]; none for directives behind the one that is refused.
    pub step: Option<usize>,
    /// It is what the schedule is refused for.
    pub refused: bool,
}
