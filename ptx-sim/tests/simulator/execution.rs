//! Divergence, warp-wide instructions, barriers, scheduling, launch validation.

use crate::common::*;
use ptx_sim::{Launch, LaunchError, Memory, Module, launch};

fn clean(body: &str, threads: u32) -> Vec<u32> {
    let (r, out) = run(body, threads);
    assert!(r.is_clean(), "{}", r.findings[0]);
    out
}

#[test]
fn loops_of_different_length_reconverge() {
    let body = "mov.b32 %r0, 0; mov.b32 %r1, 0; L: setp.ge.u32 %p0, %r1, %t; @%p0 bra E; add.u32 %r0, %r0, %r1; add.u32 %r1, %r1, 1; bra L;
        E: activemask.b32 %r2; shl.b32 %r0, %r0, 1; setp.ne.b32 %p1, %r2, -1; @%p1 mov.b32 %r0, -1; st.global.b32 [%o], %r0;";
    assert_eq!(clean(body, 32), (0..32).map(|t: u32| t * t.saturating_sub(1)).collect::<Vec<_>>());
}

#[test]
fn lanes_may_wait_for_one_another() {
    // The spinning lanes stand below the lane they wait for: a reconvergence stack would hang.
    let body = "setp.eq.u32 %p0, %t, 5; mov.b32 %r3, 0; @%p0 st.volatile.shared.b32 [dyn], %r3; bar.warp.sync -1; @%p0 bra SET;
        SPIN: ld.volatile.shared.b32 %r1, [dyn]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; bra DONE;
        SET: mov.b32 %r2, 9; st.volatile.shared.b32 [dyn], %r2; mov.b32 %r1, 9;
        DONE: st.global.b32 [%o], %r1;";
    assert_eq!(clean(body, 32), [9; 32]);
}

#[test]
fn spinning_warps_let_others_run() {
    let body = "setp.ge.u32 %p0, %t, 32; setp.eq.u32 %p2, %t, 0; mov.b32 %r3, 0; @%p2 st.shared.b32 [dyn], %r3; bar.sync 0; @%p0 bra SET;
        SPIN: ld.acquire.cta.shared.b32 %r1, [dyn]; setp.eq.u32 %p1, %r1, 0; @%p1 bra SPIN; ld.shared.b32 %r1, [dyn+4]; bra DONE;
        SET: setp.ne.u32 %p1, %t, 40; @%p1 bra DONE; mov.b32 %r2, 7; st.shared.b32 [dyn+4], %r2; st.release.cta.shared.b32 [dyn], %r2; mov.b32 %r1, 1;
        DONE: st.global.b32 [%o], %r1;";
    let out = clean(body, 64);
    assert_eq!(out[..32], [7; 32]);
}

#[test]
fn shuffles() {
    let s = |op: &str| {
        clean(
            &format!(
                "shfl.sync.{op}, -1; selp.b32 %r1, 100, 0, %p0; add.u32 %r0, %r0, %r1; st.global.b32 [%o], %r0;"
            ),
            32,
        )
    };
    assert_eq!(s("bfly.b32 %r0|%p0, %t, 1, 31")[..4], [101, 100, 103, 102]);
    assert_eq!(s("up.b32 %r0|%p0, %t, 2, 0")[..4], [0, 1, 100, 101]);
    assert_eq!(s("down.b32 %r0|%p0, %t, 2, 31")[28..], [130, 131, 30, 31]);
    assert_eq!(s("idx.b32 %r0|%p0, %t, 3, 31")[..2], [103, 103]);
    // Segments of 8 lanes.
    assert_eq!(s("idx.b32 %r0|%p0, %t, 1, 0x181f")[8..10], [109, 109]);
    assert_eq!(s("down.b32 %r0|%p0, %t, 1, 0x1807")[6..8], [107, 7]);
}

#[test]
fn votes_matches_and_reductions() {
    let v = |b: &str| {
        clean(&format!("setp.lt.u32 %p0, %t, 3; and.b32 %r5, %t, 3; {b} st.global.b32 [%o], %r0;"), 32)[0]
    };
    assert_eq!(v("vote.sync.ballot.b32 %r0, %p0, -1;"), 7);
    assert_eq!(v("vote.sync.any.pred %p1, %p0, -1; selp.b32 %r0, 1, 0, %p1;"), 1);
    assert_eq!(v("vote.sync.all.pred %p1, !%p0, -1; selp.b32 %r0, 1, 0, %p1;"), 0);
    assert_eq!(v("vote.sync.uni.pred %p1, %p0, -1; selp.b32 %r0, 1, 0, %p1;"), 0);
    assert_eq!(v("match.any.sync.b32 %r0, %r5, -1;"), 0x1111_1111);
    assert_eq!(v("match.all.sync.b32 %r0|%p1, %r5, -1; selp.b32 %r0, 1, 0, %p1;"), 0);
    assert_eq!(v("redux.sync.add.u32 %r0, %t, -1;"), 496);
    assert_eq!(v("sub.s32 %r1, 3, %t; redux.sync.min.s32 %r0, %r1, -1;"), -28i32 as u32);
    assert_eq!(v("elect.sync %r1|%p1, -1; selp.b32 %r0, 1, 0, %p1;"), 1);
}

#[test]
fn sync_instructions_wait_for_their_members() {
    let body = "setp.lt.u32 %p0, %t, 16; mov.b32 %r1, %t; @%p0 bra A; add.u32 %r1, %r1, 100;
        A: shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1; st.global.b32 [%o], %r0;";
    let out = clean(body, 32);
    assert_eq!((out[0], out[16]), (116, 0));
    // Two paths, each with its own `bar.warp.sync` of the whole warp.
    let body = "setp.lt.u32 %p0, %t, 16; @%p0 bra A; bar.warp.sync -1; mov.b32 %r0, 1; bra B; A: bar.warp.sync -1; mov.b32 %r0, 2; B: st.global.b32 [%o], %r0;";
    let out = clean(body, 32);
    assert_eq!((out[0], out[16]), (2, 1));
}

#[test]
fn reduction_barriers_and_partial_warps() {
    let body = "setp.lt.u32 %p0, %t, 33; bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p1, 1, %p0; bar.red.or.pred %p2, 1, %p0;
        @%p1 add.u32 %r0, %r0, 100; @%p2 add.u32 %r0, %r0, 1000; st.global.b32 [%o], %r0;";
    assert_eq!(clean(body, 40), [1033; 40]);
    assert_eq!(clean("bar.sync 0; bar.sync 3, 64; mov.b32 %r0, 1; st.global.b32 [%o], %r0;", 40), [1; 40]);
}

#[test]
fn atomics_on_global_memory() {
    let (r, out) = run(
        "sub.s64 %o, %o, %d0; atom.global.add.u32 %r0, [%o], 1; red.global.max.u32 [%o+4], %t; bar.sync 0;",
        64,
    );
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(out[..2], [64, 63]);
    assert_eq!(r.counters.global_atomic.requests, 4);
}

const COUNT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out) {
    .reg .b32 %r<8>; .reg .b64 %o, %x; .reg .pred %p; .shared .b32 s[64];
    ld.param.u64 %o, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r2, %r1, 4, %r2;
    st.shared.b32 [%r2], %r1; xor.b32 %r3, %r1, 33; mov.u32 %r4, s; mad.lo.u32 %r4, %r3, 4, %r4; ld.shared.b32 %r5, [%r4];
    red.global.add.u32 [%o], %r5; mad.lo.u32 %r6, %r0, 64, %r1; mul.wide.u32 %x, %r6, 4; add.s64 %x, %x, %o; st.global.b32 [%x+4], %r5; ret; }";

#[test]
fn the_number_of_threads_changes_nothing() {
    let m = Module::parse(COUNT).unwrap();
    let go = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut mem = Memory::new();
        let out = mem.alloc("out", 4 + 300 * 256).unwrap();
        let l = Launch {
            kernel: "k".into(),
            grid: [300, 1, 1],
            block: [64, 1, 1],
            params: vec![param(out)],
            seed,
            ..Launch::default()
        };
        let r = pool.install(|| launch(&m, &mut mem, &l)).unwrap();
        (serde_json::to_string(&r).unwrap(), read_u32(&mem, out, 1 + 300 * 64))
    };
    let one = go(1, 3);
    assert!(one.0.contains("shared_race"));
    assert_eq!(one, go(4, 3));
    assert_eq!(one, go(1, 3));
}

#[test]
fn a_grid_wide_barrier_works() {
    let m = Module::parse(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out) {
        .reg .b32 %r<8>; .reg .b64 %o, %x; .reg .pred %p, %q;
        ld.param.u64 %o, [out]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %x, %r0, 4; add.s64 %x, %x, %o; mov.u32 %r5, %tid.x; setp.ne.u32 %q, %r5, 0; @%q bra J;
        add.u32 %r1, %r0, 1; st.global.b32 [%x+64], %r1; membar.gl; atom.global.add.u32 %r2, [%o], 1;
        S: ld.acquire.gpu.global.b32 %r3, [%o]; setp.lt.u32 %p, %r3, 8; @%p bra S;
        J: bar.sync 0; xor.b32 %r0, %r0, 7; mul.wide.u32 %x, %r0, 4; ld.param.u64 %o, [out]; add.s64 %o, %x, %o; ld.global.b32 %r4, [%o+64]; @%q ret; st.global.b32 [%o+128], %r4; ret; }",
    )
    .unwrap();
    let mut mem = Memory::new();
    let out = mem.alloc("out", 256).unwrap();
    let l = Launch { kernel: "k".into(), grid: [8, 1, 1], params: vec![param(out)], ..Launch::default() };
    let r = launch(&m, &mut mem, &l).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(read_u32(&mem, out + 128, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn launches_are_validated() {
    let m = Module::parse(COUNT).unwrap();
    let mut mem = Memory::new();
    let ok = Launch { kernel: "k".into(), params: vec![param(0)], ..Launch::default() };
    let mut e = |l: Launch| launch(&m, &mut mem, &l).unwrap_err();
    assert!(matches!(e(Launch { kernel: "nope".into(), ..ok.clone() }), LaunchError::UnknownKernel { .. }));
    assert!(matches!(
        e(Launch { params: vec![], ..ok.clone() }),
        LaunchError::ParamCount { expected: 1, given: 0, .. }
    ));
    assert!(matches!(
        e(Launch { params: vec![vec![0; 4]], ..ok.clone() }),
        LaunchError::ParamSize { expected: 8, given: 4, .. }
    ));
    assert!(matches!(e(Launch { block: [1025, 1, 1], ..ok.clone() }), LaunchError::Shape(_)));
    assert!(matches!(e(Launch { grid: [0, 1, 1], ..ok.clone() }), LaunchError::Shape(_)));
    assert!(matches!(
        e(Launch { dynamic_shared: 163 * 1024, ..ok.clone() }),
        LaunchError::SharedTooLarge { .. }
    ));
    assert!(e(Launch { dynamic_shared: u32::MAX, ..ok }).to_string().contains("above the 166912"));
}
