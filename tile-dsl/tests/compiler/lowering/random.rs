//! Random legal schedules, lowered in every variant, against the reference evaluator.

use super::{
    agree::{check, prove},
    build::Kernels,
    support,
};
use tile_dsl::{
    engine::testing::{self as engine, Random},
    program::Program,
};

/// Schedules of each kernel; more with `TILEWRIGHT_SEEDS`.
fn seeds() -> u64 {
    std::env::var("TILEWRIGHT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2)
}

/// Dims that what is carried has bounds for.
fn few(program: &Program) -> Option<(&'static str, i64)> {
    let bound = program.nest.bounds.values().min()?;
    program.nest.kernel.name.starts_with("attention").then_some(("D", i64::from(*bound).min(5)))
}

fn random(text: &str, dims: &[&str]) {
    let generic = support::kernel(text);
    let mut failed = Vec::new();
    for seed in 0..seeds() {
        let schedule = engine::random_schedule(&generic, seed);
        let shown = || schedule.directives.iter().map(|d| d.kind.to_string()).collect::<Vec<_>>().join("; ");
        let mut sizes = Random::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let dtypes = support::dtypes(&generic);
            let program = prove(&generic, &schedule, dtypes[seed as usize % dtypes.len()]);
            let kernels = Kernels::of(&program);
            for _ in 0..2 {
                let dims: Vec<_> =
                    dims.iter().map(|d| (*d, *sizes.pick(&[1i64, 5, 8, 16, 24, 33, 64]))).collect();
                let dims: Vec<_> = dims.into_iter().chain(few(&program)).collect();
                check(&program, &kernels, &dims);
            }
        }));
        if result.is_err() {
            failed.push(format!("seed {seed}: {}", shown()));
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), seeds(), failed.join("\n"));
}

#[test]
fn random_matmul() {
    random(support::MATMUL, &["M", "N", "K"]);
}

#[test]
fn random_linear() {
    random(support::LINEAR, &["M", "N", "K"]);
}

#[test]
fn random_softmax() {
    random(support::SOFTMAX, &["R", "N"]);
}

#[test]
fn random_attention() {
    random(support::ATTENTION, &["M", "N"]);
}

#[test]
fn random_vector_add() {
    random(support::VECTOR_ADD, &["N"]);
}

#[test]
fn random_conv() {
    random(support::CONV1D, &["N", "R"]);
    random(support::CONV3, &["N"]);
}
