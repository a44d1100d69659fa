//! Kernels that the Triton compiler wrote (`tests/data/triton`) give the right results without a finding: early and
//! late asynchronous operations, two schedules, against references computed here in f64.

mod harness;
mod matrix;
mod vector;

/// Every recorded file has a test that ran it: none is left over when a case is renamed.
#[test]
fn every_file_is_recorded() {
    let mut recorded: Vec<String> =
        harness::cases().iter().map(|c| format!("{}.sm{}.ptx", c.name, c.sm)).collect();
    let mut there: Vec<String> = std::fs::read_dir(harness::folder())
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .filter(|f| f.ends_with(".ptx"))
        .collect();
    recorded.sort();
    there.sort();
    assert_eq!(recorded, there);
    let mut names: Vec<&str> = matrix::NAMES.iter().chain(vector::NAMES).copied().collect();
    names.sort();
    recorded.dedup_by_key(|f| f.split('.').next().unwrap().to_string());
    assert_eq!(recorded.iter().map(|f| f.split('.').next().unwrap()).collect::<Vec<_>>(), names);
}
