//! What the race and initialisation checks cost: each kernel's time with them and without, on one core.
//!
//! `taskset -c 1 cargo bench -p ptx-sim --bench checks` prints a line a kernel and fails where the checks cost more than
//! the factor in its last column; with an argument, only the kernels whose name contains it.
//!
//! One core of a loaded machine, the best of some seconds; before, every word was checked by itself:
//!
//! | kernel | before: on, off | factor | now: on, off | factor |
//! |---|---|---|---|---|
//! | naive SGEMM, M thread instructions/s | 136, 326 | 2.40 | 204, 332 | 1.63 |
//! | wgmma with TMA, GFLOP/s | 0.12, 1.00 | 8.52 | 1.44, 2.10 | 1.46 |
//! | wgmma alone, GFLOP/s | 1.14, 2.84 | 2.50 | 2.12, 2.80 | 1.32 |
//! | ldmatrix and mma, M thread instructions/s | 20, 160 | 8.18 | 130, 156 | 1.20 |
//! | 16-bit shared, M thread instructions/s | 66, 526 | 8.00 | 291, 384 | 1.32 |

#![allow(missing_docs)]

mod common;

use common::{HEAD, Run, pool, wgmma};
use ptx_sim::{Memory, Swizzle, TensorElement, TensorMap};
use std::time::Instant;

/// Edge of the naive SGEMM's matrices.
const N: u32 = 128;
/// k-steps of the `wgmma` kernel, of 64 each.
const STEPS: u32 = 16;

/// A thread an element of C, operands from global memory; neighbouring threads take neighbouring rows, as
/// the first kernel of SGEMM_CUDA does.
fn sgemm_naive() -> String {
    let step: String = (0..4)
        .map(|i| {
            format!(
                "ld.global.f32 %fa, [%da+{}]; ld.global.f32 %fb, [%db+{}]; fma.rn.f32 %fc, %fa, %fb, %fc;\n",
                4 * i,
                4 * N * i
            )
        })
        .collect();
    format!(
        "{HEAD}.entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{
        .reg .b32 %x, %y, %t, %n, %i; .reg .f32 %fa, %fb, %fc; .reg .b64 %da, %db, %dc, %w; .reg .pred %p;
        mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mov.u32 %x, %ctaid.x; mad.lo.u32 %x, %x, %n, %t;
        mov.u32 %n, %ntid.y; mov.u32 %t, %tid.y; mov.u32 %y, %ctaid.y; mad.lo.u32 %y, %y, %n, %t;
        ld.param.u64 %da, [a]; ld.param.u64 %db, [b]; ld.param.u64 %dc, [c];
        mul.wide.u32 %w, %x, {row}; add.s64 %da, %da, %w; add.s64 %dc, %dc, %w;
        mul.wide.u32 %w, %y, 4; add.s64 %db, %db, %w; add.s64 %dc, %dc, %w;
        mov.f32 %fc, 0f00000000; mov.u32 %i, 0;
        L: {step} add.s64 %da, %da, 16; add.s64 %db, %db, {four}; add.u32 %i, %i, 4; setp.lt.u32 %p, %i, {N}; @%p bra L;
        st.global.f32 [%dc], %fc; ret; }}",
        row = 4 * N,
        four = 16 * N,
    )
}

/// A producer warp fills a ring of four stages by TMA, 64×64 of A and 128×64 of B; a warpgroup multiplies 64×128.
fn wgmma_ring() -> String {
    let regs: Vec<String> = (0..64).map(|i| format!("%f{i}")).collect();
    let d = regs.join(",");
    let zero: String = regs.iter().map(|r| format!("mov.f32 {r}, 0f00000000;")).collect();
    let init: String = (0..4)
        .map(|s| {
            format!(
                "mbarrier.init.shared.b64 [full+{0}], 1; mbarrier.init.shared.b64 [empty+{0}], 4;\n",
                8 * s
            )
        })
        .collect();
    let mma: String = (0..4)
        .map(|k| {
            format!(
                "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {{{d}}}, %da, %db, 1, 1, 1, 0, 0;
                {}",
                if k < 3 { "add.s64 %da, %da, 2; add.s64 %db, %db, 2;" } else { "" }
            )
        })
        .collect();
    format!(
        "{HEAD}.entry k(.param .align 64 .b8 ta[128], .param .align 64 .b8 tb[128], .param .u64 out) {{
        .reg .b32 %t, %i, %s, %ph, %x, %y, %fb, %eb; .reg .f32 %f<64>; .reg .b64 %ma, %mb, %da, %db, %base, %o, %w;
        .reg .pred %p, %q, %lead;
        .shared .align 1024 .b8 buf[98304]; .shared .align 8 .b8 full[32]; .shared .align 8 .b8 empty[32];
        mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra READY;
        {init} fence.mbarrier_init.release.cluster;
        READY: bar.sync 0; mov.u32 %i, 0; mov.u32 %s, 0; mov.u32 %ph, 0; setp.lt.u32 %p, %t, 128; @%p bra CONSUMER;
        setp.ne.u32 %p, %t, 128; @%p bra DONE;
        mov.b64 %ma, ta; cvta.param.u64 %ma, %ma; mov.b64 %mb, tb; cvta.param.u64 %mb, %mb; mov.u32 %ph, 1;
        PRODUCE: shl.b32 %x, %s, 3; mov.u32 %eb, empty; add.u32 %eb, %eb, %x; mov.u32 %fb, full; add.u32 %fb, %fb, %x;
        PW: mbarrier.try_wait.parity.shared.b64 %q, [%eb], %ph; @!%q bra PW;
        mbarrier.arrive.expect_tx.shared.b64 _, [%fb], 24576; mov.u32 %x, buf; mad.lo.u32 %x, %s, 24576, %x; shl.b32 %y, %i, 6;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%x], [%ma, {{%y, 0}}], [%fb];
        add.u32 %x, %x, 8192;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%x], [%mb, {{%y, 0}}], [%fb];
        add.u32 %s, %s, 1; setp.eq.u32 %q, %s, 4; @%q mov.u32 %s, 0; @%q xor.b32 %ph, %ph, 1;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {STEPS}; @%q bra PRODUCE; bra DONE;
        CONSUMER: and.b32 %x, %t, 31; setp.eq.u32 %lead, %x, 0; {zero}
        CONSUME: shl.b32 %y, %s, 3; mov.u32 %fb, full; add.u32 %fb, %fb, %y; mov.u32 %eb, empty; add.u32 %eb, %eb, %y;
        CW: mbarrier.try_wait.parity.shared.b64 %q, [%fb], %ph; @!%q bra CW;
        mov.u32 %x, buf; mad.lo.u32 %x, %s, 24576, %x; shr.u32 %x, %x, 4; cvt.u64.u32 %da, %x;
        or.b64 %da, %da, 0x4000004000010000; add.s64 %db, %da, 512;
        wgmma.fence.sync.aligned;
        {mma}
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        @%lead mbarrier.arrive.shared.b64 _, [%eb];
        add.u32 %s, %s, 1; setp.eq.u32 %q, %s, 4; @%q mov.u32 %s, 0; @%q xor.b32 %ph, %ph, 1;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, {STEPS}; @%q bra CONSUME;
        ld.param.u64 %o, [out]; mul.wide.u32 %w, %t, 4; add.s64 %o, %o, %w; st.global.f32 [%o], %f0;
        DONE: ret; }}"
    )
}

/// Two `ldmatrix` and an `mma` a step, over a tile that 16-bit stores filled.
fn ldmatrix() -> String {
    format!(
        "{HEAD}.entry k(.param .u64 out) {{
        .reg .b32 %a<4>, %b<2>, %t, %i, %s, %w; .reg .b16 %h; .reg .f32 %c<4>; .reg .b64 %o, %x; .reg .pred %p;
        .shared .align 16 .b8 sm[16384];
        mov.u32 %t, %tid.x; mov.u32 %s, sm; mov.u32 %i, 0; mov.b16 %h, 0x3800;
        INIT: mad.lo.u32 %w, %i, 128, %t; shl.b32 %w, %w, 1; add.u32 %w, %w, %s; st.shared.b16 [%w], %h; add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, 64; @%p bra INIT; bar.sync 0;
        mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
        and.b32 %w, %t, 31; shl.b32 %w, %w, 4; add.u32 %s, %s, %w; mov.u32 %i, 0;
        L: and.b32 %w, %i, 15; shl.b32 %w, %w, 9; add.u32 %w, %w, %s;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%a0, %a1, %a2, %a3}}, [%w];
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%b0, %b1}}, [%w+8192];
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1, %c2, %c3}};
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 512; @%p bra L;
        ld.param.u64 %o, [out]; mul.wide.u32 %x, %t, 4; add.s64 %o, %o, %x; st.global.f32 [%o], %c0; ret; }}"
    )
}

/// 16-bit stores and loads of shared memory with barriers between.
fn halves() -> String {
    format!(
        "{HEAD}.entry k(.param .u64 out) {{
        .reg .b32 %t, %i, %s, %w, %v, %sum; .reg .b16 %h, %g; .reg .b64 %o, %x; .reg .pred %p; .shared .align 16 .b8 sm[512];
        mov.u32 %t, %tid.x; mov.u32 %w, sm; shl.b32 %s, %t, 1; add.u32 %s, %s, %w; xor.b32 %v, %t, 33; shl.b32 %v, %v, 1;
        add.u32 %v, %v, %w; mov.u32 %i, 0; mov.u32 %sum, 0; cvt.u16.u32 %h, %t;
        L: st.shared.b16 [%s], %h; bar.sync 0; ld.shared.b16 %g, [%v]; bar.sync 0; add.u16 %h, %h, %g;
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 500; @%p bra L;
        cvt.u32.u16 %sum, %h; ld.param.u64 %o, [out]; mul.wide.u32 %x, %t, 4; add.s64 %o, %o, %x; st.global.u32 [%o], %sum; ret; }}"
    )
}

/// Best times with checks and without, taken in turns so that both see the same load.
fn measure(run: &mut Run, seconds: f64) -> (f64, f64) {
    let (mut on, mut off) = (f64::MAX, f64::MAX);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        for (checks, best) in [(true, &mut on), (false, &mut off)] {
            let t = Instant::now();
            run.go(checks);
            *best = best.min(t.elapsed().as_secs_f64());
        }
    }
    (on, off)
}

fn main() {
    let pointers = |sizes: &'static [u64]| {
        move |m: &mut Memory| {
            sizes.iter().map(|s| m.alloc("buffer", *s).expect("memory").to_le_bytes().to_vec()).collect()
        }
    };
    let edge = 4 * N as u64 * N as u64;
    let tiles = |m: &mut Memory| {
        let k = 64 * STEPS as u64;
        let mut params = vec![];
        for rows in [64u32, 128] {
            let at = m.alloc("operand", 2 * k * rows as u64).expect("memory");
            let mut map = TensorMap::new(at, TensorElement::F16, &[k, rows as u64], &[2 * k], &[64, rows]);
            map.swizzle = Swizzle::B128;
            params.push(map.encode().expect("a map").to_vec());
        }
        params.push(m.alloc("out", 512).expect("memory").to_le_bytes().to_vec());
        params
    };
    let square = [N / 32, N / 32, 1];
    let sgemm: &'static [u64] = Box::leak(Box::new([edge; 3]));
    let mut kernels = [
        ("naive SGEMM", Run::new(&sgemm_naive(), square, [32, 32, 1], pointers(sgemm)), 1.8),
        ("wgmma with TMA", Run::new(&wgmma_ring(), [1; 3], [160, 1, 1], tiles), 1.5),
        ("wgmma alone", Run::new(&wgmma(), [1; 3], [128, 1, 1], pointers(&[512])), 1.5),
        ("ldmatrix and mma", Run::new(&ldmatrix(), [1; 3], [128, 1, 1], pointers(&[512])), 1.5),
        ("16-bit shared", Run::new(&halves(), [1; 3], [128, 1, 1], pointers(&[512])), 3.0),
    ];
    let pool = pool();
    let seconds = std::env::var("PTX_SIM_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let mut slow = vec![];
    println!("{:<18} {:>12} {:>12} {:>7} {:>7}", "kernel", "checks on", "checks off", "factor", "at most");
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    for (name, run, most) in kernels.iter_mut().filter(|k| k.0.contains(&only)) {
        let n = pool.install(|| run.go(true)).counters;
        let (on, off) = pool.install(|| measure(run, seconds));
        let rate = |t: f64| match n.flops > 50 * n.instructions.thread {
            true => format!("{:.2} GFLOP/s", n.flops as f64 / t / 1e9),
            false => format!("{:.0} M inst/s", n.instructions.thread as f64 / t / 1e6),
        };
        println!("{name:<18} {:>12} {:>12} {:>7.2} {most:>7.1}", rate(on), rate(off), on / off);
        if on / off > *most {
            slow.push(*name);
        }
    }
    assert!(slow.is_empty(), "the checks cost too much in {slow:?}");
}
