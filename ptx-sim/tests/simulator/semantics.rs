//! Instruction semantics at their edges, one instruction at a time.

use crate::common::*;

fn f(x: f32) -> String {
    format!("0f{:08X}", x.to_bits())
}

#[test]
fn integers() {
    for (body, want) in [
        ("mov.b32 %r1, 1; shl.b32 %r0, %r1, 32;", 0),
        ("mov.b32 %r1, -8; shr.s32 %r0, %r1, 40;", u32::MAX),
        ("mov.b32 %r1, -8; shr.u32 %r0, %r1, 40;", 0),
        ("mul.hi.s32 %r0, -1, 2;", u32::MAX),
        ("mul.hi.u32 %r0, -1, 2;", 1),
        ("mad.lo.s32 %r0, 3, 4, -5;", 7),
        ("mul.wide.s32 %d1, -3, 5; cvt.u32.u64 %r0, %d1;", -15i32 as u32),
        ("mad.wide.u32 %d1, 65536, 65536, 9; shr.u64 %d2, %d1, 32; cvt.u32.u64 %r0, %d2;", 1),
        ("mov.b32 %r1, 7; div.u32 %r0, %r1, 0;", u32::MAX),
        ("div.s32 %r0, -7, 2;", -3i32 as u32),
        ("rem.s32 %r0, -7, 2;", -1i32 as u32),
        ("abs.s32 %r0, -2147483648;", 0x8000_0000),
        ("add.sat.s32 %r0, 2147483647, 5;", 0x7fff_ffff),
        ("sub.sat.s32 %r0, -2147483648, 5;", 0x8000_0000),
        ("min.s32 %r0, -1, 1;", u32::MAX),
        ("min.relu.s32 %r0, -1, 1;", 0),
        ("min.relu.s32 %r0, 3, 5;", 3),
        ("max.relu.s32 %r0, -7, -5;", 0),
        ("min.u32 %r0, -1, 1;", 1),
        ("max.s64 %d1, -1, 1; cvt.u32.u64 %r0, %d1;", 1),
        ("mov.b16 %h1, -3; mul.lo.s16 %h2, %h1, 5; cvt.s32.s16 %r0, %h2;", -15i32 as u32),
        ("mov.b16 %h1, 40000; mul.wide.u16 %r0, %h1, 3;", 120_000),
        ("mov.b16 %h1, 0x8000; shr.s16 %h2, %h1, 20; cvt.u32.u16 %r0, %h2;", 0xffff),
        ("mov.b16 %h1, 1; neg.s16 %h2, %h1; cvt.u32.u16 %r0, %h2;", 0xffff),
        ("mov.b16 %h1, 5; not.b16 %h2, %h1; min.u16 %h3, %h2, 9; cvt.u32.u16 %r0, %h3;", 9),
        ("clz.b32 %r0, 0;", 32),
        ("popc.b64 %r0, -1;", 64),
        ("bfind.u32 %r0, 0;", u32::MAX),
        ("brev.b32 %r0, 1;", 0x8000_0000),
        ("bfe.u32 %r0, 0xABCD, 4, 8;", 0xbc),
        ("bfi.b32 %r0, 0xF, 0, 8, 4;", 0xf00),
        ("shf.l.wrap.b32 %r0, 0x80000000, 1, 33;", 3),
        ("shf.r.clamp.b32 %r0, 5, 7, 99;", 7),
        ("sad.u32 %r0, 3, 9, 100;", 106),
        ("lop3.b32 %r0, 12, 10, 6, 0x96;", 12 ^ 10 ^ 6),
        ("prmt.b32 %r0, 0x44332211, 0, 0x0123;", 0x1122_3344),
        ("dp4a.s32.s32 %r0, 0x01FF0203, 0x02020202, 1;", 1 + 2 * (3 + 2 - 1 + 1)),
        ("add.cc.u32 %r1, -1, 1; addc.u32 %r0, 0, 0;", 1),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r0, 5, 0;", 4),
        ("mov.b64 %d1, 0x1122334455667788; mov.b64 {%r1, %r0}, %d1;", 0x1122_3344),
        ("mov.b32 {%h1, %h2}, 0x11223344; mov.b32 %r0, {%h2, %h1};", 0x3344_1122),
        ("slct.b32.s32 %r0, 1, 2, -1;", 2),
        ("set.lt.u32.s32 %r0, -1, 1;", u32::MAX),
        ("setp.lt.s32 %p1|%p2, 1, 2; selp.b32 %r0, 10, 20, %p2;", 20),
        ("setp.eq.u32 %p1, 1, 1; setp.ne.and.u32 %p2, 1, 2, !%p1; selp.b32 %r0, 10, 20, %p2;", 20),
        ("setp.lo.u32 %p1, 1, -1; selp.b32 %r0, 1, 0, %p1;", 1),
        ("szext.clamp.s32 %r0, 0xFF, 8;", u32::MAX),
        ("bmsk.clamp.b32 %r0, 4, 8;", 0xff0),
        ("cnot.b32 %r0, 0;", 1),
    ] {
        assert_eq!(eval(body), want, "{body}");
    }
}

#[test]
fn f32_arithmetic() {
    let nan = "0f7FC00001";
    for (body, want) in [
        (
            format!("fma.rn.f32 %f1, {}, {}, {};", f(1.0 + f32::EPSILON), f(1.0 - f32::EPSILON), f(-1.0)),
            -(f32::EPSILON * f32::EPSILON),
        ),
        (format!("add.rz.f32 %f1, {}, {};", f(1.0), f(-1e-10)), 1.0f32.next_down()),
        (format!("add.f32 %f1, {}, {};", f(0.5), f(0.25)), 0.75),
        (format!("mul.sat.f32 %f1, {}, {};", f(3.0), f(2.0)), 1.0),
        (format!("max.f32 %f1, {nan}, {};", f(2.0)), 2.0),
        (format!("min.f32 %f1, {}, {};", f(0.0), f(-0.0)), -0.0),
        (format!("max.f32 %f1, {}, {};", f(0.0), f(-0.0)), 0.0),
        (format!("add.ftz.f32 %f1, {}, {};", f(1e-40), f(0.0)), 0.0),
        (format!("div.rn.f32 %f1, {}, {};", f(1.0), f(3.0)), 1.0 / 3.0),
        (format!("rcp.approx.ftz.f32 %f1, {};", f(4.0)), 0.25),
        (format!("sqrt.rn.f32 %f1, {};", f(2.0)), 2f32.sqrt()),
        (format!("rsqrt.approx.f32 %f1, {};", f(16.0)), 0.25),
        (format!("ex2.approx.ftz.f32 %f1, {};", f(3.0)), 8.0),
        (format!("lg2.approx.f32 %f1, {};", f(8.0)), 3.0),
        (format!("neg.f32 %f1, {};", f(0.0)), -0.0),
        (format!("abs.f32 %f1, {};", f(-2.5)), 2.5),
        (format!("copysign.f32 %f1, {}, {};", f(-1.0), f(3.0)), -3.0),
        (format!("cvt.rmi.f32.f32 %f1, {};", f(-1.5)), -2.0),
        (format!("cvt.rni.f32.f32 %f1, {};", f(2.5)), 2.0),
        (format!("cvt.sat.f32.f32 %f1, {};", f(7.0)), 1.0),
    ] {
        let got = eval(&format!("{body} mov.b32 %r0, %f1;"));
        assert_eq!(got, want.to_bits(), "{body}: {} vs {want}", f32::from_bits(got));
    }
    for body in [
        format!("add.f32 %f1, {nan}, {};", f(1.0)),
        format!("max.NaN.f32 %f1, {nan}, {};", f(1.0)),
        format!("sqrt.rn.f32 %f1, {};", f(-1.0)),
        "mul.f32 %f1, 0f00000000, 0f7F800000;".to_string(),
    ] {
        assert_eq!(eval(&format!("{body} mov.b32 %r0, %f1;")), 0x7fff_ffff, "{body}");
    }
}

#[test]
fn comparisons_with_nan() {
    for (cmp, want) in
        [("eq", 0), ("ne", 0), ("neu", 1), ("equ", 1), ("ltu", 1), ("lt", 0), ("num", 0), ("nan", 1)]
    {
        let body = format!("setp.{cmp}.f32 %p1, 0f7FC00000, 0f3F800000; selp.b32 %r0, 1, 0, %p1;");
        assert_eq!(eval(&body), want, "{cmp}");
    }
    assert_eq!(eval("testp.subnormal.f32 %p1, 0f00000001; selp.b32 %r0, 1, 0, %p1;"), 1);
}

#[test]
fn sixteen_bit_floats_and_conversions() {
    for (body, want) in [
        ("mov.b32 %r1, 0x3C003C00; mov.b32 %r2, 0x40004200; fma.rn.f16x2 %r0, %r1, %r2, %r1;", 0x4200_4400),
        ("mov.b32 %r1, 0x3F803F80; add.rn.bf16x2 %r0, %r1, %r1;", 0x4000_4000),
        ("mov.b16 %h1, 0x7BFF; add.rn.f16 %h2, %h1, %h1; cvt.u32.u16 %r0, %h2;", 0x7c00),
        (
            "mov.b16 %h1, 0x7E00; mov.b16 %h2, 0x3C00; max.NaN.f16 %h3, %h1, %h2; cvt.u32.u16 %r0, %h3;",
            0x7fff,
        ),
        ("mov.b16 %h1, 0x7E00; mov.b16 %h2, 0x3C00; max.f16 %h3, %h1, %h2; cvt.u32.u16 %r0, %h3;", 0x3c00),
        (
            "mov.b16 %h1, 0xBC00; mov.b16 %h2, 0x3C00; mov.b16 %h4, 0; fma.rn.relu.f16 %h3, %h1, %h2, %h4; cvt.u32.u16 %r0, %h3;",
            0,
        ),
        ("cvt.rn.f16.f32 %h1, 0f477FF000; cvt.u32.u16 %r0, %h1;", 0x7c00),
        ("mov.b16 %h1, 0x0001; cvt.f32.f16 %f1, %h1; mov.b32 %r0, %f1;", 0x3380_0000),
        ("cvt.rn.bf16.f32 %h1, 0f3F808000; cvt.u32.u16 %r0, %h1;", 0x3f80),
        ("cvt.rn.bf16x2.f32 %r0, 0f3F800000, 0f40000000;", 0x3f80_4000),
        ("cvt.rn.relu.f16x2.f32 %r0, 0fBF800000, 0f40000000;", 0x0000_4000),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, 0f43E00000, 0f3F800000; cvt.u32.u16 %r0, %h1;", 0x7e38),
        ("cvt.rna.tf32.f32 %r0, 0f3F801000;", 0x3f80_2000),
        ("cvt.rzi.s32.f32 %r0, 0fC0200000;", -2i32 as u32),
        ("cvt.rni.s32.f32 %r0, 0f40600000;", 4),
        ("cvt.rzi.u32.f32 %r0, 0fC0200000;", 0),
        ("cvt.rn.f32.s32 %f1, -3; mov.b32 %r0, %f1;", 0xc040_0000),
        ("cvt.sat.u8.s32 %r0, 300;", 255),
        ("cvt.s32.s8 %r0, 200;", -56i32 as u32),
        (
            "cvt.f64.f32 %g1, 0f40490FDB; add.f64 %g2, %g1, %g1; cvt.rn.f32.f64 %f1, %g2; mov.b32 %r0, %f1;",
            0x40c9_0fdb,
        ),
    ] {
        assert_eq!(eval(body), want, "{body}");
    }
}

#[test]
fn unknown_opcodes_and_modifiers_are_errors() {
    let e = |body: &str| {
        let t = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() {{\n.reg .b32 %r<4>; .reg .f32 %f<3>; .reg .pred %p<2>; .reg .b64 %d<2>; .reg .b16 %h<3>;\n  {body}\n}}"
        );
        ptx_sim::Module::parse(&t).and_then(|m| m.check()).expect_err(body)
    };
    for (body, text) in [
        ("frobnicate.b32 %r0, %r1;", "opcode `frobnicate.b32` is not supported"),
        ("add.f32.quick %f0, %f1, %f1;", "modifier `.quick`"),
        ("add.s32 %r0, %r1;", "expected 3 operands, found 2"),
        ("add.s64 %r0, %d0, %d1;", "the destination has 32 bits, the operation 64"),
        ("add.s32 %r0, %p0, %r1;", "a predicate register does not fit here"),
        ("add.u32 %r0, %d1, 1;", "expected an operand of 32 bits, found a register of 64"),
        ("st.shared.b32 [%r0], %h1;", "a register of 16 bits does not fit a 32-bit operand"),
        ("ld.shared.b32 %h0, [%r0];", "a register of 16 bits does not fit a 32-bit operand"),
        ("atom.shared.add.u32 %d0, [%r0], 1;", "the destination has 64 bits, the operation 32"),
        ("mov.b32 {%h0, %r1}, %r2;", "the destination has 32 bits, the operation 16"),
        ("mov.b32 {%h0, %h1, %h2}, %r2;", "expected 2 or 4 registers that make up the type"),
        (".reg .b32 %x<4>; .reg .b32 %x<2>; ret;", "register `%x` is declared twice in one scope"),
        (".reg .b32 %r3; ret;", "register `%r3` is declared twice in one scope"),
        ("setp.lt.s32 %r0, %r1, %r2;", "expected a predicate register, found one of 32 bits"),
        ("@%r1 mov.u32 %r0, 1;", "expected a predicate register, found one of 32 bits"),
        ("mov.u32 %r0, %tid;", "expected a component such as `%tid.x`"),
        ("mov.u32 %r0, %laneid.x;", "`%laneid` has no component `.x`"),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f0}, {%r0}, {%r2}, {%f0, %f1, %f2, %f0};",
            "expected [4, 2, 1, 4] registers for d, a, b, c, found [4, 1, 1, 4]",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, %f1}, %d0, %d1, 1, 1, 1, 0, 0;",
            "expected N to be a multiple of 8 up to 256, found 12",
        ),
        (
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d0, {%r1}], [%r0];",
            "expected 2 coordinates, found 1",
        ),
        ("bra NOWHERE;", "label `NOWHERE` is not defined"),
        ("ld.global.b32 %r0, [%r1];", "expected a 64-bit address register"),
        ("ld.shared.b32 %r0, [missing];", "`missing` is not declared"),
        ("cvt.s32.f32 %r0, %f0;", "expected a rounding mode"),
        ("fma.f32 %f0, %f1, %f1, %f1;", "expected a rounding mode"),
        ("call foo;", "`foo` is not declared"),
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1, %r1, %r1}], [%r2], %r3;",
            "expected `{offsets}` after the mbarrier",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%d0, {%r1, %r1}], [%r2];",
            "`.tile::gather4` is not supported",
        ),
        ("setmaxnreg.dec.sync.aligned.u32 100;", "expected a multiple of 8 from 24 to 256"),
        ("mov.u32 %r0, %nosuch;", "neither a declared register nor a special register"),
    ] {
        let err = e(body);
        assert!(err.message.contains(text), "{body}: {err}");
        assert_eq!(err.line, 6, "{body}: {err}");
    }
}

#[test]
fn a_lone_launch_waits_for_no_other_grid() {
    assert_eq!(eval("griddepcontrol.wait; mov.b32 %r0, 5; griddepcontrol.launch_dependents;"), 5);
}

#[test]
fn less_common_opcodes() {
    for (body, want) in [
        ("mov.b32 %r1, 0x1000003; mul24.lo.u32 %r0, %r1, 5;", 15),
        ("mov.b32 %r1, -3; mul24.lo.s32 %r0, %r1, 5;", -15i32 as u32),
        ("mov.b32 %r1, 7; mad24.lo.u32 %r0, %r1, 5, 4;", 39),
        (
            "mov.b32 %f1, 0f80000000; mov.b32 %f2, 0f40400000; copysign.f32 %f3, %f1, %f2; mov.b32 %r0, %f3;",
            0xc040_0000,
        ),
        ("mov.b32 %f1, 0f40800000; rcp.rn.f32 %f2, %f1; mov.b32 %r0, %f2;", 0x3e80_0000),
        ("mov.u64 %d1, dyn; cvta.shared.u64 %d2, %d1; isspacep.global %p1, %d2; selp.b32 %r0, 1, 2, %p1;", 2),
        ("isspacep.global %p1, %o; selp.b32 %r0, 1, 2, %p1;", 1),
        ("mov.b32 %r0, 3; nanosleep.u32 20; prefetch.global.L2 [%o]; pmevent 1;", 3),
        ("mov.b32 %r0, 3; discard.global.L2 [%o], 128;", 3),
        ("mov.b32 %r0, 3; createpolicy.fractional.L2::evict_last.b64 %d1, 0f3F800000;", 3),
        (
            "createpolicy.fractional.L2::evict_first.b64 %d1, 1.0; mov.b32 %r1, 7; \
             st.global.L2::cache_hint.b32 [%o], %r1, %d1; ld.global.L2::cache_hint.b32 %r0, [%o], %d1;",
            7,
        ),
        ("ldu.global.u32 %r1, [%o]; add.u32 %r0, %r1, 2;", 2),
    ] {
        assert_eq!(eval(body), want, "{body}");
    }
}

#[test]
fn vector_atomics_return_what_was_there() {
    let body = "mov.b32 %f1, 0f3F800000; setp.eq.u32 %p1, %t, 0;
        @%p1 atom.global.gpu.relaxed.add.v2.f32 {%f2, %f3}, [%o], {%f1, %f1};
        @%p1 atom.global.gpu.relaxed.add.v2.f32 {%f2, %f3}, [%o], {%f1, %f1};
        add.f32 %f4, %f2, %f3; @%p1 st.global.f32 [%o+8], %f4;";
    let (r, out) = run(body, 32);
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(out[..3].iter().map(|b| f32::from_bits(*b)).collect::<Vec<_>>(), [2.0, 2.0, 2.0]);
}
