//! Kernels that were compiled ahead of time.

use crate::support::normal;
use tilewright::{Buffer, DType, Device, PtxCache, PtxSource, Variant, aot};
use tilewright_kernels::kernels::{self, bundle, norm, rope};

#[test]
fn launches_take_what_a_bundle_has() {
    let groups = [norm::SCHEDULES, rope::SCHEDULES];
    let made = bundle(&groups, &[DType::F32]).unwrap().variants(&[Variant::General]).compile().unwrap();
    // Six norms, and of the two of rope one with and without gaps.
    assert_eq!(made.kernels, 9);
    assert_eq!(aot::provide(&made.bytes).unwrap(), 9);

    let device = Device::sim().with_cache(PtxCache::disabled());
    let numbers = |seed, shape: &[usize]| {
        let data = normal::<f32>(seed, shape.iter().product());
        Buffer::from_slice(&device, &data, shape).unwrap()
    };
    let (x, weight, mut y) = (numbers(1, &[2, 5]), numbers(2, &[5]), numbers(3, &[2, 5]));
    let launch = kernels::norm::rms_norm(&x, &weight, &mut y, 0.0).schedule(norm::rms_warp);
    assert_eq!(launch.run().unwrap().source, Some(PtxSource::AheadOfTime));

    let (cos, sin, mut heads) = (numbers(1, &[2, 3]), numbers(2, &[2, 3]), numbers(3, &[2, 2, 6]));
    let position = Buffer::from_slice(&device, &[0, 1], &[2]).unwrap();
    let (mut a, mut b) = heads.split_at_mut(2, 3).unwrap();
    let launch = kernels::rope::rope(&position, &cos, &sin, &mut a, &mut b).schedule(rope::halves);
    assert_eq!(launch.run().unwrap().source, Some(PtxSource::AheadOfTime));
}

#[test]
fn types_that_no_schedule_admits_give_no_bundle() {
    assert!(bundle(&kernels::ALL, &[DType::F8]).is_none());
    assert!(bundle(&[], &[DType::F32]).is_none());
}
