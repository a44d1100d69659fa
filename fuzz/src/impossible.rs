//! Pairs of directives that no schedule has, and why: what the engine refuses, in its words, and what was never found.
//!
//! The fuzzer draws all others on purpose. `fuzz/tests/programs/pairs.rs` tries each rule: no attempt is granted, and the engine says what the
//! rule says that it says.

use crate::{pairs::TYPES, wish::Wish};
use std::sync::LazyLock;
use tile_dsl::{dtype::DType, engine::testing::Kind, program::Variant};

/// Why a pair is in no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The engine refuses it, and this is a part of its message.
    Refused(&'static str),
    /// No attempt found one, though nothing says that there is none.
    NeverFound(&'static str),
}

impl Why {
    /// What the table says.
    pub fn text(self) -> String {
        match self {
            Why::Refused(says) => format!("refused: \"{says}\""),
            Why::NeverFound(why) => format!("never found: {why}"),
        }
    }
}

/// Each of some kinds with each of others.
pub struct Rule {
    /// Some kinds.
    pub some: &'static [Kind],
    /// Others.
    pub others: &'static [Kind],
    /// Why no schedule has both.
    pub why: Why,
}

/// Kinds of schedules for an atom.
const MATRIX: &[Kind] = &[
    Kind::Mma,
    Kind::Wgmma,
    Kind::Swapped,
    Kind::BindWarpgroup,
    Kind::Exchange,
    Kind::CollectMatrices,
    Kind::Overwrite,
    Kind::InFlight,
    Kind::Skew,
];
const SPLITS: &[Kind] = &[Kind::SplitK, Kind::SplitKAtomic, Kind::SplitKCluster];
const COLLECTED: &[Kind] = &[Kind::Collect, Kind::CollectMatrices];

/// Kinds of schedules for `wgmma`.
const WARPGROUP: &[Kind] = &[Kind::Wgmma, Kind::BindWarpgroup, Kind::Overwrite, Kind::InFlight, Kind::Skew];

const fn never(some: &'static [Kind], others: &'static [Kind], why: &'static str) -> Rule {
    Rule { some, others, why: Why::NeverFound(why) }
}

const fn refused(some: &'static [Kind], others: &'static [Kind], says: &'static str) -> Rule {
    Rule { some, others, why: Why::Refused(says) }
}

/// All of them.
pub const RULES: &[Rule] = &[
    refused(
        &[Kind::BindThread],
        &[Kind::BindLane, Kind::BindWarp, Kind::ReduceLane, Kind::ReduceWarp],
        "a kernel addresses its threads either as",
    ),
    refused(&[Kind::BindThread], MATRIX, "a kernel addresses its threads either as"),
    refused(&[Kind::BindLane], MATRIX, "two loops cannot share a unit dimension"),
    refused(SPLITS, SPLITS, "the parts of one reduction come together once a launch"),
    refused(SPLITS, &[Kind::Persistent, Kind::Pingpong, Kind::Alternate], "none can take another tile"),
    refused(SPLITS, COLLECTED, "and no tile is collected"),
    refused(SPLITS, &[Kind::Exchange], "which lanes do not exchange"),
    refused(SPLITS, &[Kind::Segment], "of tiles of one size"),
    refused(SPLITS, &[Kind::Overwrite], "CTAs share the reduction, and a CTA may have no steps of it"),
    refused(
        &[Kind::SplitKCluster],
        &[Kind::Cluster],
        "a kernel is launched with clusters of one shape, and theirs is along the sum",
    ),
    refused(COLLECTED, &[Kind::Segment], "is collected for whole tiles"),
    refused(&[Kind::Cluster], &[Kind::Segment], "CTAs of a cluster work on tiles of one size"),
    refused(&[Kind::ProduceWarp], &[Kind::ProduceWarpgroup], "one thread makes the copies of all loops"),
    refused(&[Kind::ProduceWarp], &[Kind::Registers], "no warpgroup copies"),
    refused(
        &[Kind::StagePlain, Kind::StageVector, Kind::StageAsync, Kind::StageAsyncVector, Kind::Pad],
        &[Kind::Pingpong],
        "would need a copy of its own",
    ),
    refused(&[Kind::Skew], &[Kind::Pingpong], "a turn ends with the products of a step"),
    refused(&[Kind::Skew], &[Kind::Alternate], "run backwards for every second tile"),
    refused(&[Kind::Skew], &[Kind::InFlight], "cannot stay in flight across steps"),
    refused(&[Kind::Freeze], &[Kind::Pingpong], "one of them may compute its tile twice"),
    refused(&[Kind::Freeze], &[Kind::SplitK, Kind::SplitKCluster], "is carried from one tile of"),
    refused(&[Kind::Freeze], &[Kind::SplitKAtomic], "what is stored is no sum"),
    never(&[Kind::Freeze], &[Kind::Cluster], "a running maximum in a kernel of two program axes"),
    never(
        &[Kind::Freeze],
        &[Kind::Exchange, Kind::CollectMatrices],
        "two products of a softmax, the second of which is stored in 16 bits",
    ),
    never(&[Kind::Freeze], &[Kind::Fuse], "a softmax whose statements have loops that match by chance"),
    never(&[Kind::Freeze], &[Kind::Mma], "both products of a softmax by `mma`: a wish makes one of them"),
    never(
        &[Kind::Skew],
        &[
            Kind::Swapped,
            Kind::Fuse,
            Kind::SplitK,
            Kind::SplitKAtomic,
            Kind::SplitKCluster,
            Kind::BindWarp,
            Kind::BindXor,
        ],
        "the first of two products of a step, in other loops than the second",
    ),
    never(
        &[Kind::Skew],
        &[
            Kind::StagePlain,
            Kind::StageVector,
            Kind::StageAsync,
            Kind::StageAsyncVector,
            Kind::StageTransposed,
            Kind::Pad,
            Kind::ReduceWarp,
            Kind::Segment,
        ],
        "copies and reductions that neither product of a step needs",
    ),
    never(
        &[Kind::Skew],
        &[Kind::Exchange, Kind::CollectMatrices],
        "two products of a step, the second of which is stored in 16 bits",
    ),
    never(
        &[Kind::Mma],
        &[Kind::Wgmma, Kind::Overwrite, Kind::InFlight, Kind::Skew],
        "two products of one kernel by different atoms",
    ),
    never(
        WARPGROUP,
        &[Kind::Fragment, Kind::PipelineRegisters, Kind::Interleave],
        "`wgmma` reads its factors from shared memory by itself; fragments of other tensors beside it",
    ),
    never(&[Kind::ReduceLane], &[Kind::ReduceWarp], "two reductions of one kernel, by lanes and by warps"),
    never(
        &[Kind::BindXor],
        &[Kind::ReduceLane, Kind::ReduceWarp],
        "parts that are combined across units which change places",
    ),
    never(
        &[Kind::ReduceWarp],
        &[Kind::CollectMatrices, Kind::Exchange, Kind::Registers, Kind::Pingpong],
        "a reduction across warps in a kernel of one more than its product",
    ),
    never(&[Kind::ReduceCta], &[Kind::Exchange], "a reduction in a kernel of one more than its product"),
    never(
        &[Kind::BindXor],
        &[Kind::InFlight, Kind::Registers],
        "warps that change places beside a producer's",
    ),
    never(
        &[Kind::SplitKAtomic],
        &[Kind::Recompute, Kind::Interleave],
        "a kernel that stores its one sum as it is has nothing to compute twice",
    ),
    never(&[Kind::Swapped], &[Kind::Interleave], "a pipeline of registers of transposed products"),
    never(&[Kind::StageAsync], &[Kind::Cluster], "copies of 4 bytes beside those that a cluster shares"),
    never(&[Kind::CollectMatrices], &[Kind::Exchange], "two stored tensors of 16 bits"),
];

/// Why a schedule does not have both.
pub fn pair(a: Kind, b: Kind) -> Option<Why> {
    let meets = |rule: &&Rule| {
        rule.some.contains(&a) && rule.others.contains(&b)
            || rule.some.contains(&b) && rule.others.contains(&a)
    };
    RULES.iter().find(meets).map(|rule| rule.why)
}

/// Why a directive is in no schedule of this variant that has a tensor of this type.
pub fn cell(_kind: Kind, _variant: Variant, _dtype: DType) -> Option<Why> {
    None
}

/// What is worth a wish: what can be legal, and what was never found.
pub fn wishes() -> Vec<Wish> {
    let never = Wish::pairs().filter(|(a, b)| matches!(pair(*a, *b), Some(Why::NeverFound(_))));
    possible().iter().copied().chain(never.map(|(a, b)| Wish::Pair(a, b))).collect()
}

/// What can be legal.
pub fn possible() -> &'static [Wish] {
    static POSSIBLE: LazyLock<Vec<Wish>> = LazyLock::new(|| {
        let pairs = Wish::pairs().filter(|(a, b)| pair(*a, *b).is_none()).map(|(a, b)| Wish::Pair(a, b));
        let typed = TYPES.into_iter().flat_map(|t| Kind::ALL.iter().map(move |k| Wish::Typed(*k, t)));
        pairs.chain(typed).collect()
    });
    &POSSIBLE
}
