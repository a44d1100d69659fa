//! Lanes of one warp: groups that synchronise among themselves, and what one lane may say for others.

use crate::common::*;
use ptx_sim::{AsyncMode, FindingKind as K, Launch, Memory, Module, RaceKind, Report, launch};

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!("../data/cases/", $name, ".ptx"))
    };
}

/// Runs a case on one CTA under many schedules, early and late; every parameter is a buffer of 4 KiB, the last is read.
fn case(ptx: &str, block: u32) -> Vec<(Report, Vec<u32>)> {
    let m = Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"));
    let k = m.kernels().next().unwrap();
    let modes = [AsyncMode::Early, AsyncMode::Late];
    let each = (0..20).flat_map(|seed| modes.map(|mode| (seed, mode)));
    let go = |(seed, async_mode)| {
        let mut mem = Memory::new();
        let buffers: Vec<u64> = k.params.iter().map(|p| mem.alloc(&p.name, 4096).unwrap()).collect();
        let l = Launch {
            kernel: k.name.clone(),
            block: [block, 1, 1],
            params: buffers.iter().map(|b| param(*b)).collect(),
            seed,
            async_mode,
            max_instructions: 1_000_000,
            ..Launch::default()
        };
        let r = launch(&m, &mut mem, &l).unwrap();
        (r, read_u32(&mem, *buffers.last().unwrap(), 1024))
    };
    each.map(go).collect()
}

fn clean(ptx: &str, block: u32) -> Vec<u32> {
    let runs = case(ptx, block);
    for (r, _) in &runs {
        assert!(r.is_clean(), "{}\n{ptx}", r.findings[0]);
    }
    runs.into_iter().next().unwrap().1
}

fn found(ptx: &str, block: u32, want: K, text: &str) {
    for (r, _) in case(ptx, block) {
        let f = find(&r, |k| *k == want).unwrap_or_else(|| panic!("not found: {:?}\n{ptx}", r.findings));
        assert!(f.message.contains(text), "{f}");
    }
}

/// `text` with `from` replaced, which must be there.
fn swap(text: &str, from: &str, to: &str) -> String {
    let new = text.replace(from, to);
    assert_ne!(new, text, "{from}");
    new
}

const READ_AFTER_WRITE: K = K::SharedRace(RaceKind::ReadAfterWrite);
const WRITE_AFTER_READ: K = K::SharedRace(RaceKind::WriteAfterRead);

#[test]
fn groups_reduce_by_themselves() {
    let out = clean(ptx!("redux_groups"), 32);
    for (lane, sum) in (0u32..).zip(&out[..32]) {
        assert_eq!(*sum, 112 + 8 * (lane & 3), "lane {lane}");
    }
}

#[test]
fn groups_vote_match_and_elect_by_themselves() {
    let out = clean(ptx!("vote_groups"), 32);
    for lane in 0..32u32 {
        let g = lane & 3;
        let mask = 0x1111_1111 << g;
        let want = [mask, (g == 1) as u32, (g != 2) as u32, 1 << lane, 28 + g, mask, g, mask];
        assert_eq!(out[8 * lane as usize..][..8], want, "lane {lane}");
    }
}

/// Groups shuffle in one instruction although some of them come to it later than others.
#[test]
fn groups_wait_for_their_own_lanes_alone() {
    // Odd lanes go another way first; each lane takes the value of the first lane of its group of 8.
    let body = "and.b32 %r1, %t, 24; mov.b32 %r2, 255; shl.b32 %r2, %r2, %r1; MOVE
        setp.eq.u32 %p0, %r3, 0; @%p0 bra A; mov.b32 %r4, 0;
        L: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 100; @%p1 bra L;
        A: shfl.sync.idx.b32 %r5, %t, 0, 0x181f, %r2; activemask.b32 %r6; st.global.b32 [%o], %r5;";
    for (diverge, clean) in [("and.b32 %r3, %t, 1;", true), ("and.b32 %r3, %t, 8;", true)] {
        let (r, out) = run(&body.replace("MOVE", diverge), 32);
        assert_eq!(r.is_clean(), clean, "{:?}", r.findings);
        let want: Vec<u32> = (0..32).map(|t| t & 24).collect();
        assert_eq!(out, want);
    }
}

#[test]
fn lanes_of_a_group_name_one_mask() {
    let go = |mask: &str| {
        let text = format!("{mask} vote.sync.ballot.b32 %r5, %p0, %r2; st.global.b32 [%o], %r5;");
        run(&format!("setp.ge.u32 %p0, %t, 0; {text}"), 32)
    };
    let member = |r: &Report| find(r, |k| *k == K::BadMemberMask).map(|f| f.message.clone());
    // Halves, each with its own mask.
    let (r, out) = go("setp.lt.u32 %p1, %t, 16; mov.b32 %r2, 0xffff0000; @%p1 mov.b32 %r2, 0xffff;");
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!((out[3], out[20]), (0xffff, 0xffff_0000));
    // The low half names lanes of the high half, which name themselves alone.
    let (r, _) = go("setp.lt.u32 %p1, %t, 16; mov.b32 %r2, 0xffff0000; @%p1 mov.b32 %r2, 0x1ffff;");
    let text = member(&r).expect("a finding");
    assert!(
        text.contains("0x0001ffff of lane 0 names lane 16, which executes this with another mask"),
        "{text}"
    );
    // A lane that its own mask leaves out.
    let (r, _) = go("mov.b32 %r2, 0xfffffffe;");
    let text = member(&r).expect("a finding");
    assert!(text.contains("the member mask 0xfffffffe does not name the executing lane 0"), "{text}");
    // A mask that names lanes which never come.
    let (r, _) = go("mov.b32 %r2, -1; setp.eq.u32 %p1, %t, 5; @%p1 bra W; bra G; W: bra W; G:");
    assert!(!r.is_clean());
}

#[test]
fn a_group_sync_orders_its_own_lanes() {
    let case = ptx!("syncwarp_groups");
    found(case, 32, READ_AFTER_WRITE, "of the same warp");
    // Pairs of neighbours, and the whole warp.
    let mask = "shl.b32 %r4, 0x55555555, %r3;";
    clean(&swap(case, mask, "and.b32 %r4, %r1, 30; shl.b32 %r4, 3, %r4;"), 32);
    clean(&swap(case, mask, "mov.b32 %r4, -1;"), 32);
    // Each half of a pair is ordered with its own half through a lane of both groups.
    let twice = swap(case, "bar.warp.sync %r4;", "bar.warp.sync %r4; bar.warp.sync -1;");
    clean(&twice, 32);
    // Groups at two instructions.
    let apart = "setp.eq.u32 %p1, %r3, 0; @%p1 bra A; bar.warp.sync %r4; bra B; A: bar.warp.sync %r4; B:";
    found(&swap(case, "bar.warp.sync %r4;", apart), 32, READ_AFTER_WRITE, "of the same warp");
    // Lanes of one group at two instructions, each half of a group at its own.
    let split = "and.b32 %r9, %r1, 2; setp.eq.u32 %p1, %r9, 0; @%p1 bra A; bar.warp.sync %r4; bra B;
        A: bar.warp.sync %r4; B:";
    found(&swap(case, "bar.warp.sync %r4;", split), 32, READ_AFTER_WRITE, "of the same warp");
    let pairs =
        swap(&swap(case, "bar.warp.sync %r4;", split), mask, "and.b32 %r4, %r1, 28; shl.b32 %r4, 15, %r4;");
    clean(&pairs, 32);
}

/// A release is none for the other lanes, and orders no lanes of the warp.
#[test]
fn fences_and_releases_order_no_lanes() {
    let body = "mov.u32 %r1, dyn; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.b32 [%r1], %t; SYNC
        xor.b32 %r3, %r2, 4; mov.u32 %r4, dyn; add.u32 %r3, %r3, %r4; ld.shared.b32 %r0, [%r3]; st.global.b32 [%o], %r0;";
    let go = |sync: &str| run(&body.replace("SYNC", sync), 32).0;
    for sync in [
        "",
        "fence.acq_rel.cta;",
        "membar.gl;",
        "fence.proxy.async;",
        "red.release.gpu.global.add.u32 [%o], 0;",
    ] {
        let r = go(sync);
        assert!(find(&r, |k| *k == READ_AFTER_WRITE).is_some(), "{sync}: {:?}", r.findings);
    }
    for sync in ["bar.warp.sync -1;", "bar.sync 0;", "barrier.cluster.arrive; barrier.cluster.wait;"] {
        let r = go(sync);
        assert!(r.is_clean(), "{sync}: {}", r.findings[0]);
    }
}

#[test]
fn one_lane_arrives_for_itself() {
    let case = ptx!("elected_arrive");
    found(case, 64, WRITE_AFTER_READ, "unordered with the read by warp 1");
    let missing = "// bar.warp.sync -1;  // is missing";
    let with = |text: &str| swap(case, missing, text);
    clean(&with("bar.warp.sync -1;"), 64);
    // Those of half of the lanes, or of the lane with its neighbour.
    found(&with("setp.lt.u32 %p4, %r3, 16; @%p4 bar.warp.sync 0xffff;"), 64, WRITE_AFTER_READ, "unordered");
    // A shuffle or a vote is no synchronisation of memory.
    found(&with("vote.sync.any.pred %p4, %p4, -1;"), 64, WRITE_AFTER_READ, "unordered");
    // Every lane arrives for itself.
    let each = swap(&swap(case, "[%r9], 1;", "[%r9], 32;"), "@%p4 mbarrier.arrive", "mbarrier.arrive");
    clean(&each, 64);
    // With a fence before a relaxed arrival the same.
    let relaxed = swap(
        case,
        "@%p4 mbarrier.arrive.shared::cta",
        "fence.acq_rel.cta; @%p4 mbarrier.arrive.relaxed.cta.shared::cta",
    );
    found(&relaxed, 64, WRITE_AFTER_READ, "unordered");
    clean(&swap(&relaxed, missing, "bar.warp.sync -1;"), 64);
    // Lane 0 alone reads, so it arrives for all that was done.
    clean(
        &swap(
            &swap(case, "C:\tld.shared", "C: setp.eq.u32 %p4, %r3, 0; @%p4 ld.shared"),
            "xor.b32 %r6, %r5, 4;",
            "mov.b32 %r6, %r5;",
        ),
        64,
    );
}

/// A flag in global memory that one lane raises for its warp.
#[test]
fn one_lane_raises_a_flag_for_itself() {
    let body = "setp.ge.u32 %p0, %t, 32; mov.u32 %r1, dyn; and.b32 %r2, %t, 31; setp.eq.u32 %p1, %r2, 0; shl.b32 %r3, %r2, 2;
        add.u32 %r1, %r1, %r3; ld.param.u64 %d1, [out]; @%p0 bra WAIT; st.shared.b32 [%r1], %t; SYNC
        @%p1 FLAG bra END;
        WAIT: ld.acquire.gpu.global.b32 %r4, [%d1]; setp.ne.u32 %p0, %r4, 1; @%p0 bra WAIT; ld.shared.b32 %r5, [%r1]; END:";
    for flag in ["st.release.gpu.global.b32 [%d1], 1;", "red.release.gpu.global.add.u32 [%d1], 1;"] {
        let go = |sync: &str, flag: &str| run(&body.replace("SYNC", sync).replace("FLAG", flag), 64).0;
        let r = go("", flag);
        assert!(find(&r, |k| *k == READ_AFTER_WRITE).is_some(), "{flag}: {:?}", r.findings);
        let r = go("bar.warp.sync -1;", flag);
        assert!(r.is_clean(), "{}", r.findings[0]);
        // Each lane's fence, and then the warp's synchronisation.
        let relaxed = flag.replace("release", "relaxed");
        let r = go("fence.acq_rel.gpu;", &relaxed);
        assert!(find(&r, |k| *k == READ_AFTER_WRITE).is_some(), "{relaxed}: {:?}", r.findings);
        let r = go("fence.acq_rel.gpu; bar.warp.sync -1;", &relaxed);
        assert!(r.is_clean(), "{}", r.findings[0]);
    }
}

/// A bulk store that one lane issues reads what the other lanes wrote.
#[test]
fn one_lane_copies_for_its_warp_after_a_warp_sync() {
    let body = "mov.u32 %r1, dyn; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t; fence.proxy.async; SYNC
        setp.ne.u32 %p0, %t, 0; @%p0 bra END; cp.async.bulk.global.shared::cta.bulk_group [%o], [%r1], 128;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:";
    let (r, _) = run(&body.replace("SYNC", ""), 32);
    assert!(!r.is_clean());
    let (r, out) = run(&body.replace("SYNC", "bar.warp.sync -1;"), 32);
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(out[31], 31);
}

/// `barrier` without `.aligned`: the lanes of a warp may name barriers of their own.
#[test]
fn lanes_wait_at_barriers_of_their_own() {
    // Even lanes of both warps meet at barrier 1, odd ones at barrier 2.
    let body = "and.b32 %r1, %t, 1; add.u32 %r2, %r1, 1; mov.u32 %r3, dyn; shl.b32 %r4, %t, 2; add.u32 %r5, %r3, %r4;
        st.shared.b32 [%r5], %t; BARRIER xor.b32 %r6, %r4, WITH; add.u32 %r6, %r6, %r3; ld.shared.b32 %r0, [%r6];
        st.global.b32 [%o], %r0;";
    let go = |barrier: &str, with: u32| {
        run(&body.replace("BARRIER", barrier).replace("WITH", &with.to_string()), 64)
    };
    let (r, out) = go("barrier.sync %r2, 32;", 128);
    assert!(r.is_clean(), "{}", r.findings[0]);
    assert_eq!(out, (0..64).map(|t| t ^ 32).collect::<Vec<u32>>());
    let (r, _) = go("bar.sync %r2, 32;", 128);
    assert!(find(&r, |k| *k == K::BarrierCount).is_some(), "{:?}", r.findings);
}

/// What a thread keeps in local memory, as every build for a debugger does with its variables, is no progress.
#[test]
fn a_poll_loop_may_count_its_turns() {
    let case = ptx!("late_poll_local");
    // In local memory, by its own space and by a generic address; in shared memory; by an atomic in global memory.
    let (load, store) = ("ld.local.u32 %r5, [l];", "st.local.u32 [l], %r5;");
    let generic = swap(
        &swap(case, "mov.u32 %r5, 0;", "cvta.local.u64 %rd6, l; mov.u32 %r5, 0;"),
        load,
        "ld.u32 %r5, [%rd6];",
    );
    let generic = swap(&generic, store, "st.u32 [%rd6], %r5;");
    let shared =
        swap(&swap(case, ".local .align 8 .b8 l[8];", ".shared .align 8 .b8 l[8];"), ".local", ".shared");
    let shared = swap(
        &shared,
        "A:\tbar.sync 0;\n\tmov.u32 %r5, 0; st.shared",
        "A: bar.sync 0; mov.u32 %r5, 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra W; st.shared",
    );
    let shared = swap(
        &shared,
        &store.replace("local", "shared"),
        &format!("@!%p1 {}", store.replace("local", "shared")),
    );
    let shared = swap(
        &shared,
        &load.replace("local", "shared"),
        &format!("@!%p1 {}", load.replace("local", "shared")),
    );
    let atomic = swap(
        case,
        "W:\tld.local",
        "W: ld.param.u64 %rd1, [out]; atom.relaxed.gpu.global.add.u32 %r5, [%rd1+1024], 1; ld.local",
    );
    for text in [case, &generic, &shared, &atomic] {
        clean(text, 32);
    }
    // The copy that never comes is a deadlock, and soon.
    let never = swap(case, "128, [%r2];", "64, [%r2];");
    for (r, _) in case_of(&never) {
        assert!(find(&r, |k| *k == K::Deadlock).is_some(), "{:?}", r.findings);
    }
}

fn case_of(ptx: &str) -> Vec<(Report, Vec<u32>)> {
    case(ptx, 32).into_iter().take(4).collect()
}

/// Another warp polls a flag and counts its turns, while this one waits for a late copy before it raises the flag.
#[test]
fn a_late_copy_comes_though_others_are_busy() {
    let body = ".shared .align 16 .b8 buf[128]; .shared .align 8 .b8 bar[8]; mov.u32 %r1, bar; mov.u32 %r2, buf; mov.u32 %r3, dyn;
        ld.param.u64 %d1, [out]; setp.eq.u32 %p0, %t, 0; @!%p0 bra A; mbarrier.init.shared.b64 [%r1], 1; st.shared.b32 [%r3], 0;
        st.shared.b32 [%r3+4], 0; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 128, [%r1];
        A: bar.sync 0; setp.ge.u32 %p1, %t, 32; @%p1 bra FLAG;
        W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra W; @%p0 st.release.cta.shared.b32 [%r3], 1; bra END;
        FLAG: atom.relaxed.cta.shared.add.u32 %r5, [%r3+4], 1; ld.acquire.cta.shared.b32 %r6, [%r3]; setp.eq.u32 %p2, %r6, 0; @%p2 bra FLAG; END:";
    for seed in 1..3 {
        let (r, _) = run_with(body, 64, |l| (l.seed, l.max_instructions) = (seed, 200_000_000));
        assert!(r.is_clean(), "{}", r.findings[0]);
    }
}

#[test]
fn the_nth_set_bit() {
    assert_eq!(clean(ptx!("fns_G"), 32)[0], 0);
    let (r, out) = run(
        "mov.b32 %r1, 0xf0f0; add.s32 %r2, %t, -16; fns.b32 %r0, %r1, 9, %r2; st.global.b32 [%o], %r0;",
        32,
    );
    assert!(r.is_clean(), "{}", r.findings[0]);
    // Bits 4 to 7 and 12 to 15, from bit 9 on: downwards, none at 9 itself, upwards.
    let at = |n: i32| out[(n + 16) as usize] as i32;
    assert_eq!([-5, -4, -3, -2, -1, 0, 1, 4, 5].map(at), [-1, 4, 5, 6, 7, -1, 12, 15, -1]);
}
