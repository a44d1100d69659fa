//! Barriers between threads that write memory and threads that read it.
//!
//! A barrier is emitted before an access that conflicts with one since the last barrier, and at the end of a
//! loop whose next step would conflict with this one; nowhere else. Accesses of shared memory conflict whoever makes
//! them. Elements of a tensor that the kernel reads and stores have owners: where each is touched by one thread, and
//! always by the same, nobody waits.

use crate::{
    index::AxisId,
    kernel::Mem,
    machine::{Unit, UnitDim},
    nest::Spread,
};
use std::{collections::BTreeMap, collections::BTreeSet};

/// Which thread touches an element: one alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owners {
    /// How each axis is spread over units.
    pub spread: BTreeMap<AxisId, BTreeSet<Spread>>,
    /// Units of which the first coordinate acts for all.
    pub first: BTreeSet<(Unit, UnitDim)>,
}

/// An access of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Touch {
    pub mem: Mem,
    /// The one thread for each element; `None` where any thread may touch any element.
    pub owners: Option<Owners>,
}

impl Touch {
    pub fn shared(buffer: u32) -> Self {
        Touch { mem: Mem::Shared(buffer), owners: None }
    }

    fn conflicts(&self, other: &Touch) -> bool {
        self.mem == other.mem && (self.owners.is_none() || self.owners != other.owners)
    }

    fn conflicts_any(&self, others: &BTreeSet<Touch>) -> bool {
        others.iter().any(|other| self.conflicts(other))
    }
}

/// Accesses since the last barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Sync {
    reads: BTreeSet<Touch>,
    writes: BTreeSet<Touch>,
    /// Buffers touched in each enclosing loop at run time, outermost first.
    loops: Vec<Touched>,
}

#[derive(Clone, Debug, Default)]
struct Touched {
    reads: BTreeSet<Touch>,
    writes: BTreeSet<Touch>,
    before: (BTreeSet<Touch>, BTreeSet<Touch>),
}

impl Sync {
    /// Enclosing loops at run time.
    pub fn depth(&self) -> usize {
        self.loops.len()
    }

    /// Records a write that the outermost `loops` repeat on the same elements; in loops further inside each
    /// thread writes elements of its own. True if a barrier must come first.
    #[must_use]
    pub fn write(&mut self, touch: Touch, loops: usize) -> bool {
        let conflict = touch.conflicts_any(&self.reads) || touch.conflicts_any(&self.writes);
        if conflict {
            self.barrier();
        }
        for around in &mut self.loops[..loops] {
            around.writes.insert(touch.clone());
        }
        self.writes.insert(touch);
        conflict
    }

    /// Records an asynchronous copy, in each step of the outermost `loops`: who reads what it wrote waits for the
    /// copy, not for the thread that issued it. True if a barrier must come first.
    #[must_use]
    pub fn fill(&mut self, touch: Touch, loops: usize) -> bool {
        let conflict = self.write(touch.clone(), loops);
        self.writes.remove(&touch);
        conflict
    }

    /// Whether a buffer was written since the last barrier.
    pub fn is_written(&self, mem: Mem) -> bool {
        self.writes.iter().any(|w| w.mem == mem)
    }

    /// Records a read; true if a barrier must come first.
    #[must_use]
    pub fn read(&mut self, touch: Touch) -> bool {
        let conflict = touch.conflicts_any(&self.writes);
        if conflict {
            self.barrier();
        }
        for around in &mut self.loops {
            around.reads.insert(touch.clone());
        }
        self.reads.insert(touch);
        conflict
    }

    /// Another way through the program may have been taken, in the same loops.
    pub fn or(&mut self, other: Sync) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        for (own, other) in self.loops.iter_mut().zip(other.loops) {
            own.reads.extend(other.reads);
            own.writes.extend(other.writes);
        }
    }

    /// All threads have passed a barrier.
    pub fn barrier(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    /// Enters a loop.
    pub fn enter(&mut self) {
        let before = (self.reads.clone(), self.writes.clone());
        self.loops.push(Touched { before, ..Touched::default() });
    }

    /// Ends the body of a loop; true if a barrier must end each step.
    /// `synchronised`: each step starts with a barrier.
    #[must_use]
    pub fn leave(&mut self, synchronised: bool) -> bool {
        let touched = self.loops.pop().expect("a loop was entered");
        let conflict = !synchronised
            && (self.reads.iter().any(|r| r.conflicts_any(&touched.writes))
                || self
                    .writes
                    .iter()
                    .any(|w| w.conflicts_any(&touched.reads) || w.conflicts_any(&touched.writes)));
        if conflict {
            self.barrier();
        }
        // No step may have run.
        self.reads.extend(touched.before.0);
        self.writes.extend(touched.before.1);
        conflict
    }
}
