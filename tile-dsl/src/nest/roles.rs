//! Threads that do nothing but copy, and what the roles of a CTA are given.

use super::{
    Atom, CopyId, CopyLayout, CopyPart, Digit, Frame, Issue, LoopKind, Nest, Role, Steps, Stmt, ValueId,
    chain, leaves, threads,
};
use crate::machine::{Target, Unit};

/// Threads of a warp.
pub(crate) const WARP: u32 = 32;
/// Threads of a warpgroup.
pub(crate) const WARPGROUP: u32 = 4 * WARP;

impl Nest {
    /// CTAs of a cluster; 1 where there is none.
    pub fn cluster_ctas(&self) -> u32 {
        match self.cluster {
            Some(Digit { steps: Steps::Fixed(n), .. }) => n,
            _ => 1,
        }
    }

    /// CTAs that copy to one another: those of a cluster, unless they hold parts of a reduction, each with its own copies.
    pub fn copying_ctas(&self) -> u32 {
        if self.cluster_reduces() { 1 } else { self.cluster_ctas() }
    }

    /// Whether the CTAs of a cluster read the same box of a copy, and copy to one another.
    pub fn is_shared(&self, copy: CopyId) -> bool {
        let cluster = self.cluster.filter(|_| !self.cluster_reduces());
        let moved = |rank: Digit| self.copied_accesses(copy).iter().any(|a| a.axes().contains(&rank.axis));
        cluster.is_some_and(|rank| !moved(rank))
    }

    /// The part of a produced copy that each CTA of a cluster copies to all of them; `None` where each has its own box, or
    /// where it has no such parts.
    pub fn shared_part(&self, copy: CopyId, layout: &CopyLayout) -> Option<CopyPart> {
        let size = u64::from(self.elem(self.copy(copy).tensor).bytes());
        if self.is_shared(copy) { layout.shared_out(self.copying_ctas(), size) } else { None }
    }

    /// Whether a loop is one over tiles that CTAs have, the copies of which a producer makes (`produce`).
    pub fn is_produced_tile(&self, digit: Digit, at: LoopKind) -> bool {
        matches!(at, LoopKind::Unit(Unit::Block, _)) && self.produced.contains(&digit)
    }

    /// The copy after which the mbarriers of a channel are called: one for all channels of a producer that have copies in common,
    /// in one loop after another. The producer fills a stage again once it is free, whichever loop read it.
    pub fn ring(&self, copies: &[CopyId]) -> Option<CopyId> {
        let mut channels: Vec<Vec<CopyId>> = Vec::new();
        self.body.each(&mut |stmt| {
            if let Stmt::For { digit, body, .. } = stmt
                && self.produced.contains(digit)
            {
                let (copies, inner) = chain(body);
                for copies in self.in_channels(*digit, &copies, inner) {
                    if !copies.is_empty() && !channels.contains(&copies) {
                        channels.push(copies);
                    }
                }
            }
        });
        let mut together = copies.to_vec();
        let meets = |channel: &[CopyId], together: &[CopyId]| channel.iter().any(|c| together.contains(c));
        // As often as there are channels: each time another one may have been reached.
        for _ in 0..channels.len() {
            let reached: Vec<CopyId> =
                channels.iter().filter(|channel| meets(channel, &together)).flatten().copied().collect();
            together.extend(reached);
            together.sort_unstable();
            together.dedup();
        }
        let first = channels.iter().find(|channel| meets(channel, &together)).map_or(copies, |c| c);
        first.first().copied()
    }

    /// The copies directly inside the loops over a digit.
    pub fn copies_in(&self, digit: Digit) -> Vec<CopyId> {
        let mut found = Vec::new();
        leaves(&self.body, &mut |path, _| {
            for (n, _) in
                path.iter().enumerate().filter(|(_, f)| matches!(f, Frame::For(d, _) if *d == digit))
            {
                let inside = path[n + 1..].iter();
                let copies = inside.map_while(|f| if let Frame::Stage(c) = f { Some(*c) } else { None });
                copies.for_each(|c| {
                    if !found.contains(&c) {
                        found.push(c)
                    }
                });
            }
        });
        found
    }

    /// Who says that a stage of a produced loop has been read: a lane a warp, or each thread.
    pub fn arriving(&self, digit: Digit) -> Unit {
        self.arrive.get(&digit).copied().unwrap_or(Unit::Warp)
    }

    /// CTAs an SM that a kernel is bound to (`.minnctapersm`). Where roles share registers out, `ptxas` has to know how many each
    /// thread begins with. Without a bound it knows where the code takes so many that a second CTA finds none left on the SM; else
    /// it ignores `setmaxnreg` (C7508).
    pub fn resident(&self, target: Target) -> Option<u32> {
        let mut least = 0;
        leaves(&self.body, &mut |path, leaf| {
            if let Some(product) = self.product(path, leaf).filter(|p| p.atom.row().descriptors) {
                least = registers_of_product(product.atom).max(least);
            }
        });
        let threads = threads(self).saturating_mul(self.groups().into()) + u64::from(self.producing());
        let fit = two_ctas_fit(target, u32::try_from(threads).unwrap_or(u32::MAX), least);
        self.occupancy.or((self.registers.is_some() && fit).then_some(1))
    }

    /// Groups of the threads that compute: those that take tiles in turn, or one.
    pub fn groups(&self) -> u32 {
        self.pingpong.unwrap_or(1)
    }

    /// Whether the first products into a value overwrite it.
    pub fn overwrites(&self, value: ValueId) -> bool {
        self.issue.get(&value).is_some_and(|i| i.overwrite)
    }

    /// What a statement has in flight: the values that its products add to, and how many steps' products are not waited for.
    /// The engine has seen to it that all of its statements are such products.
    pub fn in_flight(&self, body: &Stmt) -> Option<(Vec<ValueId>, u32)> {
        let (mut values, mut steps) = (Vec::new(), 0);
        leaves(body, &mut |_, leaf| {
            if let Stmt::Red { value, .. } = leaf
                && let Some(Issue { in_flight: n @ 1.., .. }) = self.issue.get(value)
                && !values.contains(value)
            {
                values.push(*value);
                steps = *n;
            }
        });
        (steps > 0).then_some((values, steps))
    }

    /// Threads that copy beside those that compute.
    pub fn producing(&self) -> u32 {
        match self.producer {
            None => 0,
            Some(Unit::Warpgroup) => WARPGROUP,
            Some(_) => WARP,
        }
    }
}

/// Registers that the assembler wants beside the sums of a product by `wgmma` (ptxas 13.0, C7602), and has at least.
const MULTIPLYING: u32 = 26;

/// Registers of a thread that one product of a warpgroup takes: those of its sums, and those beside them.
pub(crate) fn registers_of_product(atom: Atom) -> u32 {
    atom.size(Role::N) * atom.size(Role::M) / WARPGROUP + MULTIPLYING
}

/// An SM's registers by threads, where so many CTAs of so many threads share them.
const fn share_of_registers(target: Target, threads: u32, ctas: u32) -> u32 {
    let threads = if threads == 0 { 1 } else { threads };
    let ctas = if ctas == 0 { 1 } else { ctas };
    target.resident_registers() / threads.saturating_mul(ctas)
}

/// Registers that each thread of a CTA of so many may take, where so many CTAs share an SM.
pub(crate) fn registers_of_thread(target: Target, threads: u32, ctas: u32) -> u32 {
    share_of_registers(target, threads, ctas).min(target.registers())
}

/// Registers that each thread of a CTA of so many starts with, where its roles share them out; `None` where each
/// thread has as many as one can address, and the assembler may give fewer. So many CTAs share an SM (`.minnctapersm`).
///
/// Source: PTX ISA 9.7.19.5 (`setmaxnreg`: registers come by eights).
pub fn registers_at_launch(target: Target, threads: u32, ctas: u32) -> Option<u32> {
    let each = share_of_registers(target, threads, ctas);
    (each <= target.registers()).then_some(each / 8 * 8)
}

/// Whether two CTAs of so many threads have room on an SM, as far as the registers show that a product takes of a thread.
pub(crate) fn two_ctas_fit(target: Target, threads: u32, product: u32) -> bool {
    registers_at_launch(target, threads, 2).is_none_or(|each| product <= each)
}
