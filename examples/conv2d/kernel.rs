//! A two-dimensional convolution as a product: a pixel's window is a row of the first factor, which is never written down.

use tilewright::prelude::*;

/// y = x ∗ w, images with their channels last: each of P×Q pixels is the sum over a window of R×S, accumulated in f32.
#[tile_kernel]
pub fn conv2d<T: Float>(
    x: &Tensor<T, B, { P + R - 1 }, { Q + S - 1 }, C>,
    w: &Tensor<T, R, S, C, F>,
    y: &mut Tensor<T, B, P, Q, F>,
) {
    let (b, p, q, f) = program_tile(B, P, Q, F);
    let r = whole(R);
    let s = whole(S);
    let mut acc = zeros::<f32>([b, p, q, f]);
    for c in tiles(C) {
        acc = dot(load(x, [b, p + r, q + s, c]), load(w, [r, s, c, f]), acc);
    }
    store(y, [b, p, q, f], acc.cast::<T>());
}

schedule! {
    /// One element a thread, neighbouring lanes along the channels.
    pub naive for conv2d<f32 | f16 | bf16> {
        tile(q = 8, f = 32);
        bind(q -> thread.y, f -> thread.x);
    }
    /// Windows and weights pass through shared memory, a step of the window at a time; four by four elements a thread.
    pub tiled for conv2d<f32 | f16 | bf16> {
        tile(p = 4, q = 16, f = 64, c = 16);
        split(q -> qt, qr: 4);
        split(f -> ft, fr: 4);
        reorder(r, s, c.o, c.t, p.t, qt, ft, qr, fr);
        stage(x, w at c: shared, vector(16));
        bind(p.t -> thread.z, qt -> thread.y, ft -> thread.x);
        vectorize(fr);
    }
    /// Channels come in eights and filters in fours, as those of most networks do; lines and columns of images are cut anywhere.
    /// No launch leaves the vectors of channels out.
    pub whole_channels = tiled { multiple(C: 8, F: 4); }
    /// Tensor cores: rows are pixels of a line, and channels are summed 16 at once for each step of the window.
    pub mma for conv2d<f16 | bf16> {
        tile(p = 8, q = 16, f = 128, c = 32);
        split(p -> pw, pm: 4);
        split(f -> fw, fm: 32);
        tensor_core(acc: mma);
        reorder(r, s, c.o, pw, fw, c.atom, pm, fm);
        stage(x, w at c: shared, cp_async, vector(16));
        pad(x: 16, w: 16);
        pipeline(c, 3);
        bind(pw -> warp.y, fw -> warp.x);
        fragment(x, w at c.atom);
        pipeline(c.atom, 2);
        vectorize(f.pair);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![naive, tiled, whole_channels, mma];
