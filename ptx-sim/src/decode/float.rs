//! Floating-point arithmetic and conversions.

use super::{Dec, Mods, Res, rounding};
use crate::ast::AstInst;
use crate::op::*;
use crate::types::Ty;

impl<'m> Dec<'m> {
    pub(super) fn float(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        let op = match i.opcode {
            "add" => FOp::Add,
            "sub" => FOp::Sub,
            "mul" => FOp::Mul,
            "fma" | "mad" => FOp::Fma,
            "min" => FOp::Min,
            "max" => FOp::Max,
            "abs" => FOp::Abs,
            "neg" => FOp::Neg,
            "div" => FOp::Div,
            "rcp" => FOp::Rcp,
            "sqrt" => FOp::Sqrt,
            "rsqrt" => FOp::Rsqrt,
            "ex2" => FOp::Ex2,
            "lg2" => FOp::Lg2,
            "tanh" => FOp::Tanh,
            "sin" => FOp::Sin,
            "cos" => FOp::Cos,
            "copysign" => FOp::Copysign,
            "testp" => return self.testp(i, m).map(Some),
            "cvt" => return self.cvt(i, m).map(Some),
            _ => return Ok(None),
        };
        self.class = if op == FOp::Fma { InstClass::Fma } else { InstClass::Float };
        // `.approx` and `.full` results are those of the correctly rounded function: within their bounds.
        let approx = m.take("approx") || m.take("full");
        let rnd = rounding(m);
        let fl = Fl {
            rnd: rnd.unwrap_or(Rnd::Near),
            ftz: m.take("ftz"),
            sat: m.take("sat"),
            relu: m.take("relu"),
            nan: m.take("NaN"),
            xorsign: m.take("xorsign") || m.take("xorsign::abs"),
        };
        if fl.xorsign {
            m.take("abs");
        }
        if fl.rnd == Rnd::Away {
            return self.err(i, "`.rna` does not round arithmetic");
        }
        let ty = m.ty()?;
        let needs = matches!(op, FOp::Fma) || (matches!(op, FOp::Div | FOp::Rcp | FOp::Sqrt) && !approx);
        if needs && rnd.is_none() {
            return self.err(i, "expected a rounding mode such as `.rn`");
        }
        if matches!(op, FOp::Rsqrt | FOp::Ex2 | FOp::Lg2 | FOp::Tanh | FOp::Sin | FOp::Cos) && !approx {
            return self.err(i, "expected `.approx`");
        }
        let transcendental =
            matches!(op, FOp::Rsqrt | FOp::Lg2 | FOp::Sin | FOp::Cos | FOp::Rcp | FOp::Sqrt | FOp::Div);
        if matches!(ty, Ty::F16 | Ty::F16x2 | Ty::BF16 | Ty::BF16x2)
            && (transcendental || fl.rnd != Rnd::Near || op == FOp::Copysign)
        {
            return self.err(i, "not defined for 16-bit types");
        }
        if ty == Ty::F64 && (fl.rnd != Rnd::Near || fl.sat || fl.nan) {
            return self.err(i, "only round-to-nearest without modifiers is supported for `.f64`");
        }
        if fl.relu && (op != FOp::Fma || ty == Ty::F32) {
            return self.err(i, "`.relu` needs a 16-bit `fma`");
        }
        let pair = matches!(ty, Ty::F16x2 | Ty::BF16x2) as u32;
        self.flops = match op {
            FOp::Fma => 2,
            FOp::Abs | FOp::Neg | FOp::Copysign | FOp::Min | FOp::Max => 0,
            _ => 1,
        } << pair;
        let k = match (ty, op) {
            (Ty::F32, FOp::Fma) if fl.plain() => Alu::FmaF32(fl.ftz),
            (Ty::F32, FOp::Add) if fl.plain() => Alu::AddF32(fl.ftz),
            (Ty::F32, FOp::Mul) if fl.plain() => Alu::MulF32(fl.ftz),
            (Ty::F32, _) => Alu::F32(op, fl),
            (Ty::F64, _) => Alu::F64(op, fl),
            (Ty::F16, _) => Alu::F16(op, fl),
            (Ty::F16x2, _) => Alu::F16x2(op, fl),
            (Ty::BF16, _) => Alu::BF16(op, fl),
            (Ty::BF16x2, _) => Alu::BF16x2(op, fl),
            _ => return self.err(i, "this type is not supported"),
        };
        let op = match op {
            FOp::Fma => self.four(i, ty, k)?,
            FOp::Add | FOp::Sub | FOp::Mul | FOp::Min | FOp::Max | FOp::Div | FOp::Copysign => {
                self.three(i, ty, k)?
            }
            _ => {
                self.count(i, 2..=2)?;
                let (d, a) = (self.dst(i, ty)?, self.src(i, 1, ty)?);
                self.alu(k, d, a, a, a)
            }
        };
        Ok(Some(op))
    }

    fn testp(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Compare;
        let names = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
        let Some(name) = m.take_one_of(&names) else { return self.err(i, "expected e.g. `.notanumber`") };
        let kind = names.iter().position(|n| *n == name).unwrap_or(0) as u8;
        let ty = m.ty()?;
        self.count(i, 2..=2)?;
        let (d, a) = (self.pdst_of(i, &i.ops[0])?, self.src(i, 1, ty)?);
        Ok(self.alu(Alu::Testp(kind, ty == Ty::F64), d, a, a, a))
    }

    fn cvt(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Conversion;
        let integral = i.mods.iter().any(|s| matches!(*s, "rni" | "rzi" | "rmi" | "rpi"));
        let rnd = rounding(m);
        let fl = Fl {
            rnd: rnd.unwrap_or(Rnd::Near),
            ftz: m.take("ftz"),
            sat: m.take("sat") || m.take("satfinite"),
            relu: m.take("relu"),
            nan: false,
            xorsign: false,
        };
        let to = m.ty()?;
        let from = m.ty()?;
        if to == Ty::Pred || from == Ty::Pred {
            return self.err(i, "predicates cannot be converted");
        }
        // Packed forms.
        if i.ops.len() == 3 {
            if from != Ty::F32 || !matches!(to, Ty::F16x2 | Ty::BF16x2 | Ty::E4M3x2 | Ty::E5M2x2) {
                return self.err(i, "two sources need `.f32` and a packed result");
            }
            if rnd.is_none() {
                return self.err(i, "expected `.rn` or `.rz`");
            }
            let d = self.dst(i, to)?;
            let (a, b) = (self.src(i, 1, Ty::F32)?, self.src(i, 2, Ty::F32)?);
            return Ok(self.alu(Alu::CvtPack(to, fl), d, a, b, 0));
        }
        self.count(i, 2..=2)?;
        match (to, from) {
            (Ty::F16x2, Ty::E4M3x2 | Ty::E5M2x2) => {
                let (d, a) = (self.dst(i, to)?, self.src(i, 1, Ty::B16)?);
                return Ok(self.alu(Alu::CvtFp8ToF16x2(from == Ty::E5M2x2, fl), d, a, a, a));
            }
            (Ty::E4M3x2 | Ty::E5M2x2, Ty::F16x2) => {
                let (d, a) = (self.dst(i, to)?, self.src(i, 1, Ty::B32)?);
                return Ok(self.alu(Alu::CvtF16x2ToFp8(to == Ty::E5M2x2, fl), d, a, a, a));
            }
            _ => {}
        }
        let bad = |t: Ty| {
            matches!(
                t,
                Ty::F16x2
                    | Ty::BF16x2
                    | Ty::E4M3
                    | Ty::E5M2
                    | Ty::E4M3x2
                    | Ty::E5M2x2
                    | Ty::U16x2
                    | Ty::S16x2
                    | Ty::B128
            )
        };
        if bad(to) || bad(from) || from == Ty::TF32 {
            return self.err(i, "this pair of types is not supported");
        }
        let needs_rnd = match (from.is_float(), to.is_float()) {
            (true, true) => {
                to.bits() < from.bits() || to == Ty::TF32 || (to.bits() == from.bits() && to != from)
            }
            (a, b) => a != b,
        };
        if needs_rnd && rnd.is_none() {
            return self.err(i, "expected a rounding mode such as `.rn` or `.rzi`");
        }
        if from.is_float() && !to.is_float() && !integral {
            return self.err(i, "a conversion to an integer needs `.rni`, `.rzi`, `.rmi` or `.rpi`");
        }
        // Destination and source registers may be wider than the types.
        let d = match self.wide_dst_of(i, &i.ops[0], to)? {
            SINK => return self.err(i, "`_` cannot be the destination here"),
            d => d,
        };
        let a = self.wide_src_of(i, &i.ops[1], from)?;
        if from == to && to.is_float() {
            if !integral {
                // `cvt.f32.f32` with .sat or .ftz.
                return Ok(self.alu(Alu::Cvt(from, to, fl), d, a, a, a));
            }
            return Ok(match to {
                Ty::F32 => self.alu(Alu::RoundF32(fl), d, a, a, a),
                Ty::F64 => self.alu(Alu::RoundF64(fl), d, a, a, a),
                Ty::F16 => self.alu(Alu::RoundF16(fl), d, a, a, a),
                _ => return self.err(i, "rounding to an integer is not supported for this type"),
            });
        }
        // An integer result extends to the destination register's width.
        let reg = self.reg_ty(&i.ops[0]).unwrap_or(to);
        if !to.is_float() && reg.bits() == 64 && to.bits() < 64 {
            return self.err(i, "a 64-bit destination needs a 64-bit type");
        }
        Ok(self.alu(Alu::Cvt(from, to, fl), d, a, a, a))
    }
}
