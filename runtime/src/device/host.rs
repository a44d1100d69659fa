//! Memory of the host.

use std::{
    alloc::{self, Layout},
    any::Any,
    num::NonZero,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

/// Where memory of our own begins: as well aligned as a GPU's.
const ALIGN: usize = 256;

/// Where no bytes are, as well aligned.
const NOWHERE: NonNull<u8> = NonNull::without_provenance(NonZero::new(ALIGN).unwrap());

/// Bytes at a place that does not change.
pub(crate) struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

/// Who frees it.
enum Owner {
    /// This value: what it allocated begins so many bytes earlier.
    Own { skipped: usize },
    /// Another, which is kept until then.
    Other(#[allow(dead_code, reason = "kept for its destructor")] Option<Box<dyn Any + Send + Sync>>),
}

// SAFETY: plain bytes, which `&mut` alone changes.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Bytes of this value; `None` where the host has no room. Zeros take memory as they are touched.
    pub(crate) fn filled(bytes: usize, byte: u8) -> Option<Self> {
        if bytes == 0 {
            return Some(HostMemory { start: NOWHERE, bytes, owner: Owner::Own { skipped: 0 } });
        }
        // SAFETY: the layout is not empty.
        let all = NonNull::new(unsafe { alloc::alloc_zeroed(Self::layout(bytes)?) })?;
        let skipped = all.align_offset(ALIGN);
        // SAFETY: less than `ALIGN` bytes, which the layout has more.
        let start = unsafe { all.add(skipped) };
        let mut memory = HostMemory { start, bytes, owner: Owner::Own { skipped } };
        if byte != 0 {
            memory.fill(byte);
        }
        Some(memory)
    }

    /// What is allocated for so many bytes. Without an alignment of its own: zeros that are aligned are written at once
    /// (`GlobalAlloc::alloc_zeroed` of the system), others come from the host as they are touched.
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(ALIGN)?, 1).ok()
    }

    /// Memory that someone else frees, not before `keep` is dropped.
    ///
    /// # Safety
    /// Until then the bytes are live, have values, and are used by no one else while this value is borrowed.
    pub(crate) unsafe fn foreign(
        start: NonNull<u8>,
        bytes: usize,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        HostMemory { start, bytes, owner: Owner::Other(keep) }
    }
}

impl HostMemory {
    /// Bytes beyond the last place that is as well aligned as memory of our own.
    pub(crate) fn skew(&self) -> usize {
        self.start.addr().get() % ALIGN
    }
}

impl Deref for HostMemory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are there, and have values.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for HostMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Owner::Own { skipped } = self.owner
            && self.bytes > 0
            && let Some(layout) = Self::layout(self.bytes)
        {
            // SAFETY: allocated with this layout, so many bytes earlier, and freed once.
            unsafe { alloc::dealloc(self.start.sub(skipped).as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    struct Told(Arc<AtomicBool>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn bytes_have_a_value_and_an_owner() {
        let mut memory = HostMemory::filled(1000, 0xff).unwrap();
        assert!(memory.as_ptr().addr().is_multiple_of(ALIGN) && memory.iter().all(|b| *b == 0xff));
        memory[999] = 3;
        assert_eq!(memory[998..], [0xff, 3]);
        let nothing = HostMemory::filled(0, 1).unwrap();
        assert!(nothing.is_empty() && nothing.as_ptr().addr().is_multiple_of(ALIGN));
        assert!(HostMemory::filled(isize::MAX as usize, 0).is_none());
        let (gone, mut data) = (Arc::new(AtomicBool::new(false)), [1u8, 2, 3]);
        let keep = Box::new(Told(gone.clone()));
        // SAFETY: `data` outlives the memory and is not used meanwhile.
        let memory = unsafe { HostMemory::foreign(NonNull::from(&mut data).cast(), 3, Some(keep)) };
        assert_eq!((&*memory, memory.skew()), (&[1, 2, 3][..], memory.as_ptr().addr() % ALIGN));
        assert!(!gone.load(Ordering::Relaxed));
        drop(memory);
        assert!(gone.load(Ordering::Relaxed));
    }
}
