//! "The simulator on your own CUDA code".

// ANCHOR: run
use tilewright::sim::{Launch, Memory, Module, Report, launch};

/// Runs a kernel that reverses the 64 words of a block through shared memory.
pub fn reverse(ptx: &str) -> Result<(Vec<u32>, Report), Box<dyn std::error::Error>> {
    let module = Module::parse(ptx)?;
    let mut memory = Memory::new();
    let x = memory.alloc("x", 256)?;
    let words: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
    memory.write(x, &words)?;
    let report = launch(
        &module,
        &mut memory,
        &Launch {
            kernel: "reverse".into(),
            block: [64, 1, 1],
            params: vec![x.to_le_bytes().to_vec()],
            ..Launch::default()
        },
    )?;
    let mut bytes = [0; 256];
    memory.read(x, &mut bytes)?;
    let words = bytes.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Ok((words, report))
}
// ANCHOR_END: run

/// PTX of the kernel of the page, without its barrier.
const RACY: &str = include_str!("reverse.ptx");

#[test]
fn the_race_is_found() {
    let (_, report) = reverse(RACY).expect("a run");
    assert!(!report.is_clean());
    let text: Vec<String> = report.findings.iter().map(|finding| finding.to_string()).collect();
    super::assert_recorded("reverse.txt", &(text.join("\n") + "\n"));
}

// ANCHOR: solution
#[test]
fn a_barrier_mends_it() {
    let mended = RACY.replace("// barrier", "bar.sync 0;");
    let (words, report) = reverse(&mended).unwrap();
    assert!(report.is_clean());
    assert_eq!(words, (0..64).rev().collect::<Vec<u32>>());
}
// ANCHOR_END: solution
