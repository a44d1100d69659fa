//! Speed of the inner loops that matter, in thread instructions per second on one core.

#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ptx_sim::{Launch, Memory, Module, launch};

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
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 out) {{
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

fn bench(c: &mut Criterion) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let module = Module::parse(&sgemm_inner()).expect("valid PTX");
    let mut mem = Memory::new();
    let out = mem.alloc("out", 1024).expect("memory");
    let l = Launch {
        kernel: "k".into(),
        block: [256, 1, 1],
        params: vec![out.to_le_bytes().to_vec()],
        ..Launch::default()
    };
    let n = launch(&module, &mut mem, &l).expect("a launch");
    assert!(n.is_clean(), "{:?}", n.findings);
    let mut g = c.benchmark_group("sgemm_inner");
    g.throughput(Throughput::Elements(n.counters.instructions.thread));
    g.bench_function("counters_and_races", |b| {
        b.iter(|| pool.install(|| launch(&module, &mut mem, &l).expect("a launch")))
    });
    g.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
