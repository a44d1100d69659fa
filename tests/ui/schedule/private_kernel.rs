mod kernels {
    use tilewright::prelude::*;

    #[tile_kernel]
    fn copy(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        let i = program_tile(N);
        store(y, [i], load(x, [i]));
    }
}

tilewright::schedule! {
    fast for kernels::copy { tile(i = 64); bind(i -> thread.x); }
}

fn main() {}
