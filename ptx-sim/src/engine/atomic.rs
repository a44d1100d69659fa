//! `atom` and `red`: lanes take their turn in lane order.

use super::shared::{Span, put_bytes};
use super::sync::mix;
use super::{Engine, Warp};
use crate::alu::float::{self, BF16, F16};
use crate::op::*;
use crate::race::Act;
use crate::types::Ty;

pub(super) fn apply(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    let signed = ty.is_signed();
    let less = |x: u64, y: u64| match (signed, ty.bits()) {
        (true, 32) => (x as i32) < y as i32,
        (true, _) => (x as i64) < y as i64,
        _ => x < y,
    };
    let fl = Fl::RN;
    match op {
        AtomOp::Add => match ty {
            Ty::F32 => float::add32::<true>(old as u32, b as u32) as u64,
            Ty::F64 => float::f64_op(FOp::Add, fl, old, b, 0),
            Ty::F16 => float::small_op(F16, FOp::Add, fl, old as u32, b as u32, 0) as u64,
            Ty::BF16 => float::small_op(BF16, FOp::Add, fl, old as u32, b as u32, 0) as u64,
            Ty::F16x2 | Ty::BF16x2 => packed(ty, FOp::Add, old as u32, b as u32),
            _ if ty.bits() == 32 => (old as u32).wrapping_add(b as u32) as u64,
            _ => old.wrapping_add(b),
        },
        AtomOp::Min | AtomOp::Max => match ty {
            Ty::F16 | Ty::BF16 => {
                let fmt = if ty == Ty::F16 { F16 } else { BF16 };
                let f = if op == AtomOp::Min { FOp::Min } else { FOp::Max };
                float::small_op(fmt, f, fl, old as u32, b as u32, 0) as u64
            }
            Ty::F16x2 | Ty::BF16x2 => {
                packed(ty, if op == AtomOp::Min { FOp::Min } else { FOp::Max }, old as u32, b as u32)
            }
            _ if less(b, old) == (op == AtomOp::Min) => b,
            _ => old,
        },
        AtomOp::And => old & b,
        AtomOp::Or => old | b,
        AtomOp::Xor => old ^ b,
        AtomOp::Exch => b,
        AtomOp::Cas => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}

fn packed(ty: Ty, op: FOp, a: u32, b: u32) -> u64 {
    let fmt = if ty == Ty::F16x2 { F16 } else { BF16 };
    let lo = float::small_op(fmt, op, Fl::RN, a & 0xffff, b & 0xffff, 0);
    (float::small_op(fmt, op, Fl::RN, a >> 16, b >> 16, 0) << 16 | lo) as u64
}

impl Engine<'_> {
    pub(super) fn atomic(&mut self, w: &mut Warp, pc: u32, a: &Atom, m: u32) {
        let n = a.more.len().max(1) as u32;
        let width = a.ty.bytes();
        let addr = self.lane_addresses(w, &a.addr, a.space);
        self.by_space(w, pc, a.space, width * n, &addr, m, |e, w, space, addr, _, ok| {
            let (off, ok, groups) = match space {
                MSpace::Shared => {
                    let (off, ok) = e.shared_offsets(w, pc, width, addr, ok);
                    (off, ok, None)
                }
                MSpace::Global => {
                    let g = e.global_groups(w, pc, width * n, addr, ok, true);
                    let all = g.iter().fold(0, |s, x| s | x.1);
                    ([0; 32], all, Some(g))
                }
                _ => return,
            };
            if ok == 0 {
                return;
            }
            let sem = if a.sem == Sem::Weak { Sem::Relaxed } else { a.sem };
            if let Some(g) = &groups {
                e.order_atomic(w, pc, a, g, addr, sem);
            }
            let (mut changed, mut value) = (false, 0);
            if groups.is_none() {
                e.count_shared(w, pc, &off, ok, width, false);
                e.observe_shared(w, &off, ok, sem, a.scope);
                if e.checks() {
                    let span = Span { off: &off, ok, bytes: width, used: !0 };
                    e.check_shared(w, pc, &span, w.strength(sem), Act::Update, None);
                }
            }
            for i in 0..32 {
                if ok >> i & 1 == 0 {
                    continue;
                }
                let reg = |s: Slot| {
                    if s == SINK {
                        return 0;
                    }
                    let lo = w.regs.r[s as usize].0[i] as u64;
                    let v = if width == 8 { lo | (w.regs.r[s as usize + 1].0[i] as u64) << 32 } else { lo };
                    if width == 2 { v & 0xffff } else { v }
                };
                let (mut result, mut results) = (0, [0; 8]);
                for k in 0..n {
                    let b = if a.more.is_empty() { reg(a.b) } else { reg(a.more[k as usize]) };
                    let delta = (k * width) as u64;
                    let old = match &groups {
                        None => {
                            let s = &e.ctas[e.target].shared;
                            let at = off[i];
                            let lo = s[(at / 4) as usize];
                            match width {
                                8 => lo as u64 | (s[(at / 4) as usize + 1] as u64) << 32,
                                2 => (lo >> (8 * (at % 4)) & 0xffff) as u64,
                                _ => lo as u64,
                            }
                        }
                        Some(g) => {
                            let al =
                                &e.env.mem.allocs[g.iter().find(|x| x.1 >> i & 1 != 0).map_or(0, |x| x.0)];
                            let at = addr[i] - al.base + delta;
                            // Integer reductions may run on several cores at once, so the update itself is atomic.
                            if width == 4 {
                                let word = &al.words[at as usize / 4];
                                use std::sync::atomic::Ordering::Relaxed;
                                let c = reg(a.c);
                                let old = word.fetch_update(Relaxed, Relaxed, |o| {
                                    Some(apply(a.op, a.ty, o as u64, b, c) as u32)
                                });
                                result = old.unwrap_or_default() as u64;
                                changed |= apply(a.op, a.ty, result, b, c) as u32 != result as u32;
                                results[k as usize] = result as u32;
                                continue;
                            }
                            let lo = al.load(at, width.min(4)) as u64;
                            if width == 8 { lo | (al.load(at + 4, 4) as u64) << 32 } else { lo }
                        }
                    };
                    let new = apply(a.op, a.ty, old, b, reg(a.c));
                    result = old;
                    changed |= new != old;
                    results[k as usize] = result as u32;
                    match &groups {
                        None => {
                            let s = &mut e.ctas[e.target].shared;
                            put_bytes(s, off[i], width.min(4), new as u32);
                            if width == 8 {
                                put_bytes(s, off[i] + 4, 4, (new >> 32) as u32);
                            }
                        }
                        Some(g) => {
                            let al =
                                &e.env.mem.allocs[g.iter().find(|x| x.1 >> i & 1 != 0).map_or(0, |x| x.0)];
                            let at = addr[i] - al.base + delta;
                            al.store(at, width.min(4), new as u32);
                            if width == 8 {
                                al.store(at + 4, 4, (new >> 32) as u32);
                            }
                        }
                    }
                }
                value = mix(value, result as u32);
                for (d, r) in a.more_d.iter().zip(results) {
                    w.regs.r[*d as usize].0[i] = r;
                }
                if a.d != SINK {
                    w.regs.r[a.d as usize].0[i] = result as u32;
                    if width == 8 {
                        w.regs.r[a.d as usize + 1].0[i] = (result >> 32) as u32;
                    }
                }
            }
            if groups.is_none() {
                e.publish_shared(w, &off, ok, sem, a.scope, true);
            }
            if changed || a.d == SINK && a.more_d.is_empty() {
                e.events += 1;
                (w.poll, w.failed, w.polls_global) = (None, false, false);
            } else {
                e.polled(w, pc, value, groups.is_some());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_operations() {
        let f = |op, ty, old, b, c| apply(op, ty, old, b, c);
        assert_eq!(f(AtomOp::Inc, Ty::U32, 5, 5, 0), 0);
        assert_eq!(f(AtomOp::Inc, Ty::U32, 4, 5, 0), 5);
        assert_eq!(f(AtomOp::Dec, Ty::U32, 0, 5, 0), 5);
        assert_eq!(f(AtomOp::Dec, Ty::U32, 9, 5, 0), 5);
        assert_eq!(f(AtomOp::Min, Ty::S32, 1, 0xffff_ffff, 0), 0xffff_ffff);
        assert_eq!(f(AtomOp::Max, Ty::S32, 1, 0xffff_ffff, 0), 1);
        assert_eq!(f(AtomOp::Cas, Ty::B32, 1, 1, 7), 7);
        assert_eq!(f(AtomOp::Cas, Ty::B32, 1, 2, 7), 1);
        assert_eq!(f(AtomOp::Add, Ty::U32, 0xffff_ffff, 1, 0), 0);
        assert_eq!(f(AtomOp::Add, Ty::F16x2, 0x3c00_4000, 0x3c00_3c00, 0), 0x4000_4200);
    }
}
