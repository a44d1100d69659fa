//! Every kind of finding: a program that has it, and the repaired program that does not.

use crate::common::*;
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

/// PTX ISA, `.pragma "used_bytes_mask"`: a compiler widens a load and does not use all of it.
#[test]
fn unused_bytes_of_a_widened_load() {
    let store =
        "mov.u32 %r2, dyn; mov.b32 %r1, 5; st.shared.v2.b32 [%r2], {%r1, %r1}; st.shared.b32 [%r2+8], %r1;";
    let load = "ld.shared.v4.b32 {%r0, %r1, %r3, %r4}, [%r2];";
    both(
        1,
        K::UninitializedShared,
        "byte 12 of `dyn`",
        &format!("{store} {load}"),
        &format!("{store} .pragma \"used_bytes_mask 0xfff\"; {load}"),
    );
    // Of the next instruction only.
    let (r, _) = run(&format!("{store} .pragma \"used_bytes_mask 0xfff\"; {load} {load}"), 1);
    assert!(find(&r, |k| *k == K::UninitializedShared).is_some());
    // `out` has 124 bytes: the vector at byte 112 lies within it up to the last byte used.
    let first = "setp.eq.u32 %p0, %t, 0;";
    let load = "@%p0 ld.global.v4.b32 {%r0, %r1, %r3, %r4}, [%o+112];";
    both(
        31,
        K::OutOfBounds,
        "runs over its end",
        &format!("{first} {load}"),
        &format!("{first} .pragma \"used_bytes_mask 0xfff\"; {load}"),
    );
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
fn races_in_global_memory() {
    // Each thread reads what a thread of the other warp wrote.
    let other = "xor.b32 %r3, %t, 32; sub.s64 %d1, %o, %d0; mul.wide.u32 %d2, %r3, 4; add.s64 %d1, %d1, %d2;";
    both(
        64,
        K::GlobalRace(RaceKind::ReadAfterWrite),
        "of `out`, unordered with the write by warp",
        &format!("{other} st.global.b32 [%o], %t; ld.global.b32 %r0, [%d1];"),
        &format!("{other} st.global.b32 [%o], %t; bar.sync 0; ld.global.b32 %r0, [%d1];"),
    );
    both(
        64,
        K::GlobalRace(RaceKind::WriteAfterRead),
        "unordered with the read by warp",
        &format!("{other} ld.global.b32 %r0, [%d1]; st.global.b32 [%o], %t;"),
        &format!("{other} ld.global.b32 %r0, [%d1]; bar.sync 0; st.global.b32 [%o], %t;"),
    );
    // Lanes that store different values to one word, and the same value.
    both(
        32,
        K::GlobalRace(RaceKind::WriteWrite),
        "lane 1 writes byte 0 of `out`, unordered with the write by lane 0 of the same warp",
        "sub.s64 %d1, %o, %d0; st.global.b32 [%d1], %t;",
        "sub.s64 %d1, %o, %d0; st.global.b32 [%d1], 7;",
    );
    // CTAs cannot be ordered by barriers.
    let grid = |body: &str| run_with(body, 32, |l| l.grid = [3, 1, 1]).0;
    let r = grid("st.global.b32 [%o], %t;");
    let f = find(&r, |k| *k == K::GlobalRace(RaceKind::WriteWrite)).expect("a finding");
    assert!(f.message.contains("the same bytes of `out`, first byte 0, 32 places in all"), "{f}");
    let r = grid(
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 0; @%p0 st.global.b32 [%o], %t; @!%p0 ld.global.b32 %r0, [%o];",
    );
    assert!(find(&r, |k| *k == K::GlobalRace(RaceKind::ReadAfterWrite)).is_some(), "{:?}", r.findings);
    assert!(grid("red.global.add.u32 [%o], 1;").is_clean());
    assert!(grid("ld.global.b32 %r0, [%o];").is_clean());
    // Halves of one word belong to different CTAs.
    let halves = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 2; add.s64 %d1, %d1, %o; mov.b16 %h0, 5; setp.lt.u32 %p0, %r1, 2; @%p0 st.global.b16 [%d1], %h0;";
    assert!(grid(halves).is_clean());
    // A flag orders two CTAs if it is released and acquired, and at gpu scope.
    let flag = |st: &str, ld: &str| {
        grid(&format!(
            "mov.u32 %r1, %ctaid.x; sub.s64 %d1, %o, %d0; setp.ne.u32 %p0, %t, 0; @%p0 bra END; setp.gt.u32 %p1, %r1, 1; @%p1 bra END; setp.eq.u32 %p1, %r1, 1; @%p1 bra WAIT;
            st.global.b32 [%d1], 5; {st} [%d1+4], 1; bra END;
            WAIT: {ld} %r2, [%d1+4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT; ld.global.b32 %r3, [%d1]; st.global.b32 [%d1+8], %r3; END: "
        ))
    };
    assert!(flag("st.release.gpu.global.b32", "ld.acquire.gpu.global.b32").is_clean());
    assert!(flag("fence.acq_rel.gpu; st.relaxed.gpu.global.b32", "ld.acquire.gpu.global.b32").is_clean());
    for (st, ld) in [
        ("st.relaxed.gpu.global.b32", "ld.acquire.gpu.global.b32"),
        ("st.release.gpu.global.b32", "ld.relaxed.gpu.global.b32"),
        ("st.release.cta.global.b32", "ld.acquire.gpu.global.b32"),
        ("st.release.gpu.global.b32", "ld.acquire.cta.global.b32"),
    ] {
        let r = flag(st, ld);
        let f = find(&r, |k| *k == K::GlobalRace(RaceKind::ReadAfterWrite)).expect("a finding");
        assert!(f.message.contains("of CTA (0,0,0)"), "{st} {ld}: {f}");
    }
    let r = flag(
        "st.release.gpu.global.b32",
        "ld.acquire.gpu.global.b32 %r5, [%d1+12]; ld.relaxed.gpu.global.b32",
    );
    assert!(find(&r, |k| *k == K::GlobalRace(RaceKind::ReadAfterWrite)).is_some());
}

#[test]
fn polling_what_nobody_changes_is_a_deadlock() {
    both(
        32,
        K::Deadlock,
        "polls memory at line",
        "L: ld.volatile.global.b32 %r0, [%o]; setp.eq.u32 %p0, %r0, 0; @%p0 bra L;",
        "st.global.b32 [%o], 1; L: ld.volatile.global.b32 %r0, [%o]; setp.eq.u32 %p0, %r0, 0; @%p0 bra L;",
    );
}

#[test]
fn registers_are_handed_over() {
    // 512 threads: 128 registers each.
    let body = |dec: &str| {
        format!(
            "setp.ge.u32 %p0, %t, 256; @%p0 bra MORE; {dec} bra END; MORE: setmaxnreg.inc.sync.aligned.u32 160; END: "
        )
    };
    both(
        512,
        K::Deadlock,
        "`setmaxnreg.inc` waits for 1024 registers: the warp has 128 a thread",
        &body("setmaxnreg.dec.sync.aligned.u32 104;"),
        &body("setmaxnreg.dec.sync.aligned.u32 96;"),
    );
    both(
        512,
        K::RegisterBudget,
        "keeps more registers than the 128 a thread has: 136",
        "setmaxnreg.dec.sync.aligned.u32 136;",
        "setmaxnreg.dec.sync.aligned.u32 128;",
    );
}

#[test]
fn blocks_that_share_an_sm_have_fewer_registers() {
    // 256 threads alone have up to 255 each; of two such blocks, 128.
    let of = |attribute: &str| {
        let text = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() {attribute} {{ setmaxnreg.dec.sync.aligned.u32 136; ret; }}"
        );
        let launch = ptx_sim::Launch { kernel: "k".into(), block: [256, 1, 1], ..Default::default() };
        ptx_sim::launch(&ptx_sim::Module::parse(&text).unwrap(), &mut ptx_sim::Memory::new(), &launch)
            .unwrap()
    };
    assert!(of("").is_clean());
    let shared = of(".minnctapersm 2");
    let finding = find(&shared, |k| *k == K::RegisterBudget).expect("a finding");
    assert!(finding.to_string().contains("keeps more registers than the 128 a thread has: 136"), "{finding}");
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
    // Barriers wait for the threads that have not exited (CUDA C++ Programming Guide, `__syncthreads`).
    for body in
        ["setp.lt.u32 %p0, %t, 32; @%p0 exit; bar.sync 0;", "setp.lt.u32 %p0, %t, 40; @%p0 exit; bar.sync 0;"]
    {
        let (r, _) = run(body, 64);
        assert!(r.is_clean(), "{}", r.findings[0]);
    }
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
            assert!(f.message.contains("must be waited for first"), "{f}");
            assert_eq!(out[5] == 5, mode == AsyncMode::Early);
        }
    }
}

#[test]
fn copies_fill_with_zeros() {
    let body = "shl.b32 %r1, %t, 4; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; mov.b32 %r5, -1; mul.wide.u32 %d1, %t, 4; sub.s64 %d2, %o, %d1;
        st.global.b32 [%o], %r5; bar.sync 0; mov.b32 %r6, 6; setp.eq.u32 %p0, %t, 1;
        @!%p0 cp.async.cg.shared.global [%r1], [%d2], 16, %r6; @%p0 cp.async.cg.shared.global [%r1], [%d2], 16, %p0; cp.async.wait_all;
        ld.shared.v4.b32 {%r7, %r8, %r9, %r10}, [%r1]; or.b32 %r9, %r9, %r10; or.b32 %r8, %r8, %r9; xor.b32 %r7, %r7, %r8; bar.sync 0; st.global.b32 [%o], %r7;";
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

/// Three reads of one line, inlined through two calls, are one group; the chain and the names are those of the source.
#[test]
fn findings_are_grouped_by_source_line_and_name_what_was_inlined() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"kernel.cu\"\n.file 2 \"tile.cuh\"
.entry _Z6kernelILi4EEvv() {
.reg .b32 %r<5>; .shared .align 4 .b8 _ZZ6kernelILi4EEvvE4tile[64];
.loc 1 42 7
.loc 2 9 3, function_name $L__info_string0, inlined_at 1 42 7
.loc 2 30 1, function_name $L__info_string1+4, inlined_at 2 9 3
ld.shared.b32 %r1, [_ZZ6kernelILi4EEvvE4tile];
ld.shared.b32 %r2, [_ZZ6kernelILi4EEvvE4tile+4];
.loc 2 31 1, function_name $L__info_string1+4, inlined_at 2 9 3
ld.shared.b32 %r3, [_ZZ6kernelILi4EEvvE4tile+8];
ret; }
.section .debug_str {
$L__info_string0: .b8 95,90,53,111,117,116,101,114,118,0
$L__info_string1: .b8 0,0,0,0,105,110,110,101,114
.b8 0 }";
    let m = ptx_sim::Module::parse(text).unwrap();
    assert_eq!(m.find_kernels("kernel<4>")[0].demangled, "void kernel<4>()");
    let l = ptx_sim::Launch { kernel: "_Z6kernelILi4EEvv".into(), grid: [2, 1, 1], ..Default::default() };
    let r = ptx_sim::launch(&m, &mut ptx_sim::Memory::new(), &l).unwrap();
    let groups: Vec<_> =
        r.groups().into_iter().map(|g| (g.source.unwrap().line, g.lines, g.count, g.findings)).collect();
    assert_eq!(groups, [(30, vec![11, 12], 4, vec![0, 1]), (31, vec![14], 2, vec![2])]);
    let text = r.findings[0].to_string();
    assert!(text.contains("byte 0 of `tile` of shared memory"), "{text}");
    assert!(
        text.ends_with("\n  in inner, inlined at tile.cuh:9:3\n  in outer(), inlined at kernel.cu:42:7"),
        "{text}"
    );
}

#[test]
fn replicated_stores_of_one_value_do_not_race() {
    let race = |r: &Report| find(r, |k| matches!(k, K::SharedRace(RaceKind::WriteWrite))).is_some();
    // All lanes of both warps store to one word: their CTA's number, or their own.
    let (same, _) = run("mov.u32 %r1, %ctaid.x; st.shared.b32 [dyn], %r1;", 64);
    assert!(same.is_clean(), "{}", same.findings[0]);
    assert!(race(&run("st.shared.b32 [dyn], %t;", 32).0));
    assert!(race(&run("shr.u32 %r1, %t, 5; st.shared.b32 [dyn], %r1;", 64).0));
    // One value, but two instructions of two warps.
    let two = "shr.u32 %r1, %t, 5; setp.eq.u32 %p1, %r1, 0; mov.b32 %r2, 7;
        @%p1 st.shared.b32 [dyn], %r2; @!%p1 st.shared.b32 [dyn], %r2;";
    assert!(race(&run(two, 64).0));
}

/// Each thread of a dependent launch waits before it accesses global memory, by whatever instruction; shared memory is the
/// grid's own.
#[test]
fn dependent_launches_wait_before_they_access_memory() {
    let copy = "shl.b32 %r1, %t, 2; mov.u32 %r2, dyn; add.u32 %r2, %r2, %r1; cp.async.ca.shared.global [%r2], [%o], 4; \
        cp.async.wait_all;";
    let bulk = "setp.ne.u32 %p1, %t, 0; @%p1 bra DONE; mov.u32 %r2, dyn; st.shared.v4.b32 [%r2], {%t, %t, %t, %t}; \
        fence.proxy.async.shared::cta; cp.async.bulk.global.shared::cta.bulk_group [%o], [%r2], 16; \
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:";
    let accesses = [
        ("ld.global.b32 %r0, [%o];", 32),
        ("st.global.b32 [%o], %t;", 32),
        ("atom.global.add.u32 %r0, [%o], 1;", 32),
        ("red.global.add.u32 [%o], 1;", 32),
        ("ld.b32 %r0, [%o];", 32),
        (copy, 32),
        (bulk, 1),
    ];
    let wait = "griddepcontrol.wait;";
    for (access, lanes) in accesses {
        let early = |body: &str, dependent| {
            let (r, _) = run_with(body, 32, |launch| launch.dependent = dependent);
            let found = find(&r, |k| *k == K::BeforeGridWait).map(|f| (f.count, f.lane, f.to_string()));
            assert_eq!(found.is_some(), !r.is_clean(), "{body}: {:?}", r.findings);
            found
        };
        let (count, lane, text) = early(access, true).unwrap_or_else(|| panic!("nothing found: {access}"));
        assert_eq!((count, lane), (1, 0), "{access}");
        assert!(text.contains("before `griddepcontrol.wait`"), "{text}");
        assert!(early(access, false).is_none(), "{access}");
        assert!(early(&format!("{wait} {access}"), true).is_none(), "{access}");
        assert!(early(&format!("{access} {wait}"), true).is_some(), "{access}");
        // One lane has waited, and the others have not.
        let some = early(&format!("setp.eq.u32 %p0, %t, 0; @%p0 {wait} {access}"), true);
        assert_eq!(some.map(|(_, lane, _)| lane), (lanes > 1).then_some(1), "{access}");
        let signal = early(&format!("griddepcontrol.launch_dependents; {access}"), true);
        assert!(signal.is_some(), "a signal is no wait: {access}");
    }
    let shared = "mov.u32 %r2, dyn; st.shared.b32 [%r2], 1; ld.shared.b32 %r0, [%r2];";
    let (r, _) = run_with(&format!("{shared} {wait}"), 1, |launch| launch.dependent = true);
    assert!(r.is_clean(), "{}", r.findings[0]);
}
