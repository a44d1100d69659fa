//! The ladder's story: each rung of matmul is better than the one before for a reason that the counters show.

#[path = "../examples/matmul/kernel.rs"]
mod kernel;

use kernel::{BY_SIZE, SCHEDULES, matmul};
use ptx_sim::{Access, Counters, InstClass};
use tilewright::{Buffer, Device};

const M: usize = 256;
const N: usize = 192;
const K: usize = 320;

/// Counters of one rung in f32 at 256×192×320.
fn rung(name: &str) -> Counters {
    let schedule =
        SCHEDULES.iter().chain(BY_SIZE).find(|s| s.name() == name).expect("a schedule of the example");
    let device = Device::sim();
    let ones = |len: usize| vec![1.0f32; len];
    let a = Buffer::from_slice(&device, &ones(M * K), &[M, K]).unwrap();
    let b = Buffer::from_slice(&device, &ones(K * N), &[K, N]).unwrap();
    let mut c = Buffer::<f32>::poisoned(&device, &[M, N]).unwrap();
    let report = matmul(&a, &b, &mut c).schedule_dyn(*schedule).run().unwrap();
    assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
    assert!(c.to_vec().unwrap().iter().all(|&x| x == K as f32), "{name}");
    report.counters.expect("the simulator counts")
}

fn sectors(c: &Counters, buffer: &str, access: Access) -> f64 {
    c.buffer(buffer, access).sectors_per_request()
}

/// Fused multiply-adds, per warp.
fn fma(c: &Counters) -> f64 {
    c.class(InstClass::Fma).warp as f64
}

fn wavefronts_per_fma(c: &Counters) -> f64 {
    (c.shared_load.wavefronts + c.shared_store.wavefronts) as f64 / fma(c)
}

fn memory_instructions_per_fma(c: &Counters) -> f64 {
    let requests =
        c.global_load.requests + c.global_store.requests + c.shared_load.requests + c.shared_store.requests;
    requests as f64 / fma(c)
}

#[test]
fn each_rung_is_better_for_the_reason_it_was_made() {
    let [naive, coalesced, shared, one, two, vectorized, warptile, double] = [
        "naive",
        "coalesced",
        "shared",
        "blocktile_1d",
        "blocktile_2d",
        "vectorized",
        "warptile",
        "double_buffered",
    ]
    .map(rung);

    // Neighbouring lanes in a row of C instead of a column: a warp reads one element of A and a row of B.
    assert_eq!(sectors(&naive, "a", Access::Load), 32.0);
    assert_eq!(sectors(&coalesced, "a", Access::Load), 1.0);
    assert_eq!(sectors(&naive, "c", Access::Store), 32.0);
    assert_eq!(sectors(&coalesced, "c", Access::Store), 4.0);
    assert_eq!(sectors(&naive, "b", Access::Load), 1.0);
    assert_eq!(sectors(&coalesced, "b", Access::Load), 4.0);

    // A tile is read once a CTA instead of once a thread: the tile is 32 wide.
    let fewer = coalesced.global_load.bytes as f64 / shared.global_load.bytes as f64;
    assert!((28.0..=36.0).contains(&fewer), "{fewer}");

    // Register tiles use what they read from shared memory more than once.
    assert!(wavefronts_per_fma(&one) < 0.8 * wavefronts_per_fma(&shared));
    assert!(wavefronts_per_fma(&two) < 0.8 * wavefronts_per_fma(&one));

    // Sixteen bytes an instruction.
    assert!(memory_instructions_per_fma(&vectorized) < 0.5 * memory_instructions_per_fma(&two));

    // A warp's tile is square: fewer words of A and B for as many products.
    assert!(wavefronts_per_fma(&warptile) < 0.9 * wavefronts_per_fma(&vectorized));

    // Two buffers: a tile of K is copied while the other is multiplied, and one barrier separates them.
    let k_tiles = |c: &Counters, tile: usize| c.barriers_per_cta / (K as f64 / tile as f64);
    assert!(k_tiles(&double, 16) < 0.75 * k_tiles(&warptile, 32));
}
