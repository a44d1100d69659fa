//! What CTAs of a cluster read of one another's shared memory: written when it is read, and there until it has been.
//!
//! ```text
//! store b ..; cluster_barrier; peer .. = b; cluster arrive; ..; cluster wait
//! ```
//! Between a store to a buffer and a peer's load of it all threads of the cluster meet, and they meet again before the
//! bytes are written once more or the kernel ends: shared memory goes with its CTA (PTX ISA 3.2.2). What is done between an
//! arrival and its wait belongs to neither side. All threads of a cluster come to each of these barriers, so they stand in
//! no loop and no branch, and each role has the same. [`check`] finds a kernel without one of these.

use super::{Async, Kernel, Mem, Stmt};
use std::collections::BTreeSet;

type Buffers = BTreeSet<u32>;

/// Checks that peers' loads are ordered.
pub(super) fn check(kernel: &Kernel) -> Result<(), String> {
    if kernel.cluster.is_none() {
        return Ok(());
    }
    let mut at = State {
        rivals: kernel.rivals(),
        fresh: (0..kernel.shared.len() as u32).collect(),
        ..State::default()
    };
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
    match at.read.union(&at.leaving).next() {
        Some(buffer) => Err(named((*buffer, "may be gone before other CTAs have read it"))),
        None if at.arrived => Err("an arrival at the cluster's barrier that nothing waits for".into()),
        None => Ok(()),
    }
}

/// What may be, at a point of the program.
#[derive(Debug, Default)]
struct State {
    /// Of each buffer those in its bytes.
    rivals: Vec<Vec<u32>>,
    /// Buffers that may have been written since the cluster met.
    fresh: Buffers,
    /// Those among them that were written before the last arrival.
    landing: Buffers,
    /// Buffers that peers may read, since the last arrival and before it.
    read: Buffers,
    leaving: Buffers,
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
            Stmt::ClusterBarrier => {
                self.arrive()?;
                self.wait()
            }
            Stmt::ClusterArrive => self.arrive(),
            Stmt::ClusterWait => self.wait(),
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

    fn arrive(&mut self) -> Result<(), Wrong> {
        if std::mem::replace(&mut self.arrived, true) {
            return Err(Wrong::Order("two arrivals at the cluster's barrier without a wait"));
        }
        self.landing = std::mem::take(&mut self.fresh);
        self.leaving = std::mem::take(&mut self.read);
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Wrong> {
        if !std::mem::replace(&mut self.arrived, false) {
            return Err(Wrong::Order("a wait for the cluster without an arrival"));
        }
        self.landing.clear();
        self.leaving.clear();
        Ok(())
    }

    fn inside(&mut self, stmt: &Stmt) -> Result<(), Wrong> {
        match stmt {
            barrier if meets(barrier) => return Err(Wrong::Barrier),
            Stmt::LoadPeer { shared, .. } => {
                if self.fresh.contains(shared) || self.landing.contains(shared) {
                    return Err(Wrong::Buffer(*shared, "is read by other CTAs that may come too early"));
                }
                self.read.insert(*shared);
            }
            other => {
                if let Some(buffer) = written(other) {
                    self.write(buffer)?;
                }
            }
        }
        // What a step leaves, the next one finds.
        let steps = if matches!(stmt, Stmt::For { .. }) { 2 } else { 1 };
        for _ in 0..steps {
            stmt.blocks().into_iter().flatten().try_for_each(|inner| self.inside(inner))?;
        }
        Ok(())
    }

    fn write(&mut self, buffer: u32) -> Result<(), Wrong> {
        let rivals = self.rivals.get(buffer as usize).into_iter().flatten().copied();
        let late = |b: &u32| self.read.contains(b) || self.leaving.contains(b);
        match rivals.chain([buffer]).find(late) {
            Some(read) => Err(Wrong::Buffer(read, "is overwritten while other CTAs may read it")),
            None => {
                self.fresh.insert(buffer);
                Ok(())
            }
        }
    }
}

/// The shared buffer that a statement writes.
fn written(stmt: &Stmt) -> Option<u32> {
    match stmt {
        Stmt::Store { mem: Mem::Shared(buffer), .. } => Some(*buffer),
        Stmt::CopyAsync { shared, .. }
        | Stmt::StoreMatrices { shared, .. }
        | Stmt::Async(Async::Copy { shared, .. }) => Some(*shared),
        _ => None,
    }
}
