//! Reductions of several values together: the greatest element with its place, and mean with variance. Loops over tiles carry the
//! tuple and combine it with that of a tile, which threads reduce together.

use crate::{random, support};
use tile_dsl::{lower::admit, program::Program};
use tilewright::{AnySchedule, DType, Kernel, prelude::*};

/// Of each row the greatest element and the first place where it stands.
#[tile_kernel]
pub fn argmax<T: Float>(x: &Tensor<T, R, N>, top: &mut Tensor<f32, R>, place: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut best = full::<f32>(f32::NEG_INFINITY, [r]);
    let mut at = zeros::<f32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]).cast::<f32>();
        let m = max(v, n);
        let first = min(select(v == m, n.cast::<f32>(), f32::INFINITY), n);
        at = select(m > best, first, at);
        best = max(best, m);
    }
    store(top, [r], best);
    store(place, [r], at);
}

/// Mean and variance of each row, tile by tile (Chan, Golub, LeVeque 1979).
#[tile_kernel]
pub fn welford<T: Float>(x: &Tensor<T, R, N>, mean: &mut Tensor<f32, R>, variance: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut count = zeros::<f32>([r]);
    let mut center = zeros::<f32>([r]);
    let mut squares = zeros::<f32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]).cast::<f32>();
        let c = sum(select(v == v, 1.0f32, 1.0f32), n);
        let mid = sum(v, n) / c;
        let off = sum((v - mid) * (v - mid), n);
        let all = count + c;
        let delta = mid - center;
        squares = squares + off + delta * delta * (count * c / all);
        center = center + delta * (c / all);
        count = all;
    }
    store(mean, [r], center);
    store(variance, [r], squares / count);
}

schedule! {
    /// A thread a row.
    pub serial for argmax<f32 | f16 | bf16> {
        tile(r = 32, n = 4);
        bind(r -> thread.x);
    }
    /// The lanes of a warp share a tile of a row out.
    pub lanes for argmax<f32 | f16 | bf16> {
        tile(r = 4, n = 64);
        split(n.t -> no, nl: 32);
        bind(r -> warp.x, nl -> lane.x);
        reduce(m, first: lane);
    }
    /// All threads of a CTA do, and copies run ahead.
    pub ctas for argmax<f32 | f16 | bf16> {
        tile(r = 1, n = 128);
        bind(n -> thread.x);
        reduce(m, first: cta);
        stage(x at n.o: shared);
        pipeline(n, 3);
    }
}

mod moments {
    use super::welford;
    use tilewright::prelude::*;

    schedule! {
        /// A thread a row.
        pub serial for welford<f32 | f16 | bf16> {
            tile(r = 32, n = 4);
            bind(r -> thread.x);
        }
        /// The lanes of a warp share a tile of a row out.
        pub lanes for welford<f32 | f16 | bf16> {
            tile(r = 4, n = 64);
            split(n.t -> no, nl: 32);
            bind(r -> warp.x, nl -> lane.x);
            reduce(c, mid.sum, off: lane);
        }
        /// All threads of a CTA do, and copies run ahead.
        pub ctas for welford<f32 | f16 | bf16> {
            tile(r = 1, n = 128);
            bind(n -> thread.x);
            reduce(c, mid.sum, off: cta);
            stage(x at n.o: shared);
            pipeline(n, 3);
        }
    }
}

/// Rows and columns: single elements, tails, whole tiles, no rows.
const SIZES: [[i64; 2]; 7] = [[1, 1], [33, 5], [4, 64], [3, 130], [2, 256], [5, 127], [0, 3]];

fn agree<K: Kernel>(encoded: &[u8], schedules: &[&dyn AnySchedule]) {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for [rows, columns] in SIZES {
            let case = support::Case::new(encoded, Some(dtype), &[("R", rows), ("N", columns)], 31);
            for schedule in schedules {
                case.check_nest(*schedule);
                assert!(case.check_kernel(*schedule) > 0, "{}", schedule.name());
                case.check_simulator::<K>(*schedule);
            }
        }
    }
}

#[test]
pub fn argmax_agrees_on_all_executors() {
    agree::<argmax>(argmax::KERNEL, schedules![serial, lanes, ctas]);
}

#[test]
fn mean_and_variance_agree_on_all_executors() {
    agree::<welford>(welford::KERNEL, schedules![moments::serial, moments::lanes, moments::ctas]);
}

/// Equal elements: the first of them counts, in whatever tile and lane it lies.
#[test]
fn the_first_of_equal_elements_is_the_place() {
    let rows: [&[usize]; 5] = [&[149], &[70, 140], &[3, 4, 67], &[], &[64, 128]];
    let of = |at: &[usize]| (0..150).map(|n| f32::from(u8::from(at.contains(&n)))).collect::<Vec<_>>();
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &rows.map(of).concat(), &[5, 150]).unwrap();
    for schedule in schedules![serial, lanes, ctas] {
        let mut top = Buffer::<f32>::poisoned(&device, &[5]).unwrap();
        let mut place = Buffer::<f32>::poisoned(&device, &[5]).unwrap();
        let report = argmax(&x, &mut top, &mut place).schedule_dyn(*schedule).run().unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
        assert_eq!(top.to_vec().unwrap(), [1.0, 1.0, 1.0, 0.0, 1.0], "{}", schedule.name());
        assert_eq!(place.to_vec().unwrap(), [149.0, 70.0, 3.0, 0.0, 64.0], "{}", schedule.name());
    }
}

/// Far from zero the sum of squares would lose all of the variance.
#[test]
fn variance_is_exact_far_from_zero() {
    let values: Vec<f32> = (0..300).map(|n| 4096.0 + (n * 37 % 101) as f32 / 64.0).collect();
    let exact: Vec<[f64; 2]> = values
        .chunks(150)
        .map(|row| {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / 150.0;
            [mean, row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / 150.0]
        })
        .collect();
    let device = Device::sim();
    let x = Buffer::from_slice(&device, &values, &[2, 150]).unwrap();
    for schedule in schedules![moments::serial, moments::lanes, moments::ctas] {
        let mut mean = Buffer::<f32>::poisoned(&device, &[2]).unwrap();
        let mut variance = Buffer::<f32>::poisoned(&device, &[2]).unwrap();
        welford(&x, &mut mean, &mut variance).schedule_dyn(*schedule).run().unwrap();
        let (mean, variance) = (mean.to_vec().unwrap(), variance.to_vec().unwrap());
        for (row, [m, v]) in exact.iter().enumerate() {
            let wrong =
                [(mean[row], m), (variance[row], v)].map(|(found, x)| (f64::from(found) - x).abs() / x);
            assert!(wrong[0] < 1e-6 && wrong[1] < 1e-3, "{}, row {row}: {wrong:?}", schedule.name());
        }
    }
}

/// Random legal schedules, all executors.
#[test]
fn random_schedules_agree() {
    const FLOATS: &[DType] = &[DType::F32, DType::F16, DType::BF16];
    random::<argmax>(argmax::KERNEL, FLOATS);
    random::<welford>(welford::KERNEL, FLOATS);
}

fn random<K: Kernel>(encoded: &[u8], dtypes: &'static [DType]) {
    let extents = [("R", 20), ("N", 60)].map(|(dim, n)| (dim.to_string(), n)).into();
    let schedules = random::mixed_schedules(K::NAME, encoded, dtypes, 12, 7, &extents);
    for (n, schedule) in (0..).zip(&schedules) {
        let (dtype, program) = schedule.programs[0];
        let mut dims = [("R", 1 + n), ("N", 1 + 17 * n % 60)].map(|(d, n)| (d.to_string(), n)).into();
        admit(&Program::from_bytes(program).unwrap().nest, &mut dims);
        let dims = [("R", dims["R"]), ("N", dims["N"])];
        let case = support::Case::new(encoded, dtype, &dims, 7);
        case.check_nest(schedule);
        case.check_kernel(schedule);
        case.check_simulator::<K>(schedule);
    }
}
