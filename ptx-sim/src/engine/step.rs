//! Runs the splits of a warp: the choice of the next one, and one instruction after the other.

use super::*;

impl Engine<'_> {
    /// Releases splits whose barrier has completed.
    pub(super) fn wake(&mut self, w: &mut Warp) {
        for i in 0..w.splits.len() {
            let s = w.splits[i];
            if let Wait::Bar { id, phase } = s.wait
                && self.ctas[w.cta as usize].bars[id as usize].phase != phase
            {
                self.deliver(w, s.pc, s.mask, id, phase);
                w.splits[i].wait = Wait::Ready;
                w.splits[i].pc += 1;
            }
            if let Wait::Cluster { phase } = s.wait
                && self.cluster_bar.phase >= phase
            {
                self.cluster_acquire(w);
                w.splits[i].wait = Wait::Ready;
                w.splits[i].pc += 1;
            }
        }
        if w.splits.len() > 1 {
            merge(&mut w.splits);
        }
    }

    pub(super) fn pick(&mut self, w: &mut Warp) -> Option<usize> {
        let best = |splits: &[Split], resting: bool| {
            let ready =
                splits.iter().enumerate().filter(|(_, s)| s.wait == Wait::Ready && s.resting == resting);
            ready.min_by_key(|(_, s)| s.pc).map(|(i, _)| i)
        };
        if let [s] = w.splits[..] {
            return (s.wait == Wait::Ready).then_some(0);
        }
        best(&w.splits, false)
            .or_else(|| {
                w.splits.iter_mut().for_each(|s| (s.resting, s.spins) = (false, 0));
                best(&w.splits, false)
            })
            .or_else(|| self.join_warp_syncs(w).then(|| best(&w.splits, false)).flatten())
    }

    /// Runs one split for at most `left` instructions; `true`: other warps should have their turn first.
    pub(super) fn run_split(&mut self, w: &mut Warp, si: usize, left: &mut u64) -> bool {
        let Split { mut pc, mask, .. } = w.splits[si];
        // Where another split could be met.
        let stop = w.splits.iter().map(|s| s.pc).filter(|p| *p > pc).min().unwrap_or(u32::MAX);
        let alone = w.splits.len() == 1;
        let mut yields = false;
        loop {
            let mut end = stop;
            if let Some(next) = self.k.wg_next.get(pc as usize) {
                // Up to the next instruction that names a register of a `wgmma`, or just that one.
                end = stop.min(if *next == pc { pc + 1 } else { *next });
                if *next == pc {
                    self.wgmma_touch(w, pc, mask);
                }
            }
            let at = (self.env.simd.run)(self.k, &mut w.regs, pc, end, mask, &mut self.counts.pc);
            *left = left.saturating_sub((at - pc) as u64);
            pc = at;
            if pc == stop {
                break;
            }
            if pc == end {
                if *left == 0 {
                    break;
                }
                continue;
            }
            let inst = &self.k.insts[pc as usize];
            let m = mask & inst.guard.lanes(&w.regs.p);
            let n = &mut self.counts.pc[pc as usize];
            n.warps += 1;
            n.threads += m.count_ones() as u64;
            *left = left.saturating_sub(1);
            let flow = match m {
                0 => Flow::Next,
                m if self.traces(w) => self.traced_step(w, pc, m, mask),
                m => self.step(w, pc, m, mask),
            };
            match flow {
                Flow::Next => pc += 1,
                Flow::Yield => {
                    pc += 1;
                    yields = true;
                }
                Flow::Branch(target, taken) if taken == mask => {
                    if target <= pc && !alone {
                        w.splits[si].spins += 1 + FLAG_SPINS * std::mem::take(&mut w.flag_reads).min(1);
                        if w.splits[si].spins > MAX_SPINS {
                            w.splits[si].resting = true;
                        }
                        w.splits[si].pc = target;
                        merge(&mut w.splits);
                        return false;
                    }
                    pc = target;
                }
                Flow::Branch(target, taken) | Flow::Fork(target, taken) => {
                    w.splits[si].pc = if matches!(flow, Flow::Fork(..)) { pc } else { pc + 1 };
                    w.splits[si].mask = mask & !taken;
                    w.splits.push(Split {
                        pc: target,
                        mask: taken,
                        wait: Wait::Ready,
                        spins: 0,
                        resting: false,
                    });
                    merge(&mut w.splits);
                    return false;
                }
                Flow::Leave(lanes, wait) => {
                    self.counts.pc[pc as usize].threads -= (m & !lanes).count_ones() as u64;
                    w.splits[si].pc = pc;
                    w.splits[si].mask = mask & !lanes;
                    let (pc, wait) = wait.map_or((pc + 1, Wait::Ready), |wait| (pc, wait));
                    w.splits.push(Split { pc, mask: lanes, wait, spins: 0, resting: false });
                    return false;
                }
                Flow::Again => {
                    yields = true;
                    self.counts.pc[pc as usize].warps -= 1;
                    self.counts.pc[pc as usize].threads -= m.count_ones() as u64;
                    break;
                }
                Flow::Exit(lanes) => {
                    w.live &= !lanes;
                    w.splits[si].pc = pc + 1;
                    w.splits[si].mask &= !lanes;
                    if w.splits[si].mask == 0 {
                        w.splits.remove(si);
                    }
                    let cta = w.cta as usize;
                    self.ctas[cta].live_threads -= lanes.count_ones();
                    if self.ctas[cta].live_threads == 0 {
                        self.cta_exited(w, pc);
                    }
                    self.events += 1;
                    self.threads_exited(cta);
                    self.cluster_threads_exited();
                    // Lanes that waited for the exited ones may go on.
                    for s in &mut w.splits {
                        if s.wait == Wait::Lanes {
                            s.wait = Wait::Ready;
                        }
                    }
                    return false;
                }
                Flow::Block(lanes, wait) => {
                    w.splits[si].pc = pc;
                    w.splits[si].wait = wait;
                    if lanes != mask {
                        w.splits[si].mask = lanes;
                        w.splits.push(Split {
                            pc: pc + 1,
                            mask: mask & !lanes,
                            wait: Wait::Ready,
                            spins: 0,
                            resting: false,
                        });
                    }
                    return false;
                }
                Flow::Retry => {
                    self.counts.pc[pc as usize].warps -= 1;
                    self.counts.pc[pc as usize].threads -= m.count_ones() as u64;
                    *left += 1;
                    w.splits[si].pc = pc;
                    w.splits[si].wait = Wait::Lanes;
                    return false;
                }
            }
            if yields || *left == 0 || pc >= stop {
                break;
            }
        }
        w.splits[si].pc = pc;
        if !alone {
            merge(&mut w.splits);
        }
        yields
    }

    /// Executes one instruction that is not register-only. `m`: lanes whose guard holds; `mask`: the split.
    pub(super) fn step(&mut self, w: &mut Warp, pc: u32, m: u32, mask: u32) -> Flow {
        let k = self.k;
        let op = &k.insts[pc as usize].op;
        if op.is_access() {
            self.clocks.touch(w.agent(self.wpc), m);
        }
        match op {
            Op::Ld(mem) => {
                w.flag_reads += (mem.sem != Sem::Weak) as u32;
                if m != !0 || !self.load_shared_row(w, pc, mem) {
                    self.load(w, pc, mem, m);
                    if mem.sem != Sem::Weak && w.failed {
                        return Flow::Yield;
                    }
                }
            }
            Op::St(mem) => self.store(w, pc, mem, m),
            Op::Bra { target } => return Flow::Branch(*target, m),
            Op::Brx { idx, targets } => return self.indexed_branch(w, pc, *idx, targets, m, mask),
            Op::Exit => {
                self.wgmma_exit(w, pc);
                self.bulk_exit(w, pc, m);
                return Flow::Exit(m);
            }
            Op::Trap => {
                self.find(FindingKind::Trap, w, pc, m.trailing_zeros(), 0, || "`trap` was executed".into());
                return Flow::Exit(m);
            }
            Op::Call(c) => return self.call(w, pc, c, m, mask),
            Op::Ret(f) => return self.ret(w, *f, m, mask),
            Op::Tex(t) => self.tex(w, pc, t, m),
            Op::Surface(s) => self.surface(w, pc, s, m),
            Op::Printf(p) => self.printf(w, p, m),
            Op::AssertFail(p) => return self.assert_fail(w, pc, p, m),
            Op::Bar(b) => return self.barrier(w, pc, b, m),
            Op::WarpSync { mask: s } => {
                return self.by_groups(w, pc, *s, m, |e, w, group| {
                    e.clocks.warp_sync(w.agent(e.wpc), group, w.live);
                });
            }
            Op::Shfl { mask: s, .. }
            | Op::Vote { mask: s, .. }
            | Op::Match { mask: s, .. }
            | Op::Redux { mask: s, .. }
            | Op::Elect { mask: s, .. } => {
                return self.by_groups(w, pc, *s, m, |e, w, group| e.collective(w, pc, group));
            }
            Op::MatrixCopy(x) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.matrix_copy(w, pc, x, m);
            }
            Op::MatrixMove { d, a } => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.matrix_move(w, *d, *a);
            }
            op @ (Op::Wgmma(_) | Op::WgFence | Op::WgCommit | Op::WgWait(_)) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                match op {
                    Op::Wgmma(x) => self.wgmma(w, pc, x, m),
                    Op::WgFence => self.wgmma_fence(w),
                    Op::WgCommit => self.wgmma_commit(w),
                    Op::WgWait(n) => return self.wgmma_wait(w, *n),
                    _ => {}
                }
            }
            Op::WmmaCopy(x) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.wmma_copy(w, pc, x, m);
            }
            Op::Wmma(x) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.wmma(w, x, m);
            }
            Op::Mma(x) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.mma(w, x, m);
            }
            Op::Atom(a) => {
                self.atomic(w, pc, a, m);
                if a.d != SINK && w.failed {
                    return Flow::Yield;
                }
            }
            Op::MBar(x) => return self.mbarrier(w, pc, x, m),
            Op::Bulk(x) => self.bulk_issue(w, pc, x, m),
            Op::BulkCommit => w.bulk_groups.commit(m),
            Op::BulkWait { keep, read } => self.bulk_wait(w, *keep, *read, m),
            Op::ClusterArrive { release } => self.cluster_arrive(w, pc, m, *release),
            Op::ClusterWait => return self.cluster_wait(w, pc, m),
            Op::Mapa { d, a, rank, wide } => cluster::mapa(&mut w.regs, *d, *a, *rank, *wide, m),
            Op::CtaRank { d, a } => cluster::cta_rank(&mut w.regs, *d, *a, m),
            Op::CpAsync(c) => self.copy_issue(w, pc, c, m),
            Op::CpCommit => w.copies.commit(m),
            Op::CpWait(n) => self.copy_wait(w, *n, m),
            Op::ActiveMask { d } => w.regs.put(*d, &[m; 32], m),
            Op::Clock { d, wide, hi } => {
                let t = self.clock;
                if *wide {
                    w.regs.put64(*d, &[t; 32], m);
                } else {
                    w.regs.put(*d, &[if *hi { (t >> 32) as u32 } else { t as u32 }; 32], m);
                }
            }
            Op::Fence(scope) => self.fence(w, *scope),
            Op::FenceMbarrierInit => {
                self.fence_mbarriers(w);
                self.fence_inits(w);
            }
            Op::FenceProxyAsync => {
                self.clocks.proxy_fence(w.agent(self.wpc));
                self.fence_mbarriers(w);
            }
            Op::AcquireTensorMap { map, scope } => {
                self.fence(w, *scope);
                let addresses = self.lane_addresses(w, map, MSpace::Generic);
                let acquired = (0..32).filter(|i| m >> i & 1 != 0).map(|i| addresses[i]);
                self.ctas[w.cta as usize].acquired.extend(acquired);
            }
            Op::SetMaxNReg { inc, count } => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                return self.set_max_registers(w, pc, *inc, *count);
            }
            Op::Yield => return Flow::Yield,
            Op::GridWait => w.unawaited &= !m,
            Op::Nop => {}
            Op::Set { .. }
            | Op::Slct { .. }
            | Op::Carry { .. }
            | Op::MadCarry { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::Isspacep { .. } => {
                mem::odd_alu(&mut w.regs, &k.insts[pc as usize].op, m);
            }
            Op::Alu { .. } | Op::Setp { .. } | Op::Selp { .. } | Op::PredLogic { .. } => {
                unreachable!("register-only instructions run in the vector loop")
            }
        }
        Flow::Next
    }

    fn indexed_branch(
        &mut self,
        w: &mut Warp,
        pc: u32,
        idx: Slot,
        targets: &[u32],
        m: u32,
        mask: u32,
    ) -> Flow {
        let first = m.trailing_zeros() as usize;
        let v = w.regs.r[idx as usize].0[first];
        let Some(t) = targets.get(v as usize) else {
            self.find(FindingKind::BadAddress, w, pc, first as u32, 0, || {
                format!("branch index {v} is outside the {} targets", targets.len())
            });
            return Flow::Exit(m);
        };
        let same = (0..32).fold(0, |s, i| s | ((w.regs.r[idx as usize].0[i] == v) as u32) << i) & m;
        if same == mask {
            return Flow::Branch(*t, same);
        }
        // The lanes that go elsewhere execute the instruction again.
        Flow::Fork(*t, same)
    }
}

/// Merges splits at the same pc. A waiting one is woken to try again with the lanes that came.
fn merge(splits: &mut Vec<Split>) {
    let mut i = 0;
    while i < splits.len() {
        let mut j = i + 1;
        while j < splits.len() {
            let (a, b) = (splits[i], splits[j]);
            let waits = |s: &Split| matches!(s.wait, Wait::Bar { .. } | Wait::Cluster { .. });
            if a.pc == b.pc && !waits(&a) && !waits(&b) {
                splits[i].mask |= b.mask;
                splits[i].wait = Wait::Ready;
                splits[i].resting &= b.resting;
                splits[i].spins = splits[i].spins.min(b.spins);
                splits.swap_remove(j);
            } else {
                j += 1;
            }
        }
        i += 1;
    }
}
