//! Batches replay, changed ones do not, and a launch that breaks its process spoils no other.

use std::{path::Path, time::Duration};
use tile_fuzz::{
    export::{self, Batch},
    replay::{Class, Options, Replayed, replay},
};

fn replayed(path: &Path, planted: &[&str], jobs: usize) -> Replayed {
    let mut arguments = vec!["--device".to_string(), "sim".to_string()];
    arguments.extend(planted.iter().map(|what| format!("--plant={what}")));
    let program = env!("CARGO_BIN_EXE_tile-fuzz").into();
    let options = Options { program, arguments, jobs, limit: Duration::from_secs(40) };
    replay(path, &options, &|_| {}).unwrap()
}

fn launches(batch: &Batch, n: usize) -> usize {
    batch.entries[n].launches.len()
}

#[test]
fn a_batch_replays_and_a_broken_process_spoils_no_other_launch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batch");
    let exported = export::export(3, 12, 2, &path, &|_| {}).unwrap();
    assert!(exported.kernels >= 12 && exported.launches >= exported.kernels, "{exported:?}");
    let mut batch = export::read(&path).unwrap();
    let programs = batch.entries.len();
    assert!(programs >= 4, "{exported:?}");
    assert!(batch.entries.iter().any(|entry| entry.id.contains('+')), "a pair of directives was drawn");
    let whole = replayed(&path, &[], 1);
    assert!(whole.passed(), "{whole}");
    assert_eq!((whole.of(Class::Equal), whole.processes), (exported.launches, 1));

    // One that ends, one that stands for a CUDA error: all others run, in processes behind them.
    let broken = replayed(&path, &["0:abort", "2:error"], 1);
    assert_eq!(
        broken.of(Class::Equal),
        exported.launches - launches(&batch, 0) - launches(&batch, 2),
        "{broken}"
    );
    assert_eq!((broken.of(Class::Died), broken.of(Class::Error), broken.processes), (1, 1, 3), "{broken}");
    assert_eq!(broken.of(Class::LeftOut), launches(&batch, 0) + launches(&batch, 2) - 2, "{broken}");
    let ids: Vec<&str> = broken.bad.iter().map(|bad| bad.id.as_str()).collect();
    assert!(ids.contains(&batch.entries[0].id.as_str()) && ids.contains(&batch.entries[2].id.as_str()));

    // A changed result is a wrong value, and says where; the simulator's own is not the one that was exported.
    let stored = &mut batch.entries[1].launches[0].stored;
    *stored.values_mut().next().unwrap() ^= 1;
    export::write(&batch, &path).unwrap();
    let changed = replayed(&path, &[], 2);
    assert_eq!((changed.of(Class::Wrong), changed.of(Class::Equal)), (1, exported.launches - 1), "{changed}");
    assert!(changed.bad[0].message.contains("when it was exported"), "{changed}");
    std::fs::write(&path, b"no batch").unwrap();
    assert!(export::read(&path).is_err());
}

#[test]
fn a_kernel_that_never_ends_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batch");
    let exported = export::export(5, 4, 2, &path, &|_| {}).unwrap();
    let batch = export::read(&path).unwrap();
    let arguments = ["--device", "sim", "--plant=1:hang"].map(String::from).to_vec();
    let program = env!("CARGO_BIN_EXE_tile-fuzz").into();
    let options = Options { program, arguments, jobs: 1, limit: Duration::from_secs(10) };
    let hung = replay(&path, &options, &|_| {}).unwrap();
    assert_eq!((hung.of(Class::Hung), hung.of(Class::LeftOut)), (1, launches(&batch, 1) - 1), "{hung}");
    assert_eq!(hung.of(Class::Equal), exported.launches - launches(&batch, 1), "{hung}");
    assert!(hung.to_string().contains("nothing in 10 s"), "{hung}");
}
