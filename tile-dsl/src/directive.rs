//! Directives, a file each.
//!
//! The file of a directive has what there is to know of it: its card (the text at its head), its row (example, phase, arguments,
//! grammar), its rule, the names that it gives others and needs of them, the target that it takes, what only the complete schedule
//! shows of it. The list at the end of this file makes the enum and everything that asks all directives.
//!
//! ```text
//! directive! { "alternate(k)" in Launch, 1: Alternate { digit: DigitName } => |s| s.each(digit, "a pipelined loop") }
//! impl Definition for Alternate { fn apply(&self, nest: &Nest, span: SpanId) -> Applied { .. } }
//! ```
//! Rules that several directives share are in `engine/families`.

use crate::{
    engine::{
        Failure, Name, Proof,
        checks::Check,
        testing::{Generator, Wish},
    },
    machine::Target,
    nest::Nest,
    schedule::{Grammar, Row, Schedule, Syntax},
    span::SpanId,
};
use serde::{Deserialize, Serialize};

/// What a directive makes of a nest, and the proof.
pub(crate) type Applied = Result<(Nest, Proof), Failure>;

/// What a directive does.
pub(crate) trait Definition: Grammar {
    /// What only the complete schedule shows of it, and its place in the order of what is looked at.
    const CHECK: Option<Check> = None;

    /// Applies it to a nest. `span` is where it stands in the source.
    fn apply(&self, nest: &Nest, span: SpanId) -> Applied;

    /// Names that it gives directives after it.
    fn gives(&self) -> Vec<Name> {
        Vec::new()
    }

    /// Names that it needs of directives before it.
    fn needs(&self) -> Vec<Name> {
        Vec::new()
    }

    /// The oldest target that has what it takes, and what that is.
    fn target(&self) -> Option<(String, Target)> {
        None
    }
}

/// How random schedules have a directive.
pub(crate) trait Drawn: Sized {
    /// Whether it changes the order or the share of what a CTA computes.
    const ORDERS: bool = false;

    /// Which of its kinds it is, where the list has several.
    fn kinds(&self, _schedule: &Schedule) -> Vec<Kind> {
        Vec::new()
    }

    /// What schedules with a kind of it need beside it: of each list, one.
    fn beside(_kind: Kind) -> &'static [&'static [Kind]] {
        &[]
    }

    /// Those of a kind that may apply to what a schedule has made so far; the first that does is taken.
    fn candidates(_kind: Kind, _generator: &mut Generator<'_>, _wish: &Wish<'_>) -> Vec<DirectiveKind> {
        Vec::new()
    }
}

/// The row of a directive: makes the struct of its arguments and the walk over them.
macro_rules! directive {
    (
        $(#[$doc:meta])*
        $form:literal in $phase:ident, $rank:literal:
        $kind:ident { $($field:ident: $type:ty $(= $blank:expr)?),* } => |$syntax:ident| $grammar:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs)] // the fields are named as in the example
        pub struct $kind {
            $(pub $field: $type,)*
        }

        impl $crate::schedule::Grammar for $kind {
            const FORM: &'static str = $form;
            const PHASE: $crate::schedule::Phase = $crate::schedule::Phase::$phase;
            const RANK: u8 = $rank;

            fn blank() -> Self {
                $kind { $($field: $crate::directive::blank!($($blank)?),)* }
            }

            fn walk<'a, S: $crate::schedule::Syntax<'a>>(&'a mut self, syntax: &mut S) {
                let $kind { $($field,)* } = self;
                let $syntax = syntax;
                let _ = $grammar;
            }
        }
    };
}

/// What an argument is where nothing is said.
macro_rules! blank {
    () => {
        Default::default()
    };
    ($blank:expr) => {
        $blank
    };
}
use blank;

/// What most files of directives use.
mod prelude {
    pub(super) use super::{Applied, Definition, Drawn, Kind};
    pub(super) use crate::{
        diagnostic::{Diagnostic, Edit},
        directive::{self, DirectiveKind},
        engine::{
            Failure, Name, Proof,
            checks::{Check, Context, Shows},
            testing::{ATOMS, COMPUTING, COPIES, Generator, PRODUCERS, Wish},
        },
        nest::Nest,
        schedule::{DigitName, Extra, Schedule},
        span::SpanId,
    };
}

pub(crate) mod alternate;
pub(crate) mod arrive;
pub(crate) mod assemble;
pub(crate) mod bind;
pub(crate) mod cache;
pub(crate) mod cluster;
pub(crate) mod exchange;
pub(crate) mod fits;
pub(crate) mod fragment;
pub(crate) mod freeze;
pub(crate) mod fuse;
pub(crate) mod interleave;
pub(crate) mod issue;
pub(crate) mod launch;
pub(crate) mod layout;
pub(crate) mod lookback;
pub(crate) mod multiple;
pub(crate) mod occupancy;
pub(crate) mod online;
pub(crate) mod order;
pub(crate) mod pad;
pub(crate) mod persistent;
pub(crate) mod pingpong;
pub(crate) mod pipeline;
pub(crate) mod produce;
pub(crate) mod recompute;
pub(crate) mod reduce;
pub(crate) mod registers;
pub(crate) mod reorder;
pub(crate) mod segment;
pub(crate) mod serpentine;
pub(crate) mod skew;
pub(crate) mod split;
pub(crate) mod split_k;
pub(crate) mod stage;
pub(crate) mod swizzle;
pub(crate) mod tensor_core;
pub(crate) mod tile;
pub(crate) mod unroll;
pub(crate) mod vectorize;

/// Makes the enum of the directives and what asks all of them.
macro_rules! directives {
    ($($module:ident::$kind:ident [$($counted:ident = $name:literal),*],)*) => {
        $(pub use $module::$kind;)*

        /// The directives.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum DirectiveKind {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)*
        }

        /// A directive, or a directive with an option, as the fuzzer counts them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = concat!("`", $name, "`")] $counted,)*)*
        }

        impl Kind {
            /// All of them, by phase.
            pub const ALL: &[Kind] = &[$($(Kind::$counted,)*)*];

            /// As tables and ids of cases have it.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Kind::$counted => $name,)*)*
                }
            }

            /// Whether it changes the order or the share of what a CTA computes.
            pub fn orders(self) -> bool {
                match self {
                    $($(Kind::$counted => $kind::ORDERS,)*)*
                }
            }

            /// What random schedules with it need beside it: of each list, one.
            pub(crate) fn beside(self) -> &'static [&'static [Kind]] {
                match self {
                    $($(Kind::$counted => $kind::beside(self),)*)*
                }
            }

            /// Directives of the kind that may apply to what a random schedule has made so far.
            pub(crate) fn candidates(
                self,
                generator: &mut Generator<'_>,
                wish: &Wish<'_>,
            ) -> Vec<DirectiveKind> {
                match self {
                    $($(Kind::$counted => $kind::candidates(self, generator, wish),)*)*
                }
            }
        }

        /// All directives, in the order of their phases.
        pub(crate) const TABLE: &[Row] = &[$(Row {
            form: $kind::FORM,
            phase: $kind::PHASE,
            rank: $kind::RANK,
            blank: || DirectiveKind::$kind($kind::blank()),
        },)*];

        /// What complete schedules show of directives, in the order of the list.
        pub(crate) const CHECKS: &[Option<Check>] = &[$($kind::CHECK,)*];

        impl DirectiveKind {
            /// What there is to know of it whatever its arguments.
            pub(crate) fn row(&self) -> &'static Row {
                enum At { $($kind,)* }
                match self {
                    $(DirectiveKind::$kind(_) => &TABLE[At::$kind as usize],)*
                }
            }

            /// Walks over its arguments in the order in which they are written.
            pub(crate) fn walk<'a, S: Syntax<'a>>(&'a mut self, syntax: &mut S) {
                match self {
                    $(DirectiveKind::$kind(directive) => directive.walk(syntax),)*
                }
            }

            /// The kinds that it is, in a schedule.
            pub(crate) fn kinds(&self, schedule: &Schedule) -> Vec<Kind> {
                match self {
                    $(DirectiveKind::$kind(directive) => match [$(Kind::$counted),*][..] {
                        [only] => vec![only],
                        _ => directive.kinds(schedule),
                    },)*
                }
            }

            /// Its definition.
            fn definition(&self) -> &dyn Applies {
                match self {
                    $(DirectiveKind::$kind(directive) => directive,)*
                }
            }
        }

        $(
            impl From<$kind> for DirectiveKind {
                fn from(directive: $kind) -> Self {
                    DirectiveKind::$kind(directive)
                }
            }

            impl std::fmt::Display for $kind {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    DirectiveKind::from(self.clone()).fmt(f)
                }
            }
        )*
    };
}

// In the order of their phases; programs store the place of a directive in this list. In brackets: what the fuzzer counts a directive
// as, which are several where an option chooses other instructions.
directives! {
    online::Online [],
    fits::Fits [Fits = "fits"],
    multiple::Multiple [Multiple = "multiple"],
    layout::Layout [Layout = "layout"],
    tile::Tile [Tile = "tile"],
    split::Split [Split = "split"],
    recompute::Recompute [Recompute = "recompute"],
    fuse::Fuse [Fuse = "fuse"],
    tensor_core::TensorCore [Mma = "mma", Wgmma = "wgmma", Swapped = "tensor_core-swapped"],
    reorder::Reorder [Reorder = "reorder"],
    stage::Stage [StagePlain = "stage", StageVector = "stage-vector", StageAsync = "stage-cp_async", StageAsyncVector = "stage-cp_async-vector", StageTma = "stage-tma", StageTransposed = "stage-transposed", StageValue = "stage-value", Collect = "collect", CollectMatrices = "collect-stmatrix"],
    fragment::Fragment [Fragment = "fragment"],
    pad::Pad [Pad = "pad"],
    swizzle::Swizzle [Swizzle = "swizzle"],
    pipeline::Pipeline [Pipeline = "pipeline", PipelineRegisters = "pipeline-registers"],
    interleave::Interleave [Interleave = "interleave"],
    split_k::SplitK [SplitK = "split_k", SplitKAtomic = "split_k-atomic", SplitKCluster = "split_k-cluster"],
    reduce::Reduce [ReduceLane = "reduce-lane", ReduceWarp = "reduce-warp", ReduceCta = "reduce-cta"],
    bind::Bind [BindBlock = "bind-block", BindWarpgroup = "bind-warpgroup", BindWarp = "bind-warp", BindLane = "bind-lane", BindThread = "bind-thread", BindXor = "bind-xor"],
    unroll::Unroll [Unroll = "unroll"],
    serpentine::Serpentine [Serpentine = "serpentine"],
    vectorize::Vectorize [Vectorize = "vectorize"],
    exchange::Exchange [Exchange = "exchange"],
    cache::Cache [Cache = "cache"],
    produce::Produce [ProduceWarp = "produce-warp", ProduceWarpgroup = "produce-warpgroup"],
    arrive::Arrive [Arrive = "arrive"],
    issue::Issue [Overwrite = "issue-overwrite", InFlight = "issue-in_flight"],
    skew::Skew [Skew = "skew"],
    freeze::Freeze [Freeze = "freeze"],
    registers::Registers [Registers = "registers"],
    persistent::Persistent [Persistent = "persistent"],
    pingpong::Pingpong [Pingpong = "pingpong"],
    alternate::Alternate [Alternate = "alternate"],
    cluster::Cluster [Cluster = "cluster"],
    segment::Segment [Segment = "segment"],
    occupancy::Occupancy [Occupancy = "occupancy"],
    order::Order [Order = "order"],
    assemble::Assemble [Assemble = "assemble"],
    launch::Launch [Launch = "launch"],
    lookback::Lookback [],
}

/// The part of [`Definition`] that is asked of a directive with its arguments.
trait Applies {
    fn apply(&self, nest: &Nest, span: SpanId) -> Applied;
    fn gives(&self) -> Vec<Name>;
    fn needs(&self) -> Vec<Name>;
    fn target(&self) -> Option<(String, Target)>;
}

impl<D: Definition> Applies for D {
    fn apply(&self, nest: &Nest, span: SpanId) -> Applied {
        Definition::apply(self, nest, span)
    }
    fn gives(&self) -> Vec<Name> {
        Definition::gives(self)
    }
    fn needs(&self) -> Vec<Name> {
        Definition::needs(self)
    }
    fn target(&self) -> Option<(String, Target)> {
        Definition::target(self)
    }
}

impl DirectiveKind {
    /// Applies it to a nest.
    pub(crate) fn apply(&self, nest: &Nest, span: SpanId) -> Applied {
        self.definition().apply(nest, span)
    }

    /// Names that it gives directives after it.
    pub(crate) fn gives(&self) -> Vec<Name> {
        self.definition().gives()
    }

    /// Names that it needs of directives before it.
    pub(crate) fn needs(&self) -> Vec<Name> {
        self.definition().needs()
    }

    /// The oldest target that has what it takes, and what that is.
    pub(crate) fn target(&self) -> Option<(String, Target)> {
        self.definition().target()
    }
}
