//! `ldmatrix`, `stmatrix`, `movmatrix`, `mma`.

use super::{Dec, Mods, Res};
use crate::ast::{AstInst, Operand};
use crate::op::*;
use crate::types::Ty;

impl<'m> Dec<'m> {
    pub(super) fn matrix(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        match i.opcode {
            "ldmatrix" | "stmatrix" => self.matrix_copy(i, m).map(Some),
            "movmatrix" => self.matrix_move(i, m).map(Some),
            "mma" => self.mma(i, m).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn regs32(&mut self, i: &AstInst<'m>, n: usize, dst: bool) -> Res<Vec<Slot>> {
        let list = match self.operand(i, n)? {
            Operand::Vec(v) => v.clone(),
            o => vec![o.clone()],
        };
        let mut regs = vec![];
        for o in &list {
            regs.push(if dst { self.dst_of(i, o, Ty::B32)? } else { self.src_of(i, o, Ty::B32)? });
        }
        Ok(regs)
    }

    fn matrix_copy(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        let store = i.opcode == "stmatrix";
        self.class = if store { InstClass::SharedStore } else { InstClass::SharedLoad };
        if !m.take("sync") || !m.take("aligned") || !m.take("m8n8") {
            return self.err(i, "expected `.sync.aligned.m8n8`");
        }
        let Some(n) = m.take_with(|s| {
            Some(match s {
                "x1" => 1,
                "x2" => 2,
                "x4" => 4,
                _ => return None,
            })
        }) else {
            return self.err(i, "expected `.x1`, `.x2` or `.x4`");
        };
        let trans = m.take("trans");
        m.take_one_of(&["shared", "shared::cta"]);
        if m.ty()? != Ty::B16 {
            return self.err(i, "only `.b16` is supported");
        }
        self.count(i, 2..=2)?;
        let (data, at) = if store { (1, 0) } else { (0, 1) };
        let addr = self.addr(i, &i.ops[at], MSpace::Shared)?;
        let regs = self.regs32(i, data, !store)?;
        if regs.len() != n {
            return self.err(i, format_args!("expected {n} registers, found {}", regs.len()));
        }
        Ok(Op::MatrixCopy(Box::new(MatrixCopy { store, trans, addr, regs })))
    }

    fn matrix_move(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Warp;
        if !["sync", "aligned", "m8n8", "trans"].iter().all(|w| m.take(w)) || m.ty()? != Ty::B16 {
            return self.err(i, "expected `.sync.aligned.m8n8.trans.b16`");
        }
        self.count(i, 2..=2)?;
        Ok(Op::MatrixMove { d: self.dst(i, Ty::B32)?, a: self.src(i, 1, Ty::B32)? })
    }

    fn mma(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::TensorCore;
        if !m.take("sync") || !m.take("aligned") {
            return self.err(i, "expected `.sync.aligned`");
        }
        let Some((mm, k)) = m.take_with(|s| {
            Some(match s {
                "m16n8k4" => (16, 4u32),
                "m16n8k8" => (16, 8),
                "m16n8k16" => (16, 16),
                "m16n8k32" => (16, 32),
                "m8n8k16" => (8, 16),
                _ => return None,
            })
        }) else {
            return self.err(i, "this shape is not supported");
        };
        if !m.take("row") || !m.take("col") {
            return self.err(i, "expected `.row.col`");
        }
        let sat = m.take("satfinite");
        let kind = m.take("kind::f8f6f4");
        let d_ty = m.ty()?;
        let a_ty = m.ty()?;
        let b_ty = m.ty()?;
        let c_ty = m.ty()?;
        let eight = |t: Ty| matches!(t, Ty::E4M3 | Ty::E5M2);
        let int = |t: Ty| matches!(t, Ty::U8 | Ty::S8);
        let ok = match a_ty {
            Ty::F16 => b_ty == a_ty && mm == 16 && matches!(k, 8 | 16) && matches!(d_ty, Ty::F32 | Ty::F16),
            Ty::BF16 => b_ty == a_ty && mm == 16 && matches!(k, 8 | 16) && d_ty == Ty::F32,
            Ty::TF32 => b_ty == a_ty && mm == 16 && matches!(k, 4 | 8) && d_ty == Ty::F32,
            t if eight(t) => {
                eight(b_ty) && mm == 16 && matches!(k, 16 | 32) && matches!(d_ty, Ty::F32 | Ty::F16)
            }
            t if int(t) => {
                int(b_ty) && (mm == 8) == (k == 16 && mm == 8) && matches!(k, 16 | 32) && d_ty == Ty::S32
            }
            _ => false,
        };
        if !ok || c_ty != d_ty || kind || (sat && !int(a_ty)) {
            return self.err(i, "this combination of shape and types is not supported");
        }
        self.count(i, 4..=4)?;
        let (d, a, b, c) = (
            self.regs32(i, 0, true)?,
            self.regs32(i, 1, false)?,
            self.regs32(i, 2, false)?,
            self.regs32(i, 3, false)?,
        );
        let bits = if a_ty == Ty::TF32 { 32 } else { a_ty.bits() };
        let per = |n: u32, t: Ty| if t == Ty::F16 { n / 2 } else { n } as usize;
        let want = [
            per(mm / 4, d_ty),
            (mm * k * bits / 1024) as usize,
            (8 * k * bits / 1024) as usize,
            per(mm / 4, d_ty),
        ];
        let have = [d.len(), a.len(), b.len(), c.len()];
        if have != want {
            return self.err(i, format_args!("expected {want:?} registers for d, a, b, c, found {have:?}"));
        }
        if d.contains(&SINK) {
            return self.err(i, "`_` cannot be a result");
        }
        // m·n·k multiply-adds, spread over 32 lanes.
        self.flops = if a_ty.is_float() { 2 * mm * 8 * k / 32 } else { 0 };
        Ok(Op::Mma(Box::new(Mma { k, a_ty, b_ty, d_ty, sat, d, a, b, c })))
    }
}
