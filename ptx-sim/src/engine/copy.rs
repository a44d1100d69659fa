//! `cp.async` and its groups (PTX ISA §9.7.9.25.3).
//!
//! *Early* copies when the instruction issues, *late* when its wait returns; until then the late destination
//! holds NaN bytes, so that a missing wait gives visibly wrong data. In both modes the destination is marked as
//! being written by an asynchronous agent that nobody is ordered with until the wait; two copies to the same bytes stay
//! apart, so that waiting for one leaves the other.

use super::global::Lanes;
use super::mem::{addresses, aligned};
use super::shared::Span;
use super::{Engine, Warp};
use crate::findings::FindingKind;
use crate::launch::AsyncMode;
use crate::op::*;
use crate::race::{Act, FOREIGN, Strength, Who};
use std::collections::VecDeque;

#[derive(Debug, Clone)]
struct Copy {
    mask: u32,
    dst: [u32; 32],
    src: [u64; 32],
    /// Bytes read from the source; the rest of `bytes` is zero.
    read: [u8; 32],
    bytes: u32,
    pc: u32,
    /// Number among the copies of the warp: the clock of its writes.
    serial: u32,
}

impl Copy {
    /// Offset and length of what each lane writes.
    fn spans(&self) -> impl Iterator<Item = (u32, (u32, u32))> {
        (0..32).filter(|i| self.mask >> i & 1 != 0).map(|i| (i, (self.dst[i as usize], self.bytes)))
    }
}

/// Outstanding copies of one warp.
#[derive(Debug, Default)]
pub(super) struct Copies {
    open: Vec<Copy>,
    groups: VecDeque<(u32, Vec<Copy>)>,
    issued: u32,
}

impl Copies {
    pub fn clear(&mut self) {
        self.issued = 0;
        self.open.clear();
        self.groups.clear();
    }

    /// Puts the uncommitted copies of the lanes `m` into a new group.
    pub fn commit(&mut self, m: u32) {
        let mut list = vec![];
        self.open.retain_mut(|c| {
            let lanes = c.mask & m;
            if lanes != 0 {
                list.push(Copy { mask: lanes, ..c.clone() });
                c.mask &= !lanes;
            }
            c.mask != 0
        });
        self.groups.push_back((m, list));
    }

    /// Removes what the lanes `m` must wait for when they leave `keep` groups pending.
    fn take(&mut self, m: u32, keep: u32) -> Vec<Copy> {
        let mut done = vec![];
        let mut newer = 0;
        for (lanes, list) in self.groups.iter_mut().rev() {
            if *lanes & m == 0 {
                continue;
            }
            if newer < keep {
                newer += 1;
                continue;
            }
            *lanes &= !m;
            let mut now = vec![];
            list.retain_mut(|c| {
                let l = c.mask & m;
                if l != 0 {
                    now.push(Copy { mask: l, ..c.clone() });
                    c.mask &= !l;
                }
                c.mask != 0
            });
            // Older groups take effect first.
            now.append(&mut done);
            done = now;
        }
        self.groups.retain(|g| g.0 != 0);
        done
    }

    fn take_all(&mut self, m: u32) -> Vec<Copy> {
        let mut done = self.take(m, 0);
        self.open.retain_mut(|c| {
            let l = c.mask & m;
            if l != 0 {
                done.push(Copy { mask: l, ..c.clone() });
                c.mask &= !l;
            }
            c.mask != 0
        });
        done
    }
}

/// Copies of some lanes, with the mbarriers that learn of their end.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    copies: Vec<Copy>,
    /// Mask of one lane, and its mbarrier.
    arrivals: Vec<(u32, (usize, u32))>,
    cta: usize,
    /// The warp that issued them, and the asynchronous agent that stands for them.
    pub issuer: usize,
    pub agent: usize,
    pub clock: u32,
    pc: u32,
}

impl Engine<'_> {
    pub(super) fn copy_issue(&mut self, w: &mut Warp, pc: u32, c: &CpAsync, m: u32) {
        self.target = w.cta as usize;
        let dst = addresses(&w.regs, &self.env.globals, &c.dst).map(|a| a & 0xffff_ffff);
        let src = addresses(&w.regs, &self.env.globals, &c.src);
        let ignore = if c.has_ignore { c.ignore.lanes(&w.regs.p) } else { 0 };
        let mut read = [0u8; 32];
        let mut reads = 0;
        for i in 0..32 {
            let n = match c.src_size {
                SINK => c.bytes,
                s => w.regs.r[s as usize].0[i].min(c.bytes),
            };
            read[i] = if ignore >> i & 1 != 0 { 0 } else { n as u8 };
            reads |= ((read[i] != 0) as u32) << i;
        }
        let ok = aligned(&dst, m, c.bytes) & (aligned(&src, m & reads, c.bytes) | !reads);
        if ok != m {
            let lane = (m & !ok).trailing_zeros();
            self.find(FindingKind::Misaligned, w, pc, lane, 0, || {
                format!("cp.async of {} bytes needs addresses that are multiples of {0}", c.bytes)
            });
        }
        let (off, ok) = self.shared_offsets(w, pc, c.bytes, &dst, ok);
        let groups = self.global_groups(w, pc, c.bytes, &src, ok & reads, false);
        let found = groups.iter().fold(0, |s, g| s | g.1);
        for (i, r) in read.iter_mut().enumerate() {
            if found >> i & 1 == 0 {
                *r = 0;
            }
        }
        if ok == 0 {
            return;
        }
        self.count_shared(w, pc, &off, ok, c.bytes, false);
        let bytes = c.bytes;
        let strength = Strength::WEAK;
        let l = Lanes { groups: &groups, addr: &src, bytes, strength, write: false, values: &[] };
        self.check_global(w, pc, &l);
        w.copies.issued += 1;
        let copy = Copy { mask: ok, dst: off, src, read, bytes: c.bytes, pc, serial: w.copies.issued };
        if self.checks() {
            let span = Span { off: &off, ok, bytes, used: !0 };
            self.check_shared(w, pc, &span, strength, Act::Write, Some((&[], 1)));
            let mut who = self.pending(w.agent(self.wpc), &copy);
            let shadow = &mut self.ctas[self.target].shadow;
            for (lane, (at, n)) in copy.spans() {
                who.lane = lane;
                shadow.hand_over(at, n, &who);
            }
        }
        if self.env.async_mode == AsyncMode::Early {
            self.copy_data(&copy);
        } else {
            let shared = &mut self.ctas[self.target].shared;
            for i in (0..32).filter(|i| ok >> i & 1 != 0) {
                let at = (off[i] / 4) as usize;
                shared[at..at + (c.bytes / 4) as usize].fill(!0);
            }
        }
        w.copies.open.push(copy);
    }

    /// The asynchronous unit that writes for a copy of the warp `agent`.
    fn pending(&self, agent: usize, c: &Copy) -> Who {
        Who {
            agent: (self.warps.len() + agent) as u32,
            lane: 0,
            clock: c.serial | FOREIGN,
            floor: 0,
            settled: 0,
            bit: 0,
            pc: c.pc,
            strength: Strength::WEAK,
            partial: false,
        }
    }

    /// The destination of a copy counts as written by `who` from here on.
    fn settle_copy(&mut self, cta: usize, issuer: usize, c: &Copy, mut who: Who) {
        let pending = self.pending(issuer, c);
        let shadow = &mut self.ctas[cta].shadow;
        for (lane, (at, n)) in c.spans() {
            who.lane = lane;
            shadow.settle(at, n, (pending.agent, pending.clock), &who);
        }
    }

    fn copy_data(&mut self, c: &Copy) {
        let mem = self.env.mem;
        let shared = &mut self.ctas[self.target].shared;
        for i in (0..32).filter(|i| c.mask >> i & 1 != 0) {
            let alloc = mem.find(c.src[i]).map(|a| &mem.allocs[a]);
            for k in 0..c.bytes / 4 {
                let have = (c.read[i] as u32).saturating_sub(4 * k).min(4);
                let v = match (have, alloc) {
                    (0, _) | (_, None) => 0,
                    (n, Some(a)) => {
                        let v = a.load(c.src[i] - a.base + 4 * k as u64, 4);
                        if n == 4 { v } else { v & ((1 << (8 * n)) - 1) }
                    }
                };
                shared[(c.dst[i] / 4 + k) as usize] = v;
            }
        }
    }

    /// `keep` groups may stay pending; `u32::MAX` waits for everything, committed or not.
    pub(super) fn copy_wait(&mut self, w: &mut Warp, keep: u32, m: u32) {
        let done = if keep == u32::MAX { w.copies.take_all(m) } else { w.copies.take(m, keep) };
        if keep == u32::MAX || keep == 0 {
            self.finish_batches(w);
        }
        self.target = w.cta as usize;
        let agent = w.agent(self.wpc);
        for c in done {
            if self.env.async_mode == AsyncMode::Late {
                self.copy_data(&c);
            }
            if self.checks() {
                // From here on the bytes count as written by the waiting thread.
                self.settle_copy(self.target, agent, &c, self.who(w, c.pc, Strength::WEAK));
            }
        }
    }
}

impl Engine<'_> {
    /// `cp.async.mbarrier.arrive`: the mbarriers learn when the copies so far are done; the thread itself does not.
    pub(super) fn copy_arrive(&mut self, w: &mut Warp, pc: u32, m: u32, arrivals: Vec<(u32, (usize, u32))>) {
        let (agent, clock) = self.next_transfer();
        let copies = w.copies.take_all(m);
        let (cta, issuer) = (w.cta as usize, w.agent(self.wpc));
        let batch = Batch { copies, arrivals, cta, issuer, agent, clock, pc };
        self.events += 1;
        if self.checks() {
            // The bytes are the asynchronous agent's until it is seen through an mbarrier.
            for c in &batch.copies {
                let who = Who { agent: agent as u32, clock: clock | FOREIGN, pc, ..self.pending(issuer, c) };
                self.settle_copy(cta, issuer, c, who);
            }
        }
        if self.env.async_mode == AsyncMode::Early {
            self.finish_batch(&batch);
        } else {
            self.push_batch(batch);
        }
    }

    pub(super) fn finish_batch(&mut self, b: &Batch) {
        self.target = b.cta;
        if self.env.async_mode == AsyncMode::Late {
            for c in &b.copies {
                self.copy_data(c);
            }
        }
        let mut before: Vec<((usize, u32), u64)> = vec![];
        for (lane, at) in &b.arrivals {
            let phase = self.mbar_copies_done(*at, b.agent, b.clock);
            match before.iter().find(|p| p.0 == *at) {
                None => before.push((*at, phase)),
                Some((_, first)) if *first != phase => {
                    self.report_split_arrival(b.issuer, b.pc, lane.trailing_zeros(), *at);
                }
                Some(_) => {}
            }
        }
    }
}
