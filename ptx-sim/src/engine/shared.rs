//! Loads and stores of shared memory: bounds, banks, races.

use super::mem::{Addrs, UNUSED, deliver};
use super::sync::mix;
use super::trace::Cost;
use super::{Engine, Warp};
use crate::banks;
use crate::findings::{FindingKind, RaceKind};
use crate::kernel::SHARED_BASE;
use crate::op::*;
use crate::race::{ANY_LANE, Act, Conflict, FOREIGN, Issue, Scope, Side, Strength, Who};

impl Engine<'_> {
    /// Offsets into the CTA's shared memory of the lanes that are inside it.
    pub(super) fn shared_offsets(
        &mut self,
        w: &Warp,
        pc: u32,
        bytes: u32,
        addr: &Addrs,
        ok: u32,
    ) -> ([u32; 32], u32) {
        let size = self.ctas[self.target].size;
        let room = size.saturating_sub(bytes - 1);
        let mut inside = 0;
        let mut off = [0u32; 32];
        for i in 0..32 {
            off[i] = (addr[i] as u32 & 0xff_ffff).wrapping_sub(SHARED_BASE);
            inside |= ((off[i] < room) as u32) << i;
        }
        if ok & !inside != 0 {
            let lane = (ok & !inside).trailing_zeros();
            self.shared_out_of_bounds(w, pc, lane, addr[lane as usize], bytes);
        }
        (off, ok & inside)
    }

    #[cold]
    fn shared_out_of_bounds(&mut self, w: &Warp, pc: u32, lane: u32, addr: u64, bytes: u32) {
        let size = self.ctas[self.target].size;
        let k = self.k;
        self.find(FindingKind::SharedOutOfBounds, w, pc, lane, 0, || {
            let off = (addr & 0xff_ffff) as i64 - SHARED_BASE as i64;
            let near = k.shared_vars.iter().filter(|v| (v.1 as i64) <= off).max_by_key(|v| v.1);
            let near = near.map_or(String::new(), |v| format!("; byte {} of `{}`", off - v.1 as i64, v.0));
            format!("{bytes} bytes at byte {off} of the CTA's {size} bytes of shared memory{near}")
        });
    }

    pub(super) fn count_shared(
        &mut self,
        w: &Warp,
        pc: u32,
        off: &[u32; 32],
        m: u32,
        bytes: u32,
        load: bool,
    ) {
        let (wavefronts, ideal) = banks::wavefronts(off, m, bytes, load);
        if self.traces(w) {
            let cost = Cost { cost: wavefronts, least: ideal, matrices: false };
            self.trace_request(w, pc, None, (&off.map(u64::from), m, bytes), cost);
        }
        let c = &mut self.counts.mem[pc as usize];
        c.shared_requests += 1;
        c.wavefronts += wavefronts as u64;
        c.ideal_wavefronts += ideal as u64;
        c.shared_bytes += (bytes * m.count_ones()) as u64;
    }

    pub(super) fn who(&self, w: &Warp, pc: u32, strength: Strength) -> Who {
        let agent = w.agent(self.wpc);
        let local = self.target == w.cta as usize;
        let first = agent - w.index as usize;
        Who {
            agent: agent as u32,
            lane: 0,
            clock: self.clocks.now(agent) | if local { 0 } else { FOREIGN },
            floor: if local { self.clocks.floor[agent] } else { 0 },
            // Other CTAs of the cluster may come.
            settled: match strength.is_strong() && self.ctas.len() == 1 {
                true => self.clocks.settled(first..first + self.wpc),
                false => 0,
            },
            bit: if local { 1 << w.index } else { 0 },
            pc,
            strength,
            partial: false,
        }
    }

    pub(super) fn checks(&self) -> bool {
        self.env.race_check || self.env.uninit_check
    }

    pub(super) fn load_shared(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, m: u32, ok: u32) {
        let bytes = mem.bytes();
        let (off, ok) = self.shared_offsets(w, pc, mem.reach(), addr, ok);
        if ok == 0 {
            for e in 0..mem.regs.len() {
                for word in 0..mem.width.div_ceil(4) {
                    deliver(&mut w.regs, mem, e, word, &[0; 32], m);
                }
            }
            return;
        }
        self.count_shared(w, pc, &off, ok, bytes, true);
        if mem.sem != Sem::Weak {
            self.observe_shared(w, &off, ok, mem.sem, mem.scope);
        }
        if self.checks() {
            let span = Span { off: &off, ok, bytes, used: mem.used };
            self.check_shared(w, pc, &span, w.strength(mem.sem), Act::Read, None);
        }
        let mut value = 0;
        let data = &self.ctas[self.target].shared;
        for e in 0..mem.regs.len() {
            let used = mem.uses(e);
            for word in 0..mem.width.div_ceil(4) {
                if !used {
                    deliver(&mut w.regs, mem, e, word, &[UNUSED; 32], m);
                    continue;
                }
                let delta = e as u32 * mem.width + word * 4;
                let mut v = [0; 32];
                if mem.width >= 4 {
                    for i in 0..32 {
                        if ok >> i & 1 != 0 {
                            v[i] = data[((off[i] + delta) / 4) as usize];
                        }
                    }
                } else {
                    let mask = (1 << (8 * mem.width)) - 1;
                    for i in 0..32 {
                        if ok >> i & 1 != 0 {
                            let at = off[i] + delta;
                            v[i] = data[(at / 4) as usize] >> (8 * (at % 4)) & mask;
                        }
                    }
                }
                deliver(&mut w.regs, mem, e, word, &v, m);
                if mem.sem != Sem::Weak {
                    value = v.iter().fold(value, |h, v| mix(h, *v));
                }
            }
        }
        if mem.sem != Sem::Weak {
            self.polled(w, pc, value, false);
        }
    }

    /// The common case of a whole warp that loads one word, or 32 consecutive ones; `false` if it is not that.
    pub(super) fn load_shared_row(&mut self, w: &mut Warp, pc: u32, mem: &Mem) -> bool {
        let (Some(reg), [d]) = (mem.addr.reg, &mem.regs[..]) else { return false };
        if mem.space != MSpace::Shared
            || mem.width != 4
            || mem.slots != 1
            || mem.sem != Sem::Weak
            || *d == SINK
        {
            return false;
        }
        let a = &w.regs.r[reg as usize].0;
        let first = a[0];
        let (mut spread, mut uneven) = (0, 0);
        for i in 0..32 {
            spread |= a[i] ^ first;
            uneven |= a[i] ^ first.wrapping_add(4 * i as u32);
        }
        self.target = w.cta as usize;
        let off = first.wrapping_add(mem.addr.off as u32).wrapping_sub(SHARED_BASE + (w.cta << 24));
        let span = if spread == 0 { 4 } else { 128 };
        let size = self.ctas[self.target].size;
        if (spread != 0 && uneven != 0) || !off.is_multiple_of(4) || span > size || off > size - span {
            return false;
        }
        let word = (off / 4) as usize;
        if self.checks() {
            let mut who = self.who(w, pc, Strength::WEAK);
            let shadow = &mut self.ctas[self.target].shadow;
            if spread == 0 {
                who.lane = ANY_LANE;
                let seen = self.clocks.seen(who.agent as usize);
                let mut first = None;
                shadow.access((off, 4), Act::Read, &who, seen, |i, _| first = first.or(Some(i)));
                if let Some(issue) = first {
                    self.report_issue(w, pc, 0, off, issue);
                }
            } else if !(self.env.simd.read_row)(shadow, (off, 4, 32), &who) {
                return false;
            }
        }
        if self.traces(w) {
            let lanes = std::array::from_fn(|i| u64::from(off) + if spread == 0 { 0 } else { 4 * i as u64 });
            let cost = Cost { cost: 1, least: 1, matrices: false };
            self.trace_request(w, pc, None, (&lanes, !0, 4), cost);
        }
        let c = &mut self.counts.mem[pc as usize];
        c.shared_requests += 1;
        c.wavefronts += 1;
        c.ideal_wavefronts += 1;
        c.shared_bytes += 128;
        let data = &self.ctas[self.target].shared;
        if spread == 0 {
            w.regs.r[*d as usize].0 = [data[word]; 32];
        } else {
            w.regs.r[*d as usize].0.copy_from_slice(&data[word..word + 32]);
        }
        true
    }

    pub(super) fn store_shared(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, ok: u32) {
        let bytes = mem.bytes();
        let (off, ok) = self.shared_offsets(w, pc, bytes, addr, ok);
        if ok == 0 {
            return;
        }
        self.count_shared(w, pc, &off, ok, bytes, false);
        if self.checks() {
            let words = mem.width.div_ceil(4);
            let span = Span { off: &off, ok, bytes, used: !0 };
            self.check_shared(w, pc, &span, w.strength(mem.sem), Act::Write, Some((&mem.regs, words)));
        }
        let data = &mut self.ctas[self.target].shared;
        for (e, r) in mem.regs.iter().enumerate() {
            for word in 0..mem.width.div_ceil(4) {
                let delta = e as u32 * mem.width + word * 4;
                let v = &w.regs.r[(r + word) as usize].0;
                for i in 0..32 {
                    if ok >> i & 1 != 0 {
                        put_bytes(data, off[i] + delta, mem.width.min(4), v[i]);
                    }
                }
            }
        }
        if mem.sem != Sem::Weak {
            self.publish_shared(w, &off, ok, mem.sem, mem.scope, false);
        }
    }

    /// Race and initialisation checks of one access. `stored`: the registers of the stored elements and how many each has;
    /// writes of one value by one instruction, in several lanes or warps, do not race.
    pub(super) fn check_shared(
        &mut self,
        w: &Warp,
        pc: u32,
        span: &Span<'_>,
        strength: Strength,
        act: Act,
        stored: Option<(&[Slot], u32)>,
    ) {
        let &Span { off, ok, bytes, used } = span;
        let mut who = Who { partial: ok != w.live, ..self.who(w, pc, strength) };
        let simd = self.env.simd;
        let super::Cta { shadow, shared, .. } = &mut self.ctas[self.target];
        // Lanes from 0 on without a gap, at addresses without a gap.
        let (lanes, whole) = (ok.count_ones(), used == !0 && !strength.is_strong());
        if whole && ok.wrapping_add(1) & ok == 0 && (0..lanes).all(|i| off[i as usize] == off[0] + i * bytes)
        {
            let row = (off[0], bytes, lanes);
            let done = match act {
                Act::Read => (simd.read_row)(shadow, row, &who),
                Act::Write => (simd.write_row)(shadow, row, &who),
                Act::Update => false,
            };
            if done {
                return;
            }
        }
        let ok = match act {
            Act::Read if whole => (simd.read_each)(shadow, off, bytes, ok, &who),
            _ => ok,
        };
        let seen = self.clocks.seen(who.agent as usize);
        let mut issues = Issues::default();
        for i in (0..32u32).filter(|i| ok >> i & 1 != 0) {
            who.lane = i;
            let at = off[i as usize];
            let mut found = |issue: Issue, cell: u32| {
                let k = cell.saturating_sub(at) / 4;
                let stored = stored.unwrap_or_default();
                if !same_value(w, shared, &issue, stored, &who, span, k) {
                    issues.add(issue, i, cell.max(at));
                }
            };
            if used == !0 {
                shadow.access((at, bytes), act, &who, seen, &mut found);
                continue;
            }
            for k in (0..bytes.div_ceil(4)).filter(|k| used >> (4 * k) & 0xf != 0) {
                shadow.access((at + 4 * k, bytes.min(4)), act, &who, seen, &mut found);
            }
        }
        self.report_issues(w, pc, issues);
    }

    fn report_issues(&mut self, w: &Warp, pc: u32, issues: Issues) {
        for (issue, lane, off) in issues.0 {
            self.report_issue(w, pc, lane, off, issue);
        }
    }

    #[cold]
    pub(super) fn report_issue(&mut self, w: &Warp, pc: u32, lane: u32, off: u32, issue: Issue) {
        let place = self.shared_name(off);
        match issue {
            Issue::Volatile(c) => self.report_volatile(w, pc, lane, &c, &format!("{place} of shared memory")),
            Issue::Uninitialized => self.find(FindingKind::UninitializedShared, w, pc, lane, 0, || {
                format!("reads {place} of shared memory, which nothing has written")
            }),
            Issue::Race(c) => {
                let (kind, text) = self.describe_race(w, c, lane, &place);
                self.find(kind, w, pc, lane, c.pc as u64, || text);
            }
        }
    }

    /// A conflict found when a bulk copy or a `wgmma` was issued.
    #[cold]
    pub(super) fn report_async(&mut self, w: &Warp, pc: u32, lane: u32, off: u32, issue: Issue) {
        let Issue::Race(c) = issue else { return self.report_issue(w, pc, lane, off, issue) };
        let place = self.shared_name(off);
        let line = self.k.sites[c.pc as usize].line;
        let agent = w.agent(self.wpc);
        let thread = (c.agent as usize) < self.warps.len();
        let seen = || self.clocks.covers(agent, (c.agent as usize, c.lane), c.clock, Side::Writes);
        let own = c.agent as usize == agent;
        if thread && c.kind != RaceKind::WriteAfterRead && (own || seen()) {
            return self.find(FindingKind::MissingProxyFence, w, pc, lane, c.pc as u64, || {
                format!(
                    "accesses {place} of shared memory through the asynchronous proxy, but no fence.proxy.async follows the write at line {line}"
                )
            });
        }
        let other = self.agent_name(c.agent);
        let was = if c.kind == RaceKind::WriteAfterRead { "read" } else { "write" };
        self.find(FindingKind::AsyncRace, w, pc, lane, c.pc as u64, || {
            format!("the asynchronous access to {place} of shared memory is unordered with the {was} by {other} at line {line}")
        });
    }

    pub(super) fn agent_name(&self, agent: u32) -> String {
        let (n, a) = (self.warps.len() as u32, agent);
        let warp = |a: u32| match self.ctas.len() {
            1 => format!("warp {a}"),
            _ => format!("warp {} of CTA {} of the cluster", a as usize % self.wpc, a as usize / self.wpc),
        };
        if a < n {
            warp(a)
        } else if a < 2 * n {
            format!("the pending cp.async of {}", warp(a - n))
        } else if a < 2 * n + super::bulk::POOL as u32 || a >= 3 * n + super::bulk::POOL as u32 {
            "a bulk copy".into()
        } else {
            format!("the wgmma of {}", warp(a - 2 * n - super::bulk::POOL as u32))
        }
    }

    fn describe_race(&self, w: &Warp, c: Conflict, lane: u32, place: &str) -> (FindingKind, String) {
        let line = self.k.sites[c.pc as usize].line;
        let warps = self.warps.len() as u32;
        let access = match c.kind {
            RaceKind::WriteWrite | RaceKind::WriteAfterRead => "writes",
            RaceKind::ReadAfterWrite => "reads",
        };
        let was = if c.kind == RaceKind::WriteAfterRead { "read" } else { "write" };
        if c.agent as usize == self.clocks.agents {
            let text = format!(
                "{access} {place} of shared memory, which is part of the mbarrier initialised at line {line}"
            );
            return (FindingKind::Mbarrier, text);
        }
        let read = c.kind == RaceKind::WriteAfterRead;
        let orders = self.what_orders(w.agent(self.wpc), c.agent as usize, c.clock, read);
        if c.agent >= warps {
            let other = self.agent_name(c.agent);
            let text = format!(
                "{access} {place} of shared memory, unordered with the asynchronous {was} by {other} at line {line}; {orders}"
            );
            return (FindingKind::AsyncRace, text);
        }
        let other = if c.agent == w.agent(self.wpc) as u32 {
            let l = if c.lane == ANY_LANE { "another lane".into() } else { format!("lane {}", c.lane) };
            format!("{l} of the same warp at line {line}; {orders}")
        } else {
            format!("{} at line {line}; {orders}", self.agent_name(c.agent))
        };
        let text =
            format!("lane {lane} {access} {place} of shared memory, unordered with the {was} by {other}");
        (FindingKind::SharedRace(c.kind), text)
    }

    /// `byte 12 of `tile``
    pub(super) fn shared_name(&self, off: u32) -> String {
        let k = self.k;
        if off >= k.dynamic.0
            && let Some(name) = &k.dynamic.1
        {
            return format!("byte {} of `{name}`", off - k.dynamic.0);
        }
        match k.shared_vars.iter().find(|v| off >= v.1 && off - v.1 < v.2) {
            Some(v) => format!("byte {} of `{}`", off - v.1, v.0),
            None => format!("byte {off}"),
        }
    }

    pub(super) fn observe_shared(&mut self, w: &mut Warp, off: &[u32; 32], ok: u32, sem: Sem, scope: Scope) {
        for i in (0..32).filter(|i| ok >> i & 1 != 0) {
            if let Some(word) = self.ctas[self.target].sync_words.get(&(off[i] / 4)).cloned() {
                // Keys of global words have the number of an allocation here.
                let key = (!(self.target as u32), off[i] as u64 / 4);
                self.strong_read(w, key, &word, sem, scope);
            }
        }
    }

    /// A strong write; `rmw`: it continues the release sequence of what it overwrites.
    pub(super) fn publish_shared(
        &mut self,
        w: &Warp,
        off: &[u32; 32],
        ok: u32,
        sem: Sem,
        scope: Scope,
        rmw: bool,
    ) {
        let published = self.published(w, ok, sem, scope);
        let at = self.place(w);
        let words = &mut self.ctas[self.target].sync_words;
        for i in (0..32).filter(|i| ok >> i & 1 != 0) {
            if !rmw && let Some(word) = words.get_mut(&(off[i] / 4)) {
                word.overwrite();
            }
            for (scope, token) in &published {
                words.entry(off[i] / 4).or_default().publish(&self.clocks, at, *scope, token);
            }
        }
    }
}

/// What the lanes of a warp access.
pub(super) struct Span<'a> {
    pub off: &'a [u32; 32],
    pub ok: u32,
    pub bytes: u32,
    /// Bytes of each lane that count, a bit each.
    pub used: u32,
}

/// At most one issue of each kind per instruction.
#[derive(Default)]
struct Issues(Vec<(Issue, u32, u32)>);

impl Issues {
    fn add(&mut self, issue: Issue, lane: u32, off: u32) {
        if !self.0.iter().any(|o| std::mem::discriminant(&o.0) == std::mem::discriminant(&issue)) {
            self.0.push((issue, lane, off));
        }
    }
}

/// Whether a conflict is with a write by the same instruction of what word `k` of this lane's write stores.
#[cold]
fn same_value(
    w: &Warp,
    data: &[u32],
    issue: &Issue,
    (stored, words): (&[Slot], u32),
    who: &Who,
    &Span { off, ok, bytes, .. }: &Span<'_>,
    k: u32,
) -> bool {
    let (Issue::Race(c) | Issue::Volatile(c)) = issue else { return false };
    if c.kind != RaceKind::WriteWrite || c.pc != who.pc || stored.is_empty() {
        return false;
    }
    let (lane, other) = (who.lane as usize, c.lane as usize);
    if c.agent == who.agent {
        return other < 32
            && ok >> other & 1 != 0
            && off[other] == off[lane]
            && stored.iter().flat_map(|s| *s..*s + words).all(|s| {
                let v = &w.regs.r[s as usize].0;
                v[lane] == v[other]
            });
    }
    // Elements below 4 bytes share a word.
    let whole = stored.len() as u32 * words * 4 == bytes;
    let word = (off[lane] / 4 + k) as usize;
    whole && data[word] == w.regs.r[(stored[(k / words) as usize] + k % words) as usize].0[lane]
}

pub(super) fn put_bytes(data: &mut [u32], at: u32, width: u32, v: u32) {
    let word = &mut data[(at / 4) as usize];
    if width == 4 {
        *word = v;
    } else {
        let (sh, mask) = (8 * (at % 4), (1u32 << (8 * width)) - 1);
        *word = (*word & !(mask << sh)) | (v & mask) << sh;
    }
}
