//! Random numbers, the same on every machine: for the order of parallel loops in interpreters, and for tests.

/// A small deterministic generator (xorshift64*, Marsaglia 2003; Vigna 2016).
pub struct Random(u64);

impl Random {
    /// Seeded; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        Random((seed ^ 0x9E37_79B9_7F4A_7C15).max(1))
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // not an iterator: it never ends
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// An element of a slice.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
