//! CUTLASS's pipeline for Hopper, compiled by nvcc: clean, and found wrong without any of its fences and waits.

use crate::common::*;
use half::f16;
use ptx_sim::{AsyncMode, Launch, Memory, Module, Report, launch};

const PTX: &str = include_str!("../data/cutlass/pipeline.ptx");
/// Bytes of a stage, stages, and bytes of A in each; the rest is B.
const TILE: usize = 2304;
const STEPS: usize = 7;
const A: usize = 2048;

/// Small integers.
fn input() -> Vec<f16> {
    (0..STEPS * TILE / 2).map(|i| f16::from_f32(((i * 7 + i / 5) % 9) as f32 - 4.0)).collect()
}

fn run_once(ptx: &str, seed: u64, mode: AsyncMode) -> (Report, Vec<f32>) {
    let m = Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let data: Vec<u8> = input().iter().flat_map(|h| h.to_le_bytes()).collect();
    let (src, out) = (mem.alloc("src", data.len() as u64).unwrap(), mem.alloc("out", 4096).unwrap());
    mem.write(src, &data).unwrap();
    let l = Launch {
        kernel: "k".into(),
        grid: [2, 1, 1],
        block: [160, 1, 1],
        params: vec![param(src), param(out)],
        seed,
        async_mode: mode,
        max_instructions: 200_000,
        ..Launch::default()
    };
    (launch(&m, &mut mem, &l).unwrap(), read_f32(&mem, out, 1024))
}

/// What each thread of a CTA holds: A·Bᵀ summed over the stages, in the order of the accumulators.
fn product() -> Vec<f32> {
    let x = input();
    // Core matrices of 8 rows of 16 bytes: 128 bytes to the next in k, 256 to the next in rows.
    let at =
        |base: usize, r: usize, k: usize| (base + r % 8 * 16 + r / 8 * 256 + k / 8 * 128 + k % 8 * 2) / 2;
    let element = |row: usize, col: usize| -> f32 {
        let terms = (0..STEPS).flat_map(|s| (0..16).map(move |k| (s * TILE / 2, k)));
        terms.map(|(s, k)| x[s + at(0, row, k)].to_f32() * x[s + at(A, col, k)].to_f32()).sum()
    };
    let place = |t: usize, i: usize| (16 * (t / 32) + t % 32 / 4 + 8 * (i / 2), 2 * (t % 4) + i % 2);
    (0..512).map(|n| place(n / 4, n % 4)).map(|(row, col)| element(row, col)).collect()
}

#[test]
fn the_pipeline_is_clean() {
    let want = product();
    for seed in 0..20 {
        for mode in [AsyncMode::Early, AsyncMode::Late] {
            let (r, out) = run_once(PTX, seed, mode);
            assert!(r.is_clean(), "seed {seed} {mode:?}: {}", r.findings[0]);
            assert_eq!((&out[..512], &out[512..]), (&want[..], &want[..]), "seed {seed} {mode:?}");
        }
    }
}

/// Every line that orders something, deleted: some schedule finds it or computes something else. Of the three waits of
/// `producer_tail` the last sees all arrivals, since each consumer's come in order, so the two before it are left out.
#[test]
fn the_pipeline_needs_each_of_its_fences() {
    let want = product();
    let lines: Vec<&str> = PTX.lines().collect();
    let orders = [
        "fence",
        "barrier.cluster",
        "mbarrier.arrive",
        "mbarrier.try_wait",
        "wgmma.wait_group",
        "wgmma.commit",
    ];
    let (mut tried, mut waits) = (0, 0);
    for (at, line) in lines.iter().enumerate().filter(|(_, l)| orders.iter().any(|o| l.contains(o))) {
        waits += line.contains("try_wait") as u32;
        if line.contains("try_wait") && (2..4).contains(&waits) {
            continue;
        }
        tried += 1;
        let mut text = lines.clone();
        // A wait that is not there is one that succeeds.
        text[at] = if line.contains("try_wait") { "setp.eq.u32 P1, 0, 0;" } else { "" };
        let text = text.join("\n");
        let found = (0..4).any(|seed| {
            [AsyncMode::Late, AsyncMode::Early].into_iter().any(|mode| {
                let (r, out) = run_once(&text, seed, mode);
                !r.is_clean() || out[..512] != want[..] || out[512..] != want[..]
            })
        });
        assert!(found, "line {}: {line}", at + 1);
    }
    assert_eq!((tried, waits), (11, 5));
}
