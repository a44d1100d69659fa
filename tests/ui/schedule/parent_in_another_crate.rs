use tilewright::prelude::*;

schedule! {
    /// Replacing the tile makes the inherited `bind(i -> thread.x)` too wide.
    wider = fixture_kernels::simple<f16> { tile(i = 4096); }
    wrong = fixture_kernels::simple { drop(bind(n)); }
    typed = fixture_kernels::simple<bf16> {}
}

fn main() {}
