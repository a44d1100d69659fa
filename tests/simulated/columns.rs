//! Products whose lanes hold columns of the result: operands are swapped, or the result lies in columns.

use crate::{product, products};

use product::{matmul, swapped152, swapped160};
use products::{Factors, count, is, numbers, simulators};
use tilewright::{DType, prelude::*};

/// Variations of the example's schedules.
mod local {
    use super::product;
    use tilewright::prelude::*;

    schedule! {
        /// A warp multiplies rows of Bᵀ by columns of Aᵀ; each lane stores an element at a time.
        pub warps for product::matmul<f16 | bf16> = product::mma {
            tile(i = 32, j = 64);
            split(i -> iw, im: 16);
            tensor_core(acc: mma; swapped);
            drop(vectorize(j.pair));
        }
        /// Lanes exchange what they hold.
        pub warps_exchanged = warps { exchange(c); }
        /// The instruction stores matrices transposed.
        pub warps_collected on sm_90 = warps { stage(c: shared, tma, stmatrix); swizzle(c: 128); }
        /// Operands in turn in registers.
        pub warps_in_turn = warps_exchanged {
            drop(unroll(k.atom));
            fragment(a, b at k.atom);
            pipeline(k.atom, 2);
        }
        /// Warpgroups, element by element.
        pub elements on sm_90a for product::matmul<f16 | bf16> = product::swapped160 {
            tile(i = 24);
            tensor_core(acc: wgmma(64, 24); swapped);
            drop(exchange(c), cluster(i));
        }
        /// Three blocks of eight columns, and two halves by two blocks of rows: four matrices.
        pub exchanged = elements { exchange(c); }
        /// Groups of threads that take turns.
        pub turns = product::pingpong128 {
            tile(i = 24);
            tensor_core(acc: wgmma(64, 24); swapped);
            drop(vectorize(j.pair), reorder(in acc));
        }
        /// Both blocks of 64 columns by the same rows, one after the other.
        pub by_rows = product::swapped160 { reorder(k.atom, jm in acc); }
        /// By `stmatrix`, transposed.
        pub collected = elements { stage(c: shared, tma, stmatrix); swizzle(c: 128); }
        /// Not swapped: C lies in columns.
        pub in_columns on sm_90a for product::matmul<f16 | bf16> = product::producer_consumer {
            layout(c: col);
            drop(vectorize(j.pair));
            exchange(c);
        }
        /// The same, collected.
        pub collected_in_columns = in_columns {
            drop(exchange(c));
            stage(c: shared, tma, stmatrix);
            swizzle(c: 128);
        }
        /// Ten blocks of eight columns: four matrices at once are of both halves, the second before the first in the tile.
        pub ten_blocks = collected_in_columns {
            tile(j = 80);
            tensor_core(acc: wgmma(64, 80));
            swizzle(b: 32, c: 32);
        }
    }
}

const SIZES: [[usize; 3]; 4] = [[48, 256, 128], [40, 264, 200], [1, 8, 64], [33, 257, 65]];

#[test]
fn swapped_products_are_right() {
    let schedules: [&dyn AnySchedule; 11] = [
        &swapped160,
        &local::by_rows,
        &swapped152,
        &local::warps,
        &local::warps_exchanged,
        &local::warps_collected,
        &local::warps_in_turn,
        &local::elements,
        &local::exchanged,
        &local::turns,
        &local::collected,
    ];
    for (seed, device) in simulators(0..2) {
        for size in SIZES {
            let factors = Factors::new(size, numbers);
            let (a, b) = factors.buffers(&device, bf16::from_f32, Layout::RowMajor);
            for schedule in schedules {
                let what = format!("{}, seed {seed}", schedule.name());
                factors.check(
                    &device,
                    &what,
                    |c| matmul(&a, &b, c).schedule_dyn(schedule).run(),
                    |i, j, found| is(found, bf16::from_f32(factors.sum(i, j))),
                );
            }
        }
    }
}

#[test]
fn results_that_lie_in_columns_are_right() {
    let device = Device::sim();
    for size in [[128, 128, 128], [136, 72, 40], [8, 1, 64], [257, 33, 65]] {
        let [m, n, _] = size;
        let factors = Factors::new(size, numbers);
        let (a, b) = factors.buffers(&device, bf16::from_f32, Layout::RowMajor);
        let schedules: [&dyn AnySchedule; 3] =
            [&local::in_columns, &local::collected_in_columns, &local::ten_blocks];
        for schedule in schedules {
            let poison = vec![bf16::NAN; m * n];
            let mut c = Buffer::from_slice_in(&device, &poison, &[m, n], Layout::ColumnMajor).expect("room");
            let report = matmul(&a, &b, &mut c).schedule_dyn(schedule).run().expect("it runs");
            assert!(report.findings.is_empty(), "{}: {}", schedule.name(), report.findings[0]);
            for (at, found) in c.to_vec().expect("read back").into_iter().enumerate() {
                let (i, j) = (at % m, at / m);
                assert_eq!(found, bf16::from_f32(factors.sum(i, j)), "{}, C[{i}, {j}]", schedule.name());
            }
        }
    }
}

/// Which instructions store, and what they multiply.
#[test]
fn columns_are_turned_in_registers_or_on_their_way() {
    let of = |schedule: &dyn AnySchedule| products::ptx(schedule, DType::BF16);
    let turned =
        |ptx: &str| (count(ptx, "movmatrix.sync.aligned.m8n8.trans.b16"), count(ptx, "st.global.v4"));

    // Two blocks of 64 rows by 160 columns a warpgroup: 80 matrices a warp, of which four are exchanged at once.
    let ptx = of(&swapped160);
    assert_eq!(count(&ptx, "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16"), 8);
    assert_eq!(turned(&ptx), (80, 20));
    assert_eq!((turned(&of(&local::elements)), turned(&of(&local::exchanged))), ((0, 0), (12, 3)));

    let sums = |ptx: &str| -> Vec<String> {
        let products = ptx.split("wgmma.mma_async.sync").skip(1);
        products.map(|product| product.split(['{', ',']).nth(1).unwrap_or_default().to_string()).collect()
    };
    let (one_by_one, by_rows) = (sums(&ptx), sums(&of(&local::by_rows)));
    assert!(one_by_one[..4].iter().all(|sum| *sum == one_by_one[0]) && one_by_one[4] != one_by_one[0]);
    assert!(by_rows[0] != by_rows[1] && (0..8).all(|n| by_rows[n] == by_rows[n % 2]));

    let ptx = of(&local::collected);
    assert_eq!((turned(&ptx), count(&ptx, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16")), ((0, 0), 3));
    let ptx = of(&local::in_columns);
    assert!(turned(&ptx).0 > 0 && ptx.contains("m64n128k16"));
}
