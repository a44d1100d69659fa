//! Control flow, barriers, fences and warp-wide instructions.

use super::{Dec, Mods, Res};
use crate::ast::{AstInst, Operand};
use crate::op::*;
use crate::race::Scope;
use crate::types::Ty;

impl<'m> Dec<'m> {
    pub(super) fn sync(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        self.class = InstClass::Sync;
        let op = match i.opcode {
            "bra" => {
                self.class = InstClass::Control;
                m.take("uni");
                self.count(i, 1..=1)?;
                let Operand::Sym(name, 0) = i.ops[0] else { return self.err(i, "expected a label") };
                Op::Bra { target: self.label(i, name)? }
            }
            "brx" => {
                self.class = InstClass::Control;
                m.take("uni");
                if !m.take("idx") {
                    return self.err(i, "expected `.idx`");
                }
                self.count(i, 2..=2)?;
                let idx = self.src(i, 0, Ty::U32)?;
                let Operand::Sym(list, 0) = i.ops[1] else {
                    return self.err(i, "expected a `.branchtargets` label");
                };
                let mut scope = i.scope;
                let names = loop {
                    if let Some(l) = self.entry.branch_targets.get(&(scope, list)) {
                        break l;
                    }
                    if scope == 0 {
                        return self.err(i, format_args!("`.branchtargets` list `{list}` is not defined"));
                    }
                    scope = self.entry.scope_parent[scope as usize];
                };
                let mut targets = vec![];
                for n in names {
                    targets.push(self.label(i, n)?);
                }
                Op::Brx { idx, targets: targets.into() }
            }
            "ret" | "exit" => {
                self.class = InstClass::Control;
                m.take("uni");
                self.count(i, 0..=0)?;
                match self.func {
                    Some(f) if i.opcode == "ret" => Op::Ret(f),
                    _ => Op::Exit,
                }
            }
            "call" => self.call(i, m)?,
            "trap" | "brkpt" => {
                self.class = InstClass::Control;
                self.count(i, 0..=0)?;
                Op::Trap
            }
            "bar" | "barrier" => self.barrier(i, m)?,
            "membar" => {
                let cta = m.take_one_of(&["cta", "gl", "sys"]) == Some("cta");
                self.count(i, 0..=0)?;
                Op::Fence(if cta { Scope::Cta } else { Scope::Gpu })
            }
            "fence" => self.fence(i, m)?,
            "nanosleep" => {
                m.ty()?;
                self.count(i, 1..=1)?;
                self.src(i, 0, Ty::U32)?;
                Op::Yield
            }
            "pmevent" => {
                m.take("mask");
                self.count(i, 1..=1)?;
                Op::Nop
            }
            "griddepcontrol" => {
                let Some(what) = m.take_one_of(&["launch_dependents", "wait"]) else {
                    return self.err(i, "expected `.launch_dependents` or `.wait`");
                };
                self.count(i, 0..=0)?;
                if what == "wait" { Op::GridWait } else { Op::Nop }
            }
            "activemask" => {
                self.class = InstClass::Warp;
                m.ty()?;
                self.count(i, 1..=1)?;
                Op::ActiveMask { d: self.dst(i, Ty::B32)? }
            }
            "shfl" => self.shfl(i, m)?,
            "vote" => {
                self.class = InstClass::Warp;
                self.needs_sync(i, m)?;
                let Some(mode) = m.take_one_of(&["all", "any", "uni", "ballot"]) else {
                    return self.err(i, "expected `.all`, `.any`, `.uni` or `.ballot`");
                };
                m.ty()?;
                self.count(i, 3..=3)?;
                let ballot = mode == "ballot";
                let d = if ballot { self.dst(i, Ty::B32)? } else { self.pdst_of(i, &i.ops[0])? };
                let mode = match mode {
                    "all" => VoteMode::All,
                    "any" => VoteMode::Any,
                    "uni" => VoteMode::Uni,
                    _ => VoteMode::Ballot,
                };
                Op::Vote { mode, d, p: self.psrc_of(i, &i.ops[1])?, mask: self.src(i, 2, Ty::B32)? }
            }
            "match" => {
                self.class = InstClass::Warp;
                let all = match m.take_one_of(&["any", "all"]) {
                    Some(s) => s == "all",
                    None => return self.err(i, "expected `.any` or `.all`"),
                };
                self.needs_sync(i, m)?;
                let ty = m.ty()?;
                self.count(i, 3..=3)?;
                let (d, p) = self.pair(i, &i.ops[0])?;
                let (a, mask) = (self.src(i, 1, ty)?, self.src(i, 2, Ty::B32)?);
                Op::Match { all, wide: ty.bits() == 64, d, p, a, mask }
            }
            "redux" => {
                self.class = InstClass::Warp;
                self.needs_sync(i, m)?;
                let Some(name) = m.take_one_of(&["add", "min", "max", "and", "or", "xor"]) else {
                    return self.err(i, "expected an operation such as `.add`");
                };
                let ty = m.ty()?;
                if !matches!(ty, Ty::B32 | Ty::U32 | Ty::S32) {
                    return self.err(i, "expected a 32-bit integer type");
                }
                self.count(i, 3..=3)?;
                let s = ty.is_signed();
                let op = match name {
                    "add" => ReduxOp::Add,
                    "min" => ReduxOp::Min(s),
                    "max" => ReduxOp::Max(s),
                    "and" => ReduxOp::And,
                    "or" => ReduxOp::Or,
                    _ => ReduxOp::Xor,
                };
                Op::Redux { op, d: self.dst(i, ty)?, a: self.src(i, 1, ty)?, mask: self.src(i, 2, Ty::B32)? }
            }
            "elect" => {
                self.class = InstClass::Warp;
                self.needs_sync(i, m)?;
                self.count(i, 2..=2)?;
                let (d, p) = self.pair(i, &i.ops[0])?;
                Op::Elect { d, p, mask: self.src(i, 1, Ty::B32)? }
            }
            _ => return Ok(None),
        };
        Ok(Some(op))
    }

    fn needs_sync(&self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<()> {
        if m.take("sync") { Ok(()) } else { self.err(i, "expected `.sync`") }
    }

    /// `d|p`, or `d` alone.
    fn pair(&self, i: &AstInst<'m>, o: &Operand<'m>) -> Res<(Slot, Slot)> {
        match o {
            Operand::Pair(d, p) => Ok((self.dst_of(i, d, Ty::B32)?, self.pdst_of(i, p)?)),
            d => Ok((self.dst_of(i, d, Ty::B32)?, SINK)),
        }
    }

    fn shfl(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Warp;
        self.needs_sync(i, m)?;
        let mode = match m.take_one_of(&["up", "down", "bfly", "idx"]) {
            Some("up") => ShflMode::Up,
            Some("down") => ShflMode::Down,
            Some("bfly") => ShflMode::Bfly,
            Some(_) => ShflMode::Idx,
            None => return self.err(i, "expected `.up`, `.down`, `.bfly` or `.idx`"),
        };
        m.ty()?;
        self.count(i, 5..=5)?;
        let (d, p) = self.pair(i, &i.ops[0])?;
        let (a, b) = (self.src(i, 1, Ty::B32)?, self.src(i, 2, Ty::B32)?);
        let (c, mask) = (self.src(i, 3, Ty::B32)?, self.src(i, 4, Ty::B32)?);
        Ok(Op::Shfl { mode, d, p, a, b, c, mask })
    }

    fn fence(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        let proxy = m.take("proxy") || m.take_with(|s| s.strip_prefix("proxy::").map(|_| ())).is_some();
        if proxy && m.take("tensormap::generic") {
            return self.tensor_map_fence(i, m);
        }
        self.count(i, 0..=0)?;
        if proxy {
            if m.take_one_of(&["async", "async::generic"]).is_some() || m.take("async") {
                space(m);
                return Ok(Op::FenceProxyAsync);
            }
            m.take("alias");
            return Ok(Op::Nop);
        }
        if m.take("mbarrier_init") {
            m.take("release");
            m.take("cluster");
            return Ok(Op::FenceMbarrierInit);
        }
        m.take_one_of(&["sc", "acq_rel", "acquire", "release"]);
        m.take("release");
        Ok(Op::Fence(super::memory::scope(m)))
    }

    /// Between ordinary accesses to a tensor map in global memory and the copies that use it.
    fn tensor_map_fence(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        if m.take("acquire") {
            self.count(i, 2..=2)?;
            let map = self.addr(i, &i.ops[0], MSpace::Generic)?;
            if !matches!(i.ops[1], Operand::Int(128)) {
                return self.err(i, "expected 128, the bytes of a tensor map");
            }
            return Ok(Op::AcquireTensorMap { map, scope: super::memory::scope(m) });
        }
        if m.take("release") {
            self.count(i, 0..=0)?;
            return Ok(Op::Fence(super::memory::scope(m)));
        }
        self.err(i, "expected `.acquire` or `.release`")
    }

    fn barrier(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        if i.opcode == "bar" && m.take("warp") {
            self.needs_sync(i, m)?;
            self.count(i, 1..=1)?;
            return Ok(Op::WarpSync { mask: self.src(i, 0, Ty::B32)? });
        }
        m.take("cta");
        let aligned = i.opcode == "bar" || m.take("aligned");
        let red = m.take("red");
        let (sync, arrive) = (m.take("sync"), m.take("arrive"));
        let kind = if red {
            match m.take_one_of(&["popc", "and", "or"]) {
                Some("popc") => BarKind::RedPopc,
                Some("and") => BarKind::RedAnd,
                Some(_) => BarKind::RedOr,
                None => return self.err(i, "expected `.popc`, `.and` or `.or`"),
            }
        } else if arrive {
            BarKind::Arrive
        } else if sync {
            BarKind::Sync
        } else {
            return self.err(i, "expected `.sync`, `.arrive` or `.red`");
        };
        if i.opcode == "barrier" && i.mods.last() == Some(&"aligned") {
            m.take("aligned");
        }
        if let Some(Operand::Int(n @ 16..)) = i.ops.get(red as usize) {
            return self.err(i, format_args!("barrier {n} is out of range: a CTA has the barriers 0 to 15"));
        }
        let mut b = Bar { kind, aligned, id: SINK, count: SINK, d: SINK, p: PSrc::TRUE };
        if red {
            let ty = m.ty()?;
            self.count(i, 3..=4)?;
            b.d = if kind == BarKind::RedPopc { self.dst(i, ty)? } else { self.pdst_of(i, &i.ops[0])? };
            b.id = self.src(i, 1, Ty::U32)?;
            if i.ops.len() == 4 {
                b.count = self.src(i, 2, Ty::U32)?;
            }
            b.p = self.psrc_of(i, &i.ops[i.ops.len() - 1])?;
        } else {
            self.count(i, 1 + arrive as usize..=2)?;
            b.id = self.src(i, 0, Ty::U32)?;
            if i.ops.len() == 2 {
                b.count = self.src(i, 1, Ty::U32)?;
            }
        }
        Ok(Op::Bar(Box::new(b)))
    }
}

fn space(m: &mut Mods<'_>) {
    m.take_one_of(&["global", "shared::cta", "shared::cluster", "shared"]);
}
