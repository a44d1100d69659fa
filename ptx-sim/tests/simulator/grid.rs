//! Grids whose CTAs wait for one another.

use crate::common::*;
use ptx_sim::{FindingKind as K, Launch, LaunchError, Memory, Module, Report, launch};
use std::time::Instant;

/// Each CTA adds 1 and waits until all of the grid have: a barrier of the grid by hand. `TURN` stands in the loop.
const BARRIER: &str = ".version 8.4\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 x) {
    .reg .b32 %t, %n, %v, %i; .reg .b64 %o; .reg .pred %p, %q; mov.u32 %t, %tid.x; mov.u32 %n, %nctaid.x; ld.param.u64 %o, [x];
    mov.b32 %i, 0; setp.ne.u32 %p, %t, 0; @%p bra END; red.release.gpu.global.add.u32 [%o], 1;
    L: ld.acquire.gpu.global.u32 %v, [%o]; TURN setp.lt.u32 %p, %v, %n; @%p bra L;
    END: bar.sync 0; ret; }";

fn go(text: &str, grid: u32, change: impl FnOnce(&mut Launch)) -> Result<Report, LaunchError> {
    let m = Module::parse(text).unwrap();
    let mut mem = Memory::new();
    let params = vec![param(mem.alloc("x", 4096).unwrap())];
    let mut l =
        Launch { kernel: "k".into(), grid: [grid, 1, 1], block: [256, 1, 1], params, ..Launch::default() };
    change(&mut l);
    launch(&m, &mut mem, &l)
}

#[test]
fn a_grid_barrier_of_more_ctas_than_fit_is_a_deadlock_that_says_so() {
    let plain = BARRIER.replace("TURN", "");
    // Eight CTAs of 256 threads an SM.
    let r = go(&plain, 64, |l| l.sm_count = 8).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
    let started = Instant::now();
    for grid in [65, 20_000] {
        let r = go(&plain, grid, |l| l.sm_count = 8).unwrap();
        let f = find(&r, |k| *k == K::Deadlock).expect("a deadlock");
        let says = format!("at most 64 of the grid's {grid} CTAs are resident at once on 8 SMs");
        assert!(f.message.contains(&says) && f.message.contains("raise `sm_count`"), "{f}");
    }
    // With all SMs of a device.
    let r = go(&plain, 1057, |_| ()).unwrap();
    let f = find(&r, |k| *k == K::Deadlock).expect("a deadlock");
    assert!(f.message.contains("at most 1056 of the grid's 1057 CTAs"), "{f}");
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    // A deadlock for another reason says nothing of the kind.
    let more = plain.replace("%v, %n; @%p bra L", "%v, 1000; @%p bra L");
    let r = go(&more, 64, |l| l.sm_count = 8).unwrap();
    let f = find(&r, |k| *k == K::Deadlock).expect("a deadlock");
    assert!(!f.message.contains("resident"), "{f}");
}

/// What fits depends on shared memory too.
#[test]
fn shared_memory_limits_what_is_resident() {
    let text =
        BARRIER.replace("TURN", "").replace(".entry k", ".extern .shared .align 16 .b8 dyn[];\n.entry k");
    let fits = |grid: u32, bytes: u32| {
        go(&text, grid, |l| (l.sm_count, l.dynamic_shared) = (2, bytes)).unwrap().is_clean()
    };
    assert!(fits(4, 100 << 10) && !fits(5, 100 << 10));
    assert!(fits(2, 120 << 10) && !fits(3, 120 << 10));
}

/// A loop that gives up after so many polls is no deadlock.
#[test]
fn a_loop_that_gives_up_goes_on() {
    let text = BARRIER.replace("TURN", "add.u32 %i, %i, 1; setp.gt.u32 %q, %i, 3000; @%q bra END;");
    let r = go(&text, 6, |l| (l.sm_count, l.block) = (1, [1024, 1, 1])).unwrap();
    assert!(r.is_clean(), "{}", r.findings[0]);
}

/// A kernel that asks for the grid's barrier is launched cooperatively, and refused as a driver does.
#[test]
fn a_cooperative_grid_must_fit() {
    let text = BARRIER.replace("TURN", "mov.u32 %i, %envreg2;");
    assert!(go(&text, 64, |l| l.sm_count = 8).unwrap().is_clean());
    let e = go(&text, 65, |l| l.sm_count = 8).unwrap_err();
    let text = "kernel `k` synchronises its grid, but at most 64 of the grid's 65 CTAs are resident at once on 8 SMs";
    assert!(matches!(&e, LaunchError::Shape(t) if t.starts_with(text)), "{e}");
}
