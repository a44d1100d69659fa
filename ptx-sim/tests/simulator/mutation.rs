//! Mutation score: correct kernels in which one synchronisation is deleted or weakened, or one address shifted, must be
//! found wrong by the simulator, and the kernels themselves must not.
//!
//! A mutant is found by a finding (a diagnosed deadlock among them) or a wrong result under some schedule. What survives
//! is listed in `tests/data/mutation/survivors.txt`, each with the reason.
//! `PTX_SIM_SEEDS=20` tries 20 schedules of each mutant.

mod corpus;
mod hardware;
pub mod mutants;

use corpus::{CASES, Verdict};
use mutants::mutants;
use ptx_sim::AsyncMode::{Early, Late};
use rayon::prelude::*;
use std::collections::BTreeMap;

fn seeds(default: u64) -> u64 {
    std::env::var("PTX_SIM_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

#[test]
fn correct_kernels_have_no_finding() {
    CASES.par_iter().for_each(|c| {
        for seed in 0..20 {
            for mode in [Early, Late] {
                match c.run(c.ptx, seed, mode) {
                    Verdict::Right => {}
                    Verdict::Finding(f) => panic!("{} seed {seed} {mode:?}: {f}", c.name),
                    Verdict::WrongResult => panic!("{} seed {seed} {mode:?}: wrong result", c.name),
                    Verdict::TimedOut => panic!("{} seed {seed} {mode:?}: timed out", c.name),
                }
            }
        }
    });
}

/// Survivors by name of the mutant, with whether each is listed as equivalent.
fn listed() -> BTreeMap<String, bool> {
    let mut out = BTreeMap::new();
    for block in include_str!("../data/mutation/survivors.txt").split("\n\n") {
        let lines: Vec<&str> = block.lines().filter(|l| !l.starts_with('#')).collect();
        let Some((head, reason)) = lines.split_first() else { continue };
        let (class, name) = head.split_once(' ').expect("`equivalent` or `missed`, then the mutant");
        assert!(matches!(class, "equivalent" | "missed"), "{head}");
        assert!(reason.iter().map(|r| r.len()).sum::<usize>() > 60, "`{name}` needs a reason");
        assert!(out.insert(name.to_string(), class == "equivalent").is_none(), "`{name}` is listed twice");
    }
    out
}

#[test]
fn mutants_are_found() {
    let all: Vec<_> = CASES.iter().flat_map(|c| mutants(c.ptx).into_iter().map(move |m| (c, m))).collect();
    let seeds = seeds(4);
    let survivors: Vec<String> = all
        .par_iter()
        .filter(|(c, m)| {
            !(0..seeds).any(|seed| {
                [Late, Early].into_iter().any(|mode| {
                    matches!(c.run(&m.text, seed, mode), Verdict::Finding(_) | Verdict::WrongResult)
                })
            })
        })
        .map(|(c, m)| format!("{} line {} {}", c.name, m.line, m.what))
        .collect();
    let listed = listed();
    let equivalent = listed.values().filter(|e| **e).count();
    let (total, found) = (all.len(), all.len() - survivors.len());
    let score = found as f64 / (total - equivalent) as f64;
    println!(
        "{total} mutants of {} kernels, {found} found, {} survive, {equivalent} of them equivalent: {:.1} %",
        CASES.len(),
        survivors.len(),
        100.0 * score
    );
    let unlisted: Vec<_> = survivors.iter().filter(|s| !listed.contains_key(*s)).collect();
    assert!(unlisted.is_empty(), "these mutants survive and are not listed:\n{unlisted:#?}");
    let stale: Vec<_> = listed.keys().filter(|s| !survivors.contains(s)).collect();
    assert!(stale.is_empty(), "these are listed and do not survive:\n{stale:#?}");
    assert!(score >= 0.985, "{score}");
    assert!(total >= 300 && CASES.len() >= 12);
}

/// The kernels, their equivalent mutants, and those without the fence after the initialisation of mbarriers, for
/// `scripts/record-h200.py check` to run on a GPU.
#[test]
fn mutants_are_written_for_the_gpu() {
    let listed = listed();
    let no_init_fence = |name: &str| name.contains("fence.mbarrier_init") && name.ends_with("delete");
    let file = hardware::write(|name| listed.get(name) == Some(&true) || no_init_fence(name));
    let rows = hardware::read(&file);
    let mutants: Vec<&str> = rows.iter().filter_map(|r| r["mutant"].as_str()).collect();
    assert_eq!(rows.len() - mutants.len(), CASES.len());
    assert!(listed.iter().all(|(name, equivalent)| mutants.contains(&name.as_str()) == *equivalent));
    assert_eq!(mutants.iter().filter(|name| no_init_fence(name)).count(), 9);
}

/// Random edits of the corpus: whatever they mean, the simulator reports and does not panic.
/// `PTX_SIM_EDITS=20000` tries more.
#[test]
fn random_edits_do_not_panic() {
    let n: u64 = std::env::var("PTX_SIM_EDITS").ok().and_then(|s| s.parse().ok()).unwrap_or(600);
    (0..n).into_par_iter().for_each(|seed| {
        let mut x = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = |n: usize| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 33) as usize % n
        };
        let c = &CASES[next(CASES.len())];
        let mut lines: Vec<String> = c.ptx.lines().map(String::from).collect();
        let body = lines.iter().position(|l| l == "{").unwrap() + 1;
        for _ in 0..1 + next(3) {
            let (a, b) = (body + next(lines.len() - body - 1), body + next(lines.len() - body - 1));
            if lines[a].starts_with('.') || lines[b].starts_with('.') {
                continue;
            }
            match next(4) {
                0 => lines.swap(a, b),
                1 => lines[a] = lines[b].clone(),
                2 => lines[a] = lines[a].replace("@!", "@").replace("bra ", "bra.uni "),
                _ => {
                    // Another number.
                    let digits: Vec<usize> =
                        lines[a].char_indices().filter(|c| c.1.is_ascii_digit()).map(|c| c.0).collect();
                    if !digits.is_empty() {
                        let at = digits[next(digits.len())];
                        let to = ["0", "1", "7", "16", "255", "4096", "65535", "16777216", "4294967295"];
                        lines[a].replace_range(at..at + 1, to[next(to.len())]);
                    }
                }
            }
        }
        let text = lines.join("\n");
        if ptx_sim::Module::parse(&text).is_ok_and(|m| m.check().is_ok()) {
            let mode = if next(2) == 0 { Early } else { Late };
            let run = std::panic::catch_unwind(|| c.run_limited(&text, seed, mode, 20_000));
            assert!(run.is_ok(), "{} edit {seed} {mode:?} panics:\n{text}", c.name);
        }
    });
}
