//! How CTAs add up what each has summed.

use tile_dsl::{dtype::DType, testing};
#[test]
fn an_access_is_as_wide_as_slots_and_16_bytes_allow() {
    for (slots, dtype, width) in [
        (1, DType::F32, 1),
        (6, DType::F32, 2),
        (64, DType::F32, 4),
        (64, DType::BF16, 8),
        (12, DType::BF16, 4),
        (7, DType::BF16, 1),
    ] {
        assert_eq!(testing::access_width(slots, dtype), width, "{slots} {dtype}");
    }
}

#[test]
fn batches_are_of_one_size_and_of_whole_accesses() {
    for (slots, others) in (1..=96).flat_map(|slots| [(slots, 1), (slots, 3)]) {
        for (width, free) in [(1, 0), (1, 40), (4, 10), (4, 200)] {
            if slots % width != 0 {
                continue;
            }
            let (batch, in_flight) = testing::batch(width, free, slots, others);
            assert_eq!(batch % width, 0, "{width} {free} {slots} {others}");
            assert!((1..slots + width).contains(&batch), "{width} {free} {slots} {others}: {batch}");
            // No more than are meant to be on their way, but for what completes an access.
            let most = in_flight.div_ceil(others);
            assert!(batch < most + width, "{width} {free} {slots} {others}: {batch}");
        }
    }
}
