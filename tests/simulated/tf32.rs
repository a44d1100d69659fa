//! Products of f32 rounded to tf32 by warpgroups: the instruction cuts off what tf32 lacks, and copies round.

use crate::{product, products, support};

use product::{matmul_tf32, tf32_best, tf32_large_tile, tf32_pipelined, tf32_two_warpgroups, tf32_wgmma};
use products::{Factors, count, devices, simulators};
use support::Case;
use tile_dsl::op::tf32;
use tilewright::{DType, prelude::*};

const RUNGS: [&dyn AnySchedule; 5] =
    [&tf32_wgmma, &tf32_large_tile, &tf32_pipelined, &tf32_two_warpgroups, &tf32_best];

/// Other ways for the operands to lie.
mod layouts {
    use super::product::matmul_tf32;
    use tilewright::prelude::*;

    schedule! {
        /// Rows of both run along k in memory, too.
        pub columns on sm_90a for matmul_tf32<f32> {
            layout(b: col);
            tile(i = 64, j = 40, k = 16);
            tensor_core(acc: wgmma(64, 40));
            stage(a at k: shared, vector(16));
            stage(b at k: shared, transposed, vector(16));
            swizzle(a: 64, b: 64);
            pipeline(k, 2);
        }
        pub span32 = columns {
            tile(k = 8);
            swizzle(a: 32, b: 32);
            pipeline(k, 4);
        }
        /// Rows longer than the span, in panels; both are turned.
        pub panels on sm_90a for matmul_tf32<f32> {
            layout(a: col);
            tile(i = 64, j = 64, k = 64);
            tensor_core(acc: wgmma(64, 64));
            stage(a at k: shared, vector(8));
            stage(b at k: shared, transposed, vector(16));
            swizzle(a: 128, b: 64);
        }
    }
    pub const ALL: &[&dyn AnySchedule] = schedules![columns, span32, panels];
}

/// PTX of a schedule.
fn ptx(schedule: &dyn AnySchedule) -> String {
    products::ptx(schedule, DType::F32)
}

#[test]
fn copies_round_and_products_do_not() {
    let rung = ptx(&tf32_wgmma);
    assert_eq!(count(&rung, "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32"), 4);
    // 64×32 elements of each operand, of 128 threads.
    assert_eq!(count(&rung, "cvt.rna.tf32.f32"), 32);
    assert!(rung.contains("fence.proxy.async"), "{rung}");
    let rung = ptx(&tf32_best);
    assert!(rung.contains("m64n256k8.f32.tf32.tf32") && rung.contains(".reqntid 256"));
    for schedule in RUNGS {
        assert!(!ptx(schedule).contains("cp.async"), "{}", schedule.name());
    }
}

/// Multiples of 2⁻¹³ around one whose rounding to tf32 goes up, goes down, or is a tie, which goes away from zero: what is cut off would
/// show in the sum.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let at = |n: usize| (n * 7 + n / 11 * 3 + seed * 5) % 11;
    (0..count)
        .map(|n| (at(n) as f32 - 5.0) * (1.0 + [1.0, 3.0, 2.0][n % 3] * 2f32.powi(-11 - (n % 2) as i32)))
        .collect()
}

fn check_on(device: &Device, schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    let factors = Factors::new(size, numbers);
    let (a, b) = factors.buffers(device, |x| x, Layout::RowMajor);
    let what = format!("{}, seed {seed}", schedule.name());
    factors.check(
        device,
        &what,
        |c| matmul_tf32(&a, &b, c).schedule_dyn(schedule).run(),
        |i, j, found: f32| {
            let products = factors.pairs(i, j).map(|(a, b)| f64::from(tf32(a)) * f64::from(tf32(b)));
            let (sum, sizes) = products.fold((0.0, 0.0), |(s, m), p| (s + p, m + p.abs()));
            let error = (f64::from(found) - sum).abs();
            // An element that was cut off, not rounded, is off by 2⁻¹¹ of itself and more.
            let bound = sizes * (size[2] + 2) as f64 * 2f64.powi(-24);
            if error <= bound { Ok(()) } else { Err(format!("{error} > {bound}")) }
        },
    );
}

fn check(schedule: &dyn AnySchedule, size: [usize; 3], seed: u64) {
    devices(seed).iter().for_each(|device| check_on(device, schedule, size, seed));
}

/// None, one, as many as stages, one more; whole tiles and tails; rows that vectors do not divide.
#[test]
fn every_trip_count_and_tail_is_right() {
    for (seed, k) in (1..).zip([0, 1, 8, 32, 33, 64, 100, 160]) {
        for schedule in RUNGS {
            check(schedule, [72, 136, k], seed);
        }
    }
}

/// One element, none, a tile and one more and one less.
#[test]
fn every_size_is_right() {
    for (seed, size) in [[1, 1, 1], [0, 5, 64], [5, 0, 64], [127, 255, 31], [128, 256, 32], [129, 257, 33]]
        .into_iter()
        .enumerate()
    {
        for schedule in RUNGS {
            check(schedule, size, seed as u64);
        }
    }
}

/// Neither the order of warps nor when products complete decides anything.
#[test]
fn seeds_agree() {
    for (seed, device) in simulators(0..10) {
        for schedule in RUNGS {
            check_on(&device, schedule, [72, 136, 68], seed);
        }
    }
}

/// Evaluator, interpreters and the simulator, at random numbers, in every variant; B in columns, too.
#[test]
fn all_executors_agree() {
    let dtype = Some(DType::F32);
    for (m, n, k) in
        [(1, 1, 1), (64, 64, 32), (65, 63, 34), (72, 41, 36), (130, 257, 70), (3, 4, 0), (0, 4, 4)]
    {
        let case = Case::new(matmul_tf32::KERNEL, dtype, &[("M", m), ("N", n), ("K", k)], 11);
        for schedule in RUNGS.iter().chain(layouts::ALL) {
            case.check_nest(*schedule);
            case.check_kernel(*schedule);
            case.check_simulator::<matmul_tf32>(*schedule);
        }
    }
}
