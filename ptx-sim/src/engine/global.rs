//! Loads and stores of global memory: bounds, sectors, buffers.

use super::mem::{Addrs, deliver};
use super::{Engine, Warp};
use crate::banks;
use crate::findings::FindingKind;
use crate::op::*;

impl Engine<'_> {
    /// Cuts lanes into groups by allocation; lanes outside every allocation become a finding. Counts the traffic.
    pub(super) fn global_groups(
        &mut self,
        w: &Warp,
        pc: u32,
        bytes: u32,
        addr: &Addrs,
        ok: u32,
        store: bool,
    ) -> Groups {
        let mut groups = Groups::default();
        let mut left = ok;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let cached = self.last_alloc;
            let mem = self.env.mem;
            let hit = |i: usize| mem.allocs.get(i).is_some_and(|a| addr[lane].wrapping_sub(a.base) < a.size);
            let found = if hit(cached) { Some(cached) } else { mem.find(addr[lane]) };
            let Some(ai) = found else {
                self.out_of_bounds(w, pc, lane as u32, addr[lane], bytes, store);
                left &= left - 1;
                continue;
            };
            self.last_alloc = ai;
            let (base, size) = (mem.allocs[ai].base, mem.allocs[ai].size);
            let room = size.saturating_sub(bytes as u64 - 1);
            let mut inside = 0u32;
            for (i, a) in addr.iter().enumerate() {
                inside |= ((a.wrapping_sub(base) < room) as u32) << i;
            }
            inside &= left;
            if inside >> lane & 1 == 0 {
                // The access starts in the allocation and runs over its end.
                self.out_of_bounds(w, pc, lane as u32, addr[lane], bytes, store);
                left &= left - 1;
                continue;
            }
            left &= !inside;
            let sectors = banks::sectors(addr, inside, bytes) as u64;
            let total = bytes as u64 * inside.count_ones() as u64;
            self.counts.mem[pc as usize].global(ai as u32, sectors, total);
            groups.push(ai, inside);
        }
        groups
    }

    #[cold]
    fn out_of_bounds(&mut self, w: &Warp, pc: u32, lane: u32, addr: u64, bytes: u32, store: bool) {
        let mem = self.env.mem;
        let key = mem.allocs.partition_point(|a| a.base <= addr) as u64;
        let what = if store { "store" } else { "load" };
        self.find(FindingKind::OutOfBounds, w, pc, lane, key, || match mem.find(addr) {
            Some(i) => {
                let a = &mem.allocs[i];
                let off = addr - a.base;
                format!(
                    "{what} of {bytes} bytes at byte {off} (element {}) of `{}`, which has {} bytes, runs over its end",
                    off / bytes as u64,
                    a.name,
                    a.size
                )
            }
            None => {
                let below = key.checked_sub(1).map(|i| &mem.allocs[i as usize]);
                let index = below.map_or(String::new(), |a| {
                    format!(" (byte {}, element {} of `{}`)", addr - a.base, (addr - a.base) / bytes as u64, a.name)
                });
                let near = mem.nearest(addr).unwrap_or_else(|| "nothing is allocated".into());
                format!("{what} of {bytes} bytes out of bounds at {addr:#x}: {near}{index}")
            }
        });
    }

    pub(super) fn load_global(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, m: u32, ok: u32) {
        let groups = self.global_groups(w, pc, mem.bytes(), addr, ok, false);
        let width = mem.width.min(4);
        for e in 0..mem.regs.len() {
            for word in 0..mem.width.div_ceil(4) {
                let delta = (e as u32 * mem.width + word * 4) as u64;
                let mut v = [0; 32];
                for &(ai, lanes) in groups.iter() {
                    let a = &self.env.mem.allocs[ai];
                    for (i, v) in v.iter_mut().enumerate() {
                        if lanes >> i & 1 != 0 {
                            *v = a.load(addr[i] - a.base + delta, width);
                        }
                    }
                }
                deliver(&mut w.regs, mem, e, word, &v, m);
            }
        }
    }

    pub(super) fn store_global(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, ok: u32) {
        let groups = self.global_groups(w, pc, mem.bytes(), addr, ok, true);
        let width = mem.width.min(4);
        for (e, r) in mem.regs.iter().enumerate() {
            for word in 0..mem.width.div_ceil(4) {
                let delta = (e as u32 * mem.width + word * 4) as u64;
                let v = &w.regs.r[(r + word) as usize].0;
                for &(ai, lanes) in groups.iter() {
                    let a = &self.env.mem.allocs[ai];
                    for i in 0..32 {
                        if lanes >> i & 1 != 0 {
                            a.store(addr[i] - a.base + delta, width, v[i]);
                        }
                    }
                }
            }
        }
    }
}

/// Lanes by allocation; nearly always one group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    one: Option<(usize, u32)>,
    more: Vec<(usize, u32)>,
}

impl Groups {
    fn push(&mut self, alloc: usize, lanes: u32) {
        if self.one.is_none() {
            self.one = Some((alloc, lanes));
        } else {
            self.more.push((alloc, lanes));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &(usize, u32)> {
        self.one.iter().chain(&self.more)
    }
}
