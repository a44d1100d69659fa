//! `ldmatrix`, `stmatrix`, `movmatrix` and `mma.sync` (PTX ISA §9.7.14).

use super::mem::{addresses, aligned};
use super::trace::Cost;
use super::{Engine, Warp};
use crate::banks;
use crate::findings::FindingKind;
use crate::op::*;
use crate::race::{ANY_LANE, Act, Strength};
use crate::tensor_core::{Block, COLS, MAX_K, MAX_ROWS};
use crate::types::Ty;

impl Engine<'_> {
    /// Whether the whole warp is here, as `.aligned` asks.
    pub(super) fn whole_warp(&mut self, w: &mut Warp, m: u32) -> bool {
        m == w.live || std::mem::take(&mut w.forced)
    }

    pub(super) fn matrix_copy(&mut self, w: &mut Warp, pc: u32, x: &MatrixCopy, m: u32) {
        self.target = w.cta as usize;
        let n = x.regs.len();
        let rows = if n == 4 { !0 } else { (1u32 << (8 * n)) - 1 };
        let m = m & rows;
        let addr = addresses(&w.regs, &self.env.globals, &x.addr).map(|a| a & 0xffff_ffff);
        let ok = aligned(&addr, m, 16);
        if ok != m {
            let lane = (m & !ok).trailing_zeros();
            self.find(FindingKind::Misaligned, w, pc, lane, 0, || {
                "a row of a matrix must be aligned to 16 bytes".into()
            });
        }
        let (off, ok) = self.shared_offsets(w, pc, 16, &addr, ok);
        let (cost, least) = banks::matrices(&off, ok);
        if self.traces(w) {
            let cost = Cost { cost, least, matrices: true };
            self.trace_request(w, pc, None, (&off.map(u64::from), ok, 16), cost);
        }
        let c = &mut self.counts.mem[pc as usize];
        c.shared_requests += 1;
        c.wavefronts += cost as u64;
        c.ideal_wavefronts += least as u64;
        c.shared_bytes += 16 * ok.count_ones() as u64;
        if self.env.race_check || self.env.uninit_check {
            self.check_rows(w, pc, &off, ok, x.store);
        }
        let data = &mut self.ctas[self.target].shared;
        for (i, reg) in x.regs.iter().enumerate() {
            let mut v = if x.store { w.regs.r[*reg as usize].0 } else { [0; 32] };
            for lane in 0..32usize {
                // Two elements of a row, or (transposed) of a column.
                for half in 0..2 {
                    let (r, c) = if x.trans {
                        ((lane % 4) * 2 + half, lane / 4)
                    } else {
                        (lane / 4, (lane % 4) * 2 + half)
                    };
                    let at = 8 * i + r;
                    if ok >> at & 1 == 0 {
                        continue;
                    }
                    let byte = off[at] + 2 * c as u32;
                    let (word, sh) = ((byte / 4) as usize, 8 * (byte % 4));
                    if x.store {
                        data[word] = (data[word] & !(0xffff << sh)) | (v[lane] >> (16 * half) & 0xffff) << sh;
                    } else {
                        v[lane] |= (data[word] >> sh & 0xffff) << (16 * half);
                    }
                }
            }
            if !x.store && *reg != SINK {
                w.regs.put(*reg, &v, w.live);
            }
        }
    }

    pub(super) fn matrix_move(&mut self, w: &mut Warp, d: Slot, a: Slot) {
        let held = w.regs.r[a as usize].0;
        let mut moved = [0; 32];
        for (lane, word) in moved.iter_mut().enumerate() {
            // Elements 2·c and 2·c + 1 of row r were those of column r.
            let (r, c) = (lane / 4, lane % 4);
            for half in 0..2 {
                let from = held[4 * (2 * c + half) + r / 2] >> (16 * (r % 2)) & 0xffff;
                *word |= from << (16 * half);
            }
        }
        if d != SINK {
            w.regs.put(d, &moved, w.live);
        }
    }

    /// Checks 16-byte rows that the warp reads, or writes, as a whole.
    fn check_rows(&mut self, w: &Warp, pc: u32, off: &[u32; 32], ok: u32, write: bool) {
        let mut who = self.who(w, pc, Strength::WEAK);
        let simd = self.env.simd;
        let seen = self.clocks.seen(who.agent as usize);
        let shadow = &mut self.ctas[self.target].shadow;
        let mut first = None;
        who.lane = ANY_LANE;
        let ok = if write { ok } else { (simd.read_each)(shadow, off, 16, ok, &who) };
        for i in (0..32u32).filter(|i| ok >> i & 1 != 0) {
            who.lane = if write { i } else { ANY_LANE };
            let at = off[i as usize];
            let act = if write { Act::Write } else { Act::Read };
            shadow.access((at, 16), act, &who, seen, |issue, at| first = first.or(Some((issue, i, at))));
        }
        if let Some((issue, lane, at)) = first {
            self.report_issue(w, pc, lane, at, issue);
        }
    }

    pub(super) fn mma(&mut self, w: &mut Warp, x: &Mma, m: u32) {
        let r = |s: Slot, lane: usize| w.regs.r[s as usize].0[lane];
        let bits = x.a_ty.bits().max(if x.a_ty == Ty::TF32 { 32 } else { 8 });
        let epr = (32 / bits) as usize;
        let chunk = 4 * epr;
        let rows = if x.a.len() == 1 { 8 } else { 16 };
        let k = x.k as usize;
        let elem = |word: u32, j: usize| {
            word >> (bits as usize * j % 32) & if bits == 32 { !0 } else { (1 << bits) - 1 }
        };
        // Register `i` of a lane holds `epr` elements of one row.
        let place = |i: usize| if rows == 8 { (0, chunk * i) } else { (8 * (i & 1), chunk * (i >> 1)) };
        let (mut am, mut bm) = ([0u32; MAX_ROWS * MAX_K], [[0u32; COLS]; MAX_K]);
        for (i, s) in x.a.iter().enumerate() {
            let (dr, dk) = place(i);
            let v = &w.regs.r[*s as usize].0;
            for lane in 0..32 {
                let at = (lane / 4 + dr) * k + lane % 4 * epr + dk;
                for j in 0..epr {
                    am[at + j] = elem(v[lane], j);
                }
            }
        }
        for (i, s) in x.b.iter().enumerate() {
            let v = &w.regs.r[*s as usize].0;
            for lane in 0..32 {
                for j in 0..epr {
                    bm[lane % 4 * epr + chunk * i + j][lane / 4] = elem(v[lane], j);
                }
            }
        }
        let (am, bm) = (&am[..rows * k], &bm[..k]);
        let half = x.d_ty == Ty::F16;
        let mut c = [[0u32; COLS]; MAX_ROWS];
        let c = &mut c[..rows];
        let each = rows / 4;
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for i in 0..each {
                let v = if half { r(x.c[i / 2], lane) >> (16 * (i & 1)) & 0xffff } else { r(x.c[i], lane) };
                c[g + 8 * (i >> 1)][2 * t + (i & 1)] = v;
            }
        }
        if x.a_ty.is_float() {
            let (a_ty, b_ty) = (x.a_ty, x.b_ty);
            let pairs = bits == 8;
            let (neg_a, neg_b, coarse) = (false, false, false);
            let block = Block { k, a: am, b: bm, a_ty, b_ty, neg_a, neg_b, pairs, coarse, half };
            (self.env.simd.block)(&block, c);
        } else {
            let ext = |v: u32, s: bool| if s { v as u8 as i8 as i64 } else { v as u8 as i64 };
            for (row, c) in c.iter_mut().enumerate() {
                for j in 0..COLS {
                    let sum: i64 = (0..k)
                        .map(|i| ext(am[row * k + i], x.a_ty.is_signed()) * ext(bm[i][j], x.b_ty.is_signed()))
                        .sum::<i64>()
                        + c[j] as i32 as i64;
                    c[j] =
                        if x.sat { sum.clamp(i32::MIN as i64, i32::MAX as i64) as u32 } else { sum as u32 };
                }
            }
        }
        for i in 0..each {
            if half {
                if i % 2 == 0 {
                    let v = std::array::from_fn(|lane| {
                        let at = |h: usize| c[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + h];
                        at(0) | at(1) << 16
                    });
                    w.regs.put(x.d[i / 2], &v, m);
                }
            } else {
                let v = std::array::from_fn(|lane| c[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + (i & 1)]);
                w.regs.put(x.d[i], &v, m);
            }
        }
    }
}
