//! Executes one CTA (or cluster of CTAs): warps in lockstep, divergence as `(pc, mask)` splits.
//!
//! Since Volta, lanes of a warp may wait for one another, which a stack of reconvergence points would deadlock on.
//! So a warp is a list of splits. The one with the lowest pc runs; splits that meet at a pc merge; one that spins
//! is passed over until the others had their turn.

mod atomic;
mod barrier;
mod bulk;
mod call;
mod cluster;
mod collective;
mod copy;
mod device;
mod global;
mod image;
mod matrix;
mod mbarrier;
mod mem;
mod order;
mod registers;
mod shared;
mod step;
mod stuck;
mod sync;
mod trace;
mod wgmma;
mod wmma;

use crate::alu::exec::Regs;
use crate::counters;
use crate::findings::{FindingKind, Log, Raw};
use crate::kernel::*;
use crate::launch::AsyncMode;
use crate::memory::Memory;
use crate::op::*;
use crate::race::{Budget, Clocks, Crossings, Shadow, SyncWord};
use crate::simd::Simd;
use barrier::Barrier;
use bulk::{BulkGroups, Bulks};
pub(crate) use call::PRINTED;
use cluster::ClusterBarrier;
use copy::Copies;
pub(crate) use device::Device;
use mbarrier::MBarrier;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

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
    /// Address of the grid's workspace, 0 for kernels that do not ask for it.
    pub workspace: u64,
    pub sm_count: u32,
    pub seed: u64,
    pub async_mode: AsyncMode,
    pub race_check: bool,
    pub uninit_check: bool,
    pub barrier_init_fence: bool,
    pub dependent: bool,
    pub max_instructions: u64,
    /// Record what the first CTA does.
    pub trace: bool,
    /// Log2 of the bytes of the narrowest access to shared memory.
    pub shared_shift: u32,
    /// Host memory that the checks may take.
    pub budget: Arc<Budget>,
    /// Global memory by cluster, where no cluster can wait for another.
    pub crossings: Option<Crossings>,
}

/// Rounds in which warps only poll mbarriers before it counts as a deadlock.
const IDLE_ROUNDS: u32 = 100;
/// The same where warps poll plain memory: a loop may also read the same value often for other reasons.
const IDLE_POLLS: u32 = 10_000;
/// Rounds in which a warp polls in vain, while others are busy, before asynchronous copies complete one by one.
const BUSY_ROUNDS: u32 = 1000;
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
    /// At a cluster barrier, until it has completed so many phases.
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
    order: sync::Order,
    /// The next aligned instruction goes on with the lanes it has.
    forced: bool,
    /// Strong loads executed: a loop around them may wait for another lane.
    flag_reads: u32,
    /// Phase of the cluster barrier in which each lane arrived last, and the lanes that have not waited since.
    cluster_phase: [u64; 32],
    cluster_arrived: u32,
    /// Registers a thread may use, after `setmaxnreg`.
    registers: u32,
    bulk_groups: BulkGroups,
    wg: wgmma::WgState,
    /// Accumulators of `wgmma`s in flight, by register (late mode).
    wg_saved: Vec<(Slot, [u32; 32])>,
    /// The mbarrier a wait failed on last: CTA, offset, parity.
    waits: Option<(u32, u32, u32)>,
    /// A wait on an mbarrier failed, or a flag was found unchanged, in this turn.
    failed: bool,
    /// The strong load executed last, and what it read.
    poll: Option<(u32, u64)>,
    /// It was from global memory and found nothing new: other CTAs may have to run.
    polls_global: bool,
    /// Lanes that must wait for the grids before this one, and have not.
    unawaited: u32,
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
    /// What strong accesses released, by word.
    sync_words: HashMap<u32, SyncWord>,
    /// By offset of the 8 bytes. Ordered, so that reports are.
    mbars: BTreeMap<u32, MBarrier>,
    /// Addresses of tensor maps in global memory that a thread has acquired.
    acquired: BTreeSet<u64>,
    /// Registers that `setmaxnreg.dec` returned and nobody took.
    free_registers: u32,
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
    /// The lanes of the mask are done here, or wait; the others execute this instruction again.
    Leave(u32, Option<Wait>),
    /// The lanes of the mask wait here; they go on after this instruction once released.
    Block(u32, Wait),
    /// All lanes stay at this instruction and try again when others arrive.
    Retry,
    /// All lanes try again in the next turn.
    Again,
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
    /// Rounds in a row in which some warp polled in vain, side effects or not.
    patience: u32,
    /// What the warps held in an idle round, and which round that was.
    held: (u64, u32),
    device: Rc<RefCell<Device>>,
    /// The cluster whose global accesses are in the device's shadow.
    retiring: u32,
    /// The first CTA is running, and what it does is to be recorded.
    tracing: bool,
    /// Whose request of which instruction is recorded, by allocation.
    traced: HashSet<(u32, u32, Option<usize>)>,
}

/// How a call of [`Engine::advance`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Ran for a while without finishing: other CTAs may have to run first.
    Pending,
    /// Only polls global memory, which does not change.
    Stalled,
}

impl<'a> Engine<'a> {
    pub fn new(env: &'a Env<'a>, device: Rc<RefCell<Device>>) -> Self {
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
            patience: 0,
            held: (0, 0),
            device,
            retiring: 0,
            tracing: false,
            traced: HashSet::new(),
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
        let reserved = self.k.reserved_shared();
        let size = if reserved == 0 { size } else { size.next_multiple_of(16) + reserved };
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
            cta.shared.resize(((size - reserved).div_ceil(4)) as usize, !0);
            cta.shared.resize(size.div_ceil(4) as usize, 0);
            if env.race_check || env.uninit_check {
                let first = (rank * self.wpc) as u32;
                let bytes = 4 * cta.shared.len();
                cta.shadow.reset(bytes, env.shared_shift, first, env.race_check, env.uninit_check);
            }
            cta.bars.clear();
            cta.bars.resize_with(16, Barrier::default);
            cta.live_threads = threads;
            cta.sync_words.clear();
            cta.mbars.clear();
            cta.acquired.clear();
            cta.free_registers = 0;
        }
        self.retire();
        self.retiring = linear as u32 + 1;
        self.tracing = env.trace && linear == 0;
        self.cluster_bar = ClusterBarrier::default();
        self.bulk.clear();
        (self.idle, self.events, self.patience, self.held) = (0, 0, 0, (0, 0));
        let units = if self.k.asynchronous { warps + 2 * bulk::POOL } else { 0 };
        self.clocks.reset(warps, self.wpc, 2 * warps + units, linear as u32 + 1);
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
        (w.index, w.forced, w.flag_reads) = (index, false, 0);
        (w.cluster_phase, w.cluster_arrived, w.waits, w.failed) = ([0; 32], 0, None, false);
        (w.poll, w.polls_global) = (None, false);
        w.unawaited = if self.env.dependent { !0 } else { 0 };
        w.order.clear();
        w.registers = self.initial_registers();
        w.bulk_groups.clear();
        w.wg.clear();
        w.wg_saved.clear();
        w.local.clear();
        w.local.resize(k.info.local_bytes as usize / 4 * 32, 0);
        w.copies.clear();
        w.splits.clear();
        w.splits.push(Split { pc: k.entry, mask: w.exists, wait: Wait::Ready, spins: 0, resting: false });
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
            Special::TotalSmem => self.ctas[0].size - self.k.reserved_shared(),
            Special::ReservedSmem(2) => RESERVED,
            Special::ReservedSmem(end) => {
                SHARED_BASE + self.ctas[0].size - if end == 0 { self.k.reserved_shared() } else { 0 }
            }
            Special::EnvReg(1) => (env.workspace >> 32) as u32,
            Special::EnvReg(2) => env.workspace as u32,
            Special::EnvReg(_) => 0,
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

    /// Number in the grid of the first CTA that it runs.
    pub fn number(&self) -> u64 {
        self.ctas[0].linear
    }

    /// Runs until the CTA is done, deadlocked, out of memory for the checks, or (with `rounds`) has had that many turns of all warps.
    pub fn advance(&mut self, rounds: u64) -> Outcome {
        let n = self.warps.len();
        for _ in 0..rounds {
            let first = if self.env.seed == 0 { 0 } else { self.random() as usize % n };
            let (mut ran, mut done, mut polled) = (false, true, false);
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
                polled |= self.warps[w].failed;
            }
            if done {
                self.finish();
                return Outcome::Done;
            }
            if self.budget == 0 {
                self.report_limit();
                return Outcome::Done;
            }
            if self.env.budget.exceeded() {
                return Outcome::Done;
            }
            self.patience = if polled { self.patience + 1 } else { 0 };
            if !waiting || self.events != before {
                self.idle = 0;
                // A poll loop may count its turns in memory that others see, or others go on for long.
                if self.patience > if waiting { IDLE_ROUNDS } else { BUSY_ROUNDS } {
                    self.patience = 0;
                    self.complete_one_bulk();
                }
                continue;
            }
            // Nothing moves: the last legal moment of the asynchronous copies has come, one by one.
            if self.complete_one_bulk() {
                continue;
            }
            self.idle += 1;
            let limit = if self.warps.iter().any(|w| w.failed && w.poll.is_some()) {
                IDLE_POLLS
            } else {
                IDLE_ROUNDS
            };
            // The other limit is near.
            if limit == IDLE_POLLS && self.repeats() {
                self.idle = self.idle.max(limit + 1);
            }
            if !ran || self.idle > limit {
                // Lanes that wait for one that polls have not diverged for good: another CTA may let it go on.
                if self.warps.iter().any(|w| w.polls_global && !w.splits.is_empty()) {
                    return Outcome::Stalled;
                }
                if self.force_aligned() {
                    continue;
                }
                self.report_deadlock("");
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
            if self.run_split(&mut w, si, &mut left) {
                break;
            }
        }
        self.budget -= given - left;
        self.clock += given - left;
        self.warps[wi] = w;
        left < given
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
        self.log.add(kind, pc, key, || Raw {
            kind,
            message: kind.cite(text()),
            pc,
            cta,
            warp,
            lane,
            count: n,
        });
    }
}
