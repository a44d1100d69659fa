//! From syntax to [`Op`]s: resolves registers to slots, checks every opcode and modifier.
//!
//! An opcode or modifier that is not known here is an error, never skipped: a simulator that ignores what it
//! does not know would claim that wrong programs are right.

mod arith;
mod bulk;
mod call;
mod float;
mod image;
mod matrix;
mod memory;
mod module;
mod special;
mod sync;
mod wgmma;
mod wmma;

use crate::ast::{AstInst, Entry, Operand, RegId};
use crate::error::ParseError;
use crate::kernel::*;
use crate::op::*;
use crate::types::Ty;
pub(crate) use module::{Decoded, decode};
pub(crate) use special::is_special;
use std::collections::HashMap;

type Res<T> = Result<T, ParseError>;

/// The modifiers of one instruction; each must be taken by the decoder of its opcode.
pub(crate) struct Mods<'a> {
    list: Vec<Option<&'a str>>,
    inst: &'a AstInst<'a>,
}

impl<'a> Mods<'a> {
    fn new(inst: &'a AstInst<'a>) -> Self {
        Mods { list: inst.mods.iter().map(|m| Some(*m)).collect(), inst }
    }

    pub fn take(&mut self, name: &str) -> bool {
        for m in &mut self.list {
            if *m == Some(name) {
                *m = None;
                return true;
            }
        }
        false
    }

    /// Takes the first modifier that `f` accepts.
    pub fn take_with<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        for m in &mut self.list {
            if let Some(v) = m.and_then(&f) {
                *m = None;
                return Some(v);
            }
        }
        None
    }

    /// Takes every modifier that `f` accepts.
    pub fn take_with_all<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let mut all = vec![];
        while let Some(v) = self.take_with(&f) {
            all.push(v);
        }
        all
    }

    pub fn take_one_of(&mut self, names: &[&'static str]) -> Option<&'static str> {
        self.take_with(|m| names.iter().copied().find(|n| *n == m))
    }

    pub fn ty(&mut self) -> Res<Ty> {
        let inst = self.inst;
        self.take_with(Ty::parse)
            .ok_or_else(|| ParseError::at(inst.pos, format!("`{}` needs a type such as `.u32`", text(inst))))
    }

    pub fn finish(self) -> Res<()> {
        match self.list.iter().flatten().next() {
            None => Ok(()),
            Some(m) => Err(ParseError::at(
                self.inst.pos,
                format!("modifier `.{m}` of `{}` is not supported", text(self.inst)),
            )),
        }
    }
}

pub(crate) fn text(inst: &AstInst<'_>) -> String {
    let mut s = inst.opcode.to_string();
    for m in &inst.mods {
        s.push('.');
        s.push_str(m);
    }
    s
}

#[derive(Clone, Copy)]
enum Sym {
    Shared(u32),
    Local(u32),
    Global(u32),
    Param(u32),
    /// By its place among the module's functions.
    Func(u32),
}

#[derive(Clone, Copy)]
enum Place {
    Slot(Slot),
    Pred(u32),
}

/// State of decoding one kernel.
pub(crate) struct Dec<'m> {
    /// The body that is decoded: the kernel's or a function's.
    entry: &'m Entry<'m>,
    sm: u32,
    suffix: Option<char>,
    places: Vec<Place>,
    symbols: HashMap<&'m str, Sym>,
    /// Where the `.param` variables of the body begin in local memory.
    call_base: u32,
    /// The pc at which the body begins.
    base: u32,
    /// Its number among the kernel's functions, unless it is the kernel.
    func: Option<u32>,
    funcs: Vec<Func>,
    /// From the place among the module's functions to that among the kernel's.
    func_ids: HashMap<u32, u32>,
    consts: HashMap<(ConstVal, Option<ConstVal>), Slot>,
    const_list: Vec<(Slot, ConstVal)>,
    n_slots: u32,
    n_preds: u32,
    /// Predicate slot of the carry flag, made on first use.
    carry: Option<u32>,
    sequential: bool,
    out: Vec<Inst>,
    sites: Vec<Site>,
    /// Class and FLOPs of the instruction being decoded.
    class: InstClass,
    flops: u32,
    /// Registers that each instruction but `wgmma` names, in kernels that have `wgmma`.
    named: Option<Vec<Vec<Slot>>>,
}

impl<'m> Dec<'m> {
    fn op(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        if let Some(op) = self.arith(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.float(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.bulk(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.memory(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.wgmma(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.wmma(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.matrix(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.image(i, m)? {
            return Ok(op);
        }
        if let Some(op) = self.sync(i, m)? {
            return Ok(op);
        }
        Err(ParseError::at(i.pos, format!("opcode `{}` is not supported", text(i))))
    }

    pub(crate) fn err<T>(&self, i: &AstInst<'_>, msg: impl std::fmt::Display) -> Res<T> {
        Err(ParseError::at(i.pos, format!("`{}`: {msg}", text(i))))
    }

    /// Operand `n`, or an error that says how many there should be.
    pub(crate) fn operand<'i>(&self, i: &'i AstInst<'m>, n: usize) -> Res<&'i Operand<'m>> {
        match i.ops.get(n) {
            Some(o) => Ok(o),
            None => self.err(i, format_args!("expected at least {} operands, found {}", n + 1, i.ops.len())),
        }
    }

    pub(crate) fn count(&self, i: &AstInst<'m>, allowed: std::ops::RangeInclusive<usize>) -> Res<()> {
        if allowed.contains(&i.ops.len()) {
            return Ok(());
        }
        let want = if allowed.start() == allowed.end() {
            format!("{}", allowed.start())
        } else {
            format!("{} to {}", allowed.start(), allowed.end())
        };
        self.err(i, format_args!("expected {want} operands, found {}", i.ops.len()))
    }

    fn pred_of(&self, i: &AstInst<'m>, r: RegId) -> Res<u32> {
        match self.places[r.0 as usize] {
            Place::Pred(p) => Ok(p),
            Place::Slot(_) => {
                let bits = self.entry.reg_types[r.0 as usize].bits();
                self.err(i, format_args!("expected a predicate register, found one of {bits} bits"))
            }
        }
    }

    fn new_slots(&mut self, n: u32) -> Slot {
        self.n_slots += n;
        self.n_slots - n
    }

    fn const_slot(&mut self, lo: ConstVal, hi: Option<ConstVal>) -> Slot {
        if let Some(s) = self.consts.get(&(lo, hi)) {
            return *s;
        }
        let s = self.new_slots(1 + hi.is_some() as u32);
        self.const_list.push((s, lo));
        if let Some(h) = hi {
            self.const_list.push((s + 1, h));
        }
        self.consts.insert((lo, hi), s);
        s
    }

    /// A slot (pair, if `slots` is 2) that holds `v`.
    pub(crate) fn imm(&mut self, v: u64, slots: u32) -> Slot {
        match slots {
            1 => self.const_slot(ConstVal::Imm(v as u32), None),
            _ => self.const_slot(ConstVal::Imm(v as u32), Some(ConstVal::Imm((v >> 32) as u32))),
        }
    }

    /// Register `r`, at least as wide as `ty`.
    fn reg_slot(&self, i: &AstInst<'m>, r: RegId, ty: Ty) -> Res<Slot> {
        let (have, want) = (self.entry.reg_types[r.0 as usize].bits(), ty.bits());
        match self.places[r.0 as usize] {
            Place::Slot(s) if have >= want => Ok(s),
            Place::Slot(_) => {
                self.err(i, format_args!("a register of {have} bits does not fit a {want}-bit operand"))
            }
            Place::Pred(_) => self.err(i, "a predicate register does not fit here: expected a data register"),
        }
    }

    /// Source operand of `ty`, whose register has the width of the type (PTX ISA §9.2).
    pub(crate) fn src_of(&mut self, i: &AstInst<'m>, o: &Operand<'m>, ty: Ty) -> Res<Slot> {
        if let Some(have) = self.reg_ty(o)
            && have != Ty::Pred
            && have.bits() != ty.bits()
        {
            let (have, want) = (have.bits(), ty.bits());
            return self
                .err(i, format_args!("expected an operand of {want} bits, found a register of {have}"));
        }
        self.wide_src_of(i, o, ty)
    }

    /// Source operand of `ty`, or a wider register of which the lower bits count: conversions and stores (PTX ISA §9.4.1).
    pub(crate) fn wide_src_of(&mut self, i: &AstInst<'m>, o: &Operand<'m>, ty: Ty) -> Res<Slot> {
        let slots = ty.slots();
        match o {
            Operand::Reg(r) => self.reg_slot(i, *r, ty),
            Operand::Int(v) => {
                let bits = match ty {
                    Ty::F32 => (*v as i64 as f32).to_bits() as u64,
                    Ty::F64 => (*v as i64 as f64).to_bits(),
                    _ if ty.bits() == 16 => v & 0xffff,
                    _ => *v,
                };
                Ok(self.imm(bits, slots))
            }
            Operand::F32(v) => Ok(if ty.bits() == 64 {
                self.imm((f32::from_bits(*v) as f64).to_bits(), 2)
            } else {
                self.imm(*v as u64, 1)
            }),
            Operand::F64(v) => Ok(if ty.bits() == 64 {
                self.imm(*v, 2)
            } else {
                self.imm((f64::from_bits(*v) as f32).to_bits() as u64, 1)
            }),
            Operand::Special(name, comp) => {
                let lo = match special::fixed(name, comp) {
                    Some(s) => ConstVal::Special(s),
                    None if special::clock(name).is_some() => {
                        return self.err(i, format_args!("`%{name}` can only be read by `mov`"));
                    }
                    None if comp.is_empty() => {
                        return self.err(i, format_args!("expected a component such as `%{name}.x`"));
                    }
                    None => return self.err(i, format_args!("`%{name}` has no component `.{comp}`")),
                };
                Ok(self.const_slot(lo, (slots == 2).then_some(ConstVal::Imm(0))))
            }
            Operand::Sym(name, off) => self.symbol_slot(i, name, *off, slots),
            Operand::CallParam(p, off) => {
                let at = self.call_base + self.entry.call_params[*p as usize].0;
                Ok(self.imm((at as i64).wrapping_add(*off) as u64, slots))
            }
            Operand::Not(_) => self.err(i, "`!` belongs before a predicate operand only"),
            _ => self.err(i, "expected a register or a number as source operand"),
        }
    }

    pub(crate) fn src(&mut self, i: &AstInst<'m>, n: usize, ty: Ty) -> Res<Slot> {
        let o = self.operand(i, n)?.clone();
        self.src_of(i, &o, ty)
    }

    fn symbol(&self, i: &AstInst<'m>, name: &str) -> Res<Sym> {
        match self.symbols.get(name) {
            Some(s) => Ok(*s),
            None => self.err(i, format_args!("`{name}` is not declared")),
        }
    }

    fn symbol_slot(&mut self, i: &AstInst<'m>, name: &str, off: i64, slots: u32) -> Res<Slot> {
        Ok(match self.symbol(i, name)? {
            Sym::Shared(a) => self.const_slot(
                ConstVal::Shared((a as i64).wrapping_add(off) as u32),
                (slots == 2).then_some(ConstVal::Imm(0)),
            ),
            Sym::Local(a) | Sym::Param(a) => self.imm((a as i64).wrapping_add(off) as u64, slots),
            Sym::Func(n) => self.imm(function_address(n), slots),
            Sym::Global(var) => self.const_slot(
                ConstVal::Global { var, off, high: false },
                (slots == 2).then_some(ConstVal::Global { var, off, high: true }),
            ),
        })
    }

    /// Destination of `ty`, or a wider register: loads and conversions (PTX ISA §9.4.1).
    pub(crate) fn wide_dst_of(&self, i: &AstInst<'m>, o: &Operand<'m>, ty: Ty) -> Res<Slot> {
        match o {
            Operand::Reg(r) => self.reg_slot(i, *r, ty),
            Operand::Sink => Ok(SINK),
            _ => self.err(i, "expected a register as destination"),
        }
    }

    /// Destination of `ty`, or `_`.
    pub(crate) fn dst_of(&self, i: &AstInst<'m>, o: &Operand<'m>, ty: Ty) -> Res<Slot> {
        if let Some(have) = self.reg_ty(o)
            && have != Ty::Pred
            && have.bits() != ty.bits()
        {
            let (have, want) = (have.bits(), ty.bits());
            return self.err(i, format_args!("the destination has {have} bits, the operation {want}"));
        }
        self.wide_dst_of(i, o, ty)
    }

    /// Destination 0 of `ty`.
    pub(crate) fn dst(&self, i: &AstInst<'m>, ty: Ty) -> Res<Slot> {
        match self.dst_of(i, self.operand(i, 0)?, ty)? {
            SINK => self.err(i, "`_` cannot be the destination here"),
            s => Ok(s),
        }
    }

    pub(crate) fn pdst_of(&self, i: &AstInst<'m>, o: &Operand<'m>) -> Res<Slot> {
        match o {
            Operand::Reg(r) => self.pred_of(i, *r),
            Operand::Sink => Ok(SINK),
            _ => self.err(i, "expected a predicate register as destination"),
        }
    }

    pub(crate) fn psrc_of(&self, i: &AstInst<'m>, o: &Operand<'m>) -> Res<PSrc> {
        match o {
            Operand::Reg(r) => Ok(PSrc::new(self.pred_of(i, *r)?, false)),
            Operand::Not(r) => Ok(PSrc::new(self.pred_of(i, *r)?, true)),
            // Constant predicates: the never-written slot is false.
            Operand::Int(v) => Ok(if *v != 0 { PSrc::TRUE } else { PSrc::FALSE }),
            _ => self.err(i, "expected a predicate register"),
        }
    }

    pub(crate) fn label(&self, i: &AstInst<'m>, name: &str) -> Res<u32> {
        let mut scope = i.scope;
        loop {
            if let Some(at) = self.entry.labels.get(&(scope, name)) {
                return Ok(self.base + *at as u32);
            }
            if scope == 0 {
                return self.err(i, format_args!("label `{name}` is not defined"));
            }
            scope = self.entry.scope_parent[scope as usize];
        }
    }

    pub(crate) fn reg_ty(&self, o: &Operand<'m>) -> Option<Ty> {
        match o {
            Operand::Reg(r) | Operand::Not(r) => Some(self.entry.reg_types[r.0 as usize]),
            _ => None,
        }
    }

    pub(crate) fn alu(&self, k: Alu, d: Slot, a: Slot, b: Slot, c: Slot) -> Op {
        Op::Alu { k, d, a, b, c, e: 0 }
    }
}

/// `.rn`, `.rz`, `.rm`, `.rp` and the integer forms.
pub(crate) fn rounding(m: &mut Mods<'_>) -> Option<Rnd> {
    m.take_with(|s| {
        Some(match s {
            "rn" | "rni" => Rnd::Near,
            "rz" | "rzi" => Rnd::Zero,
            "rm" | "rmi" => Rnd::Down,
            "rp" | "rpi" => Rnd::Up,
            "rna" => Rnd::Away,
            _ => return None,
        })
    })
}
