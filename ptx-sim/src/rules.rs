//! What each kind of finding stands on: sections of the PTX ISA (numbers of version 9).

use crate::findings::FindingKind;

impl FindingKind {
    /// The rule that is broken: a section of the PTX ISA; empty where no single one says it.
    pub fn rule(&self) -> &'static str {
        use FindingKind as K;
        match self {
            K::OutOfBounds | K::SharedOutOfBounds | K::LocalOutOfBounds | K::BadAddress => {
                "PTX ISA §6.4.1, addresses as operands"
            }
            K::Misaligned => "PTX ISA §6.4.1, addresses as operands: natural alignment",
            K::UninitializedShared => "PTX ISA §5.1.7, shared state space",
            K::SharedRace(_) | K::GlobalRace(_) => {
                "PTX ISA §8.7.1, conflict and data-races; §8.9.5, causality order"
            }
            K::UnorderedVolatile(_) => "PTX ISA §8.4, operation types: volatile is as strong as relaxed",
            K::DivergentAligned | K::BarrierCount => "PTX ISA §9.7.13.1, bar and barrier",
            K::BadMemberMask => "PTX ISA §9.7.13.2, membermask of bar.warp.sync and other .sync instructions",
            K::AsyncRace => "PTX ISA §9.7.9.25, completion of asynchronous copies; §8.9.5, causality order",
            K::MissingProxyFence => "PTX ISA §8.6, proxies",
            K::WgmmaFence => "PTX ISA §9.7.15.7, wgmma.fence, commit_group and wait_group",
            K::Mbarrier => "PTX ISA §9.7.13.15, mbarrier",
            K::RegisterBudget => "PTX ISA §9.7.19.5, setmaxnreg",
            K::BeforeGridWait => "PTX ISA §9.7.13.13, griddepcontrol",
            K::ClusterBarrier => "PTX ISA §9.7.13.3, barrier.cluster",
            _ => "",
        }
    }

    /// `text` with the rule.
    pub(crate) fn cite(&self, text: String) -> String {
        match self.rule() {
            "" => text,
            rule => format!("{text} [{rule}]"),
        }
    }
}
