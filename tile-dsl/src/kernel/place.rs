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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_buffers_of_their_own() {
        assert_eq!(apart(&[(16, 16), (256, 128), (32, 16)]), (vec![256, 0, 272], 304));
        assert_eq!(apart(&[]), (vec![], 0));
    }

    #[test]
    fn buffers_that_may_share_do_where_it_saves() {
        // The third after the others.
        let after = |a: usize, b: usize| a == 2 || b == 2;
        assert_eq!(overlaid(&[(4096, 16), (4096, 16), (6144, 16)], &after), (vec![0, 4096, 0], 8192));
        assert_eq!(overlaid(&[(4096, 16), (512, 16)], &|_, _| true), (vec![0, 4096], 4608));
        assert_eq!(overlaid(&[(4096, 16), (2048, 16)], &|_, _| true), (vec![0, 0], 4096));
        assert_eq!(overlaid(&[(4096, 16), (2048, 16)], &|_, _| false), (vec![0, 4096], 6144));
    }

    #[test]
    fn no_place_is_given_twice() {
        // Every set of sizes under every relation of three buffers.
        for bits in 0..8u32 {
            let may = |a: usize, b: usize| bits >> (a + b - 1) & 1 == 1;
            for sizes in
                [[2048, 4096, 6144], [6144, 2048, 4096], [1024, 1024, 1024], [16, 8192, 5000 / 16 * 16]]
            {
                let buffers: Vec<(u64, u32)> =
                    sizes.iter().zip([16, 128, 16]).map(|(s, a)| (*s, a)).collect();
                let (starts, end) = overlaid(&buffers, &may);
                for a in 0..3 {
                    assert!(starts[a] % u64::from(buffers[a].1) == 0 && starts[a] + sizes[a] <= end);
                    for b in 0..a {
                        let meet = starts[a] < starts[b] + sizes[b] && starts[b] < starts[a] + sizes[a];
                        assert!(!meet || may(a, b), "{starts:?} of {sizes:?} under {bits}");
                    }
                }
                assert!(end <= apart(&buffers).1);
            }
        }
    }
}
