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
fn one_head_of_keys_has_no_gaps() {
    let made = bundle(&[kernels::heads::SCHEDULES], &[DType::F32]).unwrap();
    let made = made.variants(&[Variant::General]).compile().unwrap();
    // Both schedules of heads with both lists of gaps and without, and `merge_heads` for f32.
    assert_eq!(aot::provide(&made.bytes).unwrap(), 7);

    let device = Device::sim().with_cache(PtxCache::disabled());
    let zeros = |shape: &[usize]| Buffer::<f32>::zeros(&device, shape).unwrap();
    let at = Buffer::<i32>::zeros(&device, &[1, 1]).unwrap();
    for g in [1, 2] {
        let (qkv, table) = (zeros(&[1, 1, 4 * g, 6]), zeros(&[3, 3]));
        let [mut q, mut k, mut v] = [zeros(&[1, g, 2, 1, 6]), zeros(&[1, g, 3, 6]), zeros(&[1, g, 3, 6])];
        let part = |from: usize, heads: usize, half: usize| {
            qkv.slice(&[0..1, 0..1, from..from + heads, 3 * half..3 * half + 3]).unwrap()
        };
        let queries = [part(0, 2 * g, 0), part(0, 2 * g, 1)];
        let [qa, qb] = queries.each_ref().map(|q| q.reshaped(&[1, 1, g, 2, 3]).unwrap());
        let [ka, kb, va, vb] = [part(2 * g, g, 0), part(2 * g, g, 1), part(3 * g, g, 0), part(3 * g, g, 1)];
        let (mut q_a, mut q_b) = q.split_at_mut(4, 3).unwrap();
        let (mut k_a, mut k_b) = k.split_at_mut(3, 3).unwrap();
        let (mut v_a, mut v_b) = v.split_at_mut(3, 3).unwrap();
        let launch = kernels::heads::rope_append(
            &qa, &qb, &ka, &kb, &va, &vb, &at, &at, &table, &table, &mut q_a, &mut q_b, &mut k_a, &mut k_b,
            &mut v_a, &mut v_b,
        );
        let report = launch.schedule(kernels::heads::halves).run().unwrap();
        assert_eq!(report.source, Some(PtxSource::AheadOfTime), "{g} heads of keys");
    }
}

#[test]
fn types_that_no_schedule_admits_give_no_bundle() {
    assert!(bundle(&kernels::ALL, &[DType::F8]).is_none());
    assert!(bundle(&[], &[DType::F32]).is_none());
}
