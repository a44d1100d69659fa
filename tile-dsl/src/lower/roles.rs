//! Roles and tiles: who runs the program of a CTA, and for which of its tiles.
//!
//! ```text
//! roles { threads 0 to T:   the program, a channel's copies left out:
//!                           await full[slot] parity; compute(slot); arrive empty[slot]
//!         threads T to T+P: the loops around the copies alone:
//!                           await empty[slot] parity; expect bytes; copy → slot }
//! ```
//! Both walk the same loops, so the n-th step of one meets the n-th of the other. One of the producer's threads does it all.
//! Barriers of the program are those of its own threads.
//! Groups that take tiles in turn (`turns`) are a role each.
//! A persistent CTA takes tile after tile: all roles have the loop over tiles, and channels go on from one to the next.
//! Where tiles are of two sizes (`segment`), the program stands twice behind one branch: `if whole { .. } else { .. }`.

use super::{
    Lowerer,
    copy::{CopyPlan, linear},
    digits::StepOrder,
    emit::{Atom, Op},
    error::LowerError,
    grid::{Decoded, Grid},
    linear::Linear,
    mbarriers::Mbarriers,
    sync::Sync,
};
use crate::{
    kernel::{self, Async, Ty},
    nest::{Digit, LoopKind, Stmt, TileSize, WARP, chain},
    op::{BinOp, CmpOp},
    plan::{Does, Role},
    schedule::Unit,
};

impl Lowerer<'_> {
    /// The whole kernel.
    pub fn kernel(&mut self) -> Result<(), LowerError> {
        let (nest, plan) = (self.nest, self.plan);
        self.announce();
        let mut roles = Vec::new();
        for Role { threads, registers, does } in &plan.roles {
            let (first, threads) = (threads.start, threads.end - threads.start);
            let body = match *does {
                // All threads do the same.
                Does::Compute { group, of, barrier: None } => {
                    self.tiles(group, of, |this| this.stmt(&nest.body))?;
                    self.await_sent();
                    return Ok(());
                }
                Does::Compute { group, of, barrier: Some(id) } => {
                    (self.group, self.units.first) = (group, first);
                    self.emit.push();
                    self.first_turn()?;
                    self.tiles(group, of, |this| this.stmt(&nest.body))?;
                    self.await_sent();
                    let mut body = self.emit.pop();
                    among(&mut body, kernel::Group { id, threads });
                    self.sync = Sync::default();
                    body
                }
                Does::Produce { thread } => {
                    self.emit.push();
                    self.tiles(0, 1, |this| this.produce(&nest.body))?;
                    let mut body = vec![kernel::Stmt::One { thread, body: self.emit.pop() }];
                    // Those are of all threads.
                    body.append(&mut self.meetings);
                    body
                }
            };
            roles.push(kernel::Role { first, threads, registers: *registers, body });
        }
        self.emit.stmt(kernel::Stmt::Roles(roles));
        if nest.cluster.is_some() && !nest.cluster_reduces() {
            // Others may still copy to this CTA, or arrive at its mbarriers.
            self.emit.stmt(kernel::Stmt::ClusterBarrier);
        }
        Ok(())
    }

    /// The tiles of this CTA: one, or one after the other, of which a group takes each `of`-th.
    fn tiles(
        &mut self,
        group: u32,
        of: u32,
        body: impl Fn(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let body = |this: &mut Self| {
            body(this)?;
            this.send_collected()
        };
        if self.plan.tiles.persistent.is_none() {
            return self.tile(self.in_problem, body);
        }
        let (cta, ctas) = (self.emit.op(Op::Cta, &[]), self.emit.op(Op::Ctas, &[]));
        let others = self.emit.bin(BinOp::Mul, ctas, Atom::i32(group.into()));
        let start = self.emit.add(cta, others);
        let step = self.emit.bin(BinOp::Mul, ctas, Atom::i32(of.into()));
        let total = match self.grouped {
            true => self.emit.op(Op::Tiles, &[]),
            false => Grid::tiles(&self.plan.tiles, &mut self.emit),
        };
        self.emit.push();
        let var = self.emit.var(Ty::I32);
        let mut number = Atom::Var(var);
        if self.grouped {
            // What the extents of another problem gave is of no use here.
            self.pitches.clear();
            self.number = Some(number);
            number = self.emit.problem(number);
        }
        if self.plan.tiles.segment.is_none() {
            self.grid = Grid::of(&self.plan.tiles, &mut self.emit, Some(number));
        }
        if !self.nest.alternate.is_empty() {
            let before = self.emit.bin(BinOp::Sub, Atom::Var(var), cta);
            let before = self.emit.bin(BinOp::Div, before, ctas);
            let odd = self.emit.bin(BinOp::Rem, before, Atom::i32(2));
            self.odd = Some(self.emit.cmp(CmpOp::Eq, odd, Atom::i32(1)));
        }
        self.sync.enter();
        self.tile(Some(number), body)?;
        if self.sync.leave(false) {
            self.emit_barrier();
        }
        self.odd = None;
        let body = self.emit.pop();
        let (start, end, step) = (start.expr(), total.expr(), step.expr());
        self.emit.stmt(kernel::Stmt::For { var, start, end, step, body });
        self.emit.forget_loads(|_| true);
        Ok(())
    }

    /// The tile of this number, or of this CTA's. Of two sizes, each has a program of its own.
    fn tile(
        &mut self,
        number: Option<Atom>,
        body: impl Fn(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        if self.plan.tiles.segment.is_none() {
            return body(self);
        }
        let number = number.unwrap_or_else(|| self.emit.op(Op::Cta, &[]));
        let (is_whole, place) = Decoded::of_two_sizes(&self.plan.tiles, &mut self.emit, number);
        let before = self.sync.clone();
        let then = self.of_size(TileSize::Whole, &place, &body)?;
        let after = std::mem::replace(&mut self.sync, before);
        let otherwise = self.of_size(TileSize::Last, &place, &body)?;
        self.sync.or(after);
        self.emit.stmt(kernel::Stmt::If { cond: is_whole.expr(), then, otherwise });
        self.emit.forget_loads(|_| true);
        Ok(())
    }

    /// The program for a tile of a size.
    fn of_size(
        &mut self,
        size: TileSize,
        place: &Decoded,
        body: &impl Fn(&mut Self) -> Result<(), LowerError>,
    ) -> Result<Vec<kernel::Stmt>, LowerError> {
        self.emit.push();
        self.last = self.plan.tiles.segment.filter(|_| size == TileSize::Last);
        self.grid = place.grid(&self.plan.tiles, &mut self.emit, size);
        body(self)?;
        self.last = None;
        Ok(self.emit.pop())
    }

    /// The loops around copies that the producer makes.
    fn produce(&mut self, stmt: &Stmt) -> Result<(), LowerError> {
        if !self.copies_inside(stmt) {
            return Ok(());
        }
        match stmt {
            Stmt::For { digit, at: LoopKind::Pipe(depth), body } if self.nest.produced.contains(digit) => {
                self.produce_ring(*digit, *depth, body)
            }
            Stmt::For { digit, at: LoopKind::Unit(unit, _), .. } if *unit != Unit::Block => {
                let axis = self.axis_name(digit.axis);
                Err(LowerError::Malformed(format!("a producer copies inside `{axis}`, which threads share")))
            }
            Stmt::For { digit, at, body } => {
                self.each_step(*digit, *at, StepOrder::Scheduled, &mut |this| this.produce(body))
            }
            Stmt::Let { first, rest, .. } => {
                self.produce(first)?;
                self.produce(rest)
            }
            Stmt::Stage { body, .. } => self.produce(body),
            Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } | Stmt::Skip => Ok(()),
        }
    }

    /// Whether a statement has loops whose copies the producer makes.
    fn copies_inside(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::For { digit, body, .. } => self.nest.produced.contains(digit) || self.copies_inside(body),
            Stmt::Let { first, rest, .. } => self.copies_inside(first) || self.copies_inside(rest),
            Stmt::Stage { body, .. } => self.copies_inside(body),
            Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } | Stmt::Skip => false,
        }
    }

    /// The producer's loop of a channel.
    fn produce_ring(&mut self, digit: Digit, depth: u32, body: &Stmt) -> Result<(), LowerError> {
        let (copies, inner) = chain(body);
        let channel = self.channel(digit, depth, &copies)?;
        let ring = self.ring(digit, channel, inner)?;
        self.run_loop(digit, ring.at(), true, |this| {
            if let Some(channel) = &ring.flow.mbarriers {
                this.produce_step(channel, &ring.flow.copies);
            }
            // Loops inside may have copies of their own.
            this.produce(inner)
        })
    }

    /// Number of this CTA in its cluster.
    pub fn rank(&mut self) -> Linear {
        let cta = self.emit.op(Op::Cta, &[]);
        let rank = self.emit.bin(BinOp::Rem, cta, Atom::i32(self.nest.cluster_ctas().into()));
        linear(rank, 0)
    }

    /// Fills the next slot, once it is free.
    fn produce_step(&mut self, channel: &Mbarriers, copies: &[CopyPlan<'_>]) {
        let position = self.position(channel);
        let [slot, parity] = position;
        // The first time round, nobody has read what would be overwritten.
        let parity = self.emit.bin(BinOp::Sub, Atom::i32(1), parity);
        let barrier = channel.empty.unwrap_or_default();
        let wait = Async::Wait { barrier, slot: slot.expr(), parity: parity.expr() };
        self.emit.stmt(kernel::Stmt::Async(wait));
        self.fill(channel, copies, slot);
        self.advance(channel, position);
    }

    /// This warp, or each of its threads, has read a slot. In a cluster, others copy to this CTA, too: each of them is told.
    pub fn release(&mut self, channel: &Mbarriers, slot: Atom) {
        let Some(barrier) = channel.empty else { return };
        let ctas = self.nest.copying_ctas();
        if channel.arrive == Unit::Thread {
            for cta in 0..ctas {
                let cta = (ctas > 1).then(|| Atom::i32(cta.into()).expr());
                let arrive = Async::Arrive { barrier, slot: slot.expr(), bytes: None, cta };
                self.emit.stmt(kernel::Stmt::Async(arrive));
            }
            return;
        }
        self.arrive_as_warp(barrier, slot, ctas);
    }

    /// Once the lanes of this warp have met, one of them arrives at an mbarrier; one for each CTA of a cluster.
    pub fn arrive_as_warp(&mut self, barrier: u32, slot: Atom, ctas: u32) {
        self.emit.stmt(kernel::Stmt::WarpBarrier);
        let tid = self.emit.op(Op::Tid, &[]);
        let lane = self.emit.bin(BinOp::Rem, tid, Atom::i32(WARP.into()));
        let first = match ctas {
            1 => self.emit.cmp(CmpOp::Eq, lane, Atom::i32(0)),
            ctas => self.emit.cmp(CmpOp::Lt, lane, Atom::i32(ctas.into())),
        };
        let cta = (ctas > 1).then(|| lane.expr());
        let arrive = kernel::Stmt::Async(Async::Arrive { barrier, slot: slot.expr(), bytes: None, cta });
        self.emit.stmt(kernel::Stmt::If { cond: first.expr(), then: vec![arrive], otherwise: vec![] });
    }
}

/// Barriers of a program become those of its own threads.
fn among(stmts: &mut [kernel::Stmt], threads: kernel::Group) {
    for stmt in stmts {
        match stmt {
            kernel::Stmt::Barrier => *stmt = kernel::Stmt::GroupBarrier(threads),
            kernel::Stmt::Arrive { group, .. } => *group = Some(threads),
            other => other.blocks_mut().into_iter().for_each(|block| among(block, threads)),
        }
    }
}
