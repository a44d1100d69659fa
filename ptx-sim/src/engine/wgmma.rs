//! `wgmma` (PTX ISA §9.7.15).
//!
//! Each warp of a warpgroup computes its 16 rows on its own. *Late*: when a wait of one of the four returns; until its
//! own wait a warp's accumulators hold NaN. The operands in shared memory are read by an asynchronous agent of each warp,
//! and a warp that waits for a group is ordered with all four.

use super::bulk::POOL;
use super::{Engine, Flow, Warp};
use crate::findings::FindingKind;
use crate::kernel::SHARED_BASE;
use crate::launch::AsyncMode;
use crate::op::*;
use crate::race::{ANY_LANE, FOREIGN, Run, Strength, Who};
use crate::tensor_core::{Block, COLS, MAX_K, MAX_ROWS};
use crate::types::Ty;
use std::collections::HashMap;

/// Outstanding `wgmma`s of one warp: (pc, descriptors, scale-d, A fragments), by group.
#[derive(Debug, Default)]
pub(super) struct WgState {
    open: Vec<Pending>,
    groups: Vec<Group>,
    /// Groups committed so far, and those of them that the warp has waited for.
    committed: u32,
    waited: u32,
    /// The warp executed a `wgmma.fence`.
    fenced: bool,
    /// Registers of `wgmma`s that other instructions named since the last fence, and where.
    touched: HashMap<Slot, u32>,
    /// Registers of `wgmma`s in flight, and their pc.
    flying: HashMap<Slot, u32>,
}

/// A committed group.
#[derive(Debug)]
struct Group {
    ops: Vec<Pending>,
    /// Late mode: it has taken effect, because another warp of the warpgroup waited for it.
    done: bool,
}

#[derive(Debug)]
struct Pending {
    pc: u32,
    a_desc: u64,
    b_desc: u64,
    scale_d: bool,
    a_regs: Vec<[u32; 32]>,
}

impl WgState {
    pub fn clear(&mut self) {
        *self = WgState::default();
    }

    /// Whether any `wgmma` is in flight.
    fn busy(&self) -> bool {
        !self.open.is_empty() || !self.groups.is_empty()
    }
}

/// Byte offset of element (r, k) of an operand with 16-byte core-matrix rows, before the start address and swizzle.
fn offset(desc: u64, mn_major: bool, es: u32, r: u32, k: u32) -> u32 {
    let lbo = (desc >> 16 & 0x3fff) as u32 * 16;
    let sbo = (desc >> 32 & 0x3fff) as u32 * 16;
    let w = [1, 8, 4, 2][(desc >> 62) as usize];
    let n = 16 / es;
    let none = desc >> 62 == 0;
    if !mn_major {
        let base = (r % 8) * 16 * w + (r / 8) * sbo + (k % n) * es;
        base + if none { (k / n) * lbo } else { (k / n) * 16 }
    } else if none {
        (r % 8) * 2 + (r / 8) * sbo + (k % 8) * 16 + (k / 8) * lbo
    } else {
        (r % 8) * 2 + (r / 8 % w) * 16 + (r / (8 * w)) * lbo + (k % 8) * 16 * w + (k / 8) * sbo
    }
}

/// The 16-byte index is XORed with the number of the 128-byte line, counted from the base offset (bits 49 to 51).
fn swizzled(desc: u64, off: u32) -> u32 {
    let bits = [0, 3, 2, 1][(desc >> 62) as usize];
    let a = ((desc & 0x3fff) as u32 * 16).wrapping_add(off);
    let line = (a >> 7).wrapping_sub((desc >> 49 & 7) as u32);
    a ^ (line & ((1 << bits) - 1)) << 4
}

fn element_bytes(ty: Ty) -> u32 {
    if ty == Ty::TF32 { 4 } else { ty.bits() / 8 }
}

/// Calls `f(row, k, byte address)` for every 16 bytes of an operand: consecutive k of a row or, if it is MN-major,
/// consecutive rows of one k. The swizzle leaves them together.
fn units(
    desc: u64,
    mn_major: bool,
    es: u32,
    rows: std::ops::Range<u32>,
    k: u32,
    mut f: impl FnMut(u32, u32, u32),
) {
    let (step_r, step_k) = if mn_major { (16 / es, 1) } else { (1, 16 / es) };
    for r in rows.step_by(step_r as usize) {
        for k in (0..k).step_by(step_k as usize) {
            f(r, k, swizzled(desc, offset(desc, mn_major, es, r, k)));
        }
    }
}

impl Engine<'_> {
    pub(super) fn wgmma(&mut self, w: &mut Warp, pc: u32, x: &Wgmma, m: u32) {
        let lane = m.trailing_zeros() as usize;
        let wide =
            |s: Slot| w.regs.r[s as usize].0[lane] as u64 | (w.regs.r[s as usize + 1].0[lane] as u64) << 32;
        let p = Pending {
            pc,
            a_desc: if x.a.len() == 1 { wide(x.a[0]) } else { 0 },
            b_desc: wide(x.b),
            scale_d: x.scale_d.lanes(&w.regs.p) >> lane & 1 != 0,
            a_regs: if x.a.len() == 1 {
                vec![]
            } else {
                x.a.iter().map(|s| w.regs.r[*s as usize].0).collect()
            },
        };
        self.wgmma_registers(w, pc, x, lane as u32);
        self.wgmma_check(w, pc, x, &p);
        w.wg.open.push(p);
    }

    /// Whether `wgmma.fence` orders the registers of this `wgmma` (PTX ISA §9.7.15.7.1).
    fn wgmma_registers(&mut self, w: &mut Warp, pc: u32, x: &Wgmma, lane: u32) {
        let a: &[Slot] = if x.a.len() > 1 { &x.a } else { &[] };
        if !w.wg.fenced {
            return self.find(FindingKind::WgmmaFence, w, pc, lane, 0, || {
                "no wgmma.fence orders this wgmma after the instructions that wrote its registers".into()
            });
        }
        let line = |e: &Self, pc: u32| e.k.sites[pc as usize].line;
        if let Some(at) = x.d.iter().chain(a).find_map(|s| w.wg.touched.get(s)) {
            let at = line(self, *at);
            self.find(FindingKind::WgmmaFence, w, pc, lane, 2, || {
                format!("no wgmma.fence orders this wgmma after line {at}, which accesses its registers")
            });
        }
        // The same accumulators may be used again without a fence by a wgmma of the same shape.
        let other_shape = |o: &u32| match &self.k.insts[*o as usize].op {
            Op::Wgmma(y) => (y.n, y.k, y.d_ty) != (x.n, x.k, x.d_ty) || y.d != x.d,
            _ => false,
        };
        let clash = x.d.iter().filter_map(|s| w.wg.flying.get(s)).find(|o| other_shape(o));
        let in_a =
            |o: &u32, s: &Slot| matches!(&self.k.insts[*o as usize].op, Op::Wgmma(y) if y.d.contains(s));
        let clash = clash.or(a.iter().find_map(|s| w.wg.flying.get(s).filter(|o| in_a(o, s))));
        if let Some(at) = clash {
            let at = line(self, *at);
            self.find(FindingKind::WgmmaFence, w, pc, lane, 3, || {
                format!("uses registers of the wgmma of another shape or role at line {at}, which is in flight: wait for it first")
            });
        }
        w.wg.flying.extend(x.d.iter().chain(a).map(|s| (*s, pc)));
    }

    /// An instruction other than `wgmma` names registers that some `wgmma` uses.
    pub(super) fn wgmma_touch(&mut self, w: &mut Warp, pc: u32, mask: u32) {
        let k = self.k;
        if mask & k.insts[pc as usize].guard.lanes(&w.regs.p) == 0 {
            return;
        }
        let Some(slots) = k.wg_touch.get(&pc) else { return };
        w.wg.touched.extend(slots.iter().map(|s| (*s, pc)));
        if let Some(at) = slots.iter().find_map(|s| w.wg.flying.get(s)) {
            let at = k.sites[*at as usize].line;
            self.find(FindingKind::WgmmaFence, w, pc, mask.trailing_zeros(), 4, || {
                format!("accesses a register of the wgmma at line {at}, which is in flight: wgmma.commit_group and wgmma.wait_group come first")
            });
        }
    }

    /// Races of the warp's share of the operands with what threads and copies wrote.
    fn wgmma_check(&mut self, w: &Warp, pc: u32, x: &Wgmma, p: &Pending) {
        if !self.checks() {
            return;
        }
        let issuer = w.agent(self.wpc);
        let proxied = self.proxied(issuer, !0);
        let who = Who {
            agent: (2 * self.warps.len() + POOL + issuer) as u32,
            lane: ANY_LANE,
            clock: (w.wg.committed + 1) | FOREIGN,
            floor: 0,
            settled: 0,
            bit: 0,
            pc,
            strength: Strength::WEAK,
            partial: false,
        };
        let seen = proxied.seen();
        let cta = &mut self.ctas[w.cta as usize];
        let (mut first, mut outside, mut run) = (None, None, Run::default());
        let mut unit = |_, _, at: u32| {
            let at = at.wrapping_sub(SHARED_BASE);
            if at >= cta.size.saturating_sub(15) {
                outside = Some(at / 4);
                return;
            }
            let issue = cta.shadow.bulk((at, 16), false, &who, seen, &mut run);
            first = first.or(issue);
        };
        let es = element_bytes(x.ty);
        let row0 = (w.index % 4) * 16;
        if x.a.len() == 1 {
            units(p.a_desc, x.trans_a, es, row0..row0 + 16, x.k, &mut unit);
        }
        units(p.b_desc, x.trans_b, es, 0..x.n, x.k, &mut unit);
        if let Some(at) = outside {
            let size = self.ctas[w.cta as usize].size;
            self.find(FindingKind::SharedOutOfBounds, w, pc, 0, 8, || {
                format!("a matrix descriptor reaches word {at} of the CTA's {size} bytes of shared memory")
            });
        }
        if let Some((issue, at)) = first {
            self.report_async(w, pc, 0, at, issue);
        }
    }

    pub(super) fn wgmma_commit(&mut self, w: &mut Warp) {
        let open = std::mem::take(&mut w.wg.open);
        if self.env.async_mode == AsyncMode::Early {
            for p in &open {
                self.wgmma_effect(w, p);
            }
        } else {
            self.wgmma_poison(w, &open);
        }
        w.wg.groups.push(Group { ops: open, done: false });
        w.wg.committed += 1;
    }

    /// The accumulators of what is in flight hold NaN.
    fn wgmma_poison(&mut self, w: &mut Warp, list: &[Pending]) {
        for p in list {
            if let Op::Wgmma(x) = &self.k.insts[p.pc as usize].op {
                // The values themselves stay aside until the effect.
                for s in &x.d {
                    if !w.wg_saved.iter().any(|v| v.0 == *s) {
                        w.wg_saved.push((*s, w.regs.r[*s as usize].0));
                    }
                    w.regs.r[*s as usize].0 = [!0; 32];
                }
            }
        }
    }

    /// A group is complete when all four warps have issued it: it is one operation of the warpgroup.
    pub(super) fn wgmma_wait(&mut self, w: &mut Warp, keep: u32) -> Flow {
        let target = w.wg.committed.saturating_sub(keep);
        if target <= w.wg.waited {
            return Flow::Next;
        }
        let first = w.cta as usize * self.wpc;
        let group = (w.index & !3) as usize;
        let others = (group..(group + 4).min(self.wpc)).filter(|i| *i != w.index as usize);
        let others: Vec<usize> = others.map(|i| first + i).collect();
        for o in &others {
            let o = &self.warps[*o];
            if !o.splits.is_empty() && o.wg.committed < target {
                (w.failed, w.poll) = (true, None);
                return Flow::Again;
            }
        }
        self.wgmma_finish(w, target);
        let agent = w.agent(self.wpc);
        let slots = 2 * self.warps.len() + POOL;
        for o in others {
            let mut other = std::mem::take(&mut self.warps[o]);
            self.wgmma_finish(&mut other, target);
            self.clocks.see(agent, slots + o, target.min(other.wg.committed));
            self.warps[o] = other;
        }
        self.clocks.see(agent, slots + agent, target);
        let wg = &mut w.wg;
        wg.groups.drain(..(target - wg.waited) as usize);
        wg.waited = target;
        if self.env.async_mode == AsyncMode::Late {
            // Only what is still in flight stays aside.
            self.wgmma_restore(w);
            self.wgmma_set_aside(w);
        }
        let wg = &mut w.wg;
        wg.flying.clear();
        for p in wg.groups.iter().flat_map(|g| &g.ops).chain(&wg.open) {
            if let Op::Wgmma(x) = &self.k.insts[p.pc as usize].op {
                let a: &[Slot] = if x.a.len() > 1 { &x.a } else { &[] };
                wg.flying.extend(x.d.iter().chain(a).map(|s| (*s, p.pc)));
            }
        }
        self.events += 1;
        Flow::Next
    }

    /// Late mode: the effect of the groups before `target`. Their accumulators stay poisoned until the warp waits.
    fn wgmma_finish(&mut self, w: &mut Warp, target: u32) {
        let n = (target.saturating_sub(w.wg.waited) as usize).min(w.wg.groups.len());
        if self.env.async_mode == AsyncMode::Early || w.wg.groups.iter().take(n).all(|g| g.done) {
            return;
        }
        self.wgmma_restore(w);
        let mut groups = std::mem::take(&mut w.wg.groups);
        for g in groups.iter_mut().take(n).filter(|g| !g.done) {
            for p in &g.ops {
                self.wgmma_effect(w, p);
            }
            g.done = true;
        }
        w.wg.groups = groups;
        self.wgmma_set_aside(w);
    }

    fn wgmma_restore(&mut self, w: &mut Warp) {
        for (s, v) in std::mem::take(&mut w.wg_saved) {
            w.regs.r[s as usize].0 = v;
        }
    }

    fn wgmma_set_aside(&mut self, w: &mut Warp) {
        let groups = std::mem::take(&mut w.wg.groups);
        for g in &groups {
            self.wgmma_poison(w, &g.ops);
        }
        w.wg.groups = groups;
    }

    pub(super) fn wgmma_fence(&mut self, w: &mut Warp) {
        w.wg.fenced = true;
        w.wg.touched.clear();
    }

    fn wgmma_effect(&mut self, w: &mut Warp, p: &Pending) {
        let k = self.k;
        let Op::Wgmma(x) = &k.insts[p.pc as usize].op else { return };
        let es = element_bytes(x.ty);
        let bits = 8 * es;
        let kk = x.k as usize;
        let cta = &self.ctas[w.cta as usize];
        // The elements of 16 bytes: row and k of the first, and where they stand.
        let load =
            |desc: u64, major: bool, rows: std::ops::Range<u32>, put: &mut dyn FnMut(u32, u32, u32)| {
                units(desc, major, es, rows, x.k, |r, k, at| {
                    let word = (at.wrapping_sub(SHARED_BASE) / 4) as usize;
                    for i in 0..16 / es {
                        let at = word.wrapping_add((i * es / 4) as usize);
                        let v = cta.shared.get(at).copied().unwrap_or(0) >> (8 * (i * es % 4));
                        let v = if bits == 32 { v } else { v & ((1 << bits) - 1) };
                        let (dr, dk) = if major { (i, 0) } else { (0, i) };
                        put(r + dr, k + dk, v);
                    }
                });
            };
        let row0 = (w.index % 4) * 16;
        let mut ai = [0u32; MAX_ROWS * MAX_K];
        if p.a_regs.is_empty() {
            load(p.a_desc, x.trans_a, row0..row0 + 16, &mut |r, k, v| {
                ai[(r - row0) as usize * kk + k as usize] = v;
            });
        } else {
            let epr = (32 / bits) as usize;
            for (i, reg) in p.a_regs.iter().enumerate() {
                for lane in 0..32 {
                    for j in 0..epr {
                        let v = reg[lane] >> (bits as usize * j % 32);
                        let v = if bits == 32 { v } else { v & ((1 << bits) - 1) };
                        ai[(lane / 4 + 8 * (i & 1)) * kk + (lane % 4) * epr + 4 * epr * (i >> 1) + j] = v;
                    }
                }
            }
        }
        let ai = &ai[..16 * kk];
        let half = x.d_ty == Ty::F16;
        for block in 0..(x.n / 8) as usize {
            let mut bi = [[0u32; COLS]; MAX_K];
            let first = 8 * block as u32;
            load(p.b_desc, x.trans_b, first..first + 8, &mut |r, k, v| {
                bi[k as usize][(r - first) as usize] = v
            });
            let bi = &bi[..kk];
            // Register and lane of (row, column) within the block.
            let place = |row: usize, col: usize| (2 * (row / 8) + col % 2, 4 * (row % 8) + col / 2);
            let mut c = [[0u32; COLS]; 16];
            if p.scale_d {
                for (row, c) in c.iter_mut().enumerate() {
                    for (col, c) in c.iter_mut().enumerate() {
                        let (i, lane) = place(row, col);
                        *c = if half {
                            w.regs.r[x.d[2 * block + i / 2] as usize].0[lane] >> (16 * (i % 2)) & 0xffff
                        } else {
                            w.regs.r[x.d[4 * block + i] as usize].0[lane]
                        };
                    }
                }
            }
            if x.ty.is_float() {
                let (a_ty, b_ty, neg_a, neg_b) = (x.ty, x.b_ty, x.neg_a, x.neg_b);
                let (pairs, coarse) = (false, es == 1);
                let block = Block { k: kk, a: ai, b: bi, a_ty, b_ty, neg_a, neg_b, pairs, coarse, half };
                (self.env.simd.block)(&block, &mut c);
            } else {
                let ext = |v: u32, s: bool| if s { v as u8 as i8 as i64 } else { v as u8 as i64 };
                for (row, c) in c.iter_mut().enumerate() {
                    for (j, c) in c.iter_mut().enumerate() {
                        let sum = (0..kk)
                            .map(|i| {
                                ext(ai[row * kk + i], x.ty.is_signed()) * ext(bi[i][j], x.b_ty.is_signed())
                            })
                            .sum::<i64>()
                            + *c as i32 as i64;
                        *c = if x.sat {
                            sum.clamp(i32::MIN as i64, i32::MAX as i64) as u32
                        } else {
                            sum as u32
                        };
                    }
                }
            }
            for (row, c) in c.iter().enumerate() {
                for (col, v) in c.iter().enumerate() {
                    let (i, lane) = place(row, col);
                    if half {
                        let word = &mut w.regs.r[x.d[2 * block + i / 2] as usize].0[lane];
                        let sh = 16 * (i % 2);
                        *word = (*word & !(0xffff << sh)) | v << sh;
                    } else {
                        w.regs.r[x.d[4 * block + i] as usize].0[lane] = *v;
                    }
                }
            }
        }
    }

    /// Exits with work in flight.
    pub(super) fn wgmma_exit(&mut self, w: &Warp, pc: u32) {
        if w.wg.busy() {
            self.find(FindingKind::WgmmaFence, w, pc, 0, 1, || {
                "the warp exits while wgmma is in flight: wait for it first".into()
            });
        }
    }
}
