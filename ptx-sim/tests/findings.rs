//! Every kind of finding: a program that has it, and the repaired program that does not.

mod common;
use common::*;
use ptx_sim::{AsyncMode, FindingKind as K, RaceKind, Report};

/// `bad` must give the finding, with the text; `good` must be clean.
fn both(threads: u32, want: K, text: &str, bad: &str, good: &str) {
    let (r, _) = run(bad, threads);
    let f = find(&r, |k| *k == want).unwrap_or_else(|| panic!("{want:?} not found: {:#?}", r.findings));
    assert!(f.to_string().contains(text), "{f}");
    assert!(f.line > 4, "{f}");
    let (r, _) = run(good, threads);
    assert!(r.is_clean(), "{}", r.findings[0]);
}

#[test]
fn out_of_bounds_names_the_buffer_and_the_element() {
    both(
        32,
        K::OutOfBounds,
        "4 bytes past the end of `out`, which has 128 bytes (byte 132, element 33 of `out`)",
        "ld.global.b32 %r0, [%o+132];",
        "ld.global.b32 %r0, [%o]; st.global.b32 [%o], %r0;",
    );
    let (r, _) = run("ld.global.b32 %r0, [%o+64];", 32);
    assert_eq!((r.findings.len(), r.findings[0].count, r.findings[0].lane), (1, 16, 16));
    // A vector that starts inside and ends outside.
    let (r, _) = run("add.s64 %o, %o, %d0; ld.global.v2.b32 {%r0, %r1}, [%o+8];", 32);
    assert!(find(&r, |k| *k == K::OutOfBounds).is_some());
}

#[test]
fn failing_loads_give_zero_and_the_run_goes_on() {
    let (r, out) = run(
        "mov.b32 %r0, 7; ld.global.b32 %r0, [%o+4096]; add.u32 %r0, %r0, 1; st.global.b32 [%o], %r0;",
        32,
    );
    assert!(!r.is_clean());
    assert_eq!(out, [1; 32]);
}

#[test]
fn misaligned_accesses() {
    both(
        32,
        K::Misaligned,
        "is not a multiple of the access's 8 bytes",
        "ld.global.v2.b32 {%r0, %r1}, [%o];",
        "setp.eq.u32 %p0, %t, 0; @%p0 ld.global.v2.b32 {%r0, %r1}, [%o];",
    );
}

#[test]
fn shared_bounds_and_initialisation() {
    let store = "shl.b32 %r1, %t, 2; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; st.shared.b32 [%r1], %t;";
    both(
        32,
        K::UninitializedShared,
        "byte 128 of `dyn`",
        &format!("{store} bar.sync 0; ld.shared.b32 %r0, [%r1+128];"),
        &format!("{store} bar.sync 0; ld.shared.b32 %r0, [%r1];"),
    );
    both(
        32,
        K::SharedOutOfBounds,
        "of the CTA's 4096 bytes of shared memory",
        &format!("{store} st.shared.b32 [%r1+4096], %t;"),
        store,
    );
    both(32, K::SharedOutOfBounds, "byte -1024", "mov.b32 %r1, 0; st.shared.b32 [%r1], %t;", store);
}

#[test]
fn races_between_warps_and_between_lanes() {
    let addr = "shl.b32 %r1, %t, 2; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; xor.b32 %r3, %t, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r2;";
    both(
        64,
        K::SharedRace(RaceKind::ReadAfterWrite),
        "unordered with the write by warp",
        &format!("{addr} st.shared.b32 [%r1], %t; ld.shared.b32 %r0, [%r3];"),
        &format!("{addr} st.shared.b32 [%r1], %t; bar.sync 0; ld.shared.b32 %r0, [%r3];"),
    );
    both(
        64,
        K::SharedRace(RaceKind::WriteAfterRead),
        "unordered with the read by warp",
        &format!(
            "{addr} st.shared.b32 [%r1], %t; bar.sync 0; ld.shared.b32 %r0, [%r3]; st.shared.b32 [%r1], %r0;"
        ),
        &format!(
            "{addr} st.shared.b32 [%r1], %t; bar.sync 0; ld.shared.b32 %r0, [%r3]; bar.sync 0; st.shared.b32 [%r1], %r0;"
        ),
    );
    // All lanes write one word.
    both(
        32,
        K::SharedRace(RaceKind::WriteWrite),
        "of the same warp",
        "st.shared.b32 [dyn], %t;",
        "setp.eq.u32 %p0, %t, 3; @%p0 st.shared.b32 [dyn], %t;",
    );
    let addr = addr.replace("%t, 32", "%t, 1");
    both(
        32,
        K::SharedRace(RaceKind::ReadAfterWrite),
        "`bar.warp.sync` orders lanes",
        &format!("{addr} st.shared.b32 [%r1], %t; ld.shared.b32 %r0, [%r3];"),
        &format!("{addr} st.shared.b32 [%r1], %t; bar.warp.sync -1; ld.shared.b32 %r0, [%r3];"),
    );
}

#[test]
fn neighbouring_halves_do_not_race() {
    let body = "shl.b32 %r1, %t, 1; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; cvt.u16.u32 %h0, %t; st.shared.b16 [%r1], %h0;
        bar.sync 0; shl.b32 %r3, %t, 1; xor.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r2; ld.shared.u16 %r0, [%r3]; st.global.b32 [%o], %r0;";
    let (r, out) = run(body, 64);
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(out, (0..64).map(|t| t ^ 1).collect::<Vec<u32>>());
}

#[test]
fn atomics_do_not_race_with_atomics() {
    let body =
        "setp.eq.u32 %p0, %t, 0; mov.b32 %r1, 0; @%p0 st.shared.b32 [dyn], %r1; bar.sync 0; mov.b32 %r1, 1;
        atom.shared.add.u32 %r2, [dyn], %r1; {} ld.shared.b32 %r0, [dyn]; st.global.b32 [%o], %r0;";
    let (r, out) = run(&body.replace("{}", "bar.sync 0;"), 128);
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(out, [128; 128]);
    let (r, _) = run(&body.replace("{}", ""), 128);
    assert!(find(&r, |k| matches!(k, K::SharedRace(_))).is_some());
}

#[test]
fn barriers() {
    both(
        32,
        K::DivergentAligned,
        "the warp has diverged",
        "setp.lt.u32 %p0, %t, 16; @%p0 bra A; bar.sync 0; bra B; A: bar.sync 0; B: ",
        "setp.lt.u32 %p0, %t, 16; @%p0 bra A; barrier.sync 0; bra B; A: barrier.sync 0; B: ",
    );
    both(
        64,
        K::ExitedBarrier,
        "every thread of the CTA must reach it",
        "setp.lt.u32 %p0, %t, 32; @%p0 exit; bar.sync 0;",
        "bar.sync 0; setp.lt.u32 %p0, %t, 32; @%p0 exit;",
    );
    both(64, K::BarrierCount, "multiple of 32, not 40", "bar.sync 1, 40;", "bar.sync 1, 64;");
    both(32, K::BadMemberMask, "does not name the executing lane 1", "bar.warp.sync 1;", "bar.warp.sync -1;");
    both(32, K::Trap, "`trap` was executed", "trap;", "setp.eq.u32 %p0, %t, 99; @%p0 trap;");
}

#[test]
fn deadlocks_say_who_waits_for_what() {
    both(
        64,
        K::Deadlock,
        "barrier 2: 32 of 64 threads arrived",
        "setp.lt.u32 %p0, %t, 32; @%p0 bra A; bar.sync 2, 64; A: ",
        "setp.lt.u32 %p0, %t, 32; @%p0 bra A; bar.sync 2, 64; bra B; A: bar.arrive 2, 64; B: ",
    );
    both(
        32,
        K::Deadlock,
        "other lanes of its member mask never arrive",
        "setp.lt.u32 %p0, %t, 16; @%p0 bra A; bar.sync 1, 64; A: bar.warp.sync -1;",
        "bar.warp.sync -1;",
    );
    let (r, _) = run("L: bra L;", 32);
    assert!(find(&r, |k| *k == K::InstructionLimit).is_some());
}

fn copy(wait: &str, mode: AsyncMode) -> (Report, Vec<u32>) {
    let body = format!(
        "shl.b32 %r1, %t, 2; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; st.global.b32 [%o], %t;
        cp.async.ca.shared.global [%r1], [%o], 4; cp.async.commit_group; {wait}
        ld.shared.b32 %r0, [%r1]; st.global.b32 [%o], %r0;"
    );
    run_with(&body, 32, |l| l.async_mode = mode)
}

#[test]
fn a_missing_wait_is_found_and_gives_wrong_data() {
    for mode in [AsyncMode::Early, AsyncMode::Late] {
        for wait in ["cp.async.wait_group 0;", "cp.async.wait_all;"] {
            let (r, out) = copy(wait, mode);
            assert!(r.is_clean(), "{}", r.findings[0]);
            assert_eq!(out, (0..32).collect::<Vec<u32>>());
        }
        for wait in ["", "cp.async.wait_group 1;"] {
            let (r, out) = copy(wait, mode);
            let f = find(&r, |k| *k == K::AsyncRace).expect("a finding");
            assert!(f.message.contains("wait for it first"), "{f}");
            assert_eq!(out[5] == 5, mode == AsyncMode::Early);
        }
    }
}

#[test]
fn copies_fill_with_zeros() {
    let body = "shl.b32 %r1, %t, 4; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; mov.b32 %r5, -1; mul.wide.u32 %d1, %t, 4; sub.s64 %d2, %o, %d1;
        st.global.b32 [%o], %r5; bar.sync 0; mov.b32 %r6, 6; setp.eq.u32 %p0, %t, 1;
        @!%p0 cp.async.cg.shared.global [%r1], [%d2], 16, %r6; @%p0 cp.async.cg.shared.global [%r1], [%d2], 16, %p0; cp.async.wait_all;
        ld.shared.v4.b32 {%r7, %r8, %r9, %r10}, [%r1]; or.b32 %r9, %r9, %r10; or.b32 %r8, %r8, %r9; xor.b32 %r7, %r7, %r8; st.global.b32 [%o], %r7;";
    let (r, out) = run(body, 32);
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!((out[0], out[1], out[2]), (0xffff_0000, 0, 0xffff_0000));
}

#[test]
fn findings_cite_the_source_and_count() {
    let m = ptx_sim::Module::parse(
        ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"kernel.rs\"\n.entry k() {\n.reg .b32 %r<3>; .shared .b32 x;\n.loc 1 42 7\nld.shared.b32 %r1, [x];\nret; }",
    )
    .unwrap();
    let mut mem = ptx_sim::Memory::new();
    let l = ptx_sim::Launch { kernel: "k".into(), grid: [3, 1, 1], ..Default::default() };
    let r = ptx_sim::launch(&m, &mut mem, &l).unwrap();
    let f = &r.findings[0];
    assert_eq!((f.line, f.count), (8, 3));
    assert!(f.to_string().contains("kernel.rs:42:7"), "{f}");
    let json = serde_json::to_value(&r).unwrap();
    assert_eq!(json["findings"][0]["kind"], "uninitialized_shared");
}
