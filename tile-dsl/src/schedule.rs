//! Schedules: keyed lists of directives.
//!
//! Directives apply in the order of their [`Phase`], and inside one phase in the order written, so a
//! child's directive that replaces its parent's needs no position. See `docs/schedule.md` for the grammar.
//!
//! A directive is declared once, in its file ([`crate::directive`]): its phase, its key, its text and its reader, for
//! text as for the tokens of a macro, follow from its row.

mod ebnf;
mod extend;
mod grammar;
mod names;
mod numbers;
mod parse;
mod print;
mod read;
mod token;

pub use crate::directive::DirectiveKind;
pub use crate::machine::{Evict, Space, Start, Target, Unit, UnitDim, Via};
pub use extend::{Item, extend, extend_without_mistakes};
pub use grammar::Row;
pub(crate) use grammar::{Extra, Grammar, Syntax};
pub use names::Key;
pub use parse::{ParseError, parse};
pub use read::{Mistake, read};
pub use token::{Token, TokenKind};

use crate::{dtype::DType, span::SpanId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A digit as addressed in a schedule: `i`, `i.o`, `i.t`, or a name given by `split`.
///
/// A bare axis name means its tile loop (`i.o`) in `at` and `pipeline`, its in-tile digit (`i.t`) elsewhere,
/// and the whole axis where it is not tiled.
pub type DigitName = String;

/// A schedule with everything it inherits, flattened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Name.
    pub name: String,
    /// Kernel it applies to.
    pub kernel: String,
    /// Element types admitted for the kernel's generic parameter; empty for a kernel without one.
    pub dtypes: Vec<DType>,
    /// Target, for example 80 for `sm_80`.
    pub target: Target,
    /// Directives in the order inherited and written; [`Schedule::in_order`] sorts them by phase.
    pub directives: Vec<Directive>,
}

/// One directive, after `bind(i -> .., j -> ..)` and the like were taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directive {
    /// What it does.
    pub kind: DirectiveKind,
    /// The directive as written.
    pub span: SpanId,
    /// Path of the parent schedule it is inherited from, `None` when written in this one.
    pub inherited: Option<String>,
}

/// Phases, in the order in which directives apply. Which directives each has, [`rows`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The text of the kernel becomes another one.
    Text,
    /// What every launch keeps to.
    Assume,
    /// Axes are cut in tiles.
    Tile,
    /// Loops are cut.
    Split,
    /// Statements move.
    Place,
    /// Instructions of the tensor cores take loops.
    TensorCore,
    /// Loops change places.
    Reorder,
    /// Tensors and values are copied on chip.
    Stage,
    /// Copies run ahead.
    Pipeline,
    /// CTAs share a reduction.
    SplitK,
    /// Units share loops.
    Bind,
    /// Loops are expanded, accesses merged.
    Expand,
    /// Facts of the whole kernel and its launch.
    Launch,
}

/// All directives, in the order of their phases.
pub const fn rows() -> &'static [Row] {
    crate::directive::TABLE
}

impl DirectiveKind {
    /// Name of the directive.
    pub fn name(&self) -> &'static str {
        self.row().name()
    }

    /// Where its card is, from the root of the repository.
    pub fn place(&self) -> String {
        self.row().place()
    }

    /// The phase in which the directive applies.
    pub fn phase(&self) -> Phase {
        self.row().phase
    }
}

impl Schedule {
    /// The directives in the order in which they apply: by phase, inside a phase as listed.
    pub fn in_order(&self) -> Vec<&Directive> {
        let mut all: Vec<&Directive> = self.directives.iter().collect();
        all.sort_by_key(|d| (d.kind.phase(), d.kind.row().rank));
        all
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Text => "text",
            Phase::Assume => "assume",
            Phase::Tile => "tile",
            Phase::Split => "split",
            Phase::Place => "place",
            Phase::TensorCore => "tensor_core",
            Phase::Reorder => "reorder",
            Phase::Stage => "stage",
            Phase::Pipeline => "pipeline",
            Phase::SplitK => "split_k",
            Phase::Bind => "bind",
            Phase::Expand => "expand",
            Phase::Launch => "launch",
        })
    }
}
