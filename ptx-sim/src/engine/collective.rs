//! Warp-wide instructions: shuffles, votes, matches, reductions, elections.

use super::{Engine, Wait, Warp};
use crate::alu::exec::put_pred;
use crate::findings::FindingKind;
use crate::op::*;

impl Engine<'_> {
    /// Whether every lane that the member masks name is here (or gone for good).
    pub(super) fn members_here(&mut self, w: &Warp, pc: u32, mask: Slot, m: u32) -> bool {
        let masks = &w.regs.r[mask as usize].0;
        let mut want = 0;
        for (i, v) in masks.iter().enumerate() {
            if m >> i & 1 != 0 {
                want |= v;
                if v >> i & 1 == 0 {
                    let v = *v;
                    self.find(FindingKind::BadMemberMask, w, pc, i as u32, 0, || {
                        format!("the member mask {v:#010x} does not name the executing lane {i}")
                    });
                }
            }
        }
        want & w.live & !m == 0
    }

    /// When nothing else can run: lets lanes that wait at different `bar.warp.sync`s of one mask go on.
    pub(super) fn join_warp_syncs(&mut self, w: &mut Warp) -> bool {
        let mut here = 0;
        for s in &w.splits {
            if s.wait == Wait::Lanes && matches!(self.k.insts[s.pc as usize].op, Op::WarpSync { .. }) {
                here |= s.mask;
            }
        }
        let mut released = false;
        for i in 0..w.splits.len() {
            let s = w.splits[i];
            if s.wait != Wait::Lanes {
                continue;
            }
            if let Op::WarpSync { mask } = self.k.insts[s.pc as usize].op {
                let want =
                    (0..32).filter(|l| s.mask >> l & 1 != 0).fold(0, |a, l| a | w.regs.r[mask as usize].0[l]);
                if want & w.live & !here == 0 {
                    w.splits[i].wait = Wait::Ready;
                    w.splits[i].pc += 1;
                    released = true;
                }
            }
        }
        if released {
            self.clocks.warp_sync(w.agent(self.wpc));
        }
        released
    }

    pub(super) fn collective(&mut self, w: &mut Warp, _pc: u32, m: u32) {
        let r = &mut w.regs;
        match &self.k.insts[_pc as usize].op {
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
