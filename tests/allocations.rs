//! A prepared launch allocates nothing on the host before the driver is called.

use std::{
    alloc::{GlobalAlloc, Layout as Block, System},
    cell::Cell,
};
use tilewright::{DType, prelude::*};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's.
        unsafe { System.alloc(block) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, block: Block) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// alpha·A·B, of no value here.
#[tile_kernel]
fn product<T: Float>(alpha: f32, a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc * alpha).cast::<T>());
}

schedule! {
    tiled for product<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
}

#[test]
fn a_prepared_launch_allocates_nothing() {
    let device = Device::sim();
    let prepared = tiled.prepare(&device, DType::F32).unwrap();
    let pitched = Buffer::<f32>::zeros_pitched(&device, &[48, 32], 40).unwrap();
    for (m, k) in [(48, 32), (47, 31)] {
        let a = Buffer::<f32>::zeros(&device, &[m, k]).unwrap();
        let b = Buffer::<f32>::zeros(&device, &[k, 32]).unwrap();
        let mut c = Buffer::<f32>::zeros(&device, &[m, 32]).unwrap();
        for a in [&a, &pitched.slice(&[0..m, 0..k]).unwrap()] {
            let mut launch = || product(2.0, a, &b, &mut c).prepared(&prepared).host_part().unwrap();
            // The first launch of a variant compiles it.
            let first = launch();
            let before = ALLOCATIONS.get();
            assert_eq!(launch(), first);
            assert_eq!(ALLOCATIONS.get(), before, "{m}×32×{k}, strides {:?}", a.strides());
        }
    }
}
