//! `wgmma` and `setmaxnreg`.

use super::{Dec, Mods, Place, Res};
use crate::ast::{AstInst, Operand, RegId};
use crate::op::*;
use crate::types::Ty;
use std::collections::{HashMap, HashSet};

/// For each instruction, the next one that names a register of a `wgmma`; and those registers.
pub(super) fn touches(insts: &[Inst], named: &Option<Vec<Vec<Slot>>>) -> (Vec<u32>, HashMap<u32, Vec<Slot>>) {
    let Some(named) = named else { return (vec![], HashMap::new()) };
    let mut used: HashSet<Slot> = HashSet::new();
    for i in insts {
        if let Op::Wgmma(x) = &i.op {
            used.extend(&x.d);
            if x.a.len() > 1 {
                used.extend(&x.a);
            }
        }
    }
    let mut touch = HashMap::new();
    let mut next = vec![u32::MAX; insts.len()];
    let mut at = u32::MAX;
    for pc in (0..insts.len()).rev() {
        let slots: Vec<Slot> = match (named.get(pc), &insts[pc].op) {
            (_, Op::Wgmma(_)) | (None, _) => vec![],
            (Some(list), _) => list.iter().copied().filter(|s| used.contains(s)).collect(),
        };
        if !slots.is_empty() {
            at = pc as u32;
            touch.insert(at, slots);
        }
        next[pc] = at;
    }
    (next, touch)
}

impl<'m> Dec<'m> {
    fn target(&self) -> String {
        format!("sm_{}{}", self.sm, self.suffix.map(String::from).unwrap_or_default())
    }

    /// Remembers which registers the instruction names.
    pub(super) fn name_registers(&mut self, i: &AstInst<'m>) {
        fn walk(o: &Operand<'_>, f: &mut impl FnMut(RegId)) {
            match o {
                Operand::Reg(r) => f(*r),
                Operand::Vec(v) | Operand::List(v) => v.iter().for_each(|o| walk(o, f)),
                Operand::Addr(b, _, v) => {
                    walk(b, f);
                    v.iter().for_each(|o| walk(o, f));
                }
                Operand::Pair(a, b) => {
                    walk(a, f);
                    walk(b, f);
                }
                _ => {}
            }
        }
        let Some(named) = &mut self.named else { return };
        let mut slots = vec![];
        for o in &i.ops {
            walk(o, &mut |r| {
                if let Place::Slot(s) = self.places[r.0 as usize] {
                    slots.extend(s..s + self.entry.reg_types[r.0 as usize].slots());
                }
            });
        }
        named.push(slots);
    }

    pub(super) fn wgmma(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        if i.opcode == "setmaxnreg" {
            self.class = InstClass::Other;
            if self.sm < 90 || self.suffix.is_none() {
                return self.err(
                    i,
                    format_args!("needs a target with an `a` or `f`, such as sm_90a, not {}", self.target()),
                );
            }
            let inc = m.take_one_of(&["inc", "dec"]);
            if inc.is_none() || !m.take("sync") || !m.take("aligned") {
                return self.err(i, "expected `.inc.sync.aligned` or `.dec.sync.aligned`");
            }
            m.ty()?;
            self.count(i, 1..=1)?;
            return match i.ops[0] {
                Operand::Int(n) if (24..=256).contains(&n) && n % 8 == 0 => {
                    Ok(Some(Op::SetMaxNReg { inc: inc == Some("inc"), count: n as u32 }))
                }
                _ => self.err(i, "expected a multiple of 8 from 24 to 256"),
            };
        }
        if i.opcode != "wgmma" {
            return Ok(None);
        }
        self.class = InstClass::TensorCore;
        if self.sm != 90 || self.suffix != Some('a') {
            return self.err(i, format_args!("`wgmma` needs the target sm_90a, not {}", self.target()));
        }
        let kind = m.take_one_of(&["fence", "commit_group", "wait_group", "mma_async"]);
        if !m.take("sync") || !m.take("aligned") {
            return self.err(i, "expected `.sync.aligned`");
        }
        match kind {
            Some("fence") => {
                self.count(i, 0..=0)?;
                Ok(Some(Op::WgFence))
            }
            Some("commit_group") => {
                self.count(i, 0..=0)?;
                Ok(Some(Op::WgCommit))
            }
            Some("wait_group") => {
                self.count(i, 1..=1)?;
                match i.ops[0] {
                    Operand::Int(n) => Ok(Some(Op::WgWait(n as u32))),
                    _ => self.err(i, "expected a constant"),
                }
            }
            Some(_) => self.mma_async(i, m).map(Some),
            None => self.err(i, "expected `.fence`, `.mma_async`, `.commit_group` or `.wait_group`"),
        }
    }

    fn mma_async(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        let shape = m.take_with(|s| {
            let (n, k) = s.strip_prefix("m64n")?.split_once('k')?;
            Some((n.parse::<u32>().ok()?, k.parse::<u32>().ok()?))
        });
        let Some((n, k)) = shape else { return self.err(i, "expected a shape such as `.m64n128k16`") };
        let sat = m.take("satfinite");
        let d_ty = m.ty()?;
        let ty = m.ty()?;
        let b_ty = m.ty()?;
        let eight = |t: Ty| matches!(t, Ty::E4M3 | Ty::E5M2);
        let int = |t: Ty| matches!(t, Ty::U8 | Ty::S8);
        let ok = match ty {
            Ty::F16 => b_ty == ty && k == 16 && matches!(d_ty, Ty::F16 | Ty::F32),
            Ty::BF16 => b_ty == ty && k == 16 && d_ty == Ty::F32,
            Ty::TF32 => b_ty == ty && k == 8 && d_ty == Ty::F32,
            t if eight(t) => eight(b_ty) && k == 32 && matches!(d_ty, Ty::F16 | Ty::F32),
            t if int(t) => int(b_ty) && k == 32 && d_ty == Ty::S32,
            _ => false,
        };
        if n == 0 || n > 256 || n % 8 != 0 {
            return self.err(i, format_args!("expected N to be a multiple of 8 up to 256, found {n}"));
        }
        if !ok || (sat && !int(ty)) {
            return self.err(i, "this combination of shape and types is not supported");
        }
        let d = self.regs32(i, 0, true)?;
        let want = if d_ty == Ty::F16 { n / 4 } else { n / 2 } as usize;
        if d.len() != want || d.contains(&SINK) {
            let have = d.len();
            return self.err(i, format_args!("expected {want} accumulator registers, found {have}"));
        }
        let in_regs = matches!(i.ops.get(1), Some(Operand::Vec(_)));
        let a = if in_regs { self.regs32(i, 1, false)? } else { vec![self.src(i, 1, Ty::B64)?] };
        if in_regs && a.len() != 4 {
            return self.err(i, "expected 4 registers for A");
        }
        let b = self.src(i, 2, Ty::B64)?;
        let Some(p) = i.ops.get(3) else { return self.err(i, "expected scale-d") };
        let scale_d = self.psrc_of(i, p)?;
        let float = ty.is_float();
        let trans = if matches!(ty, Ty::F16 | Ty::BF16) { if in_regs { 1 } else { 2 } } else { 0 };
        let want = 4 + if float { 2 + trans } else { 0 };
        self.count(i, want..=want)?;
        let imm = |d: &Self, at: usize, allowed: [i64; 2]| match i.ops.get(at) {
            Some(Operand::Int(v)) if allowed.contains(&(*v as i64)) => Ok(*v as i64),
            _ => {
                let [a, b] = allowed;
                d.err(i, format_args!("expected {a} or {b} as operand {}", at + 1))
            }
        };
        let (mut neg_a, mut neg_b, mut trans_a, mut trans_b) = (false, false, false, false);
        if float {
            (neg_a, neg_b) = (imm(self, 4, [1, -1])? == -1, imm(self, 5, [1, -1])? == -1);
        }
        match trans {
            2 => (trans_a, trans_b) = (imm(self, 6, [0, 1])? == 1, imm(self, 7, [0, 1])? == 1),
            1 => trans_b = imm(self, 6, [0, 1])? == 1,
            _ => {}
        }
        // 64·n·k multiply-adds over the 128 threads of the warpgroup.
        self.flops = if float { 2 * 64 * n * k / 128 } else { 0 };
        Ok(Op::Wgmma(Box::new(Wgmma {
            n,
            k,
            ty,
            b_ty,
            d_ty,
            sat,
            d,
            a,
            b,
            scale_d,
            neg_a,
            neg_b,
            trans_a,
            trans_b,
        })))
    }
}
