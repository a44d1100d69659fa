//! `wmma`: fragments between memory and registers, and products of them.

use super::{Engine, Warp};
use crate::op::*;
use crate::race::Scope;
use crate::tensor_core::{Block, COLS};
use crate::types::Ty;

impl Fragment {
    /// Line and place in it of an element of a lane.
    fn place(&self, lane: u32, element: u32) -> (u32, u32) {
        let at = (lane * self.elements + element) % (self.lines * self.len);
        (at / self.len, at % self.len)
    }

    /// The elements of the lanes as a matrix of rows.
    fn gather(&self, w: &Warp, regs: &[Slot]) -> Vec<u64> {
        let (rows, cols) = if self.row { (self.lines, self.len) } else { (self.len, self.lines) };
        let mut out = vec![0; (rows * cols) as usize];
        let per = (4 / self.bytes).max(1);
        for (e, lane) in (0..self.elements).flat_map(|e| (0..32).map(move |l| (e, l))) {
            let slot = regs[(e / per) as usize];
            let low = w.regs.r[slot as usize].0[lane as usize];
            let v = match self.bytes {
                8 => low as u64 | (w.regs.r[slot as usize + 1].0[lane as usize] as u64) << 32,
                4 => low as u64,
                n => (low >> (8 * n * (e % per)) & ((1 << (8 * n)) - 1)) as u64,
            };
            let (line, at) = self.place(lane, e);
            let (r, c) = if self.row { (line, at) } else { (at, line) };
            out[(r * cols + c) as usize] = v;
        }
        out
    }
}

impl Engine<'_> {
    pub(super) fn wmma_copy(&mut self, w: &mut Warp, pc: u32, x: &WmmaCopy, m: u32) {
        let f = x.fragment;
        let base = self.lane_addresses(w, &x.addr, x.space);
        let stride = w.regs.r[x.stride as usize].0;
        // Accumulators lie by rows in registers: those of a matrix by columns go one by one.
        let by_rows = f.row || !x.accumulator;
        let chunk = if by_rows { f.elements.min(f.len).min(16 / f.bytes) } else { 1 };
        let per = (4 / f.bytes).max(1);
        for first in (0..f.elements).step_by(chunk as usize) {
            let mut addr = base;
            for (lane, a) in addr.iter_mut().enumerate() {
                let (line, at) = f.place(lane as u32, first);
                let (outer, inner) = if by_rows { (line, at) } else { (at, line) };
                let elements = outer as u64 * stride[lane] as u64 + inner as u64;
                *a = a.wrapping_add(elements * f.bytes as u64);
            }
            let slots = &x.regs[(first / per) as usize..];
            let part = chunk * f.bytes < 4;
            let regs = match part {
                true => vec![x.scratch],
                false => slots[..(chunk / per) as usize].to_vec(),
            };
            let width = if part { f.bytes } else { f.bytes.max(4) };
            let mem = Mem {
                space: x.space,
                addr: x.addr,
                width,
                signed: false,
                slots: width.div_ceil(4),
                regs,
                sem: Sem::Weak,
                scope: Scope::Cta,
                used: !0,
            };
            let shift = 8 * f.bytes * (first % per);
            let mask = if part { ((1u32 << (8 * f.bytes)) - 1) << shift } else { 0 };
            let (own, scratch) = (slots[0] as usize, x.scratch as usize);
            if x.store {
                if part {
                    w.regs.r[scratch].0 = w.regs.r[own].0.map(|v| (v & mask) >> shift);
                }
                self.store_at(w, pc, &mem, &addr, m);
            } else {
                self.load_at(w, pc, &mem, &addr, m);
                if part {
                    let (old, new) = (w.regs.r[own].0, w.regs.r[scratch].0);
                    let v = std::array::from_fn(|i| old[i] & !mask | new[i] << shift & mask);
                    w.regs.put(slots[0], &v, m);
                }
            }
        }
    }

    pub(super) fn wmma(&mut self, w: &mut Warp, x: &Wmma, lanes: u32) {
        let [m, n, k] = x.shape.map(|v| v as usize);
        let (a, b, c) = (x.fa.gather(w, &x.a), x.fb.gather(w, &x.b), x.fc.gather(w, &x.c));
        let mut d = vec![0u64; m * n];
        match x.a_ty {
            Ty::F64 => {
                for (at, d) in d.iter_mut().enumerate() {
                    let (i, j) = (at / n, at % n);
                    *d = (0..k)
                        .fold(f64::from_bits(c[at]), |s, l| {
                            f64::from_bits(a[i * k + l]).mul_add(f64::from_bits(b[l * n + j]), s)
                        })
                        .to_bits();
                }
            }
            Ty::U8 | Ty::S8 => {
                let wide = |v: u64| if x.a_ty == Ty::S8 { v as u8 as i8 as i64 } else { v as u8 as i64 };
                for (at, d) in d.iter_mut().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let sum: i64 = (0..k).map(|l| wide(a[i * k + l]) * wide(b[l * n + j])).sum::<i64>()
                        + c[at] as u32 as i32 as i64;
                    let sum = if x.sat { sum.clamp(i32::MIN as i64, i32::MAX as i64) } else { sum };
                    *d = sum as u32 as u64;
                }
            }
            ty => {
                let narrow = |v: &[u64]| v.iter().map(|v| *v as u32).collect::<Vec<u32>>();
                let a = narrow(&a);
                let height = m.min(16);
                for (top, left) in
                    (0..m).step_by(height).flat_map(|t| (0..n).step_by(COLS).map(move |l| (t, l)))
                {
                    let cols: Vec<[u32; COLS]> =
                        (0..k).map(|l| std::array::from_fn(|j| b[l * n + left + j] as u32)).collect();
                    let mut sums: Vec<[u32; COLS]> = (0..height)
                        .map(|i| std::array::from_fn(|j| c[(top + i) * n + left + j] as u32))
                        .collect();
                    let block = Block {
                        k,
                        a: &a[top * k..(top + height) * k],
                        b: &cols,
                        a_ty: ty,
                        b_ty: ty,
                        neg_a: false,
                        neg_b: false,
                        pairs: false,
                        coarse: false,
                        half: x.d_ty == Ty::F16,
                    };
                    (self.env.simd.block)(&block, &mut sums);
                    for (i, j) in (0..height).flat_map(|i| (0..COLS).map(move |j| (i, j))) {
                        d[(top + i) * n + left + j] = sums[i][j] as u64;
                    }
                }
            }
        }
        let f = x.fc;
        let per = (4 / f.bytes).max(1);
        for (r, slot) in x.d.iter().enumerate() {
            let mut out = [0u64; 32];
            for (lane, o) in out.iter_mut().enumerate() {
                for e in 0..per {
                    let (line, at) = f.place(lane as u32, r as u32 * per + e);
                    *o |= d[line as usize * n + at as usize] << (8 * f.bytes % 64 * e);
                }
            }
            if f.bytes == 8 {
                w.regs.put64(*slot, &out, lanes);
            } else {
                w.regs.put(*slot, &out.map(|v| v as u32), lanes);
            }
        }
    }
}
