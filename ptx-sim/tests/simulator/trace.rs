//! What a launch records of its first CTA.

use crate::common::*;
use ptx_sim::{Access, EventKind as E, Place};

#[test]
fn nothing_is_recorded_unless_asked_for() {
    let (r, _) = run("st.global.b32 [%o], %t;", 32);
    assert!(r.trace.is_none());
}

#[test]
fn first_requests_have_the_address_of_each_lane_and_their_cost() {
    // Every second word of shared memory: two wavefronts. A loop asks twice; the first request alone is kept.
    let body = "shl.b32 %r1, %t, 3; mov.u32 %r2, dyn; add.u32 %r1, %r1, %r2; mov.u32 %r3, 0;
again: st.shared.b32 [%r1], %t; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 2; @%p0 bra again;
setp.lt.u32 %p1, %t, 8; @%p1 st.global.b32 [%o], %t;";
    let (r, _) = run_with(body, 64, |l| l.trace = true);
    let trace = r.trace.as_ref().unwrap();
    let shared: Vec<_> = trace.requests.iter().filter(|q| q.buffer.is_none()).collect();
    assert_eq!(shared.iter().map(|q| q.warp).collect::<Vec<_>>(), [0, 1]);
    for q in &shared {
        assert_eq!((q.access, q.bytes, q.cost, q.least, q.matrices), (Access::Store, 4, 2, 1, false));
        assert_eq!(q.lanes[3], Some(u64::from(8 * (32 * q.warp + 3))));
    }
    let global: Vec<_> = trace.requests.iter().filter(|q| q.buffer.is_some()).collect();
    let [q] = global[..] else { panic!("{global:?}") };
    assert_eq!((q.buffer.as_deref(), q.access, q.cost, q.least), (Some("out"), Access::Store, 1, 1));
    assert_eq!((q.lanes[7], q.lanes[8]), (Some(28), None));
    // What was recorded is what was counted, once.
    assert_eq!(r.counters.shared_store.wavefronts, 2 * 2 * 2);
    assert_eq!(r.counters.global_store.sectors, 1);
}

#[test]
fn events_stand_in_the_order_in_which_they_happened() {
    let body =
        "mov.u32 %r2, dyn; setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [%r2], 64; bar.sync 0;
mbarrier.arrive.shared.b64 _, [%r2];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra wait;
ld.global.b32 %r0, [%o]; st.global.b32 [%o], %r0;";
    let (r, _) = run_with(body, 64, |l| l.trace = true);
    assert!(r.is_clean(), "{}", r.findings[0]);
    let trace = r.trace.unwrap();
    assert_eq!(trace.left_out, 0);
    let of = |warp: u32| -> Vec<E> {
        trace.events.iter().filter(|e| e.warp == Some(warp)).map(|e| e.kind.clone()).collect()
    };
    let global = |access, at| E::Access { access, at: Place::Global("out".into(), at) };
    let ends = |at| {
        [
            E::Barrier(0),
            E::Arrive { mbarrier: 0, lanes: 32, remote: false },
            E::Waited { mbarrier: 0 },
            global(Access::Load, at),
            global(Access::Store, at),
        ]
    };
    assert_eq!(of(0), [&[E::Init { mbarrier: 0 }][..], &ends(0)].concat());
    assert_eq!(of(1), ends(128));
    let position = |warp, kind: &E| trace.events.iter().position(|e| e.warp == Some(warp) && e.kind == *kind);
    // Nobody has waited before all have arrived.
    let arrived = position(1, &E::Arrive { mbarrier: 0, lanes: 32, remote: false });
    assert!(position(0, &E::Waited { mbarrier: 0 }) > arrived);
}

#[test]
fn of_several_ctas_the_first_is_recorded() {
    let body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 0; @%p0 st.global.b32 [%o], %t; bar.sync 0;";
    let (r, _) = run_with(body, 32, |l| (l.trace, l.grid) = (true, [300, 1, 1]));
    let trace = r.trace.unwrap();
    assert_eq!(trace.events.len(), 2);
    assert_eq!(trace.requests.len(), 1);
}
