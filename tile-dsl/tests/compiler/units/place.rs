//! Places of buffers.

use tile_dsl::kernel::place::{apart, overlaid};
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
        for sizes in [[2048, 4096, 6144], [6144, 2048, 4096], [1024, 1024, 1024], [16, 8192, 5000 / 16 * 16]]
        {
            let buffers: Vec<(u64, u32)> = sizes.iter().zip([16, 128, 16]).map(|(s, a)| (*s, a)).collect();
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
