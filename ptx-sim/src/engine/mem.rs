//! Addresses, the split of generic accesses by window, and the loads of small spaces.

use super::{Engine, Warp};
use crate::alu::exec::{Regs, combine, compare, put_pred};
use crate::findings::FindingKind;
use crate::kernel::*;
use crate::op::*;

/// One address per lane.
pub(super) type Addrs = [u64; 32];

pub(super) fn addresses(regs: &Regs, globals: &[u64], a: &Addr) -> Addrs {
    let off = a.global.map_or(0, |g| globals[g as usize]).wrapping_add(a.off as u64);
    match a.reg {
        None => [off; 32],
        Some(r) if a.wide => regs.get64(r).map(|x| x.wrapping_add(off)),
        Some(r) => regs.r[r as usize].0.map(|x| x.wrapping_add(off as u32) as u64),
    }
}

/// Which window a generic address is in, and the address within it.
pub(super) fn classify(addr: u64) -> (MSpace, u64) {
    if addr < SHARED_WINDOW {
        (MSpace::Global, addr)
    } else if addr < SHARED_WINDOW + WINDOW {
        (MSpace::Shared, addr - SHARED_WINDOW)
    } else if addr < LOCAL_WINDOW + WINDOW {
        (MSpace::Local, addr - LOCAL_WINDOW)
    } else if addr < PARAM_WINDOW + WINDOW {
        (MSpace::Param, addr - PARAM_WINDOW)
    } else {
        (MSpace::Global, addr)
    }
}

/// Writes one 32-bit-word column of a loaded element, extending narrow values to the register.
pub(super) fn deliver(regs: &mut Regs, mem: &Mem, elem: usize, word: u32, v: &[u32; 32], m: u32) {
    let slot = mem.regs[elem];
    if slot == SINK {
        return;
    }
    if mem.width >= 4 {
        regs.put(slot + word, v, m);
        if mem.width == 4 && mem.slots == 2 {
            regs.put(slot + 1, &v.map(|x| if mem.signed { ((x as i32) >> 31) as u32 } else { 0 }), m);
        }
        return;
    }
    let shift = 32 - 8 * mem.width;
    let v = v.map(|x| if mem.signed { (((x << shift) as i32) >> shift) as u32 } else { x });
    regs.put(slot, &v, m);
    if mem.slots == 2 {
        regs.put(slot + 1, &v.map(|x| if mem.signed { ((x as i32) >> 31) as u32 } else { 0 }), m);
    }
}

/// Lanes of `m` whose address is a multiple of the access width.
pub(super) fn aligned(addr: &Addrs, m: u32, bytes: u32) -> u32 {
    let low = bytes as u64 - 1;
    let mut all = 0u64;
    let mut bad = 0u32;
    for (i, a) in addr.iter().enumerate() {
        if m >> i & 1 != 0 {
            all |= a & low;
        }
    }
    if all != 0 {
        for (i, a) in addr.iter().enumerate() {
            bad |= ((a & low != 0) as u32) << i;
        }
    }
    m & !bad
}

/// What registers get for bytes of a load that a pragma calls unused: a NaN, so that a use shows.
pub(super) const UNUSED: u32 = !0;

impl Engine<'_> {
    pub(super) fn load(&mut self, w: &mut Warp, pc: u32, mem: &Mem, m: u32) {
        if mem.space == MSpace::Param {
            return self.load_param(w, pc, mem, m);
        }
        let addr = self.lane_addresses(w, &mem.addr, mem.space);
        self.load_at(w, pc, mem, &addr, m);
    }

    /// A load from other addresses than the operand's.
    pub(super) fn load_at(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, m: u32) {
        self.by_space(w, pc, mem.space, mem.bytes(), addr, m, |e, w, space, addr, m, ok| match space {
            MSpace::Global => e.load_global(w, pc, mem, addr, m, ok),
            MSpace::Shared => e.load_shared(w, pc, mem, addr, m, ok),
            MSpace::Local => e.load_local(w, pc, mem, addr, m, ok),
            _ => {
                for i in (0..32).filter(|i| m >> i & 1 != 0) {
                    e.load_param_at(w, pc, mem, addr[i], 1 << i);
                }
            }
        });
    }

    pub(super) fn store(&mut self, w: &mut Warp, pc: u32, mem: &Mem, m: u32) {
        let addr = self.lane_addresses(w, &mem.addr, mem.space);
        self.store_at(w, pc, mem, &addr, m);
    }

    pub(super) fn store_at(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, m: u32) {
        self.by_space(w, pc, mem.space, mem.bytes(), addr, m, |e, w, space, addr, _, ok| {
            // Nobody else waits for what a thread keeps in local memory.
            e.events += (space != MSpace::Local) as u64;
            match space {
                MSpace::Global => e.store_global(w, pc, mem, addr, ok),
                MSpace::Shared => e.store_shared(w, pc, mem, addr, ok),
                MSpace::Local => e.store_local(w, pc, mem, addr, ok),
                _ => e.find(FindingKind::BadAddress, w, pc, ok.trailing_zeros(), 0, || {
                    "store to a kernel parameter: parameters are read-only".into()
                }),
            }
        });
    }

    /// Checks alignment, sorts generic addresses into windows and calls `f(lanes, aligned lanes)` for each.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn by_space(
        &mut self,
        w: &mut Warp,
        pc: u32,
        space: MSpace,
        bytes: u32,
        addr: &Addrs,
        m: u32,
        mut f: impl FnMut(&mut Self, &mut Warp, MSpace, &Addrs, u32, u32),
    ) {
        let ok = aligned(addr, m, bytes);
        if ok != m {
            let lane = (m & !ok).trailing_zeros();
            let a = addr[lane as usize];
            self.find(FindingKind::Misaligned, w, pc, lane, 0, || {
                format!("address {a:#x} is not a multiple of the access's {bytes} bytes")
            });
        }
        if space == MSpace::Shared {
            return self.by_rank(w, pc, addr, m, ok, &mut f);
        }
        if space != MSpace::Generic {
            return f(self, w, space, addr, m, ok);
        }
        let mut left = m;
        while left != 0 {
            let (space, _) = classify(addr[left.trailing_zeros() as usize]);
            let (mut same, mut local) = (0, *addr);
            for i in 0..32 {
                let (s, a) = classify(addr[i]);
                if left >> i & 1 != 0 && s == space {
                    same |= 1 << i;
                    local[i] = a;
                }
            }
            left &= !same;
            if space == MSpace::Shared {
                self.by_rank(w, pc, &local, same, ok & same, &mut f);
            } else {
                f(self, w, space, &local, same, ok & same);
            }
        }
    }

    /// Lanes by the CTA of the cluster whose shared memory they address.
    fn by_rank(
        &mut self,
        w: &mut Warp,
        pc: u32,
        addr: &Addrs,
        m: u32,
        ok: u32,
        f: &mut impl FnMut(&mut Self, &mut Warp, MSpace, &Addrs, u32, u32),
    ) {
        let mut left = m;
        while left != 0 {
            let lane = left.trailing_zeros();
            let rank = addr[lane as usize] >> 24 & 0xff;
            let same = (0..32).fold(0, |s, i| s | ((addr[i] >> 24 & 0xff == rank) as u32) << i) & left;
            left &= !same;
            self.target = rank as usize;
            if self.ctas.get(self.target).is_none_or(|c| c.live_threads == 0) {
                self.target = w.cta as usize;
                self.find(FindingKind::SharedOutOfBounds, w, pc, lane, rank, || {
                    format!("addresses the shared memory of CTA {rank} of the cluster, which does not exist or has exited")
                });
                f(self, w, MSpace::Shared, addr, same, 0);
                continue;
            }
            f(self, w, MSpace::Shared, addr, same, ok & same);
        }
    }

    /// Addresses of the lanes; a symbol in shared memory is this CTA's.
    pub(super) fn lane_addresses(&self, w: &Warp, a: &Addr, space: MSpace) -> Addrs {
        let addr = addresses(&w.regs, &self.env.globals, a);
        let own = match (a.reg, space) {
            (None, MSpace::Shared) => w.cta << 24,
            (None, MSpace::Generic) if classify(addr[0]).0 == MSpace::Shared => w.cta << 24,
            _ => 0,
        };
        if own == 0 { addr } else { addr.map(|x| x + own as u64) }
    }

    fn load_param(&mut self, w: &mut Warp, pc: u32, mem: &Mem, m: u32) {
        match mem.addr.reg {
            None => self.load_param_at(w, pc, mem, mem.addr.off as u64, m),
            Some(_) => {
                let addr = addresses(&w.regs, &self.env.globals, &mem.addr);
                for i in (0..32).filter(|i| m >> i & 1 != 0) {
                    self.load_param_at(w, pc, mem, addr[i], 1 << i);
                }
            }
        }
    }

    fn load_param_at(&mut self, w: &mut Warp, pc: u32, mem: &Mem, off: u64, m: u32) {
        let p = &self.env.params;
        let size = mem.bytes() as u64;
        if off.checked_add(size).is_none_or(|end| end > p.len() as u64) {
            let n = p.len();
            return self.find(FindingKind::BadAddress, w, pc, m.trailing_zeros(), 0, || {
                format!("{size} bytes at offset {off} of the parameters, which have {n} bytes")
            });
        }
        for e in 0..mem.regs.len() {
            for word in 0..mem.width.div_ceil(4) {
                let at = off as usize + e * mem.width as usize + word as usize * 4;
                let n = (mem.width as usize).min(4);
                let mut b = [0u8; 4];
                b[..n].copy_from_slice(&self.env.params[at..at + n]);
                deliver(&mut w.regs, mem, e, word, &[u32::from_le_bytes(b); 32], m);
            }
        }
    }

    /// Lanes whose local access is inside the thread's local memory.
    fn local_in_bounds(&mut self, w: &Warp, pc: u32, bytes: u32, addr: &Addrs, ok: u32) -> u32 {
        let size = self.k.info.local_bytes as u64;
        let mut good = 0;
        for (i, a) in addr.iter().enumerate() {
            good |= ((a.checked_add(bytes as u64).is_some_and(|e| e <= size)) as u32) << i;
        }
        if ok & !good != 0 {
            let lane = (ok & !good).trailing_zeros();
            let a = addr[lane as usize];
            self.find(FindingKind::LocalOutOfBounds, w, pc, lane, 0, || {
                format!("{bytes} bytes at offset {a} of the thread's {size} bytes of local memory")
            });
        }
        ok & good
    }

    fn load_local(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, m: u32, ok: u32) {
        let ok = self.local_in_bounds(w, pc, mem.bytes(), addr, ok);
        for e in 0..mem.regs.len() {
            for word in 0..mem.width.div_ceil(4) {
                let mut v = [0; 32];
                for i in (0..32).filter(|i| ok >> i & 1 != 0) {
                    let at = addr[i] as usize + e * mem.width as usize + word as usize * 4;
                    let x = w.local[at / 4 * 32 + i] >> (8 * (at % 4));
                    v[i] = if mem.width < 4 { x & ((1 << (8 * mem.width)) - 1) } else { x };
                }
                deliver(&mut w.regs, mem, e, word, &v, m);
            }
        }
    }

    fn store_local(&mut self, w: &mut Warp, pc: u32, mem: &Mem, addr: &Addrs, ok: u32) {
        let ok = self.local_in_bounds(w, pc, mem.bytes(), addr, ok);
        for (e, r) in mem.regs.iter().enumerate() {
            for word in 0..mem.width.div_ceil(4) {
                for i in (0..32).filter(|i| ok >> i & 1 != 0) {
                    let at = addr[i] as usize + e * mem.width as usize + word as usize * 4;
                    let v = w.regs.r[(r + word) as usize].0[i];
                    let slot = &mut w.local[at / 4 * 32 + i];
                    if mem.width >= 4 {
                        *slot = v;
                    } else {
                        let (sh, mask) = (8 * (at % 4) as u32, (1u32 << (8 * mem.width)) - 1);
                        *slot = (*slot & !(mask << sh)) | (v & mask) << sh;
                    }
                }
            }
        }
    }
}

/// Register-only instructions outside the vector loop.
pub(super) fn odd_alu(r: &mut Regs, op: &Op, m: u32) {
    match op {
        Op::Set { cmp, ty, ftz, float, d, a, b, bop, c, has_c } => {
            let t = compare(r, *cmp, *ty, *ftz, *a, *b);
            let t = if *has_c { combine(*bop, t, c.lanes(&r.p)) } else { t };
            let yes = if *float { 1f32.to_bits() } else { !0 };
            r.put(*d, &std::array::from_fn(|i| if t >> i & 1 != 0 { yes } else { 0 }), m);
        }
        Op::Slct { slots, float, d, a, b, c } => {
            let x = r.r[*c as usize].0;
            let t = |i: usize| if *float { f32::from_bits(x[i]) >= 0.0 } else { x[i] as i32 >= 0 };
            for k in 0..*slots {
                let (p, q) = (r.r[(a + k) as usize].0, r.r[(b + k) as usize].0);
                r.put(d + k, &std::array::from_fn(|i| if t(i) { p[i] } else { q[i] }), m);
            }
        }
        Op::Carry { sub, wide, cin, cout, cc, d, a, b } => {
            let carry = if *cin { r.p[*cc as usize] } else { 0 };
            let wide_of = |s: Slot| if *wide { r.get64(s) } else { r.r[s as usize].0.map(u64::from) };
            let (x, y) = (wide_of(*a), wide_of(*b));
            let bits = if *wide { 64 } else { 32 };
            let (mut out, mut flags) = ([0u64; 32], 0u32);
            for i in 0..32 {
                let c = (carry >> i & 1) as u128;
                let (p, q) = (x[i] as u128, y[i] as u128);
                let v = if *sub { p.wrapping_sub(q + c) } else { p + q + c };
                out[i] = v as u64;
                flags |= ((v >> bits & 1) as u32) << i;
            }
            if *wide {
                r.put64(*d, &out, m);
            } else {
                r.put(*d, &out.map(|v| v as u32), m);
            }
            if *cout {
                put_pred(r, *cc, flags, m);
            }
        }
        Op::MadCarry { hi, signed, wide, cin, cout, cc, d, a, b, c } => {
            let carry = if *cin { r.p[*cc as usize] } else { 0 };
            let wide_of = |s: Slot| if *wide { r.get64(s) } else { r.r[s as usize].0.map(u64::from) };
            let (x, y, z) = (wide_of(*a), wide_of(*b), wide_of(*c));
            let bits = if *wide { 64 } else { 32 };
            let extended = |v: u64| match (*signed, *wide) {
                (false, _) => v as i128,
                (true, true) => v as i64 as i128,
                (true, false) => v as u32 as i32 as i128,
            };
            let (mut out, mut flags) = ([0u64; 32], 0u32);
            for i in 0..32 {
                let product = extended(x[i]).wrapping_mul(extended(y[i])) as u128;
                let half = (product >> if *hi { bits } else { 0 }) & ((1 << bits) - 1);
                let v = half + z[i] as u128 + (carry >> i & 1) as u128;
                out[i] = v as u64;
                flags |= ((v >> bits & 1) as u32) << i;
            }
            if *wide {
                r.put64(*d, &out, m);
            } else {
                r.put(*d, &out.map(|v| v as u32), m);
            }
            if *cout {
                put_pred(r, *cc, flags, m);
            }
        }
        Op::Unpack { from, width, regs } => {
            let words: Vec<[u32; 32]> =
                (0..(width * regs.len() as u32).div_ceil(32)).map(|k| r.r[(from + k) as usize].0).collect();
            for (e, d) in regs.iter().enumerate() {
                if *d == SINK {
                    continue;
                }
                let bit = e as u32 * width;
                let word = words[(bit / 32) as usize];
                match width {
                    64 => {
                        r.put(*d, &word, m);
                        r.put(d + 1, &words[(bit / 32) as usize + 1], m);
                    }
                    32 => r.put(*d, &word, m),
                    _ => r.put(*d, &word.map(|x| x >> (bit % 32) & ((1 << width) - 1)), m),
                }
            }
        }
        Op::Pack { d, width, regs } => {
            let total = (width * regs.len() as u32).div_ceil(32);
            let mut words = vec![[0u32; 32]; total as usize];
            for (e, s) in regs.iter().enumerate() {
                let bit = e as u32 * width;
                let v = r.r[*s as usize].0;
                if *width == 64 {
                    words[(bit / 32) as usize] = v;
                    words[(bit / 32) as usize + 1] = r.r[*s as usize + 1].0;
                } else {
                    let mask = if *width == 32 { !0 } else { (1u32 << width) - 1 };
                    for i in 0..32 {
                        words[(bit / 32) as usize][i] |= (v[i] & mask) << (bit % 32);
                    }
                }
            }
            for (k, v) in words.iter().enumerate() {
                r.put(d + k as u32, v, m);
            }
        }
        Op::Isspacep { space, d, a } => {
            let x = r.get64(*a);
            let t = (0..32).fold(0, |t, i| t | ((classify(x[i]).0 == *space) as u32) << i);
            put_pred(r, *d, t, m);
        }
        _ => {}
    }
}
