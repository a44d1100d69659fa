//! Calls of device functions, the functions of the CUDA runtime, textures, surfaces, `wmma`; and that only the kernel
//! that is launched is refused.

use crate::common::*;
use ptx_sim::{AddressMode, Channel, FindingKind as K, Image, Launch, LaunchError, Memory, Module, launch};

const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";

/// Two functions, one of which calls the other, called by all lanes, by some, from two places and through a pointer.
const CALLS: &str = "
.visible .func (.param .b32 r) triple(.param .b32 x)
{ .reg .b32 %r<4>; ld.param.b32 %r1, [x]; mul.lo.s32 %r2, %r1, 3; st.param.b32 [r], %r2; ret; }
.visible .func (.param .b64 r) both(.param .b32 x, .param .align 8 .b8 s[16])
{ .reg .b32 %r<4>; .reg .b64 %d<6>; .reg .pred %p;
  ld.param.b32 %r1, [x]; ld.param.b64 %d1, [s+8];
  setp.lt.s32 %p, %r1, 5; @%p bra LOW;
  { .param .b32 a; st.param.b32 [a], %r1; .param .b32 o; call.uni (o), triple, (a); ld.param.b32 %r1, [o]; }
LOW: cvt.u64.u32 %d2, %r1; add.s64 %d3, %d1, %d2; st.param.b64 [r], %d3; ret; }
.func (.reg .b32 %o) plus(.reg .b32 %a, .reg .b32 %b) { add.s32 %o, %a, %b; ret; }
.global .u64 table[2] = {triple, generic(word)+4};
.global .u32 word[2] = {11, 22};
.entry k(.param .u64 out) {
 .reg .b32 %t, %r<20>; .reg .b64 %o, %d<20>; .reg .pred %p<8>;
 mov.u32 %t, %tid.x; ld.param.u64 %o, [out]; mul.wide.u32 %d0, %t, 4; add.s64 %o, %o, %d0;
 mov.b64 %d1, 100;
 { .param .b32 p0; st.param.b32 [p0+0], %t; .param .align 8 .b8 p1[16]; st.param.b64 [p1+8], %d1; .param .b64 q;
   call.uni (q), both, (p0, p1); ld.param.b64 %d2, [q]; }
 cvt.u32.u64 %r1, %d2;
 and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 0;
 @%p1 call (%r1), plus, (%r1, 1000);
 ld.global.u64 %d3, [table]; ld.global.u64 %d4, [table+8]; ld.u32 %r3, [%d4];
 { .param .b32 p0; st.param.b32 [p0], %r3; .param .b32 q; call (q), %d3, (p0), proto; ld.param.b32 %r4, [q]; }
 add.s32 %r1, %r1, %r4; st.global.b32 [%o], %r1; ret;
 proto: .callprototype (.param .b32 _) _ (.param .b32 _);
}
.entry other() { .reg .b32 %r; frobnicate.b32 %r, 1; }
.entry malformed() { mov.b32 %nothing, 1; }
.func loop_a() { call loop_b; ret; }
.func loop_b() { call loop_a; ret; }
.entry recursive() { call loop_a; ret; }
.extern .func outside;
.entry foreign() { call outside; ret; }
";

#[test]
fn functions_are_called_and_only_what_is_launched_is_refused() {
    let m = Module::parse(&format!("{HEAD}{CALLS}")).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let out = mem.alloc("out", 128).unwrap();
    let l = Launch { kernel: "k".into(), params: vec![param(out)], ..Launch::default() };
    let r = launch(&m, &mut mem, &l).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    let want = |t: u32| 100 + if t < 5 { t } else { 3 * t } + if t.is_multiple_of(2) { 1000 } else { 0 } + 66;
    assert_eq!(read_u32(&mem, out, 32), (0..32).map(want).collect::<Vec<_>>());
    assert_eq!(m.kernels().count(), 5);
    assert_eq!(m.check().unwrap_err().message, "opcode `frobnicate.b32` is not supported");
    for (kernel, text) in [
        ("other", "opcode `frobnicate.b32` is not supported"),
        ("malformed", "`%nothing` is neither a declared register"),
        ("recursive", "`loop_a` calls itself: recursion is not supported"),
        ("foreign", "function `outside` is only declared: its body is in another module"),
    ] {
        let e = launch(&m, &mut mem, &Launch { kernel: kernel.into(), ..Launch::default() }).unwrap_err();
        assert!(matches!(&e, LaunchError::Refused { error, .. } if error.line > 1), "{e}");
        assert!(e.to_string().contains(text), "{e}");
        assert!(m.refusal(kernel).is_some_and(|e| e.message.contains(text)));
    }
    let (at, size) = m.variable(&mut mem, "word").unwrap().unwrap();
    assert_eq!((read_u32(&mem, at, 2), size), (vec![11, 22], 8));
}

#[test]
fn printf_is_printed_and_assertions_are_findings() {
    let text = format!(
        "{HEAD}.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .b8 fmt[24] = {{37, 51, 100, 124, 37, 46, 50, 102, 124, 37, 115, 124, 37, 48, 52, 120, 124, 37, 103, 10, 0}};
.global .b8 s[4] = {{97, 98, 99, 0}};
.entry k() {{ .local .align 8 .b8 buf[40]; .reg .b64 %d<9>; .reg .b32 %t, %r<4>; .reg .f64 %f; .reg .pred %p;
 mov.u32 %t, %tid.x; mov.b64 %d1, buf; cvta.local.u64 %d2, %d1; st.local.b32 [%d1], %t;
 cvt.rn.f64.u32 %f, %t; st.local.f64 [%d1+8], %f; mov.b64 %d3, s; cvta.global.u64 %d3, %d3; st.local.b64 [%d1+16], %d3;
 st.local.b32 [%d1+24], 255; st.local.f64 [%d1+32], 0d3FB999999999999A; mov.b64 %d4, fmt; cvta.global.u64 %d4, %d4;
 {{ .param .b64 a; st.param.b64 [a], %d4; .param .b64 b; st.param.b64 [b], %d2; .param .b32 q;
   call.uni (q), vprintf, (a, b); ld.param.b32 %r1, [q]; }}
 setp.ne.u32 %p, %t, 1; @%p bra END;
 {{ .param .b64 a; st.param.b64 [a], %d3; .param .b64 b; st.param.b64 [b], %d3; .param .b32 l; st.param.b32 [l], 7;
   .param .b64 n; st.param.b64 [n], %d3; .param .b64 c; st.param.b64 [c], 1;
   call.uni __assertfail, (a, b, l, n, c); }}
 END: ret; }}"
    );
    let m = Module::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let l = Launch { kernel: "k".into(), block: [2, 1, 1], ..Launch::default() };
    let r = launch(&m, &mut Memory::new(), &l).unwrap();
    assert_eq!(r.printed, "  0|0.00|abc|00ff|0.1\n  1|1.00|abc|00ff|0.1\n");
    let f = find(&r, |k| *k == K::AssertionFailed).unwrap();
    assert_eq!((f.message.as_str(), f.lane), ("assertion `abc` failed in `abc` (abc:7)", 1));
}

#[test]
fn carries_of_multiplications() {
    // 64 × 64 → 128 bits from 32-bit halves: the second word, with its carries.
    for (a, b) in
        [(0xffff_ffff_ffff_ffffu64, 0xffff_ffff_ffff_ffffu64), (0x1234_5678_9abc_def0, 0xfedc_ba98_7654_3210)]
    {
        let product = a as u128 * b as u128;
        for word in 0..4 {
            let body = format!(
                "mov.b64 {{%r1, %r2}}, {a}; mov.b64 {{%r3, %r4}}, {b};
                 mul.lo.u32 %r5, %r1, %r3; mul.hi.u32 %r6, %r1, %r3;
                 mad.lo.cc.u32 %r6, %r1, %r4, %r6; madc.hi.u32 %r7, %r1, %r4, 0;
                 mad.lo.cc.u32 %r6, %r2, %r3, %r6; madc.hi.cc.u32 %r7, %r2, %r3, %r7; addc.u32 %r8, 0, 0;
                 mad.lo.cc.u32 %r7, %r2, %r4, %r7; madc.hi.u32 %r8, %r2, %r4, %r8;
                 mov.b32 %r0, %r{};",
                5 + word
            );
            assert_eq!(eval(&body), (product >> (32 * word)) as u32, "{a:x} {b:x} word {word}");
        }
    }
}

#[test]
fn system_constants() {
    assert_eq!(eval("mov.u32 %r0, WARP_SZ;"), 32);
    assert_eq!(eval("mov.u32 %r0, %envreg7;"), 0);
    assert_eq!(
        eval(
            "mov.u32 %r1, %reserved_smem_offset_end; mov.u32 %r2, %reserved_smem_offset_begin; sub.s32 %r0, %r1, %r2;"
        ),
        1024
    );
}

#[test]
fn textures_and_surfaces() {
    let m = Module::parse(&format!(
        "{HEAD}.entry k(.param .u64 tex, .param .u64 surf, .param .u64 out) {{
 .reg .b64 %d<9>; .reg .b32 %t, %r<9>; .reg .f32 %f<9>;
 ld.param.u64 %d1, [tex]; ld.param.u64 %d2, [surf]; ld.param.u64 %d3, [out]; mov.u32 %t, %tid.x;
 cvt.rn.f32.u32 %f1, %t; mov.f32 %f2, 0f3F800000;
 tex.2d.v4.f32.f32 {{%f3, %f4, %f5, %f6}}, [%d1, {{%f1, %f2}}];
 mul.wide.u32 %d4, %t, 4; add.s64 %d3, %d3, %d4; st.global.f32 [%d3], %f3;
 shl.b32 %r1, %t, 2; suld.b.2d.b32.trap {{%r2}}, [%d2, {{%r1, 1}}]; add.s32 %r2, %r2, 1; sust.b.2d.b32.zero [%d2, {{%r1, 0}}], {{%r2}};
 ret; }}"
    ))
    .unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let data = mem.alloc("texels", 64).unwrap();
    let texels: Vec<f32> = (0..16).map(|i| i as f32).collect();
    mem.write(data, &bytes_f32(&texels)).unwrap();
    let image = Image {
        linear: true,
        address_mode: AddressMode::Clamp,
        ..Image::new(data, Channel::F32, 1, [4, 4, 1])
    };
    let tex = mem.add_image(image).unwrap();
    let plane = mem.alloc("plane", 64).unwrap();
    mem.write(plane, &bytes_u32(&(0..16).collect::<Vec<_>>())).unwrap();
    let surf = mem.add_image(Image::new(plane, Channel::U32, 1, [8, 2, 1])).unwrap();
    let out = mem.alloc("out", 64).unwrap();
    let mut run = |tex: u64, threads: u32| {
        let params = vec![param(tex), param(surf), param(out)];
        let l = Launch { kernel: "k".into(), block: [threads, 1, 1], params, ..Launch::default() };
        let r = launch(&m, &mut mem, &l).unwrap();
        (r, read_f32(&mem, out, 6), read_u32(&mem, plane, 8))
    };
    let (r, sampled, stored) = run(tex, 6);
    assert!(r.is_clean(), "{}", r.findings[0]);
    // At y = 1, between rows 0 and 1; beyond the edge the last texel counts.
    assert_eq!(sampled, [2.0, 2.5, 3.5, 4.5, 5.0, 5.0]);
    assert_eq!(stored, [9, 10, 11, 12, 13, 14, 6, 7]);
    let (r, ..) = run(tex, 9);
    let f = find(&r, |k| *k == K::OutOfBounds).unwrap();
    assert!(f.message.contains("byte 32, row 1, layer 0 of a surface with rows of 32 bytes"), "{f}");
    let (r, ..) = run(5, 1);
    assert!(find(&r, |k| *k == K::BadAddress).unwrap().message.contains("0x5 is no texture or surface"));
    assert!(mem.add_image(Image::new(plane, Channel::U32, 1, [9, 2, 1])).is_err());
}

/// A·B + C through fragments, with every layout and type: integers are exact, so are these floats.
#[test]
fn fragments_multiply() {
    struct Kind {
        shape: [usize; 3],
        ty: &'static str,
        acc: &'static str,
        regs: [usize; 3],
    }
    let k = |shape, ty, acc, regs| Kind { shape, ty, acc, regs };
    let kinds = [
        k([16, 16, 16], "f16", "f32", [8, 8, 8]),
        k([16, 16, 16], "f16", "f16", [8, 8, 4]),
        k([32, 8, 16], "f16", "f32", [8, 8, 8]),
        k([8, 32, 16], "f16", "f32", [8, 8, 8]),
        k([16, 16, 16], "bf16", "f32", [4, 4, 8]),
        k([8, 32, 16], "bf16", "f32", [2, 8, 8]),
        k([16, 16, 8], "tf32", "f32", [4, 4, 8]),
        k([16, 16, 16], "s8", "s32", [2, 2, 8]),
        k([32, 8, 16], "u8", "s32", [4, 1, 8]),
        k([8, 8, 4], "f64", "f64", [1, 1, 2]),
    ];
    for kind in &kinds {
        for layouts in 0..8 {
            let row = |bit: usize| layouts >> bit & 1 == 0;
            let [m, n, k] = kind.shape;
            let [a, b, c] = [(m, k, row(0)), (k, n, row(1)), (m, n, row(2))];
            let value = |i: usize| ((i * 7 + 3) % 5) as i64 - if kind.ty == "u8" { 0 } else { 2 };
            let at = |(rows, cols, row): (usize, usize, bool), r: usize, c: usize| {
                if row { r * cols + c } else { c * rows + r }
            };
            let fill = |d: (usize, usize, bool)| -> Vec<i64> { (0..d.0 * d.1).map(value).collect() };
            let (va, vb, vc) = (fill(a), fill(b), fill(c));
            let bytes = |v: &[i64], ty: &str| -> Vec<u8> {
                v.iter()
                    .flat_map(|x| match ty {
                        "f16" => half::f16::from_f64(*x as f64).to_le_bytes().to_vec(),
                        "bf16" => half::bf16::from_f64(*x as f64).to_le_bytes().to_vec(),
                        "f32" | "tf32" => (*x as f32).to_le_bytes().to_vec(),
                        "f64" => (*x as f64).to_le_bytes().to_vec(),
                        "s32" => (*x as i32).to_le_bytes().to_vec(),
                        _ => vec![*x as u8],
                    })
                    .collect()
            };
            let name = format!("m{m}n{n}k{k}");
            let layout = |r: bool| if r { "row" } else { "col" };
            let stride = |d: (usize, usize, bool)| if d.2 { d.1 } else { d.0 };
            let reg = if kind.ty == "f64" { "%x" } else { "%r" };
            let list = |from: usize, n: usize| {
                let all: Vec<String> = (from..from + n).map(|i| format!("{reg}{i}")).collect();
                format!("{{{}}}", all.join(", "))
            };
            let [na, nb, nc] = kind.regs;
            let (ra, rb, rc) = (list(1, na), list(11, nb), list(21, nc));
            let types = match kind.ty {
                "f16" => format!("{0}.{0}", kind.acc),
                ty => format!("{0}.{ty}.{ty}.{0}", kind.acc),
            };
            let (ty, acc) = (kind.ty, kind.acc);
            let text = format!(
                "{HEAD}.entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
 .reg .b64 %d<5>, %x<40>; .reg .b32 %r<40>; .shared .align 32 .b8 buf[2048];
 ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; ld.param.u64 %d4, [d];
 wmma.load.a.sync.aligned.{}.{name}.global.{ty} {ra}, [%d1], {};
 wmma.load.b.sync.aligned.{}.{name}.{ty} {rb}, [%d2], {};
 wmma.load.c.sync.aligned.{}.{name}.global.{acc} {rc}, [%d3], {};
 wmma.mma.sync.aligned.{}.{}.{name}.{types} {rc}, {ra}, {rb}, {rc};
 wmma.store.d.sync.aligned.row.{name}.shared.{acc} [buf], {rc}, {n};
 bar.warp.sync -1;
 wmma.load.c.sync.aligned.row.{name}.shared.{acc} {rc}, [buf], {n};
 wmma.store.d.sync.aligned.{}.{name}.global.{acc} [%d4], {rc}, {}; ret; }}",
                layout(a.2),
                stride(a),
                layout(b.2),
                stride(b),
                layout(c.2),
                stride(c),
                layout(a.2),
                layout(b.2),
                layout(c.2),
                stride(c),
            );
            let module = Module::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let mut mem = Memory::new();
            let mut params = vec![];
            for (name, data) in [("a", bytes(&va, ty)), ("b", bytes(&vb, ty)), ("c", bytes(&vc, acc))] {
                let at = mem.alloc(name, data.len() as u64).unwrap();
                mem.write(at, &data).unwrap();
                params.push(param(at));
            }
            let want: Vec<i64> = {
                let mut d = vec![0; m * n];
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    d[at(c, i, j)] =
                        (0..k).map(|l| va[at(a, i, l)] * vb[at(b, l, j)]).sum::<i64>() + vc[at(c, i, j)];
                }
                d
            };
            let want = bytes(&want, acc);
            let d = mem.alloc("d", want.len() as u64).unwrap();
            params.push(param(d));
            let r = launch(&module, &mut mem, &Launch { kernel: "k".into(), params, ..Launch::default() });
            let r = r.unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert!(r.is_clean(), "{name} {ty}: {}", r.findings[0]);
            let mut got = vec![0; want.len()];
            mem.read(d, &mut got).unwrap();
            assert_eq!(got, want, "{name} {ty} {acc} {layouts}");
        }
    }
}

#[test]
fn targets_without_an_instruction_refuse_it() {
    let text = ".version 8.6\n.target sm_90\n.address_size 64\n.entry k() { wgmma.fence.sync.aligned; ret; }\n.entry s() { setmaxnreg.dec.sync.aligned.u32 24; ret; }";
    let m = Module::parse(text).unwrap();
    assert!(m.refusal("k").unwrap().message.contains("`wgmma` needs the target sm_90a, not sm_90"));
    assert!(m.refusal("s").unwrap().message.contains("such as sm_90a, not sm_90"));
}

#[test]
fn literals_out_of_range_and_empty_files_are_refused() {
    for (body, text) in [
        ("bar.sync 16;", "barrier 16 is out of range: a CTA has the barriers 0 to 15"),
        ("mov.b64 %d, 18446744073709551616;", "malformed number: expected an integer below 2^64"),
        (
            "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %d, %d, 1, 2, 1;",
            "expected 1 or -1 as operand 5",
        ),
    ] {
        let text_of = format!("{HEAD}.entry k() {{ .reg .b64 %d; .reg .f32 %f<4>; {body} ret; }}");
        let e = Module::parse(&text_of).and_then(|m| m.check()).expect_err(body);
        assert!(e.message.contains(text), "{e}");
    }
    assert!(Module::parse("").unwrap_err().message.contains("expected `.version`"));
}
