//! Tensor-core results recorded on an H200, bit for bit, by running the same PTX.

use crate::common::recorded::words;
use crate::common::*;
use ptx_sim::{Launch, Memory, Module, launch};

/// Per lane: 4 registers of A, 2 of B, 2 unused, 4 of C; results as 4 floats.
fn mma(name: &str, inst: &str) {
    let input: Vec<u32> = words(&format!("tensor_core_numerics.mma{name}_in"));
    let want: Vec<u32> = words(&format!("tensor_core_numerics.mma{name}_out"));
    let tiles = want.len() / 128;
    assert_eq!(tiles, 400);
    let ptx = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 pa, .param .u64 po) {{
        .reg .b32 %t, %s, %x<8>; .reg .b64 %a, %o, %w; .reg .f32 %f<8>;
        mov.u32 %t, %ctaid.x; shl.b32 %t, %t, 5; mov.u32 %s, %tid.x; add.u32 %t, %t, %s; ld.param.u64 %a, [pa]; ld.param.u64 %o, [po];
        mul.wide.u32 %w, %t, 48; add.s64 %a, %a, %w; mul.wide.u32 %w, %t, 16; add.s64 %o, %o, %w;
        ld.global.v4.b32 {{%x0,%x1,%x2,%x3}}, [%a]; ld.global.v4.b32 {{%x4,%x5,%x6,%x7}}, [%a+16]; ld.global.v4.f32 {{%f0,%f1,%f2,%f3}}, [%a+32];
        mma.sync.aligned.{inst} {{%f4,%f5,%f6,%f7}}, {{%x0,%x1,%x2,%x3}}, {{%x4,%x5}}, {{%f0,%f1,%f2,%f3}};
        st.global.v4.f32 [%o], {{%f4,%f5,%f6,%f7}}; ret; }}"
    );
    let m = Module::parse(&ptx).unwrap();
    let mut mem = Memory::new();
    let a = mem.alloc("in", 4 * input.len() as u64).unwrap();
    let o = mem.alloc("out", 4 * want.len() as u64).unwrap();
    mem.write(a, &bytes_u32(&input)).unwrap();
    let l = Launch {
        kernel: "k".into(),
        grid: [tiles as u32, 1, 1],
        params: vec![param(a), param(o)],
        ..Launch::default()
    };
    let r = launch(&m, &mut mem, &l).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    let got = read_u32(&mem, o, want.len());
    let bad = got.iter().zip(&want).filter(|(g, w)| g != w).count();
    assert_eq!(bad, 0, "{bad} of {} differ", want.len());
}

#[test]
fn mma_f16() {
    mma("f16", "m16n8k16.row.col.f32.f16.f16.f32");
}

#[test]
fn mma_bf16() {
    mma("bf16", "m16n8k16.row.col.f32.bf16.bf16.f32");
}

#[test]
fn mma_tf32() {
    mma("tf32", "m16n8k8.row.col.f32.tf32.tf32.f32");
}

#[test]
fn mma_e4m3() {
    mma("e4m3", "m16n8k32.row.col.f32.e4m3.e4m3.f32");
}

/// Small integers, where every order of summation agrees: checks the fragment layouts of the other shapes.
fn layout(inst: &str, bits: usize, rows: usize, k: usize, encode: impl Fn(i32) -> u32, int: bool) {
    let (na, nb, nc) = (rows * k * bits / 1024, 8 * k * bits / 1024, rows / 4);
    let a = |r: usize, c: usize| ((r * 3 + c * 5) % 7) as i32 - 3;
    let b = |r: usize, c: usize| ((r * 2 + c * 3) % 5) as i32 - 2;
    let epr = 32 / bits;
    let mut input = vec![];
    for lane in 0..32 {
        let (g, t) = (lane / 4, lane % 4);
        let word = |f: &dyn Fn(usize) -> i32| (0..epr).fold(0, |w, j| w | encode(f(j)) << (bits * j));
        for i in 0..na {
            // PTX ISA §9.7.14: odd registers hold the rows below, the upper half of them the columns to the right.
            let (dr, dk) = if rows == 8 { (0, i * epr * 4) } else { (8 * (i % 2), (i / 2) * epr * 4) };
            input.push(word(&|j| a(g + dr, t * epr + dk + j)));
        }
        for i in 0..nb {
            input.push(word(&|j| b(t * epr + i * epr * 4 + j, g)));
        }
    }
    let regs = |p: &str, n: usize| {
        format!("{{{}}}", (0..n).map(|i| format!("%{p}{i}")).collect::<Vec<_>>().join(","))
    };
    let n = na + nb;
    let mut body = format!(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 pa, .param .u64 po) {{
        .reg .b32 %t, %a<8>, %b<8>, %c<8>, %d<8>; .reg .b64 %p, %o, %w;
        mov.u32 %t, %tid.x; ld.param.u64 %p, [pa]; ld.param.u64 %o, [po]; mul.wide.u32 %w, %t, {}; add.s64 %p, %p, %w; mul.wide.u32 %w, %t, {}; add.s64 %o, %o, %w;\n",
        4 * n,
        4 * nc
    );
    for i in 0..n {
        let r = if i < na { format!("%a{i}") } else { format!("%b{}", i - na) };
        body += &format!("ld.global.b32 {r}, [%p+{}];\n", 4 * i);
    }
    for i in 0..nc {
        body += &format!("mov.b32 %c{i}, 0;\n");
    }
    body += &format!(
        "mma.sync.aligned.{inst} {}, {}, {}, {};\n",
        regs("d", nc),
        regs("a", na),
        regs("b", nb),
        regs("c", nc)
    );
    for i in 0..nc {
        body += &format!("st.global.b32 [%o+{}], %d{i};\n", 4 * i);
    }
    let m = Module::parse(&(body + "ret; }")).unwrap_or_else(|e| panic!("{inst}: {e}"));
    let mut mem = Memory::new();
    let pa = mem.alloc("in", 4 * input.len() as u64).unwrap();
    let po = mem.alloc("out", 128 * nc as u64).unwrap();
    mem.write(pa, &bytes_u32(&input)).unwrap();
    let l = Launch { kernel: "k".into(), params: vec![param(pa), param(po)], ..Launch::default() };
    let r = launch(&m, &mut mem, &l).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(r.counters.flops, if int { 0 } else { (2 * rows * 8 * k) as u64 });
    let got = read_u32(&mem, po, 32 * nc);
    for lane in 0..32 {
        for i in 0..nc {
            let (row, col) = (lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2);
            let want: i32 = (0..k).map(|x| a(row, x) * b(x, col)).sum();
            let want = if int { want as u32 } else { (want as f32).to_bits() };
            assert_eq!(got[lane * nc + i], want, "{inst} row {row} col {col}");
        }
    }
}

#[test]
fn other_shapes() {
    let f16 = |v: i32| [0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200][(v + 3) as usize];
    let bf16 = |v: i32| (v as f32).to_bits() >> 16;
    let tf32 = |v: i32| (v as f32).to_bits();
    let e5m2 = |v: i32| f16(v) >> 8;
    let s8 = |v: i32| v as u8 as u32;
    layout("m16n8k8.row.col.f32.f16.f16.f32", 16, 16, 8, f16, false);
    layout("m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 16, f16, false);
    layout("m16n8k8.row.col.f32.bf16.bf16.f32", 16, 16, 8, bf16, false);
    layout("m16n8k4.row.col.f32.tf32.tf32.f32", 32, 16, 4, tf32, false);
    layout("m16n8k32.row.col.f32.e5m2.e5m2.f32", 8, 16, 32, e5m2, false);
    layout("m16n8k16.row.col.s32.s8.s8.s32", 8, 16, 16, s8, true);
    layout("m16n8k32.row.col.satfinite.s32.s8.s8.s32", 8, 16, 32, s8, true);
    layout("m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, s8, true);
}

#[test]
fn infinities_and_nan() {
    let run = |a: u32, b: u32, c: f32| {
        eval(&format!(
            "mov.b32 %r1, {a}; mov.b32 %r2, {b}; mov.f32 %f0, 0f{:08X};
            mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f1,%f2,%f3,%f4}}, {{%r1,%r1}}, {{%r2}}, {{%f0,%f0,%f0,%f0}}; mov.b32 %r0, %f1;",
            c.to_bits()
        ))
    };
    assert_eq!(run(0x7c00_7c00, 0x3c00_3c00, 0.0), 0x7f80_0000);
    assert_eq!(run(0x7c00_7c00, 0, 0.0), 0x7fff_ffff);
    assert_eq!(run(0x7e00_0000, 0x3c00_3c00, 0.0), 0x7fff_ffff);
    assert_eq!(run(0x7c00_7c00, 0x3c00_3c00, f32::NEG_INFINITY), 0x7fff_ffff);
    assert_eq!(run(0, 0, f32::NEG_INFINITY), 0xff80_0000);
}

#[test]
fn matrices_move_between_shared_memory_and_fragments() {
    // Element (r, c) of matrix m is 64 m + 8 r + c; rows lie 16 bytes apart.
    let store = "shl.b32 %r1, %t, 4; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; shl.b32 %r3, %t, 3; mad.lo.u32 %r4, %r3, 65537, 65536;
        add.u32 %r5, %r4, 0x20002; add.u32 %r6, %r4, 0x40004; add.u32 %r7, %r4, 0x60006; st.shared.v4.b32 [%r1], {%r4,%r5,%r6,%r7}; bar.warp.sync -1;";
    let load = |t: &str, reg: usize| {
        eval_all(&format!(
            "{store} ldmatrix.sync.aligned.m8n8.x4{t}.shared.b16 {{%r10,%r11,%r12,%r13}}, [%r1]; mov.b32 %r0, %r1{reg};"
        ))
    };
    for m in 0..4u32 {
        for lane in 0..32u32 {
            let at = 64 * m + 8 * (lane / 4) + 2 * (lane % 4);
            assert_eq!(load("", m as usize)[lane as usize], at | (at + 1) << 16);
            let at = 64 * m + 8 * (2 * (lane % 4)) + lane / 4;
            assert_eq!(load(".trans", m as usize)[lane as usize], at | (at + 8) << 16);
        }
    }
    // movmatrix does to registers what `.trans` does on the way to them, and undoes it.
    for (t, m) in (0..4usize).flat_map(|m| [("", m), (".trans", m)]) {
        let moved = eval_all(&format!(
            "{store} ldmatrix.sync.aligned.m8n8.x4{t}.shared.b16 {{%r10,%r11,%r12,%r13}}, [%r1];
            mov.b32 %r14, %r1{m};
            movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r14;"
        ));
        assert_eq!(moved, load(if t.is_empty() { ".trans" } else { "" }, m), "{t}");
    }
    // stmatrix undoes ldmatrix.
    for t in ["", ".trans"] {
        let v = eval_all(&format!(
            "{store} ldmatrix.sync.aligned.m8n8.x4{t}.shared.b16 {{%r10,%r11,%r12,%r13}}, [%r1]; bar.warp.sync -1;
            stmatrix.sync.aligned.m8n8.x4{t}.shared.b16 [%r1+1024], {{%r10,%r11,%r12,%r13}}; bar.warp.sync -1; ld.shared.b32 %r0, [%r1+1028];"
        ));
        assert_eq!(v, (0..32).map(|l| (8 * l + 2) | (8 * l + 3) << 16).collect::<Vec<u32>>(), "{t}");
    }
}

fn eval_all(body: &str) -> Vec<u32> {
    let (r, out) = run(&format!("{body}\nst.global.b32 [%o], %r0;"), 32);
    assert!(r.is_clean(), "{}", r.findings[0]);
    out
}
