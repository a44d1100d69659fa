//! How many CTAs a device can hold at once: the limit of grids whose CTAs wait for one another.

use crate::kernel::Kernel;
use crate::launch::Launch;

/// Threads, CTAs and bytes of shared memory of one SM (CUDA programming guide, technical specifications by compute
/// capability).
fn per_sm(sm: u32) -> (u32, u32, u32) {
    match sm {
        0..75 => (2048, 32, 96 * 1024),
        75 => (1024, 16, 64 * 1024),
        80 => (2048, 32, 164 * 1024),
        86 => (1536, 16, 100 * 1024),
        87 | 88 => (1536, 16, 164 * 1024),
        89 => (1536, 24, 100 * 1024),
        120.. => (1536, 24, 100 * 1024),
        _ => (2048, 32, 228 * 1024),
    }
}

/// Bytes of shared memory that the system takes for each CTA.
fn reserved(sm: u32) -> u32 {
    if sm >= 80 { 1024 } else { 0 }
}

/// Clusters that can be resident at once; without clusters, CTAs. At most so many: registers, which the PTX does not tell,
/// and the SMs of one cluster may leave fewer.
pub(crate) fn clusters(k: &Kernel, sm: u32, l: &Launch<'_>, per_cluster: u64) -> u64 {
    let (threads, ctas, shared) = per_sm(sm);
    let block = l.block.iter().product::<u32>().next_multiple_of(32).max(32);
    let bytes = k.dynamic.0.max(k.info.static_shared).saturating_add(l.dynamic_shared);
    let each = (threads / block).min(ctas).min(shared / bytes.saturating_add(reserved(sm)).max(1)).max(1);
    (each as u64 * l.sm_count as u64 / per_cluster).max(1)
}

/// In words: so many of the grid's `total` clusters, of `per_cluster` CTAs each, are resident.
pub(crate) fn limit(resident: u64, total: u64, per_cluster: u64, sm_count: u32) -> String {
    format!(
        "at most {} of the grid's {} CTAs are resident at once on {sm_count} SMs, and the others start when those end: \
         CTAs that wait for all of the grid never go on; launch no more than fit, or raise `sm_count`",
        resident * per_cluster,
        total * per_cluster
    )
}
