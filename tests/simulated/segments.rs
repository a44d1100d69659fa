//! Tiles of two sizes (`segment`): each size has products and copies of its own, and every end of a segment is right.

use crate::{product, products};

use product::{matmul, wgmma_best};
use products::{Factors, count, is, numbers, simulators};
use rayon::prelude::*;
use tilewright::{DType, prelude::*};

/// Tiles of two sizes under schedules of all kinds.
mod local {
    use super::product;
    use tilewright::prelude::*;

    schedule! {
        /// CUDA cores; each thread has six rows of a column, in the last tile of a segment four.
        pub unrolled for product::matmul<f16 | bf16> {
            tile(i = 6, j = 32, k = 8);
            bind(j -> thread.x);
            unroll(i);
            segment(i: 16);
        }
        /// What threads copy ends where the tile does.
        pub copied = unrolled { stage(a, b at k: shared); }
        /// A loop at run time inside a tile.
        pub looped for product::matmul<f16 | bf16> {
            tile(i = 6, j = 32);
            split(i -> ia, ib: 3);
            reorder(ia, k);
            bind(j -> thread.x);
            segment(i: 9);
        }
        /// A CTA for each tile.
        pub one_tile = product::producer_consumer {
            tile(i = 64);
            segment(j: 160);
        }
        /// A warp multiplies; eight more columns than whole tiles have.
        pub warps for product::matmul<f16 | bf16> {
            tile(i = 32, j = 32, k = 16);
            tensor_core(acc: mma);
            stage(a, b at k: shared);
            segment(j: 72);
        }
        /// Operands swapped: columns of the instruction are rows of C, of which tiles have 48 and 16.
        pub swapped = warps {
            tensor_core(acc: mma; swapped);
            tile(i = 48);
            drop(segment(j));
            segment(i: 64);
        }
        /// One tile a segment has 64 columns, one 192: three boxes of 64, and one.
        pub a_third on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best { segment(j: 256); }
        /// Eight columns, which no lanes exchange.
        pub eight on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best {
            drop(exchange(c));
            segment(j: 392);
        }
        /// Rows: tiles of 192 and 128, and boxes of as many.
        pub rows on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best {
            tile(i = 192, j = 128);
            tensor_core(acc: wgmma(64, 128));
            drop(segment(j));
            segment(i: 512);
        }
        /// B lies in columns: boxes of 192 rows, and of 128.
        pub columns on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best {
            layout(b: col);
            stage(b at k: shared, transposed, tma);
        }
        /// Three groups in turn.
        pub three on sm_90a for product::matmul<f16 | bf16> = product::wgmma_best {
            tile(i = 64);
            drop(reorder(in acc));
            pingpong(3);
            registers(24, 144);
        }
        /// The same group all the time.
        pub together on sm_90a for product::matmul<f16 | bf16> = product::tile128x256 {
            drop(stage(c), swizzle(c));
            exchange(c);
            segment(j: 320);
        }
    }
}

fn check(device: &Device, schedule: &dyn AnySchedule, size: [usize; 3], layout: Layout) {
    let factors = Factors::new(size, numbers);
    let (a, b) = factors.buffers(device, bf16::from_f32, layout);
    factors.check(
        device,
        schedule.name(),
        |c| matmul(&a, &b, c).schedule_dyn(schedule).run(),
        |i, j, found| is(found, bf16::from_f32(factors.sum(i, j))),
    );
}

/// Widths around all ends of tiles and segments, down to none.
#[test]
fn every_end_is_right() {
    for (_, device) in simulators(0..1) {
        for n in [1, 8, 128, 192, 200, 384, 385, 392, 504, 512, 513, 520, 704, 904, 1024] {
            let size = [136, n, 72];
            check(&device, &wgmma_best, size, Layout::RowMajor);
            check(&device, &local::columns, size, Layout::ColumnMajor);
        }
        for n in [64, 192, 256, 264, 449, 512] {
            for schedule in [&local::a_third as &dyn AnySchedule, &local::eight, &local::three] {
                check(&device, schedule, [72, n, 136], Layout::RowMajor);
            }
        }
        for m in [64, 192, 384, 385, 448, 512, 513] {
            check(&device, &local::rows, [m, 136, 72], Layout::RowMajor);
        }
        for n in [128, 160, 168, 320] {
            check(&device, &local::one_tile, [72, n, 136], Layout::RowMajor);
            check(&device, &local::together, [136, 2 * n, 72], Layout::RowMajor);
        }
    }
}

#[test]
fn every_end_is_right_on_cuda_cores_and_in_warps() {
    let device = Device::sim();
    for m in [1, 5, 6, 7, 12, 13, 15, 16, 17, 31, 32, 33] {
        for schedule in [&local::unrolled as &dyn AnySchedule, &local::copied, &local::looped] {
            check(&device, schedule, [m, 40, 24], Layout::RowMajor);
        }
    }
    for n in [8, 32, 63, 64, 65, 72, 73, 144] {
        check(&device, &local::warps, [40, n, 40], Layout::RowMajor);
        check(&device, &local::swapped, [n, 40, 40], Layout::RowMajor);
    }
}

/// No products and nothing to sum.
#[test]
fn nothing_is_right() {
    let device = Device::sim();
    for size in [[0, 520, 8], [136, 0, 8], [136, 520, 0]] {
        check(&device, &wgmma_best, size, Layout::RowMajor);
        check(&device, &local::rows, size, Layout::RowMajor);
    }
}

/// Several tiles of both sizes a CTA of the simulator's four, in turn, in any order of warps, with copies late and early.
#[test]
fn tiles_of_both_sizes_take_turns() {
    for (_, device) in simulators(0..10) {
        check(&device, &wgmma_best, [72, 520, 136], Layout::RowMajor);
    }
    let launches: [(&dyn AnySchedule, [usize; 3]); 5] = [
        (&wgmma_best, [264, 1032, 72]),
        (&wgmma_best, [136, 1544, 328]),
        (&wgmma_best, [520, 520, 136]),
        (&local::rows, [1032, 264, 136]),
        (&local::three, [200, 1032, 136]),
    ];
    launches.into_par_iter().for_each(|(schedule, size)| {
        for (_, device) in simulators(0..3) {
            check(&device, schedule, size, Layout::RowMajor);
        }
    });
}

/// What each size multiplies and copies.
#[test]
fn each_size_has_its_instructions_and_its_boxes() {
    let wgmma = |n: u32| format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16");
    let copies = "cp.async.bulk.tensor.2d.shared";
    let all = |schedule: &dyn AnySchedule| products::ptx(schedule, DType::BF16);

    // Two groups; two halves by four steps of k. A box of A, and three or two of B; bytes of all of them.
    let ptx = all(&wgmma_best);
    assert_eq!((count(&ptx, &wgmma(192)), count(&ptx, &wgmma(128))), (16, 16));
    assert_eq!(count(&ptx, copies), 4 + 3);
    // (128 + 192) · 64 elements, and (128 + 128) · 64.
    assert_eq!(expected(&ptx), [40960, 32768]);

    // Three blocks of rows, or two, of one instruction.
    let ptx = all(&local::rows);
    assert_eq!(count(&ptx, &wgmma(128)), 2 * 4 * (3 + 2));
    assert_eq!(expected(&ptx), [40960, 32768]);

    let ptx = all(&local::a_third);
    assert_eq!((count(&ptx, &wgmma(192)), count(&ptx, &wgmma(64))), (16, 16));
    assert_eq!(expected(&ptx), [40960, 24576]);

    // Boxes are of whole panels: of 64 columns the last tile takes eight.
    let ptx = all(&local::eight);
    assert_eq!((count(&ptx, &wgmma(192)), count(&ptx, &wgmma(8))), (16, 16));
    assert_eq!(expected(&ptx), [40960, 24576]);

    let ptx = all(&local::columns);
    assert_eq!(expected(&ptx), [40960, 32768]);

    let ptx = all(&local::warps);
    // Four blocks of 8 columns by two of 16 rows, and one by two.
    assert_eq!(count(&ptx, "mma.sync.aligned.m16n8k16"), 8 + 2);
}

/// Bytes that mbarriers are told to expect, in the order of the text.
fn expected(ptx: &str) -> Vec<u32> {
    let lines: Vec<&str> = ptx.lines().map(str::trim).collect();
    let told = lines.iter().enumerate().filter(|(_, line)| line.contains("expect_tx"));
    told.map(|(at, line)| {
        let register = line.rsplit_once(' ').expect("operands").1.trim_end_matches(';');
        let set = format!("mov.b32 \t{register}, ");
        let value = lines[..at].iter().rev().find_map(|l| l.strip_prefix(&set)).expect("a constant");
        value.trim_end_matches(';').parse().expect("a number")
    })
    .collect()
}
