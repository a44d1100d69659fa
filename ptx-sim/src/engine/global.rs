//! Loads and stores of global memory: bounds, sectors, buffers.

use super::mem::{Addrs, UNUSED, deliver};
use super::sync::mix;
use super::trace::Cost;
use super::{Engine, Warp};
use crate::banks;
use crate::findings::{FindingKind, RaceKind};
use crate::op::*;
use crate::race::{ANY_LANE, Access, GlobalConflict, Me, Scope, Side, Strength};

/// Accesses of the lanes of a warp to global memory.
pub(super) struct Lanes<'a> {
    pub groups: &'a Groups,
    pub addr: &'a Addrs,
    pub bytes: u32,
    pub strength: Strength,
    pub write: bool,
    /// Slots of the stored values: lanes that store the same value to one place in one instruction do not race.
    pub values: &'a [Slot],
}

impl Engine<'_> {
    /// Race checks of one access.
    pub(super) fn check_global(&mut self, w: &Warp, pc: u32, l: &Lanes<'_>) {
        if !self.env.race_check {
            return;
        }
        let agent = w.agent(self.wpc);
        let cta = self.ctas[w.cta as usize].linear as u32 + 1;
        let clock = self.clocks.now(agent);
        let access = Access { cta, clock, pc, agent: agent as u16, lane: 0, strength: l.strength };
        let mut me = self.accessor(access, Some(w.index));
        let device = self.device.clone();
        let device = &mut *device.borrow_mut();
        let (whole, per_unit, unit) = (device.whole, me.per_unit, (cta - 1) / me.per_unit);
        let clocks = &self.clocks;
        let seen = clocks.seen(agent);
        let of = |a: &Access, o: &Access, read: bool| {
            let u = o.cta.wrapping_sub(1) / per_unit;
            let (who, other) = (a.who(), o.who());
            match u == unit {
                true if read => seen.after_read(who, other),
                true => seen.after_write(who, other),
                false if whole => {
                    let side = if read { Side::Reads } else { Side::Writes };
                    clocks.seen_of(agent, u + 1, (o.agent as usize, o.lane as u32), o.clock, side)
                }
                false => true,
            }
        };
        let (reads, writes) =
            (|a: &Access, o: &Access| of(a, o, true), |a: &Access, o: &Access| of(a, o, false));
        let mut first = None;
        for &(ai, lanes) in l.groups.iter() {
            let a = &self.env.mem.allocs[ai];
            let buffer = (ai as u32, a.size);
            let weak = !l.strength.is_strong();
            let start = lanes.trailing_zeros() as usize;
            // All lanes of the warp read the same: one access by the warp as a whole.
            let spread = match lanes {
                u32::MAX => l.addr.iter().fold(0, |s, x| s | (x ^ l.addr[0])),
                _ => (0..32).filter(|i| lanes >> i & 1 != 0).fold(0, |s, i| s | (l.addr[i] ^ l.addr[start])),
            };
            let together = weak && !l.write && spread == 0 && lanes == w.live && lanes & (lanes - 1) != 0;
            let mut left = if together { 1 << start } else { lanes };
            if weak && !l.write {
                me.access.lane = if together { ANY_LANE as u8 } else { 0 };
                let at = (a.base, l.addr, l.bytes);
                left = device.shadow.read_each(buffer, at, left, &me.access, 1 << w.index);
            }
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                left &= left - 1;
                if !together {
                    me.access.lane = i as u8;
                }
                let span = (l.addr[i] - a.base, l.bytes);
                if weak && l.write && device.shadow.first_write(buffer, span, &me.access, 1 << w.index) {
                    continue;
                }
                let hit = device.shadow.access(buffer, span, &me, l.write, &reads, &writes);
                let Some(c) = hit else { continue };
                let o = c.with;
                let same = (o.agent, o.cta, o.pc, o.clock) == (agent as u16, cta, pc, clock);
                let values = |s: &Slot| {
                    let v = &w.regs.r[*s as usize].0;
                    v[i] == v[o.lane as usize & 31]
                };
                if !(same && !l.values.is_empty() && l.values.iter().all(values)) {
                    first = first.or(Some((i as u32, ai, c)));
                }
            }
        }
        if let Some((lane, ai, c)) = first {
            if c.loose {
                return self.report_loose(w, pc, lane, ai, &c);
            }
            let (kind, text) = self.describe_global(w.agent(self.wpc), lane, ai, &c, false);
            self.find(kind, w, pc, lane, c.with.pc as u64, || text);
        }
    }

    pub(super) fn accessor(&self, access: Access, warp: Option<u32>) -> Me {
        Me { access, warp, per_cta: self.wpc as u16, per_unit: self.ctas.len() as u32 }
    }

    /// What a conflict in global memory is, in words.
    #[cold]
    pub(super) fn describe_global(
        &self,
        agent: usize,
        lane: u32,
        alloc: usize,
        c: &GlobalConflict,
        bulk: bool,
    ) -> (FindingKind, String) {
        let o = c.with;
        let name = &self.env.mem.allocs[alloc].name;
        let line = self.k.sites.get(o.pc as usize).map_or(0, |s| s.line);
        let access = if c.kind == RaceKind::ReadAfterWrite { "reads" } else { "writes" };
        let was = if c.kind == RaceKind::WriteAfterRead { "read" } else { "write" };
        let who = if bulk { "the bulk copy".to_string() } else { format!("lane {lane}") };
        let here = (o.cta.wrapping_sub(1) / self.ctas.len() as u32) as u64
            == self.ctas[0].linear / self.ctas.len() as u64;
        if bulk
            && here
            && (o.agent as usize) < self.warps.len()
            && (o.agent as usize == agent
                || self.clocks.covers(agent, (o.agent as usize, o.lane as u32), o.clock, Side::Writes))
        {
            let text = format!(
                "{who} {access} byte {} of `{name}` through the asynchronous proxy, but no fence.proxy.async follows the write at line {line}",
                c.at
            );
            return (FindingKind::MissingProxyFence, text);
        }
        let (other, hint) = self.other_access(agent, c);
        let text = format!(
            "{who} {access} byte {} of `{name}`, unordered with the {was} by {other} at line {line}; {hint}",
            c.at
        );
        (FindingKind::GlobalRace(c.kind), text)
    }

    /// A strong read: what was released at these words.
    fn observe_global(&mut self, w: &mut Warp, groups: &Groups, addr: &Addrs, sem: Sem, scope: Scope) {
        if !self.device.borrow().whole {
            return;
        }
        for &(ai, lanes) in groups.iter() {
            for i in (0..32).filter(|i| lanes >> i & 1 != 0) {
                let key = (ai as u32, (addr[i] - self.env.mem.allocs[ai].base) / 4);
                let word = self.device.borrow().sync.get(&key).cloned();
                if let Some(word) = word {
                    self.strong_read(w, key, &word, sem, scope);
                }
            }
        }
    }

    fn publish_global(&mut self, w: &Warp, groups: &Groups, addr: &Addrs, sem: Sem, scope: Scope, rmw: bool) {
        if !self.device.borrow().whole {
            return;
        }
        let lanes = groups.iter().fold(0, |s, g| s | g.1);
        let published = self.published(w, lanes, sem, scope);
        let at = self.place(w);
        let device = &mut *self.device.borrow_mut();
        for &(ai, lanes) in groups.iter() {
            for i in (0..32).filter(|i| lanes >> i & 1 != 0) {
                let key = (ai as u32, (addr[i] - self.env.mem.allocs[ai].base) / 4);
                if !rmw && let Some(word) = device.sync.get_mut(&key) {
                    word.overwrite();
                }
                for (scope, token) in &published {
                    device.sync.entry(key).or_default().publish(&self.clocks, at, *scope, token);
                }
            }
        }
    }

    /// Both halves of an atomic's ordering and its race check.
    pub(super) fn order_atomic(
        &mut self,
        w: &mut Warp,
        pc: u32,
        a: &Atom,
        groups: &Groups,
        addr: &Addrs,
        sem: Sem,
    ) {
        let bytes = a.ty.bytes() * a.more.len().max(1) as u32;
        let l =
            Lanes { groups, addr, bytes, strength: w.strength(sem).at(a.scope), write: true, values: &[] };
        self.check_global(w, pc, &l);
        self.observe_global(w, groups, addr, a.sem, a.scope);
        self.publish_global(w, groups, addr, a.sem, a.scope, true);
    }

    /// Lanes that access global memory have waited for the grids before this one, where the launch may run beside them.
    pub(super) fn check_awaited(&mut self, w: &Warp, pc: u32, lanes: u32) {
        let early = lanes & w.unawaited;
        if early != 0 {
            self.find(FindingKind::BeforeGridWait, w, pc, early.trailing_zeros(), 0, || {
                "global memory is accessed before `griddepcontrol.wait`: an earlier grid may still write it"
                    .into()
            });
        }
    }

    /// Cuts lanes into groups by allocation; lanes outside every allocation become a finding. Counts the traffic.
    pub(super) fn global_groups(
        &mut self,
        w: &Warp,
        pc: u32,
        bytes: u32,
        addr: &Addrs,
        ok: u32,
        store: bool,
    ) -> Groups {
        self.check_awaited(w, pc, ok);
        let mut groups = Groups::default();
        let mut left = ok;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let cached = self.last_alloc;
            let mem = self.env.mem;
            let hit = |i: usize| mem.allocs.get(i).is_some_and(|a| addr[lane].wrapping_sub(a.base) < a.size);
            let found = if hit(cached) { Some(cached) } else { mem.find(addr[lane]) };
            let Some(ai) = found else {
                self.out_of_bounds(w, pc, lane as u32, addr[lane], bytes, store);
                left &= left - 1;
                continue;
            };
            self.last_alloc = ai;
            let (base, size) = (mem.allocs[ai].base, mem.allocs[ai].size);
            let room = size.saturating_sub(bytes as u64 - 1);
            let mut inside = 0u32;
            for (i, a) in addr.iter().enumerate() {
                inside |= ((a.wrapping_sub(base) < room) as u32) << i;
            }
            inside &= left;
            if inside >> lane & 1 == 0 {
                // The access starts in the allocation and runs over its end.
                self.out_of_bounds(w, pc, lane as u32, addr[lane], bytes, store);
                left &= left - 1;
                continue;
            }
            left &= !inside;
            let sectors = banks::sectors(addr, inside, bytes) as u64;
            let total = bytes as u64 * inside.count_ones() as u64;
            if self.traces(w) {
                let cost = Cost { cost: sectors as u32, least: sectors as u32, matrices: false };
                self.trace_request(w, pc, Some(ai), (addr, inside, bytes), cost);
            }
            self.counts.mem[pc as usize].global(ai as u32, sectors, total);
            groups.push(ai, inside);
        }
        groups
    }

    #[cold]
    fn out_of_bounds(&mut self, w: &Warp, pc: u32, lane: u32, addr: u64, bytes: u32, store: bool) {
        let mem = self.env.mem;
        let key = mem.allocs.partition_point(|a| a.base <= addr) as u64;
        let what = if store { "store" } else { "load" };
        self.find(FindingKind::OutOfBounds, w, pc, lane, key, || match mem.find(addr) {
            Some(i) => {
                let a = &mem.allocs[i];
                let off = addr - a.base;
                format!(
                    "{what} of {bytes} bytes at byte {off} (element {}) of `{}`, which has {} bytes, runs over its end",
                    off / bytes as u64,
                    a.name,
                    a.size
                )
            }
            None => {
                let below = key.checked_sub(1).map(|i| &mem.allocs[i as usize]);
                let index = below.map_or(String::new(), |a| {
                    format!(" (byte {}, element {} of `{}`)", addr - a.base, (addr - a.base) / bytes as u64, a.name)
                });
                let near = mem.nearest(addr).unwrap_or_else(|| "nothing is allocated".into());
                format!("{what} of {bytes} bytes out of bounds at {addr:#x}: {near}{index}")
            }
        });
    }

    pub(super) fn load_global(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, m: u32, ok: u32) {
        let groups = self.global_groups(w, pc, mem.reach(), addr, ok, false);
        let strong = mem.sem != Sem::Weak;
        if strong {
            self.observe_global(w, &groups, addr, mem.sem, mem.scope);
        }
        let bytes = mem.reach();
        let strength = w.strength(mem.sem).at(mem.scope);
        let l = Lanes { groups: &groups, addr, bytes, strength, write: false, values: &[] };
        self.check_global(w, pc, &l);
        let width = mem.width.min(4);
        let mut value = 0;
        for e in 0..mem.regs.len() {
            let used = mem.uses(e);
            for word in 0..mem.width.div_ceil(4) {
                if !used {
                    deliver(&mut w.regs, mem, e, word, &[UNUSED; 32], m);
                    continue;
                }
                let delta = (e as u32 * mem.width + word * 4) as u64;
                let mut v = [0; 32];
                for &(ai, lanes) in groups.iter() {
                    let a = &self.env.mem.allocs[ai];
                    for (i, v) in v.iter_mut().enumerate() {
                        if lanes >> i & 1 != 0 {
                            *v = a.load(addr[i] - a.base + delta, width);
                        }
                    }
                }
                deliver(&mut w.regs, mem, e, word, &v, m);
                if strong {
                    value = v.iter().fold(value, |h, v| mix(h, *v));
                }
            }
        }
        if strong {
            self.polled(w, pc, value, true);
        }
    }

    pub(super) fn store_global(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, ok: u32) {
        let groups = self.global_groups(w, pc, mem.bytes(), addr, ok, true);
        let strong = mem.sem != Sem::Weak;
        let words = mem.width.div_ceil(4);
        let values: Vec<Slot> = mem.regs.iter().flat_map(|r| *r..*r + words).collect();
        let bytes = mem.bytes();
        let strength = w.strength(mem.sem).at(mem.scope);
        let l = Lanes { groups: &groups, addr, bytes, strength, write: true, values: &values };
        self.check_global(w, pc, &l);
        if strong {
            self.publish_global(w, &groups, addr, mem.sem, mem.scope, false);
        }
        let width = mem.width.min(4);
        for (e, r) in mem.regs.iter().enumerate() {
            for word in 0..mem.width.div_ceil(4) {
                let delta = (e as u32 * mem.width + word * 4) as u64;
                let v = &w.regs.r[(r + word) as usize].0;
                for &(ai, lanes) in groups.iter() {
                    let a = &self.env.mem.allocs[ai];
                    for i in 0..32 {
                        if lanes >> i & 1 != 0 {
                            a.store(addr[i] - a.base + delta, width, v[i]);
                        }
                    }
                }
            }
        }
    }
}

/// Lanes by allocation; nearly always one group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    one: Option<(usize, u32)>,
    more: Vec<(usize, u32)>,
}

impl Groups {
    fn push(&mut self, alloc: usize, lanes: u32) {
        if self.one.is_none() {
            self.one = Some((alloc, lanes));
        } else {
            self.more.push((alloc, lanes));
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &(usize, u32)> {
        self.one.iter().chain(&self.more)
    }
}
