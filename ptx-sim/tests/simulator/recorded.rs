//! What `scripts/record-h200.py` recorded on an H200, run through the simulator: every row, bit for bit.

use crate::common::recorded::Recording;
use ptx_sim::Access;

#[test]
fn instructions_of_part_of_a_warp() {
    assert_eq!(Recording::load("masks").reproduce(|_| true), 446);
}

#[test]
fn matrices_of_ldmatrix_and_stmatrix() {
    assert_eq!(Recording::load("matrices").reproduce(|_| true), 48);
}

#[test]
fn mma_of_every_type() {
    assert_eq!(Recording::load("mma").reproduce(|_| true), 136);
}

#[test]
fn wgmma_of_every_type() {
    assert_eq!(Recording::load("wgmma").reproduce(|row| row.get("case").is_none()), 80);
}

#[test]
fn descriptors_that_start_inside_the_swizzle_pattern() {
    assert_eq!(Recording::load("wgmma").reproduce(|row| row.get("case").is_some()), 660);
}

#[test]
fn tensor_copies() {
    assert_eq!(Recording::load("tensors").reproduce(|_| true), 173);
}

#[test]
fn sectors_and_wavefronts_of_part_of_a_warp() {
    let recording = Recording::load("counters");
    let mut bad = vec![];
    for (i, row) in recording.rows.iter().enumerate() {
        let (report, _) = recording.run(row, |l| l.uninit_check = false);
        // Several lanes may store to one word.
        let (c, name) = (&report.counters, row["kernel"].as_str().unwrap());
        let (got, want) = match &name[..3] {
            "lds" | "ldm" => (c.shared_load.wavefronts, &row["counts"]["wavefronts"]),
            "sts" | "stm" => (c.shared_store.wavefronts, &row["counts"]["wavefronts"]),
            "ldg" => (c.buffer("data", Access::Load).sectors, &row["counts"]["sectors"]),
            _ => (c.buffer("data", Access::Store).sectors, &row["counts"]["sectors"]),
        };
        if got != want.as_u64().unwrap() {
            bad.push(format!("row {i} {name}: {got}, recorded {want}"));
        }
    }
    assert!(bad.is_empty(), "{} of {} rows differ:\n{}", bad.len(), recording.rows.len(), bad.join("\n"));
    assert_eq!(recording.rows.len(), 602);
}
