//! Helpers of the integration tests.

pub mod recorded;

use ptx_sim::{Finding, FindingKind, Launch, Memory, Module, Report, launch};

pub fn bytes_f32(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn bytes_u32(v: &[u32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn read_u32(m: &Memory, addr: u64, n: usize) -> Vec<u32> {
    let mut b = vec![0; 4 * n];
    m.read(addr, &mut b).unwrap();
    b.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

pub fn read_f32(m: &Memory, addr: u64, n: usize) -> Vec<f32> {
    read_u32(m, addr, n).into_iter().map(f32::from_bits).collect()
}

pub fn param(a: u64) -> Vec<u8> {
    a.to_le_bytes().to_vec()
}

/// A kernel `k(out)` with scratch registers; `%o` points at this thread's 4 bytes of `out`, `%t` is its number.
pub fn module(body: &str) -> Module {
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 128 .b8 dyn[];\n.entry k(.param .u64 out) {{
.reg .b32 %t, %r<20>; .reg .b64 %o, %d<20>; .reg .pred %p<8>; .reg .f32 %f<20>; .reg .b16 %h<20>; .reg .f64 %g<8>;
mov.u32 %t, %tid.x; ld.param.u64 %o, [out]; mul.wide.u32 %d0, %t, 4; add.s64 %o, %o, %d0;
{body}
ret; }}"
    );
    Module::parse(&text).unwrap_or_else(|e| panic!("{e}\n{body}"))
}

/// Runs `body` on one CTA of `threads` threads; returns the report and the words of `out`.
pub fn run_with(body: &str, threads: u32, change: impl FnOnce(&mut Launch)) -> (Report, Vec<u32>) {
    let m = module(body);
    let mut mem = Memory::new();
    let out = mem.alloc("out", 4 * threads as u64).unwrap();
    let mut l = Launch {
        kernel: "k".into(),
        block: [threads, 1, 1],
        dynamic_shared: 4096,
        params: vec![param(out)],
        max_instructions: 1_000_000,
        ..Launch::default()
    };
    change(&mut l);
    let r = launch(&m, &mut mem, &l).unwrap();
    (r, read_u32(&mem, out, threads as usize))
}

pub fn run(body: &str, threads: u32) -> (Report, Vec<u32>) {
    run_with(body, threads, |_| ())
}

/// Runs a clean body with one warp and gives lane 0's word.
pub fn eval(body: &str) -> u32 {
    let (r, out) = run(&format!("{body}\nst.global.b32 [%o], %r0;"), 32);
    assert!(r.is_clean(), "{}", r.findings[0]);
    out[0]
}

pub fn find(r: &Report, f: impl Fn(&FindingKind) -> bool) -> Option<&Finding> {
    r.findings.iter().find(|x| f(&x.kind))
}
