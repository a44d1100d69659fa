//! Loads, stores, atomics, address conversions and the non-bulk asynchronous copies.

use super::{Dec, Mods, Res, Sym};
use crate::ast::{AstInst, Operand};
use crate::kernel::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::op::*;
use crate::race::Scope;
use crate::types::Ty;

/// The state space named by a modifier.
pub(super) fn space(m: &mut Mods<'_>) -> MSpace {
    m.take_with(|s| {
        Some(match s {
            "global" | "const" => MSpace::Global,
            "shared" | "shared::cta" | "shared::cluster" => MSpace::Shared,
            "local" => MSpace::Local,
            "param" | "param::entry" => MSpace::Param,
            "param::func" => MSpace::Local,
            _ => return None,
        })
    })
    .unwrap_or(MSpace::Generic)
}

/// Memory ordering, scope and cache hints. The hints have no effect here.
fn ordering(m: &mut Mods<'_>) -> (Sem, Scope) {
    let mut sem = m
        .take_with(|s| {
            Some(match s {
                "weak" => Sem::Weak,
                "volatile" => Sem::Volatile,
                "relaxed" => Sem::Relaxed,
                "acquire" => Sem::Acquire,
                "release" => Sem::Release,
                "acq_rel" => Sem::AcqRel,
                "mmio" => Sem::Volatile,
                _ => return None,
            })
        })
        .unwrap_or_default();
    if sem == Sem::Volatile {
        sem = m.take_one_of(&["relaxed"]).map_or(sem, |_| Sem::Relaxed);
    }
    (sem, scope(m))
}

/// `.cta`, `.cluster`, `.gpu` or `.sys`; the default is `.gpu`, which also contains `.sys` here.
pub(super) fn scope(m: &mut Mods<'_>) -> Scope {
    match m.take_one_of(&["cta", "cluster", "gpu", "sys"]) {
        Some("cta") => Scope::Cta,
        Some("cluster") => Scope::Cluster,
        _ => Scope::Gpu,
    }
}

/// Cache operators and eviction priorities; `true` if a cache-policy operand follows.
pub(super) fn cache_hints(m: &mut Mods<'_>) -> bool {
    m.take_one_of(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    while m
        .take_with(|s| {
            (s.starts_with("L1::evict")
                || s == "L1::no_allocate"
                || s.starts_with("L2::evict")
                || matches!(s, "L2::64B" | "L2::128B" | "L2::256B"))
            .then_some(())
        })
        .is_some()
    {}
    m.take("L2::cache_hint")
}

impl<'m> Dec<'m> {
    /// `[base+off]`; the symbol's address is folded into the offset.
    pub(super) fn addr(&mut self, i: &AstInst<'m>, o: &Operand<'m>, sp: MSpace) -> Res<Addr> {
        let Operand::Addr(base, off, extra) = o else { return self.err(i, "expected an address in `[ ]`") };
        if !extra.is_empty() {
            return self.err(i, "unexpected coordinates in this address");
        }
        self.addr_parts(i, base, *off, sp)
    }

    pub(super) fn addr_parts(
        &mut self,
        i: &AstInst<'m>,
        base: &Operand<'m>,
        off: i64,
        sp: MSpace,
    ) -> Res<Addr> {
        match base {
            Operand::Reg(r) => {
                let ty = self.entry.reg_types[r.0 as usize];
                let wide = ty.bits() == 64;
                if !wide && (ty.bits() != 32 || matches!(sp, MSpace::Global | MSpace::Generic)) {
                    return self.err(i, "expected a 64-bit address register");
                }
                let reg = self.reg_slot(i, *r, ty)?;
                Ok(Addr { reg: Some(reg), wide, off, global: None })
            }
            Operand::Int(v) => {
                Ok(Addr { reg: None, wide: true, off: (*v as i64).wrapping_add(off), global: None })
            }
            Operand::Sym(name, _) => {
                let sym = self.symbol(i, name)?;
                let (at, global) = match (sym, sp) {
                    (Sym::Func(_), _) => return self.err(i, format_args!("`{name}` is a function")),
                    (Sym::Shared(a), MSpace::Shared)
                    | (Sym::Local(a), MSpace::Local)
                    | (Sym::Param(a), MSpace::Param) => (a as i64, None),
                    (Sym::Shared(a), MSpace::Generic) => ((SHARED_WINDOW + a as u64) as i64, None),
                    (Sym::Local(a), MSpace::Generic) => ((LOCAL_WINDOW + a as u64) as i64, None),
                    (Sym::Param(a), MSpace::Generic) => ((PARAM_WINDOW + a as u64) as i64, None),
                    (Sym::Global(v), MSpace::Global | MSpace::Generic) => (0, Some(v)),
                    _ => return self.err(i, format_args!("`{name}` is in another state space")),
                };
                Ok(Addr { reg: None, wide: true, off: at.wrapping_add(off), global })
            }
            Operand::CallParam(p, _) if sp == MSpace::Local => {
                let at = self.call_base + self.entry.call_params[*p as usize].0;
                Ok(Addr { reg: None, wide: true, off: (at as i64).wrapping_add(off), global: None })
            }
            _ => self.err(i, "expected a register or a symbol as address"),
        }
    }

    pub(super) fn data_regs(
        &mut self,
        i: &AstInst<'m>,
        o: &Operand<'m>,
        ty: Ty,
        n: usize,
        load: bool,
    ) -> Res<Vec<Slot>> {
        let parts: Vec<Operand<'m>> = match o {
            Operand::Vec(v) => v.clone(),
            o => vec![o.clone()],
        };
        if parts.len() != n {
            return self.err(i, format_args!("expected {n} registers, found {}", parts.len()));
        }
        let mut regs = vec![];
        for p in &parts {
            regs.push(if load { self.wide_dst_of(i, p, ty)? } else { self.wide_src_of(i, p, ty)? });
        }
        Ok(regs)
    }

    pub(super) fn memory(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        let op = match i.opcode {
            "ld" | "ldu" => self.load_store(i, m, true)?,
            "st" => self.load_store(i, m, false)?,
            "cvta" => self.cvta(i, m)?,
            "isspacep" => {
                self.class = InstClass::Compare;
                let sp = space(m);
                self.count(i, 2..=2)?;
                let (d, a) = (self.pdst_of(i, &i.ops[0])?, self.src(i, 1, Ty::U64)?);
                Op::Isspacep { space: sp, d, a }
            }
            "atom" | "red" => self.atomic(i, m)?,
            "prefetch" | "prefetchu" => {
                space(m);
                m.take_one_of(&["L1", "L2", "tensormap"]);
                m.take_one_of(&["L2::evict_last", "L2::evict_normal"]);
                self.count(i, 1..=1)?;
                Op::Nop
            }
            "discard" | "applypriority" => {
                space(m);
                m.take_one_of(&["L2", "L2::evict_normal"]);
                self.count(i, 2..=2)?;
                Op::Nop
            }
            "createpolicy" => {
                m.take_one_of(&["fractional", "range"]);
                space(m);
                cache_hints(m);
                while m.take_with(|s| s.starts_with("L2::").then_some(())).is_some() {}
                m.ty()?;
                let (d, z) = (self.dst_of(i, self.operand(i, 0)?, Ty::B64)?, self.imm(0, 2));
                self.alu(Alu::Mov64, d, z, z, z)
            }
            "cp" => return self.copy(i, m).map(Some),
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn load_store(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>, load: bool) -> Res<Op> {
        let constant = i.mods.contains(&"const");
        let (sem, scope) = ordering(m);
        let mut sp = space(m);
        if sp == MSpace::Param && self.param_is_local(&i.ops) {
            sp = MSpace::Local;
        }
        let nc = m.take("nc");
        let policy = cache_hints(m);
        let n = m
            .take_with(|s| {
                Some(match s {
                    "v2" => 2,
                    "v4" => 4,
                    "v8" => 8,
                    _ => return None,
                })
            })
            .unwrap_or(1);
        let ty = m.ty()?;
        if ty == Ty::Pred {
            return self.err(i, "predicates cannot be loaded or stored");
        }
        if nc && (sp != MSpace::Global || !load) {
            return self.err(i, "`.nc` needs a load from `.global`");
        }
        self.count(i, 2 + policy as usize..=2 + policy as usize)?;
        let (data, at) = if load { (0, 1) } else { (1, 0) };
        let addr = self.addr(i, &i.ops[at], sp)?;
        let regs = self.data_regs(i, &i.ops[data], ty, n, load)?;
        if ty.bytes() * n as u32 > 32 {
            return self.err(i, "a vector access takes at most 32 bytes");
        }
        if !load && (sp == MSpace::Param || constant) {
            return self.err(i, "this state space cannot be stored to");
        }
        self.class = match (sp, load) {
            _ if constant => InstClass::ParamLoad,
            (MSpace::Param, _) => InstClass::ParamLoad,
            (MSpace::Local, _) => InstClass::Local,
            (MSpace::Shared, true) => InstClass::SharedLoad,
            (MSpace::Shared, false) => InstClass::SharedStore,
            (_, true) => InstClass::GlobalLoad,
            (_, false) => InstClass::GlobalStore,
        };
        if matches!(sem, Sem::Acquire)
            || (load && sem != Sem::Weak && matches!(sp, MSpace::Global | MSpace::Generic))
        {
            self.sequential = true;
        }
        // An integer load extends to its register.
        let data_op = match &i.ops[data] {
            Operand::Vec(v) => v.first().cloned().unwrap_or(Operand::Sink),
            o => o.clone(),
        };
        let slots = self.reg_ty(&data_op).map_or(ty.slots(), |t| if load { t.slots() } else { ty.slots() });
        if load && slots > 2 && ty.bits() != 128 {
            return self.err(i, "the destination is wider than 64 bits");
        }
        let used = if load { i.used.unwrap_or(!0) } else { !0 };
        let mem =
            Mem { space: sp, addr, width: ty.bytes(), signed: ty.is_signed(), slots, regs, sem, scope, used };
        Ok(if load { Op::Ld(Box::new(mem)) } else { Op::St(Box::new(mem)) })
    }

    /// Parameters of functions, and what is passed to them, lie in local memory.
    fn param_is_local(&self, ops: &[Operand<'m>]) -> bool {
        let Some(Operand::Addr(base, ..)) = ops.iter().find(|o| matches!(o, Operand::Addr(..))) else {
            return false;
        };
        self.func.is_some() || matches!(**base, Operand::CallParam(..))
    }

    fn cvta(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Integer;
        let to = m.take("to");
        let sp = space(m);
        let ty = m.ty()?;
        self.count(i, 2..=2)?;
        if ty.bits() != 64 {
            return self.err(i, "expected `.u64`");
        }
        let (d, a) = (self.dst(i, ty)?, self.src(i, 1, ty)?);
        let window = match sp {
            MSpace::Global => 0,
            MSpace::Shared => SHARED_WINDOW,
            MSpace::Local => LOCAL_WINDOW,
            MSpace::Param if self.func.is_some() => LOCAL_WINDOW,
            MSpace::Param => PARAM_WINDOW,
            MSpace::Generic => return self.err(i, "expected a state space"),
        };
        let w = self.imm(window, 2);
        Ok(self.alu(if to { Alu::Sub(W::W64) } else { Alu::Add(W::W64) }, d, a, w, a))
    }

    fn atomic(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Atomic;
        let is_red = i.opcode == "red";
        let (sem, scope) = ordering(m);
        let sp = space(m);
        let op = m.take_with(|s| {
            Some(match s {
                "add" => AtomOp::Add,
                "min" => AtomOp::Min,
                "max" => AtomOp::Max,
                "and" => AtomOp::And,
                "or" => AtomOp::Or,
                "xor" => AtomOp::Xor,
                "exch" => AtomOp::Exch,
                "cas" => AtomOp::Cas,
                "inc" => AtomOp::Inc,
                "dec" => AtomOp::Dec,
                _ => return None,
            })
        });
        let Some(op) = op else { return self.err(i, "expected an operation such as `.add`") };
        m.take("noftz");
        let policy = cache_hints(m);
        let n = m
            .take_with(|s| {
                Some(match s {
                    "v2" => 2,
                    "v4" => 4,
                    "v8" => 8,
                    _ => return None,
                })
            })
            .unwrap_or(1u32);
        let ty = m.ty()?;
        let ok = match op {
            AtomOp::Add => !matches!(ty, Ty::B32 | Ty::B64 | Ty::B16 | Ty::B128),
            AtomOp::Cas | AtomOp::Exch | AtomOp::And | AtomOp::Or | AtomOp::Xor => {
                matches!(ty.bits(), 16 | 32 | 64) && !ty.is_float()
            }
            AtomOp::Inc | AtomOp::Dec => ty == Ty::U32,
            AtomOp::Min | AtomOp::Max => matches!(
                ty,
                Ty::U32 | Ty::U64 | Ty::S32 | Ty::S64 | Ty::F16 | Ty::F16x2 | Ty::BF16 | Ty::BF16x2
            ),
        } && matches!(ty.bits(), 16 | 32 | 64);
        if !ok || (is_red && matches!(op, AtomOp::Cas | AtomOp::Exch)) {
            return self.err(i, "this type does not go with this operation");
        }
        let at = !is_red as usize;
        let want = at + 2 + (op == AtomOp::Cas) as usize + policy as usize;
        self.count(i, want..=want)?;
        let d = if is_red || n > 1 { SINK } else { self.dst_of(i, &i.ops[0], ty)? };
        let addr = self.addr(i, &i.ops[at], sp)?;
        let (mut b, mut more, mut more_d) = (SINK, vec![], vec![]);
        if n > 1 {
            more = self.data_regs(i, &i.ops[at + 1], ty, n as usize, false)?;
            if !is_red && !matches!(i.ops[0], Operand::Sink) {
                if ty.bits() == 64 {
                    return self.err(i, "vector atomics have elements of at most 32 bits");
                }
                more_d = self.data_regs(i, &i.ops[0], ty, n as usize, true)?;
            }
        } else {
            b = self.src(i, at + 1, ty)?;
        }
        let c = if op == AtomOp::Cas { self.src(i, at + 2, ty)? } else { SINK };
        if sp != MSpace::Shared
            && (d != SINK
                || !more_d.is_empty()
                || ty.is_float()
                || matches!(op, AtomOp::Exch | AtomOp::Cas)
                || sem != Sem::Relaxed && sem != Sem::Weak)
        {
            self.sequential = true;
        }
        Ok(Op::Atom(Box::new(Atom { op, ty, space: sp, addr, d, b, c, sem, scope, more, more_d })))
    }

    fn copy(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::AsyncCopy;
        if !m.take("async") {
            return self.err(i, "not supported");
        }
        if m.take("commit_group") {
            self.count(i, 0..=0)?;
            return Ok(Op::CpCommit);
        }
        if m.take("wait_all") {
            self.count(i, 0..=0)?;
            return Ok(Op::CpWait(u32::MAX));
        }
        if m.take("wait_group") {
            self.count(i, 1..=1)?;
            let Operand::Int(n) = i.ops[0] else { return self.err(i, "expected a constant") };
            return Ok(Op::CpWait((n as u32).min(u32::MAX - 1)));
        }
        let Some(cache) = m.take_one_of(&["ca", "cg"]) else {
            return self.err(i, "not supported");
        };
        if !(m.take("shared") || m.take("shared::cta")) || !m.take("global") {
            return self.err(i, "expected `.shared.global`");
        }
        let policy = cache_hints(m);
        let at_least = 3 + policy as usize;
        self.count(i, at_least..=at_least + 1)?;
        let dst = self.addr(i, &i.ops[0], MSpace::Shared)?;
        let src = self.addr(i, &i.ops[1], MSpace::Global)?;
        let Operand::Int(bytes) = i.ops[2] else { return self.err(i, "expected a constant size") };
        if !matches!(bytes, 4 | 8 | 16) || (cache == "cg" && bytes != 16) {
            return self.err(i, "the size must be 4, 8 or 16 (16 for `.cg`)");
        }
        let (mut src_size, mut ignore, mut has_ignore) = (SINK, PSrc::FALSE, false);
        if i.ops.len() > at_least {
            match self.reg_ty(&i.ops[3]) {
                Some(Ty::Pred) => {
                    ignore = self.psrc_of(i, &i.ops[3])?;
                    has_ignore = true;
                }
                _ => src_size = self.src(i, 3, Ty::U32)?,
            }
        }
        Ok(Op::CpAsync(Box::new(CpAsync { dst, src, bytes: bytes as u32, src_size, ignore, has_ignore })))
    }
}
