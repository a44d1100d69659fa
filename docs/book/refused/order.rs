use tilewright::prelude::*;

/// The sum of a row, with a decay from tile to tile.
#[tile_kernel]
pub fn decayed(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut s = zeros::<f32>([r]);
    for n in tiles(N) {
        s = s * 0.5 + sum(load(x, [r, n]), n);
    }
    store(y, [r], s);
}

schedule! {
    // ANCHOR: schedule
    tiles_of_threads for decayed {
        fits(N <= 1024);
        tile(r = 4, n = 32);
        bind(r -> thread.y, n.o -> thread.x);
    }
    // ANCHOR_END: schedule
}

fn main() {}
