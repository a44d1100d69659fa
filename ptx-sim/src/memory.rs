//! Device memory: an allocation table with guard gaps, so that every stray address is caught and named.

use crate::image::Image;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Lowest device address handed out.
const BASE: u64 = 0x10_0000_0000;
/// Bytes between two allocations that belong to neither.
const GUARD: u64 = 4096;
/// Alignment of every allocation, as `cuMemAlloc` gives.
const ALIGN: u64 = 256;

/// Why a memory operation was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The capacity does not suffice.
    ///
    /// What to do: raise the capacity (`--capacity` of the tool, `Memory::with_capacity`), or use smaller buffers.
    #[error("out of device memory: `{name}` needs {bytes} bytes, {free} of {capacity} are free")]
    OutOfMemory {
        /// Name of the allocation.
        name: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes still free.
        free: u64,
        /// Total capacity.
        capacity: u64,
    },
    /// The host has no room for it.
    ///
    /// What to do: use smaller buffers, or a machine with more memory.
    #[error("the host gives no {bytes} bytes of memory for `{name}`")]
    HostMemory {
        /// Name of the allocation.
        name: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// The range is not inside one allocation.
    ///
    /// What to do: keep the range within one allocation; the message names the nearest.
    #[error("{bytes} bytes at address {addr:#x} are not inside one allocation{near}")]
    OutOfRange {
        /// First address.
        addr: u64,
        /// Length of the range.
        bytes: u64,
        /// The nearest allocation, as text.
        near: String,
    },
    /// `free` of an address that `alloc` did not return.
    ///
    /// What to do: free what `alloc` returned, once.
    #[error("address {0:#x} is not the start of an allocation: free what alloc returned, once")]
    NotAllocated(u64),
}

#[derive(Debug)]
pub(crate) struct Alloc {
    pub base: u64,
    pub size: u64,
    pub name: Arc<str>,
    pub words: Box<[AtomicU32]>,
}

/// The memory of a simulated device.
///
/// Addresses are 64-bit, allocations 256-byte aligned and zeroed; an address is never handed out twice, so a
/// use after `free` is out of bounds. Values are little endian.
#[derive(Debug)]
pub struct Memory {
    /// Sorted by base.
    pub(crate) allocs: Vec<Alloc>,
    next: u64,
    capacity: u64,
    used: u64,
    /// Module variables already placed: (module, variable) → address.
    pub(crate) globals: HashMap<(u64, u32), u64>,
    images: Vec<Image>,
}

/// Handles of images are not addresses.
const FIRST_IMAGE: u64 = 0x7e00_0000_0000_0001;

/// Words for `bytes` bytes, which the host provides as they are touched.
fn zeroed(name: &str, bytes: u64) -> Result<Box<[AtomicU32]>, MemoryError> {
    let n = usize::try_from(bytes.div_ceil(4)).ok();
    let words = n.and_then(|n| bytemuck::allocation::try_zeroed_slice_box(n).ok());
    words.ok_or_else(|| MemoryError::HostMemory { name: name.to_string(), bytes })
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty memory of 16 GiB capacity. Nothing is reserved before it is allocated.
    pub fn new() -> Self {
        Self::with_capacity(16 << 30)
    }

    /// An empty memory that holds at most `bytes` bytes.
    pub fn with_capacity(bytes: u64) -> Self {
        Memory {
            allocs: vec![],
            next: BASE,
            capacity: bytes,
            used: 0,
            globals: HashMap::new(),
            images: vec![],
        }
    }

    /// Allocates `bytes` zeroed bytes; reports call them `name`. The host provides them as they are touched.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] if the capacity does not suffice, [`MemoryError::HostMemory`] if the host's does not.
    pub fn alloc(&mut self, name: &str, bytes: u64) -> Result<u64, MemoryError> {
        let free = self.capacity - self.used;
        if bytes > free {
            return Err(MemoryError::OutOfMemory {
                name: name.to_string(),
                bytes,
                free,
                capacity: self.capacity,
            });
        }
        let words = zeroed(name, bytes)?;
        let base = self.next;
        self.next = (base + bytes + GUARD).next_multiple_of(ALIGN);
        self.used += bytes;
        self.allocs.push(Alloc { base, size: bytes, name: name.into(), words });
        Ok(base)
    }

    /// Makes a texture or surface of an image in this memory: its handle, to be passed as a 64-bit parameter.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the image lies in one allocation.
    pub fn add_image(&mut self, image: Image) -> Result<u64, MemoryError> {
        self.range(image.address, image.bytes())?;
        self.images.push(image);
        Ok(FIRST_IMAGE + self.images.len() as u64 - 1)
    }

    /// The image of a handle.
    pub(crate) fn image(&self, handle: u64) -> Option<&Image> {
        self.images.get(usize::try_from(handle.checked_sub(FIRST_IMAGE)?).ok()?)
    }

    /// Whether the range lies in one allocation.
    pub(crate) fn holds(&self, addr: u64, bytes: u64) -> bool {
        self.range(addr, bytes).is_ok()
    }

    /// Stores `width` ≤ 4 bytes at a naturally aligned address, while a launch runs.
    pub(crate) fn poke(&self, addr: u64, v: u32, width: u32) {
        if let Some(i) = self.find(addr) {
            self.allocs[i].store(addr - self.allocs[i].base, width, v);
        }
    }

    /// Releases the allocation that starts at `addr`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if no allocation starts there.
    pub fn free(&mut self, addr: u64) -> Result<(), MemoryError> {
        let at = self
            .allocs
            .binary_search_by_key(&addr, |a| a.base)
            .map_err(|_| MemoryError::NotAllocated(addr))?;
        self.used -= self.allocs.remove(at).size;
        Ok(())
    }

    /// Bytes allocated now.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A copy of everything. What is zero in pieces of some KiB takes no host memory.
    pub(crate) fn snapshot(&self) -> Result<Memory, MemoryError> {
        let mut allocs = vec![];
        for a in &self.allocs {
            let mut words = zeroed(&a.name, a.size)?;
            for (to, from) in words.chunks_mut(1024).zip(a.words.chunks(1024)) {
                if from.iter().any(|w| w.load(Relaxed) != 0) {
                    to.iter_mut().zip(from).for_each(|(t, f)| *t.get_mut() = f.load(Relaxed));
                }
            }
            allocs.push(Alloc { words, name: a.name.clone(), ..*a });
        }
        Ok(Memory { allocs, globals: self.globals.clone(), images: self.images.clone(), ..*self })
    }

    fn range(&self, addr: u64, bytes: u64) -> Result<(usize, u64), MemoryError> {
        if let Some(i) = self.find(addr) {
            let off = addr - self.allocs[i].base;
            if bytes <= self.allocs[i].size - off {
                return Ok((i, off));
            }
        }
        if bytes == 0 {
            return Ok((usize::MAX, 0));
        }
        Err(MemoryError::OutOfRange {
            addr,
            bytes,
            near: self.nearest(addr).map_or(String::new(), |n| format!(" ({n})")),
        })
    }

    /// Copies `data` to device address `addr`.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the whole range lies in one allocation; nothing is written then.
    pub fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (i, off) = self.range(addr, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        let words = &mut self.allocs[i].words;
        if off.is_multiple_of(4) && data.len().is_multiple_of(4) {
            for (w, c) in words[off as usize / 4..].iter_mut().zip(data.chunks_exact(4)) {
                *w.get_mut() = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
            }
        } else {
            for (k, b) in data.iter().enumerate() {
                let at = off as usize + k;
                let w = words[at / 4].get_mut();
                let sh = 8 * (at % 4);
                *w = (*w & !(0xff << sh)) | (*b as u32) << sh;
            }
        }
        Ok(())
    }

    /// Copies from device address `addr` into `out`.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the whole range lies in one allocation.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (i, off) = self.range(addr, out.len() as u64)?;
        if out.is_empty() {
            return Ok(());
        }
        let words = &self.allocs[i].words;
        for (k, b) in out.iter_mut().enumerate() {
            let at = off as usize + k;
            *b = (words[at / 4].load(Relaxed) >> (8 * (at % 4))) as u8;
        }
        Ok(())
    }

    /// Whether all of these bytes are zero; of what was never written this takes no host memory.
    ///
    /// # Errors
    /// [`MemoryError::OutOfRange`] unless the whole range lies in one allocation.
    pub fn is_zero(&self, addr: u64, bytes: u64) -> Result<bool, MemoryError> {
        let (i, off) = self.range(addr, bytes)?;
        if bytes == 0 {
            return Ok(true);
        }
        let words = &self.allocs[i].words;
        let (first, end) = (off.next_multiple_of(4), (off + bytes) & !3);
        let byte = |at: u64| words[at as usize / 4].load(Relaxed) >> (8 * (at % 4)) & 0xff == 0;
        if first >= end {
            return Ok((off..off + bytes).all(byte));
        }
        let whole = &words[first as usize / 4..end as usize / 4];
        Ok((off..first).chain(end..off + bytes).all(byte) && whole.iter().all(|w| w.load(Relaxed) == 0))
    }

    /// The allocation that contains `addr`.
    #[inline]
    pub(crate) fn find(&self, addr: u64) -> Option<usize> {
        let i = self.allocs.partition_point(|a| a.base <= addr).checked_sub(1)?;
        (addr - self.allocs[i].base < self.allocs[i].size).then_some(i)
    }

    /// Describes where `addr` lies relative to the closest allocation.
    pub(crate) fn nearest(&self, addr: u64) -> Option<String> {
        let after = self.allocs.partition_point(|a| a.base <= addr);
        let below = after.checked_sub(1).map(|i| &self.allocs[i]);
        let above = self.allocs.get(after);
        let below_gap = below.map(|a| addr.saturating_sub(a.base + a.size));
        let above_gap = above.map(|a| a.base - addr);
        match (below, above) {
            (Some(a), _) if addr < a.base + a.size => {
                Some(format!("byte {} of `{}`, which has {} bytes", addr - a.base, a.name, a.size))
            }
            (Some(a), _) if below_gap <= above_gap.or(Some(u64::MAX)) => Some(format!(
                "{} bytes past the end of `{}`, which has {} bytes",
                addr - (a.base + a.size),
                a.name,
                a.size
            )),
            (_, Some(a)) => Some(format!("{} bytes before `{}`", a.base - addr, a.name)),
            _ => None,
        }
    }
}

impl Alloc {
    /// Loads `width` ≤ 4 bytes at a naturally aligned offset.
    #[inline(always)]
    pub fn load(&self, off: u64, width: u32) -> u32 {
        let w = self.words[off as usize / 4].load(Relaxed);
        match width {
            4 => w,
            2 => (w >> (8 * (off & 2))) & 0xffff,
            _ => (w >> (8 * (off & 3))) & 0xff,
        }
    }

    /// Stores `width` ≤ 4 bytes at a naturally aligned offset.
    #[inline(always)]
    pub fn store(&self, off: u64, width: u32, v: u32) {
        let w = &self.words[off as usize / 4];
        if width == 4 {
            w.store(v, Relaxed);
        } else {
            let (sh, m) = if width == 2 { (8 * (off & 2), 0xffff) } else { (8 * (off & 3), 0xff) };
            // Another CTA may store to the other half.
            let _ = w.fetch_update(Relaxed, Relaxed, |old| Some((old & !(m << sh)) | (v & m) << sh));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_apart_and_bounded() {
        let mut m = Memory::with_capacity(1000);
        let a = m.alloc("a", 100).unwrap();
        let b = m.alloc("b", 10).unwrap();
        assert!(a.is_multiple_of(256) && b.is_multiple_of(256) && b - a >= 100 + GUARD);
        assert!(matches!(m.alloc("c", 900), Err(MemoryError::OutOfMemory { free: 890, .. })));
        assert!(matches!(m.alloc("d", u64::MAX), Err(MemoryError::OutOfMemory { .. })));
        m.free(a).unwrap();
        assert_eq!(m.free(a), Err(MemoryError::NotAllocated(a)));
        assert_eq!(m.used(), 10);
        assert!(m.read(a, &mut [0; 4]).is_err());
    }

    #[test]
    fn ranges_are_checked_and_unaligned_bytes_survive() {
        let mut m = Memory::new();
        let a = m.alloc("a", 10).unwrap();
        m.write(a + 3, &[1, 2, 3, 4, 5]).unwrap();
        let mut out = [0; 10];
        m.read(a, &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 1, 2, 3, 4, 5, 0, 0]);
        assert_eq!(
            [(0, 3), (0, 4), (3, 5), (8, 2)].map(|(at, n)| m.is_zero(a + at, n)),
            [Ok(true), Ok(false), Ok(false), Ok(true)]
        );
        assert!(m.is_zero(a + 9, 2).is_err());
        let e = m.write(a + 8, &[0; 4]).unwrap_err();
        assert!(e.to_string().contains("not inside one allocation"), "{e}");
        m.write(a + 10, &[]).unwrap();
        assert!(m.nearest(a + 12).unwrap().contains("2 bytes past the end of `a`"));
    }
}
