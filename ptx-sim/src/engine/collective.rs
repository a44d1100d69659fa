//! Warp-wide instructions: shuffles, votes, matches, reductions, elections; and the groups of lanes that run them.

use super::{Engine, Flow, Split, Wait, Warp};
use crate::alu::exec::put_pred;
use crate::findings::FindingKind;
use crate::op::*;

impl Engine<'_> {
    /// Runs a `.sync` instruction that the lanes `m` have reached, group by group: lanes with one member mask are one
    /// group, which runs once every live lane that the mask names is here. The lanes of other groups stay.
    #[inline(always)]
    pub(super) fn by_groups(
        &mut self,
        w: &mut Warp,
        pc: u32,
        mask: Slot,
        m: u32,
        mut run: impl FnMut(&mut Self, &mut Warp, u32),
    ) -> Flow {
        let masks = &w.regs.r[mask as usize].0;
        let named = masks[m.trailing_zeros() as usize & 31];
        let other = (0..32).fold(0, |s, i| s | ((masks[i] != named) as u32) << i) & m;
        if other == 0 && m & !named == 0 {
            if named & w.live & !m != 0 {
                return Flow::Retry;
            }
            run(self, w, m);
            return Flow::Next;
        }
        let masks = *masks;
        let (mut left, mut stay) = (m, 0);
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let named = masks[first];
            let group = (0..32).fold(0, |s, i| s | ((masks[i] == named) as u32) << i) & left;
            left &= !group;
            self.check_members(w, pc, named, group, m);
            // Lanes that are here with another mask never join this group.
            if named & w.live & !m != 0 {
                stay |= group;
            } else {
                run(self, w, group);
            }
        }
        match stay {
            0 => Flow::Next,
            s if s == m => Flow::Retry,
            s => {
                self.counts.pc[pc as usize].threads -= s.count_ones() as u64;
                Flow::Block(s, Wait::Lanes)
            }
        }
    }

    /// Each lane of a group names itself, and names lanes that name the same (PTX ISA §9.7.13.2).
    #[cold]
    fn check_members(&mut self, w: &Warp, pc: u32, named: u32, group: u32, here: u32) {
        let absent = group & !named;
        if absent != 0 {
            let lane = absent.trailing_zeros();
            self.find(FindingKind::BadMemberMask, w, pc, lane, 0, || {
                format!("the member mask {named:#010x} does not name the executing lane {lane}")
            });
        }
        let others = named & here & !group;
        if others != 0 {
            let (lane, other) = (group.trailing_zeros(), others.trailing_zeros());
            self.find(FindingKind::BadMemberMask, w, pc, lane, 1, || {
                format!(
                    "the member mask {named:#010x} of lane {lane} names lane {other}, which executes this with another mask"
                )
            });
        }
    }

    /// When nothing else can run: lets lanes that wait at different `bar.warp.sync`s of one mask go on.
    pub(super) fn join_warp_syncs(&mut self, w: &mut Warp) -> bool {
        let mut masks = [0; 32];
        let mut waiting = 0;
        for s in w.splits.iter().filter(|s| s.wait == Wait::Lanes) {
            if let Inst { op: Op::WarpSync { mask }, guard } = &self.k.insts[s.pc as usize] {
                let lanes = s.mask & guard.lanes(&w.regs.p);
                for i in (0..32).filter(|i| lanes >> i & 1 != 0) {
                    masks[i] = w.regs.r[*mask as usize].0[i];
                }
                waiting |= lanes;
            }
        }
        let (mut left, mut released) = (waiting, 0);
        while left != 0 {
            let named = masks[left.trailing_zeros() as usize];
            let group = (0..32).fold(0, |s, i| s | ((masks[i] == named) as u32) << i) & left;
            left &= !group;
            if named & w.live & !group == 0 {
                released |= group;
                self.clocks.warp_sync(w.agent(self.wpc), group, w.live);
            }
        }
        for i in 0..w.splits.len() {
            let s = w.splits[i];
            if s.wait != Wait::Lanes || s.mask & released == 0 {
                continue;
            }
            // Lanes whose guard does not hold go on with them.
            let stay = s.mask & waiting & !released;
            w.splits[i] = Split { pc: s.pc + 1, mask: s.mask & !stay, wait: Wait::Ready, ..s };
            if stay != 0 {
                w.splits.push(Split { mask: stay, ..s });
            }
        }
        released != 0
    }

    /// What the lanes `m`, one group, compute together.
    pub(super) fn collective(&mut self, w: &mut Warp, pc: u32, m: u32) {
        let r = &mut w.regs;
        match &self.k.insts[pc as usize].op {
            Op::Shfl { mode, d, p, a, b, c, .. } => {
                let (a, b, c) = (r.r[*a as usize].0, r.r[*b as usize].0, r.r[*c as usize].0);
                let (mut out, mut valid) = ([0; 32], 0u32);
                for i in 0..32u32 {
                    let (bv, cv) = (b[i as usize] & 31, c[i as usize]);
                    let (seg, clamp) = (cv >> 8 & 31, cv & 31);
                    let max = (i & seg) | (clamp & !seg);
                    let (j, ok) = match mode {
                        ShflMode::Up => (i.wrapping_sub(bv), i as i32 - bv as i32 >= max as i32),
                        ShflMode::Down => (i + bv, i + bv <= max),
                        ShflMode::Bfly => (i ^ bv, i ^ bv <= max),
                        ShflMode::Idx => {
                            let j = (i & seg) | (bv & !seg);
                            (j, j <= max)
                        }
                    };
                    let j = if ok { j } else { i };
                    // A lane that takes no part gives its stale value; the result is undefined then.
                    out[i as usize] = a[j as usize & 31];
                    valid |= (ok as u32) << i;
                }
                if *d != SINK {
                    r.put(*d, &out, m);
                }
                put_pred(r, *p, valid, m);
            }
            Op::Vote { mode, d, p, .. } => {
                let t = p.lanes(&r.p) & m;
                match mode {
                    VoteMode::Ballot => r.put(*d, &[t; 32], m),
                    VoteMode::All => put_pred(r, *d, if t == m { !0 } else { 0 }, m),
                    VoteMode::Any => put_pred(r, *d, if t != 0 { !0 } else { 0 }, m),
                    VoteMode::Uni => put_pred(r, *d, if t == 0 || t == m { !0 } else { 0 }, m),
                }
            }
            Op::Match { all, wide, d, p, a, .. } => {
                let v = if *wide { r.get64(*a) } else { r.r[*a as usize].0.map(u64::from) };
                let mut out = [0; 32];
                for i in 0..32 {
                    out[i] = (0..32).fold(0, |s, j| s | ((m >> j & 1 != 0 && v[i] == v[j]) as u32) << j);
                }
                if *all {
                    let same = out[m.trailing_zeros() as usize] == m;
                    if *d != SINK {
                        r.put(*d, &[if same { m } else { 0 }; 32], m);
                    }
                    put_pred(r, *p, if same { !0 } else { 0 }, m);
                } else if *d != SINK {
                    r.put(*d, &out, m);
                }
            }
            Op::Redux { op, d, a, .. } => {
                let v = r.r[*a as usize].0;
                let lanes = (0..32).filter(|i| m >> i & 1 != 0).map(|i| v[i]);
                let res = lanes.reduce(|x, y| match op {
                    ReduxOp::Add => x.wrapping_add(y),
                    ReduxOp::Min(true) => (x as i32).min(y as i32) as u32,
                    ReduxOp::Min(false) => x.min(y),
                    ReduxOp::Max(true) => (x as i32).max(y as i32) as u32,
                    ReduxOp::Max(false) => x.max(y),
                    ReduxOp::And => x & y,
                    ReduxOp::Or => x | y,
                    ReduxOp::Xor => x ^ y,
                });
                r.put(*d, &[res.unwrap_or(0); 32], m);
            }
            Op::Elect { d, p, .. } => {
                let leader = m.trailing_zeros();
                if *d != SINK {
                    r.put(*d, &[leader; 32], m);
                }
                put_pred(r, *p, 1 << leader, m);
            }
            _ => {}
        }
    }
}
