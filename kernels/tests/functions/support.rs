//! Data, buffers and the comparison.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::sync::LazyLock;
use tile_bench::record::judge;
pub use tilewright::verify::{U, half_ulp};
use tilewright::{Buffer, Device, Element, Float, Stream};

/// One device for all tests, so that each kernel is compiled once: the simulator, or with `TILEWRIGHT_DEVICE=cuda` the first GPU.
pub static DEVICE: LazyLock<Device> = LazyLock::new(|| match std::env::var("TILEWRIGHT_DEVICE").as_deref() {
    Ok("cuda") => Device::cuda(0).unwrap(),
    _ => Device::sim(),
});

pub fn stream() -> Stream {
    Stream::default_of(&DEVICE)
}

/// Standard normal numbers of a type; `seed` tells tensors apart.
pub fn normal<T: Float>(seed: u64, len: usize) -> Vec<T> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| T::from_f64(StandardNormal.sample(&mut rng))).collect()
}

pub fn buffer<T: Element>(data: &[T], shape: &[usize]) -> Buffer<T> {
    Buffer::from_slice(&DEVICE, data, shape).unwrap()
}

/// A buffer of NaN: an element that is not written shows.
pub fn poisoned<T: Element>(shape: &[usize]) -> Buffer<T> {
    Buffer::poisoned(&DEVICE, shape).unwrap()
}

pub fn wide<T: Float>(data: &[T]) -> Vec<f64> {
    data.iter().map(|x| x.to_f64()).collect()
}

/// Each element is within its bound: pairs of the reference and of what a result may be off by, before it is rounded to its type.
pub fn check<T: Float>(what: &str, found: &Buffer<T>, expected: impl IntoIterator<Item = (f64, f64)>) {
    let found = found.to_vec().unwrap();
    let expected: Vec<(f64, f64)> = expected.into_iter().collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    let with_rounding = |(found, (reference, bound)): (&T, &(f64, f64))| {
        // What is rounded is the result in f32, so twice, and numbers below the least normal one lose more.
        let rounding = half_ulp(T::DTYPE, *reference) * (1.0 + 1e-3) + 2f64.powi(-126);
        (found.to_f64(), *reference, bound + rounding)
    };
    let verdict = judge(found.iter().zip(&expected).map(with_rounding));
    let at = verdict.worst.unwrap_or(0);
    assert!(
        verdict.verified(),
        "{what} in {}: element {at} is {:?} and not {:?}",
        T::DTYPE,
        found.get(at),
        expected.get(at)
    );
}

/// Runs a generic function for each type.
#[macro_export]
macro_rules! each_type {
    ($function:ident $(, $argument:expr)*) => {
        $function::<f32>($($argument),*);
        $function::<half::f16>($($argument),*);
        $function::<half::bf16>($($argument),*);
    };
}
