//! Host memory for the checks: so much and no more, and a launch that ends with an error instead of an abort.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the checks of one launch have taken, and may take, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    limit: u64,
    taken: AtomicU64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget { limit: limit.min(u64::MAX / 4), taken: AtomicU64::new(0) }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The memory was not to be had: what the checks say from here on is incomplete.
    pub fn exceeded(&self) -> bool {
        self.taken.load(Relaxed) > self.limit
    }

    /// `n` cells, or none.
    pub fn cells<T: Copy>(&self, n: usize, value: T) -> Box<[T]> {
        self.cells_with(n, || value)
    }

    /// As [`Budget::cells`], each made anew.
    pub fn cells_with<T>(&self, n: usize, make: impl FnMut() -> T) -> Box<[T]> {
        let bytes = (n * size_of::<T>()) as u64;
        let before = self.taken.fetch_add(bytes, Relaxed);
        let mut list = Vec::new();
        if before.saturating_add(bytes) > self.limit {
            return Box::default();
        }
        if list.try_reserve_exact(n).is_err() {
            self.taken.store(u64::MAX / 2, Relaxed);
            return Box::default();
        }
        list.resize_with(n, make);
        list.into_boxed_slice()
    }
}
