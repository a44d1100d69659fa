//! Each schedule of products and of attention in each type: also those that small sizes do not choose.

use crate::{attention::Heads, each_type, linear::Layer};
use tilewright::{DType, Device, Float};
use tilewright_kernels::{choose, kernels};

fn products<T: Float>() {
    for schedule in kernels::linear::SCHEDULES.iter().filter(|s| s.admits(Some(T::DTYPE))) {
        // Whole vectors with ragged tiles; then neither.
        Layer::<T>::new([130, 264, 72]).under(*schedule);
        Layer::<T>::new([9, 11, 13]).under(*schedule);
    }
}

#[test]
fn products_under_each_schedule() {
    each_type!(products);
}

fn heads<T: Float>() {
    for schedule in kernels::attention::SCHEDULES.iter().filter(|s| s.admits(Some(T::DTYPE))) {
        Heads::<T>::new([1, 2, 1, 130, 70, 64]).under(*schedule);
    }
}

#[test]
fn attention_under_each_schedule() {
    each_type!(heads);
}

#[test]
fn what_is_chosen() {
    let name = |size| choose::linear(&Device::sim(), DType::BF16, size)[0].name();
    assert_eq!(name([1, 4096, 4096]), "row_wide");
    assert_eq!(name([8, 4096, 4096]), "rows");
    assert_eq!(name([64, 4096, 4096]), "mma_flat");
    assert_eq!(name([512, 512, 4096]), "mma_flat");
    assert_eq!(name([384, 4096, 4096]), "mma");
    assert_eq!(name([4096, 4096, 4096]), "wgmma");
    assert_eq!(name([4096, 4096, 4095]), "mma");
    let name = |size| choose::linear(&Device::sim(), DType::F32, size)[1].name();
    assert_eq!(name([16, 4096, 4096]), "rows_bias");
    assert_eq!(name([128, 4096, 4096]), "tiled_split_bias");
    assert_eq!(name([4096, 4096, 4096]), "tiled_bias");
    let name =
        |queries, head| choose::attention(&Device::sim(), DType::F16, [queries, head]).map(|s| s.name());
    assert_eq!(name(64, 64), ["wgmma_narrow", "causal_wgmma_narrow"]);
    assert_eq!(name(4096, 128), ["wgmma", "causal_wgmma"]);
    assert_eq!((name(63, 64)[1], name(4096, 65)[1]), ("causal_narrow", "causal_mma"));
    assert_eq!(choose::rms_norm(DType::F32, 8193).name(), "rms_long");

    let fused = |m| choose::norm_linear(&Device::sim(), DType::BF16, m).map(|schedule| schedule.name());
    assert_eq!((fused(1), fused(8), fused(9)), (Some("norm_row_wide_early"), Some("norm_rows_early"), None));
    assert_eq!(
        choose::norm_swiglu(&Device::sim(), DType::F32, 16).map(|schedule| schedule.name()),
        Some("swiglu_rows_early")
    );
    let name = |size| choose::linear_add(&Device::sim(), DType::F16, size).name();
    assert_eq!((name([1, 2048, 8192]), name([2048, 2048, 8192])), ("add_row_wide_early", "add_wgmma"));
    assert_eq!((choose::argmax_parts(1, 128_256), choose::argmax_parts(4096, 128_256)), (31, 1));
    assert_eq!(choose::decode(&Device::sim(), DType::F16, 64)[0].name(), "parts_narrow_early");

    let name = |dtype, rows| choose::experts(&Device::sim(), dtype, rows)[0].name();
    let rows = |slots| choose::block_rows(slots, 64);
    assert_eq!((name(DType::BF16, rows(8192)), rows(8192)), ("two_warpgroups", 128));
    assert_eq!((name(DType::BF16, rows(2048)), rows(2048)), ("wgmma", 64));
    assert_eq!((name(DType::BF16, rows(8)), rows(8)), ("mma_early", 16));
    assert_eq!(name(DType::F32, 128), "tiled");
    let copied = |slots, n| {
        choose::experts_in_blocks(&Device::sim(), DType::F16, [slots, 64, 128], [4096, n]).is_some()
    };
    assert_eq!([copied(16_384, 2048), copied(16_383, 2048), copied(16_384, 2047)], [true, false, false]);
    assert_eq!((choose::paged_parts(16, 8, 16384), choose::paged_parts(1, 8, 500)), (4, 3));
}
