//! Executes one CTA (or cluster of CTAs): warps in lockstep, divergence as `(pc, mask)` splits.
//!
//! Since Volta, lanes of a warp may wait for one another, which a stack of reconvergence points would deadlock on.
//! So a warp is a list of splits. The one with the lowest pc runs; splits that meet at a pc merge; one that spins
//! is passed over until the others had their turn.

mod atomic;
mod barrier;
mod bulk;
mod cluster;
mod collective;
mod copy;
mod global;
mod matrix;
mod mbarrier;
mod mem;
mod shared;
mod wgmma;

use crate::alu::exec::Regs;
use crate::counters;
use crate::findings::{FindingKind, Log, Raw};
use crate::kernel::*;
use crate::launch::AsyncMode;
use crate::memory::Memory;
use crate::op::*;
use crate::race::{Clocks, Shadow};
use crate::simd::Simd;
use barrier::Barrier;
use bulk::{BulkGroups, Bulks};
use cluster::ClusterBarrier;
use copy::Copies;
use mbarrier::MBarrier;
use std::collections::{BTreeMap, HashMap};

/// What the engines of one launch share.
pub(crate) struct Env<'a> {
    pub k: &'a Kernel,
    pub mem: &'a Memory,
    pub simd: Simd,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub explicit_cluster: bool,
    pub dynamic_shared: u32,
    pub params: Vec<u8>,
    /// Address of each module variable.
    pub globals: Vec<u64>,
    pub sm_count: u32,
    pub seed: u64,
    pub async_mode: AsyncMode,
    pub race_check: bool,
    pub uninit_check: bool,
    pub max_instructions: u64,
}

/// Rounds in which warps only poll mbarriers before it counts as a deadlock.
const IDLE_ROUNDS: u32 = 100;
/// Backward branches after which the other splits of a warp get a turn. Loops that read flags get there sooner.
const MAX_SPINS: u32 = 8192;
/// What reading a flag adds to the count of backward branches.
const FLAG_SPINS: u32 = 512;

/// Why a split does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Ready,
    /// At a CTA barrier that was in this phase.
    Bar {
        id: u8,
        phase: u64,
    },
    /// At a cluster barrier that was in this phase.
    Cluster {
        phase: u64,
    },
    /// At a `.sync` instruction, for other lanes of the warp.
    Lanes,
}

#[derive(Debug, Clone, Copy)]
struct Split {
    pc: u32,
    mask: u32,
    wait: Wait,
    /// Backward branches since it last let others run.
    spins: u32,
    resting: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Warp {
    pub regs: Regs,
    splits: Vec<Split>,
    /// Lanes that exist and have not exited.
    live: u32,
    exists: u32,
    /// Index in the CTA, and the CTA's rank in the cluster.
    index: u32,
    cta: u32,
    local: Vec<u32>,
    copies: Copies,
    /// Executed a fence: relaxed accesses after it release.
    fenced: bool,
    /// The next aligned instruction goes on with the lanes it has.
    forced: bool,
    /// Strong loads executed: a loop around them may wait for another lane.
    flag_reads: u32,
    /// Phase of the cluster barrier in which this warp arrived last.
    cluster_phase: u64,
    bulk_groups: BulkGroups,
    wg: wgmma::WgState,
    /// Accumulators of `wgmma`s in flight, by register (late mode).
    wg_saved: Vec<(Slot, [u32; 32])>,
    /// The mbarrier a wait failed on last: CTA, offset, parity.
    waits: Option<(u32, u32, u32)>,
    /// A wait on an mbarrier failed in this turn.
    failed: bool,
}

impl Warp {
    /// Number among the agents of the cluster.
    fn agent(&self, warps_per_cta: usize) -> usize {
        self.cta as usize * warps_per_cta + self.index as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct Cta {
    id: [u32; 3],
    linear: u64,
    shared: Vec<u32>,
    /// Bytes of shared memory.
    size: u32,
    shadow: Shadow,
    bars: Vec<Barrier>,
    live_threads: u32,
    /// What strong accesses released: word → clocks.
    sync_words: HashMap<u32, Vec<u32>>,
    /// By offset of the 8 bytes. Ordered, so that reports are.
    mbars: BTreeMap<u32, MBarrier>,
}

/// What executing one instruction did to the split.
enum Flow {
    Next,
    /// Next, and let other warps run.
    Yield,
    /// The lanes of the mask go to the target, the others on.
    Branch(u32, u32),
    /// The lanes of the mask go to the target, the others execute this instruction again.
    Fork(u32, u32),
    /// The lanes of the mask exit.
    Exit(u32),
    /// The lanes of the mask wait here; they go on after this instruction once released.
    Block(u32, Wait),
    /// All lanes stay at this instruction and try again when others arrive.
    Retry,
}

/// State of a worker that runs CTAs one after the other.
pub(crate) struct Engine<'a> {
    env: &'a Env<'a>,
    k: &'a Kernel,
    warps: Vec<Warp>,
    ctas: Vec<Cta>,
    clocks: Clocks,
    pub counts: counters::Raw,
    pub log: Log,
    rng: u64,
    budget: u64,
    wpc: usize,
    last_alloc: usize,
    clock: u64,
    /// Rank of the CTA whose shared memory the current instruction addresses.
    target: usize,
    cluster_bar: ClusterBarrier,
    bulk: Bulks,
    /// Side effects so far, and rounds without one in which every warp waited.
    events: u64,
    idle: u32,
}

/// How a call of [`Engine::advance`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Ran for a while without finishing: other CTAs may have to run first.
    Pending,
}

impl<'a> Engine<'a> {
    pub fn new(env: &'a Env<'a>) -> Self {
        Engine {
            env,
            k: env.k,
            warps: vec![],
            ctas: vec![],
            clocks: Clocks::default(),
            counts: counters::Raw::new(env.k.insts.len()),
            log: Log::default(),
            rng: 0,
            budget: 0,
            wpc: 0,
            last_alloc: usize::MAX,
            clock: 0,
            target: 0,
            cluster_bar: ClusterBarrier::default(),
            bulk: Bulks::default(),
            events: 0,
            idle: 0,
        }
    }

    /// Prepares the cluster with this linear index; without clusters, the CTA.
    pub fn start(&mut self, linear: u64) {
        let env = self.env;
        let dims = [0, 1, 2].map(|d| (env.grid[d] / env.cluster[d]) as u64);
        let at = [linear % dims[0], linear / dims[0] % dims[1], linear / (dims[0] * dims[1])];
        let threads = env.block.iter().product::<u32>();
        let ctas = env.cluster.iter().product::<u32>() as usize;
        self.wpc = threads.div_ceil(32) as usize;
        let warps = ctas * self.wpc;
        self.rng =
            env.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ linear.wrapping_mul(0xd1b5_4a32_d192_ed03) | 1;
        self.budget = env.max_instructions;
        let size = (self.k.dynamic.0 + env.dynamic_shared).max(self.k.info.static_shared);
        self.ctas.resize_with(ctas, Cta::default);
        for (rank, cta) in self.ctas.iter_mut().enumerate() {
            let [cx, cy, _] = env.cluster;
            let r = rank as u32;
            let inner = [r % cx, r / cx % cy, r / (cx * cy)];
            cta.id = [0, 1, 2].map(|d| at[d] as u32 * env.cluster[d] + inner[d]);
            cta.linear = linear * ctas as u64 + rank as u64;
            cta.size = size;
            // What shared memory holds at the start is unspecified: a NaN in every float format.
            cta.shared.clear();
            cta.shared.resize(size.div_ceil(4) as usize, !0);
            if env.race_check || env.uninit_check {
                let first = (rank * self.wpc) as u32;
                cta.shadow.reset(cta.shared.len(), first, env.race_check, env.uninit_check);
            }
            cta.bars.clear();
            cta.bars.resize_with(16, Barrier::default);
            cta.live_threads = threads;
            cta.sync_words.clear();
            cta.mbars.clear();
        }
        self.cluster_bar = ClusterBarrier::default();
        self.bulk.clear();
        (self.idle, self.events) = (0, 0);
        self.clocks.reset(warps, self.wpc, 3 * warps + bulk::POOL);
        self.warps.resize_with(warps, Warp::default);
        for w in 0..warps {
            let mut warp = std::mem::take(&mut self.warps[w]);
            let rank = w / self.wpc;
            warp.cta = rank as u32;
            self.start_warp(&mut warp, (w % self.wpc) as u32, threads, self.ctas[rank].id);
            self.warps[w] = warp;
        }
        self.counts.warps += warps as u64;
    }

    fn start_warp(&self, w: &mut Warp, index: u32, threads: u32, id: [u32; 3]) {
        let k = self.k;
        w.regs.r.clear();
        w.regs.r.resize(k.n_slots as usize, crate::alu::exec::Lanes::ZERO);
        w.regs.p.clear();
        w.regs.p.resize(k.n_preds as usize, 0);
        let n = (threads - index * 32).min(32);
        w.exists = if n == 32 { !0 } else { (1 << n) - 1 };
        w.live = w.exists;
        (w.index, w.fenced, w.forced, w.flag_reads) = (index, false, false, 0);
        (w.cluster_phase, w.waits, w.failed) = (0, None, false);
        w.bulk_groups.clear();
        w.wg.clear();
        w.wg_saved.clear();
        w.local.clear();
        w.local.resize(k.info.local_bytes as usize / 4 * 32, 0);
        w.copies.clear();
        w.splits.clear();
        w.splits.push(Split { pc: 0, mask: w.exists, wait: Wait::Ready, spins: 0, resting: false });
        for (slot, v) in &k.consts {
            let lanes = &mut w.regs.r[*slot as usize].0;
            match *v {
                ConstVal::Imm(v) => *lanes = [v; 32],
                ConstVal::Shared(a) => *lanes = [a + (w.cta << 24); 32],
                ConstVal::Global { var, off, high } => {
                    let a = self.env.globals[var as usize].wrapping_add(off as u64);
                    *lanes = [if high { (a >> 32) as u32 } else { a as u32 }; 32];
                }
                ConstVal::Special(s) => {
                    for (i, l) in lanes.iter_mut().enumerate() {
                        *l = self.special(s, w.cta as usize, index, i as u32, id);
                    }
                }
            }
        }
    }

    fn special(&self, s: Special, rank: usize, warp: u32, lane: u32, id: [u32; 3]) -> u32 {
        let env = self.env;
        let t = warp * 32 + lane;
        let [bx, by, _] = env.block;
        match s {
            Special::Tid(0) => t % bx,
            Special::Tid(1) => t / bx % by,
            Special::Tid(_) => t / (bx * by),
            Special::Ntid(c) => env.block[c as usize],
            Special::Ctaid(c) => id[c as usize],
            Special::Nctaid(c) => env.grid[c as usize],
            Special::LaneId => lane,
            Special::WarpId => warp,
            Special::NWarpId => self.wpc as u32,
            Special::SmId => (self.ctas[rank].linear % env.sm_count as u64) as u32,
            Special::NSmId => env.sm_count,
            Special::GridId => 1,
            Special::LaneMask(0) => 1 << lane,
            Special::LaneMask(1) => !0 >> (31 - lane),
            Special::LaneMask(2) => (1 << lane) - 1,
            Special::LaneMask(3) => !0 << lane,
            Special::LaneMask(_) => !((1u64 << (lane + 1)) - 1) as u32,
            Special::ClusterId(c) => id[c as usize] / env.cluster[c as usize],
            Special::NClusterId(c) => env.grid[c as usize] / env.cluster[c as usize],
            Special::ClusterCtaid(c) => id[c as usize] % env.cluster[c as usize],
            Special::ClusterCtarank => rank as u32,
            Special::IsExplicitCluster => env.explicit_cluster as u32,
            Special::ClusterNctaid(c) => env.cluster[c as usize],
            Special::ClusterNctarank => self.ctas.len() as u32,
            Special::DynamicSmem => env.dynamic_shared,
            Special::TotalSmem => self.ctas[0].size,
            Special::Zero => 0,
        }
    }

    /// A pseudo-random number of the schedule.
    fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng
    }

    /// Runs until the CTA is done, deadlocked, or (with `rounds`) has had that many turns of all warps.
    pub fn advance(&mut self, rounds: u64) -> Outcome {
        let n = self.warps.len();
        for _ in 0..rounds {
            let first = if self.env.seed == 0 { 0 } else { self.random() as usize % n };
            let (mut ran, mut done) = (false, true);
            let before = self.events;
            let mut waiting = true;
            for i in 0..n {
                let w = (first + i) % n;
                if self.warps[w].splits.is_empty() {
                    continue;
                }
                let quantum = if self.env.seed == 0 { 2048 } else { 16 + self.random() % 512 };
                self.warps[w].failed = false;
                let turned = self.turn(w, quantum);
                ran |= turned;
                // A warp that cannot run, or only polls, waits for something.
                waiting &= !turned || self.warps[w].failed || self.warps[w].splits.is_empty();
                done &= self.warps[w].splits.is_empty();
            }
            if done {
                self.finish();
                return Outcome::Done;
            }
            if self.budget == 0 {
                self.report_limit();
                return Outcome::Done;
            }
            if !waiting || self.events != before {
                self.idle = 0;
                continue;
            }
            // Nothing moves: the last legal moment of the asynchronous copies has come, one by one.
            if self.complete_one_bulk() {
                continue;
            }
            self.idle += 1;
            if (!ran || self.idle > IDLE_ROUNDS) && !self.force_aligned() {
                self.report_deadlock();
                return Outcome::Done;
            }
        }
        Outcome::Pending
    }

    /// Lets one warp run; `false` if none of its lanes could.
    fn turn(&mut self, wi: usize, quantum: u64) -> bool {
        let mut w = std::mem::take(&mut self.warps[wi]);
        let mut left = quantum.min(self.budget);
        let given = left;
        while left > 0 {
            self.wake(&mut w);
            let Some(si) = self.pick(&mut w) else { break };
            self.run_split(&mut w, si, &mut left);
        }
        self.budget -= given - left;
        self.clock += given - left;
        self.warps[wi] = w;
        left < given
    }

    /// Releases splits whose barrier has completed.
    fn wake(&mut self, w: &mut Warp) {
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
                && self.cluster_bar.phase != phase
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

    fn pick(&mut self, w: &mut Warp) -> Option<usize> {
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

    fn run_split(&mut self, w: &mut Warp, si: usize, left: &mut u64) {
        let Split { mut pc, mask, .. } = w.splits[si];
        // Where another split could be met.
        let stop = w.splits.iter().map(|s| s.pc).filter(|p| *p > pc).min().unwrap_or(u32::MAX);
        let alone = w.splits.len() == 1;
        loop {
            let at = (self.env.simd.run)(self.k, &mut w.regs, pc, stop, mask, &mut self.counts.pc);
            *left = left.saturating_sub((at - pc) as u64);
            pc = at;
            if pc == stop {
                break;
            }
            let inst = &self.k.insts[pc as usize];
            let m = mask & inst.guard.lanes(&w.regs.p);
            let n = &mut self.counts.pc[pc as usize];
            n.warps += 1;
            n.threads += m.count_ones() as u64;
            *left = left.saturating_sub(1);
            let flow = if m == 0 { Flow::Next } else { self.step(w, pc, m, mask) };
            match flow {
                Flow::Next => pc += 1,
                Flow::Yield => {
                    pc += 1;
                    *left = 0;
                }
                Flow::Branch(target, taken) if taken == mask => {
                    if target <= pc && !alone {
                        w.splits[si].spins += 1 + FLAG_SPINS * std::mem::take(&mut w.flag_reads).min(1);
                        if w.splits[si].spins > MAX_SPINS {
                            w.splits[si].resting = true;
                        }
                        w.splits[si].pc = target;
                        merge(&mut w.splits);
                        return;
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
                    return;
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
                    self.events += 1;
                    self.threads_exited(cta);
                    self.cluster_threads_exited();
                    // Lanes that waited for the exited ones may go on.
                    for s in &mut w.splits {
                        if s.wait == Wait::Lanes {
                            s.wait = Wait::Ready;
                        }
                    }
                    return;
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
                    return;
                }
                Flow::Retry => {
                    self.counts.pc[pc as usize].warps -= 1;
                    self.counts.pc[pc as usize].threads -= m.count_ones() as u64;
                    *left += 1;
                    w.splits[si].pc = pc;
                    w.splits[si].wait = Wait::Lanes;
                    return;
                }
            }
            if *left == 0 || pc >= stop {
                break;
            }
        }
        w.splits[si].pc = pc;
        if !alone {
            merge(&mut w.splits);
        }
    }

    /// Executes one instruction that is not register-only. `m`: lanes whose guard holds; `mask`: the split.
    fn step(&mut self, w: &mut Warp, pc: u32, m: u32, mask: u32) -> Flow {
        let k = self.k;
        match &k.insts[pc as usize].op {
            Op::Ld(mem) => {
                w.flag_reads += (mem.sem != Sem::Weak) as u32;
                if m != !0 || !self.load_shared_row(w, pc, mem) {
                    self.load(w, pc, mem, m);
                }
            }
            Op::St(mem) => {
                self.events += 1;
                self.store(w, pc, mem, m);
            }
            Op::Bra { target } => return Flow::Branch(*target, m),
            Op::Brx { idx, targets } => return self.indexed_branch(w, pc, *idx, targets, m, mask),
            Op::Exit => {
                self.wgmma_exit(w, pc);
                return Flow::Exit(m);
            }
            Op::Trap => {
                self.find(FindingKind::Trap, w, pc, m.trailing_zeros(), 0, || "`trap` was executed".into());
                return Flow::Exit(m);
            }
            Op::Bar(b) => return self.barrier(w, pc, b, m),
            Op::WarpSync { mask: s } => {
                if !self.members_here(w, pc, *s, m) {
                    return Flow::Retry;
                }
                self.clocks.warp_sync(w.agent(self.wpc));
            }
            Op::Shfl { mask: s, .. }
            | Op::Vote { mask: s, .. }
            | Op::Match { mask: s, .. }
            | Op::Redux { mask: s, .. }
            | Op::Elect { mask: s, .. } => {
                if !self.members_here(w, pc, *s, m) {
                    return Flow::Retry;
                }
                self.collective(w, pc, m);
            }
            Op::MatrixCopy(x) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.matrix_copy(w, pc, x, m);
            }
            op @ (Op::Wgmma(_) | Op::WgFence | Op::WgCommit | Op::WgWait(_)) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                match op {
                    Op::Wgmma(x) => self.wgmma(w, pc, x, m),
                    Op::WgFence => self.wgmma_fence(w),
                    Op::WgCommit => self.wgmma_commit(w),
                    Op::WgWait(n) => self.wgmma_wait(w, *n),
                    _ => {}
                }
            }
            Op::Mma(x) => {
                if !self.whole_warp(w, m) {
                    return Flow::Retry;
                }
                self.mma(w, x, m);
            }
            Op::Atom(a) => {
                self.events += 1;
                self.atomic(w, pc, a, m);
            }
            Op::MBar(x) => return self.mbarrier(w, pc, x, m),
            Op::Bulk(x) => self.bulk_issue(w, pc, x, m),
            Op::BulkCommit => w.bulk_groups.commit(m),
            Op::BulkWait { keep, read } => self.bulk_wait(w, *keep, *read, m),
            Op::ClusterArrive { release } => self.cluster_arrive(w, m, *release),
            Op::ClusterWait => return self.cluster_wait(w, m),
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
            Op::Fence => w.fenced = true,
            Op::FenceMbarrierInit => self.fence_mbarriers(w),
            Op::FenceProxyAsync => {
                self.clocks.proxy_fence(w.agent(self.wpc));
                self.fence_mbarriers(w);
            }
            Op::Yield => return Flow::Yield,
            Op::Nop => {}
            Op::Set { .. }
            | Op::Slct { .. }
            | Op::Carry { .. }
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

    /// Records a finding about lane `lane` of `w`.
    #[cold]
    fn find(
        &mut self,
        kind: FindingKind,
        w: &Warp,
        pc: u32,
        lane: u32,
        key: u64,
        text: impl FnOnce() -> String,
    ) {
        let cta = self.ctas[w.cta as usize].id;
        let (warp, n) = (w.index, 1);
        self.log.add(kind, pc, key, || Raw { kind, message: text(), pc, cta, warp, lane, count: n });
    }

    fn report_limit(&mut self) {
        let Some(wi) = self.warps.iter().position(|w| !w.splits.is_empty()) else { return };
        let w = std::mem::take(&mut self.warps[wi]);
        let limit = self.env.max_instructions;
        self.find(FindingKind::InstructionLimit, &w, w.splits[0].pc, 0, 0, || {
            format!(
                "a CTA ran more than {limit} warp instructions: an endless loop, or raise `max_instructions`"
            )
        });
        self.warps[wi] = w;
    }

    /// When nothing can run: lanes that wait for the rest of their warp at an aligned instruction go on without
    /// it, which is a finding.
    fn force_aligned(&mut self) -> bool {
        for wi in 0..self.warps.len() {
            let w = &self.warps[wi];
            let stuck = w
                .splits
                .iter()
                .position(|s| s.wait == Wait::Lanes && self.k.insts[s.pc as usize].op.is_aligned());
            let Some(si) = stuck else { continue };
            let mut w = std::mem::take(&mut self.warps[wi]);
            let Split { pc, mask, .. } = w.splits[si];
            let live = w.live;
            self.find(FindingKind::DivergentAligned, &w, pc, mask.trailing_zeros(), 0, || {
                format!(
                    "only lanes {mask:#010x} of {live:#010x} ever reach this aligned instruction together: the warp has diverged"
                )
            });
            w.splits[si].wait = Wait::Ready;
            w.forced = true;
            self.warps[wi] = w;
            return true;
        }
        false
    }

    fn report_deadlock(&mut self) {
        let mut text = String::from("deadlock: no warp of the CTA can ever run again");
        for w in &self.warps {
            for s in &w.splits {
                let site = &self.k.sites[s.pc as usize];
                let what = match s.wait {
                    Wait::Bar { id, .. } => {
                        let b = &self.ctas[w.cta as usize].bars[id as usize];
                        format!(
                            "barrier {id}: {} of {} threads arrived",
                            b.arrived,
                            b.expected.unwrap_or(self.ctas[w.cta as usize].live_threads)
                        )
                    }
                    Wait::Cluster { .. } => self.cluster_bar.describe(),
                    Wait::Ready => self.describe_wait(w, s.pc),
                    Wait::Lanes => format!("`{}`: other lanes of its member mask never arrive", site.text),
                };
                text.push_str(&format!(
                    "\n  warp {} lanes {:#010x} at line {}: {what}",
                    w.index, s.mask, site.line
                ));
            }
        }
        let Some(wi) = self.warps.iter().position(|w| !w.splits.is_empty()) else { return };
        let w = std::mem::take(&mut self.warps[wi]);
        let lane = w.splits[0].mask.trailing_zeros();
        self.find(FindingKind::Deadlock, &w, w.splits[0].pc, lane, 0, || text);
        self.warps[wi] = w;
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
