//! Attention to pages, against attention to the same keys side by side.

use crate::{attention::Heads, each_type, support::*};
use tilewright::Float;
use tilewright_kernels::paged_attention;

/// Sequences, heads of queries, heads of keys, pages of a sequence, elements of a head.
fn sequences<T: Float>([b, h, g, l, d]: [usize; 5], len: &[i32]) {
    let pages = b * l + 1;
    // From the last page to the second: the first is nobody's.
    let page: Vec<i32> = (0..b * l).map(|n| (pages - 1 - n) as i32).collect();
    let [q, k, v] = [b * h * d, pages * 16 * g * d, pages * 16 * g * d];
    let (q, k, v) = (normal::<T>(1, q), normal::<T>(2, k), normal::<T>(3, v));
    // What lies behind the end of a sequence is nowhere.
    let named: Vec<i32> = page
        .iter()
        .enumerate()
        .map(|(n, page)| if n % l.max(1) * 16 < len[n / l.max(1)] as usize { *page } else { -1 })
        .collect();
    let mut o = poisoned::<T>(&[b, h, d]);
    let scale = 1.0 / (d.max(1) as f32).sqrt();
    let caches = [&k, &v].map(|data| buffer(data, &[pages, 16, g, d]));
    paged_attention(
        &stream(),
        &buffer(&q, &[b, h, d]),
        [&caches[0], &caches[1]],
        &buffer(&named, &[b, l]),
        &buffer(len, &[b]),
        scale,
        &mut o,
    )
    .unwrap();
    let exact = (0..b).flat_map(|n| {
        let dense = |of: &[T]| -> Vec<T> {
            let row = |head: usize, at: usize| {
                &of[((page[n * l + at / 16] as usize * 16 + at % 16) * g + head) * d..][..d]
            };
            (0..g).flat_map(|head| (0..len[n] as usize).flat_map(move |at| row(head, at))).copied().collect()
        };
        let own = q[n * h * d..][..h * d].to_vec();
        Heads::of([1, h, g, 1, len[n] as usize, d], scale, [own, dense(&k), dense(&v)]).exact(false)
    });
    check(&format!("paged attention of {len:?} tokens"), &o, exact);
}

fn pages<T: Float>() {
    sequences::<T>([0, 2, 1, 2, 8], &[]);
    sequences::<T>([1, 1, 1, 1, 1], &[1]);
    sequences::<T>([2, 6, 3, 3, 40], &[37, 0]);
    sequences::<T>([3, 5, 5, 2, 64], &[16, 17, 32]);
    sequences::<T>([1, 8, 1, 4, 128], &[50]);
    sequences::<T>([1, 40, 2, 1, 16], &[9]);
    // Several parts, some of them without a token.
    sequences::<T>([2, 4, 2, 40, 24], &[629, 140]);
    sequences::<T>([2, 3, 1, 0, 8], &[0, 0]);
}

#[test]
fn sequences_in_pages() {
    each_type!(pages);
}
