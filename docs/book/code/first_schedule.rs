//! "Your first schedule".

// ANCHOR: kernel
use tilewright::prelude::*;

/// y = x · g / √(mean of x² + eps), row by row. `inverse_n` is 1/N.
#[tile_kernel]
pub fn rms_norm(
    x: &Tensor<f32, R, N>,
    g: &Tensor<f32, N>,
    y: &mut Tensor<f32, R, N>,
    inverse_n: f32,
    eps: f32,
) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let s = sum(v * v, n);
    store(y, [r, n], v * rsqrt(s * inverse_n + eps) * load(g, [n]));
}
// ANCHOR_END: kernel

// ANCHOR: schedule
schedule! {
    /// A row a warp, kept in registers: rows of up to 1024 elements.
    pub row_a_warp for rms_norm {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl: 32);
        reduce(s: lane);
        bind(r -> warp.x, nl -> lane.x);
    }
}
// ANCHOR_END: schedule

// ANCHOR: vectors
schedule! {
    /// Each lane moves four elements at once.
    pub row_a_warp_wide = row_a_warp {
        split(n -> no, nl, nv: 32, 4);
        vectorize(nv);
    }
}
// ANCHOR_END: vectors

// ANCHOR: layer
/// y = (x − mean) · g / √(variance + eps) + b, row by row. `inverse_n` is 1/N.
#[tile_kernel]
pub fn layer_norm(
    x: &Tensor<f32, R, N>,
    g: &Tensor<f32, N>,
    b: &Tensor<f32, N>,
    y: &mut Tensor<f32, R, N>,
    inverse_n: f32,
    eps: f32,
) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let d = v - sum(v, n) * inverse_n;
    let variance = sum(d * d, n) * inverse_n;
    store(y, [r, n], d * rsqrt(variance + eps) * load(g, [n]) + load(b, [n]));
}

schedule! {
    /// As the norm before: two reductions, so `reduce` has two names.
    pub layer_a_warp for layer_norm {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl, nv: 32, 4);
        reduce(d.sum, variance.sum: lane);
        bind(r -> warp.x, nl -> lane.x);
        vectorize(nv);
    }
}
// ANCHOR_END: layer

#[test]
fn layers_are_normalised() {
    let (rows, length) = (5, 600);
    let device = Device::sim();
    let host: Vec<f32> = (0..rows * length).map(super::value).collect();
    let line: Vec<f32> = (0..length).map(|n| (n % 5) as f32).collect();
    let x = Buffer::from_slice(&device, &host, &[rows, length]).expect("x");
    let g = Buffer::from_slice(&device, &line, &[length]).expect("g");
    let b = Buffer::from_slice(&device, &line, &[length]).expect("b");
    let mut y = Buffer::poisoned(&device, &[rows, length]).expect("y");
    let inverse = 1.0 / length as f32;
    let launch = layer_norm(&x, &g, &b, &mut y, inverse, 1e-5);
    let report = launch.schedule(layer_a_warp).run().expect("a launch");
    let expected: Vec<f32> = host
        .chunks(length)
        .flat_map(|row| {
            let mean = row.iter().sum::<f32>() * inverse;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() * inverse;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            row.iter().zip(&line).map(move |(x, g)| (x - mean) * scale * g + g).collect::<Vec<f32>>()
        })
        .collect();
    super::assert_close(&y.to_vec().expect("y"), &expected, 1e-5);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

// ANCHOR: solution
schedule! {
    /// A row a CTA, read twice instead of kept: rows of any length.
    pub row_a_cta for rms_norm {
        tile(r = 1);
        split(n -> no, nt, nv: 256, 4);
        recompute(v);
        fuse(v at n);
        reduce(s: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}
// ANCHOR_END: solution

fn run(schedule: &'static dyn AnySchedule, rows: usize, length: usize) -> tilewright::LaunchReport {
    let device = Device::sim();
    let host: Vec<f32> = (0..rows * length).map(super::value).collect();
    let gain: Vec<f32> = (0..length).map(|n| 1.0 + (n % 3) as f32).collect();
    let x = Buffer::from_slice(&device, &host, &[rows, length]).expect("x");
    let g = Buffer::from_slice(&device, &gain, &[length]).expect("g");
    let mut y = Buffer::poisoned(&device, &[rows, length]).expect("y");
    let inverse = 1.0 / length as f32;
    let launch = rms_norm(&x, &g, &mut y, inverse, 1e-5);
    let report = launch.schedule_dyn(schedule).run().expect("a launch");
    let expected: Vec<f32> = host
        .chunks(length)
        .flat_map(|row| {
            let mean = row.iter().map(|x| x * x).sum::<f32>() * inverse;
            let scale = 1.0 / (mean + 1e-5).sqrt();
            row.iter().zip(&gain).map(move |(x, g)| x * scale * g).collect::<Vec<f32>>()
        })
        .collect();
    super::assert_close(&y.to_vec().expect("y"), &expected, 1e-5);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    report
}

#[test]
fn rows_are_normalised() {
    for length in [1, 100, 1000, 1024] {
        run(&row_a_warp, 6, length);
        run(&row_a_warp_wide, 6, length);
        run(&row_a_cta, 3, length);
    }
    run(&row_a_cta, 2, 5000);
}

// ANCHOR: look
use tilewright::{SimOptions, check, explain, lints::proof::replay, page};

fn look(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    // A simulator that records what happens.
    let device = Device::sim_with(SimOptions { trace: true, ..SimOptions::default() });
    let x = Buffer::from_slice(&device, &[1.0f32; 8 * 1024], &[8, 1024])?;
    let g = Buffer::from_slice(&device, &[1.0f32; 1024], &[1024])?;
    let mut y = Buffer::<f32>::zeros(&device, &[8, 1024])?;
    let report = rms_norm(&x, &g, &mut y, 1.0 / 1024.0, 1e-5).schedule(row_a_warp_wide).run()?;
    std::fs::write(folder.join("rms_norm.html"), page(&row_a_warp_wide, &report)?)?;

    // What will slow it down, without a run.
    println!("{}", check(&row_a_warp_wide, None, &[("R", 4096), ("N", 1024)])?);

    // How it was derived, and a second opinion on that.
    let derivation = explain(&row_a_warp_wide, None)?;
    println!("{derivation}");
    println!("{}", replay(&derivation)?);
    Ok(())
}
// ANCHOR_END: look

#[test]
fn it_can_be_looked_at() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    look(folder.path()).expect("a page, lints and a derivation");
    let page = std::fs::read_to_string(folder.path().join("rms_norm.html")).expect("a page");
    assert!(page.contains("row_a_warp_wide"), "{} bytes", page.len());
}

// ANCHOR: counts
#[test]
fn vectors_are_a_fourth_of_the_requests() {
    let requests = |schedule| run(schedule, 8, 1024).counters.unwrap().global_load.requests;
    // A row of x and the gains: 2 · 1024 elements a warp, by 32 and by 128.
    assert_eq!((requests(&row_a_warp), requests(&row_a_warp_wide)), (512, 128));
}
// ANCHOR_END: counts
