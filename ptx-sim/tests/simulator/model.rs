//! The memory consistency model on minimal kernels: which accesses are ordered, and what says so.

use crate::common::*;
use ptx_sim::{
    AsyncMode, FindingKind as K, Launch, LaunchError, Memory, MemoryError, Module, RaceKind, Report,
    TensorElement, TensorMap, launch,
};

/// Runs a kernel of `tests/data/cases` whose parameters are pointers to buffers of 4 KiB.
fn case(ptx: &str, grid: u32, block: u32, seed: u64, mode: AsyncMode) -> Report {
    let m = Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"));
    let k = m.kernels().next().unwrap();
    let mut mem = Memory::new();
    let params = k.params.iter().map(|p| param(mem.alloc(&p.name, 4096).unwrap())).collect();
    let l = Launch {
        kernel: k.name.clone(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        params,
        seed,
        async_mode: mode,
        max_instructions: 1_000_000,
        ..Launch::default()
    };
    launch(&m, &mut mem, &l).unwrap()
}

/// Under 20 schedules in both modes.
fn schedules(ptx: &str, grid: u32, block: u32) -> impl Iterator<Item = Report> {
    let modes = [AsyncMode::Early, AsyncMode::Late];
    (0..20).flat_map(move |seed| modes.map(|mode| case(ptx, grid, block, seed, mode)))
}

fn accepted(name: &str, ptx: &str, grid: u32, block: u32) {
    for r in schedules(ptx, grid, block) {
        assert!(r.is_clean(), "{name}: {}", r.findings[0]);
    }
}

fn found(name: &str, ptx: &str, grid: u32, block: u32, want: impl Fn(&K) -> bool, text: &str) {
    for r in schedules(ptx, grid, block) {
        let f = find(&r, &want).unwrap_or_else(|| panic!("{name}: not found: {:?}", r.findings));
        assert!(f.message.contains(text), "{name}: {f}");
        assert!(f.kind.rule().contains('§') && f.message.contains(f.kind.rule()), "{name}: {f}");
    }
}

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!("../data/cases/", $name, ".ptx"))
    };
}

/// A lane is late at the wait of a phase when the others of its warp have arrived in the next one.
#[test]
fn lanes_of_a_warp_wait_for_the_phase_they_arrived_in() {
    let late = "
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) .reqnctapercluster 2, 1, 1 {
 .reg .pred %q; .reg .b32 %r<3>;
 mov.u32 %r1, %tid.x;
 barrier.cluster.arrive.relaxed;
 setp.ne.s32 %q, %r1, 0;
 @%q bra A;
 mov.u32 %r2, 0;
L:
 add.s32 %r2, %r2, 1;
 setp.lt.s32 %q, %r2, 500;
 @%q bra L;
 barrier.cluster.wait;
 barrier.cluster.arrive;
 barrier.cluster.wait;
 bra Z;
A:
 barrier.cluster.wait;
 barrier.cluster.arrive;
 barrier.cluster.wait;
Z:
 ret;
}
";
    accepted("late", late, 2, 32);
}

#[test]
fn fences_before_a_relaxed_cluster_arrival_release() {
    let (d8, e3) = (ptx!("d8"), ptx!("e3"));
    accepted("d8", d8, 2, 32);
    accepted("e3", e3, 2, 32);
    // Without the fence there is no release; one of CTA scope does not reach the other CTA; one of mbarriers does not
    // order data.
    let not_after = "this use is not ordered after its initialisation";
    found(
        "d8",
        &d8.replace("fence.mbarrier_init.release.cluster;", ""),
        2,
        32,
        |k| *k == K::Mbarrier,
        not_after,
    );
    let race = |k: &K| *k == K::SharedRace(RaceKind::ReadAfterWrite);
    for weaker in ["", "fence.acq_rel.cta;", "fence.mbarrier_init.release.cluster;"] {
        let text = e3.replace("fence.acq_rel.cluster;", weaker);
        assert_ne!(text, e3);
        found(
            "e3",
            &text,
            2,
            32,
            race,
            "`barrier.cluster`, or an mbarrier with .release and .acquire at .cluster scope",
        );
    }
    // What comes between the fence and the arrival is not released.
    let late =
        e3.replace("A:\n fence.acq_rel.cluster;", "A: fence.acq_rel.cluster; @!%q st.shared.u32 [%r6], 8; ");
    assert_ne!(late, e3);
    found("e3", &late, 2, 32, race, "unordered with the write by warp 0 of CTA");
    // A narrower fence does not take back what a wider one released.
    accepted("e3", &e3.replace("fence.acq_rel.cluster;", "fence.acq_rel.cluster; fence.acq_rel.cta;"), 2, 32);
}

#[test]
fn remote_use_of_an_mbarrier_needs_happens_before_alone() {
    for (name, ptx) in [("d5", ptx!("d5")), ("d6", ptx!("d6"))] {
        accepted(name, ptx, 2, 32);
        let text = ptx.replacen("barrier.cluster.arrive.release", "barrier.cluster.arrive.relaxed", 1);
        if name == "d5" {
            found(name, &text, 2, 32, |k| *k == K::Mbarrier, "not ordered after its initialisation");
        } else {
            accepted(name, &text, 2, 32);
        }
    }
}

#[test]
fn scopes_of_mbarriers_count() {
    let (d2, race) = (ptx!("d2"), |k: &K| *k == K::SharedRace(RaceKind::ReadAfterWrite));
    found("d2", d2, 2, 32, race, "at .cluster scope, orders CTAs of a cluster");
    let (arrive, wait) = ("mbarrier.arrive.release.cta", "try_wait.parity.acquire.cta");
    let wide = |t: &str, at: &str| t.replace(at, &at.replace(".cta", ".cluster"));
    // Either side alone is not enough.
    found("d2", &wide(d2, arrive), 2, 32, race, "unordered");
    found("d2", &wide(d2, wait), 2, 32, race, "unordered");
    accepted("d2", &wide(&wide(d2, wait), arrive), 2, 32);
    // A fence on each side makes relaxed operations synchronise, at the narrowest of the scopes.
    let fenced = |scope: &str| {
        let t = wide(&wide(d2, wait), arrive);
        let t =
            t.replace("mbarrier.arrive.release", &format!("fence.acq_rel.{scope}; mbarrier.arrive.relaxed"));
        t.replace("parity.acquire", "parity.relaxed")
            .replace("ld.shared.u32 %r5", &format!("fence.acq_rel.{scope}; ld.shared.u32 %r5"))
    };
    accepted("d2", &fenced("cluster"), 2, 32);
    found("d2", &fenced("cta"), 2, 32, race, "unordered");
}

#[test]
fn a_weak_write_stays_under_later_atomics() {
    for (name, ptx) in [("s2", ptx!("s2")), ("s3", ptx!("s3"))] {
        found(name, ptx, 1, 64, |k| matches!(k, K::SharedRace(_)), "a barrier orders warps");
        let ordered = ptx
            .replace(".shared .align 4 .b8 s[1024];", ".shared .align 4 .b8 s[1024]; .reg .pred %z;")
            .replace(
                "setp.ne.s32 %q, %r4, 0;",
                "setp.eq.u32 %z, %r2, 0; @%z st.shared.u32 [%r6], 0; bar.sync 0; setp.ne.s32 %q, %r4, 0;",
            );
        let ordered =
            ordered.replace("\n st.shared.u32 [%r6], 0; ", "\n ").replace("st.global", "@%z st.global");
        accepted(name, &ordered, 1, 64);
    }
    // In global memory, with one shadow for all CTAs.
    let atomrace = ptx!("atomrace");
    found("atomrace", atomrace, 2, 32, |k| matches!(k, K::GlobalRace(_)), "release and acquire at gpu scope");
    accepted("atomrace", &atomrace.replace("st.global.u32", "st.relaxed.gpu.global.u32"), 2, 32);
}

#[test]
fn atomics_reach_the_threads_of_their_scope() {
    // Of two CTAs, with one shadow for both and with one for each.
    let flag = ptx!("atomrace").replace("st.global.u32", "st.relaxed.gpu.global.u32");
    let sum = ptx!("atomrace").replace(" st.global.u32 [%d1], 0;\n", "");
    let sum = sum.replace("atom.global.add.u32 %r4, [%d1], 1;", "red.global.add.u32 [%d1], 1;");
    for (name, ptx, hint) in [
        ("atom", flag, "release and acquire at gpu scope order CTAs"),
        ("red", sum, "nothing in this kernel orders CTAs"),
    ] {
        let at = |scope: &str| {
            ptx.replace("atom.global", &format!("atom.relaxed.{scope}.global"))
                .replace("red.global", &format!("red.relaxed.{scope}.global"))
        };
        for scope in ["gpu", "sys"] {
            accepted(name, &at(scope), 2, 32);
        }
        for scope in ["cta", "cluster"] {
            found(name, &at(scope), 2, 32, |k| matches!(k, K::GlobalRace(_)), hint);
            accepted(name, &at(scope), 1, 32);
        }
        // Within a cluster its scope is wide enough.
        let cluster =
            |scope: &str| at(scope).replace("(.param .u64 p)", "(.param .u64 p) .reqnctapercluster 2, 1, 1");
        accepted(name, &cluster("cluster"), 2, 32);
        found(name, &cluster("cta"), 2, 32, |k| matches!(k, K::GlobalRace(_)), "unordered with the write by");
    }
}

#[test]
fn a_reader_is_told_of_each_unordered_asynchronous_write() {
    let c2 = ptx!("c2");
    for r in schedules(c2, 1, 32) {
        let lines = |i: &str| {
            r.findings.iter().filter(|f| f.kind == K::AsyncRace && f.instruction.starts_with(i)).count()
        };
        assert_eq!((lines("cp.async"), lines("ld.shared")), (1, 1), "{:#?}", r.findings);
        let f = r.findings.iter().find(|f| f.instruction.starts_with("ld.shared")).unwrap();
        assert!(
            f.message.contains("`cp.async.wait_group` or `cp.async.wait_all` must be waited for first"),
            "{f}"
        );
    }
    // The reader of the copy that was waited for alone is in order, and two copies to different bytes are.
    accepted("c2", &c2.replace("[%r4], [%d4+128], 4", "[%r4+128], [%d4+128], 4"), 1, 32);
}

#[test]
fn unordered_volatile_accesses_are_a_class_of_their_own() {
    let v = ptx!("syncwarp_vol");
    let volatile = |k: &K| *k == K::UnorderedVolatile(RaceKind::ReadAfterWrite);
    found("syncwarp_vol", v, 1, 32, volatile, "`bar.warp.sync` orders lanes");
    for r in schedules(v, 1, 32) {
        assert!(r.findings.iter().all(|f| matches!(f.kind, K::UnorderedVolatile(_))), "{:?}", r.findings);
    }
    let synced = v
        .replace("xor.b32 %r7", "bar.warp.sync -1; xor.b32 %r7")
        .replace("st.volatile.shared.u32 [%r4], %r5", "bar.warp.sync -1; st.volatile.shared.u32 [%r4], %r5");
    accepted("syncwarp_vol", &synced, 1, 32);
    // A volatile access does race with a weak one.
    let weak = v.replacen("st.volatile", "st", 1);
    found("syncwarp_vol", &weak, 1, 32, |k| matches!(k, K::SharedRace(_)), "of the same warp");
    // A flag that others poll is no exchange of data.
    let flag = "mov.u32 %r1, dyn; setp.ge.u32 %p0, %t, 32; @%p0 bra WAIT; st.shared.b32 [%r1+4], 0; @%p1 bra WAIT;
        setp.eq.u32 %p1, %t, 0; @%p1 st.shared.b32 [%r1+4], 9; FENCE @%p1 st.volatile.shared.b32 [%r1], 1; bra END;
        WAIT: ld.volatile.shared.b32 %r2, [%r1]; setp.ne.u32 %p0, %r2, 1; @%p0 bra WAIT; ACQ ld.shared.b32 %r3, [%r1+4]; END:";
    let go = |fence: &str, acq: &str| run(&flag.replace("FENCE", fence).replace("ACQ", acq), 64).0;
    let r = go("", "");
    assert!(!r.findings.iter().any(|f| matches!(f.kind, K::UnorderedVolatile(_))), "{:?}", r.findings);
    assert!(find(&r, |k| *k == K::SharedRace(RaceKind::ReadAfterWrite)).is_some(), "{:?}", r.findings);
}

/// A tensor store leaves out what is outside the tensor, and does not read it from shared memory either.
#[test]
fn tensor_stores_read_what_they_write() {
    let m = Module::parse(
        ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .align 64 .b8 map[128]) {
        .reg .b32 %t, %r<4>; .reg .b64 %m; .reg .pred %p; .shared .align 128 .b8 s[1024];
        mov.u32 %t, %tid.x; mov.u32 %r0, s; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r0; st.shared.b32 [%r1], %t;
        fence.proxy.async; bar.sync 0; setp.ne.u32 %p, %t, 0; @%p bra END; mov.b64 %m, map; cvta.param.u64 %m, %m;
        cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m, {0, 0}], [%r0];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END: ret; }",
    )
    .unwrap();
    let go = |rows: u64| {
        let mut mem = Memory::new();
        let out = mem.alloc("out", 128 * rows).unwrap();
        let map = TensorMap::new(out, TensorElement::U32, &[32, rows], &[128], &[32, 8]);
        let params = vec![map.encode().unwrap().to_vec()];
        launch(&m, &mut mem, &Launch { kernel: "k".into(), block: [64, 1, 1], params, ..Launch::default() })
            .unwrap()
    };
    // 64 threads fill two rows of the box of eight.
    assert!(go(2).is_clean(), "{}", go(2).findings[0]);
    assert!(find(&go(3), |k| *k == K::UninitializedShared).is_some());
}

/// Who takes the lock first decides whether the other is ordered after its write.
#[test]
fn a_second_schedule_finds_what_the_first_hides() {
    // Warp 1 reads after its own turn at the counter; only if it comes first is the write unordered.
    let body = "mov.u32 %r1, dyn; setp.ge.u32 %p0, %t, 32; and.b32 %r5, %t, 31; setp.ne.u32 %p1, %r5, 0; @%p1 bra END; @%p0 bra OTHER;
        st.shared.b32 [%r1+4], 5; atom.acq_rel.cta.shared.add.u32 %r2, [%r1+8], 1; bra END;
        OTHER: atom.acq_rel.cta.shared.add.u32 %r2, [%r1+8], 1; ld.shared.b32 %r3, [%r1+4]; END:";
    let go = |second| {
        let (r, _) = run_with(body, 64, |l| (l.second_seed, l.uninit_check) = (second, false));
        r
    };
    assert!(go(None).is_clean(), "{}", go(None).findings[0]);
    let hit = (1..20).find_map(|seed| {
        let r = go(Some(seed));
        let f = find(&r, |k| matches!(k, K::SharedRace(_)))?.message.clone();
        Some((seed, f))
    });
    let (seed, message) = hit.expect("some schedule finds it");
    assert!(message.contains(&format!("found with the schedule of seed {seed}")), "{message}");
}

/// A second run works on a copy of the memory.
#[test]
fn a_second_schedule_changes_no_result() {
    let body = "ld.global.b32 %r0, [%o]; add.u32 %r0, %r0, 1; st.global.b32 [%o], %r0;";
    let (r, out) = run_with(body, 32, |l| l.second_seed = Some(1));
    assert!(r.is_clean());
    assert_eq!(out, [1; 32]);
}

/// Every thread writes a word, the CTAs 1 GiB apart.
const SPARSE: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 x) {
    .reg .b32 %t, %c; .reg .b64 %o, %d; mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; ld.param.u64 %o, [x];
    mul.wide.u32 %d, %c, 1073741824; add.s64 %o, %o, %d; mul.wide.u32 %d, %t, 4; add.s64 %o, %o, %d;
    ld.global.u32 %c, [%o]; ORDER st.global.u32 [%o], %t; ret; }";

/// Bytes of this process in memory now. Its peak would be simpler, but not every kernel keeps one.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line =
        text.lines().find(|l| l.starts_with("VmRSS:"))?.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(line * 1024)
}

#[test]
fn a_large_tensor_costs_what_is_touched_of_it() {
    let before = resident();
    // Without order between CTAs, and in the mode with one shadow for all.
    for order in ["", "ld.acquire.gpu.global.u32 %c, [%o];"] {
        let m = Module::parse(&SPARSE.replace("ORDER", order)).unwrap();
        let mut mem = Memory::new();
        let x = mem.alloc("x", 4 << 30).unwrap();
        let l = Launch {
            kernel: "k".into(),
            grid: [4, 1, 1],
            params: vec![param(x)],
            check_memory: Some(64 << 20),
            // The copy of the memory for it is as sparse.
            second_seed: order.is_empty().then_some(3),
            ..Launch::default()
        };
        let r = launch(&m, &mut mem, &l).unwrap();
        assert!(r.is_clean(), "{}", r.findings[0]);
        assert_eq!(read_u32(&mem, x + (3 << 30), 32), (0..32).collect::<Vec<u32>>());
        // While the tensor is there. Other tests of this process may have ended since.
        if let (Some(before), Some(now)) = (before, resident()) {
            let more = now.saturating_sub(before);
            assert!(more < 512 << 20, "{} MiB", more >> 20);
        }
    }
}

#[test]
fn checks_without_memory_are_an_error() {
    for order in ["", "ld.acquire.gpu.global.u32 %c, [%o];"] {
        let m = Module::parse(&SPARSE.replace("ORDER", order)).unwrap();
        let mut mem = Memory::new();
        let params = vec![param(mem.alloc("x", 2 << 30).unwrap())];
        let kernel = "k".into();
        let l = Launch { kernel, grid: [2, 1, 1], params, check_memory: Some(60_000), ..Launch::default() };
        let e = launch(&m, &mut mem, &l).unwrap_err();
        assert_eq!(e, LaunchError::CheckMemory { limit: 60_000 });
        assert!(e.to_string().contains("more than 60000 bytes"), "{e}");
        let l = Launch { race_check: false, ..l };
        assert!(launch(&m, &mut mem, &l).unwrap().is_clean());
    }
    let mut mem = Memory::with_capacity(u64::MAX);
    let e = mem.alloc("x", 1 << 62).unwrap_err();
    assert!(matches!(e, MemoryError::HostMemory { .. }), "{e}");
}
