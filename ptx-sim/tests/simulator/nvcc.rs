//! The mutation score on kernels of other origin: cuda-samples, llm.c and SGEMM_CUDA as `scripts/nvcc-corpora.sh` compiles
//! them with nvcc. The correct ones must have no finding under 20 seeds, early and late, and compute what the host
//! computes; of their mutants at least 98.5 % must be found.
//!
//! The sources are not in this repository, so these tests run on demand:
//! `scripts/nvcc-corpora.sh && cargo test -p ptx-sim --release --test simulator nvcc -- --ignored`
//! (`PTX_SIM_CORPORA`: where the PTX lies, default `.cache/corpora/ptx`).

mod cases;
mod text;

use crate::mutation::mutants::{Mutant, mutants};
use cases::{Case, Verdict, cases};
use ptx_sim::AsyncMode::{Early, Late};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Mutants of one kernel: unrolled loops have hundreds that differ in an offset only.
const MOST: usize = 160;

/// All deletions and weakenings, and evenly chosen shifts of addresses.
fn chosen(ptx: &str) -> Vec<Mutant> {
    let (shifts, mut all): (Vec<_>, Vec<_>) =
        mutants(ptx).into_iter().partition(|m| m.what.contains(" becomes ["));
    let room = MOST.saturating_sub(all.len()).max(40).min(shifts.len());
    let n = shifts.len();
    all.extend(
        shifts.into_iter().enumerate().filter(|(i, _)| i * room / n != (i + 1) * room / n).map(|(_, m)| m),
    );
    all
}

#[test]
#[ignore = "needs scripts/nvcc-corpora.sh"]
fn correct_kernels_have_no_finding() {
    let cases = cases();
    assert!(cases.len() >= 12);
    let bad: Vec<String> = cases
        .par_iter()
        .filter_map(|c| {
            (0..20).flat_map(|seed| [(seed, Early), (seed, Late)]).find_map(|(seed, mode)| {
                match c.run(&c.ptx, seed, mode) {
                    Verdict::Right => None,
                    v => Some(format!("{} seed {seed} {mode:?}: {v:?}", c.name)),
                }
            })
        })
        .collect();
    println!("{} kernels, 20 seeds, early and late", cases.len());
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Survivors that change nothing, with the reason.
fn equivalent() -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for block in include_str!("../data/mutation/nvcc-equivalent.txt").split("\n\n") {
        let lines: Vec<&str> = block.lines().filter(|l| !l.starts_with('#')).collect();
        let Some((reason, names)) = lines.split_last() else { continue };
        assert!(reason.len() > 40 && !names.is_empty(), "mutants, then a line with the reason: {block}");
        out.extend(names.iter().map(|n| (n.to_string(), reason.to_string())));
    }
    out
}

#[test]
#[ignore = "needs scripts/nvcc-corpora.sh"]
fn mutants_are_found() {
    let cases = cases();
    let all: Vec<(&Case, Mutant)> =
        cases.iter().flat_map(|c| chosen(&c.ptx).into_iter().map(move |m| (c, m))).collect();
    let mut survivors: Vec<String> = all
        .par_iter()
        .filter(|(c, m)| {
            !(0..4).any(|seed| {
                [Late, Early].into_iter().any(|mode| {
                    matches!(c.run(&m.text, seed, mode), Verdict::Finding(_) | Verdict::WrongResult)
                })
            })
        })
        .map(|(c, m)| format!("{} line {} {}", c.name, m.line, m.what))
        .collect();
    survivors.sort();
    let equivalent = equivalent();
    let (same, missed): (Vec<_>, Vec<_>) = survivors.iter().partition(|s| equivalent.contains_key(*s));
    let found = all.len() - survivors.len();
    let score = found as f64 / (all.len() - same.len()) as f64;
    println!(
        "{} mutants of {} kernels, {found} found, {} change nothing, {} missed: {:.2} %\n{missed:#?}",
        all.len(),
        cases.len(),
        same.len(),
        missed.len(),
        100.0 * score
    );
    let stale: Vec<_> = equivalent.keys().filter(|e| !survivors.contains(e)).collect();
    assert!(stale.is_empty(), "these are listed and are found, or are no mutants:\n{stale:#?}");
    assert!(score >= 0.985, "{score}");
}
