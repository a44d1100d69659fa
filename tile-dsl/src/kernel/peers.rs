//! What CTAs of a cluster store into one another's shared memory: it is there and free when they do, and has arrived when its
//! owner reads it.
//!
//! ```text
//! cluster arrive; ..; cluster wait; peer b = ..; cluster_barrier; .. = b      // nothing has used the bytes of b before
//! .. bytes of b ..; cluster_barrier; peer b = ..; cluster_barrier; .. = b
//! ```
//! Before a store all threads of the cluster have arrived at a barrier, or that CTA may not run yet (CUDA C++ Programming
//! Guide, distributed shared memory), and they have met since it accessed those bytes, copies on their way to it included. They meet once more
//! before it accesses them again, and before the kernel ends: shared memory goes with its CTA (PTX ISA 3.2.2). An arrival
//! alone is relaxed: it says that a thread runs, and orders nothing. What is done between an arrival and its
//! wait belongs to neither side. All threads of a cluster come to each of these barriers, so they stand in
//! no loop and no branch, and each role has the same. [`check`] finds a kernel without one of these.

use super::{Kernel, Stmt, lives::accesses};
use std::collections::BTreeSet;

type Buffers = BTreeSet<u32>;

/// Checks that stores to peers are ordered.
pub(super) fn check(kernel: &Kernel) -> Result<(), String> {
    if kernel.cluster.is_none() {
        return Ok(());
    }
    let mut at = State { rivals: kernel.rivals(), ..State::default() };
    let named = |(buffer, what): (u32, &str)| {
        let name = kernel.shared.get(buffer as usize).map_or("?", |s| s.name.as_str());
        format!("shared buffer `{name}` {what}")
    };
    let wrong = |wrong| match wrong {
        Wrong::Buffer(buffer, what) => named((buffer, what)),
        Wrong::Barrier => "a barrier of the cluster that some of its threads may not reach".into(),
        Wrong::Order(what) => what.into(),
    };
    for stmt in &kernel.body {
        match stmt {
            Stmt::Roles(roles) => {
                let bodies: Vec<&[Stmt]> = roles.iter().map(|role| role.body.as_slice()).collect();
                at.side_by_side(bodies).map_err(wrong)?;
            }
            other => at.next(other).map_err(wrong)?,
        }
    }
    match at.sent.first() {
        Some(buffer) => Err(named((*buffer, "may be gone before other CTAs have stored into it"))),
        None if at.arrived => Err("an arrival at the cluster's barrier that nothing waits for".into()),
        None => Ok(()),
    }
}

/// What may be, at a point of the program.
#[derive(Debug, Default)]
struct State {
    /// Of each buffer those in its bytes.
    rivals: Vec<Vec<u32>>,
    /// All threads of the cluster have come to a barrier.
    running: bool,
    /// Buffers that their CTA may have accessed since the cluster met.
    used: Buffers,
    /// Those to which asynchronous copies of its threads may be on their way.
    flying: Buffers,
    /// Buffers into which peers may have stored since.
    sent: Buffers,
    /// Between an arrival and its wait.
    arrived: bool,
}

enum Wrong {
    Buffer(u32, &'static str),
    Barrier,
    Order(&'static str),
}

/// Whether the cluster's threads meet here.
fn meets(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::ClusterBarrier | Stmt::ClusterArrive | Stmt::ClusterWait)
}

impl State {
    /// A statement that all threads come to.
    fn next(&mut self, stmt: &Stmt) -> Result<(), Wrong> {
        match stmt {
            Stmt::ClusterBarrier | Stmt::ClusterArrive if self.arrived => {
                Err(Wrong::Order("two arrivals at the cluster's barrier without a wait"))
            }
            Stmt::ClusterBarrier => {
                self.running = true;
                self.used.clear();
                self.sent.clear();
                Ok(())
            }
            Stmt::ClusterArrive => {
                self.arrived = true;
                Ok(())
            }
            Stmt::ClusterWait if !self.arrived => {
                Err(Wrong::Order("a wait for the cluster without an arrival"))
            }
            Stmt::ClusterWait => {
                (self.arrived, self.running) = (false, true);
                Ok(())
            }
            // Of all threads: in a branch some might not wait.
            Stmt::WaitGroup(0) => {
                self.used.append(&mut self.flying);
                Ok(())
            }
            other => self.inside(other),
        }
    }

    /// Roles: what stands between the same two barriers happens in any order.
    fn side_by_side(&mut self, mut bodies: Vec<&[Stmt]>) -> Result<(), Wrong> {
        loop {
            let mut barriers = BTreeSet::new();
            for body in &mut bodies {
                let until = body.iter().position(meets).unwrap_or(body.len());
                body[..until].iter().try_for_each(|stmt| self.inside(stmt))?;
                barriers.insert(body.get(until).map(|stmt| match stmt {
                    Stmt::ClusterBarrier => 0,
                    Stmt::ClusterArrive => 1,
                    _ => 2,
                }));
                *body = body.get(until..).unwrap_or_default();
            }
            if barriers.len() > 1 {
                return Err(Wrong::Barrier);
            }
            let Some(barrier) = bodies.first().and_then(|body| body.first()) else { return Ok(()) };
            self.next(barrier)?;
            bodies.iter_mut().for_each(|body| *body = &body[1..]);
        }
    }

    fn inside(&mut self, stmt: &Stmt) -> Result<(), Wrong> {
        match stmt {
            barrier if meets(barrier) => return Err(Wrong::Barrier),
            Stmt::StorePeer { shared, .. } => self.store(*shared)?,
            own => {
                accesses(own).into_iter().try_for_each(|buffer| self.access(buffer))?;
                if let Stmt::CopyAsync { shared, .. } = own {
                    self.flying.insert(*shared);
                }
            }
        }
        // What a step leaves, the next one finds.
        let steps = if matches!(stmt, Stmt::For { .. } | Stmt::While { .. }) { 2 } else { 1 };
        for _ in 0..steps {
            stmt.blocks().into_iter().flatten().try_for_each(|inner| self.inside(inner))?;
        }
        Ok(())
    }

    fn in_its_bytes(&self, buffer: u32) -> impl Iterator<Item = u32> + '_ {
        self.rivals.get(buffer as usize).into_iter().flatten().copied().chain([buffer])
    }

    /// Others store into their peers' buffer as this CTA does.
    fn store(&mut self, buffer: u32) -> Result<(), Wrong> {
        if !self.running {
            return Err(Wrong::Buffer(buffer, "is stored into by other CTAs before this one may run"));
        }
        let own = |b: &u32| self.used.contains(b) || self.flying.contains(b);
        let others = |b: &u32| *b != buffer && self.sent.contains(b);
        if self.in_its_bytes(buffer).any(|b| own(&b) || others(&b)) {
            return Err(Wrong::Buffer(buffer, "is stored into by other CTAs while its bytes may be in use"));
        }
        self.sent.insert(buffer);
        Ok(())
    }

    fn access(&mut self, buffer: u32) -> Result<(), Wrong> {
        let sent = self.in_its_bytes(buffer).find(|b| self.sent.contains(b));
        if let Some(sent) = sent {
            return Err(Wrong::Buffer(sent, "is accessed before what other CTAs store has arrived"));
        }
        self.used.insert(buffer);
        Ok(())
    }
}
