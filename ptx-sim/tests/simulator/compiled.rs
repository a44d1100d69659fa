//! Lanes of a warp in code that nvcc compiles, optimised and for a debugger (`data/lanes/README.md`).

use crate::common::*;
use ptx_sim::{AsyncMode, FindingKind as K, Launch, Memory, Module, Report, launch};

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!("../data/lanes/", $name, ".ptx"))
    };
}

/// Runs the kernel on one CTA of 64 threads, under some schedules, early and late: `out` is the same in all.
fn go(ptx: &str, input: &[u32], outputs: usize) -> (Vec<Report>, Vec<u32>) {
    let m = Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"));
    let kernel = m.kernels().next().unwrap().name.clone();
    let (mut reports, mut result) = (vec![], None);
    for (seed, async_mode) in (0..6).flat_map(|s| [(s, AsyncMode::Early), (s, AsyncMode::Late)]) {
        let mut mem = Memory::new();
        let x = mem.alloc("in", 4 * input.len() as u64).unwrap();
        let y = mem.alloc("out", 4 * outputs as u64).unwrap();
        mem.write(x, &bytes_u32(input)).unwrap();
        let params = vec![param(x), param(y)];
        let block = [64, 1, 1];
        let l = Launch { kernel: kernel.clone(), block, params, seed, async_mode, ..Launch::default() };
        reports.push(launch(&m, &mut mem, &l).unwrap());
        let out = read_u32(&mem, y, outputs);
        if reports[0].is_clean() {
            assert_eq!(*result.get_or_insert(out.clone()), out);
        }
    }
    (reports, result.unwrap_or_default())
}

fn clean(ptx: &str, input: &[u32], outputs: usize) -> Vec<u32> {
    let (reports, out) = go(ptx, input, outputs);
    for r in &reports {
        assert!(r.is_clean(), "{}", r.findings[0]);
    }
    out
}

/// `ptx` without its `n`-th `bar.warp.sync`.
fn without(ptx: &str, n: usize) -> String {
    let (at, _) = ptx.match_indices("bar.warp.sync").nth(n).expect("so many");
    format!("{}// {}", &ptx[..at], &ptx[at..])
}

#[test]
fn cooperative_groups_by_label_and_of_active_lanes() {
    let input: Vec<u32> = (0..64).map(|t| t * 37 % 61).collect();
    let mut want = vec![0; 256];
    for t in 0..64 {
        let warp = t / 32 * 32;
        let group: Vec<usize> = (warp..warp + 32).filter(|o| input[*o] & 3 == input[t] & 3).collect();
        let here: Vec<usize> = (warp..warp + 32).filter(|o| input[*o] & 4 != 0).collect();
        let rank = group.iter().position(|o| *o == t).unwrap();
        want[t] = group.iter().map(|o| input[*o]).sum();
        want[64 + t] = group[..=rank].iter().map(|o| input[*o]).sum();
        want[128 + t] = if input[t] & 4 != 0 { input[here[1]] * 100 + here.len() as u32 } else { 0 };
        want[192 + t] = input[group[(rank + 1) % group.len()]];
    }
    for ptx in [ptx!("groups"), ptx!("groups_G")] {
        assert_eq!(clean(ptx, &input, 256), want);
    }
    // The group's synchronisation orders what its lanes leave for one another.
    let (reports, _) = go(&without(ptx!("groups"), 0), &input, 256);
    for r in reports {
        assert!(find(&r, |k| matches!(k, K::SharedRace(_))).is_some(), "{:?}", r.findings);
    }
}

#[test]
fn one_lane_arrives_for_its_warp() {
    let input: Vec<u32> = (0..128).map(|t| t * 5 + 1).collect();
    let want: Vec<u32> = (0..128).map(|t| 3 * input[t ^ 1]).collect();
    for ptx in [ptx!("elected"), ptx!("elected_G")] {
        assert_eq!(clean(ptx, &input, 128), want);
    }
    let ptx = ptx!("elected");
    let syncs = ptx.matches("bar.warp.sync").count();
    assert!(syncs >= 2);
    let races = |n: &usize| {
        let (reports, _) = go(&without(ptx, *n), &input, 128);
        reports.iter().all(|r| find(r, |k| matches!(k, K::SharedRace(_))).is_some())
    };
    // Nobody waits for the last arrival at `empty`, so the synchronisation before it changes nothing.
    assert_eq!((0..syncs).filter(races).count(), syncs - 1);
}
