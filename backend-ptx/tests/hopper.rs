//! Tensor copies, mbarriers, roles and products of a warpgroup: the PTX runs on the simulator.
#![cfg(feature = "codegen")]

use half::bf16;
use ptx_sim::{AsyncMode, Launch, Memory, Module, TensorElement, TensorMap, launch};
use tile_dsl::kernel::{Kernel, parse, verify};

const M: usize = 64;
const N: usize = 64;
const K: usize = 128;
const STAGES: usize = 2;

/// C = A·B for one tile, a ring of two stages of 64 points of k. Roles: a warp that copies, a warpgroup that multiplies.
fn kernel() -> Kernel {
    let registers: Vec<String> = (0..32).map(|n| n.to_string()).collect();
    let registers = format!("acc[{}]", registers.join(", "));
    let zero: String = (0..32).map(|n| format!("    set acc[{n}] = f32(0.0)\n")).collect();
    let products: String = (0..4)
        .map(|s| {
            format!(
                "      wgmma64x64 {registers} += shared a[(%1 + {})] major k swizzle 128 leading 16 stride 1024 \
                 x shared b[(%1 + {})] major mn swizzle 128 leading 8192 stride 1024\n",
                16 * s,
                16 * 64 * s
            )
        })
        .collect();
    let stores: String = (0..32)
        .map(|n| {
            let (group, half, pair) = (n / 4, n / 2 % 2, n % 2);
            format!("    store c[(%5 + {})] = acc[{n}]\n", 8 * half * N + 8 * group + pair)
        })
        .collect();
    let text = format!(
        "kernel tile sm_90a threads 160 {{
  param a: tensor bf16 align 16
  param b: tensor bf16 align 16
  param c: mut tensor f32 align 16
  param a.map: map a [1: 64, 0: 64] swizzle 128
  param b.map: map b [1: 64, 0: 64] swizzle 128
  shared a: bf16[8192] align 1024
  shared b: bf16[8192] align 1024
  shared full: i32[4] align 8
  shared empty: i32[4] align 8
  frag acc: f32[32]
  mbarriers full x {STAGES} of 1
  mbarriers empty x {STAGES} of 4
  barrier
  roles {{
    threads 0 to 128 {{
{zero}    for %0: i32 in 0 to {steps} step 1 {{
      let %1: i32 = ((%0 % {STAGES}) * 4096)
      await shared full[(%0 % {STAGES})] parity ((%0 / {STAGES}) % 2)
      products fence {registers}
{products}      products commit
      products wait 0 {registers}
      if ((tid % 32) == 0) {{
        arrive shared empty[(%0 % {STAGES})]
      }}
    }}
    let %5: i32 = (((tid / 32) * {}) + ((((tid % 32) / 4) * {N}) + ((tid % 4) * 2)))
{stores}    }}
    threads 128 to 160 {{
    one thread 128 {{
      for %2: i32 in 0 to {steps} step 1 {{
        let %3: i32 = ((%2 % {STAGES}) * 4096)
        await shared empty[(%2 % {STAGES})] parity (((%2 / {STAGES}) + 1) % 2)
        arrive shared full[(%2 % {STAGES})] expect 16384
        tensor shared a[%3] <- a.map[(%2 * 64), 0] completes shared full[(%2 % {STAGES})]
        tensor shared b[%3] <- b.map[0, (%2 * 64)] completes shared full[(%2 % {STAGES})]
      }}
    }}
    }}
  }}
}}",
        16 * N,
        steps = K / 64,
    );
    parse::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn the_text_reads_back() {
    let kernel = kernel();
    assert_eq!(parse::parse(&kernel.to_string()).unwrap(), kernel);
}

#[test]
fn a_warp_copies_and_a_warpgroup_multiplies() {
    let kernel = kernel();
    verify::verify(&kernel).unwrap();
    let ptx = backend_ptx::compile(&kernel).unwrap();
    for part in ["wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "elect.sync", ".reqntid 160"] {
        assert!(ptx.text.contains(part), "{part} is not in\n{}", ptx.text);
    }
    assert!(!ptx.text.contains(".local"), "{}", ptx.text);
    let module = Module::parse(&ptx.text).unwrap_or_else(|e| panic!("{e}\n{}", ptx.text));
    let small = |n: usize, seed: usize| ((n * 7 + seed * 5) % 9) as f32 - 4.0;
    for (seed, mode) in [(0, AsyncMode::Late), (1, AsyncMode::Early), (2, AsyncMode::Late)] {
        let mut memory = Memory::new();
        let mut tensor = |name: &str, count: usize, seed: usize| {
            let bytes: Vec<u8> =
                (0..count).flat_map(|n| bf16::from_f32(small(n, seed)).to_le_bytes()).collect();
            let address = memory.alloc(name, bytes.len() as u64).unwrap();
            memory.write(address, &bytes).unwrap();
            address
        };
        let (a, b) = (tensor("a", M * K, 1), tensor("b", K * N, 2));
        let c = memory.alloc("c", (4 * M * N) as u64).unwrap();
        let map = |address, dims: [u64; 2]| {
            let strides = [2 * dims[0]];
            let mut map = TensorMap::new(address, TensorElement::BF16, &dims, &strides, &[64, 64]);
            map.swizzle = ptx_sim::Swizzle::B128;
            map.encode().unwrap().to_vec()
        };
        let params = vec![
            a.to_le_bytes().to_vec(),
            b.to_le_bytes().to_vec(),
            c.to_le_bytes().to_vec(),
            map(a, [K as u64, M as u64]),
            map(b, [N as u64, K as u64]),
        ];
        let launched = Launch {
            kernel: ptx.entry.clone(),
            block: [160, 1, 1],
            dynamic_shared: ptx.dynamic_shared,
            params,
            seed,
            async_mode: mode,
            ..Launch::default()
        };
        let report = launch(&module, &mut memory, &launched).unwrap();
        assert!(report.findings.is_empty(), "{}\n{}", report.findings[0], ptx.text);
        let mut bytes = vec![0; 4 * M * N];
        memory.read(c, &mut bytes).unwrap();
        let sums: Vec<f32> = bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
        for (i, j) in (0..M).flat_map(|i| (0..N).map(move |j| (i, j))) {
            let sum: f32 = (0..K).map(|k| small(i * K + k, 1) * small(k * N + j, 2)).sum();
            assert_eq!(sums[i * N + j], sum, "C[{i}, {j}]");
        }
    }
}
