//! What the benchmarks share: a kernel that is launched again and again, on one core.

use ptx_sim::{Launch, Memory, Module, Report, launch};
use rayon::ThreadPool;

pub const HEAD: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n";

/// `wgmma` of 64×64×16 over one tile, a group an instruction.
pub fn wgmma() -> String {
    let regs = |f: &dyn Fn(usize) -> String| (0..32).map(f).collect::<Vec<_>>().join(",");
    let d = regs(&|i| format!("%f{i}"));
    let zero: String = (0..32).map(|i| format!("mov.f32 %f{i}, 0f00000000;")).collect();
    format!(
        "{HEAD}.entry k(.param .u64 out) {{
        .reg .b32 %t, %w, %s, %i; .reg .f32 %f<32>; .reg .b64 %da, %db, %o, %x; .reg .pred %p; .shared .align 1024 .b8 sm[4096];
        mov.u32 %t, %tid.x; mov.u32 %s, sm; mov.u32 %i, 0; {zero}
        INIT: mad.lo.u32 %w, %i, 128, %t; shl.b32 %w, %w, 2; add.u32 %w, %w, %s; st.shared.b32 [%w], 0x3C003800; add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, 8; @%p bra INIT;
        fence.proxy.async; bar.sync 0; shr.u32 %w, %s, 4; cvt.u64.u32 %da, %w; or.b64 %da, %da, 0xC000001000010000; add.s64 %db, %da, 128; mov.u32 %i, 0;
        L: wgmma.fence.sync.aligned; setp.eq.u32 %p, 0, 0;
        wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{d}}}, %da, %db, %p, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 50; @%p bra L;
        ld.param.u64 %o, [out]; mul.wide.u32 %x, %t, 4; add.s64 %o, %o, %x; st.global.f32 [%o], %f0; ret; }}"
    )
}

/// A kernel `k` with its arguments.
pub struct Run {
    module: Module,
    memory: Memory,
    launch: Launch<'static>,
}

impl Run {
    pub fn new(
        ptx: &str,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: impl FnOnce(&mut Memory) -> Vec<Vec<u8>>,
    ) -> Run {
        let mut memory = Memory::new();
        let params = arguments(&mut memory);
        let launch = Launch { kernel: "k".into(), grid, block, params, ..Launch::default() };
        Run { module: Module::parse(ptx).expect("valid PTX"), memory, launch }
    }

    /// Launches it with the race and initialisation checks, or without.
    pub fn go(&mut self, checks: bool) -> Report {
        (self.launch.race_check, self.launch.uninit_check) = (checks, checks);
        let report = launch(&self.module, &mut self.memory, &self.launch).expect("a launch");
        assert!(report.is_clean(), "{}", report.findings[0]);
        report
    }
}

/// One core.
pub fn pool() -> ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread")
}
