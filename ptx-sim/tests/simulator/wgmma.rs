//! `wgmma` as recorded on an H200: descriptors and layouts (48 cases), numerics (192 tiles); and what is found when
//! a fence or wait is missing.

use crate::common::recorded;
use crate::common::*;
use ptx_sim::{AsyncMode, FindingKind as K, Launch, Memory, Module, Report, launch};

fn layout_kernel(ta: u32, tb: u32) -> String {
    let regs = |f: &dyn Fn(usize) -> String| (0..32).map(f).collect::<Vec<_>>().join(",");
    let d = regs(&|i| format!("%f{i}"));
    let stores: String = (0..32).map(|i| format!("st.global.f32 [%o+{}],%f{i};\n", 4 * i)).collect();
    let zeros: String = (0..32).map(|i| format!("mov.f32 %f{i},0f00000000;")).collect();
    format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 pa,.param .u64 po,.param .u64 pda,.param .u64 pdb){{ .reg .u32 %t,%off,%b,%s; .reg .u64 %a,%o,%w,%g; .reg .b32 %x0; .reg .pred %p; .reg .f32 %f<32>; .reg .b64 %da,%db; .shared .align 1024 .b8 sm[32768];
 mov.u32 %s,%tid.x; ld.param.u64 %a,[pa]; ld.param.u64 %o,[po]; mul.wide.u32 %w,%s,128; add.s64 %o,%o,%w; mov.u32 %b,sm; mov.u32 %t,%s;
L: mul.wide.u32 %w,%t,4; add.s64 %g,%a,%w; ld.global.b32 %x0,[%g]; shl.b32 %off,%t,2; add.u32 %off,%off,%b; st.shared.b32 [%off],%x0; add.u32 %t,%t,128; setp.lt.u32 %p,%t,8192; @%p bra L;
 fence.proxy.async; bar.sync 0; shr.u32 %b,%b,4; cvt.u64.u32 %w,%b; ld.param.u64 %da,[pda]; ld.param.u64 %db,[pdb]; add.s64 %da,%da,%w; add.s64 %db,%db,%w; {zeros} setp.eq.u32 %p,0,1;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{d}}},%da,%db,%p,1,1,{ta},{tb}; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
 {stores} ret; }}"
    )
}

/// Runs case 0 of the layouts with an edited kernel.
fn layout(case: &[i64], edit: impl Fn(String) -> String, mode: AsyncMode) -> (Report, Vec<u32>) {
    let image = recorded::bytes("wgmma_layout.image");
    let desc = |start: i64, lbo: i64, sbo: i64| {
        ((start >> 4) | (lbo >> 4) << 16 | (sbo >> 4) << 32) as u64 | (case[2] as u64) << 62
    };
    let m =
        Module::parse(&edit(layout_kernel(case[0] as u32, case[1] as u32))).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let a = mem.alloc("image", image.len() as u64).unwrap();
    let o = mem.alloc("out", 128 * 128).unwrap();
    mem.write(a, &image).unwrap();
    let params = vec![
        param(a),
        param(o),
        param(desc(case[3], case[4], case[5])),
        param(desc(case[6], case[7], case[8])),
    ];
    let l = Launch {
        kernel: "k".into(),
        block: [128, 1, 1],
        params,
        async_mode: mode,
        max_instructions: 1 << 20,
        ..Launch::default()
    };
    let r = launch(&m, &mut mem, &l).unwrap();
    let out = read_u32(&mem, o, 128 * 32);
    (r, out)
}

fn cases() -> Vec<Vec<i64>> {
    recorded::words("wgmma_layout.cases")
        .chunks_exact(9)
        .map(|c| c.iter().map(|v| *v as i64).collect())
        .collect()
}

#[test]
fn every_recorded_layout() {
    let outs = recorded::words("wgmma_layout.outs");
    let cases = cases();
    assert_eq!(cases.len(), 48);
    for (case, want) in cases.iter().zip(outs.chunks_exact(128 * 32)) {
        for mode in [AsyncMode::Early, AsyncMode::Late] {
            let (r, got) = layout(case, |t| t, mode);
            assert!(r.is_clean(), "{case:?}: {}", r.findings[0]);
            let bad = got.iter().zip(want).filter(|(g, w)| g != w).count();
            assert_eq!(bad, 0, "{case:?} {mode:?}");
        }
    }
}

#[test]
fn missing_fences_and_waits() {
    let case = cases().into_iter().find(|c| c[2] == 1).unwrap();
    let found = |from: &str, to: &str, mode| {
        layout(
            &case,
            |t| {
                assert!(t.contains(from));
                t.replace(from, to)
            },
            mode,
        )
        .0
        .findings
        .into_iter()
        .map(|f| f.kind)
        .collect::<Vec<_>>()
    };
    for mode in [AsyncMode::Early, AsyncMode::Late] {
        assert!(found("fence.proxy.async;", "", mode).contains(&K::MissingProxyFence));
        assert!(found("bar.sync 0;", "", mode).contains(&K::AsyncRace));
        assert!(found("wgmma.fence.sync.aligned;", "", mode).contains(&K::WgmmaFence));
        assert!(found("wgmma.wait_group.sync.aligned 0;", "", mode).contains(&K::WgmmaFence));
        assert!(found("wgmma.commit_group.sync.aligned;", "", mode).contains(&K::WgmmaFence));
        // The accumulators are cleared after the fence.
        assert!(
            found("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned; mov.f32 %f7, 0f00000000;", mode)
                .contains(&K::WgmmaFence)
        );
        // An accumulator is read while in flight, with nothing that depends on it.
        assert!(
            found("wgmma.wait_group", "mov.b32 %x0, %f3; wgmma.wait_group", mode).contains(&K::WgmmaFence)
        );
    }
    let (_, got) = layout(&case, |t| t.replace("wgmma.wait_group.sync.aligned 0;", ""), AsyncMode::Late);
    assert_eq!(got[0], !0, "a missing wait must give wrong data");
}

fn numerics(name: &str, ty: &str) {
    let a = recorded::words(&format!("tensor_core_numerics.wgn{name}_a"));
    let b = recorded::words(&format!("tensor_core_numerics.wgn{name}_b"));
    let want = recorded::words(&format!("tensor_core_numerics.wgn{name}_out"));
    let text = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 pa,.param .u64 pb,.param .u64 po){{ .reg .u32 %t,%off,%b,%s; .reg .u64 %a,%o,%w,%g; .reg .b32 %x<12>; .reg .pred %p; .reg .f32 %f<8>; .reg .b64 %d; .shared .align 1024 .b8 sm[1024];
 mov.u32 %s,%tid.x; mov.u32 %t,%ctaid.x; ld.param.u64 %g,[pb]; mul.wide.u32 %w,%t,256; add.s64 %g,%g,%w; shl.b32 %t,%t,7; add.u32 %t,%t,%s;
 setp.lt.u32 %p,%s,64; mul.wide.u32 %w,%s,4; add.s64 %g,%g,%w; mov.u32 %b,sm; shl.b32 %off,%s,2; add.u32 %off,%off,%b; @%p ld.global.b32 %x8,[%g]; @%p st.shared.b32 [%off],%x8;
 ld.param.u64 %a,[pa]; ld.param.u64 %o,[po]; mul.wide.u32 %w,%t,32; add.s64 %a,%a,%w; mul.wide.u32 %w,%t,16; add.s64 %o,%o,%w;
 ld.global.v4.b32 {{%x0,%x1,%x2,%x3}},[%a]; ld.global.v4.f32 {{%f0,%f1,%f2,%f3}},[%a+16];
 fence.proxy.async; bar.sync 0; shr.u32 %b,%b,4; cvt.u64.u32 %d,%b; and.b64 %d,%d,0x3FFF; or.b64 %d,%d,0x0000001000080000; setp.eq.u32 %p,0,0;
 wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.{ty}.{ty} {{%f0,%f1,%f2,%f3}},{{%x0,%x1,%x2,%x3}},%d,%p,1,1,0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
 st.global.v4.f32 [%o],{{%f0,%f1,%f2,%f3}}; ret; }}"
    );
    let m = Module::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let (pa, pb, po) = (
        mem.alloc("a", 4 * a.len() as u64).unwrap(),
        mem.alloc("b", 4 * b.len() as u64).unwrap(),
        mem.alloc("out", 4 * want.len() as u64).unwrap(),
    );
    mem.write(pa, &bytes_u32(&a)).unwrap();
    mem.write(pb, &bytes_u32(&b)).unwrap();
    let l = Launch {
        kernel: "k".into(),
        grid: [96, 1, 1],
        block: [128, 1, 1],
        params: vec![param(pa), param(pb), param(po)],
        ..Launch::default()
    };
    let r = launch(&m, &mut mem, &l).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    let bad = read_u32(&mem, po, want.len()).iter().zip(&want).filter(|(g, w)| g != w).count();
    assert_eq!((bad, want.len()), (0, 96 * 512));
}

#[test]
fn numerics_f16() {
    numerics("f16", "f16");
}

#[test]
fn numerics_bf16() {
    numerics("bf16", "bf16");
}

/// Bits of a small integer in the type of an element.
fn encode(ty: &str, v: i32) -> u32 {
    let f16 = [0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200][(v + 3) as usize];
    match ty {
        "tf32" => (v as f32).to_bits(),
        "f16" => f16,
        "e5m2" => f16 >> 8,
        "e4m3" => [0xc4, 0xc0, 0xb8, 0, 0x38, 0x40, 0x44][(v + 3) as usize],
        _ => v as u8 as u32,
    }
}

/// Twice A·Bᵀ of 64×16 small integers, both operands in shared memory without swizzle, A of `ta` and B of `tb`.
fn types(shape: &str, d: &str, ta: &str, tb: &str) {
    let es = if ta == "tf32" { 4 } else { 1 + (ta == "f16") as usize };
    let k = 32 / es;
    let value = |ty: &str, r: usize, x: usize, m: usize| {
        let v = ((m * r + 5 * x) % 7) as i32 - 3;
        if ty.starts_with('u') { v.abs() } else { v }
    };
    // Core matrices of 8 rows of 16 bytes; the next 16 bytes of a row 128 on, the next 8 rows 256.
    let mut image = vec![0u8; 64 * 32 + 16 * 32];
    for (first, ty, rows, m) in [(0, ta, 64, 3), (64 * 32, tb, 16, 2)] {
        for r in 0..rows {
            for x in 0..k {
                let byte = x * es;
                let at = first + r / 8 * 256 + byte / 16 * 128 + r % 8 * 16 + byte % 16;
                image[at..at + es].copy_from_slice(&encode(ty, value(ty, r, x, m)).to_le_bytes()[..es]);
            }
        }
    }
    let half = d == "f16";
    let n = if half { 4 } else { 8 };
    let regs = (0..n).map(|i| format!("%x{i}")).collect::<Vec<_>>().join(",");
    let imm = match ta {
        "f16" => ",1,1,0,0",
        "s8" | "u8" => "",
        _ => ",1,1",
    };
    let mma = format!("wgmma.mma_async.sync.aligned.{shape}.{d}.{ta}.{tb} {{{regs}}},%da,%db,%p{imm};");
    let stores: String = (0..n).map(|i| format!("st.global.b32 [%o+{}],%x{i};\n", 4 * i)).collect();
    let text = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 pa,.param .u64 po){{ .reg .u32 %t,%b,%s; .reg .u64 %a,%o,%w,%da,%db; .reg .b32 %x<8>,%y; .reg .pred %p; .shared .align 1024 .b8 sm[2560];
 mov.u32 %s,%tid.x; ld.param.u64 %a,[pa]; ld.param.u64 %o,[po]; mul.wide.u32 %w,%s,{}; add.s64 %o,%o,%w; mov.u32 %b,sm; mul.wide.u32 %w,%s,4; add.s64 %a,%a,%w; shl.b32 %t,%s,2; add.u32 %t,%t,%b;
 ld.global.b32 %y,[%a]; st.shared.b32 [%t],%y; ld.global.b32 %y,[%a+512]; st.shared.b32 [%t+512],%y; ld.global.b32 %y,[%a+1024]; st.shared.b32 [%t+1024],%y;
 ld.global.b32 %y,[%a+1536]; st.shared.b32 [%t+1536],%y; ld.global.b32 %y,[%a+2048]; st.shared.b32 [%t+2048],%y;
 fence.proxy.async; bar.sync 0; shr.u32 %b,%b,4; cvt.u64.u32 %da,%b; or.b64 %da,%da,0x0000001000080000; add.s64 %db,%da,128;
 wgmma.fence.sync.aligned; setp.ne.u32 %p,0,0; {mma} setp.eq.u32 %p,0,0; {mma} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; {stores} ret; }}",
        4 * n
    );
    let m = Module::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    for mode in [AsyncMode::Early, AsyncMode::Late] {
        let mut mem = Memory::new();
        let a = mem.alloc("image", image.len() as u64).unwrap();
        let o = mem.alloc("out", 128 * 4 * n as u64).unwrap();
        mem.write(a, &image).unwrap();
        let params = vec![param(a), param(o)];
        let l =
            Launch { kernel: "k".into(), block: [128, 1, 1], params, async_mode: mode, ..Launch::default() };
        let r = launch(&m, &mut mem, &l).unwrap();
        assert!(r.is_clean(), "{shape} {ta}: {}", r.findings[0]);
        let got = read_u32(&mem, o, 128 * n);
        for t in 0..128 {
            for i in 0..8 {
                let row = 16 * (t / 32) + t % 32 / 4 + 8 * (i >> 1 & 1);
                let col = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
                let sum: i32 = (0..k).map(|x| value(ta, row, x, 3) * value(tb, col, x, 2)).sum();
                let got = match half {
                    true => got[t * n + i / 2] >> (16 * (i & 1)) & 0xffff,
                    false => got[t * n + i],
                };
                let want = match d {
                    "s32" => (2 * sum) as u32,
                    "f32" => (2.0 * sum as f32).to_bits(),
                    _ => half_bits(2 * sum),
                };
                assert_eq!(got, want, "{shape} {ta} {tb} row {row} col {col}");
            }
        }
    }
}

/// f16 bits of an integer below 2^11 in magnitude.
fn half_bits(v: i32) -> u32 {
    let a = v.unsigned_abs();
    if a == 0 {
        return 0;
    }
    let e = a.ilog2();
    ((v < 0) as u32) << 15 | (15 + e) << 10 | (a << (10 - e)) & 0x3ff
}

#[test]
fn every_type() {
    types("m64n16k16", "f32", "f16", "f16");
    types("m64n16k16", "f16", "f16", "f16");
    types("m64n16k8", "f32", "tf32", "tf32");
    for d in ["f32", "f16"] {
        for (a, b) in [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2")] {
            types("m64n16k32", d, a, b);
        }
    }
    for (a, b) in [("s8", "s8"), ("u8", "u8"), ("s8", "u8"), ("u8", "s8")] {
        types("m64n16k32", "s32", a, b);
    }
}
