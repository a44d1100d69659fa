//! Special registers (PTX ISA §10).

use crate::kernel::Special;

const CLOCKS: [&str; 6] = ["clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"];

/// Whether `%name` is a special register that can be read here.
pub(crate) fn is_special(name: &str) -> bool {
    CLOCKS.contains(&name) || fixed(name, "x").is_some() || fixed(name, "").is_some()
}

/// For clocks: (64 bits wide, high half).
pub(crate) fn clock(name: &str) -> Option<(bool, bool)> {
    CLOCKS.contains(&name).then(|| (matches!(name, "clock64" | "globaltimer"), name.ends_with("_hi")))
}

/// A register whose value is fixed for the life of a warp.
pub(crate) fn fixed(name: &str, comp: &str) -> Option<Special> {
    let c = match comp {
        "x" => 0u8,
        "y" => 1,
        "z" => 2,
        // The fourth component is always zero.
        "w" => 3,
        _ => {
            return Some(match name {
                "laneid" => Special::LaneId,
                "warpid" => Special::WarpId,
                "nwarpid" => Special::NWarpId,
                "smid" => Special::SmId,
                "nsmid" => Special::NSmId,
                "gridid" => Special::GridId,
                "lanemask_eq" => Special::LaneMask(0),
                "lanemask_le" => Special::LaneMask(1),
                "lanemask_lt" => Special::LaneMask(2),
                "lanemask_ge" => Special::LaneMask(3),
                "lanemask_gt" => Special::LaneMask(4),
                "cluster_ctarank" => Special::ClusterCtarank,
                "cluster_nctarank" => Special::ClusterNctarank,
                "dynamic_smem_size" => Special::DynamicSmem,
                "total_smem_size" | "aggr_smem_size" => Special::TotalSmem,
                "is_explicit_cluster" => Special::IsExplicitCluster,
                "reserved_smem_offset_begin" | "reserved_smem_offset_0" => Special::ReservedSmem(0),
                "reserved_smem_offset_1" => Special::ReservedSmem(0),
                "reserved_smem_offset_end" => Special::ReservedSmem(1),
                "reserved_smem_offset_cap" => Special::ReservedSmem(2),
                "current_graph_exec" => Special::Zero,
                _ => match name.strip_prefix("envreg").map(str::parse) {
                    Some(Ok(n @ 0..=31)) => Special::EnvReg(n),
                    _ => return None,
                },
            });
        }
    };
    let of = |f: fn(u8) -> Special| Some(if c == 3 { Special::Zero } else { f(c) });
    match name {
        "tid" => of(Special::Tid),
        "ntid" => of(Special::Ntid),
        "ctaid" => of(Special::Ctaid),
        "nctaid" => of(Special::Nctaid),
        "clusterid" => of(Special::ClusterId),
        "nclusterid" => of(Special::NClusterId),
        "cluster_ctaid" => of(Special::ClusterCtaid),
        "cluster_nctaid" => of(Special::ClusterNctaid),
        _ => None,
    }
}
