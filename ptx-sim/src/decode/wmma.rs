//! `wmma.load`, `wmma.store` and `wmma.mma` (PTX ISA §9.7.15.4).

use super::{Dec, Mods, Res};
use crate::ast::AstInst;
use crate::op::*;
use crate::types::Ty;

fn shape(m: &mut Mods<'_>) -> Option<[u32; 3]> {
    m.take_with(|s| {
        Some(match s {
            "m16n16k16" => [16, 16, 16],
            "m32n8k16" => [32, 8, 16],
            "m8n32k16" => [8, 32, 16],
            "m16n16k8" => [16, 16, 8],
            "m8n8k4" => [8, 8, 4],
            _ => return None,
        })
    })
}

/// Whether factors of this type have this shape.
fn fits([m, _, k]: [u32; 3], ty: Ty) -> bool {
    match ty {
        Ty::F16 | Ty::BF16 | Ty::U8 | Ty::S8 => k == 16,
        Ty::TF32 => k == 8,
        Ty::F64 => (m, k) == (8, 4),
        _ => false,
    }
}

/// The fragment of A, B or (any other letter) the accumulator. Which element lies where is unspecified in PTX; here a lane
/// holds consecutive elements of the rows, or columns, that are contiguous in memory, and accumulators those of rows.
fn fragment([m, n, k]: [u32; 3], which: &str, ty: Ty, row: bool) -> Fragment {
    let (rows, cols) = match which {
        "a" => (m, k),
        "b" => (k, n),
        _ => (m, n),
    };
    let factor = matches!(which, "a" | "b");
    let (lines, len) = if row || !factor { (rows, cols) } else { (cols, rows) };
    // f16 factors have eight registers whatever their shape: several lanes hold the same.
    let elements = if factor && ty == Ty::F16 { 16 } else { lines * len / 32 };
    Fragment { lines, len, elements, bytes: if ty == Ty::TF32 { 4 } else { ty.bytes() }, row }
}

impl<'m> Dec<'m> {
    pub(super) fn wmma(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        if i.opcode != "wmma" {
            return Ok(None);
        }
        let Some(what) = m.take_one_of(&["load", "store", "mma"]) else {
            return self.err(i, "expected `.load`, `.store` or `.mma`");
        };
        let which = m.take_one_of(&["a", "b", "c", "d"]).unwrap_or("");
        if !m.take("sync") || !m.take("aligned") {
            return self.err(i, "expected `.sync.aligned`");
        }
        let mut layouts = vec![];
        while let Some(l) = m.take_one_of(&["row", "col"]) {
            layouts.push(l == "row");
        }
        let Some(shape) = shape(m) else {
            return self.err(i, "expected a shape m16n16k16, m32n8k16, m8n32k16, m16n16k8 or m8n8k4");
        };
        let op = match (what, which, &layouts[..]) {
            ("mma", "", &[a, b]) => self.wmma_mma(i, m, shape, a, b)?,
            ("load", "a" | "b" | "c", &[row]) | ("store", "d", &[row]) => {
                self.wmma_copy(i, m, shape, which, row)?
            }
            _ => return self.err(i, "expected `.load.{a,b,c}`, `.store.d` or `.mma`, with their layouts"),
        };
        Ok(Some(op))
    }

    /// Registers of a fragment: of 32 bits, or 64 for f64.
    fn wmma_regs(&mut self, i: &AstInst<'m>, n: usize, f: Fragment, write: bool) -> Res<Vec<Slot>> {
        let wide = f.bytes == 8;
        let want = (f.elements * f.bytes / if wide { 8 } else { 4 }) as usize;
        let o = self.operand(i, n)?.clone();
        let ty = if wide { Ty::F64 } else { Ty::B32 };
        let regs = self.data_regs(i, &o, ty, want, write)?;
        if regs.contains(&SINK) {
            return self.err(i, "`_` cannot be part of a fragment");
        }
        Ok(regs)
    }

    fn wmma_copy(
        &mut self,
        i: &AstInst<'m>,
        m: &mut Mods<'m>,
        shape: [u32; 3],
        which: &str,
        row: bool,
    ) -> Res<Op> {
        let store = which == "d";
        let space = super::memory::space(m);
        self.class = match (space, store) {
            (MSpace::Shared, false) => InstClass::SharedLoad,
            (MSpace::Shared, true) => InstClass::SharedStore,
            (_, false) => InstClass::GlobalLoad,
            (_, true) => InstClass::GlobalStore,
        };
        let ty = m.ty()?;
        let ok = match which {
            "a" | "b" => fits(shape, ty),
            _ => match ty {
                Ty::F64 => shape[2] == 4,
                Ty::F16 | Ty::S32 => shape[2] == 16,
                Ty::F32 => shape[2] != 4,
                _ => false,
            },
        };
        if !ok || !matches!(space, MSpace::Global | MSpace::Shared | MSpace::Generic) {
            return self.err(i, "this combination of shape, type and state space is not supported");
        }
        self.count(i, 2..=3)?;
        let fragment = fragment(shape, which, ty, row);
        let (data, at) = if store { (1, 0) } else { (0, 1) };
        let addr = self.addr(i, &i.ops[at], space)?;
        let regs = self.wmma_regs(i, data, fragment, !store)?;
        let stride = match i.ops.len() {
            3 => self.src(i, 2, Ty::U32)?,
            _ => self.imm(fragment.len as u64, 1),
        };
        let scratch = self.new_slots(1);
        Ok(Op::WmmaCopy(Box::new(WmmaCopy {
            store,
            space,
            addr,
            fragment,
            accumulator: matches!(which, "c" | "d"),
            regs,
            stride,
            scratch,
        })))
    }

    fn wmma_mma(
        &mut self,
        i: &AstInst<'m>,
        m: &mut Mods<'m>,
        shape: [u32; 3],
        a_row: bool,
        b_row: bool,
    ) -> Res<Op> {
        self.class = InstClass::TensorCore;
        m.take("rn");
        let sat = m.take("satfinite");
        let d_ty = m.ty()?;
        let second = m.ty()?;
        // f16 factors are not named.
        let (a_ty, b_ty, c_ty) = match m.ty() {
            Ok(b) => (second, b, m.ty()?),
            Err(_) => (Ty::F16, Ty::F16, second),
        };
        let int = |t: Ty| matches!(t, Ty::U8 | Ty::S8);
        let accumulator = match a_ty {
            Ty::F16 => matches!(d_ty, Ty::F16 | Ty::F32),
            Ty::BF16 | Ty::TF32 => d_ty == Ty::F32,
            Ty::F64 => d_ty == Ty::F64,
            t => int(t) && d_ty == Ty::S32,
        };
        if !fits(shape, a_ty) || a_ty != b_ty || !accumulator || c_ty != d_ty || (sat && !int(a_ty)) {
            return self.err(i, "this combination of shape and types is not supported");
        }
        self.count(i, 4..=4)?;
        let (fa, fb) = (fragment(shape, "a", a_ty, a_row), fragment(shape, "b", b_ty, b_row));
        let fc = fragment(shape, "c", d_ty, true);
        let d = self.wmma_regs(i, 0, fc, true)?;
        let (a, b) = (self.wmma_regs(i, 1, fa, false)?, self.wmma_regs(i, 2, fb, false)?);
        let c = self.wmma_regs(i, 3, fc, false)?;
        self.flops = if a_ty.is_float() { 2 * shape.iter().product::<u32>() / 32 } else { 0 };
        Ok(Op::Wmma(Box::new(Wmma { shape, a_ty, d_ty, sat, fa, fb, fc, a, b, c, d })))
    }
}
