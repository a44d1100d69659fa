//! Heads between a projection and attention: turned by their positions and put where attention reads them, and back.

use tilewright::prelude::*;

/// Queries are turned and go to q, heads first; keys are turned and go to slot `slot[b, m]` of their cache, and values go there as they
/// are. Each tensor comes in halves of its heads. A slot outside of the caches takes nothing; the author promises that no two tokens of a
/// sequence have the same slot.
#[tile_kernel]
pub fn rope_append<T: Float>(
    qa: &Tensor<T, B, M, G, R, D>,
    qb: &Tensor<T, B, M, G, R, D>,
    ka: &Tensor<T, B, M, G, D>,
    kb: &Tensor<T, B, M, G, D>,
    va: &Tensor<T, B, M, G, D>,
    vb: &Tensor<T, B, M, G, D>,
    position: &Tensor<i32, B, M>,
    slot: &Tensor<i32, B, M>,
    cos: &Tensor<f32, P, D>,
    sin: &Tensor<f32, P, D>,
    q_a: &mut Tensor<T, B, G, R, M, D>,
    q_b: &mut Tensor<T, B, G, R, M, D>,
    k_a: &mut Tensor<T, B, G, L, D>,
    k_b: &mut Tensor<T, B, G, L, D>,
    v_a: &mut Tensor<T, B, G, L, D>,
    v_b: &mut Tensor<T, B, G, L, D>,
) {
    let (b, m, g, d) = program_tile(B, M, G, D);
    let r = whole(R);
    let at = load(position, [b, m]);
    let c = load(cos, [at, d]);
    let t = load(sin, [at, d]);
    let to = load(slot, [b, m]);
    let u = load(ka, [b, m, g, d]).cast::<f32>();
    let v = load(kb, [b, m, g, d]).cast::<f32>();
    store(k_a, [b, g, unique(to), d], (u * c - v * t).cast::<T>());
    store(k_b, [b, g, unique(to), d], (v * c + u * t).cast::<T>());
    store(v_a, [b, g, unique(to), d], load(va, [b, m, g, d]));
    store(v_b, [b, g, unique(to), d], load(vb, [b, m, g, d]));
    let e = load(qa, [b, m, g, r, d]).cast::<f32>();
    let f = load(qb, [b, m, g, r, d]).cast::<f32>();
    store(q_a, [b, g, r, m, d], (e * c - f * t).cast::<T>());
    store(q_b, [b, g, r, m, d], (f * c + e * t).cast::<T>());
}

/// Heads of a token side by side.
#[tile_kernel]
pub fn merge_heads<T: Float>(x: &Tensor<T, B, H, M, D>, y: &mut Tensor<T, B, M, H, D>) {
    let (b, m, h, d) = program_tile(B, M, H, D);
    store(y, [b, m, h, d], load(x, [b, h, m, d]));
}

schedule! {
    /// Four pairs a thread; a CTA has a head of keys of four tokens, and four heads of the queries that share it at once.
    pub halves for rope_append<f32 | f16 | bf16> {
        tile(b = 1, m = 4, g = 1, d = 64);
        split(d -> dt, dv: 4);
        split(r -> ro, rt: 4);
        recompute(e, f);
        fuse(e at ro);
        fuse(f at ro);
        reorder(ro, rt, dv);
        bind(dt -> thread.x, rt -> thread.y, m -> thread.z);
        vectorize(dv);
    }
    /// Begins while the launch before it ends.
    pub halves_early on sm_90 = halves { launch(dependent); }
}

schedule! {
    /// Four elements a thread, of eight heads in a CTA.
    pub merge_4 for merge_heads<f32 | f16 | bf16> {
        tile(b = 1, m = 1, h = 8, d = 128);
        split(d -> dt, dv: 4);
        bind(dt -> thread.x, h -> thread.y);
        vectorize(dv);
    }
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub merge_8 for merge_heads<f16 | bf16> = merge_4 {
        split(d -> dt, dv: 8);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![halves, halves_early, merge_4, merge_8];
