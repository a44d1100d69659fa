//! Bulk asynchronous copies and tensor tiles (PTX ISA §9.7.9.25.4, §9.7.9.27).
//!
//! *Early*: the effect is at issue. *Late*: loads that signal an mbarrier take effect only when nothing else in the
//! cluster can move, their destination holding NaN bytes until then; stores when their group is waited for. Each
//! copy in flight is an agent of its own. It belongs to the asynchronous proxy: what threads wrote is visible to it
//! only after `fence.proxy.async`.

mod check;
mod tile;

use super::atomic::apply;
use super::copy::Batch;
use super::mem::{Addrs, classify};
use super::{Engine, Warp};
use crate::findings::FindingKind;
use crate::kernel::SHARED_BASE;
use crate::launch::AsyncMode;
use crate::op::*;
use crate::tensor_map::TensorMap;
use crate::trace::EventKind;
use crate::types::Ty;
use std::collections::VecDeque;

/// Agents that copies in flight take in turn.
pub(super) const POOL: usize = 64;

/// At most 16 bytes that stay together.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    global: u64,
    shared: u32,
    n: u8,
    /// Nothing to read: this in every two bytes instead.
    fill: Option<u16>,
}

#[derive(Debug, Clone)]
struct Transfer {
    dir: BulkDir,
    chunks: Vec<Chunk>,
    /// CTA that holds the shared side when it is the source.
    from: usize,
    /// CTAs that receive, and the mbarrier of each.
    to: Vec<(usize, Option<(usize, u32)>)>,
    bytes: u32,
    /// The agent that reads and, in shared memory, writes.
    agent: usize,
    clock: u32,
    pc: u32,
    reduce: Option<(AtomOp, Ty)>,
}

/// Work that takes effect when nothing else can move.
#[derive(Debug)]
enum Pending {
    Bulk(Transfer),
    Copies(Batch),
}

/// Copies of the cluster that signal mbarriers and have not taken effect.
#[derive(Debug, Default)]
pub(super) struct Bulks {
    pending: VecDeque<Pending>,
    issued: u32,
}

impl Bulks {
    pub fn clear(&mut self) {
        self.pending.clear();
        self.issued = 0;
    }
}

/// Bulk groups of one warp: lanes and their transfers; the flag tells that the effect is done.
#[derive(Debug, Default)]
pub(super) struct BulkGroups {
    open: Vec<(u32, Transfer)>,
    groups: VecDeque<(u32, Vec<Transfer>, bool)>,
}

impl BulkGroups {
    pub fn clear(&mut self) {
        self.open.clear();
        self.groups.clear();
    }

    pub fn commit(&mut self, m: u32) {
        let (now, rest) = std::mem::take(&mut self.open).into_iter().partition(|t| t.0 & m != 0);
        self.open = rest;
        let now: Vec<(u32, Transfer)> = now;
        self.groups.push_back((m, now.into_iter().map(|t| t.1).collect(), false));
    }
}

impl Engine<'_> {
    pub(super) fn bulk_issue(&mut self, w: &mut Warp, pc: u32, x: &Bulk, m: u32) {
        if x.dir == BulkDir::Prefetch {
            return;
        }
        let dst = self.lane_addresses(
            w,
            &x.dst,
            if x.dir == BulkDir::SharedToGlobal { MSpace::Generic } else { MSpace::Shared },
        );
        let src = self.lane_addresses(
            w,
            &x.src,
            if x.dir == BulkDir::GlobalToShared { MSpace::Generic } else { MSpace::Shared },
        );
        let mbar = x.mbar.as_ref().map(|a| self.lane_addresses(w, a, MSpace::Shared));
        if matches!(x.dir, BulkDir::GlobalToShared | BulkDir::SharedToGlobal) {
            self.check_awaited(w, pc, m);
        }
        for lane in (0..32u32).filter(|i| m >> i & 1 != 0) {
            self.bulk_lane(w, pc, x, lane, &dst, &src, mbar.as_ref());
        }
        self.events += 1;
    }

    fn bulk_lane(
        &mut self,
        w: &mut Warp,
        pc: u32,
        x: &Bulk,
        lane: u32,
        dst: &Addrs,
        src: &Addrs,
        mbar: Option<&Addrs>,
    ) {
        let i = lane as usize;
        let value = |s: Slot| w.regs.r[s as usize].0[i];
        // The global side (or the remote shared one) and the shared side.
        let load = x.dir == BulkDir::GlobalToShared;
        let (global, shared) = if load { (src[i], dst[i]) } else { (dst[i], src[i]) };
        let rank = (shared >> 24 & 0xff) as usize;
        let off = (shared as u32 & 0xff_ffff).wrapping_sub(SHARED_BASE);
        let size = self.ctas.get(rank).map_or(0, |c| c.size);
        if off >= size {
            return self.find(FindingKind::SharedOutOfBounds, w, pc, lane, 2, || {
                format!("a bulk copy at byte {} of the {size} bytes of shared memory of CTA {rank} of the cluster", off as i32)
            });
        }
        let mut reduce = x.reduce;
        let (chunks, bytes) = if x.tensor {
            let Some(map) = self.tensor_map(w, pc, lane, global) else { return };
            let coords: Vec<i64> = x.coords.iter().map(|s| value(*s) as i32 as i64).collect();
            if coords.len() != map.dims.len() {
                let (n, d) = (coords.len(), map.dims.len());
                return self.find(FindingKind::BadAddress, w, pc, lane, 1, || {
                    format!("{n} coordinates for a tensor map of {d} dimensions")
                });
            }
            if !off.is_multiple_of(128) {
                self.find(FindingKind::Misaligned, w, pc, lane, 1, || {
                    "a tensor tile in shared memory must be aligned to 128 bytes".into()
                });
                return;
            }
            if let Some((_, ty)) = &mut reduce {
                *ty = tile::element_ty(&map);
            }
            if map.im2col.is_some() != x.im2col {
                let kind = |im2col| if im2col { "im2col" } else { "tiles" };
                return self.find(FindingKind::BadAddress, w, pc, lane, 7, || {
                    format!("a copy of {} with a tensor map of {}", kind(x.im2col), kind(!x.im2col))
                });
            }
            let store = x.dir == BulkDir::SharedToGlobal;
            if let Some(why) = tile::refusal(&map, &coords, store, reduce.is_some()) {
                return self.find(FindingKind::BadAddress, w, pc, lane, 8, || {
                    format!("{why}: the GPU stops the kernel with an illegal instruction")
                });
            }
            let offsets: Vec<i64> = x.offsets.iter().map(|s| (value(*s) & 0xffff) as i64).collect();
            (tile::chunks(&map, &coords, &offsets, off), map.tile_bytes())
        } else {
            let n = value(x.size);
            if !n.is_multiple_of(16) || !off.is_multiple_of(16) || !global.is_multiple_of(16) {
                self.find(FindingKind::Misaligned, w, pc, lane, 1, || {
                    "a bulk copy needs addresses and a size that are multiples of 16 bytes".into()
                });
                return;
            }
            let piece =
                |k: u32| Chunk { global: global + 16 * k as u64, shared: off + 16 * k, n: 16, fill: None };
            ((0..n / 16).map(piece).collect(), n)
        };
        let end = chunks.iter().map(|c| c.shared as u64 + c.n as u64).max().unwrap_or(0);
        if self.ctas.get(rank).is_none_or(|c| c.live_threads == 0 || end > c.size as u64) {
            let size = self.ctas.get(rank).map_or(0, |c| c.size);
            return self.find(FindingKind::SharedOutOfBounds, w, pc, lane, 2, || {
                format!("a bulk copy of {bytes} bytes at byte {off} of the {size} bytes of shared memory of CTA {rank} of the cluster")
            });
        }
        self.count_bulk(w, pc, lane, &chunks, !load && x.dir != BulkDir::SharedToShared, x.dir);
        let mut t =
            Transfer { dir: x.dir, chunks, from: rank, to: vec![], bytes, agent: 0, clock: 0, pc, reduce };
        (t.agent, t.clock) = self.next_transfer();
        // Destinations and their mbarriers.
        let place = match mbar {
            Some(a) => match self.mbar_place(w, pc, MSpace::Shared, a[i], lane) {
                Some(at) if self.mbar_for_copy(w, pc, lane, at) => Some(at),
                _ => return,
            },
            None => None,
        };
        match x.dir {
            BulkDir::GlobalToShared if x.multicast != SINK => {
                let mask = value(x.multicast) & 0xffff;
                for r in (0..16).filter(|r| mask >> r & 1 != 0) {
                    if r >= self.ctas.len() {
                        self.find(FindingKind::BadAddress, w, pc, lane, 3, || {
                            format!("the multicast mask names CTA {r}, which is not in the cluster")
                        });
                        continue;
                    }
                    t.to.push((r, place.map(|p| (r, p.1))));
                }
            }
            BulkDir::GlobalToShared => t.to.push((rank, place)),
            BulkDir::SharedToShared => {
                let to = (global >> 24 & 0xff) as usize;
                if self.ctas.get(to).is_none_or(|c| c.live_threads == 0) {
                    return self.find(FindingKind::SharedOutOfBounds, w, pc, lane, 4, || {
                        format!("CTA {to} is not in the cluster or has exited")
                    });
                }
                let at = (global as u32 & 0xff_ffff).wrapping_sub(SHARED_BASE);
                let size = self.ctas[to].size;
                if at as u64 + bytes as u64 > size as u64 {
                    return self.find(FindingKind::SharedOutOfBounds, w, pc, lane, 5, || {
                        format!("a bulk copy of {bytes} bytes to byte {} of the {size} bytes of shared memory of CTA {to} of the cluster", at as i32)
                    });
                }
                t.to.push((to, place));
            }
            _ => {}
        }
        self.check_transfer(w, pc, lane, &t);
        if self.env.async_mode == AsyncMode::Early {
            self.effect(&t);
        } else if x.dir != BulkDir::SharedToGlobal {
            self.poison(&t);
        }
        if x.dir == BulkDir::SharedToGlobal {
            w.bulk_groups.open.push((1 << lane, t));
        } else if self.env.async_mode == AsyncMode::Early {
            self.signal(&t);
        } else {
            self.bulk.pending.push_back(Pending::Bulk(t));
        }
    }

    fn tensor_map(&mut self, w: &Warp, pc: u32, lane: u32, addr: u64) -> Option<TensorMap> {
        let mut raw = [0u8; 128];
        let got = match classify(addr) {
            (MSpace::Param, off) => {
                let p = &self.env.params;
                let ok = off.checked_add(128).is_some_and(|e| e <= p.len() as u64);
                if ok {
                    raw.copy_from_slice(&p[off as usize..off as usize + 128]);
                }
                ok
            }
            (MSpace::Global, a) => {
                if !self.ctas[w.cta as usize].acquired.contains(&addr) {
                    self.find(FindingKind::MissingProxyFence, w, pc, lane, 9, || {
                        format!("uses the tensor map at {addr:#x} in global memory, which no thread of the CTA has acquired by fence.proxy.tensormap::generic.acquire")
                    });
                }
                self.env.mem.read(a, &mut raw).is_ok()
            }
            _ => false,
        };
        let map = if got { TensorMap::decode(&raw) } else { None };
        if map.is_none() {
            self.find(FindingKind::BadAddress, w, pc, lane, 5, || {
                format!("no tensor map at {addr:#x}: pass TensorMap::encode as a .b8 [128] parameter or copy it to global memory")
            });
        }
        map
    }

    fn poison(&mut self, t: &Transfer) {
        for (rank, _) in &t.to {
            for c in &t.chunks {
                let base = if t.dir == BulkDir::SharedToShared {
                    (c.global as u32 & 0xff_ffff) - SHARED_BASE
                } else {
                    c.shared
                };
                for k in 0..c.n as u32 {
                    super::shared::put_bytes(&mut self.ctas[*rank].shared, base + k, 1, 0xff);
                }
            }
        }
    }

    /// Moves the data.
    fn effect(&mut self, t: &Transfer) {
        let mem = self.env.mem;
        for c in &t.chunks {
            let n = c.n as u32;
            let alloc = if t.dir == BulkDir::SharedToShared {
                None
            } else {
                mem.find(c.global).map(|i| &mem.allocs[i])
            };
            let byte_in = |data: &[u32], at: u32| data[(at / 4) as usize] >> (8 * (at % 4)) & 0xff;
            match t.dir {
                BulkDir::GlobalToShared => {
                    let mut raw = [0; 16];
                    for pair in raw.chunks_exact_mut(2) {
                        pair.copy_from_slice(&c.fill.unwrap_or(0).to_le_bytes());
                    }
                    if let (None, Some(a)) = (c.fill, alloc) {
                        for k in 0..n {
                            raw[k as usize] = a.load(c.global - a.base + k as u64, 1) as u8;
                        }
                    }
                    for (rank, _) in &t.to {
                        let data = &mut self.ctas[*rank].shared;
                        for k in 0..n {
                            super::shared::put_bytes(data, c.shared + k, 1, raw[k as usize] as u32);
                        }
                    }
                }
                BulkDir::SharedToShared => {
                    let base = (c.global as u32 & 0xff_ffff) - SHARED_BASE;
                    for k in 0..n {
                        let v = byte_in(&self.ctas[t.from].shared, c.shared + k);
                        for (rank, _) in &t.to {
                            super::shared::put_bytes(&mut self.ctas[*rank].shared, base + k, 1, v);
                        }
                    }
                }
                BulkDir::SharedToGlobal => {
                    let (None, Some(a)) = (c.fill, alloc) else { continue };
                    let data = &self.ctas[t.from].shared;
                    let step = t.reduce.map_or(1, |r| r.1.bytes());
                    for k in (0..n).step_by(step as usize) {
                        let at = c.global - a.base + k as u64;
                        let Some((op, ty)) = t.reduce else {
                            a.store(at, 1, byte_in(data, c.shared + k));
                            continue;
                        };
                        let half = step.min(4);
                        let get = |b: u32| {
                            (0..half).fold(0, |v, j| v | byte_in(data, c.shared + k + b + j) << (8 * j))
                        };
                        let mut new = get(0) as u64;
                        let mut old = a.load(at, half) as u64;
                        if step == 8 {
                            new |= (get(4) as u64) << 32;
                            old |= (a.load(at + 4, 4) as u64) << 32;
                        }
                        let v = apply(op, ty, old, new, 0);
                        a.store(at, half, v as u32);
                        if step == 8 {
                            a.store(at + 4, 4, (v >> 32) as u32);
                        }
                    }
                }
                BulkDir::Prefetch => {}
            }
        }
    }

    /// Tells the mbarriers that the bytes are there.
    fn signal(&mut self, t: &Transfer) {
        for (_, mbar) in &t.to {
            if let Some(at) = mbar {
                self.mbar_complete(*at, t.bytes, t.agent, t.clock);
                if self.tracing && at.0 == 0 {
                    let kind = EventKind::Landed { mbarrier: at.1, bytes: t.bytes };
                    self.trace_event(None, t.pc, kind);
                }
            }
        }
    }

    /// Late mode: lets one outstanding copy take effect; `false` if there is none.
    pub(super) fn complete_one_bulk(&mut self) -> bool {
        if self.bulk.pending.is_empty() {
            return false;
        }
        let n = self.bulk.pending.len();
        // Copies complete in any order.
        let pick = if self.env.seed == 0 { 0 } else { self.random() as usize % n };
        if let Some(p) = self.bulk.pending.remove(pick) {
            self.finish_pending(&p);
        }
        true
    }

    fn finish_pending(&mut self, p: &Pending) {
        match p {
            Pending::Bulk(t) => {
                self.effect(t);
                self.signal(t);
            }
            Pending::Copies(b) => self.finish_batch(b),
        }
    }

    pub(super) fn push_batch(&mut self, b: Batch) {
        self.bulk.pending.push_back(Pending::Copies(b));
    }

    /// The warp waits for all its copies: those that arrive on an mbarrier are done, too.
    pub(super) fn finish_batches(&mut self, w: &Warp) {
        let agent = w.agent(self.wpc);
        let (now, later) = std::mem::take(&mut self.bulk.pending)
            .into_iter()
            .partition(|p| matches!(p, Pending::Copies(b) if b.issuer == agent));
        self.bulk.pending = later;
        let now: VecDeque<Pending> = now;
        for p in &now {
            self.finish_pending(p);
            if let Pending::Copies(b) = p {
                self.clocks.see(agent, b.agent, b.clock);
            }
        }
    }

    /// The asynchronous agent of the next copy, and its clock.
    pub(super) fn next_transfer(&mut self) -> (usize, u32) {
        let serial = self.bulk.issued;
        self.bulk.issued += 1;
        (2 * self.warps.len() + serial as usize % POOL, serial / POOL as u32 + 1)
    }

    /// The agent that stands for the writes to global memory of the copy of `agent`.
    fn writer(&self, agent: usize) -> usize {
        agent + self.warps.len() + POOL
    }

    pub(super) fn bulk_wait(&mut self, w: &mut Warp, keep: u32, read: bool, m: u32) {
        let agent = w.agent(self.wpc);
        let mut newer = 0;
        let mut groups = std::mem::take(&mut w.bulk_groups.groups);
        let mut done = vec![];
        for g in groups.iter_mut().rev() {
            if g.0 & m == 0 {
                continue;
            }
            newer += 1;
            if newer > keep {
                done.push(g);
            }
        }
        let late = self.env.async_mode == AsyncMode::Late;
        for g in done.into_iter().rev() {
            for t in &g.1 {
                if !g.2 && late {
                    self.effect(t);
                }
                let writer = self.writer(t.agent);
                for a in std::iter::once(t.agent).chain((!read).then_some(writer)) {
                    self.clocks.see(agent, a, t.clock);
                }
            }
            // The effect is done once; a later wait for the writes only drops the group.
            g.2 = true;
            if !read {
                g.0 &= !m;
            }
        }
        groups.retain(|g| g.0 != 0);
        // Groups whose writes nobody waits for: their agents have been reused by now.
        while groups.len() > POOL && groups.front().is_some_and(|g| g.2) {
            groups.pop_front();
        }
        w.bulk_groups.groups = groups;
        self.events += 1;
    }

    /// Lanes that exit while copies still read the CTA's shared memory.
    pub(super) fn bulk_exit(&mut self, w: &Warp, pc: u32, m: u32) {
        let open = w.bulk_groups.open.iter().find(|o| o.0 & m != 0).map(|o| o.1.pc);
        let group = w.bulk_groups.groups.iter().find(|g| g.0 & m != 0 && !g.2).and_then(|g| g.1.first());
        if let Some(at) = open.or(group.map(|t| t.pc)) {
            let line = self.k.sites[at as usize].line;
            self.find(FindingKind::AsyncRace, w, pc, m.trailing_zeros(), 1, || {
                format!("the thread exits while its bulk copy at line {line} may still read shared memory: cp.async.bulk.wait_group.read 0 comes first")
            });
        }
    }

    /// At the end: stores that nobody waited for still reach memory.
    pub(super) fn flush_bulk(&mut self, w: &mut Warp) {
        let late = self.env.async_mode == AsyncMode::Late;
        let open = std::mem::take(&mut w.bulk_groups.open);
        let groups = std::mem::take(&mut w.bulk_groups.groups);
        let rest = groups.into_iter().filter(|g| !g.2).flat_map(|g| g.1).chain(open.into_iter().map(|o| o.1));
        for t in rest {
            if late {
                self.effect(&t);
            }
        }
    }
}
