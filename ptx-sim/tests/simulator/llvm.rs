//! PTX that LLVM 22 made of the `.ll` files next to it (`llc -O2 -mcpu=sm_80 -mattr=+ptx80`).

use crate::common::*;
use ptx_sim::{Access, InstClass, Launch, Memory, Module, Report, launch};

fn go(
    text: &str,
    kernel: &str,
    mem: &mut Memory,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<Vec<u8>>,
) -> Report {
    let m = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let r =
        launch(&m, mem, &Launch { kernel: kernel.into(), grid, block, params, ..Launch::default() }).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    r
}

#[test]
fn saxpy() {
    let mut mem = Memory::new();
    let n = 1000u32;
    let (x, y) = (mem.alloc("x", 4 * n as u64).unwrap(), mem.alloc("y", 4 * n as u64).unwrap());
    mem.write(x, &bytes_f32(&(0..n).map(|i| i as f32).collect::<Vec<_>>())).unwrap();
    mem.write(y, &bytes_f32(&vec![1.0; n as usize])).unwrap();
    let params = vec![param(x), param(y), 2f32.to_le_bytes().to_vec(), n.to_le_bytes().to_vec()];
    let r = go(include_str!("../data/llvm/saxpy.ptx"), "saxpy", &mut mem, [8, 1, 1], [128, 1, 1], params);
    assert_eq!(read_f32(&mem, y, 1000), (0..n).map(|i| 2.0 * i as f32 + 1.0).collect::<Vec<_>>());
    let c = &r.counters;
    assert_eq!(
        (c.flops, c.global_load.bytes, c.global_store.bytes),
        (2 * n as u64, 8 * n as u64, 4 * n as u64)
    );
    // 31 full warps and one of 8 lanes.
    assert_eq!((c.buffer("x", Access::Load).requests, c.buffer("x", Access::Load).sectors), (32, 125));
    assert_eq!(c.class(InstClass::Fma).thread, n as u64);
}

#[test]
fn tiled_matmul() {
    let (m, n, k) = (32usize, 48usize, 64usize);
    let mut mem = Memory::new();
    let a: Vec<f32> = (0..m * k).map(|i| ((i * 7) % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| ((i * 5) % 11) as f32 - 5.0).collect();
    let pa = mem.alloc("a", 4 * a.len() as u64).unwrap();
    let pb = mem.alloc("b", 4 * b.len() as u64).unwrap();
    let pc = mem.alloc("c", 4 * (m * n) as u64).unwrap();
    mem.write(pa, &bytes_f32(&a)).unwrap();
    mem.write(pb, &bytes_f32(&b)).unwrap();
    let int = |v: usize| (v as u32).to_le_bytes().to_vec();
    let r = go(
        include_str!("../data/llvm/matmul.ptx"),
        "matmul",
        &mut mem,
        [n as u32 / 16, m as u32 / 16, 1],
        [16, 16, 1],
        vec![param(pa), param(pb), param(pc), int(n), int(k)],
    );
    let c = read_f32(&mem, pc, m * n);
    for i in 0..m {
        for j in 0..n {
            let want: f32 = (0..k).map(|x| a[i * k + x] * b[x * n + j]).sum();
            assert_eq!(c[i * n + j], want);
        }
    }
    let c = &r.counters;
    assert_eq!(c.flops, 2 * (m * n * k) as u64);
    // Two barriers a k-tile, four k-tiles, six CTAs.
    assert_eq!((c.barriers, c.barriers_per_cta), (2 * 4 * 6, 8.0));
    assert_eq!(c.shared_store.bank_conflicts, 0);
    // Requested bytes fall by the tile width against one load of A and B per multiply-add.
    assert_eq!(c.global_load.bytes, (2 * 4 * m * n * k / 16) as u64);
    assert_eq!(c.buffer("a", Access::Load).sectors_per_request(), 4.0);
}

#[test]
fn softmax_with_shuffles() {
    let (rows, n) = (5usize, 77usize);
    let mut mem = Memory::new();
    let x: Vec<f32> = (0..rows * n).map(|i| ((i * 37) % 101) as f32 / 10.0).collect();
    let (px, py) = (mem.alloc("x", 4 * x.len() as u64).unwrap(), mem.alloc("y", 4 * x.len() as u64).unwrap());
    mem.write(px, &bytes_f32(&x)).unwrap();
    let params = vec![param(px), param(py), (n as u32).to_le_bytes().to_vec()];
    go(
        include_str!("../data/llvm/softmax.ptx"),
        "softmax",
        &mut mem,
        [rows as u32, 1, 1],
        [32, 1, 1],
        params,
    );
    let y = read_f32(&mem, py, x.len());
    for r in 0..rows {
        let row = &x[r * n..(r + 1) * n];
        let max = row.iter().cloned().fold(f32::MIN, f32::max) as f64;
        let sum: f64 = row.iter().map(|v| (*v as f64 - max).exp()).sum();
        for c in 0..n {
            let want = (row[c] as f64 - max).exp() / sum;
            assert!((y[r * n + c] as f64 - want).abs() < 1e-6, "{r} {c}");
        }
    }
}

#[test]
fn half_precision_and_conversions() {
    let mut mem = Memory::new();
    let (h, b, o) =
        (mem.alloc("h", 256).unwrap(), mem.alloc("b", 128).unwrap(), mem.alloc("o", 256).unwrap());
    // f16 1.5 everywhere, bf16 3.0 everywhere: 4.0 and 7.0 after x·2+1.
    mem.write(h, &[0x00, 0x3e].repeat(128)).unwrap();
    mem.write(b, &[0x40, 0x40].repeat(64)).unwrap();
    go(
        include_str!("../data/llvm/half.ptx"),
        "halves",
        &mut mem,
        [1; 3],
        [32, 1, 1],
        vec![param(h), param(b), param(o)],
    );
    assert_eq!(read_u32(&mem, h, 1)[0], 0x4400_4400);
    assert_eq!(read_u32(&mem, b, 1)[0], 0x40e0_40e0);
    // (4 + 4 + 7) / 2 = 7.5 → 7 as an integer; bf16 of 7.5.
    assert_eq!(read_u32(&mem, o, 2), [7f32.to_bits(), 0x40f0_4700]);
}

#[test]
fn integers_locals_tables_and_branches() {
    let mut mem = Memory::new();
    let (i, o) = (mem.alloc("in", 256).unwrap(), mem.alloc("out", 32 * 48).unwrap());
    let x = |t: u64| t.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    mem.write(i, &(0..32u64).flat_map(|t| x(t).to_le_bytes()).collect::<Vec<_>>()).unwrap();
    go(include_str!("../data/llvm/misc.ptx"), "misc", &mut mem, [1; 3], [32, 1, 1], vec![param(i), param(o)]);
    let out = read_u32(&mem, o, 32 * 12);
    for t in 0..32u32 {
        let v = x(t as u64);
        let xi = v as u32;
        let got = &out[12 * t as usize..][..9];
        let sel = match t & 3 {
            0 => xi / (t | 1),
            1 => ((xi as i32) % (t | 1) as i32) as u32,
            2 => xi.count_ones(),
            _ => xi.reverse_bits(),
        };
        let table = [10u32, 20, 30, 40][(t & 3) as usize];
        let want = [
            sel,
            (v as i64 / 7) as u32,
            (v as i16 / 3) as i32 as u32,
            ((v as i8) >> 2) as i32 as u32,
            v.leading_zeros(),
            xi << 5 | t >> 27,
            xi.swap_bytes(),
            (xi as i32).min(t as i32) as u32,
            (xi & 7) * table,
        ];
        assert_eq!(got, want, "lane {t}");
    }
}
