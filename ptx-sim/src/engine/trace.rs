//! Records what the first CTA does.

use super::mem::{Addrs, classify};
use super::{Engine, Flow, Warp};
use crate::counters::Access;
use crate::kernel::SHARED_BASE;
use crate::op::*;
use crate::trace::{Event, EventKind, Place, Request};

/// What a request cost, and the least that it could.
pub(super) struct Cost {
    pub cost: u32,
    pub least: u32,
    pub matrices: bool,
}

impl Engine<'_> {
    /// Whether a warp's CTA is the one to be recorded.
    pub(super) fn traces(&self, w: &Warp) -> bool {
        self.tracing && w.cta == 0
    }

    /// Records the first request of a warp by an instruction; `alloc` is the allocation, if it is no shared memory.
    #[cold]
    pub(super) fn trace_request(
        &mut self,
        w: &Warp,
        pc: u32,
        alloc: Option<usize>,
        (lanes, m, bytes): (&Addrs, u32, u32),
        cost: Cost,
    ) {
        if !self.traced.insert((pc, w.index, alloc)) {
            return;
        }
        let line = self.k.sites[pc as usize].line;
        let buffer = alloc.map(|a| self.env.mem.allocs[a].name.to_string());
        let base = alloc.map_or(0, |a| self.env.mem.allocs[a].base);
        let offset = |i: usize| (m >> i & 1 != 0).then(|| lanes[i].wrapping_sub(base));
        let access = match (&self.k.insts[pc as usize].op, alloc) {
            (Op::St(_), _) => Access::Store,
            (Op::Atom(_), _) => Access::Atomic,
            (Op::CpAsync(_), None) => Access::Store,
            (Op::MatrixCopy(x), _) if x.store => Access::Store,
            _ => Access::Load,
        };
        let Cost { cost, least, matrices } = cost;
        let lanes = std::array::from_fn(offset);
        let warp = w.index;
        self.counts.trace.requests.push(Request {
            line,
            warp,
            buffer,
            access,
            bytes,
            lanes,
            cost,
            least,
            matrices,
        });
    }

    /// [`Engine::step`], recorded.
    #[cold]
    pub(super) fn traced_step(&mut self, w: &mut Warp, pc: u32, m: u32, mask: u32) -> Flow {
        let kind = self.event_of(w, pc, m);
        let flow = self.step(w, pc, m, mask);
        let Some(kind) = kind else { return flow };
        let again = matches!(flow, Flow::Retry | Flow::Again);
        if again || (matches!(kind, EventKind::Waited { .. }) && w.waits.is_some()) {
            return flow;
        }
        self.trace_event(Some(w.index), pc, kind);
        flow
    }

    pub(super) fn trace_event(&mut self, warp: Option<u32>, pc: u32, kind: EventKind) {
        let line = self.k.sites.get(pc as usize).map_or(0, |s| s.line);
        self.counts.trace.push(Event { warp, line, kind });
    }

    fn event_of(&self, w: &Warp, pc: u32, m: u32) -> Option<EventKind> {
        let first = m.trailing_zeros() as usize;
        let at = |addr: &Addr, space| self.lane_addresses(w, addr, space)[first];
        let shared = |addr: &Addr| shared_byte(at(addr, MSpace::Shared));
        Some(match &self.k.insts[pc as usize].op {
            Op::Ld(mem) if self.is_memory(mem.space) => EventKind::Access {
                access: Access::Load,
                at: self.place_of(mem.space, at(&mem.addr, mem.space)),
            },
            Op::St(mem) if self.is_memory(mem.space) => EventKind::Access {
                access: Access::Store,
                at: self.place_of(mem.space, at(&mem.addr, mem.space)),
            },
            Op::MatrixCopy(x) => EventKind::Access {
                access: if x.store { Access::Store } else { Access::Load },
                at: Place::Shared(shared(&x.addr)),
            },
            Op::Atom(a) => {
                EventKind::Access { access: Access::Atomic, at: self.place_of(a.space, at(&a.addr, a.space)) }
            }
            Op::CpAsync(c) => EventKind::CopyAsync {
                from: self.place_of(MSpace::Global, at(&c.src, MSpace::Global)),
                to: shared(&c.dst),
            },
            Op::CpCommit => EventKind::Commit,
            Op::CpWait(n) => EventKind::WaitGroup(if *n == u32::MAX { 0 } else { *n }),
            Op::Bulk(x) if x.dir != BulkDir::Prefetch => {
                let store = x.dir == BulkDir::SharedToGlobal;
                EventKind::Bulk {
                    shared: shared(if store { &x.src } else { &x.dst }),
                    store,
                    mbarrier: x.mbar.as_ref().map(shared),
                }
            }
            Op::BulkCommit => EventKind::BulkCommit,
            Op::BulkWait { keep, .. } => EventKind::BulkWait(*keep),
            Op::Bar(b) => EventKind::Barrier(match b.id {
                SINK => 0,
                id => w.regs.r[id as usize].0[first],
            }),
            Op::ClusterArrive { .. } | Op::ClusterWait => EventKind::Cluster,
            Op::MBar(x) => {
                let address = at(&x.addr, x.space);
                let mbarrier = shared_byte(address);
                match x.kind {
                    MBarKind::Init => EventKind::Init { mbarrier },
                    MBarKind::Arrive { .. } | MBarKind::CopyArrive { .. } => {
                        let remote = address >> 24 & 0xff != u64::from(w.cta);
                        EventKind::Arrive { mbarrier, lanes: m.count_ones(), remote }
                    }
                    MBarKind::TestWait { .. } => EventKind::Waited { mbarrier },
                    _ => return None,
                }
            }
            Op::Mma(_) | Op::Wmma(_) | Op::Wgmma(_) => EventKind::Product,
            Op::WgCommit => EventKind::ProductCommit,
            Op::WgWait(n) => EventKind::ProductWait(*n),
            Op::Shfl { .. } | Op::Redux { .. } => EventKind::Exchange,
            _ => return None,
        })
    }

    fn is_memory(&self, space: MSpace) -> bool {
        matches!(space, MSpace::Global | MSpace::Shared | MSpace::Generic)
    }

    fn place_of(&self, space: MSpace, address: u64) -> Place {
        let (space, address) = if space == MSpace::Generic { classify(address) } else { (space, address) };
        match space {
            MSpace::Shared => Place::Shared(shared_byte(address)),
            MSpace::Global => match self.env.mem.find(address) {
                Some(a) => {
                    let a = &self.env.mem.allocs[a];
                    Place::Global(a.name.to_string(), address - a.base)
                }
                None => Place::Other,
            },
            _ => Place::Other,
        }
    }
}

/// The byte of its CTA's shared memory that an address means.
fn shared_byte(address: u64) -> u32 {
    (address as u32 & 0xff_ffff).wrapping_sub(SHARED_BASE)
}
