//! `tex`, `suld.b` and `sust.b` in their simple forms (PTX ISA §9.7.10, §9.7.11).

use super::{Dec, Mods, Res};
use crate::ast::{AstInst, Operand};
use crate::op::*;
use crate::types::Ty;

fn shape(m: &mut Mods<'_>) -> Option<Shape> {
    m.take_with(|s| {
        Some(match s {
            "1d" => Shape { dims: 1, layered: false, cube: false },
            "2d" => Shape { dims: 2, layered: false, cube: false },
            "3d" => Shape { dims: 3, layered: false, cube: false },
            "a1d" => Shape { dims: 1, layered: true, cube: false },
            "a2d" => Shape { dims: 2, layered: true, cube: false },
            "cube" => Shape { dims: 3, layered: false, cube: true },
            _ => return None,
        })
    })
}

impl<'m> Dec<'m> {
    pub(super) fn image(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        match i.opcode {
            "tex" => self.tex(i, m).map(Some),
            "suld" | "sust" => self.surface(i, m).map(Some),
            _ => Ok(None),
        }
    }

    /// `[handle, {coordinates}]`
    fn image_operand(
        &mut self,
        i: &AstInst<'m>,
        at: usize,
        shape: Shape,
        ty: Ty,
    ) -> Res<(Slot, Slot, Vec<Slot>)> {
        let Operand::Addr(handle, 0, rest) = self.operand(i, at)?.clone() else {
            return self.err(i, "expected `[handle, {coordinates}]`");
        };
        let list = match &rest[..] {
            [Operand::Vec(list)] => list.clone(),
            [one @ Operand::Reg(_)] => vec![one.clone()],
            [_, _] => {
                return self
                    .err(i, "separate samplers are not supported: expected `[handle, {coordinates}]`");
            }
            _ => return self.err(i, "expected `[handle, {coordinates}]`"),
        };
        let handle = self.src_of(i, &handle, Ty::U64)?;
        let mut list = list.into_iter();
        let mut layer = SINK;
        if shape.layered {
            let Some(o) = list.next() else { return self.err(i, "expected the layer") };
            layer = self.src_of(i, &o, Ty::U32)?;
        }
        let mut coords = vec![];
        for o in list.take(shape.dims) {
            coords.push(self.src_of(i, &o, ty)?);
        }
        if coords.len() != shape.dims {
            return self.err(i, format_args!("expected {} coordinates", shape.dims));
        }
        Ok((handle, layer, coords))
    }

    fn tex(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::GlobalLoad;
        // Images have one level.
        let level = m.take("level");
        let (Some(shape), true) = (shape(m), m.take("v4")) else {
            return self.err(i, "expected `.1d`, `.2d`, `.3d`, `.a1d`, `.a2d` or `.cube`, and `.v4`");
        };
        let (d_ty, c_ty) = (m.ty()?, m.ty()?);
        if !matches!(d_ty, Ty::F32 | Ty::U32 | Ty::S32) || !matches!(c_ty, Ty::F32 | Ty::S32) {
            return self.err(i, "expected results `.f32`, `.u32` or `.s32` and coordinates `.f32` or `.s32`");
        }
        if shape.cube && c_ty != Ty::F32 {
            return self.err(i, "a cube is addressed by `.f32` directions");
        }
        self.count(i, 2 + level as usize..=2 + level as usize)?;
        let d = self.regs32(i, 0, true)?;
        if d.len() != 4 {
            return self.err(i, format_args!("expected 4 results, found {}", d.len()));
        }
        let (handle, layer, coords) = self.image_operand(i, 1, shape, c_ty)?;
        let float = c_ty == Ty::F32;
        Ok(Op::Tex(Box::new(Tex { shape, handle, layer, coords, float, d, d_float: d_ty == Ty::F32 })))
    }

    fn surface(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        let store = i.opcode == "sust";
        self.class = if store { InstClass::GlobalStore } else { InstClass::GlobalLoad };
        if !m.take("b") {
            return self.err(i, "only the unformatted `.b` is supported");
        }
        let Some(shape) = shape(m).filter(|s| !s.cube) else {
            return self.err(i, "expected `.1d`, `.2d`, `.3d`, `.a1d` or `.a2d`");
        };
        super::memory::cache_hints(m);
        let n = m
            .take_with(|s| {
                Some(if s == "v2" {
                    2
                } else if s == "v4" {
                    4
                } else {
                    return None;
                })
            })
            .unwrap_or(1);
        let ty = m.ty()?;
        let outside = match m.take_one_of(&["trap", "clamp", "zero"]) {
            Some("clamp") => Outside::Clamp,
            Some("zero") => Outside::Zero,
            _ => Outside::Trap,
        };
        if !matches!(ty, Ty::B8 | Ty::B16 | Ty::B32 | Ty::B64) || ty.bytes() * n > 16 {
            return self.err(i, "expected `.b8` to `.b64`, at most 16 bytes in all");
        }
        self.count(i, 2..=2)?;
        let (data, at) = if store { (1, 0) } else { (0, 1) };
        let regs = self.data_regs(i, &i.ops[data], ty, n as usize, !store)?;
        let (handle, layer, coords) = self.image_operand(i, at, shape, Ty::S32)?;
        Ok(Op::Surface(Box::new(Surface {
            store,
            shape,
            handle,
            layer,
            coords,
            width: ty.bytes(),
            regs,
            outside,
        })))
    }
}
