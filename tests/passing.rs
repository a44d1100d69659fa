//! What the macros generate compiles without warnings, wherever it stands.

#![deny(warnings)]

use tilewright::prelude::*;

mod kernels {
    use tilewright::prelude::*;

    /// y = x.
    #[tile_kernel]
    pub fn copy<T: Float>(x: &Tensor<T, M, { N + 2 }>, y: &mut Tensor<T, M, { N + 2 }>) {
        let (i, j) = program_tile(M, N + 2);
        store(y, [i, j], load(x, [i, j]));
    }
}

mod schedules {
    use super::kernels::copy;
    use tilewright::prelude::*;

    schedule! {
        /// One thread an element.
        pub(super) plain for copy<f32 | f16 | bf16> { tile(i = 8, j = 32); bind(i -> thread.y, j -> thread.x); }
        private = plain<f32> {}
    }

    pub const ALL: &[&dyn AnySchedule] = &[&plain, &private];
}

#[test]
fn visibility_and_symbolic_extents() {
    assert_eq!(schedules::ALL.len(), 2);
    assert!(!kernels::copy::KERNEL.is_empty());
    let _: schedules::plain = schedules::plain;
}

#[test]
fn inside_a_function() {
    #[tile_kernel]
    fn scale(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, alpha: f32) {
        let i = program_tile(N);
        store(y, [i], load(x, [i]) * alpha);
    }

    schedule! {
        plain for scale { tile(i = 128); bind(i -> thread); }
    }

    let device = Device::sim();
    let x = Buffer::<f32>::zeros(&device, &[8]).unwrap();
    let mut y = Buffer::<f32>::zeros(&device, &[8]).unwrap();
    drop(scale(&x, &mut y, 2.0).schedule(plain));
}
