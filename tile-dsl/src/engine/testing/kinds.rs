//! What the fuzzer counts directives as: by name, and by the option where it chooses other instructions.

use crate::{
    nest::{Across, Level, Scope},
    schedule::{Directive, DirectiveKind as D, Schedule, Unit, Via},
};
use std::{collections::BTreeSet, fmt, str::FromStr};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A directive, or a directive with an option.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them, by phase.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// As tables and ids of cases have it.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    /// `fits(N <= 64)`.
    Fits = "fits",
    /// `multiple(N: 8)`.
    Multiple = "multiple",
    /// `layout(x: col)`.
    Layout = "layout",
    /// `tile(i = 8)`.
    Tile = "tile",
    /// `split(i -> a, b: 2)`.
    Split = "split",
    /// `recompute(v)`.
    Recompute = "recompute",
    /// `fuse(v at i)`.
    Fuse = "fuse",
    /// `tensor_core(v: mma)`.
    Mma = "mma",
    /// `tensor_core(v: wgmma(64, 64))`.
    Wgmma = "wgmma",
    /// `tensor_core(v: ..; swapped)`.
    Swapped = "tensor_core-swapped",
    /// `reorder(j, i)`.
    Reorder = "reorder",
    /// `stage(x at k: shared)`, element by element.
    StagePlain = "stage",
    /// `stage(x at k: shared, vector(16))`.
    StageVector = "stage-vector",
    /// `stage(x at k: shared, cp_async)`, 4 bytes at a time.
    StageAsync = "stage-cp_async",
    /// `stage(x at k: shared, cp_async, vector(16))`.
    StageAsyncVector = "stage-cp_async-vector",
    /// `stage(x at k: shared, tma)`.
    StageTma = "stage-tma",
    /// `stage(x at k: shared, transposed, ..)`.
    StageTransposed = "stage-transposed",
    /// `stage(v: shared)` of a value.
    StageValue = "stage-value",
    /// `stage(y: shared, tma)` of a stored tensor.
    Collect = "collect",
    /// `stage(y: shared, tma, stmatrix)`.
    CollectMatrices = "collect-stmatrix",
    /// `fragment(x at k.t)`.
    Fragment = "fragment",
    /// `pad(x: 16)`.
    Pad = "pad",
    /// `swizzle(x: 128)`.
    Swizzle = "swizzle",
    /// `pipeline(k, 2)` over copies in shared memory.
    Pipeline = "pipeline",
    /// `pipeline(k.t, 2)` over fragments.
    PipelineRegisters = "pipeline-registers",
    /// `interleave(k.t: loads(1/2))`.
    Interleave = "interleave",
    /// `split_k(k, 2)`.
    SplitK = "split_k",
    /// `split_k(k, 2; atomic)`.
    SplitKAtomic = "split_k-atomic",
    /// `split_k(k, 2; cluster)`.
    SplitKCluster = "split_k-cluster",
    /// `reduce(v: lane)`.
    ReduceLane = "reduce-lane",
    /// `reduce(v: warp)`.
    ReduceWarp = "reduce-warp",
    /// `reduce(v: cta)`.
    ReduceCta = "reduce-cta",
    /// `bind(i -> block.x)`.
    BindBlock = "bind-block",
    /// `bind(i -> warpgroup.x)`.
    BindWarpgroup = "bind-warpgroup",
    /// `bind(i -> warp.x)`.
    BindWarp = "bind-warp",
    /// `bind(i -> lane.x)`.
    BindLane = "bind-lane",
    /// `bind(i -> thread.x)`.
    BindThread = "bind-thread",
    /// `bind(i -> lane.y ^ lane.x)`.
    BindXor = "bind-xor",
    /// `unroll(i)`.
    Unroll = "unroll",
    /// `serpentine(i)`.
    Serpentine = "serpentine",
    /// `vectorize(i)`.
    Vectorize = "vectorize",
    /// `exchange(y)`.
    Exchange = "exchange",
    /// `cache(x: evict_first)`.
    Cache = "cache",
    /// `produce(k: warp)`.
    ProduceWarp = "produce-warp",
    /// `produce(k: warpgroup)`.
    ProduceWarpgroup = "produce-warpgroup",
    /// `arrive(k: thread)`.
    Arrive = "arrive",
    /// `issue(v: overwrite)`.
    Overwrite = "issue-overwrite",
    /// `issue(v: in_flight(1))`.
    InFlight = "issue-in_flight",
    /// `registers(24, 240)`.
    Registers = "registers",
    /// `persistent(1)`.
    Persistent = "persistent",
    /// `pingpong(2)`.
    Pingpong = "pingpong",
    /// `alternate(k)`.
    Alternate = "alternate",
    /// `cluster(i: 2)`.
    Cluster = "cluster",
    /// `segment(i: 12)`.
    Segment = "segment",
    /// `occupancy(2)`.
    Occupancy = "occupancy",
    /// `order(col)`.
    Order = "order",
    /// `assemble(1)`.
    Assemble = "assemble",
    /// `launch(dependent)`.
    Launch = "launch",
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Kind::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| format!("`{text}` is no kind of directive, such as `produce-warp`"))
    }
}

/// The kinds that a schedule has.
pub fn kinds(schedule: &Schedule) -> BTreeSet<Kind> {
    schedule.directives.iter().flat_map(|d| kinds_of(d, schedule)).collect()
}

/// The kinds that a directive of a schedule is.
fn kinds_of(directive: &Directive, schedule: &Schedule) -> Vec<Kind> {
    let one = match &directive.kind {
        D::Fits { .. } => Kind::Fits,
        D::Multiple { .. } => Kind::Multiple,
        D::Layout { .. } => Kind::Layout,
        D::Tile { .. } => Kind::Tile,
        D::Split { .. } => Kind::Split,
        D::Recompute { .. } => Kind::Recompute,
        D::Fuse { .. } => Kind::Fuse,
        D::TensorCore { atom, swapped, .. } => {
            let kind = if atom.row().scope == Scope::Warpgroup { Kind::Wgmma } else { Kind::Mma };
            return if *swapped { vec![kind, Kind::Swapped] } else { vec![kind] };
        }
        D::Reorder { .. } => Kind::Reorder,
        D::Stage { at, transposed, via, vector, .. } => {
            let wide = vector.is_some_and(|bytes| bytes > 4);
            let kind = match (via, at) {
                (Via::Stmatrix, _) => Kind::CollectMatrices,
                (Via::Tma, None) => Kind::Collect,
                (Via::Tma, Some(_)) => Kind::StageTma,
                (Via::CpAsync, _) if wide => Kind::StageAsyncVector,
                (Via::CpAsync, _) => Kind::StageAsync,
                (Via::Plain, None) => Kind::StageValue,
                (Via::Plain, _) if vector.is_some() => Kind::StageVector,
                (Via::Plain, _) => Kind::StagePlain,
            };
            return if *transposed { vec![kind, Kind::StageTransposed] } else { vec![kind] };
        }
        D::Fragment { .. } => Kind::Fragment,
        D::Pad { .. } => Kind::Pad,
        D::Swizzle { .. } => Kind::Swizzle,
        D::Pipeline { digit, .. } => {
            let held = |d: &Directive| matches!(&d.kind, D::Fragment { at, .. } if at == digit);
            if schedule.directives.iter().any(held) { Kind::PipelineRegisters } else { Kind::Pipeline }
        }
        D::Interleave { .. } => Kind::Interleave,
        D::SplitK { across, .. } => match across {
            Across::Workspace => Kind::SplitK,
            Across::Atomic => Kind::SplitKAtomic,
            Across::Cluster => Kind::SplitKCluster,
        },
        D::Reduce { level, .. } => match level {
            Level::Lane => Kind::ReduceLane,
            Level::Warp => Kind::ReduceWarp,
            Level::Cta => Kind::ReduceCta,
        },
        D::Bind { unit, xor, .. } => {
            let kind = match unit {
                Unit::Block => Kind::BindBlock,
                Unit::Warpgroup => Kind::BindWarpgroup,
                Unit::Warp => Kind::BindWarp,
                Unit::Lane => Kind::BindLane,
                Unit::Thread => Kind::BindThread,
            };
            return if xor.is_some() { vec![kind, Kind::BindXor] } else { vec![kind] };
        }
        D::Unroll { .. } => Kind::Unroll,
        D::Serpentine { .. } => Kind::Serpentine,
        D::Vectorize { .. } => Kind::Vectorize,
        D::Exchange { .. } => Kind::Exchange,
        D::Cache { .. } => Kind::Cache,
        D::Produce { unit: Unit::Warpgroup, .. } => Kind::ProduceWarpgroup,
        D::Produce { .. } => Kind::ProduceWarp,
        D::Arrive { .. } => Kind::Arrive,
        D::Issue { overwrite, in_flight, .. } => {
            let both = [(*overwrite, Kind::Overwrite), (*in_flight > 0, Kind::InFlight)];
            return both.into_iter().filter(|(has, _)| *has).map(|(_, kind)| kind).collect();
        }
        D::Registers { .. } => Kind::Registers,
        D::Persistent { .. } => Kind::Persistent,
        D::Pingpong { .. } => Kind::Pingpong,
        D::Alternate { .. } => Kind::Alternate,
        D::Cluster { .. } => Kind::Cluster,
        D::Segment { .. } => Kind::Segment,
        D::Occupancy { .. } => Kind::Occupancy,
        D::Order { .. } => Kind::Order,
        D::Assemble { .. } => Kind::Assemble,
        D::Launch { .. } => Kind::Launch,
    };
    vec![one]
}
