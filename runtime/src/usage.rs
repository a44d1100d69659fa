//! How much of a device's memory is taken.

/// Bytes of a device's memory.
///
/// Buffers and the scratch memory of launches come from the device's pool, which keeps what is freed for the next
/// ones; [`Device::trim`](crate::Device::trim) gives it back. What others have on the device, such as another
/// process, counts as not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of the pool that are buffers and scratch memory.
    pub in_use: u64,
    /// Bytes that the pool holds, those in use among them.
    pub reserved: u64,
    /// Bytes that the pool may still take.
    pub free: u64,
}

impl MemoryUse {
    /// Bytes that may still become buffers, in pieces perhaps.
    pub fn available(&self) -> u64 {
        self.free + self.reserved.saturating_sub(self.in_use)
    }
}
