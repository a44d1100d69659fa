//! Where shared buffers lie.

/// Bytes that sharing has to save: what it takes is a barrier, and less than this seldom lets another CTA in.
const WORTH: u64 = 1024;

/// Bytes that a buffer takes: whole accesses of up to 16 bytes, as far as it is aligned, since loads may be widened.
pub fn whole(bytes: u64, align: u32) -> u64 {
    bytes.checked_next_multiple_of(align.clamp(1, 16).into()).unwrap_or(bytes)
}

/// The byte at which each buffer starts, and the bytes of all, where each has bytes of its own. Buffers are given by bytes
/// and alignment. The most aligned come first, so that nothing is lost between.
pub fn apart(buffers: &[(u64, u32)]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|n| std::cmp::Reverse(buffers[*n].1));
    let (mut starts, mut end) = (vec![0; buffers.len()], 0u64);
    for n in order {
        let (bytes, align) = buffers[n];
        starts[n] = next_multiple(end, align);
        end = starts[n].saturating_add(bytes);
    }
    (starts, end)
}

/// The same where two buffers may lie in the same bytes if `may_share` says so; [`apart`] where that saves too little.
///
/// First fit, the most aligned and the largest first: each goes where it takes the fewest bytes more, and of those
/// places where it shares bytes with the fewest others.
pub fn overlaid(buffers: &[(u64, u32)], may_share: &dyn Fn(usize, usize) -> bool) -> (Vec<u64>, u64) {
    let plain = apart(buffers);
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|n| std::cmp::Reverse((buffers[*n].1, buffers[*n].0)));
    let (mut starts, mut end) = (vec![0u64; buffers.len()], 0u64);
    for (n, own) in order.iter().enumerate() {
        let (bytes, align) = buffers[*own];
        let placed = &order[..n];
        let touches = |start: u64, other: usize| {
            start < starts[other].saturating_add(buffers[other].0)
                && starts[other] < start.saturating_add(bytes)
        };
        let ends = placed.iter().map(|p| next_multiple(starts[*p].saturating_add(buffers[*p].0), align));
        let place = std::iter::once(0)
            .chain(ends)
            .filter_map(|start| {
                let touched: Vec<usize> = placed.iter().copied().filter(|p| touches(start, *p)).collect();
                let more = start.saturating_add(bytes).saturating_sub(end);
                let worth = if more < WORTH { 0 } else { more };
                touched.iter().all(|p| may_share(*own, *p)).then_some((worth, touched.len(), more, start))
            })
            .min();
        // After all of them there is room.
        let start = place.map_or(end, |(.., start)| start);
        starts[*own] = start;
        end = end.max(start.saturating_add(bytes));
    }
    if end.saturating_add(WORTH) <= plain.1 { (starts, end) } else { plain }
}

fn next_multiple(at: u64, align: u32) -> u64 {
    at.checked_next_multiple_of(align.max(1).into()).unwrap_or(at)
}
