use tilewright::prelude::*;

#[tile_kernel]
fn states(x: &Tensor<f16, N, D>, y: &mut Tensor<f32, N, E>, z: &mut Tensor<f32, D, E>) {
    let e = program_tile(E);
    let d = whole(D);
    let mut state = zeros::<f32>([d, e]);
    for j in tiles(N) {
        store(y, [j, e], dot(load(x, [j, d]), state.cast::<f16>(), zeros::<f32>([j, e])));
        state = state;
    }
    store(z, [d, e], state);
}

schedule! {
    fast on sm_86 for states {
        fits(D <= 16);
        tile(e = 16, j = 8);
        tensor_core(y.dot: mma);
        stage(x at d: shared);
    }
}

fn main() {}
