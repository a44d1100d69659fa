//! Integer, logic, move, compare and select instructions.

use super::{Dec, Mods, Res, special};
use crate::ast::{AstInst, Operand};
use crate::op::*;
use crate::types::Ty;

fn width(ty: Ty) -> Option<W> {
    Some(match ty.bits() {
        16 => W::W16,
        32 => W::W32,
        64 => W::W64,
        _ => return None,
    })
}

impl<'m> Dec<'m> {
    fn w(&self, i: &AstInst<'m>, ty: Ty) -> Res<W> {
        match width(ty) {
            Some(w) if !ty.is_float() => Ok(w),
            _ => self.err(i, "this type is not supported here"),
        }
    }

    /// `Ok(None)`: not one of ours.
    pub(super) fn arith(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        let float = i.mods.iter().any(|t| Ty::parse(t).is_some_and(Ty::is_float));
        self.class = InstClass::Integer;
        let op = match i.opcode {
            "mov" => return self.mov(i, m).map(Some),
            "add" | "sub" if !float => {
                let sub = i.opcode == "sub";
                if m.take("cc") {
                    return self.carry(i, m, sub, false, true).map(Some);
                }
                let sat = m.take("sat");
                let ty = m.ty()?;
                self.count(i, 3..=3)?;
                if matches!(ty, Ty::U16x2 | Ty::S16x2) && !sub && !sat {
                    return self.three(i, ty, Alu::Half2(0, false)).map(Some);
                }
                let w = self.w(i, ty)?;
                let k = match (sub, sat) {
                    (_, true) if ty != Ty::S32 => return self.err(i, "`.sat` needs `.s32`"),
                    (false, true) => Alu::AddSat32,
                    (true, true) => Alu::SubSat32,
                    (false, false) => Alu::Add(w),
                    (true, false) => Alu::Sub(w),
                };
                self.three(i, ty, k)?
            }
            "addc" | "subc" => {
                let cc = m.take("cc");
                return self.carry(i, m, i.opcode == "subc", true, cc).map(Some);
            }
            "madc" => {
                let cc = m.take("cc");
                return self.mad_carry(i, m, true, cc).map(Some);
            }
            "mad" if !float && m.take("cc") => return self.mad_carry(i, m, false, true).map(Some),
            "mul" | "mad" if !float => return self.mul(i, m).map(Some),
            "mul24" | "mad24" => {
                if !m.take("lo") {
                    return self.err(i, "only `.lo` is supported");
                }
                let ty = m.ty()?;
                let s = ty.is_signed();
                if i.opcode == "mul24" {
                    self.three(i, ty, Alu::Mul24(s))?
                } else {
                    self.four(i, ty, Alu::Mad24(s))?
                }
            }
            "div" | "rem" if !float => {
                let ty = m.ty()?;
                let (w, s) = (self.w(i, ty)?, ty.is_signed());
                self.three(i, ty, if i.opcode == "div" { Alu::Div(w, s) } else { Alu::Rem(w, s) })?
            }
            "min" | "max" if !float => {
                let relu = m.take("relu");
                let ty = m.ty()?;
                if relu && ty != Ty::S32 {
                    return self.err(i, "`.relu` needs `.s32` here");
                }
                let max = i.opcode == "max";
                if matches!(ty, Ty::U16x2 | Ty::S16x2) {
                    return self.three(i, ty, Alu::Half2(1 + max as u8, ty == Ty::S16x2)).map(Some);
                }
                let (w, s) = (self.w(i, ty)?, ty.is_signed());
                if relu {
                    self.three(i, ty, if max { Alu::MaxRelu } else { Alu::MinRelu })?
                } else {
                    self.three(i, ty, if max { Alu::Max(w, s) } else { Alu::Min(w, s) })?
                }
            }
            "abs" | "neg" if !float => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.two(i, ty, ty, if i.opcode == "abs" { Alu::Abs(w) } else { Alu::NegI(w) })?
            }
            "and" | "or" | "xor" => {
                let ty = m.ty()?;
                if ty == Ty::Pred {
                    self.class = InstClass::Compare;
                    let bop = match i.opcode {
                        "and" => BoolOp::And,
                        "or" => BoolOp::Or,
                        _ => BoolOp::Xor,
                    };
                    self.count(i, 3..=3)?;
                    let (d, a, b) = (
                        self.pdst_of(i, &i.ops[0])?,
                        self.psrc_of(i, &i.ops[1])?,
                        self.psrc_of(i, &i.ops[2])?,
                    );
                    return Ok(Some(Op::PredLogic { op: bop, d, a, b }));
                }
                let w = self.w(i, ty)?;
                self.three(
                    i,
                    ty,
                    match i.opcode {
                        "and" => Alu::And(w),
                        "or" => Alu::Or(w),
                        _ => Alu::Xor(w),
                    },
                )?
            }
            "not" | "cnot" => {
                let ty = m.ty()?;
                if ty == Ty::Pred {
                    self.class = InstClass::Compare;
                    self.count(i, 2..=2)?;
                    let (d, a) = (self.pdst_of(i, &i.ops[0])?, self.psrc_of(i, &i.ops[1])?);
                    return Ok(Some(Op::PredLogic { op: BoolOp::Xor, d, a, b: PSrc::TRUE }));
                }
                let w = self.w(i, ty)?;
                self.two(i, ty, ty, if i.opcode == "not" { Alu::Not(w) } else { Alu::Cnot(w) })?
            }
            "shl" | "shr" => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.count(i, 3..=3)?;
                let (d, a, b) = (self.dst(i, ty)?, self.src(i, 1, ty)?, self.src(i, 2, Ty::U32)?);
                let k = if i.opcode == "shl" { Alu::Shl(w) } else { Alu::Shr(w, ty.is_signed()) };
                self.alu(k, d, a, b, 0)
            }
            "lop3" => {
                if m.ty()?.bits() != 32 {
                    return self.err(i, "only `.b32` is supported");
                }
                self.count(i, 5..=5)?;
                let Operand::Int(t) = i.ops[4] else { return self.err(i, "expected a constant truth table") };
                let (d, a) = (self.dst(i, Ty::B32)?, self.src(i, 1, Ty::B32)?);
                let (b, c) = (self.src(i, 2, Ty::B32)?, self.src(i, 3, Ty::B32)?);
                self.alu(Alu::Lop3(t as u8), d, a, b, c)
            }
            "bfe" => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.count(i, 4..=4)?;
                let (d, a) = (self.dst(i, ty)?, self.src(i, 1, ty)?);
                let (b, c) = (self.src(i, 2, Ty::U32)?, self.src(i, 3, Ty::U32)?);
                self.alu(Alu::Bfe(w, ty.is_signed()), d, a, b, c)
            }
            "bfi" => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.count(i, 5..=5)?;
                let (d, a, b) = (self.dst(i, ty)?, self.src(i, 1, ty)?, self.src(i, 2, ty)?);
                let (c, e) = (self.src(i, 3, Ty::U32)?, self.src(i, 4, Ty::U32)?);
                Op::Alu { k: Alu::Bfi(w), d, a, b, c, e }
            }
            "bfind" => {
                let shift = m.take("shiftamt");
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.two(i, Ty::U32, ty, Alu::Bfind(w, ty.is_signed(), shift))?
            }
            "brev" => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.two(i, ty, ty, Alu::Brev(w))?
            }
            "fns" => {
                if m.ty()? != Ty::B32 {
                    return self.err(i, "only `.b32` is supported");
                }
                self.count(i, 4..=4)?;
                let (d, mask) = (self.dst(i, Ty::B32)?, self.src(i, 1, Ty::B32)?);
                let (base, offset) = (self.src(i, 2, Ty::B32)?, self.src(i, 3, Ty::S32)?);
                self.alu(Alu::Fns, d, mask, base, offset)
            }
            "clz" | "popc" => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.two(i, Ty::U32, ty, if i.opcode == "clz" { Alu::Clz(w) } else { Alu::Popc(w) })?
            }
            "prmt" => {
                m.ty()?;
                let mode = m.take_one_of(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]);
                let n = match mode {
                    None => 0,
                    Some("f4e") => 1,
                    Some("b4e") => 2,
                    Some("rc8") => 3,
                    Some("ecl") => 4,
                    Some("ecr") => 5,
                    _ => 6,
                };
                self.four(i, Ty::B32, if n == 0 { Alu::Prmt } else { Alu::PrmtMode(n) })?
            }
            "shf" => {
                let left = match m.take_one_of(&["l", "r"]) {
                    Some(s) => s == "l",
                    None => return self.err(i, "expected `.l` or `.r`"),
                };
                let wrap = match m.take_one_of(&["wrap", "clamp"]) {
                    Some(s) => s == "wrap",
                    None => return self.err(i, "expected `.wrap` or `.clamp`"),
                };
                m.ty()?;
                self.four(i, Ty::B32, Alu::Shf(left, wrap))?
            }
            "sad" => {
                let ty = m.ty()?;
                let w = self.w(i, ty)?;
                self.four(i, ty, Alu::Sad(w, ty.is_signed()))?
            }
            "szext" | "bmsk" => {
                let wrap = match m.take_one_of(&["wrap", "clamp"]) {
                    Some(s) => s == "wrap",
                    None => return self.err(i, "expected `.wrap` or `.clamp`"),
                };
                let ty = m.ty()?;
                let k = if i.opcode == "szext" { Alu::Szext(wrap, ty.is_signed()) } else { Alu::Bmsk(wrap) };
                self.three(i, Ty::B32, k)?
            }
            "dp4a" => {
                let a = m.ty()?;
                let b = m.ty()?;
                self.four(i, Ty::B32, Alu::Dp4a(a.is_signed(), b.is_signed()))?
            }
            "setp" | "set" => return self.setp(i, m).map(Some),
            "selp" => {
                self.class = InstClass::Compare;
                let ty = m.ty()?;
                self.count(i, 4..=4)?;
                let (d, a, b) = (self.dst(i, ty)?, self.src(i, 1, ty)?, self.src(i, 2, ty)?);
                Op::Selp { slots: ty.slots(), d, a, b, p: self.psrc_of(i, &i.ops[3])? }
            }
            "slct" => {
                self.class = InstClass::Compare;
                m.take("ftz");
                let ty = m.ty()?;
                let cty = m.ty()?;
                self.count(i, 4..=4)?;
                let (d, a, b) = (self.dst(i, ty)?, self.src(i, 1, ty)?, self.src(i, 2, ty)?);
                let c = self.src(i, 3, cty)?;
                Op::Slct { slots: ty.slots(), float: cty == Ty::F32, d, a, b, c }
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn two(&mut self, i: &AstInst<'m>, dty: Ty, sty: Ty, k: Alu) -> Res<Op> {
        self.count(i, 2..=2)?;
        let (d, a) = (self.dst(i, dty)?, self.src(i, 1, sty)?);
        Ok(self.alu(k, d, a, a, a))
    }

    pub(super) fn three(&mut self, i: &AstInst<'m>, ty: Ty, k: Alu) -> Res<Op> {
        self.count(i, 3..=3)?;
        let (d, a, b) = (self.dst(i, ty)?, self.src(i, 1, ty)?, self.src(i, 2, ty)?);
        Ok(self.alu(k, d, a, b, a))
    }

    pub(super) fn four(&mut self, i: &AstInst<'m>, ty: Ty, k: Alu) -> Res<Op> {
        self.count(i, 4..=4)?;
        let (d, a) = (self.dst(i, ty)?, self.src(i, 1, ty)?);
        let (b, c) = (self.src(i, 2, ty)?, self.src(i, 3, ty)?);
        Ok(self.alu(k, d, a, b, c))
    }

    fn carry(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>, sub: bool, cin: bool, cout: bool) -> Res<Op> {
        let ty = m.ty()?;
        if !matches!(ty.bits(), 32 | 64) {
            return self.err(i, "carries need a 32- or 64-bit type");
        }
        self.count(i, 3..=3)?;
        let (d, a, b) = (self.dst(i, ty)?, self.src(i, 1, ty)?, self.src(i, 2, ty)?);
        let cc = self.carry_flag();
        Ok(Op::Carry { sub, wide: ty.bits() == 64, cin, cout, cc, d, a, b })
    }

    fn carry_flag(&mut self) -> Slot {
        *self.carry.get_or_insert_with(|| {
            self.n_preds += 1;
            self.n_preds - 1
        })
    }

    fn mad_carry(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>, cin: bool, cout: bool) -> Res<Op> {
        let hi = match m.take_one_of(&["lo", "hi"]) {
            Some(part) => part == "hi",
            None => return self.err(i, "expected `.lo` or `.hi`"),
        };
        let ty = m.ty()?;
        if !matches!(ty.bits(), 32 | 64) || ty.is_float() {
            return self.err(i, "carries need a 32- or 64-bit integer type");
        }
        self.count(i, 4..=4)?;
        let (d, a) = (self.dst(i, ty)?, self.src(i, 1, ty)?);
        let (b, c) = (self.src(i, 2, ty)?, self.src(i, 3, ty)?);
        let cc = self.carry_flag();
        Ok(Op::MadCarry { hi, signed: ty.is_signed(), wide: ty.bits() == 64, cin, cout, cc, d, a, b, c })
    }

    fn mul(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        let mad = i.opcode == "mad";
        let Some(part) = m.take_one_of(&["lo", "hi", "wide"]) else {
            return self.err(i, "expected `.lo`, `.hi` or `.wide`");
        };
        let ty = m.ty()?;
        let (w, s) = (self.w(i, ty)?, ty.is_signed());
        if part == "wide" {
            let wide = match (w, s) {
                (W::W16, false) => Ty::U32,
                (W::W16, true) => Ty::S32,
                (W::W32, false) => Ty::U64,
                (W::W32, true) => Ty::S64,
                _ => return self.err(i, "`.wide` needs a 16- or 32-bit type"),
            };
            self.count(i, 3 + mad as usize..=3 + mad as usize)?;
            let (d, a, b) = (self.dst(i, wide)?, self.src(i, 1, ty)?, self.src(i, 2, ty)?);
            let c = if mad { self.src(i, 3, wide)? } else { 0 };
            return Ok(self.alu(if mad { Alu::MadWide(w, s) } else { Alu::MulWide(w, s) }, d, a, b, c));
        }
        match (mad, part) {
            (false, "lo") => self.three(i, ty, Alu::MulLo(w)),
            (false, _) => self.three(i, ty, Alu::MulHi(w, s)),
            (true, "lo") => self.four(i, ty, Alu::MadLo(w)),
            (true, _) => self.four(i, ty, Alu::MadHi(w, s)),
        }
    }

    fn mov(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        let ty = m.ty()?;
        self.count(i, 2..=2)?;
        if ty == Ty::Pred {
            self.class = InstClass::Compare;
            let (d, a) = (self.pdst_of(i, &i.ops[0])?, self.psrc_of(i, &i.ops[1])?);
            return Ok(Op::PredLogic { op: BoolOp::And, d, a, b: PSrc::TRUE });
        }
        match (&i.ops[0], &i.ops[1]) {
            (Operand::Vec(_), Operand::Vec(_)) => self.err(i, "only one side may be a vector"),
            (Operand::Vec(parts), src) => {
                let n = parts.len() as u32;
                let (part, part_ty) = self.part(i, ty, n)?;
                let a = self.src_of(i, src, ty)?;
                let mut regs = vec![];
                for p in parts {
                    regs.push(self.dst_of(i, p, part_ty)?);
                }
                Ok(match (ty.bits(), n, regs[0] == SINK, regs[1] == SINK) {
                    (32, 2, false, true) => self.alu(Alu::Lo16, regs[0], a, a, a),
                    (32, 2, true, false) => self.alu(Alu::Hi16, regs[1], a, a, a),
                    _ => Op::Unpack { from: a, width: part, regs },
                })
            }
            (_, Operand::Vec(parts)) => {
                let n = parts.len() as u32;
                let (part, part_ty) = self.part(i, ty, n)?;
                let d = self.dst(i, ty)?;
                let mut regs = vec![];
                for p in parts {
                    regs.push(self.src_of(i, p, part_ty)?);
                }
                Ok(match (ty.bits(), n) {
                    (32, 2) => self.alu(Alu::Pack16, d, regs[0], regs[1], 0),
                    (64, 2) => self.alu(Alu::Pack32, d, regs[0], regs[1], 0),
                    _ => Op::Pack { d, width: part, regs },
                })
            }
            (_, Operand::Special(name, _)) if special::clock(name).is_some() => {
                let d = self.dst(i, ty)?;
                let (wide, hi) = special::clock(name).unwrap_or_default();
                if wide != (ty.bits() == 64) {
                    return self.err(i, format_args!("`%{name}` has {} bits", if wide { 64 } else { 32 }));
                }
                Ok(Op::Clock { d, wide, hi })
            }
            (_, src) => {
                let d = self.dst(i, ty)?;
                let a = self.src_of(i, src, ty)?;
                Ok(match ty.bits() {
                    128 => Op::Pack { d, width: 64, regs: vec![a, a + 2] },
                    64 => self.alu(Alu::Mov64, d, a, a, a),
                    _ => self.alu(Alu::Mov32, d, a, a, a),
                })
            }
        }
    }

    /// Width and type of each of the `n` registers that make up one of `ty`.
    fn part(&self, i: &AstInst<'m>, ty: Ty, n: u32) -> Res<(u32, Ty)> {
        match (n, ty.bits() / n.max(1)) {
            (2 | 4, 8) => Ok((8, Ty::B8)),
            (2 | 4, 16) => Ok((16, Ty::B16)),
            (2 | 4, 32) => Ok((32, Ty::B32)),
            (2, 64) => Ok((64, Ty::B64)),
            _ => self.err(i, "expected 2 or 4 registers that make up the type"),
        }
    }

    fn setp(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Compare;
        let Some(name) = m.take_one_of(&[
            "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
            "geu", "num", "nan",
        ]) else {
            return self.err(i, "expected a comparison such as `.lt`");
        };
        let bop = m.take_with(|s| {
            Some(match s {
                "and" => BoolOp::And,
                "or" => BoolOp::Or,
                "xor" => BoolOp::Xor,
                _ => return None,
            })
        });
        let ftz = m.take("ftz");
        let set = i.opcode == "set";
        let dty = if set { m.ty()? } else { Ty::Pred };
        let mut ty = m.ty()?;
        let cmp = match name {
            "eq" => Cmp::Eq,
            "ne" => Cmp::Ne,
            "lt" | "lo" => Cmp::Lt,
            "le" | "ls" => Cmp::Le,
            "gt" | "hi" => Cmp::Gt,
            "ge" | "hs" => Cmp::Ge,
            "equ" => Cmp::Equ,
            "neu" => Cmp::Neu,
            "ltu" => Cmp::Ltu,
            "leu" => Cmp::Leu,
            "gtu" => Cmp::Gtu,
            "geu" => Cmp::Geu,
            "num" => Cmp::Num,
            _ => Cmp::Nan,
        };
        if matches!(ty, Ty::F16x2 | Ty::BF16x2) {
            return self.err(i, "packed comparisons are not supported");
        }
        if !ty.is_float() && cmp as u8 > Cmp::Ge as u8 {
            return self.err(i, "this comparison needs a floating-point type");
        }
        if matches!(name, "lo" | "ls" | "hi" | "hs") {
            ty = match ty.bits() {
                16 => Ty::U16,
                32 => Ty::U32,
                _ => Ty::U64,
            };
        }
        let want = 3 + bop.is_some() as usize;
        self.count(i, want..=want)?;
        let (a, b) = (self.src(i, 1, ty)?, self.src(i, 2, ty)?);
        let c = if bop.is_some() { self.psrc_of(i, &i.ops[3])? } else { PSrc::TRUE };
        let has_c = bop.is_some();
        let bop = bop.unwrap_or(BoolOp::And);
        if set {
            if !matches!(dty, Ty::U32 | Ty::S32 | Ty::F32) {
                return self.err(i, "expected `.u32`, `.s32` or `.f32` as result");
            }
            let d = self.dst(i, dty)?;
            return Ok(Op::Set { cmp, ty, ftz, float: dty == Ty::F32, d, a, b, bop, c, has_c });
        }
        let (d, q) = match &i.ops[0] {
            Operand::Pair(d, q) => (self.pdst_of(i, d)?, self.pdst_of(i, q)?),
            d => (self.pdst_of(i, d)?, SINK),
        };
        Ok(Op::Setp { cmp, ty, ftz, d, q, a, b, bop, c, has_c })
    }
}
