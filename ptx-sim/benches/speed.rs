//! Speed of the inner loops that matter on one core: thread instructions a second of an SGEMM, and FLOP a second of
//! tensor-core kernels, with counters and race checks on.
//!
//! `PTX_SIM_SPEED_GATE=1 cargo bench --bench speed` fails below 1.5 G thread instructions/s of the SGEMM inner loop or
//! 2 GFLOP/s of `mma`.

#![allow(missing_docs)]

mod common;

use common::{HEAD, Run, pool, wgmma};
use criterion::{Criterion, Throughput, criterion_group};
use ptx_sim::{Memory, Report};
use std::time::{Duration, Instant};

/// One k-step of a tiled SGEMM: two shared loads, eight multiply-adds, unrolled 16 times in a loop of 256.
fn sgemm_inner() -> String {
    let mut body = String::new();
    for k in 0..16 {
        body += &format!("ld.shared.f32 %a, [%ra+{}]; ld.shared.f32 %b, [%rb+{}];\n", 4 * k, 1024 + 512 * k);
        for i in 0..8 {
            body += &format!("fma.rn.f32 %c{i}, %a, %b, %c{i};\n");
        }
    }
    let zero: String = (0..8).map(|i| format!("mov.f32 %c{i}, 0f00000000;")).collect();
    let sum: String = (1..8).map(|i| format!("add.rn.f32 %c0, %c0, %c{i};")).collect();
    format!(
        "{HEAD}.entry k(.param .u64 out) {{
        .reg .f32 %a, %b, %c<8>; .reg .b32 %t, %w, %ra, %rb, %i, %z; .reg .b64 %o, %x; .reg .pred %p;
        .shared .align 16 .f32 sm[4096];
        mov.u32 %t, %tid.x; mov.u32 %ra, sm; shl.b32 %z, %t, 2; add.u32 %rb, %ra, %z;
        mov.u32 %i, 0;
        INIT: mad.lo.u32 %w, %i, 1024, %rb; mov.f32 %a, 0f3F800000; st.shared.f32 [%w], %a; add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, 16; @%p bra INIT;
        bar.sync 0; and.b32 %z, %z, 127; add.u32 %rb, %ra, %z; shr.u32 %w, %t, 5; shl.b32 %w, %w, 6;
        add.u32 %ra, %ra, %w; mov.u32 %i, 0; {zero}
        L: {body} add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 256; @%p bra L;
        {sum} ld.param.u64 %o, [out]; mul.wide.u32 %x, %t, 4; add.s64 %o, %o, %x; st.global.f32 [%o], %c0; ret; }}"
    )
}

/// A chain of `mma` of one shape.
fn mma() -> String {
    format!(
        "{HEAD}.entry k(.param .u64 out) {{
        .reg .b32 %a<4>, %b<2>, %t, %i; .reg .f32 %c<4>; .reg .b64 %o, %x; .reg .pred %p;
        mov.u32 %t, %tid.x; mov.u32 %i, 0; mad.lo.u32 %a0, %t, 65537, 0x3C003800; mad.lo.u32 %a1, %t, 131074, 0x34003C00;
        xor.b32 %a2, %a0, 0x80000000; xor.b32 %a3, %a1, 0x8000; mad.lo.u32 %b0, %t, 196611, 0x30003A00; xor.b32 %b1, %b0, 0x80008000;
        mov.f32 %c0, 0f00000000; mov.f32 %c1, 0f3F800000; mov.f32 %c2, 0f40000000; mov.f32 %c3, 0f00000000;
        L: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1, %c2, %c3}};
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 1000; @%p bra L;
        ld.param.u64 %o, [out]; mul.wide.u32 %x, %t, 4; add.s64 %o, %o, %x; st.global.f32 [%o], %c0; ret; }}"
    )
}

/// y = 2x + y, a word a thread, 64 CTAs.
fn axpy() -> String {
    format!(
        "{HEAD}.entry k(.param .u64 out) {{
        .reg .b32 %t, %c, %n; .reg .f32 %f<3>; .reg .b64 %o, %x;
        mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %c, %n, %t;
        ld.param.u64 %o, [out]; mul.wide.u32 %x, %t, 4; add.s64 %o, %o, %x;
        ld.global.f32 %f0, [%o]; ld.global.f32 %f1, [%o+65536]; fma.rn.f32 %f2, %f0, 0f40000000, %f1; st.global.f32 [%o+65536], %f2; ret; }}"
    )
}

/// A kernel of one dimension with a buffer.
fn run(ptx: &str, grid: u32, block: u32) -> Run {
    let out = |m: &mut Memory| vec![m.alloc("out", 1 << 17).expect("memory").to_le_bytes().to_vec()];
    Run::new(ptx, [grid, 1, 1], [block, 1, 1], out)
}

fn bench(c: &mut Criterion) {
    let pool = pool();
    let mut one = |group: &str, ptx: &str, grid: u32, block: u32, flops: bool| {
        let mut run = run(ptx, grid, block);
        let n = run.go(true).counters;
        let mut g = c.benchmark_group(group);
        g.throughput(Throughput::Elements(if flops { n.flops } else { n.instructions.thread }));
        g.bench_function("counters_and_races", |b| b.iter(|| pool.install(|| run.go(true))));
        g.finish();
    };
    one("sgemm_inner", &sgemm_inner(), 1, 256, false);
    one("mma_flop", &mma(), 1, 128, true);
    one("wgmma_flop", &wgmma(), 1, 128, true);
    one("axpy", &axpy(), 64, 256, false);
}

/// Best of some runs, a second.
fn rate(ptx: &str, block: u32, count: impl Fn(&Report) -> u64) -> f64 {
    let mut run = run(ptx, 1, block);
    let pool = pool();
    let mut best = f64::MAX;
    let until = Instant::now() + Duration::from_secs(2);
    let mut n = 0;
    while Instant::now() < until {
        let start = Instant::now();
        n = count(&pool.install(|| run.go(true)));
        best = best.min(start.elapsed().as_secs_f64());
    }
    n as f64 / best
}

fn gate() {
    let sgemm = rate(&sgemm_inner(), 256, |r| r.counters.instructions.thread) / 1e9;
    let mma = rate(&mma(), 128, |r| r.counters.flops) / 1e9;
    println!(
        "SGEMM inner loop {sgemm:.2} G thread instructions/s (1.5 needed), mma {mma:.2} GFLOP/s (2 needed)"
    );
    assert!(sgemm >= 1.5 && mma >= 2.0, "too slow");
}

criterion_group!(benches, bench);

fn main() {
    if std::env::var_os("PTX_SIM_SPEED_GATE").is_some() {
        return gate();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
