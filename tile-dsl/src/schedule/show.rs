//! Directives as written, and the phase each belongs to.

use super::{Directive, DirectiveKind, Phase, Schedule, Space, Unit, UnitDim, Via};
use crate::nest::{Across, Level, Order};
use std::fmt;

impl DirectiveKind {
    /// Name of the directive.
    pub fn name(&self) -> &'static str {
        use DirectiveKind::*;
        match self {
            Fits { .. } => "fits",
            Layout { .. } => "layout",
            Tile { .. } => "tile",
            Split { .. } => "split",
            Recompute { .. } => "recompute",
            Fuse { .. } => "fuse",
            TensorCore { .. } => "tensor_core",
            Reorder { .. } => "reorder",
            Stage { .. } => "stage",
            Pad { .. } => "pad",
            Fragment { .. } => "fragment",
            Swizzle { .. } => "swizzle",
            Pipeline { .. } => "pipeline",
            SplitK { .. } => "split_k",
            Bind { .. } => "bind",
            Reduce { .. } => "reduce",
            Unroll { .. } => "unroll",
            Serpentine { .. } => "serpentine",
            Vectorize { .. } => "vectorize",
            Occupancy { .. } => "occupancy",
            Order(_) => "order",
            Assemble { .. } => "assemble",
        }
    }

    /// The phase in which the directive applies.
    pub fn phase(&self) -> Phase {
        use DirectiveKind::*;
        match self {
            Fits { .. } | Layout { .. } => Phase::Assume,
            Tile { .. } => Phase::Tile,
            Split { .. } => Phase::Split,
            Recompute { .. } | Fuse { .. } => Phase::Place,
            TensorCore { .. } => Phase::TensorCore,
            Reorder { .. } => Phase::Reorder,
            Stage { .. } | Fragment { .. } | Pad { .. } | Swizzle { .. } => Phase::Stage,
            Pipeline { .. } => Phase::Pipeline,
            SplitK { .. } => Phase::SplitK,
            Reduce { .. } | Bind { .. } => Phase::Bind,
            Unroll { .. } | Serpentine { .. } | Vectorize { .. } => Phase::Expand,
            Occupancy { .. } | Order(_) | Assemble { .. } => Phase::Launch,
        }
    }

    /// Rank inside the phase, for directives that need others of their phase first.
    fn rank(&self) -> u8 {
        match self {
            DirectiveKind::Pad { .. } | DirectiveKind::Swizzle { .. } | DirectiveKind::Bind { .. } => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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

impl Schedule {
    /// The directives in the order in which they apply: by phase, inside a phase as listed.
    pub fn in_order(&self) -> Vec<&Directive> {
        let mut all: Vec<&Directive> = self.directives.iter().collect();
        all.sort_by_key(|d| (d.kind.phase(), d.kind.rank()));
        all
    }
}

struct Within<'a>(&'a Option<String>);

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(statement) => write!(f, " in {statement}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for DirectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DirectiveKind::*;
        let name = self.name();
        match self {
            Fits { dim, max } => write!(f, "fits({dim} <= {max})"),
            Layout { tensor, column_major } => {
                write!(f, "layout({tensor}: {})", if *column_major { "col" } else { "row" })
            }
            Tile { axis, size } => write!(f, "tile({axis} = {size})"),
            Split { digit, names, factors } => {
                let factors: Vec<String> = factors.iter().map(u32::to_string).collect();
                write!(f, "split({digit} -> {}: {})", names.join(", "), factors.join(", "))
            }
            Recompute { value } => write!(f, "recompute({value})"),
            Fuse { value, at } => write!(f, "fuse({value} at {at})"),
            TensorCore { value, atom } => write!(f, "tensor_core({value}: {atom})"),
            Reorder { digits, within } => write!(f, "reorder({}{})", digits.join(", "), Within(within)),
            Stage { buffer, at, space, transposed, via, vector } => {
                write!(f, "stage({buffer}")?;
                if let Some(at) = at {
                    write!(f, " at {at}")?;
                }
                write!(f, ": {space}")?;
                if *transposed {
                    f.write_str(", transposed")?;
                }
                if *via == Via::CpAsync {
                    f.write_str(", cp_async")?;
                }
                if let Some(bytes) = vector {
                    write!(f, ", vector({bytes})")?;
                }
                f.write_str(")")
            }
            Fragment { buffer, at } => write!(f, "fragment({buffer} at {at})"),
            Pad { buffer, bytes } => write!(f, "pad({buffer}: {bytes})"),
            Swizzle { buffer, span } => write!(f, "swizzle({buffer}: {span})"),
            Pipeline { digit, stages } => write!(f, "pipeline({digit}, {stages})"),
            SplitK { digit, parts, across: Across::Workspace } => write!(f, "split_k({digit}, {parts})"),
            SplitK { digit, parts, across } => write!(f, "split_k({digit}, {parts}; {across})"),
            Bind { digit, unit, dim, xor } => {
                write!(f, "bind({digit} -> {unit}.{dim}")?;
                if let Some(other) = xor {
                    write!(f, " ^ {unit}.{other}")?;
                }
                f.write_str(")")
            }
            Reduce { value, level } => write!(f, "reduce({value}: {level})"),
            Unroll { digit, within } | Serpentine { digit, within } | Vectorize { digit, within } => {
                write!(f, "{name}({digit}{})", Within(within))
            }
            Occupancy { ctas } => write!(f, "occupancy({ctas})"),
            Order(order) => write!(f, "order({order})"),
            Assemble { level } => write!(f, "assemble({level})"),
        }
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Space::Shared => f.write_str("shared"),
            Space::Register => f.write_str("register"),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Block => "block",
            Unit::Warp => "warp",
            Unit::Lane => "lane",
            Unit::Thread => "thread",
        })
    }
}

impl fmt::Display for UnitDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnitDim::X => "x",
            UnitDim::Y => "y",
            UnitDim::Z => "z",
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Lane => "lane",
            Level::Warp => "warp",
            Level::Cta => "cta",
        })
    }
}

impl fmt::Display for Across {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Across::Workspace => "workspace",
            Across::Atomic => "atomic",
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Row => f.write_str("row"),
            Order::Column => f.write_str("col"),
            Order::Grouped(n) => write!(f, "grouped({n})"),
        }
    }
}
