//! Bulk copies, tensor tiles, mbarriers and clusters: recorded tiles, rings, and what happens when a part is missing.

use crate::common::recorded;
use crate::common::*;
use ptx_sim::{
    AsyncMode, FindingKind as K, Launch, Memory, Module, Report, Swizzle, TensorElement, TensorMap, launch,
};

const TMA: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry tma2d(.param .align 64 .b8 tm[128],.param .u64 po,.param .u32 pc0,.param .u32 pc1,.param .u32 pdst,.param .u32 pbytes){
 .reg .u32 %t,%off,%b,%s; .reg .u64 %a,%o,%w,%g; .reg .b32 %x<32>; .reg .pred %p; .reg .b32 %c0,%c1,%dst,%by,%mb,%i; .shared .align 1024 .b8 sm[32768]; .shared .align 8 .b8 mbar[8];
 mov.u32 %s,%tid.x; mov.u32 %b,sm; mov.u32 %mb,mbar; mov.u32 %t,%s;
L: shl.b32 %off,%t,2; add.u32 %off,%off,%b; st.shared.b32 [%off],0xDEADBEEF; add.u32 %t,%t,128; setp.lt.u32 %p,%t,8192; @%p bra L;
 setp.eq.u32 %p,%s,0; @%p mbarrier.init.shared::cta.b64 [%mb],1; fence.proxy.async; bar.sync 0; ld.param.u32 %c0,[pc0]; ld.param.u32 %c1,[pc1]; ld.param.u32 %dst,[pdst]; add.u32 %dst,%dst,%b; ld.param.u32 %by,[pbytes];
 mov.b64 %a,tm; cvta.param.u64 %a,%a; setp.ne.u32 %p,%s,0; @%p bra W;
 mbarrier.arrive.expect_tx.shared::cta.b64 _,[%mb],%by;
 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%dst],[%a,{%c0,%c1}],[%mb];
W: mov.u32 %i,0;
W2: mbarrier.try_wait.parity.shared::cta.b64 %p,[%mb],0; @%p bra D; add.u32 %i,%i,1; setp.lt.u32 %p,%i,20000; @%p bra W2; mov.u32 %i,0xFFFFFFFF;
D: bar.sync 0; ld.param.u64 %o,[po]; mov.u32 %t,%s;
S: shl.b32 %off,%t,2; add.u32 %off,%off,%b; ld.shared.b32 %x0,[%off]; mul.wide.u32 %w,%t,4; add.s64 %g,%o,%w; st.global.b32 [%g],%x0; add.u32 %t,%t,128; setp.lt.u32 %p,%t,8192; @%p bra S;
 ret; }";

#[test]
fn all_recorded_tiles() {
    let cases = recorded::words("tma_2d.cases");
    let outs = recorded::words("tma_2d.outs");
    let m = Module::parse(TMA).unwrap();
    let mut mem = Memory::new();
    let src = mem.alloc("src", 2 * 128 * 128).unwrap();
    let out = mem.alloc("out", 32768).unwrap();
    mem.write(src, &(0..128 * 128u32).flat_map(|v| (v as u16).to_le_bytes()).collect::<Vec<_>>()).unwrap();
    for (case, want) in cases.chunks_exact(5).zip(outs.chunks_exact(8193)) {
        let width = [64, 16, 32, 64][case[0] as usize];
        let mut map = TensorMap::new(src, TensorElement::U16, &[128, 128], &[256], &[width, 16]);
        map.swizzle = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][case[0] as usize];
        let word = |v: u32| v.to_le_bytes().to_vec();
        let params = vec![
            map.encode().unwrap().to_vec(),
            param(out),
            word(case[2]),
            word(case[3]),
            word(case[1]),
            word(map.tile_bytes()),
        ];
        for async_mode in [AsyncMode::Early, AsyncMode::Late] {
            let l = Launch {
                kernel: "tma2d".into(),
                block: [128, 1, 1],
                params: params.clone(),
                async_mode,
                ..Launch::default()
            };
            let r = launch(&m, &mut mem, &l).unwrap();
            assert!(r.is_clean(), "{case:?}: {}", r.findings[0]);
            assert!(read_u32(&mem, out, 8192) == want[..8192], "{case:?} {async_mode:?}");
        }
    }
    assert_eq!(cases.len() / 5, 80);
}

/// A ring of two stages: one elected thread copies tiles of 512 bytes, two warps add them up.
fn ring(edit: impl Fn(&str) -> String, mode: AsyncMode, seed: u64) -> (Report, bool) {
    let text = ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .align 64 .b8 tm[128], .param .u64 out) {
 .reg .b32 %r<20>; .reg .b64 %m, %o, %x, %st; .reg .pred %p, %q; .shared .align 128 .b8 buf[1024]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16];
 mov.u32 %r0, %tid.x; setp.ne.u32 %p, %r0, 0; @%p bra INIT;
 mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [full+8], 1; mbarrier.init.shared.b64 [empty], 64; mbarrier.init.shared.b64 [empty+8], 64;
 fence.mbarrier_init.release.cluster;
INIT: bar.sync 0;
 mov.u32 %r1, 0; mov.u32 %r10, 0; mov.b64 %m, tm; cvta.param.u64 %m, %m; mov.u32 %r6, buf; mov.u32 %r7, full; mov.u32 %r8, empty;
 setp.lt.u32 %p, %r0, 64; @%p bra CONSUME;
 setp.ne.u32 %p, %r0, 64; @%p bra DONE;
PRODUCE: and.b32 %r2, %r1, 1; shr.u32 %r3, %r1, 1; and.b32 %r3, %r3, 1; xor.b32 %r3, %r3, 1; shl.b32 %r4, %r2, 3; add.u32 %r5, %r4, %r8; add.u32 %r9, %r4, %r7;
PWAIT: mbarrier.try_wait.parity.shared.b64 %q, [%r5], %r3; @!%q bra PWAIT;
 mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 512;
 shl.b32 %r11, %r2, 9; add.u32 %r11, %r11, %r6; shl.b32 %r12, %r1, 1;
 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r11], [%m, {0, %r12}], [%r9];
 add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 6; @%p bra PRODUCE; bra DONE;
CONSUME: and.b32 %r2, %r1, 1; shr.u32 %r3, %r1, 1; and.b32 %r3, %r3, 1; shl.b32 %r4, %r2, 3; add.u32 %r5, %r4, %r7; add.u32 %r9, %r4, %r8;
CWAIT: mbarrier.try_wait.parity.shared.b64 %q, [%r5], %r3; @!%q bra CWAIT;
 shl.b32 %r11, %r2, 9; add.u32 %r11, %r11, %r6; shl.b32 %r13, %r0, 2; add.u32 %r11, %r11, %r13;
 ld.shared.b32 %r14, [%r11]; ld.shared.b32 %r15, [%r11+256]; add.u32 %r10, %r10, %r14; add.u32 %r10, %r10, %r15;
 mbarrier.arrive.shared.b64 %st, [%r9];
 add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 6; @%p bra CONSUME;
 ld.param.u64 %o, [out]; mul.wide.u32 %x, %r0, 4; add.s64 %o, %o, %x; st.global.b32 [%o], %r10;
DONE: ret; }";
    let edited = edit(text);
    let m = Module::parse(&edited).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let src = mem.alloc("src", 4 * 64 * 12).unwrap();
    let out = mem.alloc("out", 256).unwrap();
    mem.write(src, &bytes_u32(&(0..64 * 12).collect::<Vec<_>>())).unwrap();
    let map = TensorMap::new(src, TensorElement::U32, &[64, 12], &[256], &[64, 2]);
    let l = Launch {
        kernel: "k".into(),
        block: [96, 1, 1],
        params: vec![map.encode().unwrap().to_vec(), param(out)],
        async_mode: mode,
        seed,
        max_instructions: 1_000_000,
        ..Launch::default()
    };
    let r = launch(&m, &mut mem, &l).unwrap();
    let right =
        read_u32(&mem, out, 64) == (0..64).map(|t| (0..12).map(|r| 64 * r + t).sum()).collect::<Vec<u32>>();
    (r, right)
}

#[test]
fn a_ring_of_tiles_is_clean_under_every_schedule() {
    for seed in 0..20 {
        for mode in [AsyncMode::Early, AsyncMode::Late] {
            let (r, right) = ring(str::to_string, mode, seed);
            assert!(r.is_clean(), "seed {seed} {mode:?}: {}", r.findings[0]);
            assert!(right, "seed {seed} {mode:?}");
        }
    }
}

#[test]
fn every_weakened_ring_is_found() {
    for (what, from, to, want) in [
        ("init fence", "fence.mbarrier_init.release.cluster;", "", K::Mbarrier),
        ("init barrier", "INIT: bar.sync 0;", "INIT: ", K::Mbarrier),
        ("consumer wait", "@!%q bra CWAIT;", "", K::AsyncRace),
        ("producer wait", "@!%q bra PWAIT;", "", K::AsyncRace),
        ("expect_tx too small", "_, [%r9], 512", "_, [%r9], 256", K::Deadlock),
        ("expect_tx too large", "_, [%r9], 512", "_, [%r9], 768", K::Deadlock),
        ("release", "mbarrier.arrive.shared.b64 %st, [%r9];", "", K::Deadlock),
        (
            "early release",
            " ld.shared.b32 %r14, [%r11]; ld.shared.b32 %r15, [%r11+256]; add.u32 %r10, %r10, %r14; add.u32 %r10, %r10, %r15;\n mbarrier.arrive.shared.b64 %st, [%r9];",
            " mbarrier.arrive.shared.b64 %st, [%r9]; ld.shared.b32 %r14, [%r11]; ld.shared.b32 %r15, [%r11+256]; add.u32 %r10, %r10, %r14; add.u32 %r10, %r10, %r15;",
            K::AsyncRace,
        ),
        (
            "arrive instead of expect_tx",
            "mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 512;",
            "mbarrier.arrive.shared.b64 _, [%r9];",
            K::AsyncRace,
        ),
        ("count", "[empty], 64", "[empty], 32", K::Deadlock),
        ("offset", "ld.shared.b32 %r15, [%r11+256]", "ld.shared.b32 %r15, [%r11+1024]", K::Mbarrier),
    ] {
        let mut found = vec![];
        for mode in [AsyncMode::Early, AsyncMode::Late] {
            let (r, _) = ring(
                |t| {
                    assert!(t.contains(from), "{what}");
                    t.replace(from, to)
                },
                mode,
                0,
            );
            found.extend(r.findings.into_iter().map(|f| (f.kind, f.to_string())));
        }
        assert!(found.iter().any(|f| f.0 == want), "{what}: {found:#?}");
    }
}

#[test]
fn a_deadlock_reports_the_mbarrier() {
    let (r, _) = ring(|t| t.replace("_, [%r9], 512", "_, [%r9], 768"), AsyncMode::Late, 0);
    let f = find(&r, |k| *k == K::Deadlock).unwrap();
    assert!(f.message.contains("polls the mbarrier at byte 0 of `full` for parity 0: phase 0, 0 of 1 arrivals pending, 256 bytes announced"), "{f}");
}

#[test]
fn stores_need_a_proxy_fence_and_a_wait() {
    let store = "shl.b32 %r1, %t, 2; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; sub.s64 %o, %o, %d0; st.shared.b32 [%r1], %t; FENCE bar.sync 0; setp.ne.u32 %p0, %t, 0; @%p0 bra J;
        cp.async.bulk.global.shared::cta.bulk_group [%o], [%r2], 256; cp.async.bulk.commit_group; WAIT J: bar.sync 0; st.shared.b32 [%r1], 0;";
    let go = |fence: &str, wait: &str, mode| {
        run_with(&store.replace("FENCE", fence).replace("WAIT", wait), 64, |l| l.async_mode = mode)
    };
    for mode in [AsyncMode::Early, AsyncMode::Late] {
        for wait in ["cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"] {
            let (r, out) = go("fence.proxy.async.shared::cta;", wait, mode);
            assert!(r.is_clean(), "{}", r.findings[0]);
            assert_eq!(out, (0..64).collect::<Vec<u32>>());
        }
        let (r, _) = go("", "cp.async.bulk.wait_group 0;", mode);
        assert!(find(&r, |k| *k == K::MissingProxyFence).is_some(), "{:?}", r.findings);
        let (r, out) = go("fence.proxy.async;", "", mode);
        assert!(find(&r, |k| *k == K::AsyncRace).is_some(), "{:?}", r.findings);
        assert_eq!(out[7] == 7, mode == AsyncMode::Early);
    }
}

/// Two CTAs exchange a word through distributed shared memory and a remote mbarrier.
const CLUSTER: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 out) .reqnctapercluster 2, 1, 1 {
 .reg .b32 %r<16>; .reg .b64 %o, %x, %st; .reg .pred %p, %q; .shared .align 8 .b8 box[8]; .shared .align 8 .b8 bar[8];
 mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; setp.ne.u32 %p, %r0, 0;
 @!%p mbarrier.init.shared.b64 [bar], 1; @!%p fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
 @%p bra WAIT;
 mov.u32 %r3, box; mapa.shared::cluster.u32 %r4, %r3, %r2; mov.u32 %r5, %ctaid.x; add.u32 %r5, %r5, 100; st.shared::cluster.b32 [%r4], %r5;
 mov.u32 %r6, bar; mapa.shared::cluster.u32 %r7, %r6, %r2; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [bar], 0; @!%q bra WAIT;
 ld.shared.b32 %r8, [box]; ld.param.u64 %o, [out]; mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 32, %r0; mul.wide.u32 %x, %r9, 4; add.s64 %o, %o, %x; st.global.b32 [%o], %r8;
 barrier.cluster.arrive; barrier.cluster.wait; ret; }";

fn cluster(edit: impl Fn(&str) -> String, seed: u64) -> (Report, Vec<u32>) {
    let m = Module::parse(&edit(CLUSTER)).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let out = mem.alloc("out", 4 * 128).unwrap();
    let l = Launch {
        kernel: "k".into(),
        grid: [4, 1, 1],
        params: vec![param(out)],
        seed,
        max_instructions: 1_000_000,
        ..Launch::default()
    };
    let r = launch(&m, &mut mem, &l).unwrap();
    let o = read_u32(&mem, out, 128);
    (r, o)
}

#[test]
fn clusters_share_memory() {
    for seed in 0..20 {
        let (r, out) = cluster(str::to_string, seed);
        assert!(r.is_clean(), "seed {seed}: {}", r.findings[0]);
        assert_eq!((out[0], out[32], out[64], out[127]), (101, 100, 103, 102));
    }
    let kinds = |from: &str, to: &str| {
        assert!(CLUSTER.contains(from));
        cluster(|t| t.replacen(from, to, 1), 0).0.findings.into_iter().map(|f| f.kind).collect::<Vec<_>>()
    };
    let race = |k: &Vec<K>| k.iter().any(|k| matches!(k, K::SharedRace(_)));
    assert!(race(&kinds("@!%q bra WAIT;", "")));
    // The cluster barrier is a release and an acquire, and a relaxed arrival releases what the fence did.
    assert_eq!(kinds("@!%p fence.mbarrier_init.release.cluster;", ""), []);
    assert_eq!(kinds("barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;"), []);
    assert!(
        kinds("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "bar.sync 0;")
            .contains(&K::Mbarrier)
    );
    assert!(
        kinds(
            "@!%p fence.mbarrier_init.release.cluster;\n barrier.cluster.arrive.aligned;",
            "barrier.cluster.arrive.relaxed.aligned;"
        )
        .contains(&K::Mbarrier)
    );
    assert!(
        kinds("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];", "").contains(&K::Deadlock)
    );
    assert!(race(&kinds("mbarrier.arrive.release.cluster", "mbarrier.arrive.relaxed.cluster")));
}

#[test]
fn multicast_and_reductions() {
    let text = ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .align 64 .b8 tm[128], .param .u64 out) .reqnctapercluster 2, 1, 1 {
 .reg .b32 %r<16>; .reg .b64 %m, %o, %x; .reg .b16 %h; .reg .pred %p, %q; .shared .align 128 .b8 buf[128]; .shared .align 8 .b8 bar[8];
 mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; setp.ne.u32 %p, %r0, 0; mov.b64 %m, tm; cvta.param.u64 %m, %m; ld.param.u64 %o, [out];
 @!%p mbarrier.init.shared.b64 [bar], 1; @!%p fence.mbarrier_init.release.cluster; @!%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
 barrier.cluster.arrive; barrier.cluster.wait;
 setp.ne.u32 %q, %r1, 0; @%q bra WAIT; @%p bra WAIT; mov.b16 %h, 3;
 cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [buf], [%m, {8}], [bar], %h;
WAIT: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra WAIT;
 @%p bra END;
 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%o], [buf], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: barrier.cluster.arrive; barrier.cluster.wait; ret; }";
    let m = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let mut mem = Memory::new();
    let src = mem.alloc("src", 256).unwrap();
    let out = mem.alloc("out", 128).unwrap();
    mem.write(src, &bytes_u32(&(0..64).collect::<Vec<_>>())).unwrap();
    mem.write(out, &bytes_u32(&[1000; 32])).unwrap();
    let map = TensorMap::new(src, TensorElement::U32, &[64], &[], &[32]);
    for async_mode in [AsyncMode::Early, AsyncMode::Late] {
        mem.write(out, &bytes_u32(&[1000; 32])).unwrap();
        let l = Launch {
            kernel: "k".into(),
            grid: [2, 1, 1],
            params: vec![map.encode().unwrap().to_vec(), param(out)],
            async_mode,
            ..Launch::default()
        };
        let r = launch(&m, &mut mem, &l).unwrap();
        assert!(r.is_clean(), "{}", r.findings[0]);
        assert_eq!(read_u32(&mem, out, 32), (0..32).map(|i| 1000 + 2 * (i + 8)).collect::<Vec<u32>>());
    }
}

/// A map in global memory is acquired by a thread of the CTA before it is used; one among the parameters needs no fence.
#[test]
fn tensor_maps_in_global_memory_are_acquired() {
    const PARAMETER: &str = "mov.b64 %a,tm; cvta.param.u64 %a,%a;";
    let run = |fence: &str| {
        let text = TMA
            .replace(".param .align 64 .b8 tm[128]", ".param .u64 tm")
            .replace(PARAMETER, &format!("ld.param.u64 %a,[tm]; {fence}"));
        let m = Module::parse(&text).map_err(|e| e.to_string())?;
        let mut mem = Memory::new();
        let src = mem.alloc("src", 2 * 128 * 128).unwrap();
        let out = mem.alloc("out", 32768).unwrap();
        let at = mem.alloc("map", 128).unwrap();
        let map = TensorMap::new(src, TensorElement::U16, &[128, 128], &[256], &[64, 16]);
        mem.write(at, &map.encode().unwrap()).unwrap();
        let word = |v: u32| v.to_le_bytes().to_vec();
        let params = vec![param(at), param(out), word(0), word(0), word(0), word(map.tile_bytes())];
        let l = Launch { kernel: "tma2d".into(), block: [128, 1, 1], params, ..Launch::default() };
        let report = launch(&m, &mut mem, &l).map_err(|e| e.to_string())?;
        Ok::<_, String>(report.findings.iter().map(|f| f.kind).collect::<Vec<_>>())
    };
    for scope in ["cta", "cluster", "gpu", "sys"] {
        let fence = format!("fence.proxy.tensormap::generic.acquire.{scope} [%a], 128;");
        assert_eq!(run(&fence), Ok(vec![]));
    }
    assert_eq!(run(""), Ok(vec![K::MissingProxyFence]));
    // Of another place, or in the other direction.
    assert_eq!(
        run("fence.proxy.tensormap::generic.acquire.gpu [%a+128], 128;"),
        Ok(vec![K::MissingProxyFence])
    );
    assert_eq!(run("fence.proxy.tensormap::generic.release.gpu;"), Ok(vec![K::MissingProxyFence]));
    for (wrong, expected) in [
        ("fence.proxy.tensormap::generic.acquire.gpu [%a], 64;", "expected 128"),
        ("fence.proxy.tensormap::generic.gpu [%a], 128;", "expected `.acquire` or `.release`"),
        ("fence.proxy.tensormap::generic.acquire.gpu;", "operand"),
    ] {
        let error = run(wrong).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
