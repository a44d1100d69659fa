//! mbarriers, bulk copies and cluster instructions.

use super::{Dec, Mods, Res, memory};
use crate::ast::{AstInst, Operand};
use crate::op::*;
use crate::race::Scope;
use crate::types::Ty;

const NOWHERE: Addr = Addr { reg: None, wide: true, off: 0, global: None };

impl<'m> Dec<'m> {
    pub(super) fn bulk(&mut self, i: &'m AstInst<'m>, m: &mut Mods<'m>) -> Res<Option<Op>> {
        let has = |s: &str| i.mods.contains(&s);
        match i.opcode {
            "mbarrier" => self.mbarrier(i, m).map(Some),
            "cp" if has("mbarrier") => self.copy_arrive(i, m).map(Some),
            "cp" if has("bulk") => self.bulk_copy(i, m).map(Some),
            "mapa" => {
                self.class = InstClass::Integer;
                let shared = m.take("shared::cluster");
                let ty = m.ty()?;
                self.count(i, 3..=3)?;
                let wide = ty.bits() == 64;
                let d = self.dst(i, ty)?;
                // A variable may stand for its address.
                let a = match (&i.ops[1], shared) {
                    (Operand::Sym(..), false) => {
                        return self.err(i, "expected a register with a generic address");
                    }
                    _ => self.src(i, 1, ty)?,
                };
                Ok(Some(Op::Mapa { d, a, rank: self.src(i, 2, Ty::U32)?, wide }))
            }
            "getctarank" => {
                self.class = InstClass::Integer;
                m.take("shared::cluster");
                let ty = m.ty()?;
                self.count(i, 2..=2)?;
                Ok(Some(Op::CtaRank { d: self.dst(i, Ty::U32)?, a: self.src(i, 1, ty)? }))
            }
            "barrier" if has("cluster") => {
                self.class = InstClass::Sync;
                m.take("cluster");
                m.take("aligned");
                self.count(i, 0..=0)?;
                if m.take("arrive") {
                    let relaxed = m.take("relaxed");
                    m.take("release");
                    return Ok(Some(Op::ClusterArrive { release: !relaxed }));
                }
                if !m.take("wait") {
                    return self.err(i, "expected `.arrive` or `.wait`");
                }
                m.take("acquire");
                Ok(Some(Op::ClusterWait))
            }
            _ => Ok(None),
        }
    }

    fn mbarrier(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::Sync;
        let expect = m.take("expect_tx");
        let name = m.take_one_of(&[
            "init",
            "inval",
            "arrive",
            "arrive_drop",
            "complete_tx",
            "test_wait",
            "try_wait",
            "pending_count",
        ]);
        let no_complete = m.take("noComplete");
        let relaxed = m.take("relaxed");
        m.take_one_of(&["release", "acquire"]);
        let scope =
            if m.take_one_of(&["cta", "cluster"]) == Some("cluster") { Scope::Cluster } else { Scope::Cta };
        let parity = m.take("parity");
        let space = memory::space(m);
        if m.ty()? != Ty::B64 {
            return self.err(i, "expected `.b64`");
        }
        let kind = match (name, expect) {
            (Some("init"), false) => MBarKind::Init,
            (Some("inval"), false) => MBarKind::Inval,
            (Some("arrive"), _) => MBarKind::Arrive { drop: false, expect, no_complete },
            (Some("arrive_drop"), _) => MBarKind::Arrive { drop: true, expect, no_complete },
            (None, true) => MBarKind::ExpectTx,
            (Some("complete_tx"), false) => MBarKind::CompleteTx,
            (Some("test_wait" | "try_wait"), false) => MBarKind::TestWait { parity },
            (Some("pending_count"), false) => MBarKind::PendingCount,
            _ => return self.err(i, "expected e.g. `.init`, `.arrive` or `.try_wait`"),
        };
        let mut x = MBar { kind, space, addr: NOWHERE, d: SINK, b: SINK, ordered: !relaxed, scope };
        match kind {
            MBarKind::PendingCount => {
                self.count(i, 2..=2)?;
                (x.d, x.b) = (self.dst(i, Ty::B32)?, self.src(i, 1, Ty::B64)?);
            }
            MBarKind::Init | MBarKind::ExpectTx | MBarKind::CompleteTx => {
                self.count(i, 2..=2)?;
                x.addr = self.addr(i, &i.ops[0], space)?;
                x.b = self.src(i, 1, Ty::U32)?;
            }
            MBarKind::Inval => {
                self.count(i, 1..=1)?;
                x.addr = self.addr(i, &i.ops[0], space)?;
            }
            MBarKind::TestWait { parity } => {
                self.count(i, 3..=4)?;
                x.d = self.pdst_of(i, &i.ops[0])?;
                x.addr = self.addr(i, &i.ops[1], space)?;
                x.b = self.src(i, 2, if parity { Ty::U32 } else { Ty::B64 })?;
                if i.ops.len() == 4 {
                    self.src(i, 3, Ty::U32)?;
                }
            }
            _ => {
                // The state may be left out for a remote mbarrier.
                let at = !matches!(i.ops.first(), Some(Operand::Addr(..))) as usize;
                self.count(i, at + 1..=at + 2)?;
                if at == 1 {
                    x.d = self.dst_of(i, &i.ops[0], Ty::B64)?;
                }
                x.addr = self.addr(i, &i.ops[at], space)?;
                if i.ops.len() == at + 2 {
                    x.b = self.src(i, at + 1, Ty::U32)?;
                } else if expect || no_complete {
                    return self.err(i, "expected a count");
                }
            }
        }
        Ok(Op::MBar(Box::new(x)))
    }

    fn copy_arrive(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::AsyncCopy;
        if !m.take("async") || !m.take("mbarrier") || !m.take("arrive") {
            return self.err(i, "expected `cp.async.mbarrier.arrive`");
        }
        let noinc = m.take("noinc");
        let space = memory::space(m);
        m.ty()?;
        self.count(i, 1..=1)?;
        let addr = self.addr(i, &i.ops[0], space)?;
        Ok(Op::MBar(Box::new(MBar {
            kind: MBarKind::CopyArrive { noinc },
            space,
            addr,
            d: SINK,
            b: SINK,
            ordered: true,
            scope: Scope::Cta,
        })))
    }

    fn bulk_copy(&mut self, i: &AstInst<'m>, m: &mut Mods<'m>) -> Res<Op> {
        self.class = InstClass::AsyncCopy;
        let reduce = m.take("reduce");
        if !m.take("async") || !m.take("bulk") {
            return self.err(i, "expected `cp.async.bulk`");
        }
        if m.take("commit_group") {
            self.count(i, 0..=0)?;
            return Ok(Op::BulkCommit);
        }
        if m.take("wait_group") {
            let read = m.take("read");
            self.count(i, 1..=1)?;
            let Operand::Int(n) = i.ops[0] else { return self.err(i, "expected a constant") };
            return Ok(Op::BulkWait { keep: n as u32, read });
        }
        let prefetch = m.take("prefetch");
        let tensor = m.take("tensor");
        let rank = m.take_with(|s| {
            s.strip_suffix('d').and_then(|n| n.parse::<usize>().ok()).filter(|n| (1..=5).contains(n))
        });
        if tensor != rank.is_some() {
            return self.err(i, "expected `.tensor` with `.1d` to `.5d`");
        }
        let spaces = m.take_with_all(|s| {
            Some(match s {
                "global" => 'g',
                "shared::cta" => 's',
                "shared::cluster" => 'c',
                _ => return None,
            })
        });
        let mode = m.take_one_of(&["tile", "im2col", "im2col_no_offs"]);
        if let Some(other) = i.mods.iter().find(|s| s.starts_with("im2col::") || s.starts_with("tile::")) {
            return self.err(
                i,
                format_args!(
                    "`.{other}` is not supported: only `.tile`, `.im2col` and `.im2col_no_offs` are"
                ),
            );
        }
        m.take("L2");
        let done = m.take("mbarrier::complete_tx::bytes");
        let group = m.take("bulk_group");
        let multicast = m.take("multicast::cluster");
        let policy = memory::cache_hints(m);
        let dir = match (&spaces[..], prefetch) {
            (['g'], true) => BulkDir::Prefetch,
            (['c' | 's', 'g'], false) => BulkDir::GlobalToShared,
            (['g', 's'], false) => BulkDir::SharedToGlobal,
            (['c', 's'], false) if !tensor => BulkDir::SharedToShared,
            _ => return self.err(i, "these state spaces do not go together"),
        };
        let wants_mbar = matches!(dir, BulkDir::GlobalToShared | BulkDir::SharedToShared);
        if wants_mbar != done || (dir == BulkDir::SharedToGlobal) != group {
            return self.err(i, "expected `.mbarrier::complete_tx::bytes` for copies into shared memory, `.bulk_group` for others");
        }
        let expected = if dir == BulkDir::SharedToGlobal { "im2col_no_offs" } else { "im2col" };
        let im2col = mode.is_some_and(|s| s != "tile");
        if im2col && (rank.is_none_or(|r| r < 3) || mode != Some(expected)) {
            return self.err(i, format_args!("expected `.{expected}` with `.3d` to `.5d`"));
        }
        let offsets = if mode == Some("im2col") { rank.map_or(0, |r| r - 2) } else { 0 };
        let reduce = if reduce {
            if dir != BulkDir::SharedToGlobal {
                return self.err(i, "reductions go to global memory here");
            }
            self.sequential = true;
            let op = m.take_with(|s| {
                Some(match s {
                    "add" => AtomOp::Add,
                    "min" => AtomOp::Min,
                    "max" => AtomOp::Max,
                    "and" => AtomOp::And,
                    "or" => AtomOp::Or,
                    "xor" => AtomOp::Xor,
                    "inc" => AtomOp::Inc,
                    "dec" => AtomOp::Dec,
                    _ => return None,
                })
            });
            m.take("noftz");
            let Some(op) = op else { return self.err(i, "expected an operation such as `.add`") };
            // Tensor copies take the type from the map.
            Some((op, if tensor { Ty::B32 } else { m.ty()? }))
        } else {
            None
        };
        let mut x = Bulk {
            dir,
            dst: NOWHERE,
            src: NOWHERE,
            size: SINK,
            coords: vec![],
            tensor,
            im2col,
            offsets: vec![],
            mbar: None,
            multicast: SINK,
            reduce,
        };
        // Operands in order: [dst], [src], size, [mbar], mask, policy; the map carries the coordinates.
        let mut n = 0;
        let load = dir != BulkDir::SharedToGlobal;
        let mut address = |d: &mut Self, shared: bool, map: bool| -> Res<(Addr, Vec<Slot>)> {
            let o = d.operand(i, n)?.clone();
            n += 1;
            let Operand::Addr(base, off, extra) = &o else { return d.err(i, "expected an address in `[ ]`") };
            let a = d.addr_parts(i, base, *off, if shared { MSpace::Shared } else { MSpace::Generic })?;
            let mut coords = vec![];
            if map {
                let [Operand::Vec(list)] = &extra[..] else {
                    return d.err(i, "expected `{coordinates}` after the tensor map");
                };
                if let Some(want) = rank
                    && list.len() != want
                {
                    return d.err(i, format_args!("expected {want} coordinates, found {}", list.len()));
                }
                for c in list {
                    coords.push(d.src_of(i, c, Ty::B32)?);
                }
            } else if !extra.is_empty() {
                return d.err(i, "unexpected coordinates in this address");
            }
            Ok((a, coords))
        };
        match dir {
            BulkDir::Prefetch => (x.src, x.coords) = address(self, false, tensor)?,
            _ => {
                let (a, coords) = address(self, load, tensor && !load)?;
                x.dst = a;
                x.coords = coords;
                let (a, coords) = address(self, dir != BulkDir::GlobalToShared, tensor && load)?;
                x.src = a;
                if !coords.is_empty() {
                    x.coords = coords;
                }
            }
        }
        if !tensor {
            x.size = self.src(i, n, Ty::U32)?;
            n += 1;
        }
        if wants_mbar {
            let o = self.operand(i, n)?.clone();
            x.mbar = Some(self.addr(i, &o, MSpace::Shared)?);
            n += 1;
        }
        if offsets != 0 {
            let Operand::Vec(list) = self.operand(i, n)?.clone() else {
                return self.err(i, "expected `{offsets}` after the mbarrier");
            };
            if list.len() != offsets {
                return self.err(i, format_args!("expected {offsets} offsets, found {}", list.len()));
            }
            for o in &list {
                x.offsets.push(self.src_of(i, o, Ty::U16)?);
            }
            n += 1;
        }
        if multicast {
            x.multicast = self.src(i, n, Ty::B16)?;
            n += 1;
        }
        if policy {
            self.src(i, n, Ty::B64)?;
            n += 1;
        }
        self.count(i, n..=n)?;
        Ok(Op::Bulk(Box::new(x)))
    }
}
