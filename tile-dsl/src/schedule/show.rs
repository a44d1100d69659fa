//! What there is to know of each directive without applying it: its name, its phase, the names in it, its text.

use super::{Directive, DirectiveKind, Evict, Phase, Schedule, Space, Start, Unit, UnitDim, Via};
use crate::nest::{Across, Level, Order};
use std::fmt;

/// Names of the directives, in the order of their phases.
#[rustfmt::skip]
pub const NAMES: [&str; 34] = [
    "fits", "layout", "tile", "split", "recompute", "fuse", "tensor_core", "reorder", "stage", "fragment", "pad", "swizzle",
    "pipeline", "interleave", "split_k", "reduce", "bind", "unroll", "serpentine", "vectorize", "exchange", "cache", "produce", "arrive", "issue", "registers",
    "persistent", "pingpong", "alternate", "cluster", "occupancy", "order", "assemble", "launch",
];

/// Those that act on the whole kernel and so have no subject.
pub const WHOLE_KERNEL: [&str; 8] =
    ["registers", "persistent", "pingpong", "occupancy", "order", "assemble", "launch", "reorder"];

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
            Interleave { .. } => "interleave",
            SplitK { .. } => "split_k",
            Bind { .. } => "bind",
            Reduce { .. } => "reduce",
            Unroll { .. } => "unroll",
            Serpentine { .. } => "serpentine",
            Vectorize { .. } => "vectorize",
            Exchange { .. } => "exchange",
            Cache { .. } => "cache",
            Produce { .. } => "produce",
            Arrive { .. } => "arrive",
            Issue { .. } => "issue",
            Registers { .. } => "registers",
            Persistent { .. } => "persistent",
            Pingpong { .. } => "pingpong",
            Alternate { .. } => "alternate",
            Cluster { .. } => "cluster",
            Occupancy { .. } => "occupancy",
            Order(_) => "order",
            Assemble { .. } => "assemble",
            Launch(_) => "launch",
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
            Pipeline { .. } | Interleave { .. } => Phase::Pipeline,
            SplitK { .. } => Phase::SplitK,
            Reduce { .. } | Bind { .. } => Phase::Bind,
            Unroll { .. } | Serpentine { .. } | Vectorize { .. } | Exchange { .. } | Cache { .. } => {
                Phase::Expand
            }
            Produce { .. }
            | Arrive { .. }
            | Issue { .. }
            | Registers { .. }
            | Persistent { .. }
            | Pingpong { .. }
            | Alternate { .. }
            | Cluster { .. }
            | Occupancy { .. }
            | Order(_)
            | Assemble { .. }
            | Launch(_) => Phase::Launch,
        }
    }

    /// What it acts on, its key; `None` for those of the whole kernel.
    pub fn subject(&self) -> Option<&str> {
        use DirectiveKind::*;
        match self {
            Fits { dim: subject, .. }
            | Layout { tensor: subject, .. }
            | Exchange { tensor: subject }
            | Cache { tensor: subject, .. }
            | Tile { axis: subject, .. }
            | Cluster { axis: subject, .. }
            | Split { digit: subject, .. }
            | Recompute { value: subject }
            | Fuse { value: subject, .. }
            | TensorCore { value: subject, .. }
            | Stage { buffer: subject, .. }
            | Fragment { buffer: subject, .. }
            | Pad { buffer: subject, .. }
            | Swizzle { buffer: subject, .. }
            | Pipeline { digit: subject, .. }
            | Interleave { digit: subject, .. }
            | SplitK { digit: subject, .. }
            | Produce { digit: subject, .. }
            | Arrive { digit: subject, .. }
            | Alternate { digit: subject }
            | Issue { value: subject, .. }
            | Reduce { value: subject, .. }
            | Bind { digit: subject, .. }
            | Unroll { digit: subject, .. }
            | Serpentine { digit: subject, .. }
            | Vectorize { digit: subject, .. } => Some(subject),
            Reorder { .. }
            | Registers { .. }
            | Persistent { .. }
            | Pingpong { .. }
            | Occupancy { .. }
            | Order(_)
            | Assemble { .. }
            | Launch(_) => None,
        }
    }

    /// The statement that it is restricted to.
    pub fn within(&self) -> Option<&str> {
        use DirectiveKind::*;
        match self {
            Reorder { within, .. }
            | Unroll { within, .. }
            | Serpentine { within, .. }
            | Vectorize { within, .. } => within.as_deref(),
            _ => None,
        }
    }

    /// The names in it that are of the kernel or of other directives: all but those that `split` makes.
    pub fn names_mut(&mut self) -> Vec<&mut String> {
        use DirectiveKind::*;
        match self {
            Fits { dim: name, .. }
            | Layout { tensor: name, .. }
            | Exchange { tensor: name }
            | Cache { tensor: name, .. }
            | Tile { axis: name, .. }
            | Cluster { axis: name, .. }
            | Split { digit: name, .. }
            | Recompute { value: name }
            | TensorCore { value: name, .. }
            | Pad { buffer: name, .. }
            | Swizzle { buffer: name, .. }
            | Pipeline { digit: name, .. }
            | Interleave { digit: name, .. }
            | SplitK { digit: name, .. }
            | Produce { digit: name, .. }
            | Arrive { digit: name, .. }
            | Alternate { digit: name }
            | Issue { value: name, .. }
            | Reduce { value: name, .. }
            | Bind { digit: name, .. } => vec![name],
            Fuse { value: name, at } | Fragment { buffer: name, at } => vec![name, at],
            Stage { buffer: name, at, .. } => std::iter::once(name).chain(at).collect(),
            Reorder { digits, within } => digits.iter_mut().chain(within).collect(),
            Unroll { digit: name, within }
            | Serpentine { digit: name, within }
            | Vectorize { digit: name, within } => std::iter::once(name).chain(within).collect(),
            Registers { .. }
            | Persistent { .. }
            | Pingpong { .. }
            | Occupancy { .. }
            | Order(_)
            | Assemble { .. }
            | Launch(_) => vec![],
        }
    }

    /// Rank inside the phase, for directives that need others of their phase first.
    fn rank(&self) -> u8 {
        match self {
            DirectiveKind::Pad { .. }
            | DirectiveKind::Swizzle { .. }
            | DirectiveKind::Interleave { .. }
            | DirectiveKind::Bind { .. }
            | DirectiveKind::Arrive { .. }
            | DirectiveKind::Alternate { .. } => 1,
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
            TensorCore { value, atom, swapped } => {
                write!(f, "tensor_core({value}: {atom}{})", if *swapped { "; swapped" } else { "" })
            }
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
                match via {
                    Via::Plain => {}
                    Via::CpAsync => f.write_str(", cp_async")?,
                    Via::Tma => f.write_str(", tma")?,
                    Via::Stmatrix => f.write_str(", tma, stmatrix")?,
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
            Interleave { digit, loads, copies, stores } => {
                let parts = [("loads", loads), ("copies", copies), ("stores", stores)];
                let said = parts.iter().filter_map(|(what, part)| part.map(|p| format!("{what}({p})")));
                write!(f, "interleave({digit}: {})", said.collect::<Vec<_>>().join(", "))
            }
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
            Exchange { tensor } => write!(f, "exchange({tensor})"),
            Cache { tensor, evict } => write!(f, "cache({tensor}: {evict})"),
            Produce { digit, unit } => write!(f, "produce({digit}: {unit})"),
            Arrive { digit, unit } => write!(f, "arrive({digit}: {unit})"),
            Issue { value, overwrite, in_flight } => {
                let first = overwrite.then(|| "overwrite".to_string());
                let behind = (*in_flight > 0).then(|| format!("in_flight({in_flight})"));
                let how: Vec<String> = first.into_iter().chain(behind).collect();
                write!(f, "issue({value}: {})", how.join(", "))
            }
            Registers { producer, consumer } => write!(f, "registers({producer}, {consumer})"),
            Persistent { ctas } => write!(f, "persistent({ctas})"),
            Pingpong { groups } => write!(f, "pingpong({groups})"),
            Alternate { digit } => write!(f, "alternate({digit})"),
            Cluster { axis, ctas } => write!(f, "cluster({axis}: {ctas})"),
            Occupancy { ctas } => write!(f, "occupancy({ctas})"),
            Order(order) => write!(f, "order({order})"),
            Assemble { level } => write!(f, "assemble({level})"),
            Launch(start) => write!(f, "launch({start})"),
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
            Unit::Warpgroup => "warpgroup",
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
            Across::Cluster => "cluster",
        })
    }
}

impl fmt::Display for Evict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Evict::NAMED.iter().find(|(_, evict)| evict == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Start::Dependent => "dependent",
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Row => f.write_str("row"),
            Order::Column => f.write_str("col"),
            Order::Grouped(n) => write!(f, "grouped({n})"),
            Order::Serpentine(n) => write!(f, "serpentine({n})"),
            Order::Hilbert => f.write_str("hilbert"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Item, parse};

    /// One of each, in the order of [`NAMES`].
    const ONE_EACH: &str = "fits(x <= 1); layout(x: col); tile(x = 1); split(x -> p, q: 1); recompute(x); fuse(x at y); \
        tensor_core(x: mma); reorder(x, y in z); stage(x at y: shared); fragment(x at y); pad(x: 1); swizzle(x: 1); \
        pipeline(x, 1); interleave(x: loads(1/2)); split_k(x, 1); reduce(x: lane); bind(x -> lane.x); unroll(x in z); serpentine(x); vectorize(x); exchange(x); cache(x: evict_first); \
        produce(x: warp); arrive(x: warp); issue(x: overwrite); registers(24, 24); persistent(1); pingpong(2); alternate(x); cluster(x: 2); occupancy(1); order(row); assemble(1); launch(dependent)";

    #[test]
    fn the_tables_say_the_same_of_every_directive() {
        let items = parse(ONE_EACH).unwrap();
        assert_eq!(items.len(), NAMES.len());
        let mut phases = Vec::new();
        for (item, name) in items.into_iter().zip(NAMES) {
            let Item::Directive(mut d) = item else { panic!("{name} is no directive") };
            assert_eq!(d.kind.name(), name);
            assert!(d.to_string().starts_with(&format!("{name}(")));
            assert_eq!(d.kind.subject().is_none(), WHOLE_KERNEL.contains(&name), "{name}");
            phases.push(d.kind.phase());
            // Every name of the text but those of the parts is one that can be renamed, the subject first.
            let text = d.to_string();
            let subject = d.kind.subject().map(str::to_string);
            let names: Vec<String> = d.kind.names_mut().into_iter().map(|n| n.clone()).collect();
            assert!(subject.is_none() || names.first() == subject.as_ref(), "{name}");
            let arguments = &text[name.len()..];
            for of in ["x", "y", "z"] {
                let words = arguments.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_'));
                let count = words.filter(|word| *word == of).count();
                assert_eq!(names.iter().filter(|n| *n == of).count(), count, "{of} in {text}");
            }
            assert_eq!(d.kind.within(), names.iter().find(|n| *n == "z").map(String::as_str), "{name}");
        }
        assert!(phases.is_sorted());
    }
}
