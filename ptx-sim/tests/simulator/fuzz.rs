//! Damaged PTX is refused with a place, never with a panic. `PTX_SIM_FUZZ_ROUNDS` sets the number of rounds,
//! `PTX_SIM_FUZZ_SECONDS` a time to go on for, `PTX_SIM_FUZZ_SEED` other damages.

use ptx_sim::Module;
use std::time::{Duration, Instant};

const SEEDS: [&str; 8] = [
    include_str!("../data/triton/matmul_tma_ws.sm90.ptx"),
    include_str!("../data/triton/matmul_split_k.sm90.ptx"),
    include_str!("../data/triton/argmax.sm80.ptx"),
    include_str!("../data/llvm/saxpy.ptx"),
    include_str!("../data/llvm/matmul.ptx"),
    include_str!("../data/llvm/misc.ptx"),
    include_str!("../data/llvm/half.ptx"),
    ".version 8.4\n.target sm_90a\n.address_size 64\n.shared .align 8 .b8 b[64]; .global .u32 g[2] = {1, 2};
     .entry k(.param .align 64 .b8 m[128]) .maxntid 32 { .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .f32 %f<9>;
     L: mbarrier.try_wait.parity.shared.b64 %p, [b+8], 0; @!%p bra L;
     cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [b], [%d0, {%r0, -1}], [b+8];
     wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %d1, %d2, 1, 1, -1, 0, 1;
     mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2}, {%r3}, {%f4,%f5,%f6,%f7};
     shfl.sync.idx.b32 %r1|%p, %r2, 0, 31, -1; atom.global.cas.b64 %d1, [%d0], 0, 1; mov.b64 {%r1, _}, %d0; ret; }",
];

#[test]
fn damaged_text_never_panics() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let least = number("PTX_SIM_FUZZ_ROUNDS").unwrap_or(4000);
    let time = Duration::from_secs(number("PTX_SIM_FUZZ_SECONDS").unwrap_or(0));
    let start = Instant::now();
    for s in SEEDS {
        Module::parse(s).and_then(|m| m.check()).unwrap_or_else(|e| panic!("{e}"));
    }
    let words: Vec<&str> =
        SEEDS.iter().flat_map(|s| s.split_inclusive([' ', ',', '.', ';', '\t', '[', '{'])).collect();
    let seed = number("PTX_SIM_FUZZ_SEED").unwrap_or(0);
    let mut state = 0x1234_5678_9abc_def1u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n.max(1)
    };
    let (mut refused, mut rounds) = (0, 0);
    while rounds < least || start.elapsed() < time {
        rounds += 1;
        let mut bytes = SEEDS[next(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..1 + next(4) {
            if bytes.is_empty() {
                break;
            }
            let at = next(bytes.len());
            match next(5) {
                0 => drop(bytes.drain(at..(at + 1 + next(12)).min(bytes.len()))),
                1 => bytes[at] = (next(256)) as u8,
                2 => drop(bytes.splice(at..at, words[next(words.len())].bytes())),
                3 => {
                    let end = (at + 1 + next(60)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = next(bytes.len());
                    drop(bytes.splice(to..to, piece));
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(e) = Module::parse(&text).and_then(|m| m.check()) {
            refused += 1;
            assert!(e.line >= 1 && e.column >= 1 && !e.message.is_empty(), "round {rounds}");
        }
    }
    println!("{rounds} texts, {refused} refused, {:?}", start.elapsed());
    assert!(refused > rounds / 2, "{refused} of {rounds}");
    let deep = format!(".version 8.0\n.target sm_80\n.entry k() {{ mov.b32 {}1; }}", "{[".repeat(100_000));
    assert!(Module::parse(&deep).and_then(|m| m.check()).unwrap_err().message.contains("less nesting"));
}
